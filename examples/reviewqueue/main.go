// Reviewqueue lists a patient's notes that are complete but not signed. With -sign it edits and signs each; at a service
// that CLINICALDOC_BASE_URL names, that asks for -yes too. How a server does this for clinicians is in examples/webbackend.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	patient := flag.Int64("patient", 1, "id of the patient whose notes to review")
	sign := flag.Bool("sign", false, "edit and sign them; without it they are only listed")
	yes := flag.Bool("yes", false, "edit and sign at the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	var edit func(string) string
	if *sign {
		// A clinician would edit the text here; this one adds a line.
		edit = func(analysis string) string {
			return analysis + "\nReviewed on " + time.Now().UTC().Format(time.DateOnly) + "."
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *patient, edit, *yes, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, patient int64, edit func(string) string, yes bool, out io.Writer) error {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		srv.AddNote(clinicaldoctest.Note{PatientID: patient, Analysis: "A synthetic analysis."})
		return review(ctx, srv.Client(), patient, edit, out)
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	if edit != nil && !yes {
		return fmt.Errorf("this edits and signs notes of patient %d at %s: start it with -yes to allow that", patient, client.BaseURL())
	}
	return review(ctx, client, patient, edit, out)
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
