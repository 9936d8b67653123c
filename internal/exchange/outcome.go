package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"regexp"
	"runtime"
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

	Status int // of the response; 0 when none came whole
	Header http.Header
	Body   []byte // valid until the result is released

	permanent bool // the failure will be the same next time
	Step      Step // that failed; None for a success
	Sent      Sent

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

// Outcome is what the retry decision goes by.
func (a *Attempt) Outcome() Outcome {
	return Outcome{Status: a.Status, Sent: a.Sent, Permanent: a.permanent}
}

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
		a.Step, a.Cause, a.Sent, a.permanent = Commit, refused, Partly, true
	case failed != nil:
		a.Step, a.Cause, a.Sent, a.permanent = Source, failed, Partly, true
	case a.Ended != nil:
		a.Step, a.Cause, a.permanent = Context, a.Ended, true
	case cause != nil:
		a.Step, a.Cause = Network, cause
	default:
		a.Step, a.Cause, a.permanent = Network, err, Permanent(err)
	}
}

// Permanent reports whether a transport error is a matter of configuration and will be the same next time: an
// untrusted certificate, TLS spoken to a plain port, a host name that does not exist.
func Permanent(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var dns *net.DNSError
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return true
	case errors.As(err, &dns):
		return dns.IsNotFound
	}
	return false
}

// refusal matches HTTP/2's errors for a request that the server has not taken: REFUSED_STREAM, and a graceful GOAWAY that
// names an earlier stream as the last one. net/http exports no types for them. Anchored, because other texts can quote
// what a server sent.
var refusal = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?(http2: Transport received Server's graceful shutdown GOAWAY|stream error: stream ID \d+; REFUSED_STREAM)`)

// Refused reports whether the error says that the server took nothing of the request.
func Refused(err error) bool { return err != nil && refusal.MatchString(err.Error()) }

// Reset reports whether the peer ended the connection before it had read all. Windows has numbers of its own for that.
func Reset(err error) bool { return resetOn(runtime.GOOS, err) }

func resetOn(system string, err error) bool {
	const aborted, reset = syscall.Errno(10053), syscall.Errno(10054) // of Windows
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		system == "windows" && (errors.Is(err, aborted) || errors.Is(err, reset))
}
