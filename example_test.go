package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The examples run against the fake server, whose notes are complete as soon as they are read.
var ctx = context.Background()

// Upload a recording, wait for its note, review and sign it. The response to the upload is lost here, and the note is
// found.
func Example() {
	// A program calls clinicaldoc.NewClientFromEnv instead.
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	defer srv.Close()
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	client := srv.Client()

	note, err := client.Notes.CreateOnce(ctx, clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 7, PromptID: 1, Audio: clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio")),
	}, clinicaldoc.FindCreatedParams{})
	if err != nil {
		fmt.Println(err)
		return
	}
	note, err = client.Notes.Wait(ctx, note.ID, clinicaldoc.WaitParams{})
	if err != nil {
		fmt.Println(err)
		return
	}
	note, err = client.Notes.Sign(ctx, note.ID, clinicaldoc.IfUnchanged(note)) // note.Analysis was reviewed before
	fmt.Println(note, err)
	// Output: clinicaldoc.ProgressNote{id=1 stage=signed transcription=true content=true signed=true} <nil>
}

func ExampleNewClient() {
	client, err := clinicaldoc.NewClient("https://service.example/api", "the-token")
	fmt.Println(client, err)
	_, err = clinicaldoc.NewClient("http://service.example", "the-token")
	fmt.Println(errors.Is(err, clinicaldoc.ErrInvalidArgument)) // plain http would show the token to the network
	// Output:
	// clinicaldoc.Client{base_url=https://service.example/api} <nil>
	// true
}

func ExampleClient_Do() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	var user struct {
		ID int64 `json:"id"`
	}
	err := srv.Client().Do(ctx, "GET", "/user", nil, &user)
	fmt.Println(user.ID, err)
	// Output: 1 <nil>
}

func ExampleNotesService_Create() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	note, err := srv.Client().Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 7, PromptID: 1,
		Audio: clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio")),
		OnProgress: func(sent, total int64) {
			if sent == total {
				fmt.Println("all", total, "bytes have left")
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("note", note.ID)
	// Output:
	// all 15 bytes have left
	// note 1
}

func ExampleNotesService_CreateOnce() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit()) // created, but the response is lost
	audio := clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio"))
	note, err := srv.Client().Notes.CreateOnce(ctx, clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 7, PromptID: 1, Audio: audio,
	}, clinicaldoc.FindCreatedParams{})
	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		fmt.Println("a person has to compare it with the notes", unknown.Candidates)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("note %d of %d\n", note.ID, len(srv.Notes()))
	// Output: note 1 of 1
}

func ExampleNotesService_FindCreated() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit()) // created, but the response is lost
	client := srv.Client()
	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 7, PromptID: 1, Audio: clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio")),
	})
	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		note, err = client.Notes.FindCreated(ctx, unknown, clinicaldoc.FindCreatedParams{})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("note", note.ID)
	// Output: note 1
}

func ExampleNotesService_List() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7})
	}
	page, err := srv.Client().Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: 7, PerPage: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Items), "of", page.Meta.Total, page.HasNext())
	// Output: 2 of 3 true
}

func ExampleNotesService_All() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7})
	}
	params := clinicaldoc.ListNotesParams{PatientID: 7, Sort: clinicaldoc.SortOldest}
	for note, err := range srv.Client().Notes.All(ctx, params) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("note", note.ID)
	}
	// Output:
	// note 1
	// note 2
	// note 3
}

func ExampleNotesService_Get() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{Transcription: "All is well."})
	note, err := srv.Client().Notes.Get(ctx, id)
	fmt.Println(note, err) // printing a note is safe
	if err == nil {
		fmt.Println(note.Transcription)
	}
	// Output:
	// clinicaldoc.ProgressNote{id=1 stage=complete transcription=true content=true signed=false} <nil>
	// All is well.
}

func ExampleNotesService_Update() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{Name: "Visit", Analysis: "A draft."})
	note, err := srv.Client().Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Analysis: new("Reviewed.")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(note.Name, note.Analysis) // what is not sent stays
	// Output: Visit Reviewed.
}

func ExampleNotesService_Delete() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	client := srv.Client()
	id := srv.AddNote(clinicaldoctest.Note{})
	_, err := client.Notes.Delete(ctx, id)
	fmt.Println(err)
	_, err = client.Notes.Get(ctx, id)
	fmt.Println(errors.Is(err, clinicaldoc.ErrNotFound))
	// Output:
	// <nil>
	// true
}

func ExampleNotesService_Sign() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	client := srv.Client()
	running := srv.AddNote(clinicaldoctest.Note{Stage: clinicaldoctest.StageTranscribing, Stuck: true})
	_, err := client.Notes.Sign(ctx, running)
	fmt.Println(errors.Is(err, clinicaldoc.ErrNoteIncomplete))
	complete := srv.AddNote(clinicaldoctest.Note{})
	note, err := client.Notes.Sign(ctx, complete)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(note.Stage())
	// Output:
	// true
	// signed
}

func ExampleNotesService_AudioURL() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{})
	address, err := srv.Client().Notes.AudioURL(ctx, id)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(address.ExpiresAt.After(time.Now())) // anybody with address.URL can listen, so address does not print it
	// Output: true
}

func ExampleNotesService_DownloadAudio() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{Audio: []byte("synthetic audio")})
	var audio bytes.Buffer
	size, err := srv.Client().Notes.DownloadAudio(ctx, id, &audio, clinicaldoc.DownloadParams{})
	fmt.Println(size, audio.String(), err)
	// Output: 15 synthetic audio <nil>
}

func ExampleNotesService_OpenAudio() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	client, id := srv.Client(), srv.AddNote(clinicaldoctest.Note{Audio: []byte("synthetic audio")})
	player := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream, err := client.Notes.OpenAudio(r.Context(), id) // a listener who leaves ends its reads
		if err != nil {
			http.Error(w, "the recording cannot be played", http.StatusBadGateway)
			return
		}
		defer func() { _ = stream.Close() }()
		w.Header().Set("Content-Type", stream.ContentType())
		w.Header().Set("ETag", stream.ETag())
		http.ServeContent(w, r, "", time.Time{}, stream)
	}))
	defer player.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, player.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	request.Header.Set("Range", "bytes=10-14")
	response, err := player.Client().Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	part, err := io.ReadAll(response.Body)
	fmt.Println(response.Header.Get("Content-Range"), string(part), err)
	// Output: bytes 10-14/15 audio <nil>
}

func ExampleNotesService_DownloadAudioFile() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{Audio: []byte("synthetic audio")})
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	// The file gets its name when it is complete. The next call continues a download that was interrupted.
	path := filepath.Join(folder, "visit.wav")
	size, err := srv.Client().Notes.DownloadAudioFile(ctx, id, path, clinicaldoc.DownloadParams{})
	fmt.Println(size, err)
	// Output: 15 <nil>
}

func ExampleNotesService_Wait() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{})
	note, err := srv.Client().Notes.Wait(ctx, id, clinicaldoc.WaitParams{})
	if waiting, ok := errors.AsType[*clinicaldoc.WaitError](err); ok {
		fmt.Println("wait on later for", waiting.ID)
	}
	if err == nil {
		fmt.Println(note.Stage())
	}
	// Output: complete
}

func ExampleNotesService_Watch() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{})
	for note, err := range srv.Client().Notes.Watch(ctx, id, clinicaldoc.WaitParams{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(note.Stage())
	}
	// Output: complete
}

func ExampleNotesService_WaitAll() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	ids := []int64{
		srv.AddNote(clinicaldoctest.Note{}),
		srv.AddNote(clinicaldoctest.Note{Stage: clinicaldoctest.StageFailed, ErrorState: "no speech found"}),
	}
	complete, failed := 0, 0
	for _, err := range srv.Client().Notes.WaitAll(ctx, ids, clinicaldoc.WaitParams{}) {
		switch {
		case errors.Is(err, clinicaldoc.ErrProcessingFailed):
			failed++ // the others go on
		case err == nil:
			complete++
		}
	}
	fmt.Println(complete, "complete,", failed, "failed")
	// Output: 1 complete, 1 failed
}

func ExampleTokensService_List() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	tokens, err := srv.Client().Tokens.List(ctx)
	fmt.Println(len(tokens), err)
	// Output: 1 <nil>
}

func ExampleTokensService_Revoke() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	old := srv.AddToken(1, "an old device")
	_, err := srv.Client().Tokens.Revoke(ctx, old.ID)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleUsersService_Me() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	me, err := srv.Client().Users.Me(ctx)
	fmt.Println(me, err)
	// Output: clinicaldoc.User{id=1} <nil>
}

func ExampleError() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	audio := clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio"))
	_, err := srv.Client().Notes.Create(ctx, clinicaldoc.CreateNoteParams{PatientID: 7, PromptID: 1, Audio: audio})
	if answered, ok := errors.AsType[*clinicaldoc.Error](err); ok && errors.Is(err, clinicaldoc.ErrValidation) {
		fmt.Println(answered.StatusCode, answered.Fields["name"])
	}
	// Output: 422 [The name field is required.]
}

func ExampleWithRetry() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(503, "").Times(2))
	client := srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: time.Millisecond}))
	var response clinicaldoc.Response
	_, err := client.Users.Me(ctx, clinicaldoc.WithResponse(&response))
	fmt.Println(response.Attempts, err)
	// Output: 3 <nil>
}

func ExampleWithHooks() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	client := srv.Client(clinicaldoc.WithHooks(clinicaldoc.Hooks{
		AttemptEnd: func(_ context.Context, a clinicaldoc.Attempt) {
			fmt.Println(a.Operation, a.Route, a.StatusCode)
		},
	}))
	_, err := client.Users.Me(ctx)
	fmt.Println(err)
	// Output:
	// Users.Me /user 200
	// <nil>
}

func ExampleWithLogger() {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{Name: "Visit"})
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // differs from run to run
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	note, err := srv.Client(clinicaldoc.WithLogger(logger)).Notes.Get(ctx, id) // successes are logged at debug level
	logger.Info("read", "note", note, "error", err)
	// Output: level=INFO msg=read note.id=1 note.stage=complete note.transcription=true note.content=true note.signed=false error=<nil>
}
