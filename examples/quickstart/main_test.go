package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func clinic(t *testing.T) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(srv.Close)
	return srv
}

func TestANotesLife(t *testing.T) {
	t.Parallel()
	srv := clinic(t)
	others := srv.AddNote(clinicaldoctest.Note{Name: "not the example's"})
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), srv.Client(), 7, 1, &out))
	for _, step := range []string{"uploading 100 %", "complete", "edited and signed: signed", "equal to what was uploaded", "has 1 note(s)", "deleted note"} {
		assert.Contains(t, out.String(), step)
	}
	assert.NotContains(t, out.String(), "\r", "it may go into a file")
	notes := srv.Notes()
	require.Len(t, notes, 1, "the example deletes what it created and nothing else")
	assert.Equal(t, others, notes[0].ID)
	assert.Equal(t, int64(7), srv.Created()[0].PatientID)
}

func TestALostCreateIsFoundAndDeleted(t *testing.T) {
	t.Parallel()
	srv := clinic(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	require.NoError(t, run(t.Context(), srv.Client(), 7, 1, new(bytes.Buffer)))
	assert.Len(t, srv.Created(), 1)
	assert.Empty(t, srv.Notes())
}

// The note is deleted also when the rest fails.
func TestAFailureLeavesNoNote(t *testing.T) {
	t.Parallel()
	srv := clinic(t)
	srv.Inject(clinicaldoctest.RouteSignNote, clinicaldoctest.Answer(403, "").Always())
	require.Error(t, run(t.Context(), srv.Client(), 7, 1, new(bytes.Buffer)))
	assert.Empty(t, srv.Notes())
}
