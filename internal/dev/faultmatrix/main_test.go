package faultmatrix

import (
	"flag"
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)                               // net/http complains there of servers that break the rules
	if err := flag.Set("test.parallel", "48"); err != nil { // cells wait for sockets more than for a processor
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
