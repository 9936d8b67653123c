package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

const (
	ingestWorkers    = 8
	ingestRecordings = 200
	ingestSize       = 16 << 10
	ingestRounds     = 15
)

// ingestion is the throughput of an uploader with a journal in a file over that of a loop that calls Create: the median
// of the ratios of neighbouring runs. The uploader hashes each file for its key and syncs two lines for it.
type ingestion struct {
	latent float64 // with a service behind a network
	fake   float64 // with the fake server, which keeps notes and recordings, on this machine
}

func (r *report) measureIngest(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "ingest")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	paths := make([]string, ingestRecordings)
	for i := range paths {
		size := int64(ingestSize + i) // equal recordings would be sent one after the other
		content, err := io.ReadAll(recording{size}.reader())
		if err != nil {
			return err
		}
		paths[i] = filepath.Join(dir, fmt.Sprintf("recording-%d.wav", i))
		if err := os.WriteFile(paths[i], content, 0o600); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		baseURL string
		ratio   *float64
	}{{r.server.url + slow, &r.ingest.latent}, {r.server.fake, &r.ingest.fake}} {
		client, err := clinicaldoc.NewClient(m.baseURL, token)
		if err != nil {
			return err
		}
		if *m.ratio, err = ingestRatio(ctx, client, dir, paths); err != nil {
			return err
		}
	}
	return nil
}

func ingestRatio(ctx context.Context, client *clinicaldoc.Client, dir string, paths []string) (float64, error) {
	var ratios []float64
	for range ingestRounds {
		start := time.Now()
		if err := bareLoop(ctx, client, paths); err != nil {
			return 0, err
		}
		bare := time.Since(start)
		journal := filepath.Join(dir, "journal")
		start = time.Now()
		if err := ingestAll(ctx, client, paths, journal); err != nil {
			return 0, err
		}
		ratios = append(ratios, bare.Seconds()/time.Since(start).Seconds())
		if err := os.Remove(journal); err != nil {
			return 0, err
		}
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], nil
}

func ingestParams(path string) clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{Name: filepath.Base(path), PatientID: 7, PromptID: 1}
}

func bareLoop(ctx context.Context, client *clinicaldoc.Client, paths []string) error {
	queue := make(chan string)
	failures := make(chan error, len(paths))
	var workers sync.WaitGroup
	for range ingestWorkers {
		workers.Go(func() {
			for path := range queue {
				params := ingestParams(path)
				var err error
				if params.Audio, err = clinicaldoc.AudioFile(path); err == nil {
					_, err = client.Notes.Create(ctx, params)
				}
				failures <- err
			}
		})
	}
	for _, path := range paths {
		queue <- path
	}
	close(queue)
	workers.Wait()
	for range paths {
		if err := <-failures; err != nil {
			return err
		}
	}
	return nil
}

func ingestAll(ctx context.Context, client *clinicaldoc.Client, paths []string, path string) error {
	journal, err := ingest.BeginJournal(ctx, path, ingest.Owner{Service: ingest.ServiceName(client.BaseURL())})
	if err != nil {
		return err
	}
	// Without AllNew each run would find what the bare loop has just uploaded.
	uploader := &ingest.Uploader{Client: client, Journal: journal, Workers: ingestWorkers, AllNew: true}
	for result, err := range uploader.Run(ctx, ingest.Files(paths, ingestParams)) {
		if err != nil {
			return err
		}
		if result.Status != ingest.Created {
			return fmt.Errorf("%v", result)
		}
	}
	return journal.Close()
}
