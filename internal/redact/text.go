package redact

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Text is an error whose text is a constant without data.
type Text string //nolint:errname // it reads as redact.Text("words")

func (t Text) Error() string { return string(t) }

// SafeText is the error's text.
func (t Text) SafeText() string { return string(t) }

// New returns a sentinel: a Text that matches nothing but itself, as what errors.New returns.
func New(text string) error { return &failure{text: text} }

// Fail returns an error with a text that is safe to print, for which the caller answers. Causes that are not nil are there for
// errors.Is and errors.As, and are not printed.
func Fail(text string, causes ...error) error { return &failure{text, OpaqueAll(causes...)} }

// OpaqueAll makes the causes that are not nil fit for a chain that others walk and print.
func OpaqueAll(causes ...error) []error {
	var kept []error
	for _, cause := range causes {
		if cause != nil {
			kept = append(kept, Opaque(cause))
		}
	}
	return kept
}

type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string              { return f.text }
func (f *failure) SafeText() string           { return f.text }
func (f *failure) Unwrap() []error            { return f.causes }
func (f *failure) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.text) }

// IsHeaderValue reports whether s can be sent in a header.
func IsHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) })
}

// IsIdentifier reports whether s is short and made of ASCII letters, digits and the given extra characters: what a
// server sent may then stand in a log line.
func IsIdentifier(s string, maxLen int, extra string) bool {
	return s != "" && len(s) <= maxLen && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(extra, r)
	})
}

// Status is a status with its name, as far as it has one.
func Status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}
