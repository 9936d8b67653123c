package command

import (
	"context"
	"errors"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
)

const (
	maxReported      = 5   // candidates that a report names for one recording
	maxReportedReads = 100 // for all recordings of a report
	candidateTime    = 10 * time.Second
)

// readCandidates reads when notes were created. A note that cannot be read is named by its id alone.
func readCandidates(ctx context.Context, client *clinicaldoc.Client, ids []int64) ([]report.Candidate, error) {
	var candidates []report.Candidate
	var failed error
	for _, id := range ids {
		candidate := report.Candidate{NoteID: id}
		if failed == nil || errors.Is(failed, clinicaldoc.ErrNotFound) {
			var note *clinicaldoc.ProgressNote
			note, failed = client.Notes.Get(ctx, id)
			if failed == nil {
				candidate.CreatedAt = note.CreatedAt
				candidate.Name = note.Name
			}
		}
		candidates = append(candidates, candidate)
	}
	return candidates, failed
}

// candidates are what the report says of the notes that a person should compare. It never holds up the upload for long.
func (r *uploadRun) candidates(ctx context.Context, ids []int64) []report.Candidate {
	ids = ids[:min(len(ids), maxReported)]
	if r.compare == nil || r.compared+len(ids) > maxReportedReads {
		var candidates []report.Candidate
		for _, id := range ids {
			candidates = append(candidates, report.Candidate{NoteID: id})
		}
		return candidates
	}
	r.compared += len(ids)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), candidateTime)
	defer cancel()
	candidates, err := readCandidates(ctx, r.compare, ids)
	if err != nil && !errors.Is(err, clinicaldoc.ErrNotFound) {
		r.compare = nil // the service does not answer; the ids are enough
	}
	return candidates
}

// showCandidates prints the notes that a person should compare with a recording, and what to do then.
func (o *resolveOptions) showCandidates(
	ctx context.Context, client *clinicaldoc.Client, key string, ids []int64,
) error {
	candidates, err := readCandidates(ctx, client, ids)
	if err != nil && !errors.Is(err, clinicaldoc.ErrNotFound) {
		return err
	}
	titles := []string{"NOTE", "CREATED"}
	if o.reveal {
		titles = append(titles, "NAME")
	}
	var rows [][]string
	for _, c := range candidates {
		created := "gone"
		if !c.CreatedAt.IsZero() {
			created = o.IO.Time(c.CreatedAt)
		}
		row := []string{strconv.FormatInt(c.NoteID, 10), created}
		if o.reveal {
			row = append(row, output.Cell(c.Name))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		o.IO.Note(
			"No possible note is known. Compare the recording with the patient's notes: \"clinicaldoc notes list " +
				"--patient ID\".",
		)
	} else if err := o.IO.Table(titles, rows); err != nil {
		return err
	}
	o.IO.Note("If one of them is the recording's note: \"clinicaldoc upload resolve %s --note ID\". If none is, "+
		"and the time from which that can be decided has passed: \"clinicaldoc upload resolve %s --none\"; "+
		"the next upload then sends it.", key, key)
	return nil
}
