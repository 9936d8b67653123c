package clinicaldoc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

const (
	maxErrorBody     = 64 << 10 // of an answer that is no success; what is beyond is cut off
	maxRedirects     = 5        // on the base URL's own origin
	smallSize        = 64 << 10 // bodies up to it need no watching if they may be sent twice: a connection takes them at once
	expectSize       = 1 << 20  // bodies above it are announced, so that a refusal comes before the audio is sent
	maxSilentRepeats = 10       // connections that net/http may try by itself within one attempt
)

// RoundTrip makes one attempt: wait for the limiter, ask for the token, send, read the whole answer, tell observer and
// logger. It is an http.RoundTripper so that the retry loop can drive it; the response it returns is for that loop only.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	x.attempts++
	x.started = time.Now()
	x.earlier, x.err = x.err, nil
	x.answer = answer{}
	x.outcome = retry.Outcome{Permanent: true} // until something is sent
	var sent int64
	if err := x.attempt(req, &sent); err != nil {
		x.err = err
	}
	x.outcome.Status = x.answer.status
	x.report(sent)
	if x.answer.status == 0 {
		return nil, x.err
	}
	header := x.answer.header
	if header.Get("Location") != "" {
		header = header.Clone()
		header.Del("Location") // or http.Client would follow it
	}
	return &http.Response{StatusCode: x.answer.status, Header: header, Body: http.NoBody, Request: req}, nil
}

func (x *exchange) attempt(req *http.Request, sent *int64) error {
	c := x.client
	if c.config.limiter != nil {
		if err := c.config.limiter.Wait(req.Context()); err != nil {
			return x.failure("not sent: the limiter refused", err)
		}
	}
	token, err := c.config.tokenSource(req.Context())
	if err != nil {
		return x.failure("not sent: the token source failed", err)
	}
	if err := checkToken(token); err != nil {
		return x.failure("not sent: the token source's token "+err.Error(), ErrInvalidArgument)
	}

	ctx, watchdog := stall.Guard(req.Context(), c.config.stallTimeout)
	defer watchdog.Stop()
	state := &sendState{watchdog: watchdog}
	out := req.WithContext(httptrace.WithClientTrace(ctx, state.trace()))
	out.Header = x.newHeader(token)
	resp, err := x.deliverOrLeave(out, state) //nolint:bodyclose // read does
	if err == nil {
		x.outcome.Sent = retry.Wholly // it answers, so it has what it wants
		err = x.read(resp, watchdog)
	} else {
		x.outcome.Sent = state.settle()
	}
	*sent = state.taken()
	if err != nil {
		return x.transportFailure(ctx, state.sourceError(), err)
	}
	if x.answer.status < 200 || x.answer.status > 299 {
		return x.statusError()
	}
	return nil
}

// newHeader returns the headers of one attempt. Their values share one array.
func (x *exchange) newHeader(token string) http.Header {
	values := []string{"application/json", x.client.config.userAgent, "Bearer " + token, ""}
	header := make(http.Header, len(x.options.header)+len(values))
	maps.Copy(header, x.options.header)
	header["Accept"] = values[0:1:1] // without it the service answers errors with redirects
	header["User-Agent"] = values[1:2:2]
	header["Authorization"] = values[2:3:3]
	if body := x.request.body; body != nil {
		values[3] = body.contentType()
		header["Content-Type"] = values[3:4:4]
	}
	return header
}

// deliverOrLeave is deliver that ends with its context also when the source of an upload blocks, as a pipe may: net/http
// reports a broken connection only when the read of the body has returned.
func (x *exchange) deliverOrLeave(out *http.Request, state *sendState) (*http.Response, error) {
	if _, streamed := x.request.body.(*upload); !streamed {
		return x.deliver(out, state)
	}
	var resp *http.Response
	err := error(errCallOver)
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		resp, err = x.deliver(out, state) //nolint:bodyclose // read does, or the last lines below
	}()
	select {
	case <-delivered:
		return resp, err
	case <-out.Context().Done():
	}
	grace := time.NewTimer(streamGrace)
	defer grace.Stop()
	select {
	case <-delivered:
		return resp, err
	case <-grace.C:
	}
	go func() {
		<-delivered
		if resp != nil {
			_ = resp.Body.Close()
		}
	}()
	return nil, context.Cause(out.Context())
}

// deliver sends the request, without the announcement if the server rejects that, and follows redirects where allowed.
func (x *exchange) deliver(out *http.Request, state *sendState) (*http.Response, error) {
	x.attachBody(out, state)
	for hops := 0; ; hops++ {
		resp, err := x.client.config.httpClient.Transport.RoundTrip(out)
		if err != nil {
			return nil, err
		}
		rejected := resp.StatusCode == http.StatusExpectationFailed && out.Header.Get("Expect") != "" && x.request.body.replayable()
		target := redirectTarget(out, resp)
		redirected := target != nil && x.request.body == nil && origin.Same(target, x.client.home) && hops < maxRedirects
		if !rejected && !redirected {
			return resp, nil
		}
		_ = resp.Body.Close()
		out = out.Clone(out.Context()) // the transport may still hold on to the one it was given
		if redirected {
			out.URL = target
			continue
		}
		x.attachBody(out, state)
		out.Header.Del("Expect")
	}
}

// attachBody gives the request a fresh body. Only a body that may be sent twice gets a GetBody, with which net/http
// repeats requests on its own.
func (x *exchange) attachBody(out *http.Request, state *sendState) {
	body := x.request.body
	if body == nil {
		return
	}
	out.ContentLength = body.size()
	if body, held := body.(jsonBody); held && x.request.op.effect != retry.Creates && len(body) <= smallSize {
		state.small = body.size()
		out.Body = body.open() // of a type that net/http knows: it leaves together with the headers
		out.GetBody = func() (io.ReadCloser, error) { return body.open(), nil }
		return
	}
	out.Body = state.follow(body.open(), body.size())
	if x.request.op.effect == retry.Creates {
		if size := body.size(); size < 0 || size > expectSize {
			out.Header["Expect"] = []string{"100-continue"}
			out.Close = true // or net/http pushes the body for a while after a refusal, to save the connection
		}
		return
	}
	out.GetBody = func() (io.ReadCloser, error) { return state.follow(body.open(), body.size()), nil }
}

// redirectTarget returns where a redirect of a GET or HEAD leads, or nil.
func redirectTarget(req *http.Request, resp *http.Response) *url.URL {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil
	}
	location := resp.Header.Get("Location")
	target, err := req.URL.Parse(location)
	if location == "" || err != nil || target.User != nil {
		return nil
	}
	return target
}

// read takes the answer in, up to the limit. An error answer that breaks off or is too long still counts as an answer.
func (x *exchange) read(resp *http.Response, watchdog *stall.Watchdog) error {
	defer func() { _ = resp.Body.Close() }()
	success := resp.StatusCode >= 200 && resp.StatusCode <= 299
	limit := x.client.config.maxResponseSize
	if !success {
		limit = min(limit, maxErrorBody)
	}
	if x.buffer == nil {
		x.buffer = buffers.take()
	}
	x.buffer.Reset()
	n, err := x.buffer.ReadFrom(io.LimitReader(progressReader{resp.Body, watchdog}, limit+1))
	if err != nil && success {
		return err
	}
	x.answer = answer{
		status:    resp.StatusCode,
		header:    resp.Header,
		requestID: requestID(resp.Header),
		body:      x.buffer.Bytes()[:min(n, limit)],
	}
	if n > limit && success {
		x.err = x.unexpected(errTooLong)
	}
	return nil
}

type progressReader struct {
	io.Reader
	watchdog *stall.Watchdog
}

func (r progressReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.watchdog.Progress()
	}
	return n, err
}

// requestID returns the id that the service or a proxy gave the request, if it is fit for a log line.
func requestID(h http.Header) string {
	for _, key := range []string{"X-Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id", "Cf-Ray"} {
		if id := h.Get(key); isIdentifier(id, 128, "-_.:=;/+") {
			return id
		}
	}
	return ""
}

// failure is an attempt that ended before anything was sent. Why the attempt before it failed is not forgotten.
func (x *exchange) failure(detail string, cause error) error {
	if ended := redact.ContextErr(x.ctx); ended != nil {
		detail += ": " + redact.Cause(ended)
	}
	return &callError{op: x.request.op, detail: detail, causes: []error{cause, x.earlier}}
}

// transportFailure is an attempt without a whole answer. The cause is found where it is told best: at our own end, in
// the caller's context, in the watchdog, or else in the transport's error.
func (x *exchange) transportFailure(ctx context.Context, source, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // its text holds the query
	}
	detail, transient := "", false
	switch cause := context.Cause(ctx); {
	case source != nil:
		x.outcome.Sent = retry.Partly // a request with a broken body is never complete
		detail, err = "the audio could not be read: ", source
	case x.ctx.Err() != nil:
		err = redact.ContextErr(x.ctx) //nolint:contextcheck // the caller's own
	case cause != nil:
		x.outcome.Permanent, transient, err = false, true, cause
	default:
		x.outcome.Permanent = retry.Permanent(err)
		transient = !x.outcome.Permanent
		if x.outcome.Sent == retry.Partly {
			detail = cutUpload(err)
		}
	}
	detail += redact.Cause(err)
	return &callError{op: x.request.op, detail: "no answer: " + detail, causes: []error{err}, transient: transient}
}

// statusError turns an answer that is no success into an *Error.
func (x *exchange) statusError() error {
	e := &Error{
		StatusCode: x.answer.status,
		RequestID:  x.answer.requestID,
		RetryAfter: retry.After(x.answer.header.Get("Retry-After"), time.Now()),
		Operation:  x.request.op.name,
		Method:     x.request.op.method,
		Route:      x.request.op.route,
	}
	decodeErrorBody(x.answer.body, e)
	e.explain(x.answer.header, x.client.home, x.request.body == nil)
	x.outcome.Permanent = false
	return e
}

// report tells observer and logger of the attempt.
func (x *exchange) report(sent int64) {
	if x.client.config.observer == nil && x.client.config.logger == nil {
		return
	}
	x.client.tell(x.ctx, Attempt{
		Operation:     x.request.op.name,
		Method:        x.request.op.method,
		Route:         x.request.op.route,
		Number:        x.attempts,
		StatusCode:    x.answer.status,
		Duration:      time.Since(x.started),
		RequestID:     x.answer.requestID,
		BytesSent:     sent,
		BytesReceived: int64(len(x.answer.body)),
		Err:           x.err,
	})
}

// tell is the one way observer and logger learn of an attempt.
func (c *Client) tell(ctx context.Context, a Attempt) {
	if c.config.observer != nil {
		c.config.observer(ctx, a)
	}
	if c.config.logger != nil {
		level := slog.LevelDebug
		if a.Err != nil {
			level = slog.LevelWarn
		}
		c.config.logger.LogAttrs(ctx, level, "clinicaldoc attempt", a.attrs()...)
	}
}
