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

// RoundTrip implements [http.RoundTripper]. It makes one attempt and stores it in Last, unless the wait at the Gate
// failed. The response has been read and closed. If there is none, RoundTrip returns the attempt as the error.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	before := c.Last
	a := &Attempt{Number: before.Number + 1, Started: time.Now(), ctx: ctx}
	a.Permanent = true // until something is sent
	defer func() {
		a.Duration = time.Since(a.Started)
		c.Caller.End(a.ctx, a)
	}()
	defer c.leaveGate(ctx, a)
	resp := c.attempt(ctx, req, a)
	a.LimitedFor = c.limitedFor(a)
	if a.Step != None {
		a.Err = c.Caller.Explain(a, before)
	}
	if a.Step == GateWait { // nothing was attempted, so Last is still the attempt before
		c.gateErr = a.Err
		return nil, a
	}
	c.Last = a
	if a.Step == None {
		c.Peer.Budget.Succeeded()
	}
	if !c.OutcomeUnknown { // otherwise an earlier attempt is what a retry is for
		c.OutcomeUnknown = a.Unknown()
		c.retriedFor = a
	}
	noResponse := a.Status == 0
	if noResponse {
		return nil, a
	}
	resp.Body = http.NoBody
	return resp, nil
}

// leaveGate tells the Gate that an attempt which passed it has ended. It is deferred, so also after a panic.
func (c *call) leaveGate(ctx context.Context, a *Attempt) {
	if !a.passedGate {
		return
	}
	c.Peer.Gate.Leave(a.Started, a.Header, a.LimitedFor)
	if a.LimitedFor > 0 {
		reportLimit(ctx, a.LimitedFor)
	}
}

// attempt makes one attempt and records in a how far it came. It returns the response, which has been read and closed,
// or nil if there is none.
func (c *call) attempt(ctx context.Context, req *http.Request, a *Attempt) *http.Response {
	a.Step, a.Cause = c.admit(ctx, a)
	if a.Cause != nil {
		return nil
	}
	out := new(outgoing)
	state := &out.state
	header := c.header(req.Header)
	callerCtx := c.Caller.Begin(ctx, a, header)
	a.ctx = callerCtx
	a.ReachedSending = true
	timed, cancel := WithTimeout(callerCtx, c.Peer.Timeout)
	defer cancel()
	watched := state.Watchdog.Guard(timed, c.Peer.StallTimeout)
	defer state.Watchdog.Stop()
	c.describeTo(state)
	a.Started = time.Now()
	observed := httptrace.WithClientTrace(watched, state.Trace(c.Body != nil))
	request := c.newRequest(req.WithContext(observed), out)
	request.Header = header
	resp, err := c.send(request, state)
	if err == nil {
		err = c.receive(ctx, resp, a, state)
	}
	switch {
	case resp == nil, a.Status == http.StatusRequestTimeout: // a server that sends a 408 may not have the whole request
		a.Sent = state.Conclude(err)
	default: // a server that sends another response has what it needs
		a.Sent = Wholly
	}
	a.BytesSent = state.BytesSent()
	a.Permanent = false // it was set in case nothing would be sent; from here on classify decides
	if err != nil {
		a.classify(ctx, watched, state, err)
	}
	return resp
}

// describeTo tells the state what it has to know about the call and its server.
func (c *call) describeTo(state *SendState) {
	state.SendOnce = c.Effect == Creates
	state.BeforeCommit = c.BeforeCommit
	state.Multiplexed = c.Peer.speaksHTTP2.Load()
	state.SpeaksHTTP1 = &c.Peer.speaksHTTP1
}

// outgoing is what a transport can hold on to after an attempt. It is one allocation, and no other attempt uses it.
type outgoing struct {
	target url.URL
	state  SendState
}

// newRequest completes the request of one attempt: its URL is in out, with the path and the query of the call.
func (c *call) newRequest(request *http.Request, out *outgoing) *http.Request {
	out.target = *request.URL
	out.target.Path += c.Path
	out.target.RawQuery = cmp.Or(c.Query, out.target.RawQuery)
	request.URL = &out.target
	request.Host = out.target.Host
	return request
}

// admit waits for the limiter and at the Gate. Then it gets the token, unless that was just renewed. The token comes
// last, because it must not expire during a wait. admit returns the step that failed, or None.
func (c *call) admit(ctx context.Context, a *Attempt) (failed Step, err error) {
	if c.Peer.Limit != nil {
		if err := c.Peer.Limit(ctx); err != nil {
			return Limit, err
		}
	}
	if c.Peer.Gate != nil {
		mayWait := !c.Impatient
		if err := c.Peer.Gate.Enter(ctx, mayWait, c.limitRefusals); err != nil {
			return GateWait, err
		}
		a.passedGate = true
	}
	justRenewed := c.tokenRenewed && c.next.WithoutPause
	if c.Authorization != nil && !justRenewed {
		c.authorization, err = c.Authorization(ctx)
		if err != nil {
			return Authorize, err
		}
	}
	return None, nil
}

// header returns the headers of one attempt, which a transport may change: the caller's, and those that every request
// has. Where both have a header, the caller's Cache-Control is kept, and any other is replaced.
func (c *call) header(callers http.Header) http.Header {
	var contentType string
	if c.Body != nil {
		contentType = cmp.Or(c.Body.ContentType, "application/json")
	}
	keys := [...]string{"Accept", "User-Agent", "Authorization", "Content-Type", "Cache-Control"}
	values := [...]string{c.Peer.Accept, c.Peer.UserAgent, c.authorization, contentType, c.Peer.CacheControl}
	header := make(http.Header, len(keys))
	for key, list := range callers {
		header[key] = slices.Clone(list) // what a transport changes must not be in the next attempt
	}
	for i, key := range keys {
		_, isCallers := header[key]
		isKept := isCallers && key == "Cache-Control"
		if values[i] == "" || isKept {
			continue
		}
		// The headers share one array. With a capacity of 1, an append does not overwrite the next header's value.
		header[key] = values[i : i+1 : i+1]
	}
	return header
}

const maxRedirects = 5 // on the own origin

// send attaches the body and delivers the request. A streamed body is sent from its own goroutine.
func (c *call) send(out *http.Request, state *SendState) (*http.Response, error) {
	mayAnnounce := !c.Peer.ignoresExpect.Load()
	state.Attach(out, c.Body, mayAnnounce)
	if c.Body == nil || c.Body.Open == nil { // not a stream
		return c.deliver(out, state)
	}
	deliver := func() (*http.Response, error) { return c.deliver(out, state) }
	return state.SendStreamed(out.Context(), c.Progress, deliver)
}

// deliver sends the request and returns its response. It sends the request again in three cases: if the first
// connection cannot be used, without Expect if the server rejects that header, and to the target of a redirect.
func (c *call) deliver(out *http.Request, state *SendState) (*http.Response, error) {
	for redirects := 0; ; {
		before, ownURL := *out, *out.URL // the transport may change and keep what it gets
		before.Header = out.Header.Clone()
		resp, err := c.roundTrip(out)
		if err != nil {
			if !c.mayReconnect(out, state, err) {
				return nil, err
			}
			out = requestTo(ownURL, before)
			wasAnnounced := out.Header.Get("Expect") != ""
			state.Attach(out, c.Body, wasAnnounced)
			continue
		}
		location := Redirect(resp.StatusCode, out.Method, resp.Header.Get("Location"), out.URL, c.Peer.Origin)
		switch {
		case c.rejectsExpect(out, resp):
			discard(resp)
			out = requestTo(ownURL, before)
			c.Peer.ignoresExpect.Store(true)
			out.Header.Del("Expect")
			const mayAnnounce = false
			state.Attach(out, c.Body, mayAnnounce)
		case location != nil && c.Body == nil && redirects < maxRedirects:
			discard(resp)
			out = requestTo(*location, before)
			redirects++
		default:
			return resp, nil
		}
	}
}

// roundTrip passes the request to the transport. The response has a body that can be read and closed. If the transport
// followed a redirect with another method, it returns the redirect itself, without a body.
func (c *call) roundTrip(out *http.Request) (*http.Response, error) {
	resp, err := c.Peer.Transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if resp == nil {
		return nil, redact.Text("the transport gave neither a response nor an error")
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	followedRedirect := resp.Request != nil && resp.Request.Response != nil
	if followedRedirect && resp.Request.Method != out.Method { // the transport is a client, and asked for another thing
		_ = resp.Body.Close()
		resp = resp.Request.Response
		resp.Body = http.NoBody
	}
	if resp.StatusCode < 200 { // such as 101, whose body is the connection itself, on which nothing more need come
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, nil
}

// mayReconnect reports whether the request may be sent again on another connection.
func (c *call) mayReconnect(out *http.Request, state *SendState, err error) bool {
	if out.Context().Err() != nil || !state.Skipped(err) {
		return false
	}
	return c.Body.replayable() || state.BytesSent() == 0
}

// rejectsExpect reports whether the server rejects the Expect header, and the request can be sent without it.
func (c *call) rejectsExpect(out *http.Request, resp *http.Response) bool {
	if resp.StatusCode != http.StatusExpectationFailed || out.Header.Get("Expect") == "" {
		return false
	}
	isOver := out.Context().Err() != nil // Do may have returned, if the transport ignores the context
	return !isOver && c.Body.replayable()
}

// requestTo returns a copy of the request with this URL.
func requestTo(target url.URL, request http.Request) *http.Request {
	request.URL = &target
	return &request
}

// discard reads the rest of a short response and closes it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
	_ = resp.Body.Close()
}

// receive passes the response to the policy, closes it and stops sending. It stores the response in the attempt if the
// response is complete. After a refused request with a body, its connection is not used again, except in HTTP/2 and
// later.
func (c *call) receive(ctx context.Context, resp *http.Response, a *Attempt, state *SendState) error {
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.ProtoMajor > 1:
		c.Peer.speaksHTTP2.Store(true)
	case resp.ProtoMajor == 1:
		c.Peer.speaksHTTP1.Store(true)
	}
	isRefused := resp.StatusCode/100 != 2
	if isRefused && c.Body != nil && resp.ProtoMajor < 2 {
		state.Retire()
	}
	var err error
	a.BytesReceived, err = c.policy.Receive(ctx, resp, &state.Watchdog)
	state.Close()
	if err == nil && state.IgnoredExpect() {
		c.Peer.ignoresExpect.Store(true)
	}
	if err == nil || errors.Is(err, ErrUnusable) { // it is complete
		a.Status = resp.StatusCode
		a.Header = resp.Header
		if c.buffer != nil {
			a.Body = c.buffer.Bytes()
		}
	}
	return err
}
