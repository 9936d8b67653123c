package clinicaldoc_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

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
	extra := func(members string) clinicaldoc.ProgressNote {
		return note(func(n *clinicaldoc.ProgressNote) { n.Extra = object(t, members) })
	}
	tests := map[string]clinicaldoc.ProgressNote{
		// The envelope.
		`{"id":7}`:                                  bare,
		` { "id" : 7 } ` + "\n":                     bare,
		`{"data":{"id":7}}`:                         bare,
		`{"message":"ok","data":{"id":7}}`:          bare,
		`{"id":7,"data":{"id":8,"name":"other"}}`:   extra(`{"data":{"id":8,"name":"other"}}`),
		`{"id":7,"data":[1]}`:                       extra(`{"data":[1]}`),
		`{"id":"7"}`:                                bare,
		`{"id":7.0}`:                                bare,
		`{"id":7,"unknown":{"deep":[{"id":9}]}}`:    extra(`{"unknown":{"deep":[{"id":9}]}}`),
		`{"id":7,"ID":9,"Name":"other"}`:            extra(`{"ID":9,"Name":"other"}`),
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
		withField(`"created_at":"2024-05-01T10:11:12+00"`):         created(utc),
		withField(`"created_at":"2024-05-01 12:11:12.5+02"`):       created(utc.Add(500 * time.Millisecond)),
		withField(`"created_at":""`):                               bare,
		withField(`"created_at":"0000-00-00"`):                     bare,
		withField(`"created_at":"0000-00-00 00:00:00"`):            bare,
		withField(`"created_at":"0000-00-00T00:00:00.000000Z"`):    bare,
		withField(`"created_at":"-0001-11-30T00:00:00.000000Z"`):   bare,
		withField(`"created_at":"-0001-11-29T23:06:32+00:00"`):     bare,

		// Durations as a clock shows them.
		withField(`"audio":{"duration":"00:03:10"}`):    audio(clinicaldoc.AudioInfo{Duration: 190}),
		withField(`"audio":{"duration":"1:00:00.25"}`):  audio(clinicaldoc.AudioInfo{Duration: 3600.25}),
		withField(`"audio":{"duration":"100:59:59.5"}`): audio(clinicaldoc.AudioInfo{Duration: 363599.5}),

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

// patientShapes are the ways in which a row may name patient 7, another one, or none.
var patientShapes = map[string]struct {
	names string // "7", "another" or "none"
	id    int64  // of PatientID; 0: none
	json  string // what the patient encodes to
}{
	`"patient":{"id":7}`:                       {"7", 7, `{"id":7}`},
	`"patient":{"id":"7","name":"x"}`:          {"7", 7, `{"id":"7","name":"x"}`},
	`"patient":{"id":7.0}`:                     {"7", 7, `{"id":7.0}`},
	`"patient":{"id":"7 "}`:                    {"7", 7, `{"id":"7 "}`},
	`"patient":{"id":0.7e1}`:                   {"7", 7, `{"id":0.7e1}`},
	`"patient":{"id":[7]}`:                     {"7", 7, `{"id":[7]}`},
	`"patient":{"patient_id":7}`:               {"7", 7, `{"patient_id":7}`},
	`"patient":{"id":null,"patient_id":7}`:     {"7", 7, `{"id":null,"patient_id":7}`},
	`"patient":{"id":7,"patient_id":"7"}`:      {"7", 7, `{"id":7,"patient_id":"7"}`},
	`"patient":{"id":"6b1f-x","patient_id":7}`: {"7", 7, `{"id":"6b1f-x","patient_id":7}`},
	`"patient":{"user":{"id":8},"id":7}`:       {"7", 7, `{"user":{"id":8},"id":7}`},
	`"patient":{"data":{"id":7}}`:              {"7", 7, `{"data":{"id":7}}`},
	`"patient":{"data":[{"id":7}]}`:            {"7", 7, `{"data":[{"id":7}]}`},
	`"patient":[{"id":7}]`:                     {"7", 7, `[{"id":7}]`},
	`"patient":[7]`:                            {"7", 7, `[7]`},
	`"patient":[{"id":7},{"id":"7"}]`:          {"7", 7, `[{"id":7},{"id":"7"}]`},
	`"patient":7`:                              {"7", 7, `7`},
	`"patient":"7"`:                            {"7", 7, `"7"`},
	`"patient":" 7 "`:                          {"7", 7, `" 7 "`},

	// A patient_id beside the patient, which takes it over where it names none itself.
	`"patient_id":7`:                               {"7", 7, `{"id":7}`},
	`"patient_id":"7"`:                             {"7", 7, `{"id":7}`},
	`"patient_id":7.0`:                             {"7", 7, `{"id":7}`},
	`"patient":null,"patient_id":7`:                {"7", 7, `{"id":7}`},
	`"patient_id":7,"patient":null`:                {"7", 7, `{"id":7}`},
	`"patient":[],"patient_id":7`:                  {"7", 7, `{"id":7}`},
	`"patient":{},"patient_id":7`:                  {"7", 7, `{"id":7}`},
	`"patient":{"name":"x"},"patient_id":7`:        {"7", 7, `{"name":"x","patient_id":7}`},
	`"patient":{"id":0},"patient_id":7`:            {"7", 7, `{"id":0,"patient_id":7}`},
	`"patient":{"id":"6b1f-x"},"patient_id":7`:     {"7", 7, `{"id":"6b1f-x","patient_id":7}`},
	`"patient":{"id":7,"name":"x"},"patient_id":7`: {"7", 7, `{"id":7,"name":"x"}`},
	`"patient":7,"patient_id":"7"`:                 {"7", 7, `7`},
	`"patient":"Jane","patient_id":7`:              {"7", 7, `"Jane"`},
	`"patient":"Nan","patient_id":7`:               {"7", 7, `"Nan"`},
	`"patient":"","patient_id":7`:                  {"7", 7, `""`},
	`"patient":true,"patient_id":7`:                {"7", 7, `true`},
	`"patient":[{"id":7}],"patient_id":7`:          {"7", 7, `[{"id":7}]`},
	`"patient":{"id":7},"patient_id":"6b1f-x"`:     {"7", 7, `{"id":7}`},
	`"patient":{"id":7},"patient_id":null`:         {"7", 7, `{"id":7}`},

	// Another patient.
	`"patient":{"id":8}`:            {"another", 8, `{"id":8}`},
	`"patient":{"id":8.0}`:          {"another", 8, `{"id":8.0}`},
	`"patient":{"id":"8 "}`:         {"another", 8, `{"id":"8 "}`},
	`"patient":[{"id":8}]`:          {"another", 8, `[{"id":8}]`},
	`"patient":{"data":{"id":8}}`:   {"another", 8, `{"data":{"id":8}}`},
	`"patient":"8"`:                 {"another", 8, `"8"`},
	`"patient_id":8`:                {"another", 8, `{"id":8}`},
	`"patient":{},"patient_id":8`:   {"another", 8, `{"id":8}`},
	`"patient":"7x","patient_id":8`: {"another", 8, `"7x"`},

	// Two patients, which is nobody's.
	`"patient":{"id":7},"patient_id":8`:            {"another", 0, `{"id":7}`},
	`"patient_id":8,"patient":{"id":7}`:            {"another", 0, `{"id":7}`},
	`"patient_id":7,"patient_id":8`:                {"another", 0, `null`},
	`"patient":{"id":8},"patient_id":7`:            {"another", 0, `{"id":8}`},
	`"patient":{"id":7,"patient_id":8}`:            {"another", 0, `{"id":7,"patient_id":8}`},
	`"patient":{"id":7,"id":8}`:                    {"another", 0, `{"id":7,"id":8}`},
	`"patient":{"id":7,"data":{"id":8}}`:           {"another", 0, `{"id":7,"data":{"id":8}}`},
	`"patient":{"data":{"id":7,"patient_id":8}}`:   {"another", 0, `{"data":{"id":7,"patient_id":8}}`},
	`"patient":[{"id":7},{"id":8}]`:                {"another", 0, `[{"id":7},{"id":8}]`},
	`"patient":[{"id":7}],"patient_id":8`:          {"another", 0, `[{"id":7}]`},
	`"patient":{"data":{"id":7}},"patient_id":8.0`: {"another", 0, `{"data":{"id":7}}`},
	`"patient":7,"patient_id":"8 "`:                {"another", 0, `7`},
	`"patient":{"id":-7},"patient_id":7`:           {"another", 0, `{"id":-7}`},
	`"patient":{"id":7.5},"patient_id":7`:          {"another", 0, `{"id":7.5}`},
	`"patient":{"id":1e300},"patient_id":7`:        {"another", 0, `{"id":1e300}`},
	`"patient":{"id":1e999},"patient_id":7`:        {"another", 0, `{"id":1e999}`},
	`"patient":{"id":7},"patient_id":"-8"`:         {"another", 0, `{"id":7}`},

	// Named, but not to be read: it may be anybody's.
	`"patient":{"id":"6b1f-x"}`:        {"another", 0, `{"id":"6b1f-x"}`},
	`"patient":{"id":"7x"}`:            {"another", 0, `{"id":"7x"}`},
	`"patient":{"id":-7}`:              {"another", 0, `{"id":-7}`},
	`"patient":{"id":7.5}`:             {"another", 0, `{"id":7.5}`},
	`"patient":{"id":true}`:            {"another", 0, `{"id":true}`},
	`"patient":"Jane"`:                 {"another", 0, `"Jane"`},
	`"patient":true`:                   {"another", 0, `true`},
	`"patient_id":"6b1f-x"`:            {"another", 0, `null`},
	`"patient_id":9223372036854775808`: {"another", 0, `null`},

	// None.
	`"patient":[]`:               {"none", 0, `[]`},
	`"patient":{}`:               {"none", 0, `{}`},
	`"patient":null`:             {"none", 0, `null`},
	`"patient":false`:            {"none", 0, `false`},
	`"patient":""`:               {"none", 0, `""`},
	`"patient":{"id":0}`:         {"none", 0, `{"id":0}`},
	`"patient":{"id":null}`:      {"none", 0, `{"id":null}`},
	`"patient":{"id":""}`:        {"none", 0, `{"id":""}`},
	`"patient":{"name":"x"}`:     {"none", 0, `{"name":"x"}`},
	`"patient":{"data":[]}`:      {"none", 0, `{"data":[]}`},
	`"patient":[{}]`:             {"none", 0, `[{}]`},
	`"patient_id":null`:          {"none", 0, `null`},
	`"patient_id":0`:             {"none", 0, `null`},
	`"patient_id":{}`:            {"none", 0, `null`},
	`"patient":{"id":[]}`:        {"none", 0, `{"id":[]}`},
	`"name":"no patient at all"`: {"none", 0, `null`},
}

func TestPatientID(t *testing.T) {
	t.Parallel()
	for field, want := range patientShapes {
		note, err := get(t, withField(field))
		require.NoError(t, err, field)
		id, named := note.PatientID()
		assert.Equal(t, want.id, id, field)
		assert.Equal(t, want.id != 0, named, field)
		encoded, err := json.Marshal(note.Patient)
		require.NoError(t, err, field)
		assert.Equal(t, want.json, string(encoded), field)
		assert.Equal(t, want.json == "null", note.Patient.IsZero(), field)
		if id, named := note.Patient.ID(); named {
			assert.Contains(t, []int64{id, 0}, want.id, field+": the object alone tells the same, unless two are named")
		}
		assertRoundTrip(t, *note)
	}
}

func TestRowsAreHeldAgainstThePatientAskedFor(t *testing.T) {
	t.Parallel()
	for field, want := range patientShapes {
		for _, trust := range []bool{false, true} {
			page, err := serve(t, call{url: "/v1/progress-notes?patient_id=7", response: `{"data":[{"id":1,"patient":{"id":7}},` + withField(field) + `]}`}).
				Notes.List(t.Context(), clinicaldoc.ListNotesParams{PatientID: 7, TrustPatientFilter: trust})
			if want.names == "7" || want.names == "none" && trust {
				require.NoError(t, err, "%s trust=%v", field, trust)
				assert.Len(t, page.Items, 2)
				continue
			}
			require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch, "%s trust=%v", field, trust)
			assert.Nil(t, page)
			assert.Equal(t, want.names == "none", strings.Contains(err.Error(), "TrustPatientFilter accepts"), "%s: the advice helps", field)
		}
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
		``:                                 "no body",
		` `:                                "",
		`<!DOCTYPE html><p>secret</p>`:     "JSON",
		`secret`:                           "JSON",
		`null`:                             "no id",
		`[]`:                               "no id",
		`{}`:                               "no id",
		`true`:                             "",
		`"secret"`:                         "",
		`[{"id":7}]`:                       "object",
		`{"id":null}`:                      "no id",
		`{"id":0}`:                         "no id",
		`{"id":-7}`:                        "no id",
		`{"message":"secret"}`:             "no id",
		`{"data":null}`:                    "no id",
		`{"data":[]}`:                      "no id",
		`{"data":[{"id":7}]}`:              "no id",
		`{"data":{}}`:                      "no id",
		`{"data":{"data":{"id":7}}}`:       "no id",
		`{"data":{"id":"secret"}}`:         "id: want a whole number",
		`{"id":8}`:                         "another record",
		`{"data":{"id":8}}`:                "another record",
		`{"id":"secret"}`:                  "id: want a whole number",
		`{"id":7.5}`:                       "id: want a whole number",
		`{"id":9223372036854775808}`:       "id: want a whole number",
		`{"id":true}`:                      "id: want",
		`{"id":[7]}`:                       "id: want",
		`{"id":7`:                          "JSON",
		`{"id":7}{"secret":1}`:             "JSON",
		`{"id":7}secret`:                   "JSON",
		`{"id":7,"secret":}`:               "JSON",
		withField(`"name":5`):              "name: want",
		withField(`"name":["secret"]`):     "name: want",
		withField(`"name":{"a":1}`):        "name: want",
		withField(`"created_at":"secret"`): "created_at: want a date-time",
		withField(`"created_at":"2024-13-01T00:00:00Z"`):                             "created_at: want a date-time",
		withField(`"created_at":1714558272`):                                         "created_at: want",
		withField(`"created_at":{"date":"secret"}`):                                  "created_at: want",
		withField(`"created_at":"0000-00-00secret"`):                                 "created_at: want a date-time",
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

func TestUnreadableOptionalMembersAreZeroAndLogged(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // what is logged
		`"transcription":5`:                         "transcription: want string, got number",
		`"analysis":["secret"]`:                     "analysis: want string, got array",
		`"has":"secret"`:                            "has: want object, got string",
		`"has":["secret"]`:                          "has: want object, got array",
		`"has":{"signed":"secret"}`:                 "has.signed: want a boolean, got string",
		`"has":{"signed":2}`:                        "has.signed: want a boolean, got number",
		`"has":{"signed":{}}`:                       "has.signed: want a boolean, got object",
		`"template":"secret"`:                       "template: want object, got string",
		`"template":[{"id":1}]`:                     "template: want object, got array",
		`"audio":5`:                                 "audio: want object, got number",
		`"team_id":"secret"`:                        "team_id: want a whole number, got string",
		`"team_id":7.5`:                             "team_id: want a whole number, got number",
		`"user_id":[7]`:                             "user_id: want a whole number, got array",
		`"user_id":true`:                            "user_id: want a whole number, got boolean",
		`"updated_at":"secret"`:                     "updated_at: want a date-time, got string",
		`"updated_at":1714558272`:                   "updated_at: want a date-time, got number",
		`"updated_at":"2024-13-01T00:00:00Z"`:       "updated_at: want a date-time, got string",
		`"updated_at":"0000-01-01T00:00:00+23:59"`:  "updated_at: want a date-time, got string",
		`"analysis_completed_at":{"date":"secret"}`: "analysis_completed_at: want a date-time, got object",
		`"transcription_started_at":"2024-05-01T10:11:12+secret"`:    "transcription_started_at: want a date-time, got string",
		`"team_id":"secret","user_id":2.5,"updated_at":"0000-00-00"`: "team_id: want a whole number, got string|user_id: want a whole number, got number",
	}
	for field, logged := range tests {
		option, read := warnings(t)
		note, err := serveWith(t, []clinicaldoc.Option{option}, call{url: "/v1/progress-notes/7", response: withField(field)}).Notes.Get(t.Context(), 7)
		require.NoError(t, err, field)
		assert.Equal(t, clinicaldoc.ProgressNote{ID: 7}, *note, field)
		lines := read()
		require.Len(t, lines, 1, field)
		assert.Equal(t, "Notes.Get", lines[0]["operation"])
		var members []string
		for _, member := range lines[0]["members"].([]any) {
			members = append(members, member.(string))
		}
		assert.Equal(t, logged, strings.Join(members, "|"), field)
	}

	option, read := warnings(t)
	note, err := serveWith(t, []clinicaldoc.Option{option}, call{url: "/v1/progress-notes/7", response: fullNote}).Notes.Get(t.Context(), 7)
	require.NoError(t, err)
	assert.NotZero(t, note.ID)
	assert.Empty(t, read(), "nothing to tell of")
}

func TestUnreadableMembersOfAudio(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{"size":"secret"}`:       "size: want a whole number, got string",
		`{"size":1.5}`:            "size: want a whole number, got number",
		`{"size":1e300}`:          "size: want a whole number, got number",
		`{"duration":"secret"}`:   "duration: want a number, got string",
		`{"duration":"NaN"}`:      "duration: want a number, got string",
		`{"duration":"Inf"}`:      "duration: want a number, got string",
		`{"duration":1e999}`:      "duration: want a number, got number",
		`{"duration":"03:10"}`:    "duration: want a number, got string", // minutes, or hours
		`{"duration":"00:60:00"}`: "duration: want a number, got string",
		`{"duration":"00:00:60"}`: "duration: want a number, got string",
		`{"duration":"0:1:2"}`:    "duration: want a number, got string",
		`{"duration":"-1:00:00"}`: "duration: want a number, got string",
		`{"file_url":5}`:          "file_url: want string, got number",
		`{"expires_at":"secret"}`: "expires_at: want a date-time, got string",
	}
	for audio, logged := range tests {
		option, read := warnings(t)
		note, err := serveWith(t, []clinicaldoc.Option{option}, call{url: "/v1/progress-notes/7", response: `{"data":{"id":7,"audio":` + audio + `}}`}).Notes.Get(t.Context(), 7)
		require.NoError(t, err, audio)
		assert.Equal(t, clinicaldoc.AudioInfo{}, *note.Audio, audio)
		lines := read()
		require.Len(t, lines, 1, audio)
		assert.Equal(t, []any{"audio." + logged}, lines[0]["members"], audio)
	}
}

func TestOneUnreadableMemberDoesNotCostThePage(t *testing.T) {
	t.Parallel()
	option, read := warnings(t)
	rows := make([]string, 30)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":%d,"updated_at":"secret","audio":{"duration":"00:03:10","size":"secret"},"transcription_started_at":"0000-00-00 00:00:00"}`, i+1)
	}
	page, err := serveWith(t, []clinicaldoc.Option{option}, call{url: "/v1/progress-notes", response: `{"data":[` + strings.Join(rows, ",") + `]}`}).
		Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
	require.NoError(t, err)
	require.Len(t, page.Items, len(rows))
	for i, note := range page.Items {
		assert.Equal(t, clinicaldoc.ProgressNote{ID: int64(i + 1), Audio: &clinicaldoc.AudioInfo{Duration: 190}}, note)
	}
	lines := read()
	require.Len(t, lines, 1, "one line a response, however many members")
	assert.Equal(t, "Notes.List", lines[0]["operation"])
	members := lines[0]["members"].([]any)
	assert.Equal(t, []any{"data[0].updated_at: want a date-time, got string", "data[0].audio.size: want a whole number, got string"}, members[:2])
	assert.LessOrEqual(t, len(members), 10, "a line stays short")
}

func TestMembersNobodyDescribedAreKept(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		`"severity":3`: `{"severity":3}`,
		`"a":null,"b":{"c":[1, 2]} , "d" : "<&>"`:      `{"a":null,"b":{"c":[1,2]},"d":"\u003c\u0026\u003e"}`,
		`"name":"n","x":1,"analysis":"a","y":"\u00e9"`: `{"x":1,"y":"\u00e9"}`,
		"\"k\u00e9y \\\" x\" :\n1":                     `{"k` + "\u00e9" + `y \" x":1}`,
		`"patient_id":5`:                               `{"patient_id":5}`,
		`"twice":1,"twice":2`:                          `{"twice":1,"twice":2}`,
		`"ID":8,"Id":9`:                                `{"ID":8,"Id":9}`,
		`"":0`:                                         `{"":0}`,
		`"data":{"id":9}`:                              `{"data":{"id":9}}`,
		`"name":"nothing beyond the description"`:      `null`,
	} {
		for _, answer := range []string{withField(members), `{"data":` + withField(members) + `}`} {
			note, err := get(t, answer)
			require.NoError(t, err, answer)
			assertExtra(t, want, *note)
		}
		page, err := serve(t, call{url: "/v1/progress-notes", response: `[` + withField(members) + `,` + withField(members) + `]`}).Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
		require.NoError(t, err, members)
		for _, note := range page.Items {
			assertExtra(t, want, note)
		}
	}
	note, err := get(t, withField(`"severity":{"level":3}`))
	require.NoError(t, err)
	var described struct{ Severity struct{ Level int } }
	require.NoError(t, note.Extra.Decode(&described))
	assert.Equal(t, 3, described.Severity.Level)
}

func assertExtra(t *testing.T, want string, note clinicaldoc.ProgressNote) {
	t.Helper()
	encoded, err := json.Marshal(note.Extra)
	require.NoError(t, err)
	assert.Equal(t, want, string(encoded))
	assert.Equal(t, want == "null", note.Extra.IsZero())
	assertRoundTrip(t, note)
	for _, verb := range verbs {
		assert.NotContains(t, fmt.Sprintf(verb, note.Extra), "severity")
		assert.NotContains(t, fmt.Sprintf(verb, note), "severity")
	}
}

func TestAnUnreadableOptionalMemberDoesNotCostTheCreate(t *testing.T) {
	t.Parallel()
	create := func(answer string) (*clinicaldoc.ProgressNote, error) {
		client := serve(t, call{method: "POST", url: "/v1/progress-notes", checkBody: func(*testing.T, string, []byte) {}, status: 201, response: answer})
		return client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit"})
	}
	note, err := create(`{"id":5,"created_at":"2024-05-01T10:11:12Z","updated_at":"secret","audio":{"duration":"soon"}}`)
	require.NoError(t, err)
	assert.EqualValues(t, 5, note.ID)
	for _, answer := range []string{`{"id":5,"created_at":"secret"}`, `{"id":5,"name":["secret"]}`, `{"id":"secret"}`} {
		_, err = create(answer)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, answer)
	}
}
