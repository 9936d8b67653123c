package main

import (
	"context"
	"runtime"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// prefetches are the numbers of pages that are measured.
var prefetches = []int{0, 2, 4, 8}

// measureListing takes how many times faster all pages of a service with latency are read with Prefetch.
func (r *report) measureListing(ctx context.Context) error {
	client, err := clinicaldoc.NewClient(r.server.url+slow, token)
	if err != nil {
		return err
	}
	faster := map[int][]float64{}
	for range 9 {
		without := 0.0
		for _, n := range prefetches {
			start := time.Now()
			for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: pageSize, Prefetch: n}) {
				if err != nil {
					return err
				}
			}
			seconds := time.Since(start).Seconds()
			if n == 0 {
				without = seconds
			}
			faster[n] = append(faster[n], without/seconds)
		}
	}
	r.faster = map[int]spread{}
	for n, ratios := range faster {
		r.faster[n] = spreadOf(ratios)
	}
	return nil
}

func (r *report) measureMemory(ctx context.Context) (err error) {
	if r.dense, err = heapGrowth(ctx, r.server.url+long); err != nil {
		return err
	}
	r.sparse, err = heapGrowth(ctx, r.server.url+sparse)
	return err
}

// heapGrowth is by how many bytes the live heap grows at most while ranging over a long list.
func heapGrowth(ctx context.Context, baseURL string) (growth float64, err error) {
	client, err := clinicaldoc.NewClient(baseURL, token)
	if err != nil {
		return 0, err
	}
	const perPage, samples = 10, 10
	seen, first := 0, 0.0
	for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: perPage, Prefetch: 2}) {
		if err != nil {
			return 0, err
		}
		seen++
		if seen%(longPages*perPage/samples) != 0 {
			continue
		}
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		if first == 0 {
			first = float64(now.HeapAlloc)
		}
		growth = max(growth, float64(now.HeapAlloc)-first)
	}
	return growth, nil
}
