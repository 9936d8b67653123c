package clinicaldoc

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/download"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// do is the one way a service method reaches the service: attempts where those are safe, then a typed error, which says so if
// the request may have been carried out all the same, or the decoded response. What decode passed over is logged.
func do[T any](ctx context.Context, s *scope, op *operation, path string, decode func(response []byte) (*T, []string, error)) (*T, error) {
	s.op = op
	s.sent.Path = path
	if ended := redact.ContextErr(ctx); ended != nil {
		err := &callError{op: op, detail: "not sent: " + redact.Cause(ended), causes: []error{ended}}
		s.refused(ctx, err)
		return nil, err
	}
	result, err := s.newCall().Do(ctx)
	defer result.Release()
	s.options.response.fill(result)
	if s.options.trail != nil {
		s.heard(result, err)
	}
	if op.effect == exchange.Creates || op.route == getUser.route { // whoever loses a response has to know the clocks
		s.client.creates.SawClock(result.Last.Header, time.Now())
	}
	switch {
	case err != nil && s.alreadyDeleted(result, err):
		return new(T), nil
	case err != nil:
		return nil, s.wrapUnknown(result, s.explainStop(ctx, result, err))
	}
	value, unreadable, err := decode(result.Last.Body)
	if err != nil {
		return nil, s.wrapUnknown(result, s.unexpected(result.Last, err))
	}
	if logger := s.client.logger; len(unreadable) > 0 && logger != nil {
		logger.WarnContext(ctx, "clinicaldoc: members of the response cannot be read and count as absent", "operation", op.name, "members", unreadable)
	}
	return value, nil
}

// operation names an endpoint and what calling it twice would do.
type operation struct {
	name, method, route string
	effect              exchange.Effect
}

const errAlreadyDone = redact.Text("an earlier attempt has done it")

// path is that of the operation on one record, or on none if the route has no place for it.
func (op *operation) path(id int64) (string, error) {
	before, after, found := strings.Cut(op.route, "{id}")
	if !found {
		return op.route, nil
	}
	return before + strconv.FormatInt(id, 10) + after, checkID(op.name, id)
}

func checkID(name string, id int64) error {
	if id < 1 {
		return invalid(name+": id", "%d is not a valid id; ids start at 1", id)
	}
	return nil
}

// newCall makes the call for the request, in one object with the scope.
func (s *scope) newCall() *exchange.Request {
	c, options := s.client, &s.options
	call := &s.sent // whose path, and body if it has one, the method gave it
	call.Peer, call.Caller, call.Method, call.Effect = c.peer, s, s.op.method, s.op.effect
	call.URL, call.Query = c.baseURL, options.query.Encode()
	call.Header, call.Authorization = options.header, options.authorization
	if options.authorization == nil {
		call.Authorization, call.Renew = c.token, c.renew
	}
	if !options.noRetry && !options.once {
		call.MaxRetries = c.maxRetries
	}
	call.Impatient = options.noRetry || c.maxRetries == 0
	return call
}

// BeforeRetry implements [exchange.Caller].
func (s *scope) BeforeRetry(ctx context.Context, lost *exchange.Attempt) error {
	if s.edit == nil {
		return nil
	}
	return s.edit.beforeRetry(ctx, lost)
}

// Explain implements [exchange.Caller]. Why the attempt before failed is not forgotten when nothing was sent after it.
func (s *scope) Explain(a, before *exchange.Attempt) error {
	if s.storage() {
		return download.Explain(a)
	}
	switch a.Step {
	case exchange.Content:
		if errors.Is(a.Cause, exchange.ErrStatus) {
			return s.statusError(a)
		}
		return s.unexpected(a, a.Cause)
	case exchange.Held:
		detail := "not sent: waiting for the end of a limit of the service: " + redact.Cause(a.Cause)
		return &callError{op: s.op, detail: detail, kind: "rate_limit", causes: []error{before.Err, a.Cause}}
	case exchange.Limit, exchange.Authorize:
		detail, kind := "not sent: the limiter refused", "limiter"
		if errors.Is(a.Cause, context.Canceled) || errors.Is(a.Cause, context.DeadlineExceeded) {
			detail = "not sent: waiting for the limiter"
		}
		if a.Step == exchange.Authorize {
			detail, kind = "not sent: the token source failed", "token_source"
		}
		return &callError{op: s.op, detail: detail + reason(a.Cause), kind: kind, causes: []error{a.Cause, before.Err}}
	case exchange.Source:
		what := "audio"
		if s.op.name == doName {
			what = "body"
		}
		return s.noResponse("the "+what+" could not be read: "+redact.Cause(a.Cause), what+"_source", a)
	case exchange.Commit:
		return &callError{op: s.op, detail: "ended before its last bytes were sent, as BeforeCommit wanted" + reason(a.Cause), kind: "before_commit", causes: []error{a.Cause, a.Ended}}
	case exchange.Context:
		return s.noResponse(redact.Cause(a.Cause), "", a)
	case exchange.None, exchange.Network: // below; nothing has failed in the first
	}
	return s.noResponse(s.explainTransport(a), "", a)
}

// explainTransport says why the transport failed, or that it is the caller's own and has words that cannot be printed here.
func (s *scope) explainTransport(a *exchange.Attempt) string {
	detail := redact.Cause(a.Cause)
	standard, ok := s.client.peer.Transport.(*http.Transport)
	switch {
	case redact.Known(a.Cause):
	case !ok:
		detail = "the transport given to WithHTTPClient failed: it " + detail + ", which errors.As finds"
	case standard.Proxy != nil && a.Sent == exchange.Never:
		detail = "the proxy in between refused the connection in words of its own; does it let this host through, and reach it?"
	}
	switch {
	case a.Sent == exchange.Partly && exchange.Reset(a.Cause): // only a reset shows that it was the server's will
		detail = "the connection ended within the upload, which often means that the server refuses it (size, token): " + detail
	case a.Sent == exchange.Partly:
		detail = "the connection ended within the upload: " + detail
	}
	return detail
}

func (s *scope) noResponse(detail, kind string, a *exchange.Attempt) error {
	return &callError{op: s.op, detail: "no response: " + detail, kind: kind, causes: []error{a.Cause}, transient: !a.Permanent || disk.Limited(a.Cause)}
}

// reason prints an error of the caller's only where its text is known to be harmless.
func reason(err error) string {
	_, safe := redact.SafeText(err)
	if safe || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ": " + redact.Cause(err)
	}
	return ""
}

// statusError turns a response that is no success into an *Error.
func (s *scope) statusError(a *exchange.Attempt) error {
	e := &Error{
		StatusCode: a.Status, RequestID: requestID(a.Header), RetryAfter: exchange.RetryAfter(a.Header, time.Now()),
		Operation: s.op.name, Method: s.op.method, Route: s.op.route,
	}
	decodeErrorBody(a.Body, e)
	e.explain(a.Header, a.Body, s.client.baseURL, s.sent.Body == nil)
	return e
}

// unexpected reports a 2xx response that is not what was promised.
func (s *scope) unexpected(a *exchange.Attempt, cause error) error {
	return &callError{
		op: s.op, requestID: requestID(a.Header),
		detail: unexpectedText(s.client.baseURL, a.Status, a.Header.Get("Content-Type"), a.Body, cause),
		causes: []error{ErrUnexpectedResponse, cause},
	}
}

// explainStop explains a call if it ended between two attempts.
func (s *scope) explainStop(ctx context.Context, result *exchange.Result, err error) error {
	last := result.Last.Err
	switch {
	case result.Stopped && ctx.Err() != nil: // the caller learns both that, and why the last attempt failed
		ended := redact.ContextErr(ctx)
		return &callError{op: s.op, detail: "gave up waiting to retry: " + redact.Cause(ended), causes: []error{ended, s.op.downloadError(last)}}
	case result.Stopped && last == nil:
		return &callError{op: s.op, detail: "not sent: " + redact.Cause(err), causes: []error{err}}
	}
	return err
}

// alreadyDeleted reports whether a DELETE, or the look before its retry, found nothing because an earlier attempt had done its work.
func (s *scope) alreadyDeleted(result *exchange.Result, err error) bool {
	if s.op.method != http.MethodDelete || !result.OutcomeUnknown {
		return false
	}
	status, ownToken := result.Last.Status, s.revokesItself
	return errors.Is(err, errAlreadyDone) || status == http.StatusNotFound || status == http.StatusGone || status == http.StatusUnauthorized && ownToken
}

// wrapUnknown says of a failed call that it may have been carried out all the same.
func (s *scope) wrapUnknown(result *exchange.Result, err error) error {
	switch {
	case !result.OutcomeUnknown || s.op.effect == exchange.Reads || errors.Is(err, errAlreadyDone):
		return err
	case s.op.effect == exchange.Creates:
		unknown := &OutcomeUnknownError{SentAt: result.Last.Started, LostAt: time.Now(), Err: err}
		if s.op == createNote && result.Last.Status/100 == 2 { // that is no note otherwise
			id, isNote := tolerant.FindID(result.Last.Body, "name", "created_at")
			unknown.NoteID = id
			unknown.kept.NoteIDUnproven = !isNote
		}
		return unknown
	}
	return maybeDone(err)
}

// requestID returns the id that the service or a proxy gave the request, if it is fit for a log line.
func requestID(h http.Header) string {
	for _, key := range []string{"X-Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id", "Cf-Ray"} {
		if id := h.Get(key); redact.IsIdentifier(id, 128, "-_.:=;/+") {
			return id
		}
	}
	return ""
}
