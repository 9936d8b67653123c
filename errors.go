package clinicaldoc

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Error is an answer of the service that is not a success, whatever its body was: JSON, HTML or nothing. Test for it
// with [errors.As], or for its kind with [errors.Is] and one of the sentinels ([ErrNotFound], [ErrValidation] ...).
//
// The error's text holds the operation, the route, the status, the request id and the names of invalid fields. The
// service's own words are in Message and Fields and are never printed unasked: they may repeat what was sent.
type Error struct {
	StatusCode int                 // HTTP status, never 2xx
	Message    string              // the service's message; empty when the body held none
	Fields     map[string][]string // validation messages by field name; nil when there are none
	RequestID  string              // id to quote to the service's support; empty when it sent none
	RetryAfter time.Duration       // how long the service asked to wait; zero when it did not
	Operation  string              // the SDK's name of the call, such as "Notes.Get"
	Method     string              // HTTP method
	Route      string              // path template, such as "/v1/progress-notes/{id}"

	incomplete bool // Sign was refused because the note is not complete
}

// Sentinels for [errors.Is] on an [*Error], by status.
var (
	ErrUnauthorized = errors.New("unauthorized")      // 401
	ErrForbidden    = errors.New("forbidden")         // 403
	ErrNotFound     = errors.New("not found")         // 404
	ErrConflict     = errors.New("conflict")          // 409
	ErrTooLarge     = errors.New("request too large") // 413
	ErrValidation   = errors.New("invalid data")      // 422
	ErrRateLimited  = errors.New("rate limited")      // 429
	ErrServer       = errors.New("server error")      // 5xx
)

// Sentinels for [errors.Is] that do not follow from a status alone.
var (
	// ErrNoteIncomplete: Sign was refused because transcription and analysis are not both complete. Wait for the note, then sign.
	ErrNoteIncomplete = errors.New("note is not complete")
	// ErrInvalidArgument: the SDK refused the arguments before any request was made.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrUnexpectedResponse: a 2xx answer that is not what the service describes (HTML, empty, no id, another note), or a redirect.
	ErrUnexpectedResponse = errors.New("unexpected response")
	// ErrOutcomeUnknown: the request may or may not have been carried out; matched by [*OutcomeUnknownError].
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrNotCreated: [NotesService.FindCreated] looked and the note does not exist; creating it again is safe.
	ErrNotCreated = errors.New("note was not created")
	// ErrProcessingFailed: the service reported an error state for the note; matched by [*WaitError].
	ErrProcessingFailed = errors.New("processing failed")
	// ErrAudioChanged: in the middle of a download the recording is, or may be, another than the one it began with, and the
	// writer cannot be rewound to start again; what it holds is of no use.
	ErrAudioChanged = errors.New("recording may have changed")
	// ErrPatientMismatch: a list filtered by patient returned a row that is, or may be, another patient's.
	ErrPatientMismatch = errors.New("patient mismatch")
	// ErrIncompleteList: [NotesService.All] came to an end, but the list cannot be shown to be whole.
	ErrIncompleteList = errors.New("list may be incomplete")
)

// kinds maps statuses to what to call them and what to do about them.
var kinds = map[int]struct {
	sentinel error
	advice   string
}{
	http.StatusBadRequest:            {nil, "the request was not understood; is the base URL's scheme right?"},
	http.StatusUnauthorized:          {ErrUnauthorized, "the token is missing, wrong, expired or revoked; get a new one"},
	http.StatusForbidden:             {ErrForbidden, "the token's user may not do this"},
	http.StatusNotFound:              {ErrNotFound, "it does not exist, or not for this token's user"},
	http.StatusProxyAuthRequired:     {nil, "a proxy in between wants credentials; put them into the proxy's URL"},
	http.StatusConflict:              {ErrConflict, "the record's state does not allow this"},
	http.StatusRequestEntityTooLarge: {ErrTooLarge, "the service or a proxy before it refuses a body of this size"},
	http.StatusUnprocessableEntity:   {ErrValidation, "see Fields for what the service objects to"},
	http.StatusTooManyRequests:       {ErrRateLimited, "send fewer requests, or share a WithLimiter among clients"},
}

// Error returns a text that is safe to log.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clinicaldoc: %s (%s %s): %s", e.Operation, e.Method, e.Route, statusText(e.StatusCode))
	if names := e.fieldNames(); len(names) > 0 {
		fmt.Fprintf(&b, " [fields: %s]", strings.Join(names, ", "))
	}
	switch advice := kinds[e.StatusCode].advice; {
	case e.incomplete:
		b.WriteString(": transcription and analysis are not both complete; wait for the note, then sign")
	case e.redirect():
		b.WriteString(": redirects are followed only for GET and on the base URL's own origin; check the base URL")
	case e.StatusCode >= 500:
		b.WriteString(": the service, or a proxy before it, failed; trying later may help")
	case e.StatusCode == http.StatusNotFound && e.namesNoRecord():
		b.WriteString(": although no record was named; is the base URL's path right?")
	case advice != "":
		b.WriteString(": " + advice)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %s)", e.RetryAfter)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request id %s)", e.RequestID)
	}
	return b.String()
}

// Is matches the sentinels of this package by status.
func (e *Error) Is(target error) bool {
	switch target {
	case nil:
		return false
	case ErrServer:
		return e.StatusCode >= 500
	case ErrUnexpectedResponse:
		return e.redirect()
	case ErrNoteIncomplete:
		return e.incomplete
	}
	return target == kinds[e.StatusCode].sentinel
}

// LogValue lists what may be logged of the error.
func (e Error) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("operation", e.Operation),
		slog.String("method", e.Method),
		slog.String("route", e.Route),
		slog.Int("status", e.StatusCode),
		slog.String("fields", strings.Join(e.fieldNames(), ",")),
		slog.Duration("retry_after", e.RetryAfter),
		slog.String("request_id", e.RequestID),
	)
}

// Format prints the error's text for every verb, so that none prints the message or the fields.
func (e Error) Format(s fmt.State, _ rune) { printError(s, &e) }

// SafeText is the error's text. The method tells this package that the text may be repeated in others.
func (e *Error) SafeText() string { return e.Error() }

func (e *Error) redirect() bool { return e.StatusCode >= 300 && e.StatusCode < 400 }

// namesNoRecord reports whether the call asked for nothing that could be missing.
func (e *Error) namesNoRecord() bool {
	return e.Method == http.MethodGet && (e.Route == listNotes.route || e.Route == listTokens.route || e.Route == getUser.route)
}

// maySpeakOfState reports whether the status may be about the record's state: not about the token, the record's
// existence, the time or the rate.
func (e *Error) maySpeakOfState() bool {
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return e.StatusCode >= 400
}

// maxFieldNames bounds how many names of invalid fields an error's text repeats.
const maxFieldNames = 10

// fieldNames returns the printable names of the invalid fields: a server that echoes data as a key is not repeated.
func (e *Error) fieldNames() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(e.Fields)), func(name string) bool { return !isIdentifier(name, 64, "_.-[]*") })
	return names[:min(len(names), maxFieldNames)]
}

// OutcomeUnknownError says that a create (or another request that must not be sent twice) may or may not have been
// carried out: its answer was lost, or was a 5xx, or no note. It matches [ErrOutcomeUnknown] and whatever the last
// attempt failed with. Do not simply create again: ask [NotesService.FindCreated].
type OutcomeUnknownError struct {
	Params CreateNoteParams // what was to be created; zero when the request was made by [Client.Do]
	SentAt time.Time        // when the attempt with the unknown outcome began
	Err    error            // why the outcome is unknown

	lostAt time.Time // when the answer was given up
}

// Error returns a text that is safe to log.
func (e *OutcomeUnknownError) Error() string {
	return text(e.Err) + "; it may or may not have been carried out: ask Notes.FindCreated before creating again"
}

// SafeText is the error's text; see [Error.SafeText].
func (e *OutcomeUnknownError) SafeText() string { return e.Error() }

// Unwrap makes [errors.Is] and [errors.As] see [ErrOutcomeUnknown] and the cause.
func (e *OutcomeUnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.Err} }

// LogValue lists what may be logged of the error.
func (e OutcomeUnknownError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("error", e.Error()), slog.Time("sent_at", e.SentAt))
}

// Format prints the error's text for every verb.
func (e OutcomeUnknownError) Format(s fmt.State, _ rune) { printError(s, &e) }

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

// sentinelError gives a sentinel a text of its own.
type sentinelError struct {
	safeError
	sentinel error
}

func (e sentinelError) Unwrap() error { return e.sentinel }

// Bounds on what is kept of an error's body.
const (
	maxErrorFields   = 100
	maxFieldMessages = 20
)

// decodeErrorBody fills in what an error's body tells. A body that is no such JSON tells nothing and is no second error.
func decodeErrorBody(body []byte, e *Error) {
	d := jsonscan.New(body)
	if d.Kind() != jsonscan.Object {
		return
	}
	var message string
	var fields map[string][]string
	for key := range d.Fields() {
		switch {
		case string(key) == "message" && d.Kind() == jsonscan.String:
			message = d.Text()
		case string(key) == "errors" && d.Kind() == jsonscan.Object:
			fields = map[string][]string{}
			for key := range d.Fields() {
				if name := string(key); len(fields) < maxErrorFields {
					fields[name] = fieldMessages(d)
				}
			}
		}
	}
	if d.End() != nil {
		return
	}
	e.Message = message
	if len(fields) > 0 {
		e.Fields = fields
	}
}

// fieldMessages reads a field's messages: a list of texts, or a single one.
func fieldMessages(d *jsonscan.Decoder) []string {
	messages := []string{}
	switch d.Kind() {
	case jsonscan.String:
		messages = append(messages, d.Text())
	case jsonscan.Array:
		for range d.Elements() {
			if d.Kind() == jsonscan.String && len(messages) < maxFieldMessages {
				messages = append(messages, d.Text())
			}
		}
	default: // tells nothing
	}
	return messages
}

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
