// Quickstart takes one note through its whole life: upload, wait, edit, sign, download, list, delete.
//
// With nothing configured it runs against the service in a box; with CLINICALDOC_BASE_URL and CLINICALDOC_TOKEN set, against
// that service.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context, out io.Writer) (err error) {
	client, stop, err := demo.Connect(out)
	if err != nil {
		return err
	}
	defer stop()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }

	me, err := client.Users.Me(ctx)
	if err != nil {
		return err
	}
	say("signed in as user %d", me.ID)

	recording := demo.WAV(5 * time.Second)
	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Quickstart", PatientID: 1, PromptID: 1,
		Audio: clinicaldoc.AudioBytes("quickstart.wav", recording),
		OnProgress: func(sent, total int64) {
			_, _ = fmt.Fprintf(out, "\ruploading %3d %%", 100*sent/total)
		},
	})
	if err != nil {
		return err
	}
	say("\nuploaded: note %d", note.ID)
	defer func() {
		_, deleted := client.Notes.Delete(context.WithoutCancel(ctx), note.ID)
		say("deleted note %d", note.ID)
		err = errors.Join(err, deleted)
	}()

	started := time.Now()
	for changed, err := range client.Notes.Watch(ctx, note.ID, clinicaldoc.WaitParams{Interval: 100 * time.Millisecond}) {
		if err != nil {
			return err
		}
		say("%5.1f s  %s", time.Since(started).Seconds(), changed.Stage())
		note = changed
	}

	note, err = client.Notes.Update(ctx, note.ID, clinicaldoc.UpdateNoteParams{Analysis: new(note.Analysis + "\nReviewed.")})
	if err != nil {
		return err
	}
	note, err = client.Notes.Sign(ctx, note.ID)
	if err != nil {
		return err
	}
	say("edited and signed: %s", note.Stage())

	hash := sha256.New()
	size, err := client.Notes.DownloadAudio(ctx, note.ID, hash, clinicaldoc.DownloadParams{})
	if err != nil {
		return err
	}
	if [32]byte(hash.Sum(nil)) != sha256.Sum256(recording) {
		return errors.New("the audio came back changed")
	}
	say("downloaded %d bytes of audio, equal to what was uploaded", size)

	count := 0
	for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: 1, Sort: clinicaldoc.SortLatest}) {
		if err != nil {
			return err
		}
		count++
	}
	say("the patient has %d note(s)", count)
	return nil
}
