package clinicaldoc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/download"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Error is a response with a status other than 2xx, whether its body is JSON, HTML or empty. Use [errors.As] to read
// its fields, and [errors.Is] with a sentinel such as [ErrNotFound] or [ErrValidation] to test for its kind.
//
// The error's text holds the operation, the route, the status, the request ID and the names of invalid fields. It never
// holds Message or the messages in Fields, because they may repeat what was sent.
type Error struct {
	StatusCode int                 // HTTP status, never 2xx
	Message    string              // the service's message; empty if the body has none
	Fields     map[string][]string // validation messages by field name; nil if there are none
	RequestID  string              // ID to quote to the service's support; empty if the response has none
	RetryAfter time.Duration       // how long the service asks the client to wait; zero if it does not ask
	Operation  string              // the SDK's name of the call, such as "Notes.Get"
	Method     string              // HTTP method
	Route      string              // path template, such as "/v1/progress-notes/{id}"

	// Extra holds the other members of the body, such as a code, and also message and errors if they do not have the
	// described form. A body is read up to 64 KiB.
	Extra Object `json:",omitzero"`

	advice string // what to do, where the response shows more than its status; empty: advise by status
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
	// ErrNoteIncomplete: Sign was refused because transcription and analysis are not both complete. Wait for the note,
	// then sign.
	ErrNoteIncomplete = redact.New("note is not complete")
	// ErrInvalidArgument: the SDK rejected the arguments before it made any request.
	ErrInvalidArgument = redact.New("invalid argument")
	// ErrUnexpectedResponse: a 2xx response that is not what the service describes (HTML, empty, no ID, another note),
	// or a redirect.
	ErrUnexpectedResponse = exchange.ErrUnexpected
	// ErrOutcomeUnknown: the request may or may not have been carried out; matched by [*OutcomeUnknownError].
	ErrOutcomeUnknown = redact.New("outcome unknown")
	// ErrNotCreated: [NotesService.FindCreated] searched, and the note does not exist. It is safe to create it again.
	ErrNotCreated = redact.New("note was not created")
	// ErrProcessingFailed: the service reported an error state for the note; matched by [*WaitError].
	ErrProcessingFailed = redact.New("processing failed")
	// ErrAudioChanged: the recording may have been replaced during a download, and the writer cannot be rewound to
	// start again.
	ErrAudioChanged = download.ErrChanged
	// ErrSizeMismatch: a download's length differs from the note's audio.size. [DownloadParams] can ignore that size.
	ErrSizeMismatch = download.ErrSizeMismatch
	// ErrStalled: an attempt failed because no data was transferred for the duration of [WithStallTimeout].
	ErrStalled = exchange.ErrStalled
	// ErrPatientMismatch: a row of a list filtered by patient, or a note that was created or written, belongs or may
	// belong to another patient.
	ErrPatientMismatch = redact.New("patient mismatch")
	// ErrInUse: the file is in use by another call, in this process or in another one. It may be free later, so
	// [Retryable] reports true. Packages ingest and snapshot use it for a journal or a snapshot that is already open.
	ErrInUse = redact.New("in use")
	// ErrIncompleteList: [NotesService.All] reached the end, but cannot show that the list is complete. It received
	// fewer rows than the service counts, or the pages repeat and do not report whether more exist, or rows moved to
	// where they cannot be followed.
	ErrIncompleteList = redact.New("list may be incomplete")
	// ErrNotAudited: the function of [WithAudit] failed, so the record is withheld; matched by [*NotAuditedError]. That
	// error also reports whether a change was made.
	ErrNotAudited = redact.New("not audited")
)

// Error returns a text that is safe to log.
func (e *Error) Error() string {
	text := redact.Status(e.StatusCode)
	if names := e.fieldNames(); len(names) > 0 {
		text += " [fields: " + strings.Join(names, ", ") + "]"
	}
	if advice := e.whatToDo(); advice != "" {
		text += ": " + advice
	}
	// A POST may have been carried out despite a 5xx, so its text does not say when to send it again.
	maySendAgain := e.StatusCode < 500 || e.Method != http.MethodPost
	if e.RetryAfter > 0 && maySendAgain {
		text += " (retry after " + e.RetryAfter.String() + ")"
	}
	return errorText(e.Operation, e.Method, e.Route, text, e.RequestID)
}

// Is matches the sentinels of this package by status.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrServer:
		return e.StatusCode >= 500
	case ErrUnexpectedResponse:
		return e.isRedirect()
	}
	return target == kinds[e.StatusCode].sentinel
}

// LogValue implements [slog.LogValuer]. It lists the error's text and those of its parts that are not empty.
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
	empty := []slog.Value{slog.StringValue(""), slog.DurationValue(0)}
	isEmpty := func(a slog.Attr) bool { return slices.ContainsFunc(empty, a.Value.Equal) }
	return slog.GroupValue(slices.DeleteFunc(attrs, isEmpty)...)
}

// Format implements [fmt.Formatter]. It prints the error's text for every verb, never the message or the fields.
func (e Error) Format(s fmt.State, _ rune) { printError(s, &e) }

func (e *Error) isRedirect() bool { return e.StatusCode/100 == 3 }

// isOfRead reports whether the call cannot have changed anything.
func (e *Error) isOfRead() bool {
	switch e.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// retryable reports whether the request can be sent again. The retries within a call follow the same rule.
func (e *Error) retryable() bool {
	effect := exchange.Reads
	if !e.isOfRead() {
		effect = exchange.Creates
	}
	return effect.MayRetry(exchange.Outcome{Status: e.StatusCode})
}

// fieldNames returns the names of the invalid fields that are safe to print. A server may echo data as a key.
func (e *Error) fieldNames() []string {
	const maxNames = 10
	isUnsafe := func(name string) bool { return !redact.IsIdentifier(name, 64, "_.-[]*") }
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(e.Fields)), isUnsafe)
	return names[:min(len(names), maxNames)]
}

// OutcomeUnknownError reports that a create (or another request that must not be sent twice) may or may not have been
// carried out. Its response was lost, or was a 5xx, a 408, or not a note. The error matches [ErrOutcomeUnknown] and the
// error of the last attempt. Do not simply create the note again: call [NotesService.FindCreated].
//
// The error can be encoded as JSON, kept in a journal and passed to FindCreated by another process. That JSON contains
// patient data.
type OutcomeUnknownError struct {
	// Params describes the note to create. It is zero if the request was made by [Client.Do].
	Params CreateNoteParams `json:"params"`
	// SentAt is when the attempt with the unknown outcome began.
	SentAt time.Time `json:"sent_at"`
	// LostAt is when the client stopped waiting for the response. It is zero if that is not known.
	LostAt time.Time `json:"lost_at"`
	// AudioSize is the size of the recording in bytes: -1 if it is not known, 0 if no recording was sent.
	AudioSize int64 `json:"audio_size"`
	// NoteID is the note's ID if the response contained one but could not be used; otherwise it is 0.
	NoteID int64 `json:"note_id"`

	ID          string `json:"id"`           // random, set by Create; identifies this error wherever it is kept
	Service     string `json:"service"`      // the base URL in its normal form
	UserID      int64  `json:"user_id"`      // the user who sent the request; 0 if not known yet
	AudioSHA256 string `json:"audio_sha256"` // of what was sent, in hexadecimal; empty if not known or not computed yet

	// Candidates lists the IDs of the notes that the create may have made, as FindCreated last saw them. There are at
	// most 100, and those nearest in time are first. A person can compare them and pass the others to
	// FindCreatedParams.Exclude.
	Candidates []int64 `json:"candidates,omitempty"`

	Err error `json:"-"` // why the outcome is unknown

	// fromThisProcess is set by Create, and not kept in JSON: Params.Audio is what was sent, and the times are of this
	// process's clock.
	fromThisProcess bool
	details         lossDetails
}

// Error returns a text that is safe to log.
func (e *OutcomeUnknownError) Error() string {
	why := text(e.Err)
	switch {
	case strings.Contains(why, findCreated.name):
		return why // it already contains what to do
	case e.Params.Name != "", e.Params.PatientID != 0, e.NoteID != 0, strings.Contains(why, createNote.name):
		return why + "; the note may or may not exist: call Notes.FindCreated before creating it again"
	}
	return why + "; it may or may not have been carried out: check before sending it again"
}

// Unwrap makes [errors.Is] and [errors.As] see [ErrOutcomeUnknown] and the cause.
func (e *OutcomeUnknownError) Unwrap() []error {
	return []error{ErrOutcomeUnknown, redact.Opaque(e.Err)}
}

// LogValue implements [slog.LogValuer]. It lists the error's text and SentAt.
func (e OutcomeUnknownError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("error", e.Error()), slog.Time("sent_at", e.SentAt))
}

// Format implements [fmt.Formatter]. It prints the error's text for every verb.
func (e OutcomeUnknownError) Format(s fmt.State, _ rune) { printError(s, &e) }

// withUnknownOutcome returns the error of a failed call of which an attempt may have been carried out. It matches
// ErrOutcomeUnknown and err.
func withUnknownOutcome(err error) error {
	const advice = "; an earlier attempt may have succeeded: read the record before trying again"
	return redact.Fail(text(err)+advice, ErrOutcomeUnknown, err)
}

// callError is a failure other than an error response: nothing was sent, nothing came back, or the response is not what
// the service describes.
type callError struct {
	op        *operation
	requestID string
	detail    string  // safe to print
	causes    []error // for errors.Is and errors.As; not printed
	errorType string  // the error type that hooks report; empty: derived from the causes
	transient bool    // the failure may pass; an error around this one marks that the service may have acted
}

func (e *callError) Error() string {
	return errorText(e.op.name, e.op.method, e.op.route, e.detail, e.requestID)
}

// errorText returns a text such as "clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): what failed (request id 7)".
// An empty argument is left out, with what encloses it.
func errorText(operation, method, route, what, requestID string) string {
	place := operation
	if request := strings.TrimSpace(method + " " + route); request != "" {
		place = strings.TrimSpace(operation + " (" + request + ")")
	}
	text := "clinicaldoc: "
	if place != "" {
		text += place + ": "
	}
	text += what
	if requestID != "" {
		text += " (request id " + requestID + ")"
	}
	return text
}

func (e *callError) Unwrap() []error            { return redact.OpaqueAll(e.causes...) }
func (e *callError) retryable() bool            { return e.transient }
func (e *callError) Format(s fmt.State, _ rune) { printError(s, e) }

// The texts of these errors may appear in the texts of the errors that wrap them.
func init() {
	redact.Trust((*Error).Error)
	redact.Trust((*OutcomeUnknownError).Error)
	redact.Trust((*ConflictError).Error)
	redact.Trust((*WaitError).Error)
	redact.Trust((*NotAuditedError).Error)
	redact.Trust(func(e *callError) string { return e.detail })
}

// invalid returns the error for an argument that is rejected before any request. The args must not be patient data.
func invalid(what, format string, args ...any) error {
	return invalidBecause(what+": "+fmt.Sprintf(format, args...), nil)
}

// invalidBecause is like invalid, for an argument that is rejected because of a cause. The cause may be nil.
func invalidBecause(what string, cause error) error {
	text := "clinicaldoc: " + what + ": "
	if cause != nil {
		text += redact.Cause(cause) + ": "
	}
	return redact.Fail(text+ErrInvalidArgument.Error(), ErrInvalidArgument, cause)
}

// hidden is embedded in structs that print without any of their fields.
type hidden = redact.Hidden

func printError(s fmt.State, err error) { _, _ = s.Write([]byte(text(err))) }

// text returns the error's own text if it is an error of this package, and otherwise a text that is safe to print.
func text(err error) string {
	if err == nil {
		return "clinicaldoc: no error"
	}
	return redact.Opaque(err).Error()
}

// Retryable reports whether the same call may succeed later and cannot do harm. Methods return their errors after their
// own retries. Retryable accepts those errors and errors that wrap them.
//
// It reports true for:
//
//   - a 429;
//   - a read whose response was a 408, a 425 or a temporary 5xx, or whose connection failed or stalled ([ErrStalled]);
//   - any other call whose request was not sent completely, so the service cannot have acted on it;
//   - a file that is in use ([ErrInUse]), or for which this machine has no space, no handle or no disk at the moment.
//
// It reports false for:
//
//   - an unknown outcome ([ErrOutcomeUnknown]), which has to be resolved first;
//   - a note that somebody else has changed ([ErrConflict]), which has to be read first;
//   - every other status, and a response that is not what the service describes;
//   - a rejected argument;
//   - a connection that will fail in the same way, because of a certificate or a host name;
//   - an error of your own code: a reader, a token source, a limiter, an audit function;
//   - the end of your own context.
func Retryable(err error) bool {
	switch {
	case errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrConflict), errors.Is(err, ErrNotAudited):
		return false
	case errors.Is(err, ErrInUse):
		return true
	}
	var failure interface{ retryable() bool }
	return errors.As(err, &failure) && failure.retryable()
}

// Errors for responses that can be decoded but are not what was requested. Their texts contain no data.
var (
	errNotANote = redact.Text("it has an id, but neither a name nor a created_at, so it is not a note")
	errOtherID  = redact.Text("it is not the requested record")
	errNoURL    = redact.Text("it contains no usable url")
)

// statusKind is the sentinel for a status, or nil, and the advice for it.
type statusKind struct {
	sentinel error
	advice   string
}

var kinds = map[int]statusKind{
	http.StatusNotModified:      {nil, "the request had no condition, so a cache may have answered; check proxies"},
	http.StatusBadRequest:       {nil, "the server did not understand the request; check the base URL's scheme"},
	http.StatusUnauthorized:     {ErrUnauthorized, "the token is missing, wrong, expired or revoked; get a new one"},
	http.StatusForbidden:        {ErrForbidden, "the token's user may not do this"},
	http.StatusNotFound:         {ErrNotFound, "it does not exist, or this token's user may not see it"},
	http.StatusMethodNotAllowed: {nil, "this address does not accept the method; check the base URL's path"},
	statusPageExpired:           {nil, "web pages respond in this way, but not the API; check the base URL's path"},
	http.StatusProxyAuthRequired: {
		nil, "a proxy requires credentials; put them into the proxy's URL",
	},
	http.StatusRequestTimeout: {nil, "the service, or a proxy before it, did not receive the request in time"},
	http.StatusConflict:       {ErrConflict, "the record's state does not allow this"},
	http.StatusRequestEntityTooLarge: {
		ErrTooLarge, "the service or a proxy before it refuses a body of this size",
	},
	http.StatusUnprocessableEntity: {ErrValidation, "the service rejected some values; see Fields"},
	http.StatusTooManyRequests: {
		ErrRateLimited, "try again later, set RetryPolicy.MaxRetryAfter to wait longer, " +
			"or share a limiter with WithLimiter",
	},
	http.StatusNetworkAuthenticationRequired: {
		nil, "the network requires a login, as guest networks do; log in to it first",
	},
}

// statusPageExpired is the status of a web framework for a form without its token.
const statusPageExpired = 419

// whatToDo returns the advice in the error's text, or "". Advice from the response precedes advice by status.
func (e *Error) whatToDo() string {
	switch {
	case e.advice != "":
		return e.advice
	case e.Route == downloadAudio.route && e.StatusCode/100 == 4:
		return "the recording's temporary address has expired, or the recording is gone"
	case e.StatusCode == http.StatusNotFound:
		return e.adviceForNotFound()
	case e.StatusCode == http.StatusBadRequest:
		return e.adviceForBadRequest()
	}
	return cmp.Or(kinds[e.StatusCode].advice, e.adviceByClass())
}

// adviceForNotFound returns the advice for a 404, which depends on whether the route has a place for a record's ID.
func (e *Error) adviceForNotFound() string {
	switch {
	case e.readsFixedRoute():
		return "nothing was found at this path; check the base URL's path"
	case e.Operation == createNote.name:
		return "check the base URL's path, and whether patient and prompt exist"
	}
	return kinds[http.StatusNotFound].advice
}

// readsFixedRoute reports whether the request is a GET whose route has no placeholder, such as that of a list or of the
// token's user. It is also true for a Do whose WithRoute contains an ID. It is false for an error without a route.
func (e *Error) readsFixedRoute() bool {
	return e.Method == http.MethodGet && e.Route != "" && !strings.Contains(e.Route, "{")
}

// adviceForBadRequest distinguishes a service, which responds in JSON, from a server that expects TLS and responds in
// plain text.
func (e *Error) adviceForBadRequest() string {
	switch {
	case e.Message == "":
		return kinds[http.StatusBadRequest].advice
	case e.Operation == listNotes.name:
		return "the list's parameters may have other names; see WithQueryNames"
	}
	return "the service did not understand the request; see Message"
}

// adviceByClass returns the advice for a status that is not in kinds. After a 5xx it advises only reads to try again:
// the text of another call is completed by code that knows what was sent.
func (e *Error) adviceByClass() string {
	switch {
	case e.isRedirect():
		return "redirects are followed only for GET and within the base URL's origin; check the base URL"
	case e.StatusCode < 500:
		return ""
	case e.isOfRead():
		return "the service, or a proxy before it, failed; try again later"
	}
	return "the service, or a proxy before it, failed"
}

// explain sets the advice that depends on the response's header and body, on the base URL, and on whether the request
// had a body.
func (e *Error) explain(header http.Header, body []byte, base *url.URL, sentBody bool) {
	target := exchange.Redirect(e.StatusCode, e.Method, header.Get("Location"), base, base)
	gaveUpFollowing := target != nil && !sentBody // such a redirect is followed, but not without end
	if gaveUpFollowing {
		e.advice = "the service, or a proxy before it, redirects in a circle, or too often to be followed"
	}
	isPage := redact.MediaType(header.Get("Content-Type")) == webPage
	if len(body) > 0 && isPage {
		e.explainPage()
	}
	if end := repeatedEnd(base); end != "" {
		e.explainRepeatedEnd(end)
	}
}

// explainPage advises after a refusal that is a web page.
func (e *Error) explainPage() {
	switch e.StatusCode {
	case http.StatusUnauthorized:
		const advice = "; the response is a web page, so check the base URL and proxies too"
		e.advice = e.whatToDo() + advice
	case http.StatusForbidden, http.StatusNotFound:
		e.advice = "the response is a web page of a firewall, a proxy or another server; " +
			"check the base URL, firewalls and proxies"
	}
}

// explainRepeatedEnd advises after a refusal if the base URL ends in a path that each call adds. Some servers check the
// path last, so this advice follows what the other statuses suggest.
func (e *Error) explainRepeatedEnd(end string) {
	switch e.StatusCode {
	case http.StatusNotFound:
		e.advice = "the base URL ends in " + end + ", which the client adds; leave it out"
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		e.advice = e.whatToDo() + "; or leave out " + end + " at the end of the base URL, which the client adds"
	}
}

// repeatedEnd returns the end of the base URL's path if each call adds it again, so it should not be there; otherwise
// "".
func repeatedEnd(base *url.URL) string {
	for _, end := range []string{"/v1", listNotes.route, listTokens.route, getUser.route} {
		if strings.HasSuffix(base.Path, end) {
			return end
		}
	}
	return ""
}

// unexpectedText describes a response that is not what the service describes.
func unexpectedText(base *url.URL, status int, contentType string, body []byte, cause error) string {
	kind := redact.MediaType(contentType)
	switch {
	case len(body) == 0:
		kind = "no body"
	case kind == webPage:
		return unexpectedPageText(base, status)
	case kind == "":
		kind = "no content type that is known"
	}
	got := redact.Status(status) + " with " + kind
	return "the response is " + got + ", but not what the service describes: " + redact.Cause(cause)
}

// unexpectedPageText describes a web page in place of a response of the service.
func unexpectedPageText(base *url.URL, status int) string {
	text := "the response is a web page (" + redact.Status(status) + " with " + webPage + ")"
	if end := repeatedEnd(base); end != "" {
		return text + ": the base URL ends in " + end + ", which the client adds; leave it out"
	}
	return text + ", such as a login page or that of a firewall; check the base URL and proxies"
}

// Limits on what is kept of an error's body.
const (
	maxErrorFields   = 100
	maxFieldMessages = 20

	webPage = "text/html"
)

// decodeErrorBody sets the fields that the body contains, as far as it can be read. The body may be cut short, or not
// be JSON.
func decodeErrorBody(body []byte, e *Error) {
	d := jsonscan.New(body)
	var others []byte
	for key := range d.Fields() {
		name := string(key)
		described := false
		switch name {
		case "message":
			described = e.fillMessage(d)
		case "errors":
			described = e.fillFields(d)
		}
		if !described {
			others = tolerant.AppendMember(others, d, name)
		}
	}
	tolerant.KeepMembers(d, &e.Extra.raw, others)
	_ = d.End() // releases its memory
}

// fillMessage reads the message, and reports whether it has the described form or is empty.
func (e *Error) fillMessage(d *jsonscan.Decoder) bool {
	if d.Kind() != jsonscan.String {
		return tolerant.Empty(d)
	}
	e.Message = cmp.Or(d.Text(), e.Message) // a message that is cut short reads as ""
	return true
}

// fillFields reads the messages of the fields, and reports whether it kept everything.
func (e *Error) fillFields(d *jsonscan.Decoder) (complete bool) {
	if d.Kind() != jsonscan.Object {
		return tolerant.Empty(d)
	}
	complete = true
	for key := range d.Fields() {
		if e.Fields == nil {
			e.Fields = map[string][]string{}
		}
		if len(e.Fields) == maxErrorFields {
			complete = false
			continue
		}
		messages, all := fieldMessages(d)
		e.Fields[string(key)] = messages
		if !all {
			complete = false
		}
	}
	return complete
}

// fieldMessages reads the messages of one field, a list of strings or a single string. It reports whether it kept
// everything.
func fieldMessages(d *jsonscan.Decoder) (messages []string, complete bool) {
	messages = []string{}
	add := func() bool {
		if d.Kind() != jsonscan.String {
			return d.Null()
		}
		text := d.Text()
		if d.Err() != nil || len(messages) == maxFieldMessages {
			return false
		}
		messages = append(messages, text)
		return true
	}
	if d.Kind() != jsonscan.Array {
		return messages, add()
	}
	complete = true
	for range d.Elements() {
		if !add() {
			complete = false
		}
	}
	return messages, complete
}
