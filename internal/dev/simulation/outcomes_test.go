package simulation

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
)

// outcome is what becomes of one request that writes.
type outcome struct {
	name   string
	sent   extent // how much of it leaves
	acts   bool   // the service carries it out
	late   bool   // but only when the call is over
	status int    // of the response; 0: none, or the service's own if it is heard
	heard  bool   // the service's own response arrives
	html   bool   // the response is a web page
	cutOff bool   // the response breaks off
	twin   bool   // of one before it, but for its text: only the last attempt tries it
}

type extent int

const (
	nothing extent = iota
	headersAndSome
	everything
)

// outcomes are all classes of send state and status.
var outcomes = []outcome{
	{name: "ok", sent: everything, acts: true, heard: true},
	{name: "never sent"},
	{name: "cut", sent: headersAndSome},
	{name: "lost", sent: everything},
	{name: "unheard", sent: everything, acts: true},
	{name: "lost, acts late", sent: everything, acts: true, late: true},
	{name: "502", sent: everything, status: 502},
	{name: "502 acted", sent: everything, acts: true, status: 502},
	{name: "503 acted", sent: everything, acts: true, status: 503},
	{name: "504 acts late", sent: everything, acts: true, late: true, status: 504},
	{name: "429", sent: everything, status: 429},
	{name: "403", sent: everything, status: 403},
	{name: "200 web page", sent: everything, status: 200, html: true},
	{name: "200 web page, acted", sent: everything, acts: true, status: 200, html: true},
	{name: "302 acted", sent: everything, acts: true, status: 302},
	{name: "501", sent: everything, status: 501},
	{name: "408 acted", sent: everything, acts: true, status: 408},
	{name: "breaks off", sent: everything, acts: true, heard: true, cutOff: true},
	{name: "503", sent: everything, status: 503, twin: true},
	{name: "500 acted", sent: everything, acts: true, status: 500, twin: true},
	{name: "408", sent: everything, status: 408, twin: true},
	{name: "422", sent: everything, status: 422, twin: true},
	{name: "413", sent: everything, status: 413, twin: true},
	{name: "401", sent: everything, status: 401, twin: true},
	{name: "307", sent: everything, status: 307, twin: true},
}

// middle are the outcomes of attempts that may be followed by others.
var middle = func() (list []outcome) {
	for _, o := range outcomes {
		if !o.twin {
			list = append(list, o)
		}
	}
	return list
}()

// doubtful reports whether the SDK cannot know that nothing was done: part 3 of the rules.
func (o outcome) doubtful(op string) bool {
	switch {
	case o.cutOff:
		return true
	case o.status == 0 && o.sent == headersAndSome:
		return op != "create" // small requests leave with their headers
	case o.status == 0:
		return o.sent == everything
	}
	return o.status >= 500 || o.status/100 == 2 || o.status == 302 || o.status == 408
}

// mayPass reports whether the outcome is one that often passes by itself.
func (o outcome) mayPass() bool {
	switch o.status {
	case 0:
		return true
	case 408, 429, 500, 502, 503, 504:
		return true
	}
	return false
}

// strike lets the request meet its outcome: send is how much leaves, then act or not, then a response or none. The service's
// own response is act's.
func (o outcome) strike(req *http.Request, act func() *http.Response, later func(func())) (*http.Response, error) {
	trace := traceOf(req)
	trace.GetConn(req.URL.Host)
	if o.sent == nothing {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	trace.WroteHeaders()
	if o.sent == headersAndSome {
		if req.Body != nil {
			_, _ = io.ReadFull(req.Body, make([]byte, 8))
		}
		return nil, &net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}
	}
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
	}
	var own *http.Response
	switch {
	case o.late:
		later(func() { act() }) //nolint:bodyclose // it is in memory
	case o.acts:
		own = act()
	}
	switch {
	case o.heard && o.cutOff && own.StatusCode < 300:
		own.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"id":`), brokenReader{}))
		return own, nil
	case o.heard:
		return own, nil
	case o.status == 0:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case o.html:
		return respond(o.status, "text/html", "<html>log in</html>"), nil
	}
	return respond(o.status, "application/json", fmt.Sprintf(`{"message":%q}`, http.StatusText(o.status))), nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// traceOf returns the hooks of whoever listens to the request, all of them.
func traceOf(req *http.Request) *httptrace.ClientTrace {
	trace := httptrace.ContextClientTrace(req.Context())
	if trace == nil {
		trace = new(httptrace.ClientTrace)
	}
	whole := *trace
	if whole.GetConn == nil {
		whole.GetConn = func(string) {}
	}
	if whole.WroteHeaders == nil {
		whole.WroteHeaders = func() {}
	}
	if whole.WroteRequest == nil {
		whole.WroteRequest = func(httptrace.WroteRequestInfo) {}
	}
	return &whole
}

const loginPath = "/login"

func respond(status int, contentType, body string) *http.Response {
	resp := &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	if status/100 == 3 {
		resp.Header.Set("Location", loginPath)
	}
	return resp
}
