package clinicaldoc_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func unmarshalled[T any](t *testing.T, document []byte) {
	t.Helper()
	var value T
	if json.Unmarshal(document, &value) == nil {
		checkStored(t, value)
	}
}

func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		fullNote, smallNote, "", "null", "[]", `{"data":` + smallNote + `}`, `{"id":"7","data":{"id":8}}`,
		`{"id":7,"patient_id":"4711","patient":{"id":0},"user":[ 1 ],"error_state":{"code": 5},"template":[],"audio":{"size":"12","duration":"1e2"}}`,
		`{"id":7,"patient":"4711","patient_id":5}`, `{"id":7,"error_state":["` + "\xff" + `"]}`, `{"id":7,"user":"` + "\xff\u2028" + `<&>"}`,
		`{"id":7,"created_at":"0000-01-01T00:00:00+23:59"}`, `{"id":7,"updated_at":"9999-12-31T23:59:59-01:00"}`,
		`{"id":7,"audio":{"duration":-0.0,"bitrate":1e3,"size":9007199254740993,"expires_at":"2024-05-01"},"has":{"signed":"1","content":0}}`,
		`{"id":2,"name":"Test User","email":"user@clinic.test","created_at":"2024-05-01 10:11:12"}`,
		`{"id":1,"name":"label","created_at":"2024-05-01T10:11:12.5+0200","last_used_at":null}`,
		`{"url":"https://storage.clinic.test/7.wav?expires=1714558272"}`, `{"message":"done"}`, `{"id":7,"more":[ 1 ],"<x>" :"&","more":2,"patient":{"id":7},"patient_id":8}`,
		`{"id":7,"patient":{"name":"x"},"patient_id":"8 ","":{}}`, `{"id":7,"patient_id":{"id":[{"id":[{"data":7.0}]}]}}`, `{"id":7,"patient":` + strings.Repeat(`[`, 1200),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		client := fuzzClient(t, answerWith(http.StatusOK, "application/json", document))
		ctx := t.Context()
		note, err := pointer(client.Notes.Get(ctx, 7))
		checkDecoding(t, note, err)
		created, err := pointer(client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Visit"}))
		checkDecoding(t, created, err)
		if err == nil {
			checkStored(t, *created.(*clinicaldoc.ProgressNote))
			require.Positive(t, created.(*clinicaldoc.ProgressNote).ID)
		}
		user, err := pointer(client.Users.Me(ctx))
		checkDecoding(t, user, err)
		if err == nil {
			checkStored(t, *user.(*clinicaldoc.User))
		}
		done, err := pointer(client.Notes.Delete(ctx, 7))
		checkDecoding(t, done, err)
		address, err := pointer(client.Notes.AudioURL(ctx, 7))
		checkDecoding(t, address, err)

		unmarshalled[clinicaldoc.ProgressNote](t, document)
		unmarshalled[clinicaldoc.Template](t, document)
		unmarshalled[clinicaldoc.AudioInfo](t, document)
		unmarshalled[clinicaldoc.Completion](t, document)
		unmarshalled[clinicaldoc.Token](t, document)
		unmarshalled[clinicaldoc.User](t, document)
		unmarshalled[clinicaldoc.Object](t, document)
	})
}

func FuzzTimes(f *testing.F) {
	for _, seed := range []string{
		"", "2024-05-01T10:11:12Z", "2024-05-01T12:11:12.345678+02:00", "2024-05-01 10:11:12", "2024-05-01 10:11:12.5-0130", "2024-05-01",
		"0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-00:01", "2024-02-30T00:00:00Z", "2024-05-01T24:00:00Z", "0001-01-01T00:00:00Z", "1714558272",
		"0000-01-01 00:00:00+0100", "2024-05-01T10:11:12,5Z", "+2024-05-01",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		document := []byte(`{"id":7,"created_at":` + string(quoted) + `}`)
		note, err := fuzzClient(t, answerWith(http.StatusOK, "application/json", document)).Notes.Get(t.Context(), 7)
		want, standard := time.Parse(time.RFC3339, text)
		encodable := want.UTC().Year() >= 0 && want.UTC().Year() <= 9999
		if err != nil {
			checkDecoding(t, nil, err)
			require.False(t, standard == nil && encodable && !strings.Contains(text, ","), "refuses what RFC 3339 has")
			return
		}
		require.Equal(t, time.UTC, note.CreatedAt.Location())
		if standard == nil {
			require.True(t, want.Equal(note.CreatedAt))
		}
		checkStored(t, *note)
		_, err = note.CreatedAt.MarshalText()
		require.NoError(t, err)
	})
}

// Texts are stored when the record has been read, which must not bring back what a later member has replaced.
func TestTheLastOfRepeatedMembersCounts(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]clinicaldoc.ProgressNote{
		`{"name":"a","name":"b"}`:                            {Name: "b"},
		`{"name":"a","name":null}`:                           {},
		`{"analysis":"a","analysis":5}`:                      {},
		`{"patient":{"id":5},"patient":null}`:                {},
		`{"template":{"name":"a"},"template":null}`:          {},
		`{"template":{"name":"a"},"template":{}}`:            {Template: &clinicaldoc.Template{}},
		`{"audio":{"file_url":"a"},"audio":null,"audio":{}}`: {Audio: &clinicaldoc.AudioInfo{}},
		`{"audio":{"file_url":"a"},"template":{"name":"b"},"audio":{"file_url":"c"}}`: {
			Audio: &clinicaldoc.AudioInfo{FileURL: "c"}, Template: &clinicaldoc.Template{Name: "b"},
		},
	} {
		var got clinicaldoc.ProgressNote
		require.NoError(t, got.UnmarshalJSON([]byte(document)), document)
		assert.Equal(t, want, got, document)
	}
}
