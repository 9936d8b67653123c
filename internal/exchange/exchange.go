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
	CacheControl string // likewise, where the request has none of its own
	MinWait      time.Duration
	MaxWait      time.Duration

	// MaxRetryAfter is the longest wait that the server may ask for. If Gate is not nil, all calls wait there for the
	// end of a limit of the server.
	MaxRetryAfter time.Duration
	Gate          *Gate
	Budget        Budget // for retries

	multiplexes   atomic.Bool // it speaks HTTP/2 or later, which a connection without TLS does not show
	single        atomic.Bool // it was seen to speak HTTP/1
	ignoresExpect atomic.Bool // it was asked for 100 Continue and gave none: asking costs a second each time
}

// Request is one call: what to send, and what may follow. Do does not change it.
type Request struct {
	Peer       *Peer
	Method     string
	URL        *url.URL
	Path       string      // behind that of the URL
	Query      string      // instead of that of the URL, encoded
	Header     http.Header // beside those that every request has
	Body       *Body       // nil: none
	Effect     Effect
	MaxRetries int
	Impatient  bool // it is sent although the Gate is closed

	// Authorization gives the header of that name, and Renew another one after a 401 to the given one: that one again,
	// or nothing, if there is none. Functions, so that no verb of fmt can reach a token. Nil: none is sent, none is
	// renewed.
	Authorization func(context.Context) (string, error)
	Renew         func(ctx context.Context, refused string) string

	Caller Caller
	Policy Policy // nil: responses are read into memory, and what follows is decided by effect, outcome and MaxRetries

	// Progress is given how many bytes of the body have left, BeforeCommit runs before its last bytes do; an error of
	// it ends the call. Both run in the goroutine of Do.
	Progress     func(sent int64)
	BeforeCommit func(context.Context) error
}

// Result is what came of a call.
type Result struct {
	Last           *Attempt // its Number is how many were made
	OutcomeUnknown bool     // an attempt may have had its effect
	Stopped        bool     // its context, or the policy's Prepare, ended it between two attempts
	renewed        bool     // the authorization was
	cut            bool     // an attempt ended within the body

	buffer *bytes.Buffer // holds the response's body; nil: none was kept
	reader WatchedReader
}

// Caller is who makes a call: it learns of each attempt, and has the words for those that fail. As the Policy it runs
// in the goroutine of Do.
type Caller interface {
	// Begin comes when only sending remains. It may add to the header, and returns the context for all that follows.
	Begin(ctx context.Context, a *Attempt, header http.Header) context.Context
	// End comes once for each attempt, also for one without Begin, or with a panic in it.
	End(ctx context.Context, a *Attempt)
	// Explain turns a failed attempt into the error that Do returns and End learns of. The one before the first has
	// Number 0.
	Explain(a, before *Attempt) error
	// BeforeRetry is called before each retry, with the first attempt whose outcome is unknown, or else the last.
	// It may send requests. An error ends the call.
	BeforeRetry(ctx context.Context, a *Attempt) error
}

// Policy prepares the attempts of a call, takes their responses and decides what follows one.
type Policy interface {
	// Prepare comes before each attempt: it may make other calls, and change the request's URL and header. An error
	// ends the call.
	Prepare(req *http.Request) error
	// Receive reads the response, without closing it, and returns how many bytes it gave. An error that matches
	// [ErrUnusable] judges a response that came; any other is of one that broke off. The context is that of the call.
	Receive(ctx context.Context, resp *http.Response, watch Watch) (received int64, err error)
	// Next decides what may follow an attempt that failed. It is asked once after each.
	Next(a *Attempt) Next
}

// Next is what may follow a failed attempt.
type Next struct {
	Retry    bool // another attempt may be made
	AtOnce   bool // without a pause
	Failures int  // in a row, for the length of the pause
}

// call is one call under way. As a transport it has no CloseIdleConnections: a failure leaves the caller's pool alone.
type call struct {
	*Request
	Result

	policy  Policy   // the request's own, or by effect
	unknown *Attempt // the first whose outcome is not known, or else the last
	next    Next     // what the policy said of the last attempt
	spread  float64  // of back-off, between 0 and 1

	failures int   // attempts that failed, other than by a limit of the server
	refusals int   // by a limit, in a row
	held     error // the call ended at the Gate

	authorization string // of the last attempt, or of the next if it was renewed

	loop    retryablehttp.Client
	driven  retryablehttp.Request
	client  http.Client
	request http.Request
}

var none Attempt // is before the first, of all calls; nothing is written to it

// Do makes attempts until one succeeds or none may follow, and returns the last one's error, nil for a success, or of a
// call that was stopped the reason. The result is never nil, and must be released.
func (r *Request) Do(ctx context.Context) (*Result, error) {
	c := &call{Request: r, Result: Result{Last: &none}, spread: Jitter(ctx)}
	request := &http.Request{
		Method: r.Method, URL: r.URL, Header: r.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	c.request = *request.WithContext(ctx)
	if r.Header == nil {
		c.request.Header = http.Header{} // without it net/http would copy the request
	}
	c.driven.Request = &c.request
	c.policy = cmp.Or(r.Policy, Policy((*byEffect)(c)))
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
	_, err := c.loop.Do(&c.driven) //nolint:bodyclose // the attempt has read and closed it
	if c.held != nil {
		return &c.Result, c.held
	}
	if _, attempted := err.(*url.Error); err == nil || attempted { //nolint:errorlint // BeforeRetry's may wrap one
		return &c.Result, c.Last.Err
	}
	c.Stopped = true
	return &c.Result, err
}

// checkRetry decides what follows the attempt that returned the response or the error. It allows only a wait that fits
// the policy and the context. It returns an error if only the context prevents a retry.
func (c *call) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	failed, ok := errors.AsType[*Attempt](err)
	if resp != nil {
		failed = c.Last
		ok = c.Last.Err != nil
	}
	if !ok {
		return false, nil // a success, or a Location that net/http cannot read
	}
	c.loop.Backoff = c.backoff // set here, because a success does not need them
	c.loop.PrepareRetry = c.policy.Prepare
	unauthorized := resp != nil && resp.StatusCode == http.StatusUnauthorized
	if unauthorized && c.renew(ctx) {
		c.next = Next{Retry: true, AtOnce: true}
		return true, nil
	}
	c.next = c.policy.Next(failed)
	if !c.next.Retry {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if !c.fits(ctx, failed) {
		return false, nil
	}
	if c.next.AtOnce || failed.Limited > 0 {
		return true, nil
	}
	return c.Peer.Budget.Take(), nil
}

// fits reports whether the wait before the next attempt is short enough for the policy and the context.
func (c *call) fits(ctx context.Context, failed *Attempt) bool {
	if !c.next.AtOnce && RetryAfter(failed.Header, time.Now()) > c.Peer.MaxRetryAfter {
		return false
	}
	wait := max(failed.Limited, c.pause(failed))
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) > wait
}

// backoff returns the pause before the next attempt. It has the signature that the retry loop needs.
func (c *call) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration {
	return c.pause(c.Last)
}

// pause returns how long to wait after the failed attempt. It depends on the failures in a row, because not all
// attempts are failures that count. After a refusal by a limit the next attempt waits at the Gate instead.
func (c *call) pause(failed *Attempt) time.Duration {
	if c.next.AtOnce || failed.Limited > 0 {
		return 0
	}
	asked := RetryAfter(failed.Header, time.Now())
	return Backoff(c.next.Failures-1, c.Peer.MinWait, c.Peer.MaxWait, asked, c.spread)
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
	if unavailable && asked == 0 {
		return 0
	}
	wait := Backoff(c.refusals, c.Peer.MinWait, c.Peer.MaxWait, asked, c.spread)
	if _, counts := rateLimitRemaining(a.Header); counts && asked > 0 {
		wait += time.Second // such a server sends whole seconds, rounded down
	}
	return wait
}

// renew gets another token for the one that was refused, once per call. It does not count as a retry, because a server
// that rejects the token has not acted.
func (c *call) renew(ctx context.Context) bool {
	if c.Renew == nil || c.renewed {
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	fresh := c.Renew(ctx, c.authorization)
	if fresh == "" || fresh == c.authorization {
		return false
	}
	if !c.Body.replayable() {
		return false
	}
	c.authorization = fresh
	c.renewed = true
	return true
}

// byEffect is the policy of a call that has none of its own: it asks the caller before a retry, and keeps responses in
// memory.
type byEffect call

func (c *byEffect) Prepare(req *http.Request) error {
	if c.Last == &none {
		return nil
	}
	return c.Caller.BeforeRetry(req.Context(), c.unknown)
}

func (c *byEffect) Receive(_ context.Context, resp *http.Response, watch Watch) (int64, error) {
	return c.read(resp, watch, c.Peer.MaxBody)
}

func (c *byEffect) Next(a *Attempt) Next {
	var next Next
	if a.Limited > 0 {
		c.refusals++
		next.Failures = c.refusals
	} else {
		c.refusals = 0
		c.failures++
		next.Failures = c.failures
	}
	next.Retry = next.Failures <= c.MaxRetries && c.Effect.MayRetry(a.Outcome) && c.Body.replayable()
	isCutUpload := c.Effect == Creates && a.Sent == Partly
	if next.Retry && isCutUpload {
		next.Retry = !c.cut // a server that cuts an upload often means to refuse it, so it is retried once
		c.cut = true
	}
	return next
}
