package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Bounds on one attempt.
const (
	maxConnections = 10          // that net/http may try by itself
	maxInterim     = 10          // interim responses
	maxSkips       = 512         // connections that cannot be used; no pool is larger by default
	maxIdle        = time.Second // of a connection for a create; a server may be about to close one that is idle longer
)

var (
	errCallOver   = redact.Text("the call is over")
	errManyTries  = redact.Text("the connection was refused repeatedly without a response")
	errInterim    = redact.Text("there were too many interim responses")
	errSecondTime = redact.Text("the transport tried to send again a request that must not be sent twice")
	errSkipped    = redact.Text("the connection can no longer be used")
	errRetired    = redact.Text("the connection is no longer used, because the request before was refused")
)

// SendState follows the request of one attempt, because the error of net/http does not tell how much of it was
// sent.
//
// The comment of a latch names who sets it, when, and who reads it. No latch is reset, except connKind. "Trace" is
// any goroutine in which net/http calls the functions of httptrace, "body" the one of net/http's that reads the
// followed body, "Do" that of the call.
type SendState struct {
	Watchdog Watchdog
	// BeforeCommit, if not nil, is called before the last bytes of a streamed body are sent.
	BeforeCommit func(context.Context) error
	SendOnce     bool // the request must not reach the server twice
	Multiplexed  bool // the server speaks HTTP/2 or later
	// SpeaksHTTP1 is set once the server was seen to speak HTTP/1, also while this attempt waits for a connection.
	SpeaksHTTP1 *atomic.Bool

	traced       atomic.Bool              // trace: a connection is wanted, so it reports; wroteNothing, Conclude
	wroteHeaders atomic.Bool              // trace: at least into a buffer; wroteNothing, getConn
	wroteRequest atomic.Bool              // trace: at least into a buffer; retireIfWritten
	connections  atomic.Int32             // trace: each one wanted; getConn ends the attempt after too many
	repeated     atomic.Bool              // getConn: a second sending began, and is ended; gotConn, Conclude, Skipped
	conn         atomic.Pointer[net.Conn] // gotConn; Retire, hangUp, forbidWrites
	pooled       atomic.Bool              // trace: the connection is free; Retire: it may serve another request by now
	retired      atomic.Bool              // Do: no further request on it, as this was refused; retireIfWritten, Close
	connKind     atomic.Int32             // gotConn, Follow: the kind of the latest connection; trace, the body
	skips        int32                    // connections that were skipped

	trace          httptrace.ClientTrace
	unfollowedSize int64                        // size of a body that leaves with the headers
	body           atomic.Pointer[followedBody] // the latest; nil: none is followed

	// Of a body that is followed, or a request that must not be sent twice.
	awaitsContinue atomic.Bool   // trace: the body is sent after 100 Continue; awaitContinue, IgnoredExpect
	responded      atomic.Bool   // trace: the final response has begun to arrive; awaitContinue
	bodyWanted     chan struct{} // trace: closed by the first interim response, which asks for it; awaitContinue
	interim        atomic.Int32  // trace: interim responses that have come; IgnoredExpect

	progress       chan struct{}           // net/http has read on
	commitRequests chan chan error         // asks Do's goroutine to run BeforeCommit
	commitRefusal  atomic.Pointer[error]   // Do: the error that it returned; SendStreamed, classify
	sourceErr      atomic.Pointer[error]   // body: the error of the source; classify
	sourceExit     atomic.Pointer[Guarded] // body: reading the source panicked or ended its goroutine; SendStreamed
}

// Trace returns the hooks by which the transport reports its steps. Requests for which no step matters get fewer hooks.
func (s *SendState) Trace(hasBody bool) *httptrace.ClientTrace {
	trace := &s.trace
	trace.GetConn = s.getConn
	trace.WroteHeaders = s.headersWritten
	if s.SendOnce || hasBody {
		trace.GotConn = s.gotConn
		trace.WroteRequest = func(httptrace.WroteRequestInfo) {
			s.setIfUsable(&s.wroteRequest)
			s.retireIfWritten()
		}
		trace.PutIdleConn = func(err error) {
			if err == nil {
				s.setIfUsable(&s.pooled)
			}
		}
	}
	if s.SendOnce {
		s.bodyWanted = make(chan struct{})
		trace.GotFirstResponseByte = func() { s.setIfUsable(&s.responded) }
		trace.Wait100Continue = func() { s.setIfUsable(&s.awaitsContinue) }
		trace.Got100Continue = func() { _ = s.gotInterim(http.StatusContinue, nil) }
		trace.Got1xxResponse = s.gotInterim
	}
	return trace
}

// headersWritten is called before the body is sent. If this is a second sending, the transport has ignored that getConn
// ended the attempt. Then only closing the connection prevents it, although other requests may use it too.
func (s *SendState) headersWritten() {
	s.setIfUsable(&s.wroteHeaders)
	conn := s.conn.Load()
	mayClose := conn != nil && !isDatagram(*conn)
	if s.repeated.Load() && mayClose {
		_ = (*conn).Close()
	}
}

// setIfUsable sets a latch, unless nothing is sent by the current connection.
func (s *SendState) setIfUsable(latch *atomic.Bool) {
	if s.connKind.Load() == usable {
		latch.Store(true)
	}
}

// gotInterim counts an interim response on the connection that carries the request. The first one asks for the body.
// After too many of them it returns an error, which ends the attempt: net/http has no limit of its own if it reports
// interim responses.
func (s *SendState) gotInterim(int, textproto.MIMEHeader) error {
	if s.connKind.Load() != usable {
		return nil
	}
	switch n := s.interim.Add(1); {
	case n == 1:
		close(s.bodyWanted)
	case n > maxInterim:
		return errInterim
	}
	return nil
}

// IgnoredExpect reports whether the server was asked for 100 Continue and sent no interim response.
func (s *SendState) IgnoredExpect() bool {
	return s.awaitsContinue.Load() && s.interim.Load() == 0
}

// getConn is called when the transport wants a connection. It ends the attempt if net/http, or a caller's transport
// that retries, wants too many of them: some HTTP/2 failures repeat without pause or end. It also ends the attempt if
// the transport wants another connection for a create whose headers, and any of its body, may have been sent.
func (s *SendState) getConn(string) {
	s.traced.Store(true)
	s.connKind.Store(usable)
	if s.connections.Add(1) > maxConnections {
		s.Watchdog.cancel(errManyTries)
	}
	mayHaveArrived := s.wroteHeaders.Load() && s.body.Load().wasRead()
	if s.SendOnce && s.connections.Load() > 1 && mayHaveArrived {
		s.repeated.Store(true)
		s.Watchdog.cancel(errSecondTime)
	}
}

// The kinds of a connection. What the transport reports of a connection counts only if it is usable.
const (
	usable    = iota // it carries the request, as far as is known
	pretended        // it leads nowhere: httputil.DumpRequestOut shows with one what a request would look like
	skipped          // nothing of the request is sent on it: the transport requests another connection
)

// gotConn is called when the transport has a connection. It closes one that a create must not use; the transport then
// requests another. After getConn has ended the attempt because of a second sending, it forbids writes.
func (s *SendState) gotConn(info httptrace.GotConnInfo) {
	if info.Conn.RemoteAddr() == nil { // as for httputil.DumpRequestOut
		s.ignoreConn(pretended)
		return
	}
	maySkip := s.SendOnce && info.Reused && s.skips < maxSkips
	if maySkip && s.mayBeDead(info) {
		s.skips++
		s.ignoreConn(skipped)
		_ = info.Conn.Close()
		return
	}
	s.conn.Store(&info.Conn)
	if s.repeated.Load() {
		s.forbidWrites() // net/http's HTTP/1.1 may write before it notices that the context is over
	}
}

// mayBeDead reports whether a create must not use the connection: the server may be about to close it, or a refused
// request had it before. It returns false for one that other requests may use at the same time.
func (s *SendState) mayBeDead(info httptrace.GotConnInfo) bool {
	if !s.isExclusive(info.Conn) {
		return false
	}
	return info.IdleTime > maxIdle || isRetired(info.Conn)
}

// ignoreConn notes that nothing is sent by the connection, which is pretended or skipped.
func (s *SendState) ignoreConn(kind int32) {
	s.connKind.Store(kind)
	s.connections.Add(-1) // getConn counted it
}

// Skipped reports whether an attempt to send failed because its connection cannot be used, so the server did not
// receive the complete request. net/http writes nothing more after a write that failed. The request can be sent on
// another connection if its body can be read from the start.
func (s *SendState) Skipped(err error) bool {
	if s.connKind.Load() == skipped {
		return true
	}
	return s.SendOnce && !s.repeated.Load() && errors.Is(err, errRetired)
}

// Retire keeps the HTTP/1.1 connection of a refused request with a body from serving another request: some servers take
// the rest of the body for that request. Retire must be called before the response is read, because other requests may
// get the connection at its end. They find that they cannot write to it. Until the request is written, writes are still
// allowed, because net/http drops the response when a write fails. After a response without a body the connection is
// already free. Then only a connection of our own transport can be retired.
func (s *SendState) Retire() {
	if s.pooled.Load() {
		if own, ok := innermost(*s.conn.Load()).(*conn); ok {
			own.retired.Store(true)
		}
		return
	}
	s.retired.Store(true)
	s.retireIfWritten()
}

// retireIfWritten forbids writes on a retired connection once the request has been written.
func (s *SendState) retireIfWritten() {
	if s.retired.Load() && s.wroteRequest.Load() {
		s.forbidWrites()
	}
}

// Close ends the sending after the response has been read. It closes a retired connection.
func (s *SendState) Close() {
	s.Stop()
	if s.retired.Load() {
		s.hangUp()
	}
}

// hangUp closes the connection, if there is one.
func (s *SendState) hangUp() {
	if conn := s.conn.Load(); conn != nil {
		_ = (*conn).Close()
	}
}

// forbidWrites makes further writes on the connection fail, unless it serves other requests too.
func (s *SendState) forbidWrites() {
	if conn := s.conn.Load(); conn != nil && !s.mayBeShared(*conn) {
		longAgo := time.Unix(1, 0)
		_ = (*conn).SetWriteDeadline(longAgo)
	}
}

// mayBeShared reports whether the connection may serve several requests at a time. TLS shows it. Without TLS, earlier
// responses or a UDP connection show it.
func (s *SendState) mayBeShared(conn net.Conn) bool {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.ConnectionState().NegotiatedProtocol == "h2"
	}
	return s.Multiplexed || isDatagram(conn)
}

// isExclusive reports whether the connection is known to serve one request at a time. Without TLS, a response must have
// shown that.
func (s *SendState) isExclusive(conn net.Conn) bool {
	if _, secured := conn.(*tls.Conn); secured {
		return !s.mayBeShared(conn)
	}
	return s.SpeaksHTTP1 != nil && s.SpeaksHTTP1.Load() && !s.mayBeShared(conn)
}

// isDatagram reports whether the connection is HTTP/3's, which only names the peer and panics if it is used.
func isDatagram(conn net.Conn) bool { return strings.HasPrefix(conn.RemoteAddr().Network(), "udp") }

// isRetired reports whether nothing can be written to the connection. Writing zero bytes shows that. It writes below
// TLS first, where a deadline in the past has its effect: TLS moves the deadline when it begins to close.
func isRetired(conn net.Conn) bool {
	_, belowErr := innermost(conn).Write(nil)
	_, err := conn.Write(nil)
	return belowErr != nil || err != nil
}

// innermost returns the connection below TLS, or conn itself if it has no TLS.
func innermost(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return innermost(secured.NetConn())
	}
	return conn
}

// Conclude ends the sending and returns how much of the request the server can have. If the transport does not report
// its steps, only the body shows it.
func (s *SendState) Conclude(err error) Sent {
	s.Stop()
	body := s.body.Load()
	switch {
	case s.traced.Load() && !s.repeated.Load() && Refused(err):
		return Never // the request was sent once, so the error is about all of it
	case body != nil && body.mayBeComplete.Load():
		return Wholly
	case s.wroteNothing():
		return Never
	case body != nil:
		return Partly
	}
	return Wholly
}

// BytesSent returns how many bytes of the body were sent.
func (s *SendState) BytesSent() int64 {
	if body := s.body.Load(); body != nil {
		return body.bytesTaken.Load()
	}
	if s.wroteNothing() {
		return 0
	}
	return s.unfollowedSize
}

// wroteNothing reports whether the transport shows its steps, and has not written the headers.
func (s *SendState) wroteNothing() bool { return s.traced.Load() && !s.wroteHeaders.Load() }

// Stop ends the reading of the body's source.
func (s *SendState) Stop() {
	if body := s.body.Load(); body != nil {
		body.stop()
	}
}
