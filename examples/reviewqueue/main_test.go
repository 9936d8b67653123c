package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestReviewEditsAndSignsOnlyThePatientsCompleteNotes(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	complete := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Analysis: "draft"})
	running := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageTranscribing, Stuck: true})
	other := srv.AddNote(clinicaldoctest.Note{PatientID: 8})

	var listed bytes.Buffer
	require.NoError(t, review(t.Context(), srv.Client(), 7, nil, &listed))
	assert.Contains(t, listed.String(), "1 note(s) waiting, 0 signed", "without an edit nothing is changed")
	assert.Equal(t, clinicaldoctest.StageComplete, srv.Notes()[0].Stage)

	var out bytes.Buffer
	edit := func(analysis string) string { return analysis + ", reviewed" }
	require.NoError(t, review(t.Context(), srv.Client(), 7, edit, &out))

	stages := map[int64]clinicaldoctest.Stage{}
	for _, note := range srv.Notes() {
		stages[note.ID] = note.Stage
		if note.ID == complete {
			assert.Equal(t, "draft, reviewed", note.Analysis)
		}
	}
	assert.Equal(t, map[int64]clinicaldoctest.Stage{
		complete: clinicaldoctest.StageSigned, running: clinicaldoctest.StageTranscribing, other: clinicaldoctest.StageComplete,
	}, stages)
	assert.Contains(t, out.String(), "1 note(s) waiting, 1 signed")
}
