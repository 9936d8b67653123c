package main

import (
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
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

func (b bar) verdict() string {
	if b.held() {
		return "PASS"
	}
	return "MISS"
}

func (b bar) bound() string {
	sign := "<="
	if b.least {
		sign = ">="
	}
	return fmt.Sprintf("%s %.2f%s", sign, b.limit, b.unit)
}

// limits are the bars of one kind of work: allocations, bytes and time, on Go 1.26 and on the next release.
type limits struct{ allocs, bytes, time [2]float64 }

// release is the index of the Go release that runs this.
func release() int {
	if strings.HasPrefix(runtime.Version(), "go1.26") {
		return 0
	}
	return 1
}

func (r *report) bars() []bar {
	bars := r.requestBars()
	faster := func(n int, limit float64) bar {
		f := r.listing.faster[n]
		return bar{work: "all of 50 pages, 20 ms latency", what: fmt.Sprintf("Prefetch %d over 0", n), value: f.Median, limit: limit, least: true, unit: " x faster", spread: spread(f, 1)}
	}
	bars = append(bars,
		faster(2, 1.93), faster(4, 3.7), faster(8, 7),
		bar{work: "ranging over 10,000 pages, dense ids", what: "growth of the live heap", value: r.dense.growth() / mebibyte, limit: 1, unit: " MiB"},
		bar{work: "ranging over 10,000 pages, sparse ids", what: "growth of the live heap", value: r.sparse.growth() / mebibyte, limit: 1, unit: " MiB"},
		bar{work: "256 goroutines, GET", what: "rate", value: r.many.rate.Median, limit: 1.6, least: true, unit: " x floor", spread: spread(r.many.rate, 1)},
		bar{work: "256 goroutines, GET", what: "p99", value: r.many.p99.Median, limit: 0.85, unit: " x floor", spread: spread(r.many.p99, 1)},
		bar{work: "WaitAll, 1,000 finished, rows without texts", what: "requests for a note", value: r.waiting.requests, limit: 1.1},
		bar{work: "WaitAll, 1,000 finished, rows without texts", what: "time", value: r.waiting.time.Median, limit: 5, unit: " x naive reads", spread: spread(r.waiting.time, 1)},
		bar{work: "200 recordings of 16 KiB, 8 workers, 20 ms latency", what: "throughput with a journal", value: r.ingest.latent, limit: 0.8, least: true, unit: " x bare loop"},
		bar{work: "200 recordings of 16 KiB, 8 workers, the box", what: "throughput with a journal", value: r.ingest.box, limit: 0.8, least: true, unit: " x bare loop"},
	)
	return append(bars, r.uploadBars()...)
}

func (r *report) requestBars() []bar {
	sdk, floor := r.row(contender.SDK), r.row(contender.Floor)
	var bars []bar
	for _, of := range []struct {
		work       string
		own, floor cost
		limits     limits
	}{
		{"GET one note", sdk.get, floor.get, limits{[2]float64{0.98, 1.08}, [2]float64{0.80, 0.80}, [2]float64{0.78, 0.98}}},
		{"page of 100", sdk.page, floor.page, limits{[2]float64{0.22, 0.27}, [2]float64{0.58, 0.58}, [2]float64{0.30, 0.48}}},
		{"PUT an update", sdk.put, floor.put, limits{[2]float64{1.00, 1.10}, [2]float64{0.85, 0.85}, [2]float64{0.82, 0.98}}},
		{"Sign", sdk.sign, floor.sign, limits{[2]float64{1.00, 1.10}, [2]float64{0.85, 0.90}, [2]float64{0.80, 0.95}}},
		{"Delete", sdk.deletion, floor.deletion, limits{[2]float64{1.00, 1.10}, [2]float64{0.85, 0.90}, [2]float64{0.80, 0.95}}},
	} {
		ratio, at := of.own.over(of.floor), release()
		bars = append(bars,
			bar{work: of.work, what: "allocations", value: ratio.Objects, limit: of.limits.allocs[at], unit: " x floor"},
			bar{work: of.work, what: "bytes", value: ratio.Bytes, limit: of.limits.bytes[at], unit: " x floor"},
			bar{work: of.work, what: "time", value: ratio.time.Median, limit: of.limits.time[at], unit: " x floor", spread: spread(ratio.time, 1)},
		)
	}
	return bars
}

func (r *report) uploadBars() []bar {
	bars := []bar{
		{work: "upload of 8 MiB, TLS and HTTP/2", what: "bytes", value: r.secure.bytes / 1000, limit: 150, unit: " kB"},
		{work: "upload of 8 MiB, TLS and HTTP/2", what: "time", value: r.secure.time.Median, limit: 1.10, unit: " x floor", spread: spread(r.secure.time, 1)},
		{work: "upload of 8 MiB, TLS and HTTP/2", what: "connections of ten in a row", value: r.secure.connections, limit: 1},
	}
	if up := r.row(contender.SDK).upload; up != nil {
		bars = append(bars,
			bar{work: "upload of 256 MiB", what: "peak memory over idle, from cold", value: up.largeRSS.Median / mebibyte, limit: 2, unit: " MiB", spread: spread(up.largeRSS, mebibyte)},
			bar{work: "upload of 256 MiB", what: "time", value: up.largeTime.Median, limit: 1.05, unit: " x raw POST", spread: spread(up.largeTime, 1)},
		)
	}
	return bars
}

// spread prints between what the middle half of the values lies, in a unit.
func spread(s measure.Spread, unit float64) string {
	return fmt.Sprintf("%.2f to %.2f", s.Low/unit, s.High/unit)
}
