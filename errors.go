package clinicaldoc

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

// Error is a response of the service that is not a success, whatever its body was: JSON, HTML or nothing. Test for it
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

	advice string // what the response says beyond its status; empty: advise by status
}

// Sentinels for [errors.Is] on an [*Error], by status.
var (
	ErrUnauthorized = redact.New("unauthorized")      // 401
	ErrForbidden    = redact.New("forbidden")         // 403
	ErrNotFound     = redact.New("not found")         // 404
	ErrConflict     = redact.New("conflict")          // 409
	ErrTooLarge     = redact.New("request too large") // 413
	ErrValidation   = redact.New("invalid data")      // 422
	ErrRateLimited  = redact.New("rate limited")      // 429
	ErrServer       = redact.New("server error")      // 5xx
)

// Sentinels for [errors.Is] that do not follow from a status alone.
var (
	// ErrNoteIncomplete: Sign was refused because transcription and analysis are not both complete. Wait for the note, then sign.
	ErrNoteIncomplete = redact.New("note is not complete")
	// ErrInvalidArgument: the SDK refused the arguments before any request was made.
	ErrInvalidArgument = redact.New("invalid argument")
	// ErrUnexpectedResponse: a 2xx response that is not what the service describes (HTML, empty, no id, another note), or a redirect.
	ErrUnexpectedResponse = redact.New("unexpected response")
	// ErrOutcomeUnknown: the request may or may not have been carried out; matched by [*OutcomeUnknownError].
	ErrOutcomeUnknown = redact.New("outcome unknown")
	// ErrNotCreated: [NotesService.FindCreated] looked and the note does not exist; creating it again is safe.
	ErrNotCreated = redact.New("note was not created")
	// ErrProcessingFailed: the service reported an error state for the note; matched by [*WaitError].
	ErrProcessingFailed = redact.New("processing failed")
	// ErrAudioChanged: in the middle of a download the recording is, or may be, another than the one it began with, and the
	// writer cannot be rewound to restart; what it holds is of no use.
	ErrAudioChanged = redact.New("recording may have changed")
	// ErrSizeMismatch: a download has another length than the note's audio.size; [DownloadParams] can ignore that size.
	ErrSizeMismatch = redact.New("size mismatch")
	// ErrStalled: an attempt was given up because nothing moved for the time of [WithStallTimeout].
	ErrStalled = stall.ErrStalled
	// ErrPatientMismatch: a list filtered by patient returned a row that is, or may be, another patient's.
	ErrPatientMismatch = redact.New("patient mismatch")
	// ErrIncompleteList: [NotesService.All] came to an end, but the list cannot be shown to be whole: fewer rows came than the
	// service counts, its pages repeat and nothing tells whether more exist, or rows moved to where they cannot be followed.
	ErrIncompleteList = redact.New("list may be incomplete")
)

// Error returns a text that is safe to log.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clinicaldoc: %s (%s %s): %s", e.Operation, e.Method, e.Route, statusText(e.StatusCode))
	if names := e.fieldNames(); len(names) > 0 {
		fmt.Fprintf(&b, " [fields: %s]", strings.Join(names, ", "))
	}
	if advice := e.whatToDo(); advice != "" {
		b.WriteString(": " + advice)
	}
	if e.RetryAfter > 0 && (e.StatusCode < 500 || e.Method != http.MethodPost) {
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
	}
	return target == kinds[e.StatusCode].sentinel
}

// LogValue lists what may be logged of the error: its text, then the parts of it that there are.
func (e Error) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("error", e.Error()),
		slog.String("operation", e.Operation),
		slog.String("method", e.Method),
		slog.String("route", e.Route),
		slog.Int("status", e.StatusCode),
		slog.String("fields", strings.Join(e.fieldNames(), ",")),
		slog.Duration("retry_after", e.RetryAfter),
		slog.String("request_id", e.RequestID),
	}
	return slog.GroupValue(slices.DeleteFunc(attrs, func(a slog.Attr) bool {
		return a.Value.Equal(slog.StringValue("")) || a.Value.Equal(slog.DurationValue(0))
	})...)
}

// Format prints the error's text for every verb, so that none prints the message or the fields.
func (e Error) Format(s fmt.State, _ rune) { printError(s, &e) }

// SafeText is the error's text. By this method the text may stand in the texts of errors around it.
func (e *Error) SafeText() string { return e.Error() }

func (e *Error) redirect() bool { return e.StatusCode >= 300 && e.StatusCode < 400 }

// reads reports whether the call cannot have changed anything.
func (e *Error) reads() bool {
	return e.Method == http.MethodGet || e.Method == http.MethodHead || e.Method == http.MethodOptions
}

// retryable goes by what may have happened, as the retries within a call do.
func (e *Error) retryable() bool {
	effect := retry.Reads
	if !e.reads() {
		effect = retry.Creates
	}
	return effect.MayRetry(retry.Outcome{Status: e.StatusCode})
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

// maxFieldNames bounds how many names of invalid fields an error's text holds.
const maxFieldNames = 10

// fieldNames returns the printable names of the invalid fields: a server may echo data as a key.
func (e *Error) fieldNames() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(e.Fields)), func(name string) bool { return !redact.IsIdentifier(name, 64, "_.-[]*") })
	return names[:min(len(names), maxFieldNames)]
}

// OutcomeUnknownError says that a create (or another request that must not be sent twice) may or may not have been
// carried out: its response was lost, or was a 5xx, or no note. It matches [ErrOutcomeUnknown] and whatever the last
// attempt failed with. Do not simply create again: ask [NotesService.FindCreated].
//
// Encoded as JSON it can be kept in a journal and asked about by another process; that JSON holds a patient's data.
type OutcomeUnknownError struct {
	Params    CreateNoteParams // what was to be created; zero when the request was made by [Client.Do]
	SentAt    time.Time        // when the attempt with the unknown outcome began
	LostAt    time.Time        // when its response was given up; zero when that is not known
	AudioSize int64            // of the recording in bytes; -1 when it is not known, 0 when none was sent
	NoteID    int64            // of the note, where the response held its id but could not be used; else 0
	Err       error            // why the outcome is unknown
}

// Error returns a text that is safe to log.
func (e *OutcomeUnknownError) Error() string {
	why := text(e.Err)
	switch {
	case strings.Contains(why, findCreated.name):
		return why // it says what to do already
	case e.Params.Name != "" || e.Params.PatientID != 0 || e.NoteID != 0 || strings.Contains(why, createNote.name):
		return why + "; it may or may not have been carried out: ask Notes.FindCreated before creating again"
	}
	return why + "; it may or may not have been carried out: find out before sending it again"
}

// SafeText is the error's text; see [Error.SafeText].
func (e *OutcomeUnknownError) SafeText() string { return e.Error() }

// Unwrap makes [errors.Is] and [errors.As] see [ErrOutcomeUnknown] and the cause.
func (e *OutcomeUnknownError) Unwrap() []error {
	return []error{ErrOutcomeUnknown, redact.Opaque(e.Err)}
}

// LogValue lists what may be logged of the error.
func (e OutcomeUnknownError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("error", e.Error()), slog.Time("sent_at", e.SentAt))
}

// Format prints the error's text for every verb.
func (e OutcomeUnknownError) Format(s fmt.State, _ rune) { printError(s, &e) }

// maybeDoneError is a failed call after which an attempt may have had its effect.
type maybeDoneError struct{ err error }

func (e *maybeDoneError) Error() string {
	return text(e.err) + "; an attempt may have had its effect: read the record before trying again"
}
func (e *maybeDoneError) SafeText() string           { return e.Error() }
func (e *maybeDoneError) Unwrap() []error            { return opaque(ErrOutcomeUnknown, e.err) }
func (e *maybeDoneError) Format(s fmt.State, _ rune) { printError(s, e) }
func (e *maybeDoneError) LogValue() slog.Value       { return slog.StringValue(e.Error()) }

// callError is a failure that is not a response of the service: nothing was sent, nothing came back, or what came back
// is not what was promised.
type callError struct {
	op        operation
	requestID string
	detail    string  // safe to print
	causes    []error // for errors.Is and errors.As; not printed
	kind      string  // a word for it, for hooks; empty: the causes tell
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

// Retryable reports whether trying the same call again later may succeed and cannot do harm. It is for the errors of all
// methods, which come after their own retries, also wrapped ones:
//
//   - true: 429; a read that got 408, 425 or a 5xx that may pass, or found no connection, lost it or stalled
//     ([ErrStalled]); any other call that could not be sent whole, so that the service cannot have acted on it;
//   - false: an unknown outcome ([ErrOutcomeUnknown]: find out first what has become of it), every other status, a response
//     that is not what the service describes, a refused argument, a connection that will fail the same way (a certificate, a
//     host name), and what your own code failed with: a recording's reader, a token source, a limiter;
//   - false: the end of your own context, by its deadline too. The same context would fail at once, and whether to go on
//     with another is yours to say.
func Retryable(err error) bool {
	var own interface{ retryable() bool }
	return !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrConflict) && errors.As(err, &own) && own.retryable()
}

// sentinelError gives a sentinel a text of its own.
type sentinelError struct {
	safeError
	sentinel error
}

func (e sentinelError) Unwrap() error { return e.sentinel }

// Errors of responses that decode but are not what was asked for. Their texts hold no data.
var (
	errOtherID = safeError("it is another record than the one asked for")
	errTooLong = safeError("it is longer than the limit of WithMaxResponseSize")
	errNoURL   = safeError("it holds no usable url")
)

// safeError is a constant text without data.
type safeError = redact.Text
