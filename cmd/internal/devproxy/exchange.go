package devproxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxChecked bounds how much of a response is kept to be checked.
const maxChecked = 8 << 20

// exchange is one request on its way, from its first byte to the last of its response.
type exchange struct {
	request  *request // as pages see it while it lasts
	record   *record  // nil: nothing but shapes is kept
	key      uint64   // the same for retries
	route    string
	began    time.Time
	received *countingBody
	sent     *countingWriter
	noteID   int64 // that it made or changed
	storage  bool  // asked of the audio storage

	brokenOff bool // the response is not whole

	response    *copiedBody // of a real service; nil: none came
	unreachable bool
	findings    []finding
}

type exchangeKey struct{}

// exchangeIn returns the exchange that a context belongs to.
func exchangeIn(ctx context.Context) *exchange {
	e, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		panic("a request is served that nobody follows")
	}
	return e
}

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
	_, _, cut := e.received.seen()
	return !delivered && (r.Context().Err() != nil || cut || e.sent.failed)
}

// conclude says what is to be said of an exchange with a real service that is over. What a fault made of it is no
// finding.
func (e *exchange) conclude(r *http.Request) {
	switch {
	case e.sent.fault != "":
	case e.hungUp(r):
		e.findings = []finding{{what: "the client closed the connection"}}
	case e.unreachable:
		e.findings = []finding{{what: "the service could not be reached, or ended the connection"}}
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
		return []finding{{what: "the response was cut off"}}
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

// countingBody is a request's body. The transport may still read from it when the upstream has responded.
type countingBody struct {
	io.Reader
	mu     sync.Mutex
	n      int64
	first  []byte // as much as its shape is read from
	copy   *body
	failed bool // its sender went away
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += int64(n)
	b.first = appendStart(b.first, p[:n])
	_, _ = b.copy.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed = true
	}
	return n, err
}

// Close does nothing: the server closes the body when it has responded. Before that it would first read a short body
// to its end, which a client that waits to be asked for it does not send.
func (b *countingBody) Close() error { return nil }

// seen returns how much was read, how it starts, and whether its sender went away.
func (b *countingBody) seen() (n int64, start []byte, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n, b.first, b.failed
}

// appendStart keeps as much of a body as its shape is read from.
func appendStart(start, piece []byte) []byte {
	return append(start, piece[:min(len(piece), maxShaped-len(start))]...)
}

// countingWriter notes what is sent of a response.
type countingWriter struct {
	http.ResponseWriter
	verbatim bool // what the service did not send is not made up
	status   int
	n        int64
	start    []byte
	copy     *body
	hijacked bool
	failed   bool   // its receiver went away
	fault    string // the injected one that it met

	onFailure func() // called before the client can know that it may try again
}

// Hijack takes the connection away from the response, which then never comes.
func (w *countingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.hijacked = true
	w.onFailure()
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Struck records a fault that applied; see [boxlink.PassOn].
func (w *countingWriter) Struck(fault string) { w.fault = fault }

// Unwrap lets http.ResponseController flush and hijack.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countingWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.status = status
	}
	if retryable(status) {
		w.onFailure()
	}
	if status >= http.StatusOK && w.verbatim {
		for _, name := range []string{"Content-Type", "Date"} {
			if _, given := w.Header()[name]; !given {
				w.Header()[name] = nil
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	w.start = appendStart(w.start, p[:n])
	_, _ = w.copy.Write(p[:n])
	w.failed = w.failed || err != nil
	return n, err
}
