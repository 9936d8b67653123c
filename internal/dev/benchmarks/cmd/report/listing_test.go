package main

import (
	"testing"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

// BenchmarkListing is the part of the report that concerns lists:
//
//	go test ./cmd/report -run '^$' -bench Listing -benchtime 1x
func BenchmarkListing(b *testing.B) {
	server, err := service.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	r := report{server: server}
	for b.Loop() {
		if err := r.measureListing(b.Context(), server.URL); err != nil {
			b.Fatal(err)
		}
	}
	for _, n := range prefetches {
		b.Logf("Prefetch %d: %s s, %s x faster", n, r.listing.prefetch[n], r.listing.faster[n])
	}
}
