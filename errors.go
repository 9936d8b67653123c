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

	// Extra holds the other members of the body, such as a code, and also message and errors if they do not have the
	// described form. A body is read up to 64 KiB.
	Extra Object `json:",omitzero"`

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
	ErrUnexpectedResponse = exchange.ErrUnexpected
	// ErrOutcomeUnknown: the request may or may not have been carried out; matched by [*OutcomeUnknownError].
	ErrOutcomeUnknown = redact.New("outcome unknown")
	// ErrNotCreated: [NotesService.FindCreated] looked and the note does not exist; creating it again is safe.
	ErrNotCreated = redact.New("note was not created")
	// ErrProcessingFailed: the service reported an error state for the note; matched by [*WaitError].
	ErrProcessingFailed = redact.New("processing failed")
	// ErrAudioChanged: in the middle of a download the recording may be another one, and the writer cannot be rewound to restart.
	ErrAudioChanged = download.ErrChanged
	// ErrSizeMismatch: a download has another length than the note's audio.size; [DownloadParams] can ignore that size.
	ErrSizeMismatch = download.ErrSizeMismatch
	// ErrStalled: an attempt was given up because nothing moved for the time of [WithStallTimeout].
	ErrStalled = exchange.ErrStalled
	// ErrPatientMismatch: a row of a list filtered by patient, or a note that was created or written, is or may be another
	// patient's.
	ErrPatientMismatch = redact.New("patient mismatch")
	// ErrInUse: the file is in use by another call, in this process or in another one. It may be free later, so [Retryable]
	// reports true. Packages ingest and snapshot use it for a journal or a snapshot that is already open.
	ErrInUse = redact.New("in use")
	// ErrIncompleteList: [NotesService.All] came to an end, but the list cannot be shown to be whole: fewer rows came than the
	// service counts, its pages repeat and nothing tells whether more exist, or rows moved to where they cannot be followed.
	ErrIncompleteList = redact.New("list may be incomplete")
	// ErrNotAudited: the function of [WithAudit] failed, so the record is withheld; matched by [*NotAuditedError]. A change
	// was made all the same if that says so.
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
	if e.RetryAfter > 0 && (e.StatusCode < 500 || e.Method != http.MethodPost) {
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
		return e.redirect()
	}
	return target == kinds[e.StatusCode].sentinel
}

// LogValue lists what may be logged of the error: its text, then the parts of it that there are.
func (e Error) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("error", e.Error()), slog.String("operation", e.Operation), slog.String("method", e.Method),
		slog.String("route", e.Route), slog.Int("status", e.StatusCode), slog.String("fields", strings.Join(e.fieldNames(), ",")),
		slog.Duration("retry_after", e.RetryAfter), slog.String("request_id", e.RequestID),
	}
	return slog.GroupValue(slices.DeleteFunc(attrs, func(a slog.Attr) bool {
		return a.Value.Equal(slog.StringValue("")) || a.Value.Equal(slog.DurationValue(0))
	})...)
}

// Format prints the error's text for every verb, so that none prints the message or the fields.
func (e Error) Format(s fmt.State, _ rune) { printError(s, &e) }

func (e *Error) redirect() bool { return e.StatusCode >= 300 && e.StatusCode < 400 }

// reads reports whether the call cannot have changed anything.
func (e *Error) reads() bool {
	return e.Method == http.MethodGet || e.Method == http.MethodHead || e.Method == http.MethodOptions
}

// retryable goes by what may have happened, as the retries within a call do.
func (e *Error) retryable() bool {
	effect := exchange.Reads
	if !e.reads() {
		effect = exchange.Creates
	}
	return effect.MayRetry(exchange.Outcome{Status: e.StatusCode})
}

// fieldNames returns the printable names of the invalid fields: a server may echo data as a key.
func (e *Error) fieldNames() []string {
	const most = 10 // in a text
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(e.Fields)), func(name string) bool { return !redact.IsIdentifier(name, 64, "_.-[]*") })
	return names[:min(len(names), most)]
}

// OutcomeUnknownError says that a create (or another request that must not be sent twice) may or may not have been
// carried out: its response was lost, or was a 5xx, a 408, or no note. It matches [ErrOutcomeUnknown] and whatever the last
// attempt failed with. Do not simply create again: ask [NotesService.FindCreated].
//
// Encoded as JSON it can be kept in a journal and asked about by another process; that JSON holds a patient's data.
type OutcomeUnknownError struct {
	Params    CreateNoteParams `json:"params"`     // what was to be created; zero when the request was made by [Client.Do]
	SentAt    time.Time        `json:"sent_at"`    // when the attempt with the unknown outcome began
	LostAt    time.Time        `json:"lost_at"`    // when its response was given up; zero when that is not known
	AudioSize int64            `json:"audio_size"` // of the recording in bytes; -1 when it is not known, 0 when none was sent
	NoteID    int64            `json:"note_id"`    // of the note, where the response held its id but could not be used; else 0

	ID          string `json:"id"`           // names this loss wherever it is kept: random, made by Create
	Service     string `json:"service"`      // where it was sent: the base URL, written in one way
	UserID      int64  `json:"user_id"`      // who sent it; 0: not known yet
	AudioSHA256 string `json:"audio_sha256"` // of what was sent, in hexadecimal digits; empty: not known, or not computed yet

	// Candidates are the ids of the notes that may be the one, as FindCreated last saw them: those nearest in time first, at
	// most 100. A person can compare them and pass what they are not to FindCreatedParams.Exclude.
	Candidates []int64 `json:"candidates,omitempty"`

	Err error `json:"-"` // why the outcome is unknown

	exact bool // Params.Audio is what was sent: Create made this error
	kept  lossDetails
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

// maybeDone is a failed call after which an attempt may have had its effect.
func maybeDone(err error) error {
	return redact.Fail(text(err)+"; an attempt may have had its effect: read the record before trying again", ErrOutcomeUnknown, err)
}

// callError is a failure that is not a response of the service: nothing was sent or came back, or not what was promised.
type callError struct {
	op        *operation
	requestID string
	detail    string  // safe to print
	causes    []error // for errors.Is and errors.As; not printed
	kind      string  // a word for it, for hooks; empty: the causes tell
	transient bool    // the failure may pass by itself; whether the service may have acted is marked around the error
}

func (e *callError) Error() string {
	return errorText(e.op.name, e.op.method, e.op.route, e.detail, e.requestID)
}

// errorText is such as "clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): what failed (request id 7)", without what is empty.
func errorText(name, method, route, what, requestID string) string {
	if request := strings.TrimSpace(method + " " + route); request != "" {
		name = strings.TrimSpace(name + " (" + request + ")")
	}
	if name != "" {
		what = name + ": " + what
	}
	if requestID != "" {
		what += " (request id " + requestID + ")"
	}
	return "clinicaldoc: " + what
}

func (e *callError) Unwrap() []error            { return redact.OpaqueAll(e.causes...) }
func (e *callError) retryable() bool            { return e.transient }
func (e *callError) Format(s fmt.State, _ rune) { printError(s, e) }

// The texts of these errors may stand in the texts of errors around them.
func init() {
	redact.Trust((*Error).Error)
	redact.Trust((*OutcomeUnknownError).Error)
	redact.Trust((*ConflictError).Error)
	redact.Trust((*WaitError).Error)
	redact.Trust((*NotAuditedError).Error)
	redact.Trust(func(e *callError) string { return e.detail })
}

// invalid is an argument refused before any request; its values are the caller's and must not be patients' data.
func invalid(what, format string, args ...any) error {
	return refuse(what+": "+fmt.Sprintf(format, args...), nil)
}

// refuse is an argument refused for a cause, which may be nil, and whose text may name a file.
func refuse(what string, cause error) error {
	text := "clinicaldoc: " + what + ": "
	if cause != nil {
		text += redact.Cause(cause) + ": "
	}
	return redact.Fail(text+ErrInvalidArgument.Error(), ErrInvalidArgument, cause)
}

// hidden is embedded in structs of which nothing is printed: what they hold is asked for by name.
type hidden = redact.Hidden

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
//     ([ErrStalled]); any other call that could not be sent whole, so that the service cannot have acted on it; a file for
//     which this machine has no room, no handle or no disk at the moment ([ErrInUse] too);
//   - false: an unknown outcome ([ErrOutcomeUnknown]: find out first what has become of it), every other status, a response
//     that is not what the service describes, a refused argument, a connection that will fail the same way (a certificate, a
//     host name), what your own code failed with (a reader, a token source, a limiter, an audit), and the end of your own context.
func Retryable(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotAudited) {
		return false
	}
	var own interface{ retryable() bool }
	return errors.Is(err, ErrInUse) || errors.As(err, &own) && own.retryable()
}

// Errors of responses that decode but are not what was asked for. Their texts hold no data.
var (
	errNotANote = redact.Text("it has an id, but neither a name nor a created_at, so it is not a note")
	errOtherID  = redact.Text("it is another record than the one asked for")
	errNoURL    = redact.Text("it holds no usable url")
)

// kinds maps statuses to what to call them and what to do about them.
var kinds = map[int]struct {
	sentinel error
	advice   string
}{
	http.StatusNotModified:                   {nil, "no condition was sent that this could respond to; is a cache in between?"},
	http.StatusBadRequest:                    {nil, "the request was not understood; is the base URL's scheme right?"},
	http.StatusUnauthorized:                  {ErrUnauthorized, "the token is missing, wrong, expired or revoked; get a new one"},
	http.StatusForbidden:                     {ErrForbidden, "the token's user may not do this"},
	http.StatusNotFound:                      {ErrNotFound, "it does not exist, or not for this token's user"},
	http.StatusMethodNotAllowed:              {nil, "nothing there takes this method; is the base URL's path right?"},
	419:                                      {nil, "as a service's web pages refuse, not its API; is the base URL's path right?"},
	http.StatusProxyAuthRequired:             {nil, "a proxy in between wants credentials; put them into the proxy's URL"},
	http.StatusRequestTimeout:                {nil, "the service, or a proxy before it, waited too long"},
	http.StatusConflict:                      {ErrConflict, "the record's state does not allow this"},
	http.StatusRequestEntityTooLarge:         {ErrTooLarge, "the service or a proxy before it refuses a body of this size"},
	http.StatusUnprocessableEntity:           {ErrValidation, "see Fields for what the service objects to"},
	http.StatusTooManyRequests:               {ErrRateLimited, "try again later; RetryPolicy.MaxRetryAfter is how long a client waits for a limit, and clients can share a WithLimiter"},
	http.StatusNetworkAuthenticationRequired: {nil, "not the service but the network responds: it wants a login first, as guest networks do"},
}

func (e *Error) whatToDo() string {
	byStatus := kinds[e.StatusCode].advice
	switch {
	case e.advice != "":
		return e.advice
	case e.Route == downloadAudio.route && e.StatusCode >= 400 && e.StatusCode < 500:
		return "the recording's temporary address has expired, or the recording is gone"
	case byStatus == "" && e.redirect():
		return "redirects are followed only for GET and on the base URL's own origin; check the base URL"
	case byStatus == "" && e.StatusCode >= 500 && e.reads():
		return "the service, or a proxy before it, failed; trying later may help"
	case byStatus == "" && e.StatusCode >= 500: // whether trying again is safe is said by who knows what was sent
		return "the service, or a proxy before it, failed"
	case e.StatusCode == http.StatusNotFound && e.Method == http.MethodGet && slices.Contains(recordless, e.Route):
		return "although no record was named; is the base URL's path right?"
	case e.StatusCode == http.StatusBadRequest && e.Message != "" && e.Operation == listNotes.name:
		return "does it know the list's parameters by other names? See WithQueryNames"
	case e.StatusCode == http.StatusBadRequest && e.Message != "": // a server that expects TLS says it in plain text
		return "the service does not understand the request; see Message"
	case e.StatusCode == http.StatusNotFound && e.Operation == createNote.name:
		return "is the base URL's path right, and do patient and prompt exist?"
	}
	return byStatus
}

// explain finds the advice that only the whole response can give. A redirect that could have been followed came too often.
// An empty response is not a page, whatever its type.
func (e *Error) explain(header http.Header, body []byte, base *url.URL, bodyless bool) {
	page := len(body) > 0 && redact.MediaType(header.Get("Content-Type")) == webPage
	pasted := pastedEnd(base)
	switch {
	case bodyless && exchange.Redirect(e.StatusCode, e.Method, header.Get("Location"), base, base) != nil:
		e.advice = "the service, or a proxy before it, redirects in a circle, or too often to be followed"
	case e.StatusCode == http.StatusNotFound && pasted != "":
		e.advice = "the base URL ends in " + pasted + ", which is added to it; leave it out"
	case page && e.StatusCode == http.StatusUnauthorized:
		e.advice = e.whatToDo() + "; or check the base URL: the response is a web page, as of a proxy or another server"
	case page && (e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusNotFound):
		e.advice = "this is a web page, as of a firewall, a proxy or another server than the service; check the base URL and what is in between"
	}
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed: // some servers look at the path last
		if pasted != "" {
			e.advice = e.whatToDo() + "; or is it the base URL, which ends in " + pasted + "? That is added to it"
		}
	}
}

// recordless are the routes at which nothing could be missing.
var recordless = []string{listNotes.route, listTokens.route, getUser.route}

// pastedEnd returns what of the base URL's path is added by each call, and so should not be there; "" if nothing is.
func pastedEnd(base *url.URL) string {
	for _, end := range append([]string{"/v1"}, recordless...) {
		if strings.HasSuffix(base.Path, end) {
			return end
		}
	}
	return ""
}

// unexpectedText says what came instead of what the service describes.
func unexpectedText(base *url.URL, status int, contentType string, body []byte, cause error) string {
	kind, pasted := redact.MediaType(contentType), pastedEnd(base)
	switch {
	case len(body) == 0:
		kind = "no body"
	case kind == webPage && pasted != "":
		return "the response is a web page (" + redact.Status(status) + " with " + kind + "): the base URL ends in " + pasted + ", which is added to it; leave it out"
	case kind == webPage:
		return "the response is a web page (" + redact.Status(status) + " with " + kind + "), as of a login, a firewall or another server; check the base URL, and for proxies in between"
	case kind == "":
		kind = "no content type that is known"
	}
	return "the response is " + redact.Status(status) + " with " + kind + ", but not what the service describes: " + redact.Cause(cause)
}

// Bounds on what is kept of an error's body.
const (
	maxErrorFields   = 100
	maxFieldMessages = 20

	webPage = "text/html"
)

// decodeErrorBody fills in what an error's body holds, as far as it can be read: it may be cut, or something else.
func decodeErrorBody(body []byte, e *Error) {
	d := jsonscan.New(body)
	var others []byte
	for key := range d.Fields() {
		name := string(key)
		described := false
		switch {
		case name == "message" && d.Kind() == jsonscan.String:
			e.Message = cmp.Or(d.Text(), e.Message) // one that is cut reads as none
			described = true
		case name == "errors" && d.Kind() == jsonscan.Object:
			described = e.fillFields(d)
		case name == "message" || name == "errors":
			described = tolerant.Empty(d)
		}
		if !described {
			others = tolerant.AppendMember(others, d, name)
		}
	}
	tolerant.KeepMembers(d, &e.Extra.raw, others)
	_ = d.End() // gives its memory back
}

// fillFields reads the messages of the fields, and reports whether these are all that there is.
func (e *Error) fillFields(d *jsonscan.Decoder) (complete bool) {
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
		complete = complete && all
	}
	return complete
}

// fieldMessages reads a field's messages, a list of texts or a single one, and reports whether these are all that there
// is.
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
		added := add()
		complete = complete && added
	}
	return messages, complete
}
