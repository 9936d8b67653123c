package tolerant

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// Members gathers the members of an object that its reader does not know. The zero value is empty and has cost nothing.
type Members struct {
	b     strings.Builder
	loose bool // some are not in the form that json.Marshal gives
}

// Add takes the member whose value comes next.
func (m *Members) Add(d *jsonscan.Decoder) {
	raw := d.RawMember()
	if len(raw) == 0 {
		return
	}
	if m.b.Len() == 0 {
		m.b.Grow(len(raw) + 2)
		m.b.WriteByte('{')
	} else {
		m.b.WriteByte(',')
	}
	m.b.Write(raw)
	m.loose = m.loose || !isCanonical(raw)
}

// Object returns the members as an object in the form that json.Marshal gives it; "" when there are none.
func (m *Members) Object() string {
	if m.b.Len() == 0 {
		return ""
	}
	m.b.WriteByte('}')
	if m.loose {
		return Canonical([]byte(m.b.String()))
	}
	return m.b.String()
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
		object = append(object[:len(object)-1], ',')
	} else {
		object = object[:len(object)-1]
	}
	return append(object, others[1:]...)
}
