package clinicaldoc_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestModelsRoundTrip(t *testing.T) {
	t.Parallel()
	at := moment(1, 123456000)
	assertRoundTrip(t, clinicaldoc.Template{ID: 1, Name: "n", Description: "d"})
	assertRoundTrip(t, clinicaldoc.Template{})
	assertRoundTrip(t, clinicaldoc.AudioInfo{Duration: 1.25, Bitrate: 2, Size: 3, UploadedAt: at, ExpiresAt: at.AddDate(0, 1, 0), FileURL: "https://storage.clinic.test/?a=1&b=<2>"})
	assertRoundTrip(t, clinicaldoc.AudioInfo{})
	assertRoundTrip(t, clinicaldoc.Completion{Content: true, Signed: true})
	assertRoundTrip(t, clinicaldoc.Completion{Transcription: true})
	assertRoundTrip(t, clinicaldoc.Token{ID: 1, Name: "n", CreatedAt: at, LastUsedAt: at})
	assertRoundTrip(t, clinicaldoc.Token{ID: 1})
	assertRoundTrip(t, clinicaldoc.User{ID: 1, Name: "n", Email: "e@clinic.test", CreatedAt: at, UpdatedAt: at})
	assertRoundTrip(t, clinicaldoc.User{})
	assertRoundTrip(t, clinicaldoc.Confirmation{Message: "m"})
	assertRoundTrip(t, clinicaldoc.AudioURL{URL: "https://storage.clinic.test/?a=1&b=2", ExpiresAt: at})
	assertRoundTrip(t, clinicaldoc.AudioURL{URL: "https://storage.clinic.test/"})
	assertRoundTrip(t, clinicaldoc.ProgressNote{})
	assertRoundTrip(t, clinicaldoc.ProgressNote{ErrorState: new(""), Template: new(clinicaldoc.Template), Audio: new(clinicaldoc.AudioInfo)})
	assertRoundTrip(t, clinicaldoc.UpdateNoteParams{Name: new("n"), Analysis: new("")})
	assertRoundTrip(t, clinicaldoc.Object{})
}

func TestStoredNotesReadBackEqual(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		fullNote,
		smallNote,
		`{"id":7,"error_state":{"code": 5},"patient":[],"user":{}}`,
		`{"id":7,"patient":"4711","user":[ 1, 2 ]}`,
		`{"id":7,"patient_id":4711}`,
		`{"id":7,"patient":{ "id" : 4711,"name":"a \" b\\","<tag>" : "<b> & \u2028 ` + "\u2028" + `"}}`,
		`{"id":7,"patient":{"name":"<b>"},"user":{"name":"a>b"}}`,
		`{"id":7,"patient":{"name":"a&b"}}`,
		`{"id":7,"patient":{"url":"https:\/\/clinic.test","name":"Ren\u00e9"}}`,
		richNote,
		`{"id":7,"patient_id":4711,"patient":{"name":"x"},"more":[ {"a" : "<b>"} ],"more":2}`,
	} {
		note, err := get(t, answer)
		require.NoError(t, err, answer)
		assertRoundTrip(t, *note)
	}
}

// The keys are the service's own, so that a stored note can be sent to whatever reads the service's notes.
func TestEncodedNamesAreTheServices(t *testing.T) {
	t.Parallel()
	note, err := get(t, fullNote)
	require.NoError(t, err)
	encoded, err := json.Marshal(note)
	require.NoError(t, err)
	assert.ElementsMatch(t, keys(t, fullNote), keys(t, string(encoded)))
	var want, got any
	require.NoError(t, json.Unmarshal([]byte(fullNote), &want))
	require.NoError(t, json.Unmarshal(encoded, &got))
	record, ok := want.(map[string]any)
	require.True(t, ok)
	record["updated_at"] = "2024-05-01T10:00:08Z" // the same moment, in UTC
	assert.Equal(t, want, got)

	encoded, err = json.Marshal(clinicaldoc.ProgressNote{ID: 7})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"id", "name", "has", "team_id", "user_id", "error_state"}, keys(t, string(encoded)))
	encoded, err = json.Marshal(clinicaldoc.User{ID: 1, CreatedAt: moment(1, 0), UpdatedAt: moment(1, 0)})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"id", "name", "email", "created_at", "updated_at"}, keys(t, string(encoded)))
	encoded, err = json.Marshal(clinicaldoc.Token{ID: 1, CreatedAt: moment(1, 0), LastUsedAt: moment(1, 0)})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"id", "name", "created_at", "last_used_at"}, keys(t, string(encoded)))
}

func TestModelsReadNullAndRefuseOtherKinds(t *testing.T) {
	t.Parallel()
	note := clinicaldoc.ProgressNote{ID: 7}
	require.NoError(t, json.Unmarshal([]byte("null"), &note))
	assert.EqualValues(t, 7, note.ID, "null changes nothing, as everywhere in encoding/json")
	require.NoError(t, json.Unmarshal([]byte(`{"name":"n"}`), &note))
	assert.Equal(t, clinicaldoc.ProgressNote{Name: "n"}, note, "what was there before is gone")
	for _, target := range []any{
		&note, new(clinicaldoc.Template), new(clinicaldoc.AudioInfo), new(clinicaldoc.Completion), new(clinicaldoc.Token), new(clinicaldoc.User),
	} {
		err := json.Unmarshal([]byte(`"secret"`), target)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestExtraMembersAreWrittenBack(t *testing.T) {
	t.Parallel()
	note, err := get(t, `{"id":7,"name":"<b>","severity":{"level": 3},"patient":{"id":5},"patient_id":8,"flags":[]}`)
	require.NoError(t, err)
	encoded, err := json.Marshal(note)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":7,"name":"<b>","patient":{"id":5},"has":{"content":false,"transcription":false,"signed":false},"team_id":0,"user_id":0,`+
		`"error_state":null,"severity":{"level":3},"patient_id":8,"flags":[]}`, string(encoded))

	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(note))
	assert.Contains(t, plain.String(), `"<b>"`, "the caller decides on escaping")
}

// Whoever fills Extra by hand cannot give a note a second id.
func TestExtraReplacesNoDescribedMember(t *testing.T) {
	t.Parallel()
	note := clinicaldoc.ProgressNote{ID: 7, Extra: object(t, `{"id":8,"\u0069d":9,"name":"other","audio":5,"kept":[1]}`)}
	encoded, err := json.Marshal(note)
	require.NoError(t, err)
	assert.Equal(t, 1, bytes.Count(encoded, []byte(`id":`))-bytes.Count(encoded, []byte(`_id":`)), string(encoded))
	var back clinicaldoc.ProgressNote
	require.NoError(t, json.Unmarshal(encoded, &back))
	assert.Equal(t, clinicaldoc.ProgressNote{ID: 7, Extra: object(t, `{"kept":[1]}`)}, back)

	for _, extra := range []string{`{}`, `[]`, `null`, `{"id":8}`} {
		encoded, err = json.Marshal(clinicaldoc.ProgressNote{ID: 7, Extra: object(t, extra)})
		require.NoError(t, err, extra)
		require.NoError(t, json.Unmarshal(encoded, &back))
		assert.Equal(t, clinicaldoc.ProgressNote{ID: 7}, back)
	}
	for _, extra := range []string{`5`, `"secret"`, `[1]`} {
		_, err = json.Marshal(clinicaldoc.ProgressNote{ID: 7, Extra: object(t, extra)})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, extra)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestNotesCanBeStoredWithGob(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{fullNote, richNote, `{"id":7,"error_state":"","template":{},"patient":"x","patient_id":5,"more":{"a":1}}`} {
		note, err := get(t, answer)
		require.NoError(t, err, answer)
		type stored struct {
			Note    clinicaldoc.ProgressNote
			Notes   []*clinicaldoc.ProgressNote
			Patient clinicaldoc.Object
			None    clinicaldoc.Object
		}
		want := stored{Note: *note, Notes: []*clinicaldoc.ProgressNote{note}, Patient: note.Patient}
		var b bytes.Buffer
		require.NoError(t, gob.NewEncoder(&b).Encode(want))
		var got stored
		require.NoError(t, gob.NewDecoder(&b).Decode(&got))
		assert.Equal(t, want, got)
	}
}
