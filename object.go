package clinicaldoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Object is a JSON value whose fields the service does not describe, such as a note's patient. It keeps what came, in
// compact form, and encodes it back. The zero value stands for an absent or null one.
type Object struct{ raw string }

// ID returns the object's id, from its field id or else patient_id, and whether it has one.
func (o Object) ID() (int64, bool) {
	d := jsonscan.New([]byte(o.raw))
	if d.Kind() != jsonscan.Object {
		id := tolerant.Integer(d)
		return id, d.End() == nil && id > 0
	}
	var id, patientID int64
	for key := range d.Fields() {
		switch string(key) {
		case "id":
			id = tolerant.IntegerOrZero(d)
		case "patient_id":
			patientID = tolerant.IntegerOrZero(d)
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

func rawObject(d *jsonscan.Decoder) Object {
	if d.Null() {
		return Object{}
	}
	return Object{raw: tolerant.Canonical(d.Raw())}
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
		o.raw = tolerant.Canonical(data)
	}
	return nil
}

// LogValue lists what may be logged: whether there is an object. Its id may be a patient's.
func (o Object) LogValue() slog.Value { return slog.GroupValue(slog.Bool("present", !o.IsZero())) }

// Format prints what LogValue lists for every verb.
func (o Object) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Object", o) }
