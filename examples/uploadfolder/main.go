// Uploadfolder uploads every recording of a folder, a few at a time, and keeps a journal beside them: interrupted and
// started again, it uploads nothing twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() {
	job := job{}
	flag.StringVar(&job.folder, "folder", ".", "folder with .wav recordings")
	flag.Int64Var(&job.patient, "patient", 1, "id of the patient they belong to")
	flag.Int64Var(&job.prompt, "prompt", 1, "id of the prompt to use")
	flag.IntVar(&job.workers, "workers", 3, "uploads at a time")
	flag.Parse()
	demo.Main(func(ctx context.Context, out io.Writer) error {
		client, stop, err := demo.Connect(out)
		if err != nil {
			return err
		}
		defer stop()
		job.client = client
		return job.run(ctx, out)
	})
}

type job struct {
	client          *clinicaldoc.Client
	folder          string
	patient, prompt int64
	workers         int
}

func (j job) run(ctx context.Context, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(j.folder, "*.wav"))
	if err != nil {
		return err
	}
	log, err := openJournal(filepath.Join(j.folder, "uploads.journal"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	queue := make(chan string, len(files))
	for _, path := range files {
		queue <- path
	}
	close(queue)
	results := make(chan result)
	var workers sync.WaitGroup
	for range j.workers {
		workers.Go(func() {
			for path := range queue {
				id, err := j.upload(ctx, log, path)
				results <- result{id, err}
			}
		})
	}
	go func() {
		workers.Wait()
		close(results)
	}()
	var failures []error
	for r := range results {
		if r.err != nil {
			failures = append(failures, r.err)
			continue
		}
		_, _ = fmt.Fprintf(out, "note %d\n", r.id)
	}
	return errors.Join(failures...)
}

type result struct {
	id  int64
	err error
}

// upload creates the recording's note unless the journal knows of it. A create that was begun and never recorded as
// done is looked for first.
func (j job) upload(ctx context.Context, log *journal, path string) (int64, error) {
	params := clinicaldoc.CreateNoteParams{Name: filepath.Base(path), PatientID: j.patient, PromptID: j.prompt}
	audio, err := clinicaldoc.AudioFile(path)
	if err != nil {
		return 0, err
	}
	params.Audio = audio

	entry, known := log.find(params.Name)
	if known && entry.NoteID != 0 {
		return entry.NoteID, nil
	}
	if known {
		note, err := j.client.Notes.FindCreated(ctx, &clinicaldoc.OutcomeUnknownError{Params: params, SentAt: entry.BegunAt}, clinicaldoc.FindCreatedParams{})
		if err == nil {
			return note.ID, log.done(params.Name, note.ID)
		}
		if !errors.Is(err, clinicaldoc.ErrNotCreated) {
			return 0, err
		}
	}
	if err := log.begun(params.Name); err != nil {
		return 0, err // without the journal a repeat could upload it twice
	}
	note, err := j.create(ctx, params)
	if err != nil {
		return 0, err
	}
	return note.ID, log.done(params.Name, note.ID)
}

// create resolves a lost answer at once where it can; otherwise the next run does.
func (j job) create(ctx context.Context, params clinicaldoc.CreateNoteParams) (*clinicaldoc.ProgressNote, error) {
	note, err := j.client.Notes.Create(ctx, params)
	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		return j.client.Notes.FindCreated(ctx, unknown, clinicaldoc.FindCreatedParams{})
	}
	return note, err
}
