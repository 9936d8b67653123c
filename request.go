package clinicaldoc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

// operation names an endpoint and what calling it twice would do.
type operation struct {
	name, method, route string
	effect              retry.Effect
}

// request is one call of an operation.
type request struct {
	op    operation
	path  string // under the base URL
	query url.Values
	body  payload // nil: none

	// settled is asked before a request whose outcome is unknown is repeated: true means that there is no point.
	settled func(context.Context) bool
	// unsure, when not nil, is set if the call fails although the service may have acted on it.
	unsure *bool
}

// withID makes a request for the operation on one record.
func (op operation) withID(id int64) (request, error) {
	if id < 1 {
		return request{}, invalid(op.name+": id", "%d is not a valid id; ids start at 1", id)
	}
	return request{op: op, path: strings.Replace(op.route, "{id}", strconv.FormatInt(id, 10), 1)}, nil
}

// do is the one way a request leaves and an answer comes back. In this order:
//
//  1. check the arguments: the service method's own, then the call options and the context;
//  2. build the request under the base URL's path, with its headers;
//  3. send it, again where that is safe (exchange.send). Each attempt (exchange.RoundTrip) waits for the limiter, asks
//     for the token, sends, reads the answer up to the limit, and tells observer and logger;
//  4. turn a non-2xx answer or a failure into a typed error, or decode the answer; what does not decode is an error too.
func do[T any](ctx context.Context, c *Client, r request, opts []CallOption, decode func(answer []byte) (*T, error)) (*T, error) {
	x, err := c.newExchange(ctx, r, opts)
	if err != nil {
		return nil, err
	}
	defer x.release()
	if err := x.send(); err != nil {
		return nil, x.outcomeError(err)
	}
	if x.options.answered != nil {
		x.options.answered()
	}
	value, err := decode(x.answer.body)
	if err != nil {
		return nil, x.outcomeError(x.unexpected(err))
	}
	return value, nil
}

// exchange carries one call from its first attempt to its end. Its state is that of the latest attempt.
type exchange struct {
	client  *Client
	ctx     context.Context
	request request
	options callOptions

	attempts int
	started  time.Time     // of the latest attempt
	answer   answer        // zero when none came
	outcome  retry.Outcome // decides whether to repeat
	err      error         // nil after a 2xx
	earlier  error         // of the attempt before
	wait     time.Duration // before the next attempt

	buffer   *bytes.Buffer // holds the answer's body
	unknown  bool          // an attempt before the latest may have taken effect
	restarts int           // attempts cut within a create's body
}

// answer is what came back. Its body is valid until the exchange is released.
type answer struct {
	status    int
	header    http.Header
	requestID string
	body      []byte
}

func (c *Client) newExchange(ctx context.Context, r request, opts []CallOption) (*exchange, error) {
	options, err := newCallOptions(opts)
	if err != nil {
		return nil, err
	}
	if err := redact.ContextErr(ctx); err != nil {
		return nil, &callError{op: r.op, detail: "not sent: " + redact.Cause(err), causes: []error{err}}
	}
	return &exchange{client: c, ctx: ctx, request: r, options: options}, nil
}

// send makes attempts until one succeeds or none may follow. Of retryablehttp only the loop is used: what is repeated,
// when, and what a failure means is decided here, and bodies never pass through it.
func (x *exchange) send() error {
	c := x.client
	req, err := http.NewRequestWithContext(x.ctx, x.request.op.method, c.base, http.NoBody)
	if err != nil {
		return invalid(x.request.op.name, "%s", redact.Cause(err))
	}
	req.URL.Path += x.request.path
	req.URL.RawQuery = x.encodedQuery()

	loop := retryablehttp.Client{
		// As a transport the exchange has no CloseIdleConnections, so that a failure leaves the pool alone.
		HTTPClient:   &http.Client{Transport: x, Timeout: c.config.httpClient.Timeout},
		RetryMax:     c.config.retry.MaxRetries,
		CheckRetry:   x.mayRepeat,
		Backoff:      x.backoff,
		PrepareRetry: x.beforeRepeat,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	if x.options.noRetry {
		loop.RetryMax = 0
	}
	resp, loopErr := loop.Do(&retryablehttp.Request{Request: req})
	if resp != nil {
		_ = resp.Body.Close() // read already; closed for form's sake
	}
	x.fillResponse()
	switch {
	case x.err == nil && x.attempts > 0:
		return nil
	case x.deleted():
		x.answer.body = nil
		return nil
	case x.ctx.Err() != nil && !errors.Is(x.err, x.ctx.Err()):
		// The context ended between two attempts: the caller learns both that and why the last attempt failed.
		ended := redact.ContextErr(x.ctx)
		return &callError{op: x.request.op, detail: "gave up waiting to repeat: " + redact.Cause(ended), causes: []error{ended, x.err}}
	case x.err == nil:
		return &callError{op: x.request.op, detail: "not sent: " + redact.Cause(loopErr), causes: []error{loopErr}}
	}
	return x.err
}

// mayRepeat is the retry decision: by effect and outcome, and only when the wait fits.
func (x *exchange) mayRepeat(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	over := x.err == nil || ctx.Err() != nil
	if over || !x.request.op.effect.MayRepeat(x.outcome) {
		return false, nil
	}
	if x.request.body != nil && !x.request.body.replayable() {
		return false, nil
	}
	if x.request.op.effect == retry.Creates && x.outcome.Status == 0 && x.outcome.Sent == retry.Partly {
		// A server that cuts an upload often means to refuse it; one more try tells.
		if x.restarts++; x.restarts > 1 {
			return false, nil
		}
	}
	policy := x.client.config.retry
	after := retry.After(x.answer.header.Get("Retry-After"), time.Now())
	if after > policy.MaxWait {
		return false, nil
	}
	x.wait = retry.Backoff(x.attempts-1, policy.MinWait, policy.MaxWait, after)
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) > x.wait, nil
}

func (x *exchange) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return x.wait }

var errSettled = errors.New("settled")

func (x *exchange) beforeRepeat(*http.Request) error {
	if !x.outcome.NotProcessed() {
		x.unknown = true
		if x.request.settled != nil && x.request.settled(x.ctx) {
			return errSettled
		}
	}
	return nil
}

// deleted reports whether a repeated DELETE found nothing because an earlier attempt had done its work.
func (x *exchange) deleted() bool {
	return x.unknown && x.request.op.method == http.MethodDelete && x.outcome.Status == http.StatusNotFound
}

// outcomeError marks the failure of a request that must not be repeated and may have been carried out.
func (x *exchange) outcomeError(err error) error {
	if x.request.unsure != nil {
		*x.request.unsure = x.unknown || !x.outcome.NotProcessed()
	}
	if x.request.op.effect != retry.Creates || x.attempts == 0 || x.outcome.NotProcessed() {
		return err
	}
	return &OutcomeUnknownError{SentAt: x.started, Err: err, lostAt: time.Now()}
}

// unexpected reports a 2xx answer that is not what was promised.
func (x *exchange) unexpected(cause error) error {
	return &callError{
		op: x.request.op, requestID: x.answer.requestID,
		detail: unexpectedText(x.answer.status, x.answer.header.Get("Content-Type"), x.answer.body, cause),
		causes: []error{ErrUnexpectedResponse, cause},
	}
}

func (x *exchange) encodedQuery() string {
	if len(x.options.query) == 0 {
		return x.request.query.Encode()
	}
	query := url.Values{}
	for _, values := range []url.Values{x.request.query, x.options.query} {
		for key, list := range values {
			query[key] = append(query[key], list...)
		}
	}
	return query.Encode()
}

func (x *exchange) fillResponse() {
	r := x.options.response
	if r == nil {
		return
	}
	*r = Response{
		StatusCode: x.answer.status,
		Header:     x.answer.header.Clone(),
		RequestID:  x.answer.requestID,
		RateLimit:  parseRateLimit(x.answer.header),
		Attempts:   x.attempts,
		Body:       bytes.Clone(x.answer.body),
	}
}

func parseRateLimit(h http.Header) RateLimit {
	var r RateLimit
	r.Limit, _ = strconv.Atoi(h.Get("X-RateLimit-Limit"))
	r.Remaining, _ = strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	if unix, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		r.Reset = time.Unix(unix, 0).UTC()
	}
	return r
}

// release gives the buffer back. The answer's body is not valid afterwards.
func (x *exchange) release() {
	if x.buffer != nil {
		buffers.giveBack(x.buffer)
	}
	x.buffer = nil
}
