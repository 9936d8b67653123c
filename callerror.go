package clinicaldoc

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// callError is a failure that is not a response of the service: nothing was sent, nothing came back, or what came back
// is not what was promised.
type callError struct {
	op        operation
	requestID string
	detail    string  // safe to print
	causes    []error // for errors.Is and errors.As; not printed
	transient bool    // the failure may pass by itself; whether the service may have acted is marked around the error
}

func (e *callError) Error() string {
	suffix := ""
	if e.requestID != "" {
		suffix = " (request id " + e.requestID + ")"
	}
	return fmt.Sprintf("clinicaldoc: %s (%s %s): %s%s", e.op.name, e.op.method, e.op.route, e.detail, suffix)
}

func (e *callError) SafeText() string           { return e.detail }
func (e *callError) Unwrap() []error            { return opaque(e.causes...) }
func (e *callError) retryable() bool            { return e.transient }
func (e *callError) Format(s fmt.State, _ rune) { printError(s, e) }
func (e *callError) LogValue() slog.Value       { return slog.StringValue(e.Error()) }

// argumentError is an argument refused before any request. The text of its cause, which may be nil, may name a file.
type argumentError struct {
	what  string
	cause error
}

// invalid makes an argumentError of a text; its values are the caller's and must not be patients' data.
func invalid(what, format string, args ...any) error {
	return &argumentError{what: what + ": " + fmt.Sprintf(format, args...)}
}

func (e *argumentError) Error() string {
	text := "clinicaldoc: " + e.what + ": "
	if e.cause != nil {
		text += redact.Cause(e.cause) + ": "
	}
	return text + ErrInvalidArgument.Error()
}

func (e *argumentError) SafeText() string           { return e.Error() }
func (e *argumentError) Unwrap() []error            { return opaque(ErrInvalidArgument, e.cause) }
func (e *argumentError) Format(s fmt.State, _ rune) { printError(s, e) }

// opaque makes causes fit for a chain that others walk and print.
func opaque(causes ...error) []error {
	var kept []error
	for _, cause := range causes {
		if cause != nil {
			kept = append(kept, redact.Opaque(cause))
		}
	}
	return kept
}

func printError(s fmt.State, err error) { _, _ = s.Write([]byte(text(err))) }

// text is an error's own text if it is one of this package, else what may be said of it.
func text(err error) string {
	if err == nil {
		return "clinicaldoc: no error"
	}
	return redact.Opaque(err).Error()
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// isIdentifier reports whether s is short and made of ASCII letters, digits and the given extra characters: what a
// server sent may then be repeated in a log line.
func isIdentifier(s string, maxLen int, extra string) bool {
	if s == "" || len(s) > maxLen {
		return false
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(extra, r):
		default:
			return false
		}
	}
	return true
}

var _ redact.Safe = (*callError)(nil)
