package main

import (
	"fmt"
	"math"

	"github.com/clinicaldoc/clinicaldoc-go/internal/benchmarks/internal/contender"
)

// bar is a limit that the SDK must hold.
type bar struct {
	work, what string
	value      float64
	limit      float64
	least      bool // the limit is the least, not the most
	unit       string
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

func (r *report) bars() []bar {
	sdk, floor := r.row(contender.SDK), r.row(contender.Floor)
	get, page, put := sdk.get.over(floor.get), sdk.page.over(floor.page), sdk.put.over(floor.put)
	bars := []bar{
		{work: "GET one note", what: "allocations", value: get.Objects, limit: 1.00, unit: " x floor"},
		{work: "GET one note", what: "bytes", value: get.Bytes, limit: 0.80, unit: " x floor"},
		{work: "GET one note", what: "time", value: get.time, limit: 0.85, unit: " x floor"},
		{work: "page of 100", what: "allocations", value: page.Objects, limit: 0.85, unit: " x floor"},
		{work: "page of 100", what: "bytes", value: page.Bytes, limit: 0.60, unit: " x floor"},
		{work: "page of 100", what: "time", value: page.time, limit: 0.30, unit: " x floor"},
		{work: "PUT an update", what: "allocations", value: put.Objects, limit: 1.05, unit: " x floor"},
		{work: "PUT an update", what: "bytes", value: put.Bytes, limit: 0.85, unit: " x floor"},
		{work: "PUT an update", what: "time", value: put.time, limit: 0.95, unit: " x floor"},
		{work: "all of 50 pages, 20 ms latency", what: "Prefetch 2 over 0", value: r.listing.prefetch[0] / r.listing.prefetch[2], limit: 1.9, least: true, unit: " x faster"},
		{work: "ranging over 10,000 pages", what: "growth of the live heap", value: r.memory.growth() / mebibyte, limit: 1, unit: " MiB"},
		{work: "200 recordings of 16 KiB, 8 workers, 20 ms latency", what: "throughput with a journal", value: r.ingest.latent, limit: 0.8, least: true, unit: " x bare loop"},
	}
	if up := sdk.upload; up != nil {
		bars = append(bars,
			bar{work: "upload of 256 MiB", what: "peak memory over idle", value: up.largeRSS / mebibyte, limit: 4, unit: " MiB"},
			bar{work: "upload of 256 MiB", what: "time", value: up.largeTime, limit: 1.10, unit: " x raw POST"},
			bar{work: "upload of 256 MiB", what: "CPU", value: up.largeCPU, limit: 1.10, unit: " x raw POST"},
		)
	}
	return bars
}
