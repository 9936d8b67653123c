// Package exchange carries one call to a server and back: attempts until one succeeds or none may follow. It knows HTTP,
// tokens and patience, and nothing of notes.
//
// One call goes down this way and comes back up:
//
//	Call.Do      makes a first attempt; if another may follow, go-retryablehttp goes on from there
//	  attempt      one value, made new each time; a Stream builds its own request, and takes and judges the response
//	    limit        wait for the limiter: before the token, which must not age in a queue
//	    authorize    ask for the token: for each attempt, since it may have been renewed
//	    begin        the hook, when only sending remains
//	    watch        the stall watchdog and the send state, around all that touches the network
//	    send         transport, 100-continue, redirects on the own origin
//	    read         the whole response, bounded: one that is cut is a failed attempt
//	    explain      the failure in the caller's words
//	    end          the hook learns of the attempt when all of it is known
//	  mayRetry     the decision: effect, send state, status
//	  pause        back-off, Retry-After
//	  beforeRetry  a look at the server before something is sent a second time
package exchange

import (
	"bytes"
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
	UserAgent    string
	StallTimeout time.Duration
	MaxBody      int64 // of a response
	MinWait      time.Duration
	MaxWait      time.Duration
	// Authorization gives the header of that name, which shows the token: a function, so that no verb of fmt can reach it.
	// Nil: none is sent.
	Authorization func(context.Context) (string, error)

	usual         atomic.Pointer[usualHeaders]
	ignoresExpect atomic.Bool // it was asked for 100 Continue and gave none: asking costs a second each time
}

// Call is one call. The fields down to BeforeCommit say what to do, the others what came of it.
type Call struct {
	Peer       *Peer
	Method     string
	URL        *url.URL
	Header     http.Header // beside those that every request has
	Body       Body        // nil: none
	Stream     Stream      // instead of URL, Header, Body and Authorization; nil: the response is read into memory
	Effect     Effect
	MaxRetries int

	Authorization func(context.Context) (string, error) // instead of the peer's; nil: the peer's

	Hook Hook // nil: none

	// Explain turns a failed attempt into the error that Do returns and observers see.
	Explain Explainer
	// BeforeRetry is asked before each retry, with the first attempt that may have acted, or else the last. An error ends
	// the call.
	BeforeRetry Retrier
	// Progress is told how many bytes of the body have left, BeforeCommit runs before its last bytes do; an error of it ends
	// the call. Both run in the goroutine of Do.
	Progress     func(sent int64)
	BeforeCommit func(context.Context) error

	Attempts int      // how many were made
	Last     *Attempt // nil before the first; the first lives as long as the call
	Unsure   bool     // an attempt may have had its effect

	decisive *Attempt      // the first that may have had its effect, or else the last
	again    bool          // the last attempt may be retried
	ended    error         // it might, but for this
	wait     time.Duration // before the retry
	next     Next          // what the stream said of the last attempt
	cuts     int           // attempts that ended within the body
	spread   float64       // of back-off, between 0 and 1
	buffer   *bytes.Buffer // holds the response's body
	reader   WatchedReader // of that
	first    Attempt       // nearly always the only one
}

// Explainer puts a failed attempt into the caller's words.
type Explainer interface{ Explain(*Attempt) error }

// ExplainFunc makes a function an Explainer.
type ExplainFunc func(*Attempt) error

// Explain is f.
func (f ExplainFunc) Explain(a *Attempt) error { return f(a) }

// Retrier looks at the server before something is sent to it once more. An error says that nothing shall be.
type Retrier interface {
	BeforeRetry(context.Context, *Attempt) error
}

// Do makes attempts until one succeeds or none may follow, and returns the last one's error, nil for a 2xx. What the
// context, BeforeRetry or Prepare ended is a [*Stopped] around it.
func (c *Call) Do(ctx context.Context) error {
	c.spread = Jitter(ctx)
	retries := c.MaxRetries
	if c.Stream != nil {
		retries = math.MaxInt // the stream counts by itself
		if err := c.Stream.Prepare(ctx); err != nil {
			return &Stopped{Reason: err}
		}
	}
	c.attempt(ctx)
	c.again, c.ended = c.mayRetry(ctx)
	err := c.ended
	if c.again && retries > 0 {
		err = c.retry(ctx, retries)
	}
	if err == nil || errors.Is(err, c.Last) {
		return c.Last.Err
	}
	return &Stopped{Reason: err, Err: c.Last.Err}
}

// retry lets go-retryablehttp drive what follows the first attempt. It is told of that one as if it had made it, so that
// calls which need no retry, nearly all, do not pay for what it takes.
func (c *Call) retry(ctx context.Context, retries int) error {
	told := false
	send := func(req *http.Request) (*http.Response, error) {
		if told {
			c.attempt(req.Context())
			c.again, c.ended = c.mayRetry(req.Context())
		}
		told = true
		return c.Last.response()
	}
	loop := retryablehttp.Client{
		// As a transport a call has no CloseIdleConnections, so that a failure leaves the caller's pool alone.
		HTTPClient: &http.Client{Transport: roundTripper(send)}, RetryMax: retries, PrepareRetry: c.beforeRetry,
		CheckRetry:   func(context.Context, *http.Response, error) (bool, error) { return c.again, c.ended },
		Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return c.wait },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	target := *c.URL
	req := &http.Request{Method: c.Method, URL: &target, Header: http.Header{}}
	_, err := loop.Do(&retryablehttp.Request{Request: req.WithContext(ctx)}) //nolint:bodyclose // it is empty: the attempt has read it
	return err
}

// Stopped is a call that was ended between two attempts: by its context, BeforeRetry or the stream's Prepare.
type Stopped struct { //nolint:errname // it says what happened to the call
	Reason error
	Err    error // of the last attempt; nil when there was none
}

func (s *Stopped) Error() string { return "stopped between attempts: " + s.Reason.Error() }

// Release gives back the memory of the response's body, which must not be used any more.
func (c *Call) Release() {
	if c.buffer != nil {
		putBuffer(c.buffer)
	}
	c.buffer = nil
	if c.Last != nil {
		c.Last.Body = nil
	}
}

// roundTripper makes an attempt of each round trip that the loop asks for.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// mayRetry decides by effect and outcome, and only for a wait that fits the policy and the context. An error says that the
// context alone is in the way. It is asked once after each attempt.
func (c *Call) mayRetry(ctx context.Context) (bool, error) {
	outcome := c.Last.Outcome()
	switch {
	case c.Stream != nil && c.Last.Step == None:
		return false, nil
	case c.Stream != nil:
		if c.next = c.Stream.Next(c.Last.Err, c.MaxRetries); !c.next.Retry {
			return false, nil
		}
	case !c.Effect.MayRetry(outcome) || c.Body != nil && !c.Body.Replayable():
		return false, nil
	case c.Effect == Creates && outcome.Status == 0 && outcome.Sent == Partly:
		// A server that cuts an upload often means to refuse it; one more try tells.
		if c.cuts++; c.cuts > 1 {
			return false, nil
		}
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	c.wait = c.pause()
	deadline, limited := ctx.Deadline()
	return c.wait <= c.Peer.MaxWait && (!limited || time.Until(deadline) > c.wait), nil
}

// pause is the wait before a retry.
func (c *Call) pause() time.Duration {
	retries := c.Attempts - 1
	var asked time.Duration
	switch {
	case c.next.AtOnce:
		return 0
	case c.Stream != nil:
		retries, asked = c.next.Failures-1, c.next.RetryAfter
	default:
		asked = RetryAfter(c.Last.Header.Get("Retry-After"), time.Now())
	}
	return Pause(retries, c.Peer.MinWait, c.Peer.MaxWait, asked, c.spread)
}

func (c *Call) beforeRetry(req *http.Request) error {
	switch {
	case c.Stream != nil:
		return c.Stream.Prepare(req.Context())
	case c.BeforeRetry != nil:
		return c.BeforeRetry.BeforeRetry(req.Context(), c.decisive)
	}
	return nil
}
