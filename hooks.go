package clinicaldoc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Hooks are functions that the client calls when calls and their attempts start and end. Use them for traces and
// metrics; module otelclinicaldoc provides them for OpenTelemetry. Nil hooks are skipped.
//
// Every method that sends requests is a call. Some calls contain other calls: Wait, Watch, WaitAll, All and FindCreated
// consist of calls only, and downloads and edits make some. Each read of an [AudioStream] from storage is a call. A
// call whose options are rejected does not start. The call of an iterator lasts as long as the range over it.
//
// Hooks run in the goroutine of the call, so they must be safe for concurrent use. A hook that blocks delays only its
// own call. The call's context still applies; the stall timeout does not. If a hook panics, the panic leaves the call.
// The end hooks of the call and attempt that have started are still called.
//
// Hooks receive names and numbers, except Err. They receive no URLs, IDs, headers or bodies.
type Hooks struct {
	// CallStart is called when a call starts; Operation is set. The call uses the values of the returned context. It
	// ignores that context's deadline and cancellation. A nil context is ignored. One with another
	// [httptrace.ClientTrace] is ignored too, because that would see headers.
	CallStart func(ctx context.Context, call Call) context.Context

	// AttemptStart is called just before a request is sent, after the limiter and the token source. The fields up to
	// Number are set. The returned context is used for this attempt in the same way as that of CallStart.
	AttemptStart func(ctx context.Context, attempt Attempt) (context.Context, TraceContext)

	// AttemptEnd is called once for each AttemptStart, with the context that AttemptStart returned.
	AttemptEnd func(ctx context.Context, attempt Attempt)

	// CallEnd is called once for each CallStart, with the context that CallStart returned.
	CallEnd func(ctx context.Context, call Call)
}

// Attempt describes one attempt of a call. [WithLogger] and [Hooks] report the same attempts.
//
// An attempt that ends before its request is sent is reported too, with Number 0. The reasons are an ended context,
// the limiter, the token source, a rate limit of the service that lasts too long, or a rejected recording address.
// AttemptStart and AttemptEnd are then called one after the other. A retry that is not started, because its pause
// was cut short, is not an attempt.
//
// If the service refuses an attempt because of a rate limit, RateLimitWait is how long the calls of the client wait
// before they send again. It is 0 if the service asks for more than [RetryPolicy].MaxRetryAfter. The wait is not an
// attempt.
//
// An attempt to read a recording from storage has the route "storage" and no server, because the address is secret.
type Attempt struct {
	Operation     string // name of the call, such as "Notes.Get"
	Method        string // HTTP method
	Route         string // path template, such as "/v1/progress-notes/{id}"
	ServerAddress string // host of the base URL; empty for storage
	ServerPort    int    // port of the base URL; 0 for storage
	Number        int    // 1 for the first attempt of a call, more for retries; 0 if no request was sent

	StatusCode         int           // 0 if there was no response
	Duration           time.Duration // from the start of sending to the end of the response
	RequestID          string        // as the service sent it; empty if it sent none
	ErrorType          string        // as in [Call]; empty for a success
	BytesSent          int64         // of the body
	BytesReceived      int64         // of the body
	RateLimitRemaining int           // value of X-RateLimit-Remaining; -1 if the header is absent
	RateLimitWait      time.Duration // how long the client now waits for the limit that refused the attempt; else 0
	OutcomeUnknown     bool          // the attempt failed, but the service may have carried it out

	// Err is the error of the attempt, or nil for a 2xx response, even if its body cannot be used. Its text is safe to
	// log. Its fields may hold patient data, as those of [*Error].
	Err error
}

// Call describes one call of a method.
type Call struct {
	Operation string        // name of the method, such as "Notes.Get"
	Attempts  int           // requests that the call itself sent, without those of the calls in it
	Duration  time.Duration // since CallStart returned

	// ErrorType is empty for a success. Otherwise it is one of a fixed set of words:
	//
	//   - the status of the response, such as "503";
	//   - "canceled" or "deadline_exceeded" if the caller's context ended;
	//   - "dns", "connect", "tls", "timeout", "stalled" or "no_response" if the network failed;
	//   - "unexpected_response", "incomplete_list", "patient_mismatch", "conflict", "note_incomplete",
	//     "processing_failed", "not_created", "audio_changed", "size_mismatch" or "not_audited" for the error of that
	//     name;
	//   - "rate_limit" if a limit of the service lasts longer than the context's deadline, so nothing was sent;
	//   - "limiter", "token_source", "audio_source", "body_source", "before_commit", "file", "in_use" or
	//     "invalid_argument" for a failure on the caller's side;
	//   - "panic", if the call ended by a panic or by [runtime.Goexit];
	//   - "outcome_unknown" if nothing else is known, and "_OTHER" for any other error.
	//
	// The call of an iterator has the type of the first error that it yielded, or "panic" if the loop ended by a panic.
	ErrorType      string
	OutcomeUnknown bool // the error matches [ErrOutcomeUnknown]

	// Err is the error that the call returned, or the first one that it yielded. Its text is safe to log. Its fields
	// may hold patient data, as those of [*OutcomeUnknownError].
	Err error
}

// MarshalJSON encodes the attempt's fields. It encodes Err as its text.
func (a Attempt) MarshalJSON() ([]byte, error) {
	type fields Attempt
	return json.Marshal(struct {
		fields
		Err string `json:",omitempty"`
	}{fields(a), errText(a.Err)})
}

// MarshalJSON encodes the call's fields. It encodes Err as its text.
func (c Call) MarshalJSON() ([]byte, error) {
	type fields Call
	return json.Marshal(struct {
		fields
		Err string `json:",omitempty"`
	}{fields(c), errText(c.Err)})
}

// errText returns the error's text, or "" for nil.
func errText(err error) string {
	if err == nil {
		return ""
	}
	return text(err)
}

// LogValue returns the fields that [WithLogger] logs.
func (a Attempt) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("operation", a.Operation),
		slog.String("method", a.Method),
		slog.String("route", a.Route),
		slog.Int("attempt", a.Number),
		slog.Int("status", a.StatusCode),
		slog.Duration("duration", a.Duration),
		slog.String("request_id", a.RequestID),
		slog.Int64("bytes_sent", a.BytesSent),
		slog.Int64("bytes_received", a.BytesReceived),
	}
	if a.RateLimitWait > 0 {
		attrs = append(attrs, slog.Duration("rate_limit_wait", a.RateLimitWait))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", text(a.Err)))
	}
	return slog.GroupValue(attrs...)
}

// LogValue returns the call's fields, with the text of Err.
func (c Call) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("operation", c.Operation),
		slog.Int("attempts", c.Attempts),
		slog.Duration("duration", c.Duration),
	}
	if c.Err != nil {
		attrs = append(attrs, slog.String("error", text(c.Err)))
	}
	return slog.GroupValue(attrs...)
}

// TraceContext holds the two headers of W3C Trace Context for one attempt. They are sent only to the base URL's origin,
// never to storage. Values that do not have the form of these headers are not sent.
type TraceContext struct {
	Traceparent string
	Tracestate  string
}

// WithHooks sets the hooks that are called for every call and attempt. If it is passed twice, the last one is used.
func WithHooks(hooks Hooks) Option {
	return option(func(c *config) { c.hooks = hooks })
}

// scope is one call of a public method: its options and its report.
type scope struct {
	client          *Client
	options         callOptions
	name            string // of the method
	started         time.Time
	attempts        int32 // requests that were sent
	revokesOwnToken bool  // the token that is sent begins with the ID of the one to revoke, as many services' do
	firstError      error // of those that an iterator has yielded; finish reports it
	zoneless        bool  // a time of the latest note came without a zone

	// ownTrail is nil if there is no audit, or if another call contains this one and reports for it.
	ownTrail         *trail
	hasWritten       bool   // it is certain that the call has changed something
	requestID        string // of the latest response, if there is a trail
	requestedPatient int64  // of the note to create

	op      *operation       // of the latest request
	edit    *edit            // called before a retry of what may have been carried out; may be nil
	request exchange.Request // the latest one to the service
}

// usesStorage reports whether the attempts go to storage, and not to the service.
func (s *scope) usesStorage() bool { return s.op.route == downloadAudio.route }

const errUnfinished = redact.Text("panic during call")

// run is the entry point of a public method: it applies the options, reports the start of the call, runs the method and
// reports the end, also if the method panics.
func run[T any](
	ctx context.Context, c *Client, name string, opts []CallOption, method func(context.Context, *scope) (T, error),
) (value T, err error) {
	ctx, call, err := c.begin(ctx, name, opts)
	if err != nil {
		return value, err
	}
	err = errUnfinished // until the method returns
	defer func() { call.finish(ctx, err) }()
	if call.ownTrail != nil {
		return runAudited(ctx, call, method)
	}
	return method(ctx, call)
}

// runOne is run for a method that makes one request without a body. The id is ignored if the route has none.
func runOne[T any](
	ctx context.Context, c *Client, op *operation, id int64, opts []CallOption,
	decode func([]byte) (*T, []string, error),
) (*T, error) {
	return run(ctx, c, op.name, opts, func(ctx context.Context, call *scope) (*T, error) {
		path, err := op.path(id)
		if err != nil {
			return nil, err
		}
		return do(ctx, call, op, path, decode)
	})
}

// yieldFunc is what an iterator calls for each row.
type yieldFunc[T any] = func(*T, error) bool

// ranged is run for a method that returns an iterator. Each iteration is a separate call. The body yields the rows; the
// error that it returns, if any, is yielded last. The body must return nil if the caller has stopped the iteration.
func ranged[T any](
	ctx context.Context, c *Client, name string, opts []CallOption,
	body func(context.Context, *scope, yieldFunc[T]) error,
) iter.Seq2[*T, error] {
	opts = slices.Clone(opts)
	return func(yield yieldFunc[T]) {
		ctx, call, err := c.begin(ctx, name, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		err = errUnfinished // until the body returns
		defer func() { call.finish(ctx, cmp.Or(call.firstError, err)) }()
		isAudited := call.ownTrail != nil
		if isAudited {
			rangeAudited(ctx, call, yield, body)
			err = nil
			return
		}
		err = body(ctx, call, yield)
		if err != nil {
			yield(nil, call.keepFirst(err))
		}
	}
}

// begin applies a call's options and reports its start. The call uses the returned context for everything.
func (c *Client) begin(ctx context.Context, name string, opts []CallOption) (context.Context, *scope, error) {
	call := &scope{client: c, name: name}
	if err := call.options.apply(name, opts); err != nil {
		return ctx, nil, err
	}
	if c.hooks.CallStart != nil {
		ctx = withValues(ctx, c.hooks.CallStart(ctx, Call{Operation: name}))
	}
	if c.header != nil {
		call.options.header = withDefaults(call.options.header, c.header())
	}
	if c.audit != nil && call.options.trail == nil {
		call.ownTrail = newTrail(cmp.Or(call.options.auditName, name), c.audit)
		call.options.trail = call.ownTrail
	}
	call.started = time.Now()
	return ctx, call, nil
}

// finish reports the end of the call.
func (s *scope) finish(ctx context.Context, err error) {
	if s.client.hooks.CallEnd == nil {
		return
	}
	s.client.hooks.CallEnd(ctx, Call{
		Operation:      s.name,
		Attempts:       int(s.attempts),
		Duration:       time.Since(s.started),
		ErrorType:      errorType(ctx, err),
		OutcomeUnknown: errors.Is(err, ErrOutcomeUnknown),
		Err:            redact.Opaque(err),
	})
}

// keepFirst keeps the first error that an iterator yields, for the end of the call, and returns err. Wrapping yield
// instead would move yield to the heap.
func (s *scope) keepFirst(err error) error {
	if s.firstError == nil {
		s.firstError = err
	}
	return err
}

// Begin implements [exchange.Caller]. It reports the start of an attempt, and adds the headers of the hook's trace if
// they are valid. It also records the token: who sends the request, and whether the request revokes its own token.
// Requests to storage get no trace headers and have no token.
func (s *scope) Begin(ctx context.Context, a *exchange.Attempt, header http.Header) context.Context {
	s.attempts++
	if !s.usesStorage() {
		authorization := header.Get("Authorization")
		s.options.requester.recordRequest(authorization)
		tokenToRevoke := bearerScheme + path.Base(s.request.Path) + "|"
		s.revokesOwnToken = s.op.route == revokeToken.route && strings.HasPrefix(authorization, tokenToRevoke)
	}
	if s.client.hooks.AttemptStart == nil {
		return ctx
	}
	report := s.newAttempt()
	report.Number = a.Number
	fromHook, trace := s.client.hooks.AttemptStart(ctx, report)
	if trace.valid() && !s.usesStorage() {
		header["Traceparent"] = []string{trace.Traceparent}
		delete(header, "Tracestate") // the caller's own belongs to another parent
		if trace.Tracestate != "" {
			header["Tracestate"] = []string{trace.Tracestate}
		}
	}
	return withValues(ctx, fromHook)
}

// End implements [exchange.Caller]. It reports the end of an attempt.
func (s *scope) End(ctx context.Context, a *exchange.Attempt) {
	if !s.hasObserver() {
		return
	}
	if !a.ReachedSending { // Begin did not report it
		s.reportNotSent(ctx, a.Err)
		return
	}
	report := s.newAttempt()
	report.Number = a.Number
	report.StatusCode = a.Status
	report.Duration = a.Duration
	report.RequestID = requestID(a.Header)
	report.BytesSent = a.BytesSent
	report.BytesReceived = a.BytesReceived
	report.Err = s.op.downloadError(a.Err)
	if a.Unfinished() {
		report.Err = errUnfinished
	}
	report.ErrorType = errorType(ctx, report.Err)
	mayHaveActed := s.op.effect != exchange.Reads && a.Unknown()
	report.OutcomeUnknown = report.Err != nil && mayHaveActed
	if !s.usesStorage() {
		report.RateLimitRemaining = rateLimitRemaining(a.Header)
		report.RateLimitWait = a.LimitedFor
	}
	s.reportEnd(ctx, report)
}

// reportNotSent reports an attempt that ended before its request was sent. An err of nil stands for a panic, which the
// end of the call reports: the hook itself may have panicked.
func (s *scope) reportNotSent(ctx context.Context, err error) {
	if err == nil || !s.hasObserver() {
		return
	}
	report := s.newAttempt()
	if s.client.hooks.AttemptStart != nil {
		fromHook, _ := s.client.hooks.AttemptStart(ctx, report)
		ctx = withValues(ctx, fromHook)
	}
	report.Err = err
	report.ErrorType = errorType(ctx, err)
	s.reportEnd(ctx, report)
}

// hasObserver reports whether a hook or a logger wants to know of attempts.
func (s *scope) hasObserver() bool {
	hooks := &s.client.hooks
	if hooks.AttemptStart != nil || hooks.AttemptEnd != nil {
		return true
	}
	return s.client.logger != nil
}

// reportEnd logs the end of an attempt and calls its hook, even if the logger panics.
func (s *scope) reportEnd(ctx context.Context, report Attempt) {
	if hook := s.client.hooks.AttemptEnd; hook != nil {
		defer hook(ctx, report)
	}
	if logger := s.client.logger; logger != nil {
		level := slog.LevelDebug
		if report.Err != nil {
			level = slog.LevelWarn
		}
		message := "clinicaldoc attempt"
		if report.RateLimitWait > 0 {
			message = "clinicaldoc attempt: waiting for the service's rate limit"
		}
		logger.LogAttrs(ctx, level, message, report.LogValue().Group()...) //nolint:sloglint // one of two constants
	}
}

// newAttempt returns a report with the fields that all attempts of the current request share.
func (s *scope) newAttempt() Attempt {
	report := Attempt{Operation: s.name, Method: s.op.method, Route: s.op.route, RateLimitRemaining: -1}
	if !s.usesStorage() { // the host of storage is not reported
		server := s.client.baseURL
		report.ServerAddress = server.Hostname()
		report.ServerPort, _ = strconv.Atoi(exchange.Port(server))
	}
	return report
}

// valid reports whether both headers can be sent: traceparent has a length and characters of W3C Trace Context, and
// tracestate, which may be empty, can be the value of a header.
func (t TraceContext) valid() bool {
	const (
		minTraceparent = 55  // that of version 00
		maxTraceparent = 128 // room for later versions
		maxTracestate  = 512 // what every recipient has to accept
	)
	switch length := len(t.Traceparent); {
	case length < minTraceparent, length > maxTraceparent, len(t.Tracestate) > maxTracestate:
		return false
	case strings.Trim(t.Traceparent, "0123456789abcdef-") != "":
		return false
	}
	return redact.IsHeaderValue(t.Tracestate)
}

// withValues returns ctx with the values of the context that a hook returned. It returns ctx itself if that context is
// nil, or has another httptrace, which would see headers.
func withValues(ctx, fromHook context.Context) context.Context {
	if fromHook == nil || httptrace.ContextClientTrace(fromHook) != httptrace.ContextClientTrace(ctx) {
		return ctx
	}
	return valuesContext{ctx, fromHook}
}

// valuesContext takes its values from another context than its deadline and cancellation.
type valuesContext struct {
	context.Context

	values context.Context
}

func (c valuesContext) Value(key any) any { return c.values.Value(key) }

// errorTypes are the values of Call.ErrorType for errors that are more specific than a status.
var errorTypes = []struct {
	err  error
	word string
}{
	{errUnfinished, "panic"},
	{ErrNotAudited, "not_audited"},
	{ErrPatientMismatch, "patient_mismatch"},
	{ErrIncompleteList, "incomplete_list"},
	{ErrNoteIncomplete, "note_incomplete"},
	{ErrProcessingFailed, "processing_failed"},
	{ErrNotCreated, "not_created"},
	{ErrAudioChanged, "audio_changed"},
	{ErrSizeMismatch, "size_mismatch"},
}

// errorType returns the value of Call.ErrorType for the error of a call with this context.
func errorType(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		if errors.Is(ended, context.Canceled) {
			return "canceled"
		}
		return "deadline_exceeded"
	}
	for _, known := range errorTypes {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	if _, conflict := errors.AsType[*ConflictError](err); conflict {
		return "conflict"
	}
	own, isOwn := errors.AsType[*callError](err)
	if isOwn && own.errorType != "" {
		return own.errorType
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		return strconv.Itoa(refused.StatusCode)
	}
	isTransient := isOwn && own.transient
	return failureType(err, isTransient)
}

// failureType returns the value of Call.ErrorType for an error without a status. A transient error of this package
// means that there was no response.
func failureType(err error, transient bool) string {
	network := redact.Kind(err)
	switch {
	case errors.Is(err, ErrStalled):
		return "stalled"
	case errors.Is(err, ErrUnexpectedResponse):
		return "unexpected_response"
	case network != "":
		return network
	case transient:
		return "no_response"
	case errors.Is(err, ErrInvalidArgument):
		return "invalid_argument"
	case errors.Is(err, ErrOutcomeUnknown):
		return "outcome_unknown"
	}
	return "_OTHER"
}
