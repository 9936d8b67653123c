package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"syscall"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Attempt is what one attempt came to.
type Attempt struct { //nolint:errname // an outcome first; an error for the retry loop alone
	Number        int
	Started       time.Time     // when it began to send; the limiter's time is before that
	Duration      time.Duration // since then, known to Caller.End
	BytesSent     int64         // of the body
	BytesReceived int64         // of the body

	Outcome // what the retry decision goes by
	Header  http.Header
	Body    []byte // valid until the result is released
	Step    Step   // that failed; None for a success

	Cause error // why it failed
	Ended error // of the caller's context, if that was over too
	Err   error // as Explain put it; nil for a success

	Begun bool            // only sending remained
	ctx   context.Context //nolint:containedctx // the caller's, as Begin left it
}

// Step is where an attempt ended that was no success.
type Step uint8

// The steps that can fail.
const (
	None      Step = iota
	Limit          // the limiter refused; nothing was sent
	Authorize      // there is no token; nothing was sent
	Source         // the body could not be read; the server cannot have all of it
	Commit         // BeforeCommit refused; the server cannot have all of it
	Context        // the caller's context ended
	Network        // no response, or only a part of one
	Content        // the response came, and cannot be used: its status, or what it holds
)

// Error makes an attempt the error by which the retry loop learns of it.
func (a *Attempt) Error() string { return redact.Cause(a.Cause) }

// Unfinished reports whether a panic, or the end of the goroutine, left the attempt without a result.
func (a *Attempt) Unfinished() bool { return a.Status == 0 && a.Err == nil }

func success(status int) bool { return status >= 200 && status <= 299 }

// judge finds the cause of a failed attempt where it is known best: in the receiver's judgement, at our own end, in the
// caller's context, in the watchdog, or else in the transport's error.
func (a *Attempt) judge(ctx, watched context.Context, state *SendState, err error) {
	a.Ended = redact.ContextErr(ctx)
	refused, failed := state.Failure()
	cause := context.Cause(watched)
	switch {
	case errors.Is(err, ErrUnusable):
		a.Step, a.Cause = Content, err
	case refused != nil:
		a.Step, a.Cause, a.Sent, a.Permanent = Commit, refused, Partly, true
	case failed != nil:
		a.Step, a.Cause, a.Sent, a.Permanent = Source, failed, Partly, true
	case a.Ended != nil:
		a.Step, a.Cause, a.Permanent = Context, a.Ended, true
	case cause != nil:
		a.Step, a.Cause = Network, cause
	default:
		a.Step, a.Cause, a.Permanent = Network, err, Permanent(err)
	}
}

// Permanent reports whether a transport error is a matter of configuration and will be the same next time: an
// untrusted certificate, TLS spoken to a plain port, a host name that does not exist.
func Permanent(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return redact.Kind(err) == "tls" || ok && dns.IsNotFound
}

// refusal matches HTTP/2's errors for a request that the server has not taken: REFUSED_STREAM, and a graceful GOAWAY that
// names an earlier stream as the last one. net/http exports no types for them. Anchored, because other texts can quote
// what a server sent.
var refusal = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?(http2: Transport received Server's graceful shutdown GOAWAY|stream error: stream ID \d+; REFUSED_STREAM)`)

// Refused reports whether the error says that the server took nothing of the request.
func Refused(err error) bool { return err != nil && refusal.MatchString(err.Error()) }

// Reset reports whether the peer ended the connection before it had read all. Windows has numbers of its own for that, which no
// other system uses.
func Reset(err error) bool {
	for _, number := range []syscall.Errno{syscall.ECONNRESET, syscall.EPIPE, 10053, 10054} {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}
