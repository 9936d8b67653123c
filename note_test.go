package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

func TestDecode_OtherForms_AreTolerated(t *testing.T) {
	t.Parallel()
	utc := time.Date(2024, 5, 1, 10, 11, 12, 0, time.UTC)
	note := func(change func(*clinicaldoc.ProgressNote)) clinicaldoc.ProgressNote {
		n := clinicaldoc.ProgressNote{ID: 7, Name: "n"}
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
		`{"id":7,"name":"n"}`:                                bare,
		` { "id" : 7, "name" : "n" } ` + "\n":                bare,
		`{"data":{"id":7,"name":"n"}}`:                       bare,
		`{"message":"ok","data":{"id":7,"name":"n"}}`:        bare,
		`{"id":7,"name":"n","data":{"id":8,"name":"other"}}`: extra(`{"data":{"id":8,"name":"other"}}`),
		`{"id":7,"name":"n","data":[1]}`:                     extra(`{"data":[1]}`),
		`{"id":"7","name":"n"}`:                              bare,
		`{"id":7,"name":"n","unknown":{"deep":[{"id":9}]}}`:  extra(`{"unknown":{"deep":[{"id":9}]}}`),
		`{"id":7,"name":"n","ID":9,"Name":"other"}`:          extra(`{"ID":9,"Name":"other"}`),
		`{"id":7,"name":"first","name":"\u0061"}`:            note(func(n *clinicaldoc.ProgressNote) { n.Name = "a" }),
		`{"\u0069d":7,"name":"n"}`:                           bare,
		withField(`"transcription":"\ud83d\ude00"`): note(
			func(n *clinicaldoc.ProgressNote) { n.Transcription = "😀" }),

		// Null and [] for what is absent.
		withField(`"transcription":null,"analysis":null,"team_id":null,"user_id":null`):                    bare,
		withField(`"template":null,"patient":null,"audio":null,"has":null,"user":null,"error_state":null`): bare,
		withField(`"template":[],"audio":[],"has":[]`):                                                     bare,
		withField(`"template":{}`): note(func(n *clinicaldoc.ProgressNote) { n.Template = new(clinicaldoc.Template) }),
		withField(
			`"created_at":null,"updated_at":null,"transcription_started_at":null,"transcription_completed_at":null,"analysis_started_at":null,"analysis_completed_at":null`): bare,
		withField(`"template":{"id":null,"name":null,"description":null}`): note(
			func(n *clinicaldoc.ProgressNote) { n.Template = new(clinicaldoc.Template) }),

		`{"id":7,"name":null,"created_at":"2024-05-01T10:11:12Z"}`: {ID: 7, CreatedAt: utc},
		`{"id":7,"created_at":"2024-05-01T10:11:12Z"}`:             {ID: 7, CreatedAt: utc},

		// Numbers as texts, with zeros after the point, or as null.
		withField(
			`"audio":{"duration":"61.5","bitrate":"128000","size":"980123"}`): audio(clinicaldoc.AudioInfo{Duration: 61.5, Bitrate: 128000, Size: 980123}),
		withField(
			`"audio":{"duration":61,"bitrate":128000.0,"size":9.8e2}`): audio(clinicaldoc.AudioInfo{Duration: 61, Bitrate: 128000, Size: 980}),
		withField(
			`"audio":{"duration":null,"bitrate":null,"size":null,"uploaded_at":null,"expires_at":null,"file_url":null}`): audio(clinicaldoc.AudioInfo{}),
		withField(
			`"audio":{"duration":"","bitrate":"","size":"","uploaded_at":"","expires_at":""}`): audio(clinicaldoc.AudioInfo{}),
		withField(
			`"team_id":"21","user_id":"22"`): note(func(n *clinicaldoc.ProgressNote) { n.TeamID, n.UserID = 21, 22 }),

		// Flags.
		withField(`"has":{"content":1,"transcription":"1","signed":0}`): note(
			func(n *clinicaldoc.ProgressNote) { n.Has.Content, n.Has.Transcription = true, true }),
		withField(`"has":{"content":"false","transcription":null,"signed":"true"}`): note(
			func(n *clinicaldoc.ProgressNote) { n.Has.Signed = true }),

		// Times; more of their forms are tested in internal/tolerant, and so are those of durations.
		withField(`"created_at":"2024-05-01T10:11:12Z"`):           created(utc),
		withField(`"created_at":"2024-05-01T10:11:12.123456Z"`):    created(utc.Add(123456 * time.Microsecond)),
		withField(`"created_at":"2024-05-01T12:11:12+02:00"`):      created(utc),
		withField(`"created_at":"2024-05-01T10:11:12"`):            created(utc),
		withField(`"created_at":"2024-05-01T10:11:12\u002b00:00"`): created(utc),
		withField(`"created_at":"2024-05-01"`):                     created(utc.Truncate(24 * time.Hour)),
		withField(`"created_at":""`):                               bare,
		withField(`"created_at":"0000-00-00 00:00:00"`):            bare,

		withField(`"audio":{"duration":"00:03:10"}`): audio(clinicaldoc.AudioInfo{Duration: 190}),

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
		// A note with only some of the flags remembers which ones were sent. A composite literal cannot express that.
		if len(got.Flags()) == 0 || len(got.Flags()) == 3 {
			assert.Equal(t, fields(want), fields(*got), answer)
			assert.Equal(t, want, *got, answer)
		}
		assert.Equal(t, plainOf(want), plainOf(*got), answer)
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

// patientShapes are the ways in which a row may name patient 7, another one, or none. What a patient or a patient_id
// alone may look like is tested in internal/tolerant.
var patientShapes = map[string]struct {
	names string // "7", "another" or "none"
	id    int64  // of PatientID; 0: none
	json  string // what the patient encodes to
}{
	`"patient":{"id":7}`:                       {"7", 7, `{"id":7}`},
	`"patient":{"id":"7","name":"x"}`:          {"7", 7, `{"id":"7","name":"x"}`},
	`"patient":{"id":7.0}`:                     {"another", 0, `{"id":7.0}`},
	`"patient":{"patient_id":7}`:               {"7", 7, `{"patient_id":7}`},
	`"patient":{"id":"6b1f-x","patient_id":7}`: {"7", 7, `{"id":"6b1f-x","patient_id":7}`},
	`"patient":[{"id":7}]`:                     {"7", 7, `[{"id":7}]`},
	`"patient":7`:                              {"7", 7, `7`},

	// A patient_id beside the patient, which takes it over where it names none itself.
	`"patient_id":7`:                               {"7", 7, `{"id":7}`},
	`"patient_id":"7"`:                             {"7", 7, `{"id":7}`},
	`"patient_id":7.0`:                             {"another", 0, `null`},
	`"patient":null,"patient_id":7`:                {"7", 7, `{"id":7}`},
	`"patient_id":7,"patient":null`:                {"7", 7, `{"id":7}`},
	`"patient":[],"patient_id":7`:                  {"7", 7, `{"id":7}`},
	`"patient":{},"patient_id":7`:                  {"7", 7, `{"id":7}`},
	`"patient":{"name":"x"},"patient_id":7`:        {"7", 7, `{"name":"x","patient_id":7}`},
	`"patient":{"id":0},"patient_id":7`:            {"7", 7, `{"id":0,"patient_id":7}`},
	`"patient":{"id":"6b1f-x"},"patient_id":7`:     {"7", 7, `{"id":"6b1f-x","patient_id":7}`},
	`"patient":{"id":7,"name":"x"},"patient_id":7`: {"7", 7, `{"id":7,"name":"x"}`},
	`"patient":"Jane","patient_id":7`:              {"7", 7, `"Jane"`},
	`"patient":"","patient_id":7`:                  {"7", 7, `""`},
	`"patient":{"id":7},"patient_id":"6b1f-x"`:     {"7", 7, `{"id":7}`},
	`"patient":{"id":7},"patient_id":null`:         {"7", 7, `{"id":7}`},

	// Another patient.
	`"patient":{"id":8}`:            {"another", 8, `{"id":8}`},
	`"patient_id":8`:                {"another", 8, `{"id":8}`},
	`"patient":{},"patient_id":8`:   {"another", 8, `{"id":8}`},
	`"patient":"7x","patient_id":8`: {"another", 8, `"7x"`},

	// Two patients, which is nobody's.
	`"patient":{"id":7},"patient_id":8`:    {"another", 0, `{"id":7}`},
	`"patient_id":8,"patient":{"id":7}`:    {"another", 0, `{"id":7}`},
	`"patient_id":7,"patient_id":8`:        {"another", 0, `null`},
	`"patient":{"id":8},"patient_id":7`:    {"another", 0, `{"id":8}`},
	`"patient":{"id":7,"patient_id":8}`:    {"another", 0, `{"id":7,"patient_id":8}`},
	`"patient":[{"id":7}],"patient_id":8`:  {"another", 0, `[{"id":7}]`},
	`"patient":7,"patient_id":"8 "`:        {"another", 0, `7`},
	`"patient":{"id":-7},"patient_id":7`:   {"another", 0, `{"id":-7}`},
	`"patient":{"id":7},"patient_id":"-8"`: {"another", 0, `{"id":7}`},

	// Named, but not to be read: it may be anybody's.
	`"patient":{"id":"6b1f-x"}`:        {"another", 0, `{"id":"6b1f-x"}`},
	`"patient":{"id":-7}`:              {"another", 0, `{"id":-7}`},
	`"patient":"Jane"`:                 {"another", 0, `"Jane"`},
	`"patient_id":"6b1f-x"`:            {"another", 0, `null`},
	`"patient_id":9223372036854775808`: {"another", 0, `null`},

	// None.
	`"patient":[]`:               {"none", 0, `[]`},
	`"patient":{}`:               {"none", 0, `{}`},
	`"patient":null`:             {"none", 0, `null`},
	`"patient":""`:               {"none", 0, `""`},
	`"patient":{"id":0}`:         {"none", 0, `{"id":0}`},
	`"patient":{"name":"x"}`:     {"none", 0, `{"name":"x"}`},
	`"patient_id":null`:          {"none", 0, `null`},
	`"patient_id":0`:             {"none", 0, `null`},
	`"patient_id":{}`:            {"none", 0, `null`},
	`"name":"no patient at all"`: {"none", 0, `null`},
}

func TestPatientID_IsReadFromAnyForm(t *testing.T) {
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
			assert.Contains(t, []int64{id, 0}, want.id, field+": the object alone names the same, unless two are named")
		}
		assertRoundTrip(t, *note)
	}
}

func TestList_RowOfAnotherPatient_IsRejected(t *testing.T) {
	t.Parallel()
	for field, want := range patientShapes {
		for _, trust := range []bool{false, true} {
			rows := pagedCall("?patient_id=7",
				`{"data":[{"id":1,"name":"n","patient":{"id":7}},`+withField(field)+`],"links":{"next":null}}`)
			client := serve(t, rows, rows)
			params := listParams{PatientID: 7, TrustPatientFilter: trust}
			page, err := client.Notes.List(t.Context(), params)
			ids, allErr := collect(t, client.Notes.All(t.Context(), params))
			if want.names == "7" || want.names == "none" && trust {
				require.NoError(t, err, "%s trust=%v", field, trust)
				require.NoError(t, allErr, "%s trust=%v", field, trust)
				assert.Len(t, page.Items, 2)
				assert.Equal(t, []int64{1, 7}, ids)
				continue
			}
			require.ErrorIs(t, allErr, clinicaldoc.ErrPatientMismatch, "%s trust=%v", field, trust)
			assert.NotContains(t, ids, int64(7))
			require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch, "%s trust=%v", field, trust)
			assert.Nil(t, page)
			assert.Equal(t, want.names == "none", strings.Contains(err.Error(), "TrustPatientFilter accepts"),
				"%s: the advice helps", field)
		}
	}
}

func TestObject_Decode_FillsAValue(t *testing.T) {
	t.Parallel()
	assert.Equal(t, object(t, `{"a":1}`), object(t, ` { "a" : 1 } `), "however it is written")
	type record struct{ Name string }
	for field, want := range map[string]string{
		`"patient":{"name":"x"}`: "x", `"patient":null`: "before", `"patient":[]`: "before", `"patient":{}`: "before",
	} {
		note := must(get(t, withField(field)))(t)
		got := record{"before"}
		require.NoError(t, note.Patient.Decode(&got), field)
		assert.Equal(t, want, got.Name, field)
	}
	note := must(get(t, withField(`"patient":[1,2]`)))(t)
	require.Error(t, note.Patient.Decode(new(record)))
	var numbers []int
	require.NoError(t, note.Patient.Decode(&numbers))
	assert.Equal(t, []int{1, 2}, numbers)
}

func TestDecode_OtherKinds_AreRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // what the error must contain
		``:                                       "no body",
		` `:                                      "",
		`<!DOCTYPE html><p>secret</p>`:           "JSON",
		`secret`:                                 "JSON",
		`null`:                                   "no id",
		`[]`:                                     "no id",
		`{}`:                                     "no id",
		`true`:                                   "",
		`"secret"`:                               "",
		`[{"id":7}]`:                             "object",
		`{"id":null}`:                            "no id",
		`{"id":0}`:                               "no id",
		`{"id":-7}`:                              "id: want a whole number",
		`{"message":"secret"}`:                   "no id",
		`{"data":null}`:                          "no id",
		`{"data":[]}`:                            "no id",
		`{"data":[{"id":7}]}`:                    "no id",
		`{"data":{}}`:                            "no id",
		`{"data":{"data":{"id":7}}}`:             "no id",
		`{"data":{"id":"secret"}}`:               "id: want a whole number",
		`{"id":8,"name":"n"}`:                    "not the requested record",
		`{"data":{"id":8,"name":"n"}}`:           "not the requested record",
		`{"id":7}`:                               "not a note",
		`{"id":7,"status":"queued"}`:             "not a note",
		`{"data":{"id":7,"name":""}}`:            "not a note",
		`{"id":7,"name":null,"created_at":null}`: "not a note",
		`{"id":"secret"}`:                        "id: want a whole number",
		`{"id":7.5}`:                             "id: want a whole number",
		`{"id":7.0}`:                             "id: want a whole number",
		`{"id":"0x1p4"}`:                         "id: want a whole number",
		`{"id":9223372036854775808}`:             "id: want a whole number",
		`{"id":true}`:                            "id: want",
		`{"id":[7]}`:                             "id: want",
		`{"id":7`:                                "JSON",
		`{"id":7}{"secret":1}`:                   "JSON",
		`{"id":7}secret`:                         "JSON",
		`{"id":7,"secret":}`:                     "JSON",
		withField(`"name":5`):                    "name: want",
		withField(`"name":["secret"]`):           "name: want",
		withField(`"name":{"a":1}`):              "name: want",
		withField(`"created_at":"secret"`):       "created_at: want a date-time",
		withField(
			`"created_at":"2024-13-01T00:00:00Z"`): "created_at: want a date-time",
		withField(`"created_at":1714558272`):        "created_at: want",
		withField(`"created_at":{"date":"secret"}`): "created_at: want",
		withField(
			`"created_at":"0000-00-00secret"`): "created_at: want a date-time",
		withField(`"error_state":{"secret`): "JSON",
		withField(`"patient":{"secret":}`):  "JSON",
		strings.Repeat(`[`, 5000):           "",
		`{"id":7,"name":"n","x":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`: "JSON",
	}
	for answer, words := range tests {
		note, err := get(t, answer)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		assert.Nil(t, note, answer)
		require.ErrorContains(t, err, "Notes.Get (GET /v1/progress-notes/{id}): the response is 200 OK", answer)
		require.ErrorContains(t, err, words, answer)
		assert.NotContains(t, err.Error(), "secret", answer)
	}
}

func TestDecode_UnreadableOptionalMember_IsZeroAndLogged(t *testing.T) {
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
		`"updated_at":"9999-12-31T23:59:59-23:59"`:  "updated_at: want a date-time, got string",
		`"analysis_completed_at":{"date":"secret"}`: "analysis_completed_at: want a date-time, got object",
		`"transcription_started_at":"2024-05-01T10:11:12+secret"`:    "transcription_started_at: want a date-time, got string",
		`"team_id":"secret","user_id":2.5,"updated_at":"0000-00-00"`: "team_id: want a whole number, got string|user_id: want a whole number, got number",

		`"audio":{"size":"secret"}`:       "audio.size: want a whole number, got string",
		`"audio":{"size":1.5}`:            "audio.size: want a whole number, got number",
		`"audio":{"duration":"secret"}`:   "audio.duration: want a number, got string",
		`"audio":{"duration":"NaN"}`:      "audio.duration: want a number, got string",
		`"audio":{"duration":"03:10"}`:    "audio.duration: want a number, got string", // minutes, or hours
		`"audio":{"file_url":5}`:          "audio.file_url: want string, got number",
		`"audio":{"expires_at":"secret"}`: "audio.expires_at: want a date-time, got string",
	}
	for field, logged := range tests {
		option, read := warnings(t)
		note, err := serveWith(t, []clinicaldoc.Option{option},
			call{url: "/v1/progress-notes/7", response: withField(field)}).Notes.Get(t.Context(), 7)
		require.NoError(t, err, field)
		want := clinicaldoc.ProgressNote{ID: 7, Name: "n"}
		if strings.HasPrefix(logged, "audio.") {
			want.Audio = &clinicaldoc.AudioInfo{}
		}
		assert.Equal(t, want, *note, field)
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
	note, err := serveWith(t, []clinicaldoc.Option{option},
		call{url: "/v1/progress-notes/7", response: fullNote}).Notes.Get(t.Context(), 7)
	require.NoError(t, err)
	assert.NotZero(t, note.ID)
	assert.Empty(t, read(), "everything could be read")
}

func TestDecode_UnreadableMemberOfARow_KeepsThePage(t *testing.T) {
	t.Parallel()
	option, read := warnings(t)
	rows := make([]string, 30)
	for i := range rows {
		rows[i] = fmt.Sprintf(
			`{"id":%d,"name":"n","updated_at":"secret","audio":{"duration":"00:03:10","size":"secret"},"transcription_started_at":"0000-00-00 00:00:00"}`, i+1)
	}
	page, err := serveWith(t, []clinicaldoc.Option{option},
		call{url: "/v1/progress-notes", response: `{"data":[` + strings.Join(rows, ",") + `]}`}).
		Notes.List(t.Context(), listParams{})
	require.NoError(t, err)
	require.Len(t, page.Items, len(rows))
	for i, note := range page.Items {
		assert.Equal(t,
			clinicaldoc.ProgressNote{ID: int64(i + 1), Name: "n", Audio: &clinicaldoc.AudioInfo{Duration: 190}}, note)
	}
	lines := read()
	require.Len(t, lines, 1, "one line a response, however many members")
	assert.Equal(t, "Notes.List", lines[0]["operation"])
	members := lines[0]["members"].([]any)
	assert.Equal(t, []any{"data[0].updated_at: want a date-time, got string",
		"data[0].audio.size: want a whole number, got string"}, members[:2])
	assert.LessOrEqual(t, len(members), 10, "a line stays short")
}

func TestExtra_UndescribedMembers_AreKept(t *testing.T) {
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
		page, err := serve(t, call{url: "/v1/progress-notes", response: `[` + withField(members) + `,` +
			withField(members) + `]`}).Notes.List(t.Context(), listParams{})
		require.NoError(t, err, members)
		for _, note := range page.Items {
			assertExtra(t, want, note)
		}
	}
	note := must(get(t, withField(`"severity":{"level":3}`)))(t)
	var described struct{ Severity struct{ Level int } }
	require.NoError(t, note.Extra.Decode(&described))
	assert.Equal(t, 3, described.Severity.Level)
}

func assertExtra(t *testing.T, want string, note clinicaldoc.ProgressNote) {
	t.Helper()
	encoded := must(json.Marshal(note.Extra))(t)
	assert.Equal(t, want, string(encoded))
	assert.Equal(t, want == "null", note.Extra.IsZero())
	assertRoundTrip(t, note)
	for _, verb := range verbs {
		assert.NotContains(t, fmt.Sprintf(verb, note.Extra), "severity")
		assert.NotContains(t, fmt.Sprintf(verb, note), "severity")
	}
}

func TestCreate_UnreadableOptionalMember_Succeeds(t *testing.T) {
	t.Parallel()
	create := func(answer string) (*clinicaldoc.ProgressNote, error) {
		client := serve(t, call{method: "POST", url: "/v1/progress-notes",
			checkBody: func(*testing.T, string, []byte) {}, status: 201, response: answer})
		return client.Notes.Create(t.Context(), createParams{Name: "Visit"})
	}
	note, err := create(
		`{"id":5,"created_at":"2024-05-01T10:11:12Z","updated_at":"secret","audio":{"duration":"soon"}}`)
	require.NoError(t, err)
	assert.EqualValues(t, 5, note.ID)
	for _, answer := range []string{`{"id":5,"created_at":"secret"}`, `{"id":5,"name":["secret"]}`, `{"id":"secret"}`} {
		_, err = create(answer)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, answer)
	}
}

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
		`{"id":7,"patient":"4711","patient_id":5}`, `{"id":7,"error_state":["` + "\xff" + `"]}`, `{"id":7,"user":"` +
			"\xff\u2028" + `<&>"}`,
		`{"id":7,"created_at":"0000-01-01T00:00:00+23:59"}`, `{"id":7,"updated_at":"9999-12-31T23:59:59-01:00"}`,
		`{"id":7,"audio":{"duration":-0.0,"bitrate":1e3,"size":9007199254740993,"expires_at":"2024-05-01"},"has":{"signed":"1","content":0}}`,
		`{"id":2,"name":"Test User","email":"user@clinic.test","created_at":"2024-05-01 10:11:12"}`,
		`{"id":1,"name":"label","created_at":"2024-05-01T10:11:12.5+0200","last_used_at":null}`,
		`{"url":"https://storage.clinic.test/7.wav?expires=1714558272"}`, `{"message":"done"}`,
		`{"id":7,"more":[ 1 ],"<x>" :"&","more":2,"patient":{"id":7},"patient_id":8}`,
		`{"id":7,"patient":{"name":"x"},"patient_id":"8 ","":{}}`,
		`{"id":7,"patient_id":{"id":[{"id":[{"data":7.0}]}]}}`, `{"id":7,"patient":` + strings.Repeat(`[`, 1200),
		withField(`"patient":[],"user":{}`), withField(`"patient":"4711","user":[ 1, 2 ]`),
		withField(`"patient_id":4711`),
		withField(`"patient":{ "id" : 4711,"name":"a \" b\\","<tag>" : "<b> & \u2028 ` + "\u2028" + `"}`),
		withField(`"patient":{"name":"<b>"},"user":{"name":"a>b"}`), withField(`"patient":{"name":"a&b"}`),
		withField(`"patient":{"url":"https:\/\/clinic.test","name":"Ren\u00e9"}`), richNote,
		withField(`"patient_id":4711,"patient":{"name":"x"},"more":[ {"a" : "<b>"} ],"more":2`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		client := clientOver(t, answerWith(http.StatusOK, "application/json", document))
		ctx := t.Context()
		note, err := pointer(client.Notes.Get(ctx, 7))
		checkDecoding(t, note, err)
		created, err := pointer(client.Notes.Create(ctx, createParams{Name: "Visit"}))
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

// Texts are stored only when the complete record has been read. An earlier member must not replace a later one then.
func TestDecode_RepeatedMember_LastCounts(t *testing.T) {
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

func TestModels_JSON_RoundTrips(t *testing.T) {
	t.Parallel()
	at := moment(1, 123456000)
	assertRoundTrip(t, clinicaldoc.Template{ID: 1, Name: "n", Description: "d"})
	assertRoundTrip(t, clinicaldoc.Template{})
	assertRoundTrip(t, clinicaldoc.AudioInfo{Duration: 1.25, Bitrate: 2, Size: 3, UploadedAt: at,
		ExpiresAt: at.AddDate(0, 1, 0), FileURL: "https://storage.clinic.test/?a=1&b=<2>"})
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
	assertRoundTrip(t, clinicaldoc.ProgressNote{ErrorState: new(""), Template: new(clinicaldoc.Template),
		Audio: new(clinicaldoc.AudioInfo)})
	assertRoundTrip(t, updateParams{Name: new("n"), Analysis: new("")})
	assertRoundTrip(t, clinicaldoc.Object{})
}

// The SDK reads and sends what is described, under the same names.
func TestModels_Fields_AreTheDescribedMembers(t *testing.T) {
	t.Parallel()
	for schema, record := range map[string]reflect.Type{
		"ProgressNote":      reflect.TypeFor[clinicaldoc.ProgressNote](),
		"Template":          reflect.TypeFor[clinicaldoc.Template](),
		"Audio":             reflect.TypeFor[clinicaldoc.AudioInfo](),
		"Completion":        reflect.TypeFor[clinicaldoc.Completion](),
		"Token":             reflect.TypeFor[clinicaldoc.Token](),
		"User":              reflect.TypeFor[clinicaldoc.User](),
		"UpdateNoteRequest": reflect.TypeFor[clinicaldoc.UpdateNoteParams](),
	} {
		require.Contains(t, description.Schemas, schema)
		described := description.Schemas[schema].Fields
		members := map[string]bool{}
		for field := range record.Fields() {
			member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.IsExported() && member != "-" {
				members[member] = true
				isDescribed := described[member] != nil
				assert.True(t, isDescribed, "docs/openapi.json lacks the member %s of %s", member, schema)
			}
		}
		for member := range described {
			assert.True(t, members[member], "%s has no field for the member %s of docs/openapi.json", record, member)
		}
	}
}

// The JSON keys are the service's own, so other programs for the service's notes can read a stored note.
func TestModels_EncodedNames_AreTheServices(t *testing.T) {
	t.Parallel()
	note := must(get(t, fullNote))(t)
	for field, value := range reflect.ValueOf(*note).Fields() {
		isDescribed := field.IsExported() && field.Name != "Extra"
		assert.False(t, isDescribed && value.IsZero(), "%s is not read: add its member to fullNote", field.Name)
	}
	encoded := must(json.Marshal(note))(t)
	assert.ElementsMatch(t, keys(t, fullNote), keys(t, string(encoded)))
	var want, got any
	require.NoError(t, json.Unmarshal([]byte(fullNote), &want))
	require.NoError(t, json.Unmarshal(encoded, &got))
	record, ok := want.(map[string]any)
	require.True(t, ok)
	record["updated_at"] = "2024-05-01T10:00:08Z" // the same moment, in UTC
	assert.Equal(t, want, got)

	encoded = must(json.Marshal(clinicaldoc.ProgressNote{ID: 7}))(t)
	assert.ElementsMatch(t, []string{"id", "name", "team_id", "user_id", "error_state"}, keys(t, string(encoded)))
	encoded = must(json.Marshal(clinicaldoc.User{ID: 1, CreatedAt: moment(1, 0), UpdatedAt: moment(1, 0)}))(t)
	assert.ElementsMatch(t, []string{"id", "name", "email", "created_at", "updated_at"}, keys(t, string(encoded)))
	encoded = must(json.Marshal(clinicaldoc.Token{ID: 1, CreatedAt: moment(1, 0), LastUsedAt: moment(1, 0)}))(t)
	assert.ElementsMatch(t, []string{"id", "name", "created_at", "last_used_at"}, keys(t, string(encoded)))
}

func TestModels_Null_IsReadAndOtherKindsRejected(t *testing.T) {
	t.Parallel()
	note := clinicaldoc.ProgressNote{ID: 7}
	require.NoError(t, json.Unmarshal([]byte("null"), &note))
	assert.EqualValues(t, 7, note.ID, "null changes nothing, as everywhere in encoding/json")
	require.NoError(t, json.Unmarshal([]byte(`{"name":"n"}`), &note))
	assert.Equal(t, clinicaldoc.ProgressNote{Name: "n"}, note, "what was there before is gone")
	patient := secretNote(t).Patient
	require.NoError(t, patient.UnmarshalJSON([]byte("null")))
	assert.True(t, patient.IsZero(), "null is no patient, and not the one before")
	for _, target := range []any{
		&note, new(clinicaldoc.Template), new(clinicaldoc.AudioInfo), new(clinicaldoc.Completion),
		new(clinicaldoc.Token), new(clinicaldoc.User),
	} {
		err := json.Unmarshal([]byte(`"secret"`), target)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestExtra_WrittenBack(t *testing.T) {
	t.Parallel()
	note, err := get(t, `{"id":7,"name":"<b>","severity":{"level": 3},"patient":{"id":5},"patient_id":8,"flags":[]}`)
	require.NoError(t, err)
	encoded := must(json.Marshal(note))(t)
	assert.JSONEq(t, `{"id":7,"name":"<b>","patient":{"id":5},"team_id":0,"user_id":0,`+
		`"error_state":null,"severity":{"level":3},"patient_id":8,"flags":[]}`, string(encoded))

	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(note))
	assert.Contains(t, plain.String(), `"<b>"`, "the caller decides on escaping")
}

// plainNote is a note without its methods, so that encoding/json alone reads it.
type plainNote clinicaldoc.ProgressNote

// plainOf returns a note without what no field describes, and without the knowledge which flags were sent.
func plainOf(n clinicaldoc.ProgressNote) plainNote {
	n.Extra = clinicaldoc.Object{}
	n.Has = clinicaldoc.Completion{
		Content: n.Has.Content, Transcription: n.Has.Transcription, Signed: n.Has.Signed,
	}
	if n.Template != nil {
		template := *n.Template
		template.Extra = clinicaldoc.Object{}
		n.Template = &template
	}
	if n.Audio != nil {
		audio := *n.Audio
		audio.Extra = clinicaldoc.Object{}
		n.Audio = &audio
	}
	var plain plainNote
	for i, field := range reflect.VisibleFields(reflect.TypeFor[plainNote]()) {
		if field.IsExported() {
			reflect.ValueOf(&plain).Elem().Field(i).Set(reflect.ValueOf(n).Field(i))
		}
	}
	return plain
}

// strict turns the value of a field into what encoding/json wants: nil for an absent one, not ok for one that no
// tolerance covers.
type strict func(raw json.RawMessage) (value any, ok bool)

// The tolerances, as the fuzz test knows them.
var (
	noteForm    = strictObject(noteMembers, "id", "name", "created_at")
	noteMembers = map[string]strict{
		"id": strictID, "name": strictText, "transcription": strictText, "analysis": strictText, "patient": strictRaw,
		"user": strictRaw, "team_id": strictID, "user_id": strictID,
		"template": strictObject(map[string]strict{"id": strictID, "name": strictText, "description": strictText}),
		"audio": strictObject(map[string]strict{
			"duration": strictSeconds, "bitrate": strictInteger, "size": strictInteger, "uploaded_at": strictTime,
			"expires_at": strictTime, "file_url": strictText,
		}),
		"has": strictObject(map[string]strict{"content": strictFlag, "transcription": strictFlag,
			"signed": strictFlag}),
		"transcription_started_at": strictTime, "transcription_completed_at": strictTime,
		"analysis_started_at": strictTime, "analysis_completed_at": strictTime,
		"error_state": strictProblem, "created_at": strictTime, "updated_at": strictTime,
	}
	strictLayouts = []string{
		time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04:05Z0700",
		"2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02 15:04:05Z07", "2006-01-02",
	}
	strictZeroDate = regexp.MustCompile(`^(0000-00-00|-0001-11-)[0-9:. TZ+-]*$`)
	strictClock    = regexp.MustCompile(`^(\d{1,4}):([0-5]\d):([0-5]\d(\.\d*)?)$`)
)

// strictObject reads objects: [] is an empty one, null an absent field, and fields nobody described do not count, nor
// do those that cannot be read, unless they are required.
func strictObject(fields map[string]strict, required ...string) strict {
	return func(raw json.RawMessage) (any, bool) {
		if string(bytes.Join(bytes.Fields(raw), nil)) == "[]" {
			return nil, true
		}
		var given map[string]json.RawMessage
		if json.Unmarshal(raw, &given) != nil {
			return nil, false
		}
		values := map[string]any{}
		for key, read := range fields {
			raw, there := given[key]
			if !there || string(raw) == "null" {
				continue
			}
			value, ok := read(raw)
			if !ok && slices.Contains(required, key) {
				return nil, false
			}
			if ok && value != nil {
				values[key] = value
			}
		}
		return values, true
	}
}

func strictText(raw json.RawMessage) (any, bool) {
	var s string
	return raw, json.Unmarshal(raw, &s) == nil
}

// strictRaw is an object that is not described; its form is json.Marshal's.
func strictRaw(raw json.RawMessage) (any, bool) { return raw, true }

// strictDigits returns a number as it stands, or in a string.
func strictDigits(raw json.RawMessage) (string, bool) {
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return strings.TrimSpace(s), err == nil
	}
	return string(raw), raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9'
}

func strictInteger(raw json.RawMessage) (any, bool) {
	s, ok := strictDigits(raw)
	if !ok || s == "" {
		return nil, ok
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53
}

func strictID(raw json.RawMessage) (any, bool) {
	s, ok := strictDigits(raw)
	if !ok || s == "" {
		return nil, ok
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strings.Trim(s, "0123456789") == ""
}

func strictSeconds(raw json.RawMessage) (any, bool) {
	s, ok := strictDigits(raw)
	if !ok || s == "" {
		return nil, ok
	}
	if parts := strictClock.FindStringSubmatch(s); parts != nil {
		whole, err := time.ParseDuration(parts[1] + "h" + parts[2] + "m")
		seconds, malformed := strconv.ParseFloat(parts[3], 64)
		return whole.Seconds() + seconds, err == nil && malformed == nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	return f, true
}

func strictFlag(raw json.RawMessage) (any, bool) {
	s, ok := strictDigits(raw)
	if !ok {
		s = string(raw)
	}
	switch s {
	case "1", "true":
		return true, true
	case "", "0", "false":
		return false, true
	}
	return nil, false
}

func strictTime(raw json.RawMessage) (any, bool) {
	var s string
	if json.Unmarshal(raw, &s) != nil || s == "" {
		return nil, s == "" && raw[0] == '"'
	}
	if strictZeroDate.MatchString(s) {
		return nil, true
	}
	s = strings.ToUpper(s)
	var t time.Time
	if t.UnmarshalText([]byte(s)) == nil {
		return encodable(t)
	}
	for _, layout := range strictLayouts[1:] {
		if t, err := time.Parse(layout, s); err == nil {
			return encodable(t)
		}
	}
	return nil, false
}

// encodable writes a time so that encoding/json reads it, whose years have four digits.
func encodable(t time.Time) (any, bool) {
	year := t.UTC().Year()
	if year <= 1970 { // it stands for no time
		return nil, true
	}
	return t.UTC().Format(time.RFC3339Nano), year <= 9999
}

func strictProblem(raw json.RawMessage) (any, bool) {
	switch string(raw) {
	case "false", "0", "[]", "{}":
		return nil, true
	}
	if raw[0] == '"' {
		return raw, true
	}
	return string(raw), true
}

// FuzzNote compares the models' decoding with that of encoding/json: both return the same values, or both return an
// error. It does not compare fields that occur twice, and the patient_id next to the other fields.
func FuzzNote(f *testing.F) {
	for _, seed := range []string{
		fullNote, richNote, smallNote, "null", "[]", "{}", "[1]", `"text"`, "", "{", `{"id":7}x`,
		withField(`"id":"7"`), withField(`"team_id":7.0`), withField(`"team_id":1e3`), withField(`"team_id":7.5`),
		withField(`"user_id":"9007199254740993"`),
		withField(`"name":null`), withField(`"name":5`), withField(`"name":"\ud83d\ude00\ud83d \/ é"`),
		withField("\"name\":\"\xff\xc3\""),
		withField(`"template":[]`), withField(`"template":[1]`),
		withField(`"audio":{"duration":"12.5","size":"","bitrate":-0}`), withField(`"audio":3`),
		withField(`"has":{"content":1,"transcription":"true","signed":"no"}`), withField(`"has":[]`),
		withField(`"has":{"content":"0","signed":""}`),
		withField(`"created_at":"2024-05-01 10:11:12"`), withField(`"created_at":"2024-05-01T10:11:12.5+0200"`),
		withField(`"created_at":"2024-05-01"`),
		withField(`"created_at":"0000-00-00 00:00:00"`), withField(`"updated_at":"-0001-11-30T00:00:00Z"`),
		withField(`"updated_at":"2024-05-01 10:11:12+02"`),
		withField(`"audio":{"duration":"00:03:10"}`), withField(`"audio":{"duration":"1:60:00"}`),
		withField(`"audio":{"size":" 7 "}`), withField(`"updated_at":"0000-01-01T00:00:00+23:59"`),
		withField(`"created_at":"yesterday"`), withField(`"created_at":0`), withField(`"created_at":""`),
		withField(`"error_state":"failed"`), withField(`"error_state":{"code": 5}`), withField(
			"\"error_state\":[\"\xeb\xeb\"]"), withField(`"error_state":[]`), withField(`"error_state":false`),
		withField(`"patient":{"id": 7, "name":"<b>\u2028"}`), withField("\"patient\":[ ]"), withField(`"user":"x"`),
		withField(`"ID":8`),
		withField(`"more":{"a": [1, "<b>"]}, "\u006dany" : null`), withField(`"data":{"id":8}`),
		withField("\"\xff\":1,\"\u2028\":\"\u2028\""),
	} {
		f.Add([]byte(seed))
	}
	for _, at := range []string{
		"2024-05-01T10:11:12Z", "2024-05-01T12:11:12.345678+02:00", "2024-05-01 10:11:12.5-0130",
		"9999-12-31T23:59:59-00:01", "2024-02-30T00:00:00Z", "2024-05-01T24:00:00Z", "0001-01-01T00:00:00Z",
		"1714558272", "0000-01-01 00:00:00+0100", "2024-05-01T10:11:12,5Z", "+2024-05-01",
	} {
		f.Add([]byte(withField(`"created_at":"` + at + `"`)))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if bytes.Count(document, []byte("["))+bytes.Count(document, []byte("{")) > 900 {
			t.Skip("may exceed the depth limit, which encoding/json does not share")
		}
		var got clinicaldoc.ProgressNote
		err := got.UnmarshalJSON(document)
		if !json.Valid(document) {
			require.Error(t, err)
			return
		}
		if repeatsKeys(json.NewDecoder(bytes.NewReader(document))) || bytes.Contains(document, []byte("patient_id")) {
			t.Skip("encoding/json merges repeated keys, and patient_id is a tolerance of ours")
		}
		want, ok := readStrictly(t, document)
		if !ok {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, plainOf(got))
		require.Equal(t, undescribed(t, document), undescribed(t, []byte(asJSON(t, got.Extra))))
		require.Equal(t, undescribed(t, document), undescribed(t, []byte(asJSON(t, got))), "what is written back")
	})
}

// undescribed returns the members of a valid document that no note is described to have.
func undescribed(t *testing.T, document []byte) map[string]string {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(document, &members) != nil {
		return map[string]string{}
	}
	others := map[string]string{}
	for key, value := range members {
		if noteMembers[key] == nil {
			others[key] = asJSON(t, value)
		}
	}
	return others
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	encoded := must(json.Marshal(value))(t)
	return string(encoded)
}

// readStrictly is the reference: encoding/json on the document without what is tolerated.
func readStrictly(t *testing.T, document []byte) (plainNote, bool) {
	t.Helper()
	var note plainNote
	values, ok := noteForm(bytes.TrimSpace(document))
	if !ok {
		return note, false
	}
	encoded := must(json.Marshal(values))(t)
	require.NoError(t, json.Unmarshal(encoded, &note))
	return plainOf(clinicaldoc.ProgressNote(note)), true
}

// repeatsKeys reports whether any object of a valid document has a key twice.
func repeatsKeys(d *json.Decoder) bool {
	d.UseNumber()
	var levels []map[string]bool // nil for an array
	isKey := false
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, map[string]bool{})
		case json.Delim('['):
			levels = append(levels, nil)
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		default:
			if key, text := token.(string); text && isKey {
				if levels[len(levels)-1][key] {
					return true
				}
				levels[len(levels)-1][key] = true
				isKey = false
				continue
			}
		}
		isKey = len(levels) > 0 && levels[len(levels)-1] != nil
	}
}

// stages are the stages of a note's life, in order, with their names.
var stages = []struct {
	stage clinicaldoc.Stage
	name  string
}{
	{stageUploaded, "uploaded"},
	{stageTranscribing, "transcribing"},
	{stageTranscribed, "transcribed"},
	{stageAnalysing, "analysing"},
	{stageComplete, "complete"},
	{stageSigned, "signed"},
}

// stageTable says which stage a note is in, by what it carries: 1 there, 0 not there, * either. In order: the error
// state; the flags signed, transcription and content; the times transcription completed and analysis completed, then
// transcription started and analysis started; both texts.
var stageTable = map[string]clinicaldoc.Stage{
	"1 *** ** ** *": stageFailed,
	"0 1** ** ** *": stageSigned,
	// Transcription and analysis are both complete, each by its flag or its time.
	"0 011 ** ** *": stageComplete,
	"0 010 *1 ** *": stageComplete,
	"0 001 1* ** *": stageComplete,
	"0 000 11 ** *": stageComplete,
	// Only the transcription is.
	"0 010 *0 *1 *": stageAnalysing,
	"0 000 10 *1 *": stageAnalysing,
	"0 010 *0 *0 *": stageTranscribed,
	"0 000 10 *0 *": stageTranscribed,
	// It is not, although something has begun, or even come to its end.
	"0 001 0* ** *": stageTranscribing,
	"0 000 01 ** *": stageTranscribing,
	"0 000 00 1* *": stageTranscribing,
	"0 000 00 01 *": stageTranscribing,
	// There is neither a flag nor a time.
	"0 000 00 00 1": stageComplete,
	"0 000 00 00 0": stageUploaded,
}

func TestStage_EveryCombination_HasOne(t *testing.T) {
	t.Parallel()
	at := map[byte]time.Time{'1': moment(1, 0)}
	text := map[byte]string{'1': "Synthetic words."}
	for combination := range combinations("* *** ** ** *") {
		note := clinicaldoc.ProgressNote{
			ID: 7,
			Has: clinicaldoc.Completion{Signed: combination[2] == '1',
				Transcription: combination[3] == '1', Content: combination[4] == '1'},
			TranscriptionCompletedAt: at[combination[6]], AnalysisCompletedAt: at[combination[7]],
			TranscriptionStartedAt: at[combination[9]], AnalysisStartedAt: at[combination[10]],
			Transcription: text[combination[12]], Analysis: text[combination[12]],
		}
		var want []clinicaldoc.Stage
		for pattern, stage := range stageTable {
			for covered := range combinations(pattern) {
				if covered == combination {
					want = append(want, stage)
				}
			}
		}
		require.Len(t, want, 1, "the table knows each combination once: %s", combination)
		for _, state := range map[byte][]*string{'0': {nil, new("")}, '1': {new("synthetic failure")}}[combination[0]] {
			note.ErrorState = state
			assert.Equal(t, want[0], note.Stage(), combination)
		}
	}
}

// combinations yields a pattern with every choice of 0 and 1 for its stars.
func combinations(pattern string) map[string]bool {
	all := map[string]bool{"": true}
	for _, c := range pattern {
		longer := map[string]bool{}
		for start := range all {
			if c != '*' {
				longer[start+string(c)] = true
				continue
			}
			longer[start+"0"], longer[start+"1"] = true, true
		}
		all = longer
	}
	return all
}

// A service may send neither flags nor times: then both texts together show that the note is complete. If it sends a
// flag or a time, that counts, and the texts do not. One text alone proves nothing. The analysis has the flag "content".
func TestStage_TextsWithoutFlags_AreComplete(t *testing.T) {
	t.Parallel()
	const both = `"transcription":"Synthetic words.","analysis":"Synthetic analysis."`
	for fields, want := range map[string]clinicaldoc.Stage{
		both:                                    stageComplete,
		both + `,"has":null`:                    stageComplete,
		both + `,"has":[]`:                      stageComplete,
		both + `,"has":{}`:                      stageComplete,
		both + `,"has":{"other":false}`:         stageComplete,
		both + `,"has":{"content":null}`:        stageComplete,
		both + `,"error_state":"synthetic"`:     stageFailed,
		both + `,"has":{"content":false}`:       stageUploaded,
		both + `,"has":{"signed":0}`:            stageUploaded,
		`"has":{"transcription":false},` + both: stageUploaded,
		both + `,"has":{"content":false,"transcription":false,"signed":false}`:    stageUploaded,
		both + `,"has":{"content":"unreadable"}`:                                  stageUploaded,
		both + `,"has":["transcription"]`:                                         stageUploaded,
		both + `,"has":"{\"content\":false,\"transcription\":false}"`:             stageUploaded,
		both + `,"has":false`:                                                     stageUploaded,
		both + `,"transcription_started_at":1714558272`:                           stageUploaded,
		both + `,"analysis_started_at":"2024-05-01T10:11:60Z"`:                    stageUploaded,
		both + `,"has":{"transcription":true}`:                                    stageTranscribed,
		both + `,"transcription_started_at":"2024-05-01T10:11:12Z"`:               stageTranscribing,
		both + `,"has":{"content":false},"analysis_started_at":"2024-05-01"`:      stageTranscribing,
		`"transcription":"Synthetic words."`:                                      stageUploaded,
		`"analysis":"Synthetic analysis."`:                                        stageUploaded,
		`"transcription":"","analysis":"Synthetic analysis."`:                     stageUploaded,
		`"transcription":"Synthetic words.","analysis":"","has":{"content":true}`: stageTranscribing,
	} {
		note := must(get(t, withField(fields)))(t)
		assert.Equal(t, want, note.Stage(), fields)
		assertRoundTrip(t, *note)
		stored := must(json.Marshal(note))(t)
		var back clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(stored, &back))
		assert.Equal(t, want, back.Stage(), "a stored note keeps its stage: %s", stored)
	}
}

// A note keeps only few warnings, but all of its unreadable flags count as absent.
func TestFlags_ManyUnreadableMembers_OmitUnreadableFlags(t *testing.T) {
	t.Parallel()
	note := must(get(t, withField(`"team_id":"x","user_id":"x","updated_at":5,
		"template":{"id":"x","name":5,"description":5},
		"audio":{"duration":"x","bitrate":"x","size":"x","uploaded_at":5,"expires_at":5,"file_url":5},
		"has":{"content":true,"signed":"unreadable"}`)))(t)
	assert.Equal(t, map[string]bool{"content": true}, note.Flags())
}

// A program without a time may send the beginning of its clock.
func TestStage_TimeThatStandsForNone_IsNoEnd(t *testing.T) {
	t.Parallel()
	for _, ended := range []string{
		"1970-01-01 00:00:00", "1970-01-01T00:00:00.000000Z", "0001-01-01T00:00:00+01:00", "1900-01-01T00:00:00",
	} {
		var note clinicaldoc.ProgressNote
		members := fmt.Sprintf(`{"id":7,"name":"n","has":{"content":false,"transcription":false},
			"transcription_completed_at":%q,"analysis_completed_at":%[1]q}`, ended)
		require.NoError(t, json.Unmarshal([]byte(members), &note), ended)
		assert.Equal(t, clinicaldoc.StageUploaded, note.Stage(), ended)
	}
}

func TestStage_Order_FailureIsNotAnEnd(t *testing.T) {
	t.Parallel()
	for i, s := range stages {
		for j, u := range stages {
			assert.Equal(t, i >= j, s.stage.AtLeast(u.stage), "%v at least %v", s, u)
		}
		assert.True(t, s.stage.AtLeast(0))
		assert.False(t, stageFailed.AtLeast(s.stage), "a failed note has come nowhere else")
		assert.False(t, s.stage.AtLeast(stageFailed))
		assert.Less(t, stageFailed, s.stage, "no comparison takes a failed note for a finished one")
		if i > 0 {
			assert.Greater(t, s.stage, stages[i-1].stage+1, "room for a stage in between")
		}
	}
	assert.True(t, stageFailed.AtLeast(stageFailed))
	assert.False(t, stageFailed.AtLeast(0))
	assert.Negative(t, stageFailed)
	assert.Positive(t, stageUploaded-1, "room before the first")
}

func TestStage_Text_RoundTrips(t *testing.T) {
	t.Parallel()
	type stored struct {
		Stage  clinicaldoc.Stage         `json:"stage"`
		Counts map[clinicaldoc.Stage]int `json:"counts,omitempty"`
	}
	for _, s := range append(stages, stages[0], struct {
		stage clinicaldoc.Stage
		name  string
	}{stageFailed, "failed"}, struct {
		stage clinicaldoc.Stage
		name  string
	}{0, "unset"}) {
		assert.Equal(t, s.name, s.stage.String())
		value := stored{s.stage, map[clinicaldoc.Stage]int{s.stage: 1}}
		encoded := must(json.Marshal(value))(t)
		assert.JSONEq(t, `{"stage":"`+s.name+`","counts":{"`+s.name+`":1}}`, string(encoded))
		var back stored
		require.NoError(t, json.Unmarshal(encoded, &back))
		assert.Equal(t, value, back)
	}
	var until clinicaldoc.Stage
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.TextVar(&until, "until", stageComplete, "")
	require.NoError(t, flags.Parse([]string{"-until=signed"}))
	assert.Equal(t, stageSigned, until)

	require.NoError(t, until.UnmarshalText(nil))
	assert.Zero(t, until)
	until = stageSigned
	for _, text := range []string{"secret", "Complete", "5", "Stage(5)"} {
		err := until.UnmarshalText([]byte(text))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, stageSigned, until, "stays as it was")
	}
	for _, unknown := range []clinicaldoc.Stage{1, stageComplete + 1, -1} {
		_, err := unknown.MarshalText()
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	assert.Equal(t, "Stage(1)", clinicaldoc.Stage(1).String())
	assert.Equal(t, "Stage(-1)", clinicaldoc.Stage(-1).String())
}

// sample is a value of a public type in all the shapes a program may print it in.
type sample struct {
	direct []any // the value and a pointer to it
	nested []any // in exported fields, lists and maps
}

func sampleOf(value any) sample {
	pointer := reflect.New(reflect.TypeOf(value))
	pointer.Elem().Set(reflect.ValueOf(value))
	return sampleOfValues(pointer.Elem(), pointer)
}

// samplePointer is for types that are only used by pointer.
func samplePointer(pointer any) sample { return sampleOfValues(reflect.ValueOf(pointer)) }

func sampleOfValues(values ...reflect.Value) sample {
	var s sample
	for _, value := range values {
		v := value.Interface()
		list := reflect.Append(reflect.MakeSlice(reflect.SliceOf(value.Type()), 0, 1), value)
		array := reflect.New(reflect.ArrayOf(1, value.Type())).Elem()
		array.Index(0).Set(value)
		dict := reflect.MakeMap(reflect.MapOf(reflect.TypeFor[string](), value.Type()))
		dict.SetMapIndex(reflect.ValueOf("k"), value)
		field := structWith(value)
		s.direct = append(s.direct, v)
		s.nested = append(s.nested, list.Interface(), array.Interface(), dict.Interface(), []any{v}, map[string]any{"k": v},
			field.Interface(), field.Addr().Interface(), struct{ V any }{v}, structWith(list).Interface(),
			structWith(field).Interface())
	}
	return s
}

// structWith returns a struct with that value as its exported field V.
func structWith(value reflect.Value) reflect.Value {
	s := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "V", Type: value.Type()}})).Elem()
	s.Field(0).Set(value)
	return s
}

// secretNote has a canary in every field that can hold one.
func secretNote(t *testing.T) clinicaldoc.ProgressNote {
	t.Helper()
	secret := func(raw string) clinicaldoc.Object {
		var o clinicaldoc.Object
		require.NoError(t, o.UnmarshalJSON([]byte(raw)))
		return o
	}
	extra := secret(`{"` + canary + `":"` + canary + `"}`)
	return clinicaldoc.ProgressNote{
		ID: 7, Name: canary, Transcription: canary, Analysis: canary,
		Template: &clinicaldoc.Template{ID: 3, Name: canary, Description: canary, Extra: extra},
		Patient:  secret(`{"name":"` + canary + `","id":4}`),
		Audio: &clinicaldoc.AudioInfo{Size: 5, FileURL: "https://storage.clinic.test/" + canary + "?signature=" +
			canary, Extra: extra},
		Has:        clinicaldoc.Completion{Extra: extra},
		User:       secret(`{"name":"` + canary + `"}`),
		ErrorState: new(canary),
		Extra:      extra,
	}
}

// publicSamples must have every exported struct type of the package.
func publicSamples(t *testing.T) map[string]sample {
	t.Helper()
	note := secretNote(t)
	client := must(clinicaldoc.NewClient(testBase, canary))(t)
	answered := clinicaldoc.Error{
		StatusCode: 422, Message: canary,
		Fields:    map[string][]string{"name": {canary}, canary + " " + canary: {canary}},
		Operation: "Notes.Create",
		Extra:     note.Extra,
	}
	params := createParams{
		Name: canary, PatientID: secretPatient, Audio: clinicaldoc.AudioBytes(canary+".wav", []byte(canary)),
		Extra: map[string]string{canary: canary},
	}
	meta := clinicaldoc.PageMeta{CurrentPage: 2, NextCursor: canary, Extra: note.Extra}
	stream, err := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.String(), testBase) {
			return storageAt("https://storage.clinic.test")(r)
		}
		header := http.Header{"Content-Range": {"bytes 0-5/6"}, "Etag": {`"` + canary + `"`},
			"Content-Type": {"audio/" + canary}}
		return &http.Response{StatusCode: http.StatusPartialContent, Header: header,
			Body: io.NopCloser(strings.NewReader(canary))}, nil
	})).Notes.OpenAudio(t.Context(), 7)
	require.NoError(t, err)
	samples := map[string]sample{
		"AudioInfo":   sampleOf(*note.Audio),
		"AudioSource": sampleOf(*params.Audio),
		"AudioStream": samplePointer(stream),
		"AudioURL":    sampleOf(clinicaldoc.AudioURL{URL: "https://storage.clinic.test/?signature=" + canary}),
		"Attempt":     sampleOf(clinicaldoc.Attempt{Operation: "Notes.Create", Err: &answered}),
		"Call": sampleOf(clinicaldoc.Call{Operation: "Notes.Create",
			Err: &clinicaldoc.OutcomeUnknownError{Params: params, Err: &answered}}),
		"Client":       sampleOf(*client),
		"Completion":   sampleOf(note.Has),
		"Confirmation": sampleOf(clinicaldoc.Confirmation{Message: canary}),
		"Access":       sampleOf(clinicaldoc.Access{Operation: "Notes.Get", NoteID: 7, PatientID: secretPatient}),
		"NotAuditedError": sampleOf(clinicaldoc.NotAuditedError{NoteID: 7, Err: errors.New(canary),
			CallErr: &answered}),
		"ConflictError":    sampleOf(clinicaldoc.ConflictError{Current: &note, Err: &answered}),
		"CreateNoteParams": sampleOf(params),
		"DownloadParams":   sampleOf(downloadParams{OnProgress: func(int64, int64) {}}),
		"Error":            sampleOf(answered),
		"FindCreatedParams": sampleOf(clinicaldoc.FindCreatedParams{
			Settle: time.Minute, Exclude: []*clinicaldoc.ProgressNote{{ID: secretPatient, Name: canary}},
		}),
		"Assumptions":     sampleOf(clinicaldoc.Assumptions{RecordingsUnchanged: true}),
		"Hooks":           sampleOf(clinicaldoc.Hooks{}),
		"ListNotesParams": sampleOf(listParams{PatientID: secretPatient, Cursor: canary}),
		"NotesService":    sampleOf(*client.Notes),
		"Object":          sampleOf(note.Patient),
		"OutcomeUnknownError": sampleOf(clinicaldoc.OutcomeUnknownError{Params: params, SentAt: time.Now(),
			Err: &answered}),
		"Page": sampleOf(
			clinicaldoc.Page[clinicaldoc.ProgressNote]{Items: []clinicaldoc.ProgressNote{note}, Meta: meta}),
		"PageMeta":     sampleOf(meta),
		"ProgressNote": sampleOf(note),
		"QueryNames":   sampleOf(clinicaldoc.QueryNames{Page: "p"}),
		"RateLimit":    sampleOf(clinicaldoc.RateLimit{Limit: 1}),
		"Response": sampleOf(clinicaldoc.Response{StatusCode: 200,
			Header: http.Header{"Set-Cookie": {canary}}, Body: []byte(canary)}),
		"RetryPolicy":   sampleOf(clinicaldoc.RetryPolicy{MaxRetries: 1}),
		"Template":      sampleOf(*note.Template),
		"Token":         sampleOf(clinicaldoc.Token{ID: 1, Name: canary, Extra: note.Extra}),
		"TokensService": sampleOf(*client.Tokens),
		"TraceContext":  sampleOf(clinicaldoc.TraceContext{}),
		"UpdateNoteParams": sampleOf(updateParams{Name: new(canary), Transcription: new(canary),
			Analysis: new(canary), Extra: map[string]any{canary: canary}}),
		"User": sampleOf(clinicaldoc.User{ID: 1, Name: canary, Email: canary + "@clinic.test",
			Extra: note.Extra}),
		"UsersService": sampleOf(*client.Users),
		"WaitError":    sampleOf(clinicaldoc.WaitError{ID: 7, Note: &note, Err: &answered}),
		"WaitParams":   sampleOf(waitParams{OnUpdate: func(*clinicaldoc.ProgressNote) {}}),
	}
	addReachable(samples, reflect.ValueOf(client))
	return samples
}

// addReachable adds samples of the client's services, and of all types that their methods lead to, unless there are
// samples of them.
func addReachable(samples map[string]sample, client reflect.Value) {
	var add func(reflect.Type)
	add = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			add(typ.Elem())
		case reflect.Func: // an iterator leads to what it yields
			for in := range typ.Ins() {
				add(in)
			}
		case reflect.Struct:
			name, _, _ := strings.Cut(typ.Name(), "[") // of a generic type
			_, known := samples[name]
			isPublic := typ.PkgPath() == client.Type().Elem().PkgPath() && token.IsExported(name)
			isGeneric := name != typ.Name() // and may have other types in it than the one that is known
			if !isPublic || known && !isGeneric {
				return
			}
			if !known {
				value := reflect.New(typ)
				value.Elem().Set(withCanaries(typ))
				samples[name] = sampleOfValues(value.Elem(), value)
			}
			for field := range typ.Fields() {
				if field.IsExported() {
					add(field.Type)
				}
			}
		default:
		}
	}
	for field, service := range client.Elem().Fields() {
		if !field.IsExported() {
			continue
		}
		name := service.Type().Elem().Name()
		if _, known := samples[name]; !known {
			samples[name] = sampleOfValues(service.Elem(), service)
		}
		for _, method := range service.Methods() {
			for typ := range method.Type().Ins() {
				add(typ)
			}
			for typ := range method.Type().Outs() {
				add(typ)
			}
		}
	}
}

func assertPrintsSilently(t *testing.T, value any, what string) {
	t.Helper()
	for _, verb := range verbs {
		assertSilent(t, fmt.Sprintf(verb, value), what+" "+verb)
	}
	assertSilent(t, fmt.Sprint(value), what)
	assertSilent(t, fmt.Sprintln(value), what)
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	log.InfoContext(t.Context(), "m", "value", value)
	log.With("value", value).WithGroup("g").InfoContext(t.Context(), "m", slog.Any("value", value))
	assertSilent(t, text.String(), what+" slog text")
}

func TestSecrets_PublicTypes_PrintNone(t *testing.T) {
	t.Parallel()
	for name, s := range publicSamples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, value := range slices.Concat(s.direct, s.nested) {
				assertPrintsSilently(t, value, fmt.Sprintf("%T", value))
			}
			// The JSON handler encodes a list or a struct as encoding/json does, which is explicit and gives
			// everything; what is logged by itself is printed by its own rule.
			var encoded strings.Builder
			log := slog.New(slog.NewJSONHandler(&encoded, nil))
			for _, value := range s.direct {
				for _, odd := range []string{"%t", "%5.2f", "%U", "%c", "%z"} {
					assertSilent(t, fmt.Sprintf(odd, value), name+" "+odd)
				}
				log.InfoContext(t.Context(), "m", "value", value)
				log.With("value", value).InfoContext(t.Context(), "m", slog.Group("g", slog.Any("value", value)))
			}
			assertSilent(t, encoded.String(), name+" slog JSON")
		})
	}
}

// A value with nil or empty parts prints without a panic, also without one that fmt or slog recovers.
func TestFormat_NilParts_PrintWithoutAPanic(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		clinicaldoc.ConflictError{}, &clinicaldoc.ConflictError{}, &clinicaldoc.WaitError{ID: 7},
		clinicaldoc.NotAuditedError{}, &clinicaldoc.NotAuditedError{Changed: true},
		&clinicaldoc.WaitError{Err: &clinicaldoc.ConflictError{}},
		clinicaldoc.OutcomeUnknownError{}, &clinicaldoc.OutcomeUnknownError{}, clinicaldoc.Error{},
		clinicaldoc.ProgressNote{}, clinicaldoc.AudioSource{},
		clinicaldoc.Page[clinicaldoc.ProgressNote]{}, clinicaldoc.Attempt{}, createParams{},
		clinicaldoc.Response{},
	} {
		var text strings.Builder
		fmt.Fprintf(&text, "%v", value)
		slog.New(slog.NewTextHandler(&text, nil)).InfoContext(t.Context(), "m", "value", value)
		slog.New(slog.NewJSONHandler(&text, nil)).InfoContext(t.Context(), "m", "value", value)
		assert.NotContains(t, strings.ToLower(text.String()), "panic", "%T", value)
	}
	for _, value := range []any{
		(*clinicaldoc.ProgressNote)(nil), (*clinicaldoc.Client)(nil), (*clinicaldoc.Error)(nil),
		(*clinicaldoc.OutcomeUnknownError)(nil), (*clinicaldoc.AudioSource)(nil),
	} {
		assert.NotPanics(t, func() { assertPrintsSilently(t, value, fmt.Sprintf("%T", value)) })
	}
}

func TestSecrets_PublicTypes_AreAllTested(t *testing.T) {
	t.Parallel()
	var exported []string
	sources := must(filepath.Glob("*.go"))(t)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, isStruct := spec.Type.(*ast.StructType); isStruct {
					exported = append(exported, spec.Name.Name)
				}
			}
			return true
		})
	}
	require.Contains(t, exported, "ProgressNote")
	assert.ElementsMatch(t, exported, slices.Collect(maps.Keys(publicSamples(t))))
}

func TestFormat_PublicTypes_PrintSafeFields(t *testing.T) {
	t.Parallel()
	note := secretNote(t)
	note.Has.Transcription = true
	page := clinicaldoc.Page[clinicaldoc.ProgressNote]{
		Items: []clinicaldoc.ProgressNote{note},
		Meta:  clinicaldoc.PageMeta{CurrentPage: 2, LastPage: 3, PerPage: 4, Total: 5},
	}
	refusal := clinicaldoc.Error{
		StatusCode: 403, Operation: "Notes.Get", Method: "GET", Route: "/v1/progress-notes/{id}",
	}
	list := listParams{PatientID: secretPatient, Sort: clinicaldoc.SortLatest, Page: 2, PerPage: 3, Prefetch: 4}
	for _, tt := range []struct {
		value any
		want  string
	}{
		{note, "clinicaldoc.ProgressNote{id=7 stage=failed transcription=true content=false signed=false}"},
		{note.Patient, "clinicaldoc.Object{present=true}"},
		{note.Template, "clinicaldoc.Template{id=3}"},
		{note.Has, "clinicaldoc.Completion{transcription=true content=false signed=false}"},
		{note.Audio, "clinicaldoc.AudioInfo{duration=0 bitrate=0 size=5}"},
		{clinicaldoc.User{ID: 2, Name: canary}, "clinicaldoc.User{id=2}"},
		{page, "clinicaldoc.Page{items=1 meta={current_page=2 last_page=3 per_page=4 total=5 per_page_ignored=false}}"},
		{clinicaldoc.AudioBytes(canary, []byte(canary)), "clinicaldoc.AudioSource{size=6}"},
		{clinicaldoc.Response{StatusCode: 200, RequestID: "r", Attempts: 2, Body: []byte(canary)},
			"clinicaldoc.Response{status=200 request_id=r attempts=2 bytes=6}"},
		{refusal, "clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): 403 Forbidden: " +
			"the token's user may not do this"},
		{serve(t), "clinicaldoc.Client{base_url=https://api.clinic.test}"},
		{list, "clinicaldoc.ListNotesParams{patient=true sort=latest page=2 per_page=3 prefetch=4}"},
		{clinicaldoc.AudioURL{URL: canary, ExpiresAt: moment(1, 0)},
			"clinicaldoc.AudioURL{expires_at=2024-05-01 10:00:01 +0000 UTC}"},
		{clinicaldoc.Token{ID: 1, CreatedAt: moment(1, 0), LastUsedAt: moment(2, 0)},
			"clinicaldoc.Token{id=1 created_at=2024-05-01 10:00:01 +0000 UTC " +
				"last_used_at=2024-05-01 10:00:02 +0000 UTC}"},
	} {
		assert.Equal(t, tt.want, fmt.Sprint(tt.value))
		assert.Equal(t, tt.want, fmt.Sprintf("%#v", tt.value))
	}
	for _, value := range []any{
		updateParams{Name: new(canary)}, createParams{Name: canary},
		updateParams{Extra: map[string]any{canary: canary}},
		createParams{Extra: map[string]string{canary: canary}}, clinicaldoc.Confirmation{Message: canary},
		clinicaldoc.FindCreatedParams{Exclude: []*clinicaldoc.ProgressNote{{ID: secretPatient, Name: canary}}},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q", "%x"} {
			assert.Equal(t, "{not printed}", fmt.Sprintf(verb, value), "%T", value)
		}
		assert.Equal(t, "{not printed}", slog.AnyValue(value).Resolve().String(), "%T", value)
	}
}

// failures are errors of many origins, each of which had a canary at hand.
func failures(t *testing.T) map[string]error {
	t.Helper()
	folder := filepath.Join(t.TempDir(), canary)
	require.NoError(t, os.Mkdir(folder, 0o700))
	_, missing := clinicaldoc.AudioFile(filepath.Join(folder, "visit.wav"))
	_, directory := clinicaldoc.AudioFile(folder)
	_, badURL := clinicaldoc.NewClient("https://"+canary+"@api.clinic.test", canary)
	_, badHost := clinicaldoc.NewClient("https://api.clinic.test:"+canary, canary)
	_, badToken := clinicaldoc.NewClient(testBase, canary+" ")
	failures := map[string]error{"missing": missing, "directory": directory, "bad URL": badURL, "bad host": badHost,
		"bad token": badToken}

	path := "/v1/progress-notes/7"
	for name, answer := range map[string]call{
		"validation": {status: 422, response: `{"message":"` + canary + `","errors":{"name":["` + canary + `"],"` +
			canary + ` x":["x"]}}`, answerHeader: map[string]string{"X-Request-Id": canary + " " + canary}},
		"redirect": {status: 302,
			answerHeader: map[string]string{"Location": "https://" + canary + ".test/" + canary}},
		"not JSON": {response: canary,
			answerHeader: map[string]string{"Content-Type": canary + "/" + canary + " x"}},
		"wrong kind":   {response: `{"id":7,"created_at":"` + canary + `"}`},
		"another":      {response: `{"id":8,"name":"` + canary + `"}`},
		"odd key":      {response: `{"id":7,"` + canary + ` x":1,"name":{"` + canary + ` x":"` + canary + `"}}`},
		"URL error":    {fail: &url.Error{Op: "Get", URL: "https://" + canary, Err: errors.New(canary)}},
		"plain error":  {fail: errors.New(canary)},
		"path error":   {fail: &os.PathError{Op: "open", Path: canary, Err: errors.New(canary)}},
		"joined error": {fail: errors.Join(errors.New(canary), io.ErrUnexpectedEOF)},
		"context":      {fail: context.DeadlineExceeded},
	} {
		answer.url = path
		_, failures[name] = serve(t, answer).Notes.Get(t.Context(), 7)
	}
	_, failures["patient"] = serve(t, call{url: fmt.Sprintf("%s?cursor=%s&patient_id=%d", notesPath, canary,
		secretPatient), response: `[{"id":1,"patient":{"id":5,"name":"` + canary + `"}}]`}).
		Notes.List(t.Context(), listParams{PatientID: secretPatient, Cursor: canary})
	_, failures["sort"] = serve(t).Notes.List(t.Context(), listParams{Sort: canary})
	_, failures["create"] = serve(t, call{method: "POST", url: notesPath,
		checkBody: func(*testing.T, string, []byte) {}, status: 502, response: canary}).
		Notes.Create(t.Context(),
		createParams{Name: canary, PatientID: secretPatient, Audio: clinicaldoc.AudioBytes(canary, []byte(canary))})
	_, failures["file name"] = serve(t).Notes.Create(t.Context(),
		createParams{Audio: clinicaldoc.AudioBytes(canary+"\n", []byte(canary))})
	_, failures["unreadable audio"] = serve(t,
		call{method: "POST", url: notesPath, checkBody: func(*testing.T, string, []byte) {}, fail: errors.New(canary)}).
		Notes.Create(t.Context(),
		createParams{Audio: clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader([]byte(canary)), 6)})
	failures["Do path"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x?"+canary, nil, nil)
	failures["Do method"] = serve(t).Do(t.Context(), canary+" x", "/v1/x", nil, nil)
	failures["Do body"] = serve(t).Do(t.Context(), http.MethodPost, "/v1/"+canary,
		map[string]any{canary: func() {}}, nil)
	failures["Do answer"] = serve(t, call{url: "/v1/" + canary, response: `{"a":"` + canary + `"}`}).Do(t.Context(),
		http.MethodGet, "/v1/"+canary, nil, new(struct{ A int }))
	failures["query key"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x", nil, nil,
		clinicaldoc.WithQuery("", canary))
	failures["header"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x", nil, nil,
		clinicaldoc.WithHeader("X-A", canary+"\n"))

	maps.Copy(failures, foreignFailures(t))
	maps.Copy(failures, socketFailures(t))
	return failures
}

// foreignSafeError is a type of the caller's that calls its text safe, which only this module's types are trusted with.
type foreignSafeError struct{ Name string }

func (e foreignSafeError) Error() string  { return e.Name }
func (foreignSafeError) SafeText() string { return canary }

// foreignFailures are calls that fail by an error of the caller's own code.
func foreignFailures(t *testing.T) map[string]error {
	t.Helper()
	own := map[string]error{
		"text": errors.New(canary),
		"safe": foreignSafeError{canary},
		"wrapped": fmt.Errorf(canary+": %w",
			&url.Error{Op: canary, URL: canary, Err: &os.PathError{Op: canary, Path: canary, Err: os.ErrNotExist}}),
		"joined": errors.Join(errors.New(canary), foreignSafeError{canary}, context.Canceled),
		"DNS":    &net.DNSError{Err: canary, Server: canary, Name: "host.test"},
		"operation": &net.OpError{Op: canary, Net: canary, Source: &net.UnixAddr{Name: canary},
			Addr: &net.UnixAddr{Name: canary}, Err: errors.New(canary)},
		"link":    &os.LinkError{Op: canary, Old: canary, New: canary, Err: errors.New(canary)},
		"of ours": fmt.Errorf(canary+": %w", &clinicaldoc.Error{StatusCode: 500, Message: canary, Route: "/x"}),
	}
	failures := map[string]error{}
	for name, err := range own {
		broken := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				if _, failed := io.Copy(io.Discard, r.Body); failed != nil {
					return nil, failed
				}
			}
			return nil, err
		})}
		_, failures["transport, "+name] = clientOn(t, broken).Users.Me(t.Context())
		_, failures["transport of a create, "+name] = clientOn(t, broken).Notes.Create(t.Context(),
			createParams{Name: canary})
		_, failures["transport of a wait, "+name] = clientOn(t, broken).Notes.Wait(t.Context(), 7,
			waitParams{MaxFailures: 1, Interval: time.Millisecond, MaxInterval: time.Millisecond})
		_, failures["limiter, "+name] = serveWith(t,
			[]clinicaldoc.Option{clinicaldoc.WithLimiter(badCallback{err})}).Users.Me(t.Context())
		sourced, failed := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithTokenSource(badCallback{err}))
		require.NoError(t, failed)
		_, failures["token source, "+name] = sourced.Users.Me(t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(err)
		_, failures["context, "+name] = serve(t).Users.Me(ctx)
		failures["a wait's own, "+name] = &clinicaldoc.WaitError{Err: err}
		failures["an unknown outcome's own, "+name] = &clinicaldoc.OutcomeUnknownError{Err: err}
		for form, audio := range map[string]*clinicaldoc.AudioSource{
			"reader":    clinicaldoc.AudioReader(canary, new(badReader)),
			"reader at": clinicaldoc.AudioReaderAt(canary, new(badReader), 5),
		} {
			_, failures[form+", "+name] = clientOn(t, broken).Notes.Create(t.Context(), createParams{Audio: audio})
		}
	}
	return failures
}

// socketFailures are calls answered with bytes that are no proper HTTP, each with a canary.
func socketFailures(t *testing.T) map[string]error {
	t.Helper()
	const ok = "HTTP/1.1 200 OK\r\n"
	failures := map[string]error{}
	for name, bytes := range map[string]string{
		"no HTTP":           canary + "\r\n\r\n",
		"protocol":          canary + "/1.1 200 OK\r\n\r\n",
		"status":            "HTTP/1.1 " + canary + " OK\r\n\r\n",
		"version":           "HTTP/" + canary + " 200 OK\r\n\r\n",
		"header line":       ok + canary + "\r\n\r\n",
		"header key":        ok + canary + " " + canary + ": x\r\n\r\n",
		"header value":      ok + "X-A: " + canary + "\x00\r\n\r\n",
		"continued header":  ok + " " + canary + "\r\n\r\n",
		"length":            ok + "Content-Length: " + canary + "\r\n\r\n",
		"two lengths":       ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + canary,
		"transfer encoding": ok + "Transfer-Encoding: " + canary + "\r\n\r\n",
		"chunk":             ok + "Transfer-Encoding: chunked\r\n\r\n" + canary + "\r\n",
		"trailer": ok + "Transfer-Encoding: chunked\r\nTrailer: " + canary + " x\r\n\r\n0\r\n" + canary +
			"\r\n\r\n",
		"compression":  ok + "Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\n" + canary,
		"cut":          ok + "Content-Length: 60\r\n\r\n" + canary,
		"location":     "HTTP/1.1 302 Found\r\nLocation: %zz" + canary + "\r\nContent-Length: 0\r\n\r\n",
		"content type": ok + "Content-Type: " + canary + "/" + canary + "\r\nContent-Length: 6\r\n\r\n" + canary,
	} {
		srv := newRawServer(t, slices.Repeat([]func(*rawConn){func(c *rawConn) { c.request(); c.send(bytes) }}, 3)...)
		// A kept connection could be dialled, and not used, while the one before is given back.
		client := socketClient(t, srv.URL, once, over(&http.Transport{DisableKeepAlives: true}))
		_, failures["bytes: "+name] = client.Notes.Get(t.Context(), 7)
		_, failures["bytes to a create: "+name] = client.Notes.Create(t.Context(), createParams{Name: canary})
		storage := clientOver(t, storageAt(srv.URL), clinicaldoc.WithInsecureHTTP())
		_, failures["bytes of storage: "+name] = storage.Notes.DownloadAudio(t.Context(), 7, new(badReader),
			downloadParams{})
	}
	return failures
}

// A crash reporter prints an error and all that it wraps, alone and in values of its own.
func TestSecrets_Errors_PrintNone(t *testing.T) {
	t.Parallel()
	for name, err := range failures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, err)
			for _, value := range []any{
				fmt.Errorf("wrapped: %w", err), errors.Join(err, io.EOF), struct{ Err error }{err},
				&struct{ Err error }{err}, []error{err}, map[string]error{"k": err},
				clinicaldoc.Attempt{Err: err}, clinicaldoc.OutcomeUnknownError{Err: err},
			} {
				assertPrintsSilently(t, value, fmt.Sprintf("%s %T", name, value))
			}
			attempt := clinicaldoc.Attempt{Operation: "Notes.Get", Err: err}
			var encoded strings.Builder
			encoded.WriteString(asJSON(t, attempt))
			log := slog.New(slog.NewJSONHandler(&encoded, nil))
			log.InfoContext(t.Context(), "m", "wrapped", fmt.Errorf("wrapped: %w", err), "attempt", attempt)
			for _, member := range chain(err) {
				assertSilent(t, member.Error(), name)
				assertPrintsSilently(t, member, fmt.Sprintf("%s %T", name, member))
				log.InfoContext(t.Context(), "m", "err", member)
				switch member.(type) { //nolint:errorlint // this member alone
				// their JSON gives everything, on purpose
				case *clinicaldoc.Error, *clinicaldoc.OutcomeUnknownError, *clinicaldoc.WaitError:
				default:
					encoded.WriteString(asJSON(t, member))
				}
			}
			assertSilent(t, encoded.String(), name+" JSON")
		})
	}
}

// sentDocuments are what a service of this kind may send, with members that the description does not show at every
// level.
var sentDocuments = map[string]string{
	"note": `{"id":7,"name":"Visit","transcription":"words","analysis":"thoughts","severity":{"level": 3},"patient":{"id":5,"tags":[]},
		"template":{"id":11,"name":"SOAP","description":"Four parts","locale":"en","sections":[{"title":"S"}]},
		"audio":{"duration":61.25,"bitrate":128000,"size":980123,"uploaded_at":"2024-05-01T10:00:01.000001Z",
		"expires_at":"2024-06-01T10:00:02Z","file_url":"https://storage.clinic.test/7.wav?signature=s","codec":"opus","channels":2},
		"has":{"content":true,"transcription":true,"signed":false,"letter":true,"locked":null},
		"team_id":3,"user_id":22,"user":{"id":22},"error_state":null,"created_at":"2024-05-01T10:00:07Z","updated_at":"2024-05-01T10:00:08Z"}`,
	"token": `{"id":1,"name":"ward-pc","abilities":["*"],"expires_at":null,"tokenable_id":22,
		"created_at":"2024-05-01T10:00:00.123456Z","last_used_at":"2024-05-02T11:00:00.654321Z"}`,
	"user": `{"id":22,"name":"Test User","email":"user@clinic.test","roles":["clinician"],"current_team":{"id":3},
		"created_at":"2024-05-01T10:00:01Z","updated_at":"2024-05-01T10:00:02Z"}`,
	"template":   `{"id":11,"name":"SOAP","description":"Four parts","locale":"en"}`,
	"audio":      `{"size":5,"codec":"opus","waveform":[0.5,0.25]}`,
	"completion": `{"content":true,"transcription":false,"signed":false,"letter":true}`,
}

func TestExtra_EveryRecordGivesBackWhatCame(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]any{
		"note": new(clinicaldoc.ProgressNote), "token": new(clinicaldoc.Token), "user": new(clinicaldoc.User),
		"template": new(clinicaldoc.Template), "audio": new(clinicaldoc.AudioInfo),
		"completion": new(clinicaldoc.Completion),
	} {
		require.NoError(t, json.Unmarshal([]byte(sentDocuments[name]), target), name)
		encoded, err := json.Marshal(target)
		require.NoError(t, err, name)
		assert.JSONEq(t, sentDocuments[name], string(encoded), name)
		byValue, err := json.Marshal(reflect.ValueOf(target).Elem().Interface())
		require.NoError(t, err, name)
		assert.Equal(t, string(encoded), string(byValue), name)
	}
}

// A program that fills Extra cannot give a record a second id, nor anything else that is described.
func TestExtra_DescribedMember_IsNotReplaced(t *testing.T) {
	t.Parallel()
	extra := object(t,
		`{"id":8,"\u0069d":9,"name":"other","size":9,"content":true,"email":"x","file_url":"x","audio":5,"kept":[1]}`)
	for _, tt := range []struct {
		record any
		want   string
	}{
		{clinicaldoc.ProgressNote{ID: 7, Extra: extra}, `{"id":7,"name":"","team_id":0,"user_id":0,` +
			`"error_state":null,"size":9,"content":true,"email":"x","file_url":"x","kept":[1]}`},
		{clinicaldoc.Token{ID: 7, Name: "n", Extra: extra},
			`{"id":7,"name":"n","size":9,"content":true,"email":"x","file_url":"x","audio":5,"kept":[1]}`},
		{clinicaldoc.User{ID: 7, Name: "n", Extra: extra},
			`{"id":7,"name":"n","email":"","size":9,"content":true,"file_url":"x","audio":5,"kept":[1]}`},
		{clinicaldoc.Template{ID: 7, Name: "n", Extra: extra},
			`{"id":7,"name":"n","size":9,"content":true,"email":"x","file_url":"x","audio":5,"kept":[1]}`},
		{clinicaldoc.AudioInfo{Size: 7, Extra: extra},
			`{"size":7,"id":9,"name":"other","content":true,"email":"x","audio":5,"kept":[1]}`},
		{clinicaldoc.Completion{Extra: extra}, `{"content":false,"transcription":false,"signed":false,` +
			`"id":9,"name":"other","size":9,"email":"x","file_url":"x","audio":5,"kept":[1]}`},
	} {
		encoded := asJSON(t, tt.record)
		assert.JSONEq(t, tt.want, encoded, "%T", tt.record)
		isIDDescribed := strings.HasPrefix(tt.want, `{"id":7`)
		assert.Equal(t, !isIDDescribed, repeatsKeys(json.NewDecoder(strings.NewReader(encoded))), encoded)
	}
	for _, nothing := range []string{`{}`, `[]`, `null`, `{"id":8}`} {
		note := clinicaldoc.ProgressNote{ID: 7, Extra: object(t, nothing)}
		assert.Equal(t, asJSON(t, clinicaldoc.ProgressNote{ID: 7}), asJSON(t, note), nothing)
	}
	for _, wrong := range []string{`5`, `"secret"`, `[1]`} {
		extra := object(t, wrong)
		for _, value := range []any{
			clinicaldoc.Token{Extra: extra}, clinicaldoc.User{Extra: extra}, clinicaldoc.Template{Extra: extra},
			clinicaldoc.AudioInfo{Extra: extra}, clinicaldoc.Completion{Extra: extra},
			clinicaldoc.ProgressNote{Extra: extra}, clinicaldoc.ProgressNote{Has: clinicaldoc.Completion{Extra: extra}},
		} {
			_, err := json.Marshal(value)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "%T", value)
			assert.NotContains(t, err.Error(), "secret")
		}
	}
}

// A flag is false if the service sent false, and also if it sent nothing. The encoded note and Flags show which.
func TestFlags_Absent_DiffersFromFalse(t *testing.T) {
	t.Parallel()
	for has, want := range map[string]map[string]bool{
		``:                                      {},
		`"has":null`:                            {},
		`"has":[]`:                              {},
		`"has":{"content":null}`:                {},
		`"has":{"letter":true}`:                 {},
		`"has":{"signed":false}`:                {"signed": false},
		`"has":{"content":true}`:                {"content": true},
		`"has":{"content":true,"signed":false}`: {"content": true, "signed": false},
		`"has":{"content":false,"transcription":false,"signed":false}`: {"content": false, "transcription": false,
			"signed": false},
		`"has":{"content":true,"transcription":true,"signed":false}`: {"content": true, "transcription": true,
			"signed": false},
		`"has":{"content":1,"transcription":"0","signed":""}`: {"content": true, "transcription": false,
			"signed": false},
	} {
		note, err := get(t, withField(`"team_id":1`+strings.TrimSuffix(","+has, ",")))
		require.NoError(t, err, has)
		assert.Equal(t, want, note.Flags(), has)
		assertRoundTrip(t, *note)
		var back struct{ Has map[string]any }
		require.NoError(t, json.Unmarshal([]byte(asJSON(t, note)), &back))
		for _, flag := range []string{"content", "transcription", "signed"} {
			value, sent := want[flag]
			written, isWritten := back.Has[flag]
			assert.Equal(t, sent, isWritten, "%s: %s", has, flag)
			assert.True(t, !sent || written == value, "%s: %s", has, flag)
		}
		note.Has.Signed = true
		assert.True(t, note.Flags()["signed"], "what the program sets is written")
		assert.Contains(t, asJSON(t, note), `"signed":true`)
	}
	constructed := clinicaldoc.ProgressNote{ID: 7, Has: clinicaldoc.Completion{Content: true}}
	assert.Equal(t, map[string]bool{"content": true, "transcription": false, "signed": false}, constructed.Flags())
	assert.Empty(t, clinicaldoc.ProgressNote{ID: 7}.Flags())
}

// FuzzRoundTrip checks that every member of a record is encoded, at every level. Undescribed members stay
// unchanged, and described ones have a value that reads as the same.
func FuzzRoundTrip(f *testing.F) {
	for _, document := range sentDocuments {
		f.Add([]byte(document))
	}
	for _, seed := range []string{
		fullNote, richNote, smallNote, "{}", `{"has":{"signed":false}}`,
		`{"has":{"content":true,"x":{"y":[1]}},"audio":{"":0},"template":{"\u0061":"<"}}`,
		`{"template":{"x":1},"template":{"y":2}}`, `{"has":{"x":1},"has":{"content":true}}`,
		`{"audio":{"x":1},"audio":null}`,
		`{"id":7,"abilities":["*"],"expires_at":"2024-05-01","x":"` + "\u2028" + `"}`, "{\"x\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		tooDeep := bytes.Count(document, []byte("["))+bytes.Count(document, []byte("{")) > 900
		if tooDeep || !json.Valid(document) || repeatsKeys(json.NewDecoder(bytes.NewReader(document))) {
			t.Skip("encoding/json, which compares, keeps one of two members and knows no limit of depth")
		}
		givesBack[clinicaldoc.Token](t, document, nil)
		givesBack[clinicaldoc.User](t, document, nil)
		givesBack[clinicaldoc.Template](t, document, nil)
		givesBack[clinicaldoc.AudioInfo](t, document, nil)
		givesBack[clinicaldoc.Completion](t, document, nil)
		givesBack[clinicaldoc.ProgressNote](t, document, map[string]reflect.Type{
			"template": reflect.TypeFor[clinicaldoc.Template](), "audio": reflect.TypeFor[clinicaldoc.AudioInfo](),
			"has": reflect.TypeFor[clinicaldoc.Completion](),
		})
	})
}

// givesBack decodes and encodes a document as T.
func givesBack[T any](t *testing.T, document []byte, parts map[string]reflect.Type) {
	t.Helper()
	var value, back T
	if json.Unmarshal(document, &value) != nil {
		return
	}
	encoded := must(json.Marshal(value))(t)
	require.NoError(t, json.Unmarshal(encoded, &back))
	require.Equal(t, value, back, "what is described reads as the same")
	requireUndescribed(t, reflect.TypeFor[T](), document, encoded)
	for member, part := range parts {
		requireUndescribed(t, part, memberOf(document, member), memberOf(encoded, member))
	}
}

func memberOf(document []byte, name string) []byte {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(document, &members)
	return members[name]
}

// requireUndescribed wants the members of an object that have no field in the type.
func requireUndescribed(t *testing.T, record reflect.Type, document, encoded []byte) {
	t.Helper()
	described := map[string]bool{}
	for field := range record.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		described[name] = true
	}
	var sent, written map[string]json.RawMessage
	if json.Unmarshal(document, &sent) != nil {
		return
	}
	if len(encoded) > 0 {
		require.NoError(t, json.Unmarshal(encoded, &written))
	}
	for name, value := range sent {
		if !described[name] {
			require.Equal(t, asJSON(t, value), asJSON(t, written[name]), "%s: %s", record, name)
		}
	}
}
