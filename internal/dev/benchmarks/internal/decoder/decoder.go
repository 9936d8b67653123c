// Package decoder compares JSON decoders alone: each reads the same page of notes into the same types.
package decoder

import (
	"encoding/json"

	experiment "github.com/go-json-experiment/json"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// Decoder reads a page.
type Decoder struct {
	Name   string
	Decode func([]byte) (*synthetic.Page, error)
}

// All lists the decoders; the standard library's comes first.
func All() []Decoder {
	return []Decoder{
		{"encoding/json", func(document []byte) (*synthetic.Page, error) {
			page := new(synthetic.Page)
			return page, json.Unmarshal(document, page)
		}},
		{"go-json-experiment/json", func(document []byte) (*synthetic.Page, error) {
			page := new(synthetic.Page)
			return page, experiment.Unmarshal(document, page)
		}},
		{"go-faster/jx, written by hand", decodeJX},
		{"internal/jsonscan, written by hand", decodeJSONScan},
	}
}

// Document returns a page of notes as the service sends it.
func Document(size int) []byte {
	b := []byte(`{"data":[`)
	for i := range size {
		if i > 0 {
			b = append(b, ',')
		}
		b = synthetic.NewNote(int64(i + 1)).AppendJSON(b)
	}
	return append(b, `],"meta":{"current_page":1,"last_page":50,"per_page":100,"total":5000}}`...)
}
