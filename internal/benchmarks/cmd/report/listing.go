package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/benchmarks/internal/service"
)

// listing is how long it takes to read all pages from a service with latency, in seconds: the quickest of several runs,
// which other work on the machine disturbed least.
type listing struct {
	loop     float64    // the floor, page after page
	prefetch [3]float64 // the SDK with Prefetch 0, 1 and 2
}

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
	var prefetch [3][]float64
	for range 9 {
		start := time.Now()
		for page := range service.Pages {
			if _, err := floor.Page(ctx, page+1, pageSize); err != nil {
				return err
			}
		}
		loop = append(loop, time.Since(start).Seconds())
		for n := range prefetch {
			start := time.Now()
			for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: pageSize, Prefetch: n}) {
				if err != nil {
					return err
				}
			}
			prefetch[n] = append(prefetch[n], time.Since(start).Seconds())
		}
	}
	r.listing.loop = slices.Min(loop)
	for n := range prefetch {
		r.listing.prefetch[n] = slices.Min(prefetch[n])
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

func (r *report) measureMemory(ctx context.Context, baseURL string) error {
	client, err := clinicaldoc.NewClient(baseURL+service.Long, service.Token)
	if err != nil {
		return err
	}
	const perPage, samples = 10, 10
	seen := 0
	for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: perPage, Prefetch: 2}) {
		if err != nil {
			return err
		}
		if seen++; seen%(service.LongPages*perPage/samples) == 0 {
			runtime.GC()
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			r.memory.samples = append(r.memory.samples, float64(now.HeapAlloc))
		}
	}
	return nil
}
