// Resume uploads a recording and waits for its note. Ended half-way, it is started again with the note's id and goes on
// waiting: nothing is uploaded twice.
//
//	go run ./examples/resume visit.wav   prints the id as soon as the note exists
//	go run ./examples/resume -note 17    waits for that note
//
// Without CLINICALDOC_BASE_URL it runs against the service in a box; to upload to the one that it names, it asks for -yes.
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

type settings struct {
	note, patient, prompt int64
	yes                   bool
	recording             string
}

func main() {
	var s settings
	flag.Int64Var(&s.note, "note", 0, "id of a note uploaded earlier; 0 uploads one")
	flag.Int64Var(&s.patient, "patient", 1, "id of the patient that the note is made for")
	flag.Int64Var(&s.prompt, "prompt", 1, "id of the prompt to use")
	flag.BoolVar(&s.yes, "yes", false, "upload to the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	s.recording = flag.Arg(0)
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings, out io.Writer) error {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: time.Second, Analysing: time.Second}))
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		return resume(ctx, srv.Client(), s, out)
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	if s.note == 0 && !s.yes {
		return fmt.Errorf("this uploads a recording of patient %d to %s: start it with -yes to allow that", s.patient, client.BaseURL())
	}
	if s.note == 0 && s.recording == "" {
		return errors.New("name the recording to upload")
	}
	return resume(ctx, client, s, out)
}

func resume(ctx context.Context, client *clinicaldoc.Client, s settings, out io.Writer) error {
	id := s.note
	if id == 0 {
		note, err := upload(ctx, client, s)
		if err != nil {
			return err
		}
		id = note.ID
		_, _ = fmt.Fprintf(out, "uploaded; should this program end, go on with -note %d\n", id)
	}
	note, err := client.Notes.Wait(ctx, id, clinicaldoc.WaitParams{
		Interval: 200 * time.Millisecond,
		OnUpdate: func(n *clinicaldoc.ProgressNote) { _, _ = fmt.Fprintln(out, n.Stage()) },
	})
	if waiting, ok := errors.AsType[*clinicaldoc.WaitError](err); ok && ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d polls; go on with -note %d: %w", waiting.Polls, waiting.ID, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "note %d is %s\n", note.ID, note.Stage())
	return err
}

func upload(ctx context.Context, client *clinicaldoc.Client, s settings) (*clinicaldoc.ProgressNote, error) {
	audio := clinicaldoc.AudioBytes("synthetic.wav", []byte("synthetic audio")) // does for the box
	if s.recording != "" {
		var err error
		if audio, err = clinicaldoc.AudioFile(s.recording); err != nil {
			return nil, err
		}
	}
	return client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Resume", PatientID: s.patient, PromptID: s.prompt, Audio: audio})
}
