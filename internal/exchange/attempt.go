package exchange

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// try is what an attempt takes to be sent, in one object. It is never used for another: a transport may hold on to all of it.
type try struct {
	request http.Request
	target  url.URL
	state   SendState
}

// attempt goes through the steps once, and leaves what came of it in Last.
func (c *Call) attempt(ctx context.Context) {
	c.Attempts++
	a := &c.first
	if c.Attempts > 1 {
		a = new(Attempt)
	}
	*a = Attempt{Number: c.Attempts, Started: time.Now(), permanent: true} // until something is sent
	defer c.end(ctx, a)
	c.steps(ctx, a)
	if a.Step != None || a.TooLong || c.Stream == nil && !success(a.Status) {
		a.Err = c.Explain.Explain(a)
	}
	c.Last = a
	if !c.Unsure {
		c.Unsure, c.decisive = !a.Outcome().NotProcessed(), a
	}
}

func (c *Call) steps(ctx context.Context, a *Attempt) {
	if err := c.limit(ctx); err != nil {
		a.Step, a.Cause = Limit, err
		return
	}
	authorization, err := c.authorize(ctx)
	if err != nil {
		a.Step, a.Cause = Authorize, err
		return
	}
	t := new(try)
	if err := c.build(ctx, t, authorization); err != nil {
		a.Step, a.Cause = Content, err
		return
	}
	state := &t.state
	traced := c.begin(ctx, a, t.request.Header)
	timed, cancel := WithTimeout(traced, c.Peer.Timeout)
	defer cancel()
	watched := state.Watchdog.Guard(timed, c.Peer.StallTimeout)
	defer state.Watchdog.Stop()
	state.Once, state.BeforeCommit = c.Effect == Creates, c.BeforeCommit
	a.Started = time.Now()
	t.request = *t.request.WithContext(httptrace.WithClientTrace(watched, state.Trace()))
	resp, err := c.send(&t.request, state) //nolint:bodyclose // read and take do
	a.Sent = Wholly                        // if it responds, it has what it wants
	switch {
	case err != nil:
		a.Sent = state.Settle(err)
	case c.Stream != nil:
		err = c.take(ctx, resp, a, &state.Watchdog)
	default:
		err = c.read(resp, a, state)
	}
	a.BytesSent, a.permanent = state.BytesSent(), false
	if err != nil {
		a.judge(ctx, watched, state, err)
	}
}

func (c *Call) limit(ctx context.Context) error {
	if c.Peer.Limit == nil {
		return nil
	}
	return c.Peer.Limit(ctx)
}

func (c *Call) authorize(ctx context.Context) (string, error) {
	switch {
	case c.Authorization != nil:
		return c.Authorization(ctx)
	case c.Peer.Authorization != nil:
		return c.Peer.Authorization(ctx)
	}
	return "", nil
}

// build makes the request of one attempt, but for its context and body.
func (c *Call) build(ctx context.Context, t *try, authorization string) error {
	if c.Stream != nil {
		req, err := c.Stream.Request(ctx)
		if err == nil {
			t.request = *req
		}
		return err
	}
	t.target = *c.URL
	t.request = http.Request{
		Method: c.Method, URL: &t.target, Host: c.URL.Host, Header: c.header(authorization), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return nil
}

const (
	maxErrorBody = 64 << 10 // of a response that is no success; what is beyond is cut off
	maxRedirects = 5        // on the own origin
	maxReadTime  = 10       // stall timeouts that reading a response may take
)

// send delivers the request: a streamed body in company.
func (c *Call) send(out *http.Request, state *SendState) (*http.Response, error) {
	state.Attach(out, c.Body, !c.Peer.ignoresExpect.Load())
	if c.Body == nil || !c.Body.Streamed() {
		return c.deliver(out, state)
	}
	return state.Accompany(out.Context(), c.Progress, func() (*http.Response, error) { return c.deliver(out, state) })
}

// deliver sends the request, without the announcement if the server rejects that, and follows redirects where allowed.
func (c *Call) deliver(out *http.Request, state *SendState) (*http.Response, error) {
	for hops := 0; ; hops++ {
		resp, err := c.Peer.Transport.RoundTrip(out)
		switch {
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, redact.Text("the transport gave neither a response nor an error")
		case resp.Body == nil:
			resp.Body = http.NoBody
		}
		rejected := resp.StatusCode == http.StatusExpectationFailed && out.Header.Get("Expect") != "" && c.Body.Replayable()
		target := origin.Redirect(resp, out, c.Peer.Origin)
		redirected := target != nil && c.Body == nil && hops < maxRedirects
		if !rejected && !redirected {
			return resp, nil
		}
		_ = resp.Body.Close()
		out = out.Clone(out.Context()) // the transport may still hold on to the one it was given
		if redirected {
			out.URL = target
			continue
		}
		c.Peer.ignoresExpect.Store(true)
		out.Header.Del("Expect")
		state.Attach(out, c.Body, false)
	}
}

// read takes the response in, up to the limit, and ends what is left of the sending. A refusal that breaks off or is too
// long is a refusal all the same.
func (c *Call) read(resp *http.Response, a *Attempt, state *SendState) error {
	defer func() { _ = resp.Body.Close() }()
	succeeded, limit := success(resp.StatusCode), c.Peer.MaxBody
	if !succeeded {
		limit = min(limit, maxErrorBody)
		if c.Body != nil && resp.ProtoMajor < 2 {
			state.Retire()
		}
	}
	if c.buffer == nil {
		c.buffer = getBuffer()
	}
	c.buffer.Reset()
	state.Watchdog.Bound(maxReadTime)
	body, release := c.plainBody(resp)
	defer release()
	// One byte more than allowed tells a response that is too long; max keeps the sum from wrapping.
	c.reader = WatchedReader{Reader: body, Watchdog: &state.Watchdog, Left: max(limit, limit+1)}
	n, err := c.buffer.ReadFrom(&c.reader)
	a.BytesReceived = n
	state.Close()
	if err != nil && succeeded {
		return err
	}
	if succeeded && state.IgnoredExpect() {
		c.Peer.ignoresExpect.Store(true)
	}
	a.Status, a.Header, a.Body = resp.StatusCode, resp.Header, c.buffer.Bytes()[:min(n, limit)]
	a.TooLong = succeeded && n > limit
	return nil
}
