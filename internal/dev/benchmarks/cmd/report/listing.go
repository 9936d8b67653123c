package main

import (
	"context"
	"runtime"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

// listing is how long it takes to read all pages from a service with latency, in seconds.
type listing struct {
	loop     measure.Spread         // the floor, page after page
	prefetch map[int]measure.Spread // the SDK
	faster   map[int]measure.Spread // how many times than without, round by round
}

// prefetches are the numbers of pages that are measured.
var prefetches = []int{0, 1, 2, 4, 8}

func (r *report) measureListing(ctx context.Context, baseURL string) error {
	floor, err := contender.All()[0].New(baseURL+service.Slow, service.Token)
	if err != nil {
		return err
	}
	client, err := clinicaldoc.NewClient(baseURL+service.Slow, service.Token)
	if err != nil {
		return err
	}
	var loop []float64
	seconds, faster := map[int][]float64{}, map[int][]float64{}
	for range 9 {
		start := time.Now()
		for page := range service.Pages {
			if _, err := floor.Page(ctx, page+1, pageSize); err != nil {
				return err
			}
		}
		loop = append(loop, time.Since(start).Seconds())
		for _, n := range prefetches {
			start := time.Now()
			for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: pageSize, Prefetch: n}) {
				if err != nil {
					return err
				}
			}
			seconds[n] = append(seconds[n], time.Since(start).Seconds())
			faster[n] = append(faster[n], seconds[0][len(seconds[0])-1]/time.Since(start).Seconds())
		}
	}
	r.listing = listing{measure.SpreadOf(loop), map[int]measure.Spread{}, map[int]measure.Spread{}}
	for _, n := range prefetches {
		r.listing.prefetch[n], r.listing.faster[n] = measure.SpreadOf(seconds[n]), measure.SpreadOf(faster[n])
	}
	return nil
}

// memory is the live heap while ranging over a long list, in bytes, at even distances.
type memory struct{ samples []float64 }

// growth is how much the heap grew from the first sample to the largest.
func (m memory) growth() float64 {
	most := 0.0
	for _, s := range m.samples {
		most = max(most, s-m.samples[0])
	}
	return most
}

func (r *report) measureMemory(ctx context.Context, baseURL string) (err error) {
	if r.dense, err = measureHeap(ctx, baseURL+service.Long); err != nil {
		return err
	}
	r.sparse, err = measureHeap(ctx, baseURL+service.Sparse)
	return err
}

func measureHeap(ctx context.Context, baseURL string) (m memory, err error) {
	client, err := clinicaldoc.NewClient(baseURL, service.Token)
	if err != nil {
		return m, err
	}
	const perPage, samples = 10, 10
	seen := 0
	for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: perPage, Prefetch: 2}) {
		if err != nil {
			return m, err
		}
		if seen++; seen%(service.LongPages*perPage/samples) == 0 {
			runtime.GC()
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			m.samples = append(m.samples, float64(now.HeapAlloc))
		}
	}
	return m, nil
}
