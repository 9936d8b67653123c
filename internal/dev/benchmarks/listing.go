package main

import (
	"context"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// prefetches are the numbers of pages that are measured.
var prefetches = []int{0, 2, 4, 8}

// measureListing takes how many times faster all pages of a service with latency are read with Prefetch.
func (r *report) measureListing(ctx context.Context) error {
	client, err := clinicaldoc.NewClient(r.url+slow, token)
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
