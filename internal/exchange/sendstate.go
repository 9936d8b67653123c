package exchange

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	maxConnections = 10 // that net/http may try by itself within one attempt
	maxInterim     = 10 // interim responses to one attempt
)

var (
	errCallOver   = redact.Text("the call is over")
	errManyTries  = redact.Text("the connection was refused again and again without a response")
	errInterim    = redact.Text("there were interim responses without end")
	errSecondTime = redact.Text("the transport wanted to send a request a second time that must not be sent twice")
)

// SendState follows the request of one attempt. The error of net/http alone does not say how much of it has left.
type SendState struct {
	Watchdog Watchdog
	// BeforeCommit, when not nil, is asked before the last bytes of a streamed body may leave.
	BeforeCommit func(context.Context) error
	Once         bool // the request must not reach the server twice

	traced       atomic.Bool  // the transport reports its steps
	wroteHeaders atomic.Bool  // at least into a buffer
	connections  atomic.Int32 // that were asked for

	trace      httptrace.ClientTrace
	unfollowed int64                        // size of a body that leaves with the headers
	body       atomic.Pointer[followedBody] // the latest
	*upload                                 // nil for a request that may be sent twice and whose body is not followed
}

// upload is what takes more than most requests need.
type upload struct {
	wroteRequest atomic.Bool // at least into a buffer
	twice        atomic.Bool // one more connection was asked for when something had left
	retired      atomic.Bool // the connection is not to serve another request
	waits        atomic.Bool // for 100 Continue
	responded    atomic.Bool // a first byte of what is not that has come back
	goingOn      atomic.Bool // goOn is closed
	interim      int32       // interim responses that have come

	conn atomic.Pointer[net.Conn]
	goOn chan struct{} // closed when an interim response says, or shows, that the body is wanted

	progress chan struct{}           // net/http has read on
	commits  chan chan error         // asks Do's goroutine to run BeforeCommit
	refused  atomic.Pointer[error]   // what that said
	held     atomic.Int64            // nanoseconds that it took
	failed   atomic.Pointer[error]   // the source's own
	wrecked  atomic.Pointer[Guarded] // reading the source, which panicked or ended its goroutine
}

// Trace makes the transport report its steps.
func (s *SendState) Trace() *httptrace.ClientTrace {
	trace := &s.trace
	trace.GetConn, trace.WroteHeaders = s.getConn, func() { s.wroteHeaders.Store(true) }
	if s.Once {
		s.upload = &upload{goOn: make(chan struct{})}
		trace.GotConn = s.gotConn
		trace.WroteRequest = func(httptrace.WroteRequestInfo) { s.wroteRequest.Store(true); s.retire() }
		trace.GotFirstResponseByte = func() { s.responded.Store(true) }
		trace.Wait100Continue = func() { s.waits.Store(true) }
		trace.Got100Continue = s.proceed
		trace.Got1xxResponse = s.gotInterim
	}
	return trace
}

// gotInterim bounds what net/http leaves to whoever listens.
func (s *SendState) gotInterim(int, textproto.MIMEHeader) error {
	s.proceed()
	if s.interim++; s.interim > maxInterim {
		return errInterim
	}
	return nil
}

func (s *SendState) proceed() {
	if s.goingOn.CompareAndSwap(false, true) {
		close(s.goOn)
	}
}

// IgnoredExpect reports whether the server was asked to say 100 Continue and sent no interim response at all.
func (s *SendState) IgnoredExpect() bool {
	if s.upload == nil {
		return false
	}
	select {
	case <-s.goOn:
		return false
	default:
		return s.waits.Load()
	}
}

// getConn ends what net/http, or a transport of the caller's that retries, repeats within one attempt: some HTTP/2
// failures without pause or end, and of a create everything once it has begun to leave.
func (s *SendState) getConn(string) {
	s.traced.Store(true)
	if s.connections.Add(1) > maxConnections {
		s.Watchdog.Cancel(errManyTries)
	}
	body := s.body.Load()
	if s.Once && s.connections.Load() > 1 && s.wroteHeaders.Load() && (body == nil || body.taken.Load() > 0) {
		s.twice.Store(true)
		s.Watchdog.Cancel(errSecondTime)
	}
}

func (s *SendState) gotConn(info httptrace.GotConnInfo) {
	s.conn.Store(&info.Conn)
	if s.twice.Load() {
		s.forbidWrites() // HTTP/1.1 may write before it notices that the context is over
	}
}

// Retire keeps the HTTP/1.1 connection of a refused upload from serving another request: some servers take the rest of
// the upload for that. It must come before the response is read, with whose end the connection is free for others; they
// then find that they can write nothing, and take another. An upload that is still on its way is left alone, because
// net/http gives the response up when a write fails.
func (s *SendState) Retire() {
	if s.upload == nil {
		return // its body leaves with the headers: nothing can follow
	}
	s.retired.Store(true)
	s.retire()
}

func (s *SendState) retire() {
	if s.retired.Load() && s.wroteRequest.Load() {
		s.forbidWrites()
	}
}

// Close ends the sending once the response has been read, and with it a retired connection.
func (s *SendState) Close() {
	s.Stop()
	if s.upload != nil && s.retired.Load() {
		s.hangUp()
	}
}

func (s *SendState) hangUp() {
	if conn := s.conn.Load(); conn != nil {
		_ = (*conn).Close()
	}
}

// forbidWrites leaves HTTP/2 alone: its connection serves other requests too.
func (s *SendState) forbidWrites() {
	conn := s.conn.Load()
	if conn == nil {
		return
	}
	if secured, ok := (*conn).(*tls.Conn); ok && secured.ConnectionState().NegotiatedProtocol == "h2" {
		return
	}
	_ = (*conn).SetWriteDeadline(time.Unix(1, 0))
}

// Settle ends the sending and concludes what the server can have. Where the transport reports nothing, the body alone is
// evidence.
func (s *SendState) Settle(err error) Sent {
	s.Stop()
	body := s.body.Load()
	switch {
	case s.traced.Load() && (s.upload == nil || !s.twice.Load()) && Refused(err):
		return Never // it speaks of the only sending there was
	case body != nil && body.whole.Load():
		return Wholly
	case s.traced.Load() && !s.wroteHeaders.Load():
		return Never
	case body != nil:
		return Partly
	}
	return Wholly
}

// BytesSent counts those of the body.
func (s *SendState) BytesSent() int64 {
	if body := s.body.Load(); body != nil {
		return body.taken.Load()
	}
	if s.traced.Load() && !s.wroteHeaders.Load() {
		return 0
	}
	return s.unfollowed
}

// Stop leaves the source of the body alone.
func (s *SendState) Stop() {
	if body := s.body.Load(); body != nil {
		body.stop()
	}
}

// Failure tells what ended the sending at our own end: BeforeCommit, or the source of the body.
func (s *SendState) Failure() (refused, failed error) {
	if s.upload == nil {
		return nil, nil
	}
	if err := s.refused.Load(); err != nil {
		refused = *err
	}
	if err := s.failed.Load(); err != nil {
		failed = *err
	}
	return refused, failed
}
