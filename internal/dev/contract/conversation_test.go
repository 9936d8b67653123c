package contract

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// converse calls every operation of the SDK, for its success and for each of its described errors.
func (b *bench) converse(t *testing.T) {
	t.Helper()
	b.AddPatient(clinicaldoctest.Patient{ID: patientID})
	b.talkAboutAccounts(t)
	b.talkAboutCreation(t)
	b.talkAtLength(t)
	b.talkAboutLists(t)
	b.talkAboutNotes(t)
	b.talkAboutChanges(t)
	b.talkAboutSigning(t)
	b.talkWithoutToken(t)
}

const (
	patientID = 7
	promptID  = 3
	noSuchID  = 999_999
)

var recording = bytes.Repeat([]byte("synthetic"), 500)

func (b *bench) talkAboutAccounts(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	_, err := b.client.Users.Me(ctx)
	require.NoError(t, err)

	spare := b.AddToken(1, "spare device")
	tokens, err := b.client.Tokens.List(ctx)
	require.NoError(t, err)
	require.Len(t, tokens, 2)
	_, err = b.client.Tokens.Revoke(ctx, spare.ID)
	require.NoError(t, err)
	_, err = b.client.Tokens.Revoke(ctx, spare.ID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

func (b *bench) talkAboutCreation(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "visit.mp3")
	require.NoError(t, os.WriteFile(path, recording, 0o600))
	file, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	typed := clinicaldoc.AudioBytes("visit", recording)
	typed.ContentType = "audio/ogg; codecs=opus"
	for _, audio := range []*clinicaldoc.AudioSource{
		file,
		clinicaldoc.AudioBytes(`a "visit", größer.wav`, recording),
		clinicaldoc.AudioReaderAt("visit.unknown", bytes.NewReader(recording), int64(len(recording))),
		clinicaldoc.AudioReader("visit.m4a", io.MultiReader(bytes.NewReader(recording), bytes.NewReader(recording))),
		typed,
	} {
		note, err := b.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Visit – größer", PatientID: patientID, PromptID: promptID, Audio: audio})
		require.NoError(t, err)
		require.Positive(t, note.ID)
	}

	_, err = b.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Visit", Audio: clinicaldoc.AudioBytes("visit.wav", recording)})
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	_, err = b.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
}

func (b *bench) talkAboutLists(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for range 4 {
		b.AddNote(clinicaldoctest.Note{PatientID: patientID})
	}
	for _, params := range []clinicaldoc.ListNotesParams{
		{},
		{PatientID: patientID},
		{PatientID: noSuchID},
		{PerPage: 1, Sort: clinicaldoc.SortLatest},
		{PerPage: 100, Sort: clinicaldoc.SortOldest, Page: 1},
	} {
		_, err := b.client.Notes.List(ctx, params)
		require.NoError(t, err)
	}
	for _, params := range []clinicaldoc.ListNotesParams{
		{PerPage: 3},
		{PatientID: patientID, PerPage: 2, Sort: clinicaldoc.SortOldest},
	} {
		count := 0
		for _, err := range b.client.Notes.All(ctx, params) {
			require.NoError(t, err)
			count++
		}
		require.Equal(t, len(b.Notes()), count)
	}
}

// talkAtLength calls the methods that make several requests.
func (b *bench) talkAtLength(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	ids := []int64{
		b.AddNote(clinicaldoctest.Note{PatientID: patientID}),
		b.AddNote(clinicaldoctest.Note{PatientID: patientID, Stage: clinicaldoctest.StageSigned}),
	}
	_, err := b.client.Notes.Wait(ctx, ids[0], clinicaldoc.WaitParams{})
	require.NoError(t, err)
	for _, err := range b.client.Notes.Watch(ctx, ids[0], clinicaldoc.WaitParams{}) {
		require.NoError(t, err)
	}
	for _, err := range b.client.Notes.WaitAll(ctx, ids, clinicaldoc.WaitParams{}) {
		require.NoError(t, err)
	}
	received, err := b.client.Notes.DownloadAudio(ctx, ids[0], io.Discard, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	require.Positive(t, received)

	b.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	_, err = b.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Lost visit", PatientID: patientID, PromptID: promptID, Audio: clinicaldoc.AudioBytes("visit.wav", recording),
	})
	var lost *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, err, &lost)
	_, err = b.client.Notes.FindCreated(ctx, lost, clinicaldoc.FindCreatedParams{UniqueName: true})
	require.NoError(t, err)
}

func (b *bench) talkAboutNotes(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, stage := range []clinicaldoctest.Stage{
		clinicaldoctest.StageUploaded, clinicaldoctest.StageTranscribing, clinicaldoctest.StageTranscribed, clinicaldoctest.StageAnalysing,
		clinicaldoctest.StageComplete, clinicaldoctest.StageFailed, clinicaldoctest.StageSigned,
	} {
		note, err := b.client.Notes.Get(ctx, b.AddNote(clinicaldoctest.Note{Stage: stage, Stuck: true}))
		require.NoError(t, err)
		require.Equal(t, string(stage), note.Stage().String())
		_, err = b.client.Notes.AudioURL(ctx, note.ID)
		require.NoError(t, err)
	}
	_, err := b.client.Notes.Get(ctx, noSuchID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	_, err = b.client.Notes.AudioURL(ctx, noSuchID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)

	id := b.AddNote(clinicaldoctest.Note{})
	b.Advance(60 * 24 * time.Hour) // no audio is kept that long
	_, err = b.client.Notes.Get(ctx, id)
	require.NoError(t, err)
	_, err = b.client.Notes.AudioURL(ctx, id)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)

	_, err = b.client.Notes.Delete(ctx, id)
	require.NoError(t, err)
	_, err = b.client.Notes.Delete(ctx, id)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

func (b *bench) talkAboutChanges(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	id := b.AddNote(clinicaldoctest.Note{})
	for _, params := range []clinicaldoc.UpdateNoteParams{
		{},
		{Name: new("Second visit")},
		{Transcription: new("Corrected \"text\"\n– größer."), Analysis: new("Corrected analysis.")},
	} {
		_, err := b.client.Notes.Update(ctx, id, params)
		require.NoError(t, err)
	}
	_, err := b.client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Name: new("")})
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	_, err = b.client.Notes.Update(ctx, noSuchID, clinicaldoc.UpdateNoteParams{Name: new("Visit")})
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)

	colleague := b.AddUser(clinicaldoctest.User{})
	foreign := b.AddNote(clinicaldoctest.Note{UserID: colleague.ID})
	_, err = b.client.Notes.Update(ctx, foreign, clinicaldoc.UpdateNoteParams{Name: new("Visit")})
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	_, err = b.client.Notes.Delete(ctx, foreign)
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
}

func (b *bench) talkAboutSigning(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	id := b.AddNote(clinicaldoctest.Note{})
	for range 2 {
		note, err := b.client.Notes.Sign(ctx, id)
		require.NoError(t, err)
		require.True(t, note.Has.Signed)
	}
	for _, stage := range []clinicaldoctest.Stage{clinicaldoctest.StageUploaded, clinicaldoctest.StageAnalysing, clinicaldoctest.StageFailed} {
		_, err := b.client.Notes.Sign(ctx, b.AddNote(clinicaldoctest.Note{Stage: stage, Stuck: true}))
		require.ErrorIs(t, err, clinicaldoc.ErrNoteIncomplete)
	}
	_, err := b.client.Notes.Sign(ctx, noSuchID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)

	_, err = b.client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Name: new("Visit")})
	require.NoError(t, err)
}

func (b *bench) talkWithoutToken(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	stranger := b.clientWith(t, "unknown-token")
	for name, call := range map[string]func() error{
		"Users.Me":       func() error { _, err := stranger.Users.Me(ctx); return err },
		"Tokens.List":    func() error { _, err := stranger.Tokens.List(ctx); return err },
		"Tokens.Revoke":  func() error { _, err := stranger.Tokens.Revoke(ctx, 1); return err },
		"Notes.List":     func() error { _, err := stranger.Notes.List(ctx, clinicaldoc.ListNotesParams{}); return err },
		"Notes.Get":      func() error { _, err := stranger.Notes.Get(ctx, 1); return err },
		"Notes.Update":   func() error { _, err := stranger.Notes.Update(ctx, 1, clinicaldoc.UpdateNoteParams{}); return err },
		"Notes.Delete":   func() error { _, err := stranger.Notes.Delete(ctx, 1); return err },
		"Notes.Sign":     func() error { _, err := stranger.Notes.Sign(ctx, 1); return err },
		"Notes.AudioURL": func() error { _, err := stranger.Notes.AudioURL(ctx, 1); return err },
		"Notes.Create": func() error {
			_, err := stranger.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Visit", Audio: clinicaldoc.AudioBytes("visit.wav", recording)})
			return err
		},
		"Notes.Create of a stream": func() error {
			_, err := stranger.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader("visit.wav", bytes.NewReader(recording))})
			return err
		},
	} {
		require.ErrorIs(t, call(), clinicaldoc.ErrUnauthorized, name)
	}
}
