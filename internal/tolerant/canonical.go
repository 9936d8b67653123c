package tolerant

import (
	"bytes"
	"encoding/json"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// KeepRaw keeps any value, in the form of Canonical; "" for null.
func KeepRaw(d *jsonscan.Decoder, to *string) {
	raw := d.Raw()
	if string(raw) == "null" {
		raw = nil
	}
	keep(d, to, raw)
}

// KeepMembers keeps members, each behind a comma, as an object in the form of Canonical; "" when there are none.
func KeepMembers(d *jsonscan.Decoder, to *string, members []byte) {
	if len(members) > 0 {
		members[0] = '{'
		members = append(members, '}')
	}
	keep(d, to, members)
}

func keep(d *jsonscan.Decoder, to *string, raw []byte) {
	d.Intern(to, func(b []byte) []byte { return appendCanonical(b, raw) })
}

// Canonical gives a JSON value the form that json.Marshal gives it, so that a stored one reads back equal.
func Canonical(raw []byte) string { return string(appendCanonical(nil, raw)) }

func appendCanonical(b, raw []byte) []byte {
	all := bytes.NewBuffer(b)
	if len(raw) == 0 || json.Compact(all, raw) != nil {
		return append(b, raw...)
	}
	compact := all.Len()
	json.HTMLEscape(all, all.Bytes()[len(b):])
	return append(all.Bytes()[:len(b)], all.Bytes()[compact:]...) // the escaped form takes the place of the other one
}

// Marshal encodes a value that gives an object, and puts the members of another one behind its own. HTML is not escaped:
// the encoder that calls a MarshalJSON decides on that.
func Marshal(v any, others string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return Join(bytes.TrimSpace(b.Bytes()), others), nil
}

// Join returns an object with the members of another one behind its own.
func Join(object []byte, others string) []byte {
	if len(others) <= len("{}") {
		return object
	}
	object = object[:len(object)-1]
	if len(object) > len("{") {
		object = append(object, ',')
	}
	return append(object, others[1:]...)
}
