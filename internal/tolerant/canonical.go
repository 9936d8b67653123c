package tolerant

import (
	"bytes"
	"encoding/json"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// KeepRaw keeps any value, in the form that json.Marshal gives it, so that a stored one reads back equal; "" for null.
func KeepRaw(d *jsonscan.Decoder, to *string) {
	raw := d.Raw()
	if string(raw) == "null" {
		raw = nil
	}
	d.Intern(to, d.Canonical(raw))
}

// KeepMembers keeps members, each behind a comma, as an object in that form; "" when there are none.
func KeepMembers(d *jsonscan.Decoder, to *string, members []byte) {
	if len(members) > 0 {
		members[0] = '{'
		members = append(members, '}')
	}
	d.Intern(to, d.Canonical(members))
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
