package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// element is a member of a FHIR type: what it is, and how often it may and must be there.
type element struct {
	of             string // a type below, or the pattern of a primitive
	required, many bool
}

const (
	text    = `^[ \r\n\t\S]+$`
	uri     = `^\S+$`
	code    = `^[^\s]+(\s[^\s]+)*$`
	base    = `^(\s*([0-9a-zA-Z+/=]){4}\s*)+$`
	count   = `^([1-9][0-9]*|0)$`
	instant = `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`
)

// r4 is what release 4.0.1 says of the types that the mapping uses, written down from its definitions and not from the program.
var r4 = map[string]map[string]element{
	"DocumentReference": {
		"resourceType": {"^DocumentReference$", true, false}, "masterIdentifier": {"Identifier", false, false}, "identifier": {"Identifier", false, true},
		"status": {"^(current|superseded|entered-in-error)$", true, false}, "docStatus": {"^(preliminary|final|amended|entered-in-error)$", false, false},
		"type": {"CodeableConcept", false, false}, "category": {"CodeableConcept", false, true}, "subject": {"Reference", false, false},
		"date": {instant, false, false}, "author": {"Reference", false, true}, "authenticator": {"Reference", false, false},
		"custodian": {"Reference", false, false}, "description": {text, false, false}, "content": {"Content", true, true},
	},
	"Identifier":      {"system": {uri, false, false}, "value": {text, false, false}},
	"CodeableConcept": {"coding": {"Coding", false, true}, "text": {text, false, false}},
	"Coding":          {"system": {uri, false, false}, "version": {text, false, false}, "code": {code, false, false}, "display": {text, false, false}},
	"Reference":       {"reference": {text, false, false}, "type": {uri, false, false}, "display": {text, false, false}},
	"Content":         {"attachment": {"Attachment", true, false}, "format": {"Coding", false, false}},
	"Attachment": {
		"contentType": {code, false, false}, "language": {code, false, false}, "data": {base, false, false}, "url": {uri, false, false},
		"size": {count, false, false}, "hash": {base, false, false}, "title": {text, false, false}, "creation": {instant, false, false},
	},
}

// problems lists where a value is not what the release says of a type. No member is empty there, and none is unknown.
func problems(place, of string, value any) (found []string) {
	members, known := r4[of]
	if !known {
		if printed := fmt.Sprint(value); !regexp.MustCompile(of).MatchString(printed) {
			found = append(found, place+": "+printed)
		}
		return found
	}
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		return []string{place + ": no object"}
	}
	for name := range object {
		if _, ok := members[name]; !ok {
			found = append(found, place+"."+name+": unknown")
		}
	}
	for name, member := range members {
		at, given := place+"."+name, object[name]
		list, isList := given.([]any)
		switch {
		case given == nil && member.required:
			found = append(found, at+": missing")
		case given == nil:
		case isList != member.many || isList && len(list) == 0:
			found = append(found, at+": one, or several?")
		case isList:
			for _, one := range list {
				found = append(found, problems(at, member.of, one)...)
			}
		default:
			found = append(found, problems(at, member.of, given)...)
		}
	}
	return found
}

func decoded(t *testing.T, document []byte) any {
	t.Helper()
	var value any
	numbers := json.NewDecoder(bytes.NewReader(document))
	numbers.UseNumber()
	require.NoError(t, numbers.Decode(&value))
	return value
}

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
	assert.Empty(t, problems("DocumentReference", "DocumentReference", decoded(t, encoded)))
	assert.JSONEq(t, `{
		"resourceType": "DocumentReference", "status": "current", "docStatus": "final", "date": "2026-03-02T12:00:00Z",
		"identifier": [{"system": "https://service.example/v1/progress-notes", "value": "17"}],
		"type": {"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]},
		"subject": {"reference": "Patient/123"}, "author": [{"reference": "Practitioner/5"}],
		"content": [{"attachment": {"contentType": "text/plain; charset=utf-8", "size": 36, "title": "Synthetic visit",
			"creation": "2026-03-02T11:00:00Z", "data": "`+base64.StdEncoding.EncodeToString([]byte(signed.Analysis))+`"}}]
	}`, string(encoded))
}

// The check above would notice what R4 does not know.
func TestTheShapeIsChecked(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		`{"resourceType":"DocumentReference","status":"current"}`,
		`{"resourceType":"DocumentReference","status":"signed","content":[{"attachment":{"size":1}}]}`,
		`{"resourceType":"DocumentReference","status":"current","content":{"attachment":{"size":1}}}`,
		`{"resourceType":"DocumentReference","status":"current","content":[{"attachment":{"size":1,"text":"x"}}]}`,
		`{"resourceType":"DocumentReference","status":"current","content":[{"attachment":{"size":1}}],"date":"2026-03-02"}`,
		`{"resourceType":"DocumentReference","status":"current","content":[]}`,
		`{"resourceType":"DocumentReference","status":"current","content":[{"attachment":{"size":1}}],"author":{"reference":"x"}}`,
	} {
		assert.Len(t, problems("DocumentReference", "DocumentReference", decoded(t, []byte(wrong))), 1, wrong)
	}
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
	assert.Empty(t, problems("DocumentReference", "DocumentReference", decoded(t, out.Bytes())))
}
