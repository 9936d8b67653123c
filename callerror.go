package clinicaldoc

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// callError is a failure that is not an answer of the service: nothing was sent, nothing came back, or what came back
// is not what was promised.
type callError struct {
	op        operation
	requestID string
	detail    string  // safe to print
	causes    []error // for errors.Is and errors.As; not printed
}

func (e *callError) Error() string {
	suffix := ""
	if e.requestID != "" {
		suffix = " (request id " + e.requestID + ")"
	}
	return fmt.Sprintf("clinicaldoc: %s (%s %s): %s%s", e.op.name, e.op.method, e.op.route, e.detail, suffix)
}

func (e *callError) SafeText() string           { return e.detail }
func (e *callError) Unwrap() []error            { return e.causes }
func (e *callError) Format(s fmt.State, _ rune) { printError(s, e) }
func (e *callError) LogValue() slog.Value       { return slog.StringValue(e.Error()) }

// argumentError is an argument refused because of an error whose text may name a file.
type argumentError struct {
	what  string
	cause error
}

func (e *argumentError) Error() string {
	return "clinicaldoc: " + e.what + ": " + redact.Cause(e.cause) + ": " + ErrInvalidArgument.Error()
}
func (e *argumentError) Unwrap() []error            { return []error{ErrInvalidArgument, e.cause} }
func (e *argumentError) Format(s fmt.State, _ rune) { printError(s, e) }

// invalid reports an argument that is refused before any request.
func invalid(what, format string, args ...any) error {
	return fmt.Errorf("clinicaldoc: %s: %s: %w", what, fmt.Sprintf(format, args...), ErrInvalidArgument)
}

func printError(s fmt.State, err error) { _, _ = s.Write([]byte(text(err))) }

func text(err error) string {
	if err == nil {
		return "clinicaldoc: no error"
	}
	return err.Error()
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
