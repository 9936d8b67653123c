package main

import (
	"fmt"
	"math"
	"runtime"
	"strings"
)

// bar is a limit that the SDK must hold.
type bar struct {
	work, what string
	value      float64
	limit      float64
	least      bool // the limit is the least, not the most
	unit       string
	spread     string // of the value; empty where it is exact
}

const mebibyte = 1 << 20

// held compares what is shown, to two decimals.
func (b bar) held() bool {
	value := math.Round(b.value*100) / 100
	if b.least {
		return value >= b.limit
	}
	return value <= b.limit
}

func (b bar) String() string {
	verdict, sign := "MISS", "<="
	if b.held() {
		verdict = "PASS"
	}
	if b.least {
		sign = ">="
	}
	return fmt.Sprintf("| %s | %s | %.2f%s | %s | %s %.2f%s | %s |\n",
		b.work, b.what, b.value, b.unit, b.spread, sign, b.limit, b.unit, verdict)
}

// timed is a bar for a value with a spread, in a unit.
func timed(work, what string, s spread, unit, limit float64, name string) bar {
	between := fmt.Sprintf("%.2f to %.2f", s.low/unit, s.high/unit)
	return bar{work: work, what: what, value: s.value / unit, limit: limit, unit: name, spread: between}
}

// release is the index of the bars for the Go release that runs this.
func release() int {
	if strings.HasPrefix(runtime.Version(), "go1.26") {
		return 0
	}
	return 1
}

func (r *report) bars() []bar {
	faster := func(n int, limit float64) bar {
		what := fmt.Sprintf("Prefetch %d over 0", n)
		b := timed("all of 50 pages, 20 ms latency", what, r.faster[n], 1, limit, " x faster")
		b.least = true
		return b
	}
	const large = "upload of 256 MiB"
	return append(r.requestBars(),
		faster(2, 1.9), faster(4, 3.3), faster(8, 5.4),
		timed(large, "peak memory over idle, from cold", r.uploads["sdk"].resident, mebibyte, 2, " MiB"),
		timed(large, "time", r.uploads["sdk"].time, 1, 1.05, " x raw POST"),
	)
}
