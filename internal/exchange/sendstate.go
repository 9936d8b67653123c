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
//
// Its latches, and those of UploadState, are set once and never reset. "Trace" is net/http, in whatever goroutine it calls
// the functions of httptrace; "body" is the goroutine that reads the followed body, which is net/http's too; "Do" is the
// goroutine of the call.
//
//	latch         set by                          read by
//	traced        trace, a connection is wanted   Conclude, BytesSent: else the transport reports nothing
//	wroteHeaders  trace                           Conclude, BytesSent, getConn
//	wroteRequest  trace                           retire
//	connections   trace, each one wanted          getConn: more than some, or than one once something has left, end it
//	twice         getConn                         gotConn, Conclude
//	conn          gotConn                         retire, Close, hangUp
//	retired       Do: the response is a refusal   retire, Close
//	waits         trace, for 100 Continue         awaitContinue, IgnoredExpect
//	responded     trace, a first byte             awaitContinue
//	goOn          trace, an interim response      awaitContinue, IgnoredExpect
//	refused       Do: BeforeCommit                SendStreamed, Failure
//	failed        body: the source's error        Failure
//	exited        body: the source's panic        SendStreamed
//	body.stopped  Do: the attempt is over         body: it gives no more
//	body.whole    body: before its last bytes     Conclude
type SendState struct {
	Watchdog Watchdog
	// BeforeCommit, when not nil, is asked before the last bytes of a streamed body may leave.
	BeforeCommit func(context.Context) error
	Once         bool // the request must not reach the server twice

	traced       atomic.Bool  // the transport reports its steps
	wroteHeaders atomic.Bool  // at least into a buffer
	wroteRequest atomic.Bool  // at least into a buffer
	connections  atomic.Int32 // that were asked for
	twice        atomic.Bool  // one more connection was asked for when something had left
	retired      atomic.Bool  // the connection is not to serve another request
	conn         atomic.Pointer[net.Conn]

	trace      httptrace.ClientTrace
	unfollowed int64                        // size of a body that leaves with the headers
	body       atomic.Pointer[followedBody] // the latest; nil: none is followed
	upload     *UploadState                 // nil: the request may be sent twice, and no body is followed
}

// UploadState is what a request needs beside that if its body is followed, or if it must not be sent twice.
type UploadState struct {
	waits     atomic.Bool   // for 100 Continue
	responded atomic.Bool   // a first byte of what is not that has come back
	goingOn   atomic.Bool   // goOn is closed
	goOn      chan struct{} // closed when an interim response says, or shows, that the body is wanted
	interim   int32         // interim responses that have come

	progress chan struct{}           // net/http has read on
	commits  chan chan error         // asks Do's goroutine to run BeforeCommit
	refused  atomic.Pointer[error]   // what that said
	held     atomic.Int64            // nanoseconds that it took
	failed   atomic.Pointer[error]   // the source's own
	exited   atomic.Pointer[Guarded] // reading the source, which panicked or ended its goroutine
}

// Trace makes the transport report its steps.
func (s *SendState) Trace() *httptrace.ClientTrace {
	trace := &s.trace
	trace.GetConn, trace.WroteHeaders = s.getConn, func() { s.wroteHeaders.Store(true) }
	if s.Once {
		u := &UploadState{goOn: make(chan struct{})}
		s.upload = u
		trace.GotConn = s.gotConn
		trace.WroteRequest = func(httptrace.WroteRequestInfo) { s.wroteRequest.Store(true); s.retire() }
		trace.GotFirstResponseByte = func() { u.responded.Store(true) }
		trace.Wait100Continue = func() { u.waits.Store(true) }
		trace.Got100Continue = u.proceed
		trace.Got1xxResponse = u.gotInterim
	}
	return trace
}

// gotInterim bounds what net/http leaves to whoever listens.
func (u *UploadState) gotInterim(int, textproto.MIMEHeader) error {
	u.proceed()
	if u.interim++; u.interim > maxInterim {
		return errInterim
	}
	return nil
}

func (u *UploadState) proceed() {
	if u.goingOn.CompareAndSwap(false, true) {
		close(u.goOn)
	}
}

// IgnoredExpect reports whether the server was asked to say 100 Continue and sent no interim response at all.
func (s *SendState) IgnoredExpect() bool {
	return s.upload != nil && s.upload.waits.Load() && !s.upload.goingOn.Load()
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
	if s.retired.Load() {
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

// Conclude ends the sending and says what the server can have. Where the transport reports nothing, the body alone is
// evidence.
func (s *SendState) Conclude(err error) Sent {
	s.Stop()
	body := s.body.Load()
	switch {
	case s.traced.Load() && !s.twice.Load() && Refused(err):
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
	if err := s.upload.refused.Load(); err != nil {
		refused = *err
	}
	if err := s.upload.failed.Load(); err != nil {
		failed = *err
	}
	return refused, failed
}
