// Package redact decides how values and errors are printed that may contain secrets or patients' data: by a list of
// what is allowed, never by a list of what is not.
package redact

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Format prints v as name{key=value ...}. It prints only the attributes of its LogValue, whatever the verb.
// A type whose Format method calls it prints the same in fmt and in slog.
func Format(s fmt.State, name string, v slog.LogValuer) {
	_, _ = io.WriteString(s, name+group(v.LogValue()))
}

// Hidden keeps what embeds it from being printed, in fmt and slog, whatever the verb.
type Hidden struct{}

const hidden = "{not printed}"

// Format prints that nothing is printed.
func (Hidden) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, hidden) }

// LogValue returns the same.
func (Hidden) LogValue() slog.Value { return slog.StringValue(hidden) }

// group returns the attributes of a group as {key=value ...}.
func group(v slog.Value) string {
	var fields []string
	for _, attr := range v.Group() {
		value := attr.Value.Resolve()
		text := value.String()
		if value.Kind() == slog.KindGroup {
			text = group(value)
		}
		fields = append(fields, attr.Key+"="+text)
	}
	return "{" + strings.Join(fields, " ") + "}"
}

// mediaTypes are those that an error may name. What a server writes there can be anything.
var mediaTypes = []string{
	"application/json", "application/octet-stream", "application/problem+json", "application/xml",
	"text/html", "text/plain", "text/xml",
}

// MediaType returns the media type of a Content-Type header if it is a common one, or "".
func MediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case kind == "application/xhtml+xml":
		return "text/html"
	case slices.Contains(mediaTypes, kind):
		return kind
	}
	return ""
}

// IsHeaderValue reports whether s can be sent in a header.
func IsHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, isControl)
}

// isControl reports whether r is a control character other than a tab.
func isControl(r rune) bool {
	if r == '\t' {
		return false
	}
	return r < ' ' || r == 0x7f
}

// IsIdentifier reports whether s is short and made of ASCII letters, digits and the given extra characters: what a
// server sent may then stand in a log line.
func IsIdentifier(s string, maxLen int, extra string) bool {
	if s == "" || len(s) > maxLen {
		return false
	}
	for _, r := range s {
		if !isLetterOrDigit(r) && !strings.ContainsRune(extra, r) {
			return false
		}
	}
	return true
}

func isLetterOrDigit(r rune) bool {
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return strings.ContainsRune(all, r)
}

// Status returns a status with its name, if it has one.
func Status(code int) string {
	if code == 0 {
		return "no status"
	}
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}
