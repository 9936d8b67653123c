package jetstream

import (
	"fmt"
	"io"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// failure is an error with a text that is safe to print: the engine knows only hashes, so that its words hold no names.
type failure struct {
	text  string
	cause error
}

func fail(text string, cause error) error { return &failure{"jetstream: " + text, cause} }

// unreachable is the failure of an engine that does not respond.
func unreachable(err error) error { return fail("the journal cannot be reached: "+err.Error(), err) }

func (f *failure) Error() string              { return f.text }
func (f *failure) SafeText() string           { return f.text }
func (f *failure) Unwrap() error              { return redact.Opaque(f.cause) }
func (f *failure) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.text) }
