// Reminder lists the notes that have been waiting for their signature for more than a day. What it needs of the client is
// an interface of its own with one method, so that its test needs no server. It only reads.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"os/signal"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// noteLister is what the program uses: *clinicaldoc.NotesService has it, and so has the stand-in of the test.
type noteLister interface {
	All(ctx context.Context, params clinicaldoc.ListNotesParams, opts ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote, error]
}

// overdue returns the ids of the notes that were complete before that time and are not signed.
func overdue(ctx context.Context, notes noteLister, before time.Time) ([]int64, error) {
	var ids []int64
	for note, err := range notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortOldest}) {
		if err != nil {
			return nil, fmt.Errorf("some may be missing: %w", err)
		}
		if note.Stage() == clinicaldoc.StageComplete && note.AnalysisCompletedAt.Before(before) {
			ids = append(ids, note.ID)
		}
	}
	return ids, nil
}

func main() {
	wait := flag.Duration("wait", 24*time.Hour, "how long a note may wait")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, time.Now().Add(-*wait), os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, before time.Time, out io.Writer) error {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		srv.AddNote(clinicaldoctest.Note{CreatedAt: before.AddDate(0, 0, -2)})
		srv.AddNote(clinicaldoctest.Note{})
		return remind(ctx, srv.Client().Notes, before, out)
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	return remind(ctx, client.Notes, before, out)
}

func remind(ctx context.Context, notes noteLister, before time.Time, out io.Writer) error {
	ids, err := overdue(ctx, notes, before)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, len(ids), "note(s) waiting for too long:", ids)
	return err
}
