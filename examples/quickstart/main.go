// Quickstart takes one note through its whole life: upload, wait, edit, sign, download, list, delete.
//
// With nothing configured it runs on the service in a box. With CLINICALDOC_BASE_URL and CLINICALDOC_TOKEN set it writes to
// that service, and asks for -yes.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {
	patient := flag.Int64("patient", 1, "id of the patient that the note is made for")
	prompt := flag.Int64("prompt", 1, "id of the prompt to use")
	yes := flag.Bool("yes", false, "write to the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	if os.Getenv(clinicaldoc.EnvBaseURL)+os.Getenv(clinicaldoc.EnvToken) == "" {
		_ = flag.Set("box", "true") // nothing is configured: a stand-in, where box.go has one
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	if !*yes {
		log.Fatalf("this creates, edits, signs and deletes a note of patient %d at %s: start it with -yes to allow that", *patient, client.BaseURL())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, client, *patient, *prompt, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *clinicaldoc.Client, patient, prompt int64, out io.Writer) (err error) {
	say := log.New(out, "", 0).Printf
	me, err := client.Users.Me(ctx)
	if err != nil {
		return err
	}
	say("signed in as user %d", me.ID)

	recording := tone(5)
	note, err := create(ctx, client, clinicaldoc.CreateNoteParams{
		Name: "Quickstart", PatientID: patient, PromptID: prompt,
		Audio: clinicaldoc.AudioBytes("quickstart.wav", recording),
		OnProgress: func(sent, total int64) {
			if sent > 0 {
				say("uploading %3d %%", 100*sent/total)
			}
		},
	})
	if err != nil {
		return err
	}
	say("uploaded: note %d", note.ID)
	defer func() {
		last, cancel := cleanUp(ctx)
		defer cancel()
		_, deleted := client.Notes.Delete(last, note.ID)
		if deleted == nil {
			say("deleted note %d", note.ID)
		}
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

	// IfUnchanged: a change by others since the note was read is a *ConflictError.
	reviewed := clinicaldoc.UpdateNoteParams{Analysis: new(note.Analysis + "\nReviewed.")}
	edited, err := client.Notes.Update(ctx, note.ID, reviewed, clinicaldoc.IfUnchanged(note))
	if err != nil {
		return err
	}
	signed, err := client.Notes.Sign(ctx, note.ID, clinicaldoc.IfUnchanged(edited))
	if err != nil {
		return err
	}
	say("edited and signed: %s", signed.Stage())
	return look(ctx, client, note.ID, patient, recording, say)
}

// create creates the note. After an interrupt it searches for a note whose response was lost, so that it can be deleted.
func create(
	ctx context.Context, client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams,
) (*clinicaldoc.ProgressNote, error) {
	find := clinicaldoc.FindCreatedParams{OnProgress: func(reason string, _ time.Time) {
		log.Printf("searching for the note: %s", reason)
	}}
	note, err := client.Notes.CreateOnce(ctx, params, find)
	lost, unknown := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
	if !unknown || ctx.Err() == nil {
		return note, err
	}
	last, cancel := cleanUp(ctx)
	defer cancel()
	return client.Notes.FindCreated(last, lost, find)
}

// cleanUp returns a context for what must be done at the end, also after an interrupt, but not for ever.
func cleanUp(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// look downloads the recording, compares it with what was uploaded, and counts the patient's notes.
func look(ctx context.Context, client *clinicaldoc.Client, id, patient int64, recording []byte, say func(string, ...any)) error {
	hash := sha256.New()
	size, err := client.Notes.DownloadAudio(ctx, id, hash, clinicaldoc.DownloadParams{})
	if err != nil {
		return err
	}
	if [32]byte(hash.Sum(nil)) != sha256.Sum256(recording) {
		return errors.New("the audio came back changed")
	}
	say("downloaded %d bytes of audio, equal to what was uploaded", size)

	notes, err := clinicaldoc.Collect(client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patient}))
	if err != nil {
		return fmt.Errorf("the patient's notes: %w", err)
	}
	say("the patient has %d note(s)", len(notes))
	return nil
}

// tone returns a recording of a quiet tone: a WAV file of 8 kHz, 8 bit, mono.
func tone(seconds int) []byte {
	const rate = 8000
	wav := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
	for i := range rate * seconds {
		wav = append(wav, byte(128+20*math.Sin(2*math.Pi*220*float64(i)/rate)))
	}
	binary.LittleEndian.PutUint32(wav[4:], uint32(len(wav)-8))   //nolint:gosec // a short recording
	binary.LittleEndian.PutUint32(wav[40:], uint32(len(wav)-44)) //nolint:gosec // a short recording
	return wav
}
