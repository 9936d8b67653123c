package gaps

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

// Every difference from the description is reported, not only the first one.
func TestNote_DiffersFromItsDescription_EveryFieldIsReported(t *testing.T) {
	t.Parallel()
	p := blank(Options{})
	p.seen.note(asObject([]byte(`{
		"id": "7", "team_id": "8", "user_id": "x", "name": 5, "transcription": 7, "analysis": true, "has": [],
		"patient": null, "error_state": null, "user": {"id": 1, "Jane Sampleton": 2},
		"updated_at": "2026-11-18T09:30:15Z",
		"a_field": 1, "b_field": 2, "c_field": 3, "d_field": 4, "e_field": 5, "f_field": 6,
		"audio": {"size": "x", "duration": "1.5", "g_field": 1, "expires_at": "2026-11-18 09:30:15.000"},
		"template": {"h_field": 1}
	}`)))
	p.seen.note(nil) // a response that is not an object shows nothing
	p.reportObservations()
	for key, want := range map[string]string{
		"unknown_fields": "audio.g_field, note.a_field, note.b_field, note.c_field, note.d_field, note.e_field, " +
			"note.f_field, template.h_field",
		"missing_fields": "note.created_at",
		"other_types": "audio.size is a string; note.analysis is a boolean; note.name is a number; " +
			"note.transcription is a number; note.user_id is a string",
		"number.strings":      "audio.duration, note.id, note.team_id",
		"note.times":          "0000-00-00 00:00:00.000 (whole seconds), 0000-00-00T00:00:00Z",
		"note.user_fields":    "id, and 1 that may be data",
		"note.patient_fields": "none",
		"note.error_state":    "null",
		"note.empty_fields": "absent: analysis_completed_at, analysis_started_at, created_at, " +
			"transcription_completed_at, transcription_started_at; null: patient; []: has",
	} {
		assert.Equal(t, want, p.report.Item(key).Seen, key)
	}
}

// Null and, in place of an object, an empty array are usual. Other arrays are not.
func TestFits_Kinds_AreCompared(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		got  string
		want description.Kind
		fits bool
	}{
		{"null", description.Integer, true},
		{"number", description.Integer, true},
		{"number", description.Number, true},
		{"string", description.Integer, false},
		{"object", description.Object, true},
		{"array", description.Object, true},
		{"array", description.Integer, false},
		{"number", description.Object, false},
	} {
		assert.Equal(t, tc.fits, fits(tc.got, tc.want), tc)
	}
}

// A JSON reader with floating-point numbers rounds what is above 2^53.
func TestCheckNumber_LargeOrInText_IsRecorded(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct{ large, text bool }{
		"9007199254740992":   {false, false},
		"9007199254740993":   {true, false},
		`"9007199254740993"`: {true, true},
		`"7"`:                {false, true},
		`"1.5"`:              {false, true},
		`"seven"`:            {false, false},
		"1.5":                {false, false},
		"null":               {false, false},
	} {
		for _, kind := range []description.Kind{description.Integer, description.Number} {
			o := newObservations()
			o.checkNumber("n", json.RawMessage(raw), kind)
			assert.Equal(t, want.large, o.largeNumbers["n"], raw)
			assert.Equal(t, want.text, o.numericStrings["n"], raw)
		}
		o := newObservations()
		o.checkNumber("n", json.RawMessage(raw), description.Object)
		assert.Empty(t, o.largeNumbers, raw)
		assert.Empty(t, o.numericStrings, raw)
	}
}

func TestPatientForm_EachPlace_IsTold(t *testing.T) {
	t.Parallel()
	for note, want := range map[string]string{
		`{"patient":{"id":7}}`:              patientInObject,
		`{"patient":{"patient_id":7}}`:      patientInObject,
		`{"patient":7}`:                     patientInObject,
		`{"patient":[],"patient_id":7}`:     patientBeside,
		`{"patient":{},"patient_id":"7"}`:   patientBeside,
		`{"patient":"x"}`:                   patientUnnamed,
		`{"patient":null,"patient_id":[7]}`: patientUnnamed,
		`{}`:                                patientUnnamed,
	} {
		assert.Equal(t, want, patientForm(asObject([]byte(note))), note)
	}
}

// Only a note that was made with a patient shows how notes name their patient.
func TestNoteBody_WithoutPatient_DoesNotCount(t *testing.T) {
	t.Parallel()
	o := newObservations()
	o.noteBody([]byte(`{"id":1}`), false)
	o.noteBody([]byte(`"not a note"`), true)
	assert.Empty(t, o.patientNamed)
	o.noteBody([]byte(`{"id":1}`), true)
	assert.Equal(t, []string{patientUnnamed}, o.patientNamed.sorted())
}

func TestErrorStateForm_AnyValue_HidesItsText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"": "absent", "null": "null", `"audio_unreadable"`: `"audio_unreadable"`,
		`"Jane Sampleton"`: "a text (not printed)",
		`{"text":"Jane"}`:  "a value of type object", "7": "a value of type number",
	} {
		assert.Equal(t, want, errorStateForm(json.RawMessage(raw)), raw)
	}
}

func TestTimeForm_Fraction_IsTold(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"2026-11-18T09:30:15.000000Z"`: "0000-00-00T00:00:00.000000Z (whole seconds)",
		`"2026-11-18T09:30:15.000100Z"`: "0000-00-00T00:00:00.000000Z",
		`"2026-11-18T09:30:15Z"`:        "0000-00-00T00:00:00Z",
		`"yesterday"`:                   "another form (not printed)",
		"7":                             "another form (not printed)",
		`"2026"`:                        "another form (not printed)",
	} {
		assert.Equal(t, want, timeForm(json.RawMessage(raw)), raw)
	}
}

// Of a refusal only the names of fields that are not described are kept.
func TestErrorBody_DescribedFields_AreLeftOut(t *testing.T) {
	t.Parallel()
	p := blank(Options{})
	p.observe("code.get", clinicaldoc.Response{
		Body: []byte(`{"message":"Secret","errors":{"name":["Secret"]},"code":7,"trace":"Secret"}`),
	}, &clinicaldoc.Error{StatusCode: http.StatusConflict})
	p.reportObservations()
	assert.Equal(t, "code, trace", p.report.Item("error.codes").Seen)
}

// Of each limit header the first number is reported. A text could be anything.
func TestHeaders_LimitsAndVersions_AreReported(t *testing.T) {
	t.Parallel()
	p := blank(Options{})
	p.seen.headers(http.Header{
		"X-Ratelimit-Limit": {"60"}, "Ratelimit-Policy": {"Secret"}, "Retry-After": {"soon"}, "X-Other": {"7"},
		"Content-Type": {"text/plain"}, "Server": {"synthetic"}, "Sunset": {"Wed, 18 Nov 2026 09:30:15 GMT"},
	})
	p.seen.headers(http.Header{
		"X-Ratelimit-Limit": {"59"}, "X-Ratelimit-Remaining": {"58"}, "X-Api-Version": {"Secret"},
	})
	p.reportObservations()
	assert.Equal(t, "Ratelimit-Policy: (not a number), Retry-After: (not a number), X-Ratelimit-Limit: 60, "+
		"X-Ratelimit-Remaining: 58", p.report.Item("limits.rate").Seen)
	assert.Equal(t, "Sunset: present, X-Api-Version: present", p.report.Item("versioning.headers").Seen)
	assert.Equal(t, "not seen: no request was refused, and no header tells", p.report.Item("limits.window").Seen)
}

// The window is as long as the longest wait that a header reports, in seconds or as a time, up to a day.
func TestRateWindow_LongestWait_IsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 18, 9, 30, 15, 0, time.UTC)
	date := now.Format(http.TimeFormat)
	at := func(in time.Duration) string { return strconv.FormatInt(now.Add(in).Unix(), 10) }
	for _, tc := range []struct {
		headers []http.Header
		want    string
	}{
		{[]http.Header{{"Date": {date}, "Retry-After": {"60"}}}, "at least 1m0s, as Retry-After tells"},
		{[]http.Header{{"Retry-After": {"60"}}}, ""},
		{[]http.Header{{"Date": {date}, "Retry-After": {"0"}}}, ""},
		{[]http.Header{{"Date": {date}, "Retry-After": {"-60"}}}, ""},
		{
			[]http.Header{{"Date": {date}, "X-Ratelimit-Reset": {at(time.Hour)}}},
			"at least 1h0m0s, as X-Ratelimit-Reset tells",
		},
		{[]http.Header{{"Date": {date}, "X-Ratelimit-Reset": {at(-time.Hour)}}}, ""},
		{[]http.Header{{"Date": {date}, "Ratelimit-Reset": {"86400"}}}, "at least 24h0m0s, as Ratelimit-Reset tells"},
		{[]http.Header{{"Date": {date}, "Ratelimit-Reset": {"86401"}}}, ""},
		{[]http.Header{{"Date": {date}, "Retry-After": {"soon"}, "Ratelimit-Reset": {"7"}}},
			"at least 7s, as Ratelimit-Reset tells"},
		{[]http.Header{
			{"Date": {date}, "Retry-After": {"60"}},
			{"Date": {date}, "X-Ratelimit-Reset": {"50"}},
			{"Date": {date}, "X-Ratelimit-Reset": {"60"}},
		}, "at least 1m0s, as Retry-After tells"},
	} {
		p := blank(Options{})
		for _, h := range tc.headers {
			p.seen.headers(h)
		}
		p.reportObservations()
		item := p.report.Item("limits.window")
		assert.Equal(t, tc.want != "", item.Known, tc)
		if item.Known {
			assert.Equal(t, tc.want, item.Seen, tc)
		}
	}
}

func TestWrapping_EachForm_IsTold(t *testing.T) {
	t.Parallel()
	for want, forms := range map[string][]bool{
		"some bare, some in data": {true, false}, "in data": {true, true}, "bare": {false}, "not seen": nil,
	} {
		p := blank(Options{})
		for _, wrapped := range forms {
			p.seen.wrapping(wrapped)
		}
		p.reportObservations()
		assert.Equal(t, want, p.report.Item("object.wrapping").Seen)
	}
}
