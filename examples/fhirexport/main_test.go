package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

var (
	now    = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	signed = clinicaldoc.ProgressNote{
		ID: 17, Name: "Synthetic visit", Analysis: "A synthetic analysis.\nWith ümlauts.", UpdatedAt: now.Add(-time.Hour),
		Has: clinicaldoc.Completion{Transcription: true, Content: true, Signed: true},
	}
)

func TestASignedNoteIsAFinalDocument(t *testing.T) {
	t.Parallel()
	document, err := newDocument("https://service.example", &signed, "Patient/123", "Practitioner/5", now)
	require.NoError(t, err)
	encoded, err := json.Marshal(document)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"resourceType": "DocumentReference", "status": "current", "docStatus": "final", "date": "2026-03-02T12:00:00Z",
		"identifier": [{"system": "https://service.example/v1/progress-notes", "value": "17"}],
		"type": {"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]},
		"subject": {"reference": "Patient/123"}, "author": [{"reference": "Practitioner/5"}],
		"content": [{"attachment": {"contentType": "text/plain; charset=utf-8", "size": 36, "title": "Synthetic visit",
			"creation": "2026-03-02T11:00:00Z", "data": "`+base64.StdEncoding.EncodeToString([]byte(signed.Analysis))+`"}}]
	}`, string(encoded))
}

// A service may not tell when a note was changed: then nothing is said of it, rather than a date of the year 1.
func TestATimeThatIsNotKnownIsLeftOut(t *testing.T) {
	t.Parallel()
	note := signed
	note.UpdatedAt = time.Time{}
	document, err := newDocument("https://service.example", &note, "Patient/123", "Practitioner/5", now)
	require.NoError(t, err)
	encoded, err := json.Marshal(document)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded), "creation")
}

func TestWhatIsNoFinalDocumentIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(note *clinicaldoc.ProgressNote, subject, author *string){
		"not signed":   func(n *clinicaldoc.ProgressNote, _, _ *string) { n.Has.Signed = false },
		"failed":       func(n *clinicaldoc.ProgressNote, _, _ *string) { n.ErrorState = new("broken") },
		"no text":      func(n *clinicaldoc.ProgressNote, _, _ *string) { n.Analysis = "" },
		"no subject":   func(_ *clinicaldoc.ProgressNote, subject, _ *string) { *subject = "" },
		"an author":    func(_ *clinicaldoc.ProgressNote, subject, _ *string) { *subject = "Practitioner/5" },
		"no author":    func(_ *clinicaldoc.ProgressNote, _, author *string) { *author = "" },
		"a whole name": func(_ *clinicaldoc.ProgressNote, _, author *string) { *author = "Practitioner/A B" },
	} {
		note, subject, author := signed, "Patient/123", "Practitioner/5"
		change(&note, &subject, &author)
		_, err := newDocument("https://service.example", &note, subject, author, now)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "ynthetic", name)
	}
}

func TestAnotherPatientsNoteIsRefused(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageSigned, Analysis: "synthetic"})
	var out bytes.Buffer
	require.Error(t, run(t.Context(), srv.Client(), wanted{id, 8, "Patient/8", "Practitioner/5"}, &out))
	assert.Empty(t, out.String())
	require.NoError(t, run(t.Context(), srv.Client(), wanted{id, 7, "Patient/7", "Practitioner/5"}, &out))
	assert.Contains(t, out.String(), `"resourceType": "DocumentReference"`)
}
