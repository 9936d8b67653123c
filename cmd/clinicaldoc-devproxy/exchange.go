package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// maxChecked bounds how much of a response is kept to be checked.
const maxChecked = 8 << 20

// exchange is one request on its way through the proxy.
type exchange struct {
	route       string
	began       time.Time
	received    *countingBody
	sent        *countingWriter
	response    *copiedBody // nil: none came
	unreachable bool
	findings    []finding
}

type exchangeKey struct{}

// inspect has a copy of a response kept while it is passed on.
func (e *exchange) inspect(resp *http.Response) {
	e.response = &copiedBody{
		ReadCloser: resp.Body, status: resp.StatusCode,
		contentType: resp.Header.Get("Content-Type"), encoding: resp.Header.Get("Content-Encoding"),
		bodiless: resp.Request.Method == http.MethodHead,
	}
	resp.Body = e.response
}

// hungUp reports whether the client went away before it had its response.
func (e *exchange) hungUp(r *http.Request) bool {
	delivered := e.response != nil && e.response.ended && !e.sent.failed
	return !delivered && (r.Context().Err() != nil || e.received.failed.Load() || e.sent.failed)
}

// conclude says what is to be said of an exchange that is over.
func (e *exchange) conclude(r *http.Request) {
	switch {
	case e.hungUp(r):
		e.findings = []finding{{what: "the client hung up"}}
	case e.unreachable:
		e.findings = []finding{{what: "the service could not be reached or broke off"}}
	case e.response != nil:
		e.findings = e.response.check(e.route)
	}
}

// copiedBody is a response's body that keeps a copy of what is read from it.
type copiedBody struct {
	io.ReadCloser
	status                int
	contentType, encoding string
	bodiless              bool
	content               bytes.Buffer
	tooLarge, ended       bool
}

func (b *copiedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.content.Len()+n > maxChecked {
		b.tooLarge = true
		b.content = bytes.Buffer{}
	}
	if !b.tooLarge {
		b.content.Write(p[:n])
	}
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// check holds the copy against the description.
func (b *copiedBody) check(route string) []finding {
	switch {
	case b.bodiless:
		return nil
	case !b.ended:
		return []finding{{what: "the response broke off"}}
	case b.tooLarge:
		return []finding{{what: "too large to check"}}
	}
	content := b.content.Bytes()
	switch strings.ToLower(b.encoding) {
	case "", "identity":
	case "gzip":
		unpacked, err := gunzip(content)
		if err != nil {
			return []finding{{what: "the compression is broken or too large to check"}}
		}
		content = unpacked
	default:
		return []finding{{what: "compressed in a way that is not checked"}}
	}
	return checkResponse(route, b.status, b.contentType, content)
}

func gunzip(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(reader, maxChecked+1))
	if len(content) > maxChecked {
		return nil, errors.New("too large")
	}
	return content, err
}

// countingBody counts atomically: the transport may still read from it when
// the upstream has responded.
type countingBody struct {
	io.ReadCloser
	n      atomic.Int64
	failed atomic.Bool // its sender went away
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.Store(true)
	}
	return n, err
}

// countingWriter notes what is sent of a response, and adds nothing to it.
type countingWriter struct {
	http.ResponseWriter
	status int
	n      int64
	failed bool // its receiver went away
}

// Unwrap lets the reverse proxy flush.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countingWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.status = status
		for _, name := range []string{"Content-Type", "Date"} { // net/http would make them up
			if _, given := w.Header()[name]; !given {
				w.Header()[name] = nil
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	w.failed = w.failed || err != nil
	return n, err
}
