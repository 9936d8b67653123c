// Reviewqueue lists a patient's notes that are complete but not signed. With -sign it edits and signs each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() {
	patient := flag.Int64("patient", 1, "id of the patient whose notes to review")
	sign := flag.Bool("sign", false, "edit and sign them; without it they are only listed")
	flag.Parse()
	demo.Main(func(ctx context.Context, out io.Writer) error {
		client, stop, err := demo.Connect(out)
		if err != nil {
			return err
		}
		defer stop()
		var edit func(string) string
		if *sign {
			// A clinician would edit the text here; this one adds a line.
			edit = func(analysis string) string {
				return analysis + "\nReviewed on " + time.Now().UTC().Format(time.DateOnly) + "."
			}
		}
		return review(ctx, client, *patient, edit, out)
	})
}

// review edits and signs what waits for it; without an edit it only lists.
func review(ctx context.Context, client *clinicaldoc.Client, patient int64, edit func(string) string, out io.Writer) error {
	waiting, signed := 0, 0
	for note, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patient, Sort: clinicaldoc.SortOldest}) {
		if err != nil {
			return err
		}
		if note.Stage() != clinicaldoc.StageComplete {
			continue
		}
		waiting++
		if edit == nil {
			_, _ = fmt.Fprintf(out, "note %d waits for review\n", note.ID)
			continue
		}
		switch err := editAndSign(ctx, client, note.ID, edit); {
		case errors.Is(err, clinicaldoc.ErrNoteIncomplete), errors.Is(err, clinicaldoc.ErrConflict):
			_, _ = fmt.Fprintf(out, "note %d has changed meanwhile; next time\n", note.ID)
			continue
		case err != nil:
			return err
		}
		signed++
		_, _ = fmt.Fprintf(out, "edited and signed note %d\n", note.ID)
	}
	_, err := fmt.Fprintf(out, "%d note(s) waiting, %d signed\n", waiting, signed)
	return err
}

// editAndSign reads the note itself, since a list may leave texts out, and changes and signs nothing but what it read.
func editAndSign(ctx context.Context, client *clinicaldoc.Client, id int64, edit func(string) string) error {
	note, err := client.Notes.Get(ctx, id)
	if err != nil {
		return err
	}
	params := clinicaldoc.UpdateNoteParams{Analysis: new(edit(note.Analysis))}
	if _, err := client.Notes.Update(ctx, id, params, clinicaldoc.IfUnchanged(note)); err != nil {
		return err
	}
	if note, err = client.Notes.Get(ctx, id); err != nil {
		return err
	}
	if note.Analysis != *params.Analysis {
		return clinicaldoc.ErrConflict // somebody was quicker: that text was not reviewed here
	}
	_, err = client.Notes.Sign(ctx, id, clinicaldoc.IfUnchanged(note))
	return err
}
