//go:build unix

package jetstream

import (
	"fmt"
	"testing"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// BenchmarkProcesses measures how much more three processes do than one, with eight uploads at a time each. The
// service takes 20 ms for a recording and has no other limit.
//
//	go test . -run '^$' -bench Processes -benchtime 3x
func BenchmarkProcesses(b *testing.B) {
	srv := benchmarkedService(b, 20*time.Millisecond)
	s := startServer(b)
	rates := map[int][]float64{}
	for b.Loop() {
		for _, processes := range []int{1, 3} {
			name := fmt.Sprintf("run%d-%d", len(rates[processes]), processes)
			rates[processes] = append(rates[processes], drainedBy(b, srv, s.ClientURL(), name, processes))
		}
	}
	b.ReportMetric(median(rates[1]), "one/s")
	b.ReportMetric(median(rates[3]), "three/s")
	b.ReportMetric(median(rates[3])/median(rates[1]), "x-one")
}

// drainedBy returns how many recordings a second so many processes upload. They begin together.
func drainedBy(b *testing.B, client *clinicaldoc.Client, nats, name string, processes int) float64 {
	b.Helper()
	const count = 1200
	conn, err := Connect(nats)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	f := openFleet(b, conn, Params{Name: name})
	file := filed(b, b.TempDir(), 0)
	done := make(chan struct{}, count)
	for range processes {
		process, lines := start(b, job{Worker: &worker{URL: client.BaseURL(), Token: "synthetic", NATS: nats, Name: name, Wait: true, Workers: 8, Until: clinicaldoc.StageUploaded}})
		b.Cleanup(func() { _ = process.Wait() })
		lines.Scan() // it has joined
		go func() {
			for lines.Scan() { // a line for each recording
				done <- struct{}{}
			}
		}()
	}
	for n := range count {
		params := clinicaldoc.CreateNoteParams{Name: "Synthetic", PatientID: int64(1 + n%50), PromptID: 1}
		if err := f.Publish(b.Context(), ingest.Recording{Key: fmt.Sprint(n), File: file.File, Params: params}); err != nil {
			b.Fatal(err)
		}
	}
	begun := time.Now()
	if err := conn.Publish("begin."+name, nil); err != nil {
		b.Fatal(err)
	}
	for range count {
		<-done
	}
	return count / time.Since(begun).Seconds()
}
