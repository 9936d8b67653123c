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

// Attempt is what one attempt came to.
type Attempt struct { //nolint:errname // an outcome first; an error for the retry loop alone
	Number        int
	Started       time.Time     // when it began to send; the limiter's time is before that
	Duration      time.Duration // of all steps
	BytesSent     int64         // of the body
	BytesReceived int64         // of the body

	Status  int // of the response; 0 when none came whole, but for a stream
	Header  http.Header
	Body    []byte // valid until Release
	TooLong bool   // a success whose body is longer than it may be

	Step  Step  // that failed; None for a response
	Cause error // why
	Ended error // of the caller's context, if that was over too
	Sent  retry.Sent
	Err   error // as Explain put it; nil for a 2xx

	permanent bool // the failure will be the same next time
}

// Step is where an attempt without a response ended.
type Step int

// The steps that can fail.
const (
	None      Step = iota
	Limit          // the limiter refused; nothing was sent
	Authorize      // there is no token; nothing was sent
	Source         // the body could not be read; the server cannot have all of it
	Commit         // BeforeCommit refused; the server cannot have all of it
	Context        // the caller's context ended
	Network        // no response, or only a part of one
	Content        // the stream cannot use the response, or has no request
)

// Error makes an attempt the error by which the retry loop learns of it.
func (a *Attempt) Error() string { return redact.Cause(a.Cause) }

// Outcome is what the retry decision goes by.
func (a *Attempt) Outcome() retry.Outcome {
	return retry.Outcome{Status: a.Status, Sent: a.Sent, Permanent: a.permanent}
}

func success(status int) bool { return status >= 200 && status <= 299 }

// attempt goes through the steps once. What it returns is for the loop: the response, whose body has been read, or the
// attempt itself as the error.
func (c *Call) attempt(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c.Attempts++
	began := time.Now()
	a := &Attempt{Number: c.Attempts, Started: began, permanent: true} // until something is sent
	resp := c.steps(ctx, req, a)
	a.Duration = time.Since(began)
	if a.Step != None || a.TooLong || c.Stream == nil && !success(a.Status) {
		a.Err = c.Explain(a)
	}
	c.Last = a
	if !c.Unsure && !a.Outcome().NotProcessed() {
		c.Unsure, c.doubtful = true, a
	}
	if c.Report != nil {
		c.Report(ctx, a)
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
	watched, watchdog := stall.Guard(ctx, c.Peer.StallTimeout)
	defer watchdog.Stop()
	watched, cancel := stall.WithTimeout(watched, c.Peer.Timeout)
	defer cancel()
	state := &sending.State{Watchdog: watchdog, Once: c.Effect == retry.Creates, BeforeCommit: c.BeforeCommit}
	a.Started = time.Now()
	out := req.WithContext(httptrace.WithClientTrace(watched, state.Trace()))
	if c.Stream == nil {
		out.Header = c.header(token)
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
	smallSize    = 64 << 10 // bodies up to it are not followed if they may be sent twice: a connection takes them at once
	expectSize   = 1 << 20  // bodies above it are announced, so that a refusal comes before they are sent
	maxReadTime  = 10       // stall timeouts that reading a response may take
)

// send delivers the request: a streamed body in company.
func (c *Call) send(out *http.Request, state *sending.State) (*http.Response, error) {
	c.attach(out, state)
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
		c.attach(out, state)
	}
}

// attach gives the request its body. Only a body that may be sent twice gets a GetBody, with which net/http repeats
// requests by itself.
func (c *Call) attach(out *http.Request, state *sending.State) {
	if c.Body == nil {
		return
	}
	size := c.Body.Size()
	out.ContentLength = size
	if body, held := c.Body.(sending.JSON); held && c.Effect != retry.Creates && size <= smallSize {
		state.Unfollowed = size
		out.Body = body.Reader() // of a type that net/http knows: it leaves together with the headers
		out.GetBody = func() (io.ReadCloser, error) { return body.Reader(), nil }
		return
	}
	announced := c.Effect == retry.Creates && (size < 0 || size > expectSize) && !c.Peer.ignoresExpect.Load()
	if announced {
		out.Header["Expect"] = []string{"100-continue"}
	}
	out.Body = state.Follow(c.Body, announced)
	if c.Effect != retry.Creates {
		out.GetBody = func() (io.ReadCloser, error) { return state.Follow(c.Body, false), nil }
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

// judge finds the cause of an attempt without a response where it is told best: by the stream, at our own end, in the
// caller's context, in the watchdog, or else in the transport's error.
func (a *Attempt) judge(ctx, watched context.Context, state *sending.State, err error) {
	a.Ended = redact.ContextErr(ctx)
	refused, failed := state.Failure()
	cause := context.Cause(watched)
	switch {
	case a.Step == Content:
		a.Cause = err
	case refused != nil:
		a.Step, a.Cause, a.Sent, a.permanent = Commit, refused, retry.Partly, true
	case failed != nil:
		a.Step, a.Cause, a.Sent, a.permanent = Source, failed, retry.Partly, true
	case a.Ended != nil:
		a.Step, a.Cause, a.permanent = Context, a.Ended, true
	case cause != nil:
		a.Step, a.Cause = Network, cause
	default:
		a.Step, a.Cause, a.permanent = Network, err, retry.Permanent(err)
	}
}
