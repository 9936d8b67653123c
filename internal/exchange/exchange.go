// Package exchange makes one call to a server: it makes attempts until one succeeds or no further one is allowed. It
// handles HTTP, tokens and timeouts, and knows nothing of notes. go-retryablehttp drives the attempts. CONTRIBUTING.md
// describes the path of one request.
package exchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Peer is the server that calls go to, and what they share.
type Peer struct {
	Transport    http.RoundTripper
	Timeout      time.Duration               // of an attempt; 0: none
	Origin       *url.URL                    // redirects stay on it; nil: none is followed
	Limit        func(context.Context) error // nil: none
	UserAgent    string                      // empty: net/http's own
	StallTimeout time.Duration
	MaxBody      int64  // of a response
	Accept       string // the header of that name; empty: none
	CacheControl string // the header of that name, for requests without their own; empty: none
	MinWait      time.Duration
	MaxWait      time.Duration

	// MaxRetryAfter is the longest wait that the server may ask for. If Gate is not nil, all calls wait there for the
	// end of a limit of the server.
	MaxRetryAfter time.Duration
	Gate          *Gate
	Budget        Budget // for retries

	speaksHTTP2   atomic.Bool // or later, as a response showed: a connection without TLS does not show it
	speaksHTTP1   atomic.Bool // as a response showed
	ignoresExpect atomic.Bool // it was asked for 100 Continue and sent none: asking costs a second each time
}

// Request is one call: what to send, and what may follow. Do does not change it.
type Request struct {
	Peer       *Peer
	Method     string
	URL        *url.URL
	Path       string      // behind that of the URL
	Query      string      // instead of that of the URL, encoded
	Header     http.Header // in addition to those that every request has
	Body       *Body       // nil: none
	Effect     Effect
	MaxRetries int
	Impatient  bool // it is sent although the Gate is closed

	// Authorization returns the header of that name; nil: none is sent. After a 401, Renew returns another one. If
	// there is none, it returns the refused one, or nothing; nil: none is renewed. Both are functions, so no verb of
	// fmt can print a token.
	Authorization func(context.Context) (string, error)
	Renew         func(ctx context.Context, refused string) string

	Caller Caller
	Policy Policy // nil: responses are read into memory, and what follows is decided by effect, outcome and MaxRetries

	// Progress receives how many bytes of the body were sent. BeforeCommit runs before its last bytes are sent; an
	// error ends the call. Both run in the goroutine of Do.
	Progress     func(sent int64)
	BeforeCommit func(context.Context) error
}

// Result is what came of a call.
type Result struct {
	Last           *Attempt // its Number is how many were made
	OutcomeUnknown bool     // an attempt may have had its effect
	Stopped        bool     // its context, or the policy's Prepare, ended the call between two attempts
	tokenRenewed   bool     // Renew has returned another authorization, and the request is sent again with it
	wasCutBefore   bool     // an earlier attempt ended within the body

	buffer *bytes.Buffer // holds the response's body; nil: none was kept
	reader WatchedReader
}

// Caller makes a call. It is called for each attempt, and writes the errors of those that fail. Its methods run in the
// goroutine of Do, as those of the Policy do.
type Caller interface {
	// Begin is called when only sending remains. It may add to the header. It returns the context for all that follows.
	Begin(ctx context.Context, a *Attempt, header http.Header) context.Context
	// End is called once for each attempt, also if Begin was not called, or if the attempt panicked.
	End(ctx context.Context, a *Attempt)
	// Explain returns the error of a failed attempt, which Do returns and End finds in it. Before is the attempt before
	// it; before the first one, it has Number 0.
	Explain(a, before *Attempt) error
	// BeforeRetry is called before each retry, with the first attempt whose outcome is unknown, or else the last.
	// It may send requests. An error ends the call.
	BeforeRetry(ctx context.Context, a *Attempt) error
}

// Policy prepares the attempts of a call, takes their responses and decides what follows one.
type Policy interface {
	// Prepare is called before each attempt. It may make other calls, and change the request's URL and header. An error
	// ends the call.
	Prepare(req *http.Request) error
	// Receive reads the response without closing it, and returns how many bytes it had. An error that matches
	// [ErrUnusable] rejects a complete response; any other error means that it broke off. The context is the call's.
	Receive(ctx context.Context, resp *http.Response, watch Watch) (received int64, err error)
	// Next decides what may follow a failed attempt. It is called once after each.
	Next(a *Attempt) Next
}

// Next is what may follow a failed attempt.
type Next struct {
	Retry        bool // another attempt may be made
	WithoutPause bool // without a pause
	Failures     int  // in a row, for the length of the pause
}

// call is one call under way. As a transport it has no CloseIdleConnections: a failure leaves the caller's pool alone.
type call struct {
	*Request
	Result

	policy     Policy   // the request's own, or the default
	retriedFor *Attempt // what a retry is for: the first attempt whose outcome is unknown, or else the last attempt
	next       Next     // what the policy decided after the last attempt
	jitter     float64  // a random number from 0 to 1, which spreads the pauses of several calls

	failures      int   // attempts that failed, other than by a limit of the server
	limitRefusals int   // attempts in a row that the server refused because of a limit
	gateErr       error // why the call ended at the Gate; nil: it did not

	authorization string // of the last attempt, or of the next if it was renewed

	loop      retryablehttp.Client
	retryable retryablehttp.Request
	client    http.Client
	request   http.Request
}

var noAttempt Attempt // stands before the first attempt of every call; nothing is written to it

// Do makes attempts until one succeeds or no further one is allowed. It returns the error of the last attempt, which is
// nil for a success. If the call is stopped between two attempts, it returns the reason. The result is never nil, and
// must be released.
func (r *Request) Do(ctx context.Context) (*Result, error) {
	c := &call{Request: r, Result: Result{Last: &noAttempt}, jitter: Jitter(ctx)}
	request := &http.Request{
		Method: r.Method, URL: r.URL, Header: r.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	c.request = *request.WithContext(ctx)
	if r.Header == nil {
		c.request.Header = http.Header{} // without it net/http would copy the request
	}
	c.retryable.Request = &c.request
	c.policy = cmp.Or(r.Policy, Policy((*defaultPolicy)(c)))
	if err := c.policy.Prepare(&c.request); err != nil {
		c.Stopped = true
		return &c.Result, err
	}
	c.client = http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // an attempt has followed redirects where that is allowed
	}}
	c.loop = retryablehttp.Client{
		HTTPClient:   &c.client,
		RetryWaitMin: r.Peer.MinWait,
		RetryWaitMax: r.Peer.MaxWait,
		RetryMax:     math.MaxInt, // the policy counts
		CheckRetry:   c.checkRetry,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	_, err := c.loop.Do(&c.retryable) //nolint:bodyclose // the attempt has read and closed it
	if c.gateErr != nil {
		return &c.Result, c.gateErr
	}
	// net/http wraps the error of an attempt. BeforeRetry's error may wrap such an error of another call.
	_, attempted := err.(*url.Error) //nolint:errorlint // see above
	if err == nil || attempted {
		return &c.Result, c.Last.Err
	}
	c.Stopped = true
	return &c.Result, err
}

// checkRetry reports whether another attempt follows the one that returned the response or the error. The wait before
// it must be short enough for the policy and the context. It returns an error if only the context prevents a retry.
// An immediate attempt takes nothing from the budget for retries.
func (c *call) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	failed := c.failedAttempt(resp, err)
	if failed == nil {
		return false, nil
	}
	c.loop.Backoff = c.backoff // set only now, because a success needs neither
	c.loop.PrepareRetry = c.policy.Prepare
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		isRenewed := c.renew(ctx)
		if isRenewed {
			c.next = Next{Retry: true, WithoutPause: true}
			return true, nil
		}
	}
	c.next = c.policy.Next(failed)
	if !c.next.Retry {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if !c.waitFits(ctx, failed) {
		return false, nil
	}
	if c.startsImmediately(failed) {
		return true, nil
	}
	return c.Peer.Budget.Take(), nil
}

// failedAttempt returns the attempt that returned the response or the error. It returns nil if the attempt succeeded,
// and for a Location that net/http cannot read.
func (c *call) failedAttempt(resp *http.Response, err error) *Attempt {
	if resp == nil {
		failed, _ := errors.AsType[*Attempt](err) // RoundTrip returns the attempt itself as its error
		return failed
	}
	if c.Last.Err == nil {
		return nil
	}
	return c.Last
}

// waitFits reports whether the wait before the next attempt is short enough for the policy and the context.
func (c *call) waitFits(ctx context.Context, failed *Attempt) bool {
	if !c.next.WithoutPause && RetryAfter(failed.Header, time.Now()) > c.Peer.MaxRetryAfter {
		return false
	}
	wait := max(failed.LimitedFor, c.pause(failed))
	deadline, hasDeadline := ctx.Deadline()
	return !hasDeadline || time.Until(deadline) > wait
}

// backoff returns the pause before the next attempt. It has the signature that retryablehttp needs.
func (c *call) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration {
	return c.pause(c.Last)
}

// pause returns how long to wait after the failed attempt. The wait grows with the failures that the policy counts, not
// with the number of attempts.
func (c *call) pause(failed *Attempt) time.Duration {
	if c.startsImmediately(failed) {
		return 0
	}
	asked := RetryAfter(failed.Header, time.Now())
	return Backoff(c.next.Failures-1, c.Peer.MinWait, c.Peer.MaxWait, asked, c.jitter)
}

// startsImmediately reports whether the next attempt begins without a pause: the policy wants none, or the attempt
// waits at the Gate instead, because the server refused the failed one by a limit.
func (c *call) startsImmediately(failed *Attempt) bool {
	return c.next.WithoutPause || failed.LimitedFor > 0
}

// limitedFor returns how long no request is sent after the attempt. It is zero if the server did not refuse the attempt
// because of a limit, or asks for more than is allowed. A 503 is a limit only with Retry-After.
func (c *call) limitedFor(a *Attempt) time.Duration {
	unavailable := a.Status == http.StatusServiceUnavailable
	mayBeLimit := unavailable || a.Status == http.StatusTooManyRequests
	if c.Peer.Gate == nil || !mayBeLimit {
		return 0
	}
	asked := RetryAfter(a.Header, time.Now())
	if asked > c.Peer.MaxRetryAfter {
		return 0
	}
	if unavailable && asked == 0 { // a 503 without Retry-After
		return 0
	}
	wait := Backoff(c.limitRefusals, c.Peer.MinWait, c.Peer.MaxWait, asked, c.jitter)
	_, reportsRemaining := rateLimitRemaining(a.Header)
	if reportsRemaining && asked > 0 {
		wait += time.Second // a server that counts requests rounds Retry-After down to whole seconds
	}
	return wait
}

// renew gets another authorization after a 401, at most one per call. It reports whether there is one and the request
// can be sent again with it. Sending again is not a retry, because a server that refuses the token has not acted.
func (c *call) renew(ctx context.Context) bool {
	if c.Renew == nil || c.tokenRenewed {
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	fresh := c.Renew(ctx, c.authorization)
	if fresh == "" || fresh == c.authorization {
		return false
	}
	if !c.Body.replayable() { // asked only now, because Renew also tells the source that its token was refused
		return false
	}
	c.authorization = fresh
	c.tokenRenewed = true
	return true
}

// defaultPolicy is the policy of a call without its own. It asks the caller before a retry, reads responses into
// memory, and retries up to MaxRetries times what the effect of the request allows.
type defaultPolicy call

// Prepare calls BeforeRetry before each attempt except the first.
func (c *defaultPolicy) Prepare(req *http.Request) error {
	if c.Last == &noAttempt {
		return nil
	}
	return c.Caller.BeforeRetry(req.Context(), c.retriedFor)
}

// Receive reads the response into memory.
func (c *defaultPolicy) Receive(_ context.Context, resp *http.Response, watch Watch) (int64, error) {
	return c.read(resp, watch, c.Peer.MaxBody)
}

// Next allows MaxRetries retries. Refusals by a limit are counted separately, and start again with any other failure.
func (c *defaultPolicy) Next(a *Attempt) Next {
	var next Next
	if a.LimitedFor > 0 {
		c.limitRefusals++
		next.Failures = c.limitRefusals
	} else {
		c.limitRefusals = 0
		c.failures++
		next.Failures = c.failures
	}
	next.Retry = next.Failures <= c.MaxRetries && c.Effect.MayRetry(a.Outcome) && c.Body.replayable()
	isCutUpload := c.Effect == Creates && a.Sent == Partly
	if next.Retry && isCutUpload {
		next.Retry = !c.wasCutBefore // a server that cuts an upload often means to refuse it, so it is retried once
		c.wasCutBefore = true
	}
	return next
}
