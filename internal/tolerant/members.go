package tolerant

import (
	"bytes"
	"encoding/json"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// Members gathers the members of an object that its reader does not know, as views of the document. The zero value is empty.
type Members struct {
	few   [8][]byte // the first ones, which cost nothing
	more  [][]byte
	count int
}

// Add takes the member whose value comes next.
func (m *Members) Add(d *jsonscan.Decoder) {
	raw := d.RawMember()
	switch {
	case len(raw) == 0:
		return
	case m.count < len(m.few):
		m.few[m.count] = raw
	default:
		m.more = append(m.more, raw)
	}
	m.count++
}

// Keep keeps the members as an object in the form that json.Marshal gives it; "" when there are none.
func (m *Members) Keep(d *jsonscan.Decoder, to *string) {
	d.Intern(to, m.appendObject)
}

func (m *Members) appendObject(b []byte) []byte {
	if m.count == 0 {
		return b
	}
	start := len(b)
	for _, list := range [...][][]byte{m.few[:min(m.count, len(m.few))], m.more} {
		for _, raw := range list {
			b = append(append(b, ','), raw...)
		}
	}
	b[start] = '{'
	b = append(b, '}')
	if object := b[start:]; !isCanonical(object) {
		return append(b[:start], Canonical(object)...)
	}
	return b
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
