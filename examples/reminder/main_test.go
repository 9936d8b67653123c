package main

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// fakeNotes yields what the test says, and then its error, if any.
type fakeNotes struct {
	notes []clinicaldoc.ProgressNote
	err   error
}

func (f fakeNotes) All(context.Context, clinicaldoc.ListNotesParams, ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote, error] {
	return func(yield func(*clinicaldoc.ProgressNote, error) bool) {
		for _, note := range f.notes {
			if !yield(&note, nil) {
				return
			}
		}
		if f.err != nil {
			yield(nil, f.err)
		}
	}
}

var _ noteLister = (*clinicaldoc.NotesService)(nil)

func TestOverdue(t *testing.T) {
	t.Parallel()
	deadline := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	complete := clinicaldoc.Completion{Transcription: true, Content: true}
	signed := clinicaldoc.Completion{Transcription: true, Content: true, Signed: true}
	service := fakeNotes{notes: []clinicaldoc.ProgressNote{
		{ID: 1, Has: complete, AnalysisCompletedAt: deadline.Add(-time.Hour)},
		{ID: 2, Has: complete, AnalysisCompletedAt: deadline.Add(time.Hour)},
		{ID: 3, Has: signed, AnalysisCompletedAt: deadline.Add(-time.Hour)},
		{ID: 4, CreatedAt: deadline.Add(-time.Hour)}, // still being transcribed
	}}
	var out bytes.Buffer
	if err := remind(t.Context(), service, deadline, &out); err != nil {
		t.Fatal(err)
	}
	if want := "1 note(s) waiting for too long: [1]\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A list that ends with an error is not whole: nobody is told that nothing waits.
func TestOverdueSaysWhenTheListFails(t *testing.T) {
	t.Parallel()
	service := fakeNotes{err: &clinicaldoc.Error{StatusCode: 503, Operation: "Notes.List"}}
	var out bytes.Buffer
	if err := remind(t.Context(), service, time.Now(), &out); !errors.Is(err, clinicaldoc.ErrServer) || out.Len() > 0 {
		t.Errorf("got %v and %q", err, out.String())
	}
}

func TestRun(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "") // the box, whatever the shell has
	var out bytes.Buffer
	if err := run(t.Context(), time.Now().Add(-24*time.Hour), &out); err != nil || !bytes.Contains(out.Bytes(), []byte("too long: [1]")) {
		t.Errorf("got %v and %q", err, out.String())
	}
}
