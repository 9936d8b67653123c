package clinicaldoc_test

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// plainNote is what encoding/json alone reads: no method of the SDK takes part.
type plainNote struct {
	ID                       int64           `json:"id"`
	Name                     string          `json:"name"`
	Transcription            string          `json:"transcription"`
	Analysis                 string          `json:"analysis"`
	Template                 *plainTemplate  `json:"template"`
	Patient                  json.RawMessage `json:"patient"`
	Audio                    *plainAudio     `json:"audio"`
	Has                      plainHas        `json:"has"`
	TeamID                   int64           `json:"team_id"`
	UserID                   int64           `json:"user_id"`
	User                     json.RawMessage `json:"user"`
	TranscriptionStartedAt   time.Time       `json:"transcription_started_at"`
	TranscriptionCompletedAt time.Time       `json:"transcription_completed_at"`
	AnalysisStartedAt        time.Time       `json:"analysis_started_at"`
	AnalysisCompletedAt      time.Time       `json:"analysis_completed_at"`
	ErrorState               *string         `json:"error_state"`
	CreatedAt                time.Time       `json:"created_at"`
	UpdatedAt                time.Time       `json:"updated_at"`
}

type plainTemplate struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type plainAudio struct {
	Duration   float64   `json:"duration"`
	Bitrate    int64     `json:"bitrate"`
	Size       int64     `json:"size"`
	UploadedAt time.Time `json:"uploaded_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	FileURL    string    `json:"file_url"`
}

type plainHas struct {
	Content       bool `json:"content"`
	Transcription bool `json:"transcription"`
	Signed        bool `json:"signed"`
}

func plainOf(t *testing.T, n clinicaldoc.ProgressNote) plainNote {
	t.Helper()
	p := plainNote{
		ID: n.ID, Name: n.Name, Transcription: n.Transcription, Analysis: n.Analysis, Has: plainHas(n.Has), TeamID: n.TeamID, UserID: n.UserID,
		TranscriptionStartedAt: n.TranscriptionStartedAt, TranscriptionCompletedAt: n.TranscriptionCompletedAt,
		AnalysisStartedAt: n.AnalysisStartedAt, AnalysisCompletedAt: n.AnalysisCompletedAt,
		ErrorState: n.ErrorState, CreatedAt: n.CreatedAt, UpdatedAt: n.UpdatedAt,
		Template: (*plainTemplate)(n.Template), Audio: (*plainAudio)(n.Audio),
	}
	for o, raw := range map[*clinicaldoc.Object]*json.RawMessage{&n.Patient: &p.Patient, &n.User: &p.User} {
		if o.IsZero() {
			continue
		}
		var err error
		*raw, err = o.MarshalJSON()
		require.NoError(t, err)
	}
	return p
}

// strict turns the value of a field into what encoding/json wants: nil for an absent one, not ok for one that no
// tolerance covers.
type strict func(raw json.RawMessage) (value any, ok bool)

// The tolerances, as the fuzz test knows them.
var (
	noteForm    = strictObject(noteMembers, "id", "name", "created_at")
	noteMembers = map[string]strict{
		"id": strictInteger, "name": strictText, "transcription": strictText, "analysis": strictText, "patient": strictRaw, "user": strictRaw, "team_id": strictInteger, "user_id": strictInteger,
		"template": strictObject(map[string]strict{"id": strictInteger, "name": strictText, "description": strictText}),
		"audio": strictObject(map[string]strict{
			"duration": strictSeconds, "bitrate": strictInteger, "size": strictInteger, "uploaded_at": strictTime, "expires_at": strictTime, "file_url": strictText,
		}),
		"has":                      strictObject(map[string]strict{"content": strictFlag, "transcription": strictFlag, "signed": strictFlag}),
		"transcription_started_at": strictTime, "transcription_completed_at": strictTime, "analysis_started_at": strictTime, "analysis_completed_at": strictTime,
		"error_state": strictProblem, "created_at": strictTime, "updated_at": strictTime,
	}
	strictLayouts = []string{
		time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02 15:04:05Z07", "2006-01-02",
	}
	strictZeroDate = regexp.MustCompile(`^(0000-00-00|-0001-11-)[0-9:. TZ+-]*$`)
	strictClock    = regexp.MustCompile(`^(\d{1,4}):([0-5]\d):([0-5]\d(\.\d*)?)$`)
)

// strictObject reads objects: [] is an empty one, null an absent field, and fields nobody described do not count, nor do
// those that cannot be read, unless they are required.
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
	return t.UTC().Format(time.RFC3339Nano), year >= 0 && year <= 9999
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

// FuzzNote holds the models' decoding against encoding/json: the same values, or both refuse. Not compared are fields
// that are given twice, and the patient_id beside the other fields.
func FuzzNote(f *testing.F) {
	for _, seed := range []string{
		fullNote, richNote, smallNote, "null", "[]", "{}", "[1]", `"text"`, "", "{", `{"id":7}x`,
		withField(`"id":"7"`), withField(`"team_id":7.0`), withField(`"team_id":1e3`), withField(`"team_id":7.5`), withField(`"user_id":"9007199254740993"`),
		withField(`"name":null`), withField(`"name":5`), withField(`"name":"\ud83d\ude00\ud83d \/ é"`), withField("\"name\":\"\xff\xc3\""),
		withField(`"template":[]`), withField(`"template":[1]`), withField(`"audio":{"duration":"12.5","size":"","bitrate":-0}`), withField(`"audio":3`),
		withField(`"has":{"content":1,"transcription":"true","signed":"no"}`), withField(`"has":[]`), withField(`"has":{"content":"0","signed":""}`),
		withField(`"created_at":"2024-05-01 10:11:12"`), withField(`"created_at":"2024-05-01T10:11:12.5+0200"`), withField(`"created_at":"2024-05-01"`),
		withField(`"created_at":"0000-00-00 00:00:00"`), withField(`"updated_at":"-0001-11-30T00:00:00Z"`), withField(`"updated_at":"2024-05-01 10:11:12+02"`),
		withField(`"audio":{"duration":"00:03:10"}`), withField(`"audio":{"duration":"1:60:00"}`), withField(`"audio":{"size":" 7 "}`), withField(`"updated_at":"0000-01-01T00:00:00+23:59"`),
		withField(`"created_at":"yesterday"`), withField(`"created_at":0`), withField(`"created_at":""`),
		withField(`"error_state":"failed"`), withField(`"error_state":{"code": 5}`), withField("\"error_state\":[\"\xeb\xeb\"]"), withField(`"error_state":[]`), withField(`"error_state":false`),
		withField(`"patient":{"id": 7, "name":"<b>\u2028"}`), withField("\"patient\":[ ]"), withField(`"user":"x"`), withField(`"ID":8`),
		withField(`"more":{"a": [1, "<b>"]}, "\u006dany" : null`), withField(`"data":{"id":8}`), withField("\"\xff\":1,\"\u2028\":\"\u2028\""),
	} {
		f.Add([]byte(seed))
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
		require.Equal(t, want, plainOf(t, got))
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
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
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
	encoded, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &note))
	return note, true
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
