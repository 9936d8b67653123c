package clinicaldoctest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// visit is what the examples create.
var visit = clinicaldoc.CreateNoteParams{
	Name: "Visit", PatientID: 7, PromptID: 1, Audio: clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio")),
}

// quickly polls often, since the box is quick.
var quickly = clinicaldoc.WaitParams{Interval: 50 * time.Millisecond}

func Example() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.ScriptNext(clinicaldoctest.Script{Transcription: "All is well.", Analysis: "Healthy."})
	client, ctx := srv.Client(), context.Background()

	note, err := client.Notes.Create(ctx, visit)
	if err == nil {
		note, err = client.Notes.Wait(ctx, note.ID, quickly)
	}
	if err == nil {
		note, err = client.Notes.Sign(ctx, note.ID)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(note.Transcription, note.Analysis, note.Stage())
	// Output: All is well. Healthy. signed
}

func Example_failingTranscription() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.ScriptNext(clinicaldoctest.Script{TranscriptionError: "no speech found"})
	client, ctx := srv.Client(), context.Background()

	note, err := client.Notes.Create(ctx, visit)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Notes.Wait(ctx, note.ID, quickly)
	if failed, ok := errors.AsType[*clinicaldoc.WaitError](err); ok {
		fmt.Println(errors.Is(err, clinicaldoc.ErrProcessingFailed), *failed.Note.ErrorState)
	}
	// Output: true no speech found
}

func Example_invalidRequest() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()

	nameless := visit
	nameless.Name = ""
	_, err := srv.Client().Notes.Create(context.Background(), nameless)
	if invalid, ok := errors.AsType[*clinicaldoc.Error](err); ok {
		fmt.Println(errors.Is(err, clinicaldoc.ErrValidation), invalid.Fields["name"])
	}
	// Output: true [The name field is required.]
}

func Example_lostAnswer() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	client, ctx := srv.Client(), context.Background()

	_, err := client.Notes.Create(ctx, visit)
	if lost, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		note, err := client.Notes.FindCreated(ctx, lost, clinicaldoc.FindCreatedParams{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("found note", note.ID, "of", len(srv.Notes()))
	}
	// Output: found note 1 of 1
}

// A service that answers 504 and stores the note all the same, minutes later: the recipe of the SDK neither loses the
// recording nor makes two notes of it.
func Example_lateCommit() {
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(clinicaldoctest.Variant{ListTexts: clinicaldoctest.ListTextsAbsent}))
	defer srv.Close()
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(504, "").CommitAfter(95*time.Second))
	client, ctx := srv.Client(), context.Background()

	_, err := client.Notes.Create(ctx, visit)
	fmt.Println("unknown:", errors.Is(err, clinicaldoc.ErrOutcomeUnknown), "notes:", len(srv.Created()))
	srv.Advance(2 * time.Minute)
	fmt.Println("notes:", len(srv.Created()), "of this recording once:", srv.CreatedOnce([]byte("synthetic audio")) == nil)
	// Output:
	// unknown: true notes: 0
	// notes: 1 of this recording once: true
}
