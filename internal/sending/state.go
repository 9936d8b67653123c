// Package sending follows a request on its way out: how much of it can the server have? It holds the last bytes of a body
// back until they may go, and leaves the source of a body alone when the attempt is over.
package sending

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

const (
	maxConnections = 10      // that net/http may try by itself within one attempt
	kernelBuffers  = 4 << 20 // what may have left us and not arrived
	leastRate      = 64 << 10
)

var (
	errCallOver   = redact.Text("the call is over")
	errManyTries  = redact.Text("the connection was refused again and again without a response")
	errSecondTime = redact.Text("the transport wanted to send a request a second time that must not be sent twice")
)

// State follows the request of one attempt on its way out: how much of it can the server have? The error of net/http
// alone does not say.
type State struct {
	Watchdog *stall.Watchdog
	Started  time.Time
	Once     bool // the request must not reach the server twice
	// BeforeCommit, when not nil, is asked before the last bytes of a streamed body may leave.
	BeforeCommit func(context.Context) error

	traced       atomic.Bool  // the transport reports its steps
	wroteHeaders atomic.Bool  // at least into a buffer
	connections  atomic.Int32 // that were asked for
	conn         atomic.Pointer[net.Conn]
	waits        atomic.Bool   // for 100 Continue
	responded    atomic.Bool   // a first byte of what is not that has come back
	goOn         chan struct{} // closed when an interim response says, or shows, that the body is wanted
	goingOn      sync.Once
	small        int64 // size of a body that is not followed
	body         atomic.Pointer[followedBody]

	Unfollowed int64 // size of a body that leaves with the headers
}

// Trace makes the transport report its steps.
func (s *State) Trace() *httptrace.ClientTrace {
	trace := &httptrace.ClientTrace{GetConn: s.getConn, WroteHeaders: func() { s.wroteHeaders.Store(true) }}
	if s.Once {
		s.goOn = make(chan struct{})
		trace.GotConn = s.gotConn
		trace.GotFirstResponseByte = func() { s.responded.Store(true) }
		trace.Wait100Continue = func() { s.waits.Store(true) }
		trace.Got100Continue = s.proceed
		trace.Got1xxResponse = func(int, textproto.MIMEHeader) error { s.proceed(); return nil }
	}
	return trace
}

func (s *State) proceed() { s.goingOn.Do(func() { close(s.goOn) }) }

// gotContinue reports whether the server sent 100 Continue or another interim response.
func (s *State) gotContinue() bool {
	select {
	case <-s.goOn:
		return true
	default:
		return false
	}
}

// getConn ends what net/http, or a transport of the caller's that retries, repeats within one attempt: some HTTP/2
// failures without pause or end, and of a create everything once it has begun to leave.
func (s *State) getConn(string) {
	s.traced.Store(true)
	if s.connections.Add(1) > maxConnections {
		s.Watchdog.Cancel(errManyTries)
	}
	if s.secondTime() {
		s.Watchdog.Cancel(errSecondTime)
	}
}

func (s *State) gotConn(info httptrace.GotConnInfo) {
	s.conn.Store(&info.Conn)
	if s.secondTime() {
		s.Drop() // HTTP/1.1 may write before it notices that the context is over
	}
}

func (s *State) secondTime() bool {
	body := s.body.Load()
	return s.Once && s.connections.Load() > 1 && s.wroteHeaders.Load() && (body == nil || body.taken.Load() > 0)
}

// Drop keeps an HTTP/1.1 connection from being used again. One of HTTP/2 serves other requests too.
func (s *State) Drop() {
	conn := s.conn.Load()
	if conn == nil {
		return
	}
	if secured, ok := (*conn).(*tls.Conn); ok && secured.ConnectionState().NegotiatedProtocol == "h2" {
		return
	}
	_ = (*conn).Close()
}

// Settle ends the sending and concludes what the server can have. Where the transport reports nothing, the body alone is
// evidence.
func (s *State) Settle(err error) retry.Sent {
	body := s.body.Load()
	if body != nil {
		body.stop()
	}
	switch {
	case retry.Refused(err):
		return retry.Never
	case body != nil && body.whole.Load():
		return retry.Wholly
	case s.traced.Load() && !s.wroteHeaders.Load():
		return retry.Never
	case body != nil:
		return retry.Partly
	}
	return retry.Wholly
}

// BytesSent counts those of the body.
func (s *State) BytesSent() int64 {
	if body := s.body.Load(); body != nil {
		return body.taken.Load()
	}
	if s.traced.Load() && !s.wroteHeaders.Load() {
		return 0
	}
	return s.Unfollowed
}

// Follow opens the body for net/http to read. An earlier one of the same attempt is read no more.
func (s *State) Follow(body Body, announced bool) io.ReadCloser {
	b := &followedBody{state: s, announced: announced, quit: make(chan struct{})}
	if body.Streamed() {
		b.progress, b.commits = make(chan struct{}, 1), make(chan chan error)
	}
	b.head, b.tail = body.Open()
	if earlier := s.body.Swap(b); earlier != nil {
		earlier.stop()
	}
	return b
}

// Stop leaves the source of the body alone.
func (s *State) Stop() {
	if body := s.body.Load(); body != nil {
		body.stop()
	}
}

// Failure tells what ended the sending at our own end: BeforeCommit, or the source of the body.
func (s *State) Failure() (refused, failed error) {
	if body := s.body.Load(); body != nil {
		if err := body.refused.Load(); err != nil {
			refused = *err
		}
		if err := body.failed.Load(); err != nil {
			failed = *err
		}
	}
	return refused, failed
}

// IgnoredExpect reports whether the server was asked to say 100 Continue and did not.
func (s *State) IgnoredExpect() bool { return s.waits.Load() && !s.gotContinue() }
