package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func testUpdate(t *testing.T, tg *target) {
	t.Helper()
	note := tg.complete(t, tg.create(t).ID)

	// Only what is sent changes. A service may trim.
	name, transcription := tg.namePrefix+" renamed", "  Synthetic edited transcription. "
	updated, err := tg.client.Notes.Update(t.Context(), note.ID, clinicaldoc.UpdateNoteParams{Name: &name, Transcription: &transcription})
	require.NoError(t, err)
	assert.Equal(t, name, updated.Name)
	assert.Equal(t, strings.TrimSpace(transcription), strings.TrimSpace(updated.Transcription))
	assert.Equal(t, note.Analysis, updated.Analysis)

	analysis := "Synthetic edited analysis: ünïcode, \"quotes\", <tags> & line\nbreaks."
	_, err = tg.client.Notes.Update(t.Context(), note.ID, clinicaldoc.UpdateNoteParams{Analysis: &analysis})
	require.NoError(t, err)
	read, err := tg.client.Notes.Get(t.Context(), note.ID)
	require.NoError(t, err)
	assert.Equal(t, name, read.Name)
	assert.Equal(t, analysis, read.Analysis)
	assert.Equal(t, updated.Transcription, read.Transcription)

	// An empty text empties, or is refused and leaves everything as it was.
	emptied, err := tg.client.Notes.Update(t.Context(), note.ID, clinicaldoc.UpdateNoteParams{Transcription: new("")})
	switch {
	case err == nil:
		assert.True(t, emptied.Transcription == "" || emptied.Transcription == read.Transcription)
	case errors.Is(err, clinicaldoc.ErrValidation):
		unchanged, err := tg.client.Notes.Get(t.Context(), note.ID)
		require.NoError(t, err)
		assert.Equal(t, read.Transcription, unchanged.Transcription)
	default:
		require.NoError(t, err)
	}
}
