package exchange

import (
	"context"
	"io"
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

// attempt goes through the steps once. What it returns is for the loop: the response, whose body has been read, or the
// attempt itself as the error.
func (c *Call) attempt(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c.Attempts++
	began := time.Now()
	a := &Attempt{Number: c.Attempts, Started: began, permanent: true} // until something is sent
	defer c.end(a)
	resp := c.steps(ctx, req, a)
	a.Duration = time.Since(began)
	if a.Step != None || a.TooLong || c.Stream == nil && !success(a.Status) {
		a.Err = c.Explain(a)
	}
	c.Last = a
	if !c.Unsure {
		c.Unsure, c.decisive = !a.Outcome().NotProcessed(), a
	}
	if c.Report != nil {
		c.Report(a.context(ctx), a)
	}
	if resp == nil {
		return nil, a
	}
	resp.Body = http.NoBody
	if a.Status/100 == 3 {
		resp.Header = nil // or http.Client would follow it; send has where that is allowed
	}
	return resp, nil
}

// steps returns the response if one came whole.
func (c *Call) steps(ctx context.Context, req *http.Request, a *Attempt) *http.Response {
	if err := c.limit(ctx); err != nil {
		a.Step, a.Cause = Limit, err
		return nil
	}
	token, err := c.authorize(ctx)
	if err != nil {
		a.Step, a.Cause = Authorize, err
		return nil
	}
	if c.Stream != nil {
		if req, err = c.Stream.Request(ctx); err != nil {
			a.Step, a.Cause = Content, err
			return nil
		}
	}
	ctx = c.begin(ctx, a)
	watched, watchdog := stall.Guard(ctx, c.Peer.StallTimeout)
	defer watchdog.Stop()
	watched, cancel := stall.WithTimeout(watched, c.Peer.Timeout)
	defer cancel()
	state := &sending.State{Watchdog: watchdog, Once: c.Effect == retry.Creates, BeforeCommit: c.BeforeCommit}
	a.Started = time.Now()
	out := req.WithContext(httptrace.WithClientTrace(watched, state.Trace()))
	if c.Stream == nil {
		out.Header = c.header(token)
		a.trace.inject(out.Header)
	}
	resp, err := c.send(out, state)
	a.Sent = retry.Wholly // if it responds, it has what it wants
	switch {
	case err != nil:
		a.Sent = state.Settle(err)
	case c.Stream != nil:
		err = c.take(ctx, resp, a, watchdog)
	default:
		err = c.read(resp, a, watchdog, state)
	}
	a.BytesSent, a.permanent = state.BytesSent(), false
	if err != nil {
		a.judge(ctx, watched, state, err)
		return nil
	}
	return resp
}

func (c *Call) limit(ctx context.Context) error {
	if c.Peer.Limit == nil {
		return nil
	}
	return c.Peer.Limit(ctx)
}

func (c *Call) authorize(ctx context.Context) (string, error) {
	switch {
	case c.Token != nil:
		return c.Token(ctx)
	case c.Peer.Token != nil:
		return c.Peer.Token(ctx)
	}
	return "", nil
}

// header returns the headers of one attempt. Their values share one array.
func (c *Call) header(token string) http.Header {
	values := []string{"application/json", c.Peer.UserAgent, "Bearer " + token, ""}
	header := make(http.Header, len(c.Header)+len(values))
	maps.Copy(header, c.Header)
	header["Accept"] = values[0:1:1] // without it the service puts errors into redirects
	header["User-Agent"] = values[1:2:2]
	if token != "" {
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
func (c *Call) read(resp *http.Response, a *Attempt, watchdog *stall.Watchdog, state *sending.State) error {
	defer func() { _ = resp.Body.Close() }()
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
	watchdog.Bound(maxReadTime)
	// One byte more than allowed tells a response that is too long; max keeps the sum from wrapping.
	n, err := c.buffer.ReadFrom(io.LimitReader(watchdog.Reader(resp.Body), max(limit, limit+1)))
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
