package clinicaldoc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// get reads one note out of an answer of the service.
func get(t *testing.T, answer string) (*clinicaldoc.ProgressNote, error) {
	t.Helper()
	client := serve(t, call{url: "/v1/progress-notes/7", answer: answer})
	return client.Notes.Get(t.Context(), 7)
}

// withField is a note with one more field.
func withField(field string) string { return `{"id":7,` + field + `}` }

func TestDecodeToleratesForms(t *testing.T) {
	t.Parallel()
	utc := time.Date(2024, 5, 1, 10, 11, 12, 0, time.UTC)
	note := func(change func(*clinicaldoc.ProgressNote)) clinicaldoc.ProgressNote {
		n := clinicaldoc.ProgressNote{ID: 7}
		change(&n)
		return n
	}
	bare := note(func(*clinicaldoc.ProgressNote) {})
	audio := func(info clinicaldoc.AudioInfo) clinicaldoc.ProgressNote {
		return note(func(n *clinicaldoc.ProgressNote) { n.Audio = &info })
	}
	created := func(at time.Time) clinicaldoc.ProgressNote {
		return note(func(n *clinicaldoc.ProgressNote) { n.CreatedAt = at })
	}
	failed := func(state string) clinicaldoc.ProgressNote {
		return note(func(n *clinicaldoc.ProgressNote) { n.ErrorState = &state })
	}
	tests := map[string]clinicaldoc.ProgressNote{
		// The envelope.
		`{"id":7}`:                                  bare,
		` { "id" : 7 } ` + "\n":                     bare,
		`{"data":{"id":7}}`:                         bare,
		`{"message":"ok","data":{"id":7}}`:          bare,
		`{"id":7,"data":{"id":8,"name":"other"}}`:   bare,
		`{"id":7,"data":[1]}`:                       bare,
		`{"id":"7"}`:                                bare,
		`{"id":7.0}`:                                bare,
		`{"id":7,"unknown":{"deep":[{"id":9}]}}`:    bare,
		`{"id":7,"ID":9,"Name":"other"}`:            bare,
		`{"id":7,"name":"first","name":"\u0061"}`:   note(func(n *clinicaldoc.ProgressNote) { n.Name = "a" }),
		`{"\u0069d":7}`:                             bare,
		withField(`"transcription":"\ud83d\ude00"`): note(func(n *clinicaldoc.ProgressNote) { n.Transcription = "😀" }),

		// Null and [] for what is absent.
		withField(`"name":null,"transcription":null,"analysis":null,"team_id":null,"user_id":null`):        bare,
		withField(`"template":null,"patient":null,"audio":null,"has":null,"user":null,"error_state":null`): bare,
		withField(`"template":[],"audio":[],"has":[]`):                                                     bare,
		withField(`"template":{}`): note(func(n *clinicaldoc.ProgressNote) { n.Template = new(clinicaldoc.Template) }),
		withField(`"created_at":null,"updated_at":null,"transcription_started_at":null,"transcription_completed_at":null,"analysis_started_at":null,"analysis_completed_at":null`): bare,
		withField(`"template":{"id":null,"name":null,"description":null}`): note(func(n *clinicaldoc.ProgressNote) { n.Template = new(clinicaldoc.Template) }),

		// Numbers as texts, with zeros after the point, or as null.
		withField(`"audio":{"duration":"61.5","bitrate":"128000","size":"980123"}`):                                            audio(clinicaldoc.AudioInfo{Duration: 61.5, Bitrate: 128000, Size: 980123}),
		withField(`"audio":{"duration":61,"bitrate":128000.0,"size":9.8e2}`):                                                   audio(clinicaldoc.AudioInfo{Duration: 61, Bitrate: 128000, Size: 980}),
		withField(`"audio":{"duration":null,"bitrate":null,"size":null,"uploaded_at":null,"expires_at":null,"file_url":null}`): audio(clinicaldoc.AudioInfo{}),
		withField(`"audio":{"duration":"","bitrate":"","size":"","uploaded_at":"","expires_at":""}`):                           audio(clinicaldoc.AudioInfo{}),
		withField(`"team_id":"21","user_id":"22"`):                                                                             note(func(n *clinicaldoc.ProgressNote) { n.TeamID, n.UserID = 21, 22 }),

		// Flags.
		withField(`"has":{"content":1,"transcription":"1","signed":0}`):             note(func(n *clinicaldoc.ProgressNote) { n.Has.Content, n.Has.Transcription = true, true }),
		withField(`"has":{"content":"false","transcription":null,"signed":"true"}`): note(func(n *clinicaldoc.ProgressNote) { n.Has.Signed = true }),

		// Times.
		withField(`"created_at":"2024-05-01T10:11:12Z"`):           created(utc),
		withField(`"created_at":"2024-05-01T10:11:12.000000Z"`):    created(utc),
		withField(`"created_at":"2024-05-01T10:11:12.123456Z"`):    created(utc.Add(123456 * time.Microsecond)),
		withField(`"created_at":"2024-05-01T12:11:12+02:00"`):      created(utc),
		withField(`"created_at":"2024-05-01T10:11:12.5+00:00"`):    created(utc.Add(500 * time.Millisecond)),
		withField(`"created_at":"2024-05-01T12:11:12+0200"`):       created(utc),
		withField(`"created_at":"2024-05-01T10:11:12"`):            created(utc),
		withField(`"created_at":"2024-05-01T10:11:12.123456"`):     created(utc.Add(123456 * time.Microsecond)),
		withField(`"created_at":"2024-05-01 10:11:12"`):            created(utc),
		withField(`"created_at":"2024-05-01 10:11:12.25"`):         created(utc.Add(250 * time.Millisecond)),
		withField(`"created_at":"2024-05-01 12:11:12+02:00"`):      created(utc),
		withField(`"created_at":"2024-05-01 12:11:12+0200"`):       created(utc),
		withField(`"created_at":"2024-05-01T10:11:12\u002b00:00"`): created(utc),
		withField(`"created_at":"2024-05-01"`):                     created(utc.Truncate(24 * time.Hour)),
		withField(`"created_at":""`):                               bare,

		// The error state, of which the description gives no values.
		withField(`"error_state":"timeout"`):   failed("timeout"),
		withField(`"error_state":""`):          failed(""),
		withField(`"error_state":{"code": 5}`): failed(`{"code": 5}`),
		withField(`"error_state":["a"]`):       failed(`["a"]`),
		withField(`"error_state":3`):           failed("3"),
		withField(`"error_state":true`):        failed("true"),
		withField(`"error_state":false`):       bare,
		withField(`"error_state":0`):           bare,
		withField(`"error_state":[]`):          bare,
		withField(`"error_state":{}`):          bare,
	}
	for answer, want := range tests {
		got, err := get(t, answer)
		require.NoError(t, err, answer)
		assert.Equal(t, fields(want), fields(*got), answer)
		assert.Equal(t, want, *got, answer)
		if !got.CreatedAt.IsZero() {
			assert.Equal(t, time.UTC, got.CreatedAt.Location(), answer)
		}
	}
}

// fields lets a failed comparison show what a note's own printing does not.
func fields(n clinicaldoc.ProgressNote) string {
	encoded, err := json.Marshal(n)
	return fmt.Sprint(string(encoded), err)
}

func TestDecodePatientReferences(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		id   int64
		json string // what the patient encodes to
	}{
		`"patient":{"id":4711}`:                           {4711, `{"id":4711}`},
		`"patient":{"id":"4711","name":"x"}`:              {4711, `{"id":"4711","name":"x"}`},
		`"patient":{"patient_id":4711}`:                   {4711, `{"patient_id":4711}`},
		`"patient":{"id":null,"patient_id":4711}`:         {4711, `{"id":null,"patient_id":4711}`},
		`"patient":{"id":4711,"patient_id":8}`:            {4711, `{"id":4711,"patient_id":8}`},
		`"patient":{"user":{"id":8},"id":4711}`:           {4711, `{"user":{"id":8},"id":4711}`},
		`"patient":4711`:                                  {4711, `4711`},
		`"patient":"4711"`:                                {4711, `"4711"`},
		`"patient_id":4711`:                               {4711, `{"id":4711}`},
		`"patient_id":"4711"`:                             {4711, `{"id":4711}`},
		`"patient":null,"patient_id":4711`:                {4711, `{"id":4711}`},
		`"patient_id":4711,"patient":null`:                {4711, `{"id":4711}`},
		`"patient":[],"patient_id":4711`:                  {4711, `{"id":4711}`},
		`"patient":{},"patient_id":4711`:                  {4711, `{"id":4711}`},
		`"patient":{"name":"x"},"patient_id":4711`:        {4711, `{"name":"x","patient_id":4711}`},
		`"patient":{"id":4711,"name":"x"},"patient_id":8`: {4711, `{"id":4711,"name":"x"}`},
		`"patient":{"id":"6b1f-uuid"}`:                    {0, `{"id":"6b1f-uuid"}`},
		`"patient":{"id":0}`:                              {0, `{"id":0}`},
		`"patient":{"id":-4711}`:                          {0, `{"id":-4711}`},
		`"patient":{"id":[4711]}`:                         {0, `{"id":[4711]}`},
		`"patient":"Jane"`:                                {0, `"Jane"`},
		`"patient":[]`:                                    {0, `[]`},
		`"patient":{}`:                                    {0, `{}`},
		`"patient":true`:                                  {0, `true`},
		`"patient_id":"6b1f-uuid"`:                        {0, `null`},
		`"patient_id":{"a":1}`:                            {0, `null`},
		`"name":"no patient at all"`:                      {0, `null`},
	}
	for field, want := range tests {
		note, err := get(t, withField(field))
		require.NoError(t, err, field)
		id, named := note.Patient.ID()
		assert.Equal(t, want.id != 0, named, field)
		if named {
			assert.Equal(t, want.id, id, field)
		}
		encoded, err := json.Marshal(note.Patient)
		require.NoError(t, err, field)
		assert.Equal(t, want.json, string(encoded), field)
		assert.Equal(t, want.json == "null", note.Patient.IsZero(), field)
	}
}

func TestObjectDecode(t *testing.T) {
	t.Parallel()
	type record struct{ Name string }
	for field, want := range map[string]string{
		`"patient":{"name":"x"}`: "x", `"patient":null`: "before", `"patient":[]`: "before", `"patient":{}`: "before",
	} {
		note, err := get(t, withField(field))
		require.NoError(t, err)
		got := record{"before"}
		require.NoError(t, note.Patient.Decode(&got), field)
		assert.Equal(t, want, got.Name, field)
	}
	note, err := get(t, withField(`"patient":[1,2]`))
	require.NoError(t, err)
	require.Error(t, note.Patient.Decode(new(record)))
	var numbers []int
	require.NoError(t, note.Patient.Decode(&numbers))
	assert.Equal(t, []int{1, 2}, numbers)
}

func TestDecodeRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // what the error must tell
		``:                                     "no body",
		` `:                                    "",
		`<!DOCTYPE html><p>secret</p>`:         "JSON",
		`secret`:                               "JSON",
		`null`:                                 "no id",
		`[]`:                                   "no id",
		`{}`:                                   "no id",
		`true`:                                 "",
		`"secret"`:                             "",
		`[{"id":7}]`:                           "object",
		`{"id":null}`:                          "no id",
		`{"id":0}`:                             "no id",
		`{"id":-7}`:                            "no id",
		`{"message":"secret"}`:                 "no id",
		`{"data":null}`:                        "no id",
		`{"data":[]}`:                          "no id",
		`{"data":[{"id":7}]}`:                  "no id",
		`{"data":{}}`:                          "no id",
		`{"data":{"data":{"id":7}}}`:           "no id",
		`{"data":{"id":"secret"}}`:             "id: want a whole number",
		`{"id":8}`:                             "another record",
		`{"data":{"id":8}}`:                    "another record",
		`{"id":"secret"}`:                      "id: want a whole number",
		`{"id":7.5}`:                           "id: want a whole number",
		`{"id":9223372036854775808}`:           "id: want a whole number",
		`{"id":true}`:                          "id: want",
		`{"id":[7]}`:                           "id: want",
		`{"id":7`:                              "JSON",
		`{"id":7}{"secret":1}`:                 "JSON",
		`{"id":7}secret`:                       "JSON",
		`{"id":7,"secret":}`:                   "JSON",
		withField(`"name":5`):                  "name: want",
		withField(`"name":["secret"]`):         "name: want",
		withField(`"name":{"a":1}`):            "name: want",
		withField(`"has":"secret"`):            "has: want",
		withField(`"has":["secret"]`):          "has[0]: want an object",
		withField(`"has":{"signed":"secret"}`): "has.signed: want a boolean",
		withField(`"has":{"signed":2}`):        "has.signed: want a boolean",
		withField(`"has":{"signed":{}}`):       "has.signed: want",
		withField(`"template":"secret"`):       "template: want",
		withField(`"template":[{"id":1}]`):     "template[0]: want an object",
		withField(`"audio":{"size":"secret"}`): "audio.size: want a whole number",
		withField(`"audio":{"size":1.5}`):      "audio.size: want a whole number",
		withField(`"audio":{"size":1e300}`):    "audio.size: want a whole number",
		withField(`"audio":{"duration":"secret"}`):                                   "audio.duration: want a number",
		withField(`"audio":{"duration":"NaN"}`):                                      "audio.duration: want a number",
		withField(`"audio":{"duration":"Inf"}`):                                      "audio.duration: want a number",
		withField(`"audio":{"duration":1e999}`):                                      "audio.duration: want a number",
		withField(`"audio":{"file_url":5}`):                                          "audio.file_url: want",
		withField(`"team_id":"secret"`):                                              "team_id: want a whole number",
		withField(`"created_at":"secret"`):                                           "created_at: want a date-time",
		withField(`"created_at":"2024-13-01T00:00:00Z"`):                             "created_at: want a date-time",
		withField(`"created_at":1714558272`):                                         "created_at: want",
		withField(`"created_at":{"date":"secret"}`):                                  "created_at: want",
		withField(`"error_state":{"secret`):                                          "JSON",
		withField(`"patient":{"secret":}`):                                           "JSON",
		strings.Repeat(`[`, 5000):                                                    "",
		`{"id":7,"x":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`: "JSON",
	}
	for answer, tells := range tests {
		note, err := get(t, answer)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		assert.Nil(t, note, answer)
		require.ErrorContains(t, err, "Notes.Get (GET /v1/progress-notes/{id}): the response is 200 OK", answer)
		require.ErrorContains(t, err, tells, answer)
		assert.NotContains(t, err.Error(), "secret", answer)
	}
}

func TestEveryEndpointRefusesAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for name, answer := range map[string]call{
			"HTML":      {answer: "<html>secret", answerHeader: map[string]string{"Content-Type": "text/html; charset=secret", "X-Request-Id": "req-3"}},
			"truncated": {answer: e.ok[:len(e.ok)-1], answerHeader: map[string]string{"X-Request-Id": "req-3"}},
			"trailing":  {answer: e.ok + "secret", answerHeader: map[string]string{"X-Request-Id": "req-3"}},
			"empty":     {answerHeader: map[string]string{"X-Request-Id": "req-3"}},
		} {
			if name == "empty" && e.method == http.MethodDelete {
				continue // allowed
			}
			t.Run(e.operation+" "+name, func(t *testing.T) {
				t.Parallel()
				request := e.request()
				request.answer, request.answerHeader = answer.answer, answer.answerHeader
				calls := []call{request}
				if e.operation == "Notes.Sign" {
					calls = append(calls, call{url: "/v1/progress-notes/7", answer: `{"id":7,"has":{"content":true,"transcription":true}}`})
				}
				value, err := e.call(t.Context(), serve(t, calls...))
				require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
				require.ErrorContains(t, err, "req-3")
				require.ErrorContains(t, err, e.operation)
				assert.NotContains(t, err.Error(), "secret")
				assert.Empty(t, value)
			})
		}
	}
}

func TestAnySuccessStatusIsSuccess(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for _, status := range []int{200, 201, 202, 203, 206, 299} {
			request := e.request()
			request.status = status
			_, err := e.call(t.Context(), serve(t, request))
			require.NoError(t, err, "%s %d", e.operation, status)
		}
	}
}
