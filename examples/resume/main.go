// Resume uploads a recording and waits for its note. Ended half-way, it is started again with the note's id and goes on
// waiting: nothing is uploaded twice.
//
//	go run ./examples/resume            prints the id as soon as the note exists
//	go run ./examples/resume -note 17   waits for that note
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
	id := flag.Int64("note", 0, "id of a note uploaded earlier; 0 uploads one")
	flag.Parse()
	demo.Main(func(ctx context.Context, out io.Writer) error {
		client, stop, err := demo.Connect(out)
		if err != nil {
			return err
		}
		defer stop()
		return resume(ctx, client, *id, out)
	})
}

func resume(ctx context.Context, client *clinicaldoc.Client, id int64, out io.Writer) error {
	if id == 0 {
		note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
			Name: "Resume", PatientID: 1, PromptID: 1,
			Audio:      clinicaldoc.AudioBytes("resume.wav", demo.WAV(30*time.Second)),
			OnProgress: func(sent, total int64) { _, _ = fmt.Fprintf(out, "\ruploading %3d %%", 100*sent/total) },
		})
		if err != nil {
			return err
		}
		id = note.ID
		_, _ = fmt.Fprintf(out, "\nuploaded; should this program end, go on with -note %d\n", id)
	}
	note, err := client.Notes.Wait(ctx, id, clinicaldoc.WaitParams{
		Interval: 200 * time.Millisecond,
		OnUpdate: func(n *clinicaldoc.ProgressNote) { _, _ = fmt.Fprintln(out, n.Stage()) },
	})
	var waiting *clinicaldoc.WaitError
	if errors.As(err, &waiting) && ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d polls; go on with -note %d: %w", waiting.Polls, waiting.ID, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "note %d is %s\n", note.ID, note.Stage())
	return err
}
