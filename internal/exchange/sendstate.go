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
// The comment of a latch names who sets it, when, and who reads it. No latch is reset, except ignored. "Trace" is
// any goroutine in which net/http calls the functions of httptrace, "body" the one of net/http's that reads the
// followed body, "Do" that of the call.
type SendState struct {
	Watchdog Watchdog
	// BeforeCommit, when not nil, is asked before the last bytes of a streamed body may leave.
	BeforeCommit func(context.Context) error
	Once         bool // the request must not reach the server twice
	Multiplexed  bool // the server speaks HTTP/2 or later
	// Single is set once the server was seen to speak HTTP/1, also while this attempt waits for a connection.
	Single *atomic.Bool

	traced       atomic.Bool              // trace: a connection is wanted, so it reports; wroteNothing, Conclude
	wroteHeaders atomic.Bool              // trace: at least into a buffer; wroteNothing, getConn
	wroteRequest atomic.Bool              // trace: at least into a buffer; retire
	connections  atomic.Int32             // trace: each one wanted; getConn ends the attempt after too many
	twice        atomic.Bool              // getConn: one more wanted after a part had left; gotConn, Conclude, Skipped
	conn         atomic.Pointer[net.Conn] // gotConn; Retire, hangUp, forbidWrites
	pooled       atomic.Bool              // trace: the connection is free; Retire: it may serve another request by now
	retired      atomic.Bool              // Do: no further request on it, the response is a refusal; retire, Close
	ignored      atomic.Int32             // gotConn, Follow: whether the connection counts; trace, the body
	skips        int32                    // connections that were skipped

	trace      httptrace.ClientTrace
	unfollowed int64                        // size of a body that leaves with the headers
	body       atomic.Pointer[followedBody] // the latest; nil: none is followed

	// Of a body that is followed, or a request that must not be sent twice.
	waits     atomic.Bool   // trace: for 100 Continue; awaitContinue, IgnoredExpect
	responded atomic.Bool   // trace: a first byte of what is not that has come back; awaitContinue
	goOn      chan struct{} // trace: closed when an interim response shows that the body is wanted; awaitContinue
	interim   atomic.Int32  // trace: interim responses that have come; IgnoredExpect

	progress chan struct{}           // net/http has read on
	commits  chan chan error         // asks Do's goroutine to run BeforeCommit
	refused  atomic.Pointer[error]   // Do: what that said; SendStreamed, classify
	failed   atomic.Pointer[error]   // body: the source's own; classify
	exited   atomic.Pointer[Guarded] // body: reading the source panicked or ended its goroutine; SendStreamed
}

// Trace makes the transport report its steps.
func (s *SendState) Trace(hasBody bool) *httptrace.ClientTrace {
	trace := &s.trace
	trace.GetConn = s.getConn
	trace.WroteHeaders = func() { s.set(&s.wroteHeaders) }
	if s.Once || hasBody {
		trace.GotConn = s.gotConn
		trace.WroteRequest = func(httptrace.WroteRequestInfo) { s.set(&s.wroteRequest); s.retire() }
		trace.PutIdleConn = func(err error) {
			if err == nil {
				s.set(&s.pooled)
			}
		}
	}
	if s.Once {
		s.goOn = make(chan struct{})
		trace.GotFirstResponseByte = func() { s.set(&s.responded) }
		trace.Wait100Continue = func() { s.set(&s.waits) }
		trace.Got100Continue = func() { _ = s.gotInterim(http.StatusContinue, nil) }
		trace.Got1xxResponse = s.gotInterim
	}
	return trace
}

// set sets a latch, if the connection counts.
func (s *SendState) set(latch *atomic.Bool) {
	if s.ignored.Load() == counts {
		latch.Store(true)
	}
}

// gotInterim bounds what net/http leaves to whoever listens.
func (s *SendState) gotInterim(int, textproto.MIMEHeader) error {
	if s.ignored.Load() != counts {
		return nil
	}
	switch n := s.interim.Add(1); {
	case n == 1:
		close(s.goOn)
	case n > maxInterim:
		return errInterim
	}
	return nil
}

// IgnoredExpect reports whether the server was asked to say 100 Continue and sent no interim response at all.
func (s *SendState) IgnoredExpect() bool {
	return s.waits.Load() && s.interim.Load() == 0
}

// getConn ends repetitions by net/http, or by a caller's transport that retries, within one attempt. Some HTTP/2
// failures repeat without pause or end. A create must not be repeated once any of it was sent.
func (s *SendState) getConn(string) {
	s.traced.Store(true)
	s.ignored.Store(counts)
	if s.connections.Add(1) > maxConnections {
		s.Watchdog.cancel(errManyTries)
	}
	hasLeft := s.wroteHeaders.Load() && s.body.Load().hasBegun()
	if s.Once && s.connections.Load() > 1 && hasLeft {
		s.twice.Store(true)
		s.Watchdog.cancel(errSecondTime)
	}
}

// Whether a connection counts.
const (
	counts    = iota
	pretended // it leads nowhere: httputil.DumpRequestOut shows with one what a request would look like
	skipped   // nothing of the request leaves by it: another connection is asked for
)

func (s *SendState) gotConn(info httptrace.GotConnInfo) {
	if info.Conn.RemoteAddr() == nil {
		s.ignore(pretended)
		return
	}
	maySkip := s.Once && info.Reused && s.skips < maxSkips
	if maySkip && s.mayBeDead(info) {
		s.skips++
		s.ignore(skipped)
		_ = info.Conn.Close()
		return
	}
	s.conn.Store(&info.Conn)
	if s.twice.Load() {
		s.forbidWrites() // HTTP/1.1 may write before it notices that the context is over
	}
}

// mayBeDead reports whether a create must not use the connection: the server may be about to close it, or a refused
// request had it before. It leaves a connection alone that is not known to be HTTP/1's: other requests may be on it.
func (s *SendState) mayBeDead(info httptrace.GotConnInfo) bool {
	if !s.exclusive(info.Conn) {
		return false
	}
	return info.IdleTime > maxIdle || isRetired(info.Conn)
}

func (s *SendState) ignore(why int32) {
	s.ignored.Store(why)
	s.connections.Add(-1)
}

// Skipped reports whether an attempt to send failed because its connection cannot be used, so the server did not
// receive the complete request. No write follows one that failed. The request can be sent on another connection if
// its body can be read from the start.
func (s *SendState) Skipped(err error) bool {
	if s.ignored.Load() == skipped {
		return true
	}
	if !s.Once || s.twice.Load() {
		return false
	}
	return errors.Is(err, errRetired)
}

// Retire keeps the HTTP/1.1 connection of a refused request with a body from serving another request: some servers take
// the rest of the body for that. It must come before the response is read, with whose end others may have the
// connection; they find that they can write nothing. What is still on its way is left alone: net/http gives the
// response up when a write fails. After a response without a body the connection is free already, and only one of ours
// can be retired.
func (s *SendState) Retire() {
	if s.pooled.Load() {
		if own, ok := innermost(*s.conn.Load()).(*conn); ok {
			own.retired.Store(true)
		}
		return
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
	if conn := s.conn.Load(); conn != nil && !s.shares(*conn) {
		_ = (*conn).SetWriteDeadline(time.Unix(1, 0))
	}
}

// shares reports whether other requests may be on the connection.
func (s *SendState) shares(conn net.Conn) bool {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.ConnectionState().NegotiatedProtocol == "h2"
	}
	return s.Multiplexed || isDatagram(conn)
}

// exclusive reports whether the connection certainly serves one request at a time. Without TLS the responses before
// show it.
func (s *SendState) exclusive(conn net.Conn) bool {
	if _, secured := conn.(*tls.Conn); secured {
		return !s.shares(conn)
	}
	return s.Single != nil && s.Single.Load() && !s.shares(conn)
}

// isDatagram reports whether the connection is HTTP/3's, which only names the peer and panics if it is used.
func isDatagram(conn net.Conn) bool { return strings.HasPrefix(conn.RemoteAddr().Network(), "udp") }

// isRetired reports whether nothing can be written to the connection. To write no bytes shows it: first below TLS,
// where a deadline is seen, which TLS moves when it begins to close.
func isRetired(conn net.Conn) bool {
	_, below := innermost(conn).Write(nil)
	_, err := conn.Write(nil)
	return below != nil || err != nil
}

// innermost is the connection below TLS.
func innermost(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return innermost(secured.NetConn())
	}
	return conn
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
	case s.wroteNothing():
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
	if s.wroteNothing() {
		return 0
	}
	return s.unfollowed
}

// wroteNothing reports whether the transport shows its steps, and has not written the headers.
func (s *SendState) wroteNothing() bool { return s.traced.Load() && !s.wroteHeaders.Load() }

// Stop leaves the source of the body alone.
func (s *SendState) Stop() {
	if body := s.body.Load(); body != nil {
		body.stop()
	}
}
