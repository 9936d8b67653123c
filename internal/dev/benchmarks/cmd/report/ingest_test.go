package main

import (
	"os"
	"testing"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

func TestMain(m *testing.M) {
	service.RunIfChild()
	os.Exit(m.Run())
}

// BenchmarkIngest is the part of the report that concerns ingest, in seconds instead of minutes:
//
//	go test ./cmd/report -run '^$' -bench Ingest -benchtime 1x
func BenchmarkIngest(b *testing.B) {
	server, err := service.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	r := report{server: server}
	for b.Loop() {
		if err := r.measureIngest(b.Context(), server.URL); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(r.ingest.latent, "x-bare-loop")
	b.ReportMetric(r.ingest.box, "x-bare-loop-with-the-box")
	b.ReportMetric(r.ingest.instant, "x-bare-loop-without-latency")
}
