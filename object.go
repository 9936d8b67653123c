package clinicaldoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Object is a JSON value whose fields the service does not describe, such as a note's patient. It keeps what came, in
// compact form, and encodes it back. The zero value stands for an absent or null one.
type Object struct{ raw string }

// ID returns the object's id, from its field id or else patient_id, and whether it has one.
func (o Object) ID() (int64, bool) {
	d := jsonscan.New([]byte(o.raw))
	if d.Kind() != jsonscan.Object {
		id := integer(d)
		return id, d.End() == nil && id > 0
	}
	var id, patientID int64
	for key := range d.Fields() {
		switch string(key) {
		case "id":
			id = integerOrZero(d)
		case "patient_id":
			patientID = integerOrZero(d)
		}
	}
	if id == 0 {
		id = patientID
	}
	return id, d.End() == nil && id > 0
}

// naming returns the object with the patient's id that stood beside it, unless it tells an id itself.
func (o Object) naming(patientID int64) Object {
	id := strconv.FormatInt(patientID, 10)
	_, named := o.ID()
	switch {
	case named:
	case o.raw == "", o.raw == "[]", o.raw == "{}":
		o.raw = `{"id":` + id + `}`
	case o.raw[0] == '{':
		o.raw = o.raw[:len(o.raw)-1] + `,"patient_id":` + id + `}`
	}
	return o
}

// Decode stores the object in v, as [json.Unmarshal] does. An absent one, or [] for an empty one, leaves v unchanged.
func (o Object) Decode(v any) error {
	if o.IsZero() || o.raw == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(o.raw), v)
}

// IsZero reports whether the object was absent or null.
func (o Object) IsZero() bool { return o.raw == "" }

// MarshalJSON returns the object as it came; null for an absent one.
func (o Object) MarshalJSON() ([]byte, error) {
	if o.IsZero() {
		return []byte("null"), nil
	}
	return []byte(o.raw), nil
}

// UnmarshalJSON keeps any JSON value.
func (o *Object) UnmarshalJSON(data []byte) error {
	*o = Object{}
	if data = bytes.TrimSpace(data); !bytes.Equal(data, []byte("null")) {
		o.raw = canonical(data)
	}
	return nil
}

// canonical gives a JSON value the form that json.Marshal gives it, so that a stored one reads back equal.
func canonical(raw []byte) string {
	var short, escaped bytes.Buffer
	if isCanonical(raw) || json.Compact(&short, raw) != nil {
		return string(raw)
	}
	json.HTMLEscape(&escaped, short.Bytes())
	return escaped.String()
}

// notable are the bytes that isCanonical looks at: white space, the ends of texts, and what json.Marshal escapes. The last
// one begins U+2028 and U+2029.
var notable = [256]bool{'"': true, '\\': true, ' ': true, '\t': true, '\n': true, '\r': true, '<': true, '>': true, '&': true, 0xe2: true}

// isCanonical spares the usual value, which is compact already, the copies.
func isCanonical(raw []byte) bool {
	inText := false
	for i := 0; i < len(raw); i++ {
		if !notable[raw[i]] {
			continue
		}
		switch raw[i] {
		case '\\':
			i++
		case '"':
			inText = !inText
		case ' ', '\t', '\n', '\r':
			if !inText {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// LogValue lists what may be logged: whether there is an object. Its id may be a patient's.
func (o Object) LogValue() slog.Value { return slog.GroupValue(slog.Bool("present", !o.IsZero())) }

// Format prints what LogValue lists for every verb.
func (o Object) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Object", o) }
