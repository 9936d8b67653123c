package faultmatrix

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	movedPrefix = "/moved" // before a path that a redirect leads to
	audioPrefix = "/audio/"
)

// front is a listener before the box. It passes requests on, but for those that the fault strikes.
type front struct {
	world    *world
	url      string
	secure   bool
	listener net.Listener
	warmed   chan struct{} // closed when the call that warms a connection has met its end
	warming  sync.Once
	sent     atomic.Int64 // bytes to the SDK
	running  sync.WaitGroup

	mu      sync.Mutex
	seen    []arrival
	conns   []net.Conn
	stopped bool // a connection that was accepted before, but is only served now, is closed
}

// arrival is a request as it came.
type arrival struct {
	front        *front
	method, path string
	header       http.Header
	at           time.Time
	warm         bool // it came before the fault was armed
}

// atHome tells whether the request is the service's, to which the token belongs.
func (a arrival) atHome() bool {
	return a.front == a.front.world.home && !strings.HasPrefix(strings.TrimPrefix(a.path, movedPrefix), audioPrefix)
}

func (a arrival) carriesToken() bool {
	return strings.Contains(fmt.Sprint(a.header), a.front.world.secret)
}

func newFront(t *testing.T, w *world, secure bool) *front {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &front{world: w, secure: secure, listener: listener, warmed: make(chan struct{}), url: "http://" + listener.Addr().String()}
	if secure {
		f.url = "https://" + listener.Addr().String()
	}
	return f
}

func (f *front) start() {
	f.running.Go(func() {
		for {
			conn, err := f.listener.Accept()
			if err != nil {
				return
			}
			if tcp, is := conn.(*net.TCPConn); is {
				_, _ = tcp.SetReadBuffer(socketBuffer), tcp.SetWriteBuffer(socketBuffer)
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			stopped := f.stopped
			f.mu.Unlock()
			if stopped {
				_ = conn.Close()
				return
			}
			f.running.Go(func() {
				defer conn.Close()
				f.serve(conn)
			})
		}
	})
}

func (f *front) stop() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.stopped = true
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

func (f *front) arrivals() []arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]arrival(nil), f.seen...)
}

// serve speaks to one connection.
func (f *front) serve(raw net.Conn) {
	w := f.world
	conn := net.Conn(countingConn{raw, &f.sent})
	struck := f == w.target() && (w.fault.accept != nil || w.fault.frames != nil) && w.strikes()
	if f.secure {
		protocol := "http/1.1"
		if struck && w.fault.frames != nil {
			protocol = "h2"
		}
		conn = tls.Server(conn, serverTLS(protocol))
	}
	s := &strike{front: f, conn: conn, raw: raw, in: bufio.NewReader(conn)}
	switch {
	case struck && w.fault.accept != nil:
		w.fault.accept(s)
		return
	case struck:
		serveFrames(conn, s.in, w.fault.frames)
		return
	}
	for s.next() {
		target := f == w.target() && s.request.Method == w.op.method && w.isTarget(s.request.URL.Path)
		switch {
		case w.fault.strike != nil && target && w.strikes():
			s.keep = false
			w.fault.strike(s)
		default:
			s.pass()
		}
		if !s.keep {
			return
		}
	}
}

// next reads a request's header.
func (s *strike) next() bool {
	request, err := http.ReadRequest(s.in)
	if err != nil || !s.front.world.isOwn(s.conn) {
		return false
	}
	w := s.front.world
	w.mu.Lock()
	s.warm = !w.armed
	w.mu.Unlock()
	s.request, s.keep, s.body = request, !request.Close, nil
	s.front.mu.Lock()
	s.front.seen = append(s.front.seen, arrival{s.front, request.Method, request.URL.Path, request.Header, time.Now(), s.warm})
	s.front.mu.Unlock()
	return true
}

// pass lets a request through to the box and its answer back. The end of a call that warms a connection is the fault's.
func (s *strike) pass() {
	w := s.front.world
	if (w.op.listed || w.op.guarded) && w.fault.warm == nil {
		s.request.Close = true // what follows comes on a fresh connection, on which net/http repeats nothing by itself
	}
	if w.fault.onPage != nil && w.op.listed {
		w.fault.onPage(w, int(w.pages.Add(1)))
	}
	a := s.carryOut()
	w.beforeAnswer(s.request)
	s.write(a)
	s.keep = !s.request.Close
	if s.warm && w.fault.warm != nil && s.front == w.target() {
		w.fault.warm(s)
		s.front.warming.Do(func() { close(s.front.warmed) })
		if s.silent {
			s.untilOver()
		}
	}
}

// answer is an answer on its way back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// forward asks the box. The endpoint that only Do can reach is answered here.
func (w *world) forward(method, uri string, header http.Header, body []byte) answer {
	uri = strings.TrimPrefix(uri, movedPrefix)
	if uri == exports {
		w.exported.Add(1)
		return answer{http.StatusCreated, http.Header{"Content-Type": {"application/json"}}, []byte(`{"id":1}`)}
	}
	base := w.box.URL
	if strings.HasPrefix(uri, audioPrefix) {
		base = w.box.StorageURL
	}
	ctx, cancel := context.WithTimeout(context.Background(), untimed)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, method, base+uri, bytes.NewReader(body))
	if err != nil {
		return answer{status: http.StatusBadGateway}
	}
	out.Header = header.Clone()
	out.Header.Del("Expect")
	reply := httptest.NewRecorder()
	w.box.Handler().ServeHTTP(reply, out)
	content := reply.Body.Bytes()
	if w.fault.audio != nil && strings.HasSuffix(uri, "/audio-url") {
		content = []byte(w.fault.audio(w, string(content)))
	}
	if w.fault.note != nil && uri == ofNote("")(w) {
		content = []byte(w.fault.note(string(content)))
	}
	content = bytes.ReplaceAll(content, []byte(w.box.StorageURL), []byte(w.storage.url))
	return answer{reply.Code, reply.Header(), content}
}

// head renders an answer's status line and header, with the given framing instead of its own.
func (a answer) head(framing string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	for key, values := range a.header {
		switch key {
		case "Content-Length", "Connection", "Transfer-Encoding":
			continue
		}
		fmt.Fprintf(&b, "%s: %s\r\n", key, values[0])
	}
	return b.String() + framing + "\r\n\r\n"
}

func (a answer) length() string { return "Content-Length: " + strconv.Itoa(len(a.body)) }

// countingConn counts what the front sends.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}
