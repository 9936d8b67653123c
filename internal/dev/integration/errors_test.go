package integration

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// wrongToken is a token that no service has given out.
const wrongToken = "synthetic-wrong-token"

// testDelete deletes a note and finds nothing of it afterwards. The id is known to have been an own note's.
func testDelete(t *testing.T, tg *target) {
	t.Helper()
	note := tg.create(t)
	confirmation, err := tg.client.Notes.Delete(t.Context(), note.ID)
	require.NoError(t, err)
	assert.NotNil(t, confirmation)

	_, err = tg.client.Notes.Get(t.Context(), note.ID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	_, err = tg.client.Notes.Update(t.Context(), note.ID, clinicaldoc.UpdateNoteParams{Name: new("Synthetic name")})
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	_, err = tg.client.Notes.Sign(t.Context(), note.ID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	_, err = tg.client.Notes.Delete(t.Context(), note.ID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	_, err = tg.client.Notes.AudioURL(t.Context(), note.ID)
	assertRefused(t, err) // its status is not described
	_, err = tg.client.Notes.Wait(t.Context(), note.ID, tg.waitParams())
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

func testWrongToken(t *testing.T, tg *target) {
	t.Helper()
	stranger := tg.newClient(t, wrongToken)
	_, err := stranger.Users.Me(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	assert.NotContains(t, err.Error(), wrongToken)
	_, err = stranger.Tokens.List(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	_, err = stranger.Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	_, err = stranger.Notes.Create(t.Context(), tg.params())
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

// testInvalidData sends what a service should refuse. Which parts it requires is not described.
func testInvalidData(t *testing.T, tg *target) {
	t.Helper()
	note, err := tg.client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: tg.namePrefix})
	tg.deleteLater(t, note, err)
	if err != nil {
		assertRefused(t, err)
	}
	if errors.Is(err, clinicaldoc.ErrValidation) {
		refusal := (*clinicaldoc.Error)(nil)
		require.ErrorAs(t, err, &refusal)
		assert.NotEmpty(t, refusal.Fields)
	}

	own := tg.create(t)
	_, err = tg.client.Notes.Update(t.Context(), own.ID, clinicaldoc.UpdateNoteParams{Name: new("")})
	if err != nil {
		assertRefused(t, err)
	}
}

func testDo(t *testing.T, tg *target) {
	t.Helper()
	var user map[string]json.RawMessage
	require.NoError(t, tg.client.Do(t.Context(), http.MethodGet, "/user", nil, &user))
	assert.True(t, user["id"] != nil || user["data"] != nil)
	err := tg.client.Do(t.Context(), http.MethodGet, "/v1/synthetic-path-that-does-not-exist", nil, nil)
	assertRefused(t, err)
}
