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
	var short, escaped bytes.Buffer
	if isCanonical(raw) || json.Compact(&short, raw) != nil {
		return append(b, raw...)
	}
	json.HTMLEscape(&escaped, short.Bytes())
	return append(b, escaped.Bytes()...)
}

// isCanonical spares the usual value, which is compact already, the copies.
func isCanonical(raw []byte) bool {
	inText := false
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			inText = !inText
		case ' ', '\t', '\n', '\r':
			if !inText {
				return false
			}
		case '<', '>', '&', 0xe2: // what json.Marshal escapes; the last one begins U+2028 and U+2029
			return false
		}
	}
	return true
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
	if len(object) > len("{}") {
		others = "," + others[1:]
	} else {
		others = others[1:]
	}
	return append(object[:len(object)-1], others...)
}
