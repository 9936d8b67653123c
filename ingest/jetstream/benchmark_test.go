package jetstream

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// BenchmarkEmbedded compares eight workers with an embedded server, or with a journal in a file, to a bare loop over
// Create: the same workers, client and recordings, in turns, and the median of each counts. The service is slow as over
// a network, or the fake server on this machine, or it stores nothing and responds immediately. In the last case only
// CPU and disk are measured. What no journal on this engine could surpass is told too: the bare loop with nothing but
// two writes for each recording, of which the engine syncs each by itself.
//
//	go test . -run '^$' -bench Embedded -benchtime 1x
func BenchmarkEmbedded(b *testing.B) {
	for name, newClient := range map[string]func(testing.TB) *clinicaldoc.Client{
		"20ms":    func(tb testing.TB) *clinicaldoc.Client { return benchmarkedService(tb, 20*time.Millisecond) },
		"box":     boxClient,
		"instant": func(tb testing.TB) *clinicaldoc.Client { return benchmarkedService(tb, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			client := newClient(b)
			s, err := Embed(b.Context(), filepath.Join(b.TempDir(), "journal"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			var bare, written, journaled, filed []float64
			for b.Loop() {
				for range 9 {
					bucket := fmt.Sprint("bucket", len(bare)) // nothing is there already
					bare = append(bare, bareLoop(b, client, nil))
					written = append(written, bareLoop(b, client, openBenchmarked(b, s, bucket+"-writes")))
					journaled = append(journaled, journaledLoop(b, client, openBenchmarked(b, s, bucket)))
					filed = append(filed, fileLoop(b, client))
				}
			}
			b.ReportMetric(median(bare)/median(journaled), "x-bare-loop")
			b.ReportMetric(median(bare)/median(written), "two-writes-x-bare-loop")
			b.ReportMetric(median(bare)/median(filed), "file-x-bare-loop")
		})
	}
}

func boxClient(tb testing.TB) *clinicaldoc.Client {
	tb.Helper()
	box := clinicaldoctest.NewServer()
	tb.Cleanup(box.Close)
	return box.Client()
}

func benchmarkedService(tb testing.TB, latency time.Duration) *clinicaldoc.Client {
	tb.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `{"id":1,"name":"Synthetic","created_at":"2026-01-02T03:04:05Z"}`
		if r.Method == http.MethodPost {
			if err := r.ParseMultipartForm(1 << 20); err != nil { // as any service does
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		} else if !strings.HasSuffix(r.URL.Path, "/user") { // the patient has no notes
			body = `{"data":[],"meta":{"current_page":1,"last_page":1,"per_page":100,"total":0}}`
		}
		time.Sleep(latency)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	tb.Cleanup(srv.Close)
	client, err := clinicaldoc.NewClient(srv.URL, "synthetic")
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

const (
	benchmarkedRecordings = 200
	benchmarkedSize       = 16 << 10
)

func benchmarked() iter.Seq2[ingest.Recording, error] {
	audio := clinicaldoc.AudioBytes("a.wav", make([]byte, benchmarkedSize))
	return func(yield func(ingest.Recording, error) bool) {
		for n := range benchmarkedRecordings {
			params := clinicaldoc.CreateNoteParams{Name: "Synthetic", PatientID: int64(1 + n%3), PromptID: 1, Audio: audio}
			if !yield(ingest.Recording{Key: fmt.Sprint(n), Params: params}, nil) {
				return
			}
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func openBenchmarked(b *testing.B, s *Server, bucket string) *Journal {
	b.Helper()
	return openFleet(b, s.Conn, Params{Name: bucket}).Journal()
}

// bareLoop writes to the journal's buckets, if there is one, where a journal would: before the last bytes, and while
// the worker goes on.
func bareLoop(b *testing.B, client *clinicaldoc.Client, j *Journal) float64 {
	b.Helper()
	start := time.Now()
	queue := make(chan ingest.Recording)
	var workers sync.WaitGroup
	write := func(ctx context.Context, r ingest.Recording) error {
		n, _ := strconv.Atoi(r.Key)
		_, err := j.buckets[n%len(j.buckets)].Put(ctx, r.Key, make([]byte, 300))
		return err
	}
	for range 8 {
		workers.Go(func() {
			for r := range queue {
				if j != nil {
					r.Params.BeforeCommit = func(ctx context.Context) error { return write(ctx, r) }
				}
				if _, err := client.Notes.Create(b.Context(), r.Params); err != nil {
					b.Error(err)
				}
				if j != nil {
					workers.Go(func() { _ = write(b.Context(), r) })
				}
			}
		})
	}
	for r := range benchmarked() {
		queue <- r
	}
	close(queue)
	workers.Wait()
	return time.Since(start).Seconds()
}

// fileLoop is journaledLoop with a new journal in a file.
func fileLoop(b *testing.B, client *clinicaldoc.Client) float64 {
	b.Helper()
	owner := ingest.Owner{Service: ingest.ServiceName(client.BaseURL())}
	j, err := ingest.BeginJournal(b.Context(), filepath.Join(b.TempDir(), "journal"), owner)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	return journaledLoop(b, client, j)
}

func journaledLoop(b *testing.B, client *clinicaldoc.Client, j ingest.Journal) float64 {
	b.Helper()
	start := time.Now()
	u := &ingest.Uploader{Client: client, Journal: j, Workers: 8, AllNew: true} // as the bare loop takes it
	for result, err := range u.Run(b.Context(), benchmarked()) {
		if err != nil || result.Status != ingest.Created {
			b.Fatal(result, err)
		}
	}
	return time.Since(start).Seconds()
}
