package exchange

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/buffers"
	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/sending"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

// try is an attempt under way: what came of it, and all that it takes, in one object.
type try struct {
	Attempt
	request http.Request
	values  [4]string // of its headers
	state   sending.State
	reader  stall.Reader // of the response
}

// attempt goes through the steps once, and leaves what came of it in Last.
func (c *Call) attempt(ctx context.Context) {
	c.Attempts++
	began := time.Now()
	t := &try{Attempt: Attempt{Number: c.Attempts, Started: began, permanent: true}} // until something is sent
	a := &t.Attempt
	defer c.end(a)
	c.steps(ctx, t)
	a.Duration = time.Since(began)
	if a.Step != None || a.TooLong || c.Stream == nil && !success(a.Status) {
		a.Err = c.Explain.Explain(a)
	}
	c.Last = a
	if !c.Unsure {
		c.Unsure, c.decisive = !a.Outcome().NotProcessed(), a
	}
	if c.Report != nil {
		c.Report(a.context(ctx), a)
	}
}

func (c *Call) steps(ctx context.Context, t *try) {
	a, state := &t.Attempt, &t.state
	if err := c.limit(ctx); err != nil {
		a.Step, a.Cause = Limit, err
		return
	}
	authorization, err := c.authorize(ctx)
	if err != nil {
		a.Step, a.Cause = Authorize, err
		return
	}
	if err := c.build(ctx, t, authorization); err != nil {
		a.Step, a.Cause = Content, err
		return
	}
	traced := c.begin(ctx, t)
	timed, cancel := stall.WithTimeout(traced, c.Peer.Timeout)
	defer cancel()
	watched := state.Watchdog.Guard(timed, c.Peer.StallTimeout)
	defer state.Watchdog.Stop()
	state.Once, state.BeforeCommit = c.Effect == retry.Creates, c.BeforeCommit
	a.Started = time.Now()
	t.request = *t.request.WithContext(httptrace.WithClientTrace(watched, state.Trace()))
	resp, err := c.send(&t.request, state) //nolint:bodyclose // read and take do
	a.Sent = retry.Wholly                  // if it responds, it has what it wants
	switch {
	case err != nil:
		a.Sent = state.Settle(err)
	case c.Stream != nil:
		err = c.take(ctx, resp, a, &state.Watchdog)
	default:
		err = c.read(resp, t)
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
	t.request = http.Request{
		Method: c.Method, URL: c.URL, Host: c.URL.Host, Header: c.header(&t.values, authorization), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return nil
}

// header returns the headers of one attempt. Their values share one array.
func (c *Call) header(values *[4]string, authorization string) http.Header {
	*values = [...]string{"application/json", c.Peer.UserAgent, authorization, ""}
	header := make(http.Header, len(c.Header)+len(values))
	maps.Copy(header, c.Header)
	header["Accept"] = values[0:1:1] // without it the service puts errors into redirects
	header["User-Agent"] = values[1:2:2]
	if authorization != "" {
		header["Authorization"] = values[2:3:3]
	}
	if c.Body != nil {
		values[3] = c.Body.ContentType()
		header["Content-Type"] = values[3:4:4]
	}
	return header
}

const (
	maxErrorBody = 64 << 10 // of a response that is no success; what is beyond is cut off
	maxRedirects = 5        // on the own origin
	maxReadTime  = 10       // stall timeouts that reading a response may take
)

// send delivers the request: a streamed body in company.
func (c *Call) send(out *http.Request, state *sending.State) (*http.Response, error) {
	state.Attach(out, c.Body, !c.Peer.ignoresExpect.Load())
	if c.Body == nil || !c.Body.Streamed() {
		return c.deliver(out, state)
	}
	return state.Accompany(out.Context(), c.Progress, func() (*http.Response, error) { return c.deliver(out, state) })
}

// deliver sends the request, without the announcement if the server rejects that, and follows redirects where allowed.
func (c *Call) deliver(out *http.Request, state *sending.State) (*http.Response, error) {
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
func (c *Call) read(resp *http.Response, t *try) error {
	defer func() { _ = resp.Body.Close() }()
	a, state := &t.Attempt, &t.state
	succeeded, limit := success(resp.StatusCode), c.Peer.MaxBody
	if !succeeded {
		limit = min(limit, maxErrorBody)
		if c.Body != nil && resp.ProtoMajor < 2 {
			state.Retire()
		}
	}
	if c.buffer == nil {
		c.buffer = buffers.Take()
	}
	c.buffer.Reset()
	state.Watchdog.Bound(maxReadTime)
	// One byte more than allowed tells a response that is too long; max keeps the sum from wrapping.
	t.reader = stall.Reader{Reader: resp.Body, Watchdog: &state.Watchdog, Left: max(limit, limit+1)}
	n, err := c.buffer.ReadFrom(&t.reader)
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
