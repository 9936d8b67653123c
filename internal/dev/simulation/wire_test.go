package simulation

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// protocol is how requests travel.
type protocol int

const (
	inProcess protocol = iota
	http1              // over pipes, with net/http on both sides
	http2
)

func (p protocol) String() string { return [...]string{"in process", "HTTP/1.1", "HTTP/2"}[p] }

// wire is the way to the service with net/http's own transport and server, and pipes between them.
type wire struct {
	server    *http.Server
	transport *http.Transport
	conns     chan net.Conn
	closed    chan struct{}
	serving   sync.WaitGroup

	mu    sync.Mutex
	trips map[string]trip // under way
	last  int
}

const tripHeader = "X-Trip"

func newWire(p protocol) *wire {
	w := &wire{conns: make(chan net.Conn), closed: make(chan struct{}), trips: map[string]trip{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(p == http1)
	protocols.SetUnencryptedHTTP2(p == http2)
	w.server = &http.Server{Handler: w, Protocols: protocols}
	w.transport = &http.Transport{DialContext: w.dial, Protocols: protocols, IdleConnTimeout: time.Minute, DisableCompression: true}
	w.serving.Go(func() { _ = w.server.Serve(w) })
	return w
}

func (w *wire) close() {
	w.transport.CloseIdleConnections()
	_ = w.server.Close()
	w.serving.Wait()
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Accept, Close and Addr make it a listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { close(w.closed); return nil }
func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (w *wire) begin(t *trip) (key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	key = strconv.Itoa(w.last)
	w.trips[key] = *t
	return key
}

func (w *wire) end(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.trips, key)
}

// trip is a copy: its client may give up while the server goes on.
func (w *wire) trip(key string) (t trip, underWay bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, underWay = w.trips[key]
	return t, underWay
}

// sendByWire is send where there is a wire.
func (t *trip) sendByWire(req *http.Request) (*http.Response, error) {
	w := t.world.wire
	switch {
	case t.fault == refused:
		traceOf(req).GetConn(req.URL.Host)
		t.say("-> %s: refused", t.label())
		return nil, cmp.Or[error](wait(req.Context(), t.latency), errRefused)
	case t.fault == cut && (req.Body == nil || req.Body == http.NoBody):
		t.say("-> %s: cut", t.label())
		traceOf(req).GetConn(req.URL.Host)
		traceOf(req).WroteHeaders()
		return nil, cmp.Or[error](wait(req.Context(), t.latency), errCut)
	}
	key := w.begin(t)
	defer w.end(key)
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	out := req.Clone(httptrace.WithClientTrace(req.Context(), trace))
	out.URL.Scheme = "http"
	out.Header.Set(tripHeader, key)
	if t.fault == cut {
		t.say("-> %s: cut", t.label())
		out.Body = &cutBody{req.Body, t.extent % 600}
	}
	resp, err := w.transport.RoundTrip(out)
	// Only the near end closes a pipe so: a create has no use for a connection that was idle for long, and takes another.
	t.unused = reused && errors.Is(err, io.ErrClosedPipe)
	return resp, err
}

// cutBody is a request's body, in which the connection ends.
type cutBody struct {
	io.ReadCloser

	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errCut
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// ServeHTTP is the far end of the wire.
func (w *wire) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	t, underWay := w.trip(req.Header.Get(tripHeader))
	body, err := io.ReadAll(req.Body)
	if err != nil || !underWay {
		panic(http.ErrAbortHandler)
	}
	t.request.body = body
	resp, err := t.travel(req.Context()) //nolint:bodyclose // it is in memory
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	whole, err := io.ReadAll(resp.Body)
	maps.Copy(rw.Header(), resp.Header)
	length := len(whole)
	if err != nil { // the length is true, and at least one byte is missing
		length = max(length, int(resp.ContentLength), 1)
		whole = whole[:min(len(whole), length-1)]
	}
	if resp.StatusCode != http.StatusNoContent {
		rw.Header().Set("Content-Length", strconv.Itoa(length))
	}
	rw.WriteHeader(resp.StatusCode)
	_, _ = rw.Write(whole)
	if err != nil {
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
}

// What holds in process holds where net/http sends and serves.
func TestWorldsOverPipes(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{http1, http2} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			for seed := *from; seed < *from+max(*seeds/4, 1); seed++ {
				w := newWorld(seed)
				w.design.protocol = p
				w.run(t)
				assert.Empty(t, w.violations, "seed %d\n%s", seed, strings.Join(w.lines(), "\n"))
			}
		})
	}
}
