package tolerant

import (
	"bytes"
	"encoding/json"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// KeepRaw keeps any value, in the form of Canonical; "" for null.
func KeepRaw(d *jsonscan.Decoder, to *string) {
	if d.Null() {
		d.Intern(to, nothing)
		return
	}
	raw := d.Raw()
	if isCanonical(raw) {
		d.Intern(to, func(b []byte) []byte { return append(b, raw...) })
		return
	}
	d.Intern(to, func(b []byte) []byte { return append(b, Canonical(raw)...) })
}

// Canonical gives a JSON value the form that json.Marshal gives it, so that a stored one reads back equal.
func Canonical(raw []byte) string {
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
