package main

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
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

// shortRows leaves the texts out of lists, as services may.
type shortRows struct{ http.RoundTripper }

func (s shortRows) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/progress-notes") {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	body = regexp.MustCompile(`"(analysis|transcription)":"[^"]*",`).ReplaceAll(body, nil)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, err
}

func TestReviewReadsTheNoteBeforeItEdits(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Analysis: "draft"})
	client := srv.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: shortRows{http.DefaultTransport}}))
	edit := func(analysis string) string { return analysis + ", reviewed" }
	require.NoError(t, review(t.Context(), client, 7, edit, io.Discard))
	assert.Equal(t, "draft, reviewed", srv.Notes()[0].Analysis, "what the row left out is not lost")
	assert.Equal(t, clinicaldoctest.StageSigned, srv.Notes()[0].Stage)
}
