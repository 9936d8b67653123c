//go:build unix

package jetstream

import (
	"fmt"
	"testing"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// BenchmarkProcesses measures how much more three processes do than one, with eight uploads at a time each. The
// service has no limit other than the time that it takes for a recording.
//
//	go test . -run '^$' -bench Processes -benchtime 3x
func BenchmarkProcesses(b *testing.B) {
	for latency, count := range map[time.Duration]int{20 * time.Millisecond: 1200, 300 * time.Millisecond: 480} {
		b.Run(latency.String(), func(b *testing.B) {
			srv := benchmarkedService(b, latency)
			s := startServer(b)
			rates := map[int][]float64{}
			for b.Loop() {
				for _, processes := range []int{1, 3} {
					name := fmt.Sprintf("run%d-%d", len(rates[processes]), processes)
					rate := drainedBy(b, srv, s.ClientURL(), name, processes, count)
					rates[processes] = append(rates[processes], rate)
				}
			}
			b.ReportMetric(median(rates[1]), "one/s")
			b.ReportMetric(median(rates[3]), "three/s")
			b.ReportMetric(median(rates[3])/median(rates[1]), "x-one")
		})
	}
}

// drainedBy returns how many recordings a second so many processes upload. They begin together.
func drainedBy(b *testing.B, client *clinicaldoc.Client, nats, name string, processes, count int) float64 {
	b.Helper()
	conn, err := Connect(nats)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	f := openFleet(b, conn, Params{Name: name})
	dir := b.TempDir()
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
		recording := filed(b, dir, n)
		recording.Params.PatientID = int64(1 + n%50)
		if err := f.Publish(b.Context(), recording); err != nil {
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
	return float64(count) / time.Since(begun).Seconds()
}
