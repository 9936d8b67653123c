package clinicaldoc

import (
	"context"
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

// Hooks learn when calls and their attempts begin and end, for traces and metrics; module otelclinicaldoc has them for
// OpenTelemetry. A nil field is not called. They are told words and numbers: no URL, id, header, body or error.
//
// Every method that talks to the service is a call. Some contain others: Wait, Watch, WaitAll, All and FindCreated consist
// of calls only, downloads and edits make some, and each read of a stream from storage is one, AudioStream.ReadAt. A call whose
// options are refused does not begin; one that is ranged over lasts as long as the range.
//
// Hooks run in the goroutine of the call, several at once. Who blocks in one holds up that call alone: its context counts, the
// stall timeout does not. A panic comes out of the call, whose ends are told all the same.
type Hooks struct {
	// CallStart is told that a call begins. The context that it returns is used for all that the call does, for its values
	// only: its end and its deadline stay the caller's, and one with an [httptrace.ClientTrace] is not used at all, since that
	// would see headers. Nil stands for the one that was given.
	CallStart func(ctx context.Context, call CallInfo) context.Context
	// AttemptStart is told that a request is about to be sent: limiter and token source are behind. The context that it
	// returns is used as that of CallStart, for this attempt.
	AttemptStart func(ctx context.Context, attempt AttemptInfo) (context.Context, TraceContext)
	// AttemptEnd is told what came of an attempt, once for each that began.
	AttemptEnd func(ctx context.Context, attempt AttemptInfo, result AttemptResult)
	// CallEnd is told what came of a call, once for each that began.
	CallEnd func(ctx context.Context, call CallInfo, result CallResult)
}

// CallInfo says which call it is.
type CallInfo struct {
	Operation string // the SDK's name of the method, such as "Notes.Get"
}

// AttemptInfo says which attempt of a call it is. An attempt to get a recording from storage has the route "storage" and no
// server: its address is a secret.
type AttemptInfo struct {
	Operation     string // of the call
	Method        string // HTTP method
	Route         string // path template, such as "/v1/progress-notes/{id}"
	ServerAddress string // host of the base URL; empty for storage
	ServerPort    int    // port of the base URL; 0 for storage
	Number        int    // 1 for the first attempt of a call; beyond that it is a retry
}

// AttemptResult says what came of an attempt.
type AttemptResult struct {
	StatusCode         int           // 0 when no response came
	Duration           time.Duration // from the beginning of the sending to the end of the response
	BytesSent          int64         // of the body
	BytesReceived      int64         // of the body
	RateLimitRemaining int           // as X-RateLimit-Remaining said; -1 when it was not told
	ErrorType          string        // empty for a success; see CallResult
	OutcomeUnknown     bool          // it failed, and the service may have carried it out all the same
}

// CallResult says what came of a call.
type CallResult struct {
	Attempts int           // of its own, not of the calls in it
	Duration time.Duration // since CallStart
	// ErrorType is empty for a success, else one of few words: the status of the response, such as "503"; "canceled" or
	// "deadline_exceeded" for the caller's context; "dns", "connect", "tls", "timeout", "stalled" or "no_response" for the
	// network; "unexpected_response", "incomplete_list", "patient_mismatch", "conflict", "note_incomplete",
	// "processing_failed", "not_created", "audio_changed" or "size_mismatch" for the error of that name;
	// "limiter", "token_source", "audio_source", "body_source", "before_commit", "file", "in_use" or "invalid_argument" for what failed on this side; "panic";
	// "outcome_unknown" where nothing else is known; "_OTHER". Of several errors that were yielded it is the first one's.
	ErrorType      string
	OutcomeUnknown bool // the error matches [ErrOutcomeUnknown]
}

// TraceContext is what the service is told of the trace that an attempt belongs to: the two headers of W3C Trace Context.
// They are sent to the base URL's origin only, never to storage. What is not of their form is not sent.
type TraceContext struct {
	Traceparent string
	Tracestate  string
}

// WithHooks calls the hooks for every call and attempt. Given twice, the last one counts.
func WithHooks(hooks Hooks) Option {
	return always(func(c *config) { c.hooks = hooks })
}

// scope is one call of a public method, from its door to its end: what its options say, and who learns of it.
type scope struct {
	client        *Client
	options       callOptions
	call          CallInfo
	started       time.Time
	attempts      int32 // that were sent
	revokesItself bool  // the token that is sent begins with the id of the one to revoke, as those of many services do
	yielded       error // the first that an iterator yielded
	zoneless      bool  // a time of the latest note came without a zone

	op   *operation       // of the latest request
	edit *edit            // asked before what may have been carried out is retried; nil: nobody. Its error, as errAlreadyDone, ends the call
	sent exchange.Request // the latest, but of storage
}

// storage reports whether the attempts go there.
func (s *scope) storage() bool { return s.op.route == downloadAudio.route }

const errUnfinished = redact.Text("the call was left by a panic")

// run is the door of a public method: its options are read, and hooks learn of its beginning and its end, also if it panics.
func run[T any](ctx context.Context, c *Client, name string, opts []CallOption, method func(context.Context, *scope) (T, error)) (value T, err error) {
	ctx, call, err := c.begin(ctx, name, opts)
	if err != nil {
		return value, err
	}
	err = errUnfinished // until the method returns
	defer func() { call.finish(ctx, err) }()
	return method(ctx, call)
}

// runOne is run for a method that is one request; the id matters where the route has one.
func runOne[T any](ctx context.Context, c *Client, op *operation, id int64, opts []CallOption, decode func([]byte) (*T, []string, error)) (*T, error) {
	return run(ctx, c, op.name, opts, func(ctx context.Context, call *scope) (*T, error) {
		path, err := op.path(id)
		if err != nil {
			return nil, err
		}
		return do(ctx, call, op, path, decode)
	})
}

type noteYield = func(*ProgressNote, error) bool

// ranged is run for a method that is ranged over, maybe more than once. The error of the body, if any, is yielded at its end.
func ranged(ctx context.Context, c *Client, name string, opts []CallOption, body func(context.Context, *scope, noteYield) error) iter.Seq2[*ProgressNote, error] {
	opts = slices.Clone(opts)
	return func(yield noteYield) {
		ctx, call, err := c.begin(ctx, name, opts)
		if err == nil {
			defer func() { call.finish(ctx, call.yielded) }()
			err = call.noted(body(ctx, call, yield))
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// begin reads a call's options and tells the hooks of its beginning. The context is for all that the call does.
func (c *Client) begin(ctx context.Context, name string, opts []CallOption) (context.Context, *scope, error) {
	call := &scope{client: c, call: CallInfo{Operation: name}}
	if err := call.options.read(name, opts); err != nil {
		return ctx, nil, err
	}
	if c.hooks.CallStart != nil {
		ctx = withValues(ctx, c.hooks.CallStart(ctx, call.call))
	}
	if c.header != nil {
		call.options.header = withDefaults(call.options.header, c.header())
	}
	call.started = time.Now()
	return ctx, call, nil
}

// finish tells the hooks what came of the call.
func (s *scope) finish(ctx context.Context, err error) {
	if s.client.hooks.CallEnd == nil {
		return
	}
	s.client.hooks.CallEnd(ctx, s.call, CallResult{
		Attempts: int(s.attempts), Duration: time.Since(s.started), ErrorType: errorType(ctx, err), OutcomeUnknown: errors.Is(err, ErrOutcomeUnknown),
	})
}

// noted is an error that is about to be yielded, the first of which is kept. To wrap yield instead would move it to the heap.
func (s *scope) noted(err error) error {
	if s.yielded == nil {
		s.yielded = err
	}
	return err
}

// Begin implements [exchange.Caller].
func (s *scope) Begin(ctx context.Context, a *exchange.Attempt, header http.Header) context.Context {
	s.attempts++
	if !s.storage() {
		authorization := header.Get("Authorization")
		s.options.sender.sends(authorization)
		s.revokesItself = s.op.route == revokeToken.route && strings.HasPrefix(authorization, bearerScheme+path.Base(s.sent.Path)+"|")
	}
	if s.client.hooks.AttemptStart == nil {
		return ctx
	}
	given, trace := s.client.hooks.AttemptStart(ctx, s.info(a))
	if trace.valid() && !s.storage() {
		header["Traceparent"] = []string{trace.Traceparent}
		delete(header, "Tracestate") // the caller's own belongs to another parent
		if trace.Tracestate != "" {
			header["Tracestate"] = []string{trace.Tracestate}
		}
	}
	return withValues(ctx, given)
}

// End implements [exchange.Caller]: one report of an attempt. The hooks learn only of what was sent, also if a panic ended it.
func (s *scope) End(ctx context.Context, a *exchange.Attempt) {
	config := &s.client.config
	if config.hooks.AttemptEnd == nil && config.observer == nil && config.logger == nil {
		return
	}
	report := Attempt{
		Operation: s.op.name, Method: s.op.method, Route: s.op.route, Number: a.Number, StatusCode: a.Status, Duration: a.Duration,
		RequestID: requestID(a.Header), BytesSent: a.BytesSent, BytesReceived: a.BytesReceived, Err: s.op.downloadError(a.Err),
	}
	defer func() { // whatever observer and logger do
		if a.Begun && config.hooks.AttemptEnd != nil {
			config.hooks.AttemptEnd(ctx, s.info(a), s.result(ctx, report, a))
		}
	}()
	if a.Unfinished() {
		return
	}
	if config.observer != nil {
		config.observer(ctx, report)
	}
	if config.logger != nil {
		level := slog.LevelDebug
		if report.Err != nil {
			level = slog.LevelWarn
		}
		config.logger.LogAttrs(ctx, level, "clinicaldoc attempt", report.LogValue().Group()...)
	}
}

// result is what hooks are told of the report.
func (s *scope) result(ctx context.Context, report Attempt, a *exchange.Attempt) AttemptResult {
	result := AttemptResult{
		StatusCode: report.StatusCode, Duration: report.Duration, BytesSent: report.BytesSent, BytesReceived: report.BytesReceived,
		RateLimitRemaining: -1, ErrorType: errorType(ctx, report.Err),
	}
	if !s.storage() {
		result.RateLimitRemaining = rateLimitRemaining(a.Header)
	}
	if a.Unfinished() {
		result.ErrorType = errorType(ctx, errUnfinished)
	}
	result.OutcomeUnknown = result.ErrorType != "" && s.op.effect != exchange.Reads && a.Unknown()
	return result
}

func (s *scope) info(a *exchange.Attempt) AttemptInfo {
	info := AttemptInfo{Operation: s.call.Operation, Method: s.op.method, Route: s.op.route, Number: a.Number}
	if server := s.client.baseURL; !s.storage() {
		info.ServerAddress = server.Hostname()
		info.ServerPort, _ = strconv.Atoi(exchange.Port(server))
	}
	return info
}

// valid reports whether the headers can be nothing else than trace context.
func (t TraceContext) valid() bool {
	return len(t.Traceparent) >= 55 && len(t.Traceparent) <= 128 && strings.Trim(t.Traceparent, "0123456789abcdef-") == "" &&
		len(t.Tracestate) <= 512 && redact.IsHeaderValue(t.Tracestate)
}

// withValues is ctx with the values of the context that a hook made of it.
func withValues(ctx, given context.Context) context.Context {
	if given == nil || httptrace.ContextClientTrace(given) != httptrace.ContextClientTrace(ctx) {
		return ctx
	}
	return valuesContext{ctx, given}
}

type valuesContext struct {
	context.Context

	values context.Context
}

func (c valuesContext) Value(key any) any { return c.values.Value(key) }

// errorTypes are the words for errors that say more than a status does.
var errorTypes = []struct {
	err  error
	word string
}{
	{errUnfinished, "panic"}, {ErrPatientMismatch, "patient_mismatch"}, {ErrIncompleteList, "incomplete_list"},
	{ErrNoteIncomplete, "note_incomplete"}, {ErrProcessingFailed, "processing_failed"}, {ErrNotCreated, "not_created"},
	{ErrAudioChanged, "audio_changed"}, {ErrSizeMismatch, "size_mismatch"},
}

// errorType is the word of CallResult.ErrorType for an error that a call ended with under the context.
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
	_, conflict := errors.AsType[*ConflictError](err)
	own, _ := errors.AsType[*callError](err)
	refused, _ := errors.AsType[*Error](err)
	switch network := redact.Kind(err); {
	case conflict:
		return "conflict"
	case own != nil && own.kind != "":
		return own.kind
	case refused != nil:
		return strconv.Itoa(refused.StatusCode)
	case errors.Is(err, ErrStalled):
		return "stalled"
	case errors.Is(err, ErrUnexpectedResponse):
		return "unexpected_response"
	case network != "":
		return network
	case own != nil && own.transient:
		return "no_response"
	case errors.Is(err, ErrInvalidArgument):
		return "invalid_argument"
	case errors.Is(err, ErrOutcomeUnknown):
		return "outcome_unknown"
	}
	return "_OTHER"
}
