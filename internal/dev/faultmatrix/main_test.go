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
	log.SetOutput(io.Discard)                                // net/http complains there of servers that break the rules
	if err := flag.Set("test.parallel", "128"); err != nil { // cells wait for sockets more than for a processor
		panic(err)
	}
	debug.SetGCPercent(400) // the heap is small, so that the collector would run without end
	goleak.VerifyTestMain(m)
}
