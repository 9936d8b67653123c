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

// do sends the request of a service method, with retries where they are safe. It returns the decoded response or a
// typed error, which also matches ErrOutcomeUnknown if the request may have been carried out. It logs the members that
// decode could not read.
func do[T any](
	ctx context.Context, s *scope, op *operation, path string, decode func(response []byte) (*T, []string, error),
) (*T, error) {
	s.op = op
	s.request.Path = path
	if ended := redact.ContextErr(ctx); ended != nil {
		err := &callError{op: op, detail: "not sent: " + redact.Cause(ended), causes: []error{ended}}
		s.reportNotSent(ctx, err)
		return nil, err
	}
	result, err := s.newCall().Do(ctx)
	defer result.Release()
	s.options.response.fill(result)
	if s.options.trail != nil {
		s.recordResponse(result, err)
	}
	if op.effect == exchange.Creates || op.route == getUser.route { // a lost create needs how the clocks compare
		s.client.creates.SawClock(result.Last.Header, time.Now())
	}
	if err != nil {
		if s.alreadyDeleted(result, err) {
			return new(T), nil
		}
		return nil, s.wrapUnknown(result, s.explainStop(ctx, result, err))
	}
	value, unreadable, err := decode(result.Last.Body)
	if err != nil {
		return nil, s.wrapUnknown(result, s.unexpected(result.Last, err))
	}
	if logger := s.client.logger; len(unreadable) > 0 && logger != nil {
		logger.WarnContext(ctx, "clinicaldoc: members of the response cannot be read and count as absent",
			"operation", op.name, "members", unreadable)
	}
	return value, nil
}

// operation is an endpoint: its name, its request, and the effect of a call.
type operation struct {
	name, method, route string
	effect              exchange.Effect
}

const errAlreadyDone = redact.Text("an earlier attempt succeeded")

// path returns the path of the operation on the record with the ID. It ignores the ID if the route has none.
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

// newCall returns the scope's request, completed from the operation, the options and the client. Its path and body are
// already set.
func (s *scope) newCall() *exchange.Request {
	client := s.client
	options := &s.options
	request := &s.request
	request.Peer = client.peer
	request.Caller = s
	request.Method = s.op.method
	request.Effect = s.op.effect
	request.URL = client.baseURL
	request.Query = options.query.Encode()
	request.Header = options.header
	request.Authorization = options.authorization
	if options.authorization == nil {
		request.Authorization = client.token
		request.Renew = client.renew
	}
	if !options.noRetry && !options.sendOnce {
		request.MaxRetries = client.maxRetries
	}
	// A call that never retries does not wait for a limit either; sendOnce does.
	request.Impatient = options.noRetry || client.maxRetries == 0
	return request
}

// BeforeRetry implements [exchange.Caller]. Only edits have something to do before a retry.
func (s *scope) BeforeRetry(ctx context.Context, lost *exchange.Attempt) error {
	if s.edit == nil {
		return nil
	}
	return s.edit.beforeRetry(ctx, lost)
}

// Explain implements [exchange.Caller]. It returns the error of a failed attempt. If the attempt was not sent, its
// error also matches the error of the attempt before, which is the reason for this one. The argument before is never
// nil; its Err is nil for the first attempt.
func (s *scope) Explain(a, before *exchange.Attempt) error {
	if s.usesStorage() {
		return download.Explain(a)
	}
	switch a.Step {
	case exchange.Content:
		if errors.Is(a.Cause, exchange.ErrStatus) {
			return s.statusError(a)
		}
		return s.unexpected(a, a.Cause)
	case exchange.GateWait:
		detail := "not sent: the call ended while waiting for the service's rate limit: " + redact.Cause(a.Cause)
		return &callError{op: s.op, detail: detail, errorType: "rate_limit", causes: []error{before.Err, a.Cause}}
	case exchange.Limit:
		detail := "the limiter refused"
		if isContextEnd(a.Cause) {
			detail = "waiting for the limiter"
		}
		return s.notSent(detail, "limiter", a, before)
	case exchange.Authorize:
		return s.notSent("the token source failed", "token_source", a, before)
	case exchange.Source:
		what := "audio"
		if s.op.name == doName {
			what = "body"
		}
		return s.noResponse("the "+what+" could not be read: "+redact.Cause(a.Cause), what+"_source", a)
	case exchange.Commit:
		detail := "canceled by BeforeCommit before the request was complete" + reason(a.Cause)
		return &callError{op: s.op, detail: detail, errorType: "before_commit", causes: []error{a.Cause, a.ContextErr}}
	case exchange.Context:
		return s.noResponse(redact.Cause(a.Cause), "", a)
	case exchange.None, exchange.Network: // None does not occur, because the attempt has failed
	}
	return s.noResponse(s.explainTransport(a), "", a)
}

// explainTransport describes why the transport failed. The error of a caller's transport may have a text that must not
// be printed.
func (s *scope) explainTransport(a *exchange.Attempt) string {
	detail := redact.Cause(a.Cause)
	standard, isStandard := s.client.peer.Transport.(*http.Transport)
	switch {
	case redact.Known(a.Cause): // its text can be printed
	case !isStandard:
		detail = "the transport passed to WithHTTPClient failed: it " + detail + ", which errors.As finds"
	case standard.Proxy != nil && a.Sent == exchange.Never:
		detail = "a proxy refused the connection with an unknown text; " +
			"check that it allows this host and can reach it"
	}
	if a.Sent != exchange.Partly {
		return detail
	}
	ended := "the connection ended during the upload"
	if exchange.Reset(a.Cause) { // only a reset shows that the server closed the connection
		ended += ", which often means that the server refuses it (size, token)"
	}
	return ended + ": " + detail
}

// notSent returns the error of an attempt that failed before its request was sent.
func (s *scope) notSent(detail, errorType string, a, before *exchange.Attempt) error {
	detail = "not sent: " + detail + reason(a.Cause)
	return &callError{op: s.op, detail: detail, errorType: errorType, causes: []error{a.Cause, before.Err}}
}

// noResponse returns the error of an attempt that got no response.
func (s *scope) noResponse(detail, errorType string, a *exchange.Attempt) error {
	return &callError{
		op: s.op, detail: "no response: " + detail, errorType: errorType, causes: []error{a.Cause},
		transient: !a.Permanent || disk.Limited(a.Cause),
	}
}

// reason returns the text of a caller's error, after a colon, if the text is known to be harmless; otherwise "".
func reason(err error) string {
	_, safe := redact.SafeText(err)
	if safe || isContextEnd(err) {
		return ": " + redact.Cause(err)
	}
	return ""
}

func isContextEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// statusError returns the *Error for a response with a status other than 2xx.
func (s *scope) statusError(a *exchange.Attempt) error {
	e := &Error{
		StatusCode: a.Status,
		RequestID:  requestID(a.Header),
		RetryAfter: exchange.RetryAfter(a.Header, time.Now()),
		Operation:  s.op.name,
		Method:     s.op.method,
		Route:      s.op.route,
	}
	decodeErrorBody(a.Body, e)
	e.explain(a.Header, a.Body, s.client.baseURL, s.request.Body != nil)
	return e
}

// unexpected returns the error for a 2xx response that is not what the service describes.
func (s *scope) unexpected(a *exchange.Attempt, cause error) error {
	return &callError{
		op: s.op, requestID: requestID(a.Header),
		detail: unexpectedText(s.client.baseURL, a.Status, a.Header.Get("Content-Type"), a.Body, cause),
		causes: []error{ErrUnexpectedResponse, cause},
	}
}

// explainStop explains the error of a call that ended between two attempts. If the context ended, the error matches
// that and the error of the last attempt.
func (s *scope) explainStop(ctx context.Context, result *exchange.Result, err error) error {
	if !result.Stopped {
		return err
	}
	last := result.Last.Err
	if ctx.Err() != nil {
		ended := redact.ContextErr(ctx)
		detail := "gave up waiting to retry: " + redact.Cause(ended)
		return &callError{op: s.op, detail: detail, causes: []error{ended, s.op.downloadError(last)}}
	}
	if last == nil {
		return &callError{op: s.op, detail: "not sent: " + redact.Cause(err), causes: []error{err}}
	}
	return err
}

// alreadyDeleted reports whether a DELETE, or the read before its retry, found nothing because an earlier attempt was
// carried out.
func (s *scope) alreadyDeleted(result *exchange.Result, err error) bool {
	if s.op.method != http.MethodDelete || !result.OutcomeUnknown {
		return false
	}
	if errors.Is(err, errAlreadyDone) {
		return true
	}
	switch result.Last.Status {
	case http.StatusNotFound, http.StatusGone:
		return true
	case http.StatusUnauthorized:
		return s.revokesOwnToken
	}
	return false
}

// wrapUnknown makes the error of a failed call match ErrOutcomeUnknown if the call may have been carried out. For a
// create, it is an OutcomeUnknownError. Other errors are returned unchanged.
func (s *scope) wrapUnknown(result *exchange.Result, err error) error {
	switch {
	case !result.OutcomeUnknown, s.op.effect == exchange.Reads, errors.Is(err, errAlreadyDone):
		return err
	case s.op.effect == exchange.Creates:
		unknown := &OutcomeUnknownError{SentAt: result.Last.Started, LostAt: time.Now(), Err: err}
		if s.op == createNote && result.Last.Status/100 == 2 {
			id, isNote := tolerant.FindID(result.Last.Body, "name", "created_at")
			unknown.NoteID = id
			unknown.details.NoteIDUnproven = !isNote
		}
		return unknown
	}
	return withUnknownOutcome(err)
}

// requestID returns the ID that the service or a proxy gave the request, if it is safe to log; otherwise "".
func requestID(h http.Header) string {
	for _, key := range []string{"X-Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id", "Cf-Ray"} {
		if id := h.Get(key); redact.IsIdentifier(id, 128, "-_.:=;/+") {
			return id
		}
	}
	return ""
}
