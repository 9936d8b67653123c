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

const service = "https://service.example"

var (
	now    = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	signed = clinicaldoc.ProgressNote{
		ID: 17, Name: "Synthetic visit", Analysis: "A synthetic analysis.\nWith ümlauts.", UpdatedAt: now.Add(-time.Hour),
		Has: clinicaldoc.Completion{Transcription: true, Content: true, Signed: true},
	}
	everybody = people{subject: "Patient/123", device: "Device/9", signer: "Practitioner/5"}
)

// entries returns the resources of a transaction as JSON, and the names by which they refer to each other.
func entries(t *testing.T, exported *bundle) (resources, names, requests []string) {
	t.Helper()
	for _, e := range exported.Entry {
		resource, err := json.Marshal(e.Resource)
		require.NoError(t, err)
		resources = append(resources, string(resource))
		names = append(names, e.FullURL)
		requests = append(requests, e.Request.Method+" "+e.Request.URL)
	}
	return resources, names, requests
}

// The device is the author and the person who signed is the authenticator: software wrote the text.
func TestExport_SignedNote_NamesSoftwareAndSigner(t *testing.T) {
	t.Parallel()
	exported, err := newBundle(service, &signed, everybody, now)
	require.NoError(t, err)
	assert.Equal(t, "Bundle", exported.ResourceType)
	assert.Equal(t, "transaction", exported.Type)
	resources, names, requests := entries(t, exported)
	require.Len(t, resources, 2)
	assert.JSONEq(t, `{
		"resourceType": "DocumentReference", "status": "current", "docStatus": "final", "date": "2026-03-02T12:00:00Z",
		"meta": {"security": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ObservationValue", "code": "AIAST",
			"display": "Artificial Intelligence asserted"}]},
		"identifier": [{"system": "https://service.example/v1/progress-notes", "value": "17"}],
		"type": {"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]},
		"subject": {"reference": "Patient/123"},
		"author": [{"reference": "Device/9"}], "authenticator": {"reference": "Practitioner/5"},
		"content": [{"attachment": {"contentType": "text/plain; charset=utf-8", "size": 36, "title": "Synthetic visit",
			"creation": "2026-03-02T11:00:00Z", "data": "`+base64.StdEncoding.EncodeToString([]byte(signed.Analysis))+`"}}]
	}`, resources[0])
	assert.JSONEq(t, `{
		"resourceType": "Provenance", "recorded": "2026-03-02T12:00:00Z",
		"target": [{"reference": "`+names[0]+`"}],
		"agent": [
			{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
				"code": "author", "display": "Author"}]}, "who": {"reference": "Device/9"}},
			{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
				"code": "verifier", "display": "Verifier"}]}, "who": {"reference": "Practitioner/5"}}
		]
	}`, resources[1])
	for _, name := range names {
		assert.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, name)
	}
	assert.NotEqual(t, names[0], names[1])
	assert.Equal(t, []string{
		"PUT DocumentReference?identifier=https%3A%2F%2Fservice.example%2Fv1%2Fprogress-notes%7C17",
		"POST Provenance",
	}, requests)
}

// A service may not report when a note was changed. The document then has no time, rather than one in the year 1.
func TestExport_UnknownTime_IsLeftOut(t *testing.T) {
	t.Parallel()
	note := signed
	note.UpdatedAt = time.Time{}
	exported, err := newBundle(service, &note, everybody, now)
	require.NoError(t, err)
	encoded, err := json.Marshal(exported)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded), "creation")
}

func TestExport_RejectsWhatIsNotAFinalDocument(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(note *clinicaldoc.ProgressNote, who *people){
		"not signed":           func(n *clinicaldoc.ProgressNote, _ *people) { n.Has.Signed = false },
		"failed":               func(n *clinicaldoc.ProgressNote, _ *people) { n.ErrorState = new("broken") },
		"no text":              func(n *clinicaldoc.ProgressNote, _ *people) { n.Analysis = "" },
		"no subject":           func(_ *clinicaldoc.ProgressNote, who *people) { who.subject = "" },
		"subject is a person":  func(_ *clinicaldoc.ProgressNote, who *people) { who.subject = "Practitioner/5" },
		"no device":            func(_ *clinicaldoc.ProgressNote, who *people) { who.device = "" },
		"a person as device":   func(_ *clinicaldoc.ProgressNote, who *people) { who.device = "Practitioner/5" },
		"no signer":            func(_ *clinicaldoc.ProgressNote, who *people) { who.signer = "" },
		"a device as signer":   func(_ *clinicaldoc.ProgressNote, who *people) { who.signer = "Device/9" },
		"a name, no reference": func(_ *clinicaldoc.ProgressNote, who *people) { who.signer = "Practitioner/A B" },
	} {
		note := signed
		who := everybody
		change(&note, &who)
		_, err := newBundle(service, &note, who, now)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "ynthetic", name)
	}
}

func TestExport_RejectsAnotherPatientsNote(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageSigned, Analysis: "synthetic"})
	var out bytes.Buffer
	require.Error(t, run(t.Context(), srv.Client(), wanted{note: id, patient: 8, people: everybody}, &out))
	assert.Empty(t, out.String())
	require.NoError(t, run(t.Context(), srv.Client(), wanted{note: id, patient: 7, people: everybody}, &out))
	assert.Contains(t, out.String(), `"resourceType": "DocumentReference"`)
}

func TestExport_RejectsUnsignedNote(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageComplete, Analysis: "synthetic"})
	var out bytes.Buffer
	require.Error(t, run(t.Context(), srv.Client(), wanted{note: id, patient: 7, people: everybody}, &out))
	assert.Empty(t, out.String())
}

func TestExport_RejectsNoteWithoutPatient(t *testing.T) {
	t.Parallel()
	unnamed := clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed}
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(unnamed))
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageSigned, Analysis: "synthetic"})
	var out bytes.Buffer
	for _, patient := range []int64{0, 7} {
		require.Error(t, run(t.Context(), srv.Client(), wanted{note: id, patient: patient, people: everybody}, &out))
	}
	assert.Empty(t, out.String())
}
