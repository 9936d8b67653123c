package exchange

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// RoundTrip makes one attempt and leaves what came of it in Last. A response has been read and closed.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, before := req.Context(), c.Last
	a := &Attempt{Number: before.Number + 1, Started: time.Now(), Outcome: Outcome{Permanent: true}, ctx: ctx} // permanent until something is sent
	defer func() {
		a.Duration = time.Since(a.Started)
		c.Caller.End(a.ctx, a)
	}()
	resp := c.attempt(ctx, req, a)
	if a.Step != None {
		a.Err = c.Caller.Explain(a, before)
	}
	c.Last = a
	if !c.OutcomeUnknown {
		c.OutcomeUnknown, c.unknown = a.Unknown(), a
	}
	if a.Status == 0 {
		return nil, a
	}
	resp.Body = http.NoBody
	return resp, nil
}

// attempt goes through the steps once.
func (c *call) attempt(ctx context.Context, req *http.Request, a *Attempt) *http.Response {
	if a.Step, a.Cause = c.admit(ctx); a.Cause != nil {
		return nil
	}
	out := new(struct { // one object, and never used for another attempt: a transport may hold on to all of it
		target url.URL
		state  SendState
	})
	state := &out.state
	header := c.header(req.Header)
	traced := c.Caller.Begin(ctx, a, header)
	a.ctx, a.Begun = traced, true
	timed, cancel := WithTimeout(traced, c.Peer.Timeout)
	defer cancel()
	watched := state.Watchdog.Guard(timed, c.Peer.StallTimeout)
	defer state.Watchdog.Stop()
	state.Once, state.BeforeCommit, state.Multiplexed = c.Effect == Creates, c.BeforeCommit, c.Peer.multiplexes.Load()
	a.Started = time.Now()
	out.target = *req.URL
	out.target.Path, out.target.RawQuery = req.URL.Path+c.Path, cmp.Or(c.Query, req.URL.RawQuery)
	request := req.WithContext(httptrace.WithClientTrace(watched, state.Trace(c.Body != nil)))
	request.URL, request.Host, request.Header = &out.target, out.target.Host, header
	resp, err := c.send(request, state)
	if err == nil {
		err = c.receive(ctx, resp, a, state)
		a.Sent = Wholly // if it responds, it has what it wants
	}
	if resp == nil || a.Status == http.StatusRequestTimeout { // or it did not wait for that
		a.Sent = state.Conclude(err)
	}
	a.BytesSent, a.Permanent = state.BytesSent(), false
	if err != nil {
		a.judge(ctx, watched, state, err)
	}
	return resp
}

// admit waits for the limiter, and then asks for the token, which must not age in a queue and may have been renewed.
func (c *call) admit(ctx context.Context) (failed Step, err error) {
	if c.Peer.Limit != nil {
		if err := c.Peer.Limit(ctx); err != nil {
			return Limit, err
		}
	}
	if justRenewed := c.renewed && c.next.AtOnce; c.Authorization != nil && !justRenewed {
		if c.authorization, err = c.Authorization(ctx); err != nil {
			return Authorize, err
		}
	}
	return None, nil
}

// header makes the headers of one attempt, which a transport may change. Those that every request has share one array.
func (c *call) header(own http.Header) http.Header {
	var contentType string
	if c.Body != nil {
		contentType = cmp.Or(c.Body.ContentType, "application/json")
	}
	values := [...]string{c.Peer.Accept, c.Peer.UserAgent, c.authorization, contentType, c.Peer.CacheControl}
	header := make(http.Header, len(own)+len(values))
	if c.Peer.CacheControl != "" {
		header["Cache-Control"] = values[4:]
	}
	for key, list := range own {
		header[key] = slices.Clip(list) // one that is added to does not grow into the next attempt's
	}
	for i, key := range [...]string{"Accept", "User-Agent", "Authorization", "Content-Type"} {
		if values[i] != "" {
			header[key] = values[i : i+1 : i+1]
		}
	}
	return header
}

const maxRedirects = 5 // on the own origin

// send delivers the request: a streamed body from a goroutine of its own.
func (c *call) send(out *http.Request, state *SendState) (*http.Response, error) {
	state.Attach(out, c.Body, !c.Peer.ignoresExpect.Load())
	if c.Body == nil || c.Body.Open == nil {
		return c.deliver(out, state)
	}
	return state.SendStreamed(out.Context(), c.Progress, func() (*http.Response, error) { return c.deliver(out, state) })
}

// deliver sends the request: by another connection if the one it got cannot be used, without the announcement if the
// server rejects that, and to where a redirect leads if that is allowed.
func (c *call) deliver(out *http.Request, state *SendState) (*http.Response, error) {
	for hops := 0; ; hops++ {
		resp, err := c.Peer.Transport.RoundTrip(out)
		switch {
		case err != nil && out.Context().Err() == nil && state.Skipped(err) && (c.Body.replayable() || state.BytesSent() == 0):
			out = out.Clone(out.Context())
			state.Attach(out, c.Body, out.Header.Get("Expect") != "")
			continue
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, redact.Text("the transport gave neither a response nor an error")
		case resp.Request != nil && resp.Request.Response != nil && resp.Request.Method != out.Method: // it is a client that asked for another thing
			if resp.Body != nil {
				_ = resp.Body.Close()
			}
			resp = resp.Request.Response
			resp.Body = http.NoBody
		case resp.Body == nil:
			resp.Body = http.NoBody
		case resp.StatusCode < 200: // the connection itself, on which nothing more need come
			_ = resp.Body.Close()
			resp.Body = http.NoBody
		}
		rejected := resp.StatusCode == http.StatusExpectationFailed && out.Header.Get("Expect") != "" && c.Body.replayable()
		target := Redirect(resp.StatusCode, out.Method, resp.Header.Get("Location"), out.URL, c.Peer.Origin)
		redirected := target != nil && c.Body == nil && hops < maxRedirects
		if !rejected && !redirected {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
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

// receive gives the policy the response, and ends what is left of the sending.
func (c *call) receive(ctx context.Context, resp *http.Response, a *Attempt, state *SendState) error {
	defer func() { _ = resp.Body.Close() }()
	if resp.ProtoMajor > 1 {
		c.Peer.multiplexes.Store(true)
	}
	if resp.StatusCode/100 != 2 && c.Body != nil && resp.ProtoMajor < 2 {
		state.Retire()
	}
	var err error
	a.BytesReceived, err = c.policy.Receive(ctx, resp, &state.Watchdog)
	state.Close()
	if err == nil && state.IgnoredExpect() {
		c.Peer.ignoresExpect.Store(true)
	}
	if err == nil || errors.Is(err, ErrUnusable) {
		a.Status, a.Header = resp.StatusCode, resp.Header
		if c.buffer != nil {
			a.Body = c.buffer.Bytes()
		}
	}
	return err
}
