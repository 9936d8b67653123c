package integration

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	waitFor  = flag.Duration("wait", 5*time.Minute, "how long the processing of one note may take")
	gapsJSON = flag.String("json", "", "file to write the gap report to as JSON")
	gapsHTML = flag.String("html", "", "file to write the gap report to as one page")
	against  = flag.String("against", "", "gap report as JSON; fail where the service does otherwise now")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)                                // the heap is small, so that the collector would run without end
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait for sockets
		panic(err)
	}
	goleak.VerifyTestMain(withReport{m})
}

// withReport prints the gap report when the tests are over.
type withReport struct{ tests *testing.M }

func (w withReport) Run() int {
	code := w.tests.Run()
	if err := publishReport(); err != nil {
		fmt.Fprintln(os.Stderr, "the gap report could not be written:", err)
		return max(code, 1)
	}
	return code
}
