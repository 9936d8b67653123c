// Quickstart takes one note through its whole life: upload, wait, edit, sign, download, list, delete.
//
// With nothing configured it runs against the service in a box. With CLINICALDOC_BASE_URL and CLINICALDOC_TOKEN set it
// writes to that service, and asks for -yes.
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
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

type settings struct {
	patient, prompt int64
	yes             bool
}

func main() {
	var s settings
	flag.Int64Var(&s.patient, "patient", 1, "id of the patient that the note is made for")
	flag.Int64Var(&s.prompt, "prompt", 1, "id of the prompt to use")
	flag.BoolVar(&s.yes, "yes", false, "write to the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	say := log.New(out, "", 0).Printf
	client, stop, err := connect(s, say)
	if err != nil {
		return err
	}
	defer stop()

	me, err := client.Users.Me(ctx)
	if err != nil {
		return err
	}
	say("signed in as user %d", me.ID)

	recording := tone(5)
	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Quickstart", PatientID: s.patient, PromptID: s.prompt,
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
		_, deleted := client.Notes.Delete(context.WithoutCancel(ctx), note.ID)
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
	if note, err = client.Notes.Update(ctx, note.ID, reviewed, clinicaldoc.IfUnchanged(note)); err != nil {
		return err
	}
	if note, err = client.Notes.Sign(ctx, note.ID, clinicaldoc.IfUnchanged(note)); err != nil {
		return err
	}
	say("edited and signed: %s", note.Stage())
	return look(ctx, client, note.ID, s.patient, recording, say)
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

	count := 0
	for _, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patient, Sort: clinicaldoc.SortLatest}) {
		if err != nil {
			return err
		}
		count++
	}
	say("the patient has %d note(s)", count)
	return nil
}

// connect returns a client for the service that CLINICALDOC_BASE_URL names or, without it, for the service in a box, where
// a note takes about two seconds.
func connect(s settings, say func(string, ...any)) (client *clinicaldoc.Client, stop func(), err error) {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{
			Uploaded: 200 * time.Millisecond, Transcribing: time.Second, Transcribed: 200 * time.Millisecond, Analysing: 600 * time.Millisecond,
		}))
		say("no %s set: using the service in a box at %s", clinicaldoc.EnvBaseURL, srv.URL)
		return srv.Client(), srv.Close, nil
	}
	if client, err = clinicaldoc.NewClientFromEnv(); err != nil {
		return nil, nil, err
	}
	if !s.yes {
		return nil, nil, fmt.Errorf("this creates, edits, signs and deletes a note of patient %d at %s: start it with -yes to allow that", s.patient, client.BaseURL())
	}
	return client, func() {}, nil
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
