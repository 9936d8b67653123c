package faultmatrix

import (
	"flag"
	"io"
	"log"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)                                  // net/http complains there of servers that break the rules
	if err := flag.Set("test.parallel", "10000"); err != nil { // runCell says how many are busy at once
		panic(err)
	}
	debug.SetGCPercent(400) // the heap is small, so that the collector would run without end
	goleak.VerifyTestMain(m)
}
