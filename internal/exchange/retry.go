package exchange

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Effect says what sending a request twice does at the server.
type Effect int

// The effects, from harmless to harmful.
const (
	Reads      Effect = iota // nothing
	Repeatable               // the same end state as sending it once
	Creates                  // a second thing
)

// Sent says how much of a request the server can have received.
type Sent uint8

// The send states. A server can process a request only when it has all of it.
const (
	Never Sent = iota
	Partly
	Wholly
)

// Outcome is the result of one attempt, as far as it decides about a retry.
type Outcome struct {
	Status    int  // of the response; 0 when there was none
	Sent      Sent // matters only without a response, and for 408
	Permanent bool // the failure will be the same next time
}

// Unknown reports whether the server may have acted on the request.
func (o Outcome) Unknown() bool {
	switch {
	case o.Status == 0, o.Status == http.StatusRequestTimeout: // some proxies send 408 if the server is slow
		return o.Sent == Wholly
	case o.Status < 300, o.Status >= 500:
		return true
	case o.Status < 400:
		// A 302 or 303 may follow an action that was carried out. These mean that the request has to be sent elsewhere.
		sendElsewhere := []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}
		return !slices.Contains(sendElsewhere, o.Status)
	}
	return false
}

// MayRetry reports whether a request of this effect may be sent again after the outcome.
func (e Effect) MayRetry(o Outcome) bool {
	switch {
	case o.Permanent:
		return false
	case o.Status == http.StatusTooManyRequests:
		return true
	case e == Creates:
		return o.Status == 0 && !o.Unknown() // of the responses, only a 429 allows it
	case o.Status == 0, o.Status == http.StatusRequestTimeout, o.Status == http.StatusTooEarly:
		return true
	case o.Status == http.StatusNotImplemented, o.Status == http.StatusHTTPVersionNotSupported:
		return false
	}
	return o.Status >= 500
}

// Backoff returns the pause before retry n, counted from 0. It grows exponentially from least to most. Up to a
// third of it depends on jitter, a random number from 0 to 1. It is never shorter than least, or than the server's
// Retry-After.
func Backoff(n int, least, most, retryAfter time.Duration, jitter float64) time.Duration {
	longest := most
	isBelowMost := least <= most>>n // so least << n does not wrap
	if isBelowMost {
		longest = least << n
		longest += min(longest/2, most-longest)
	}
	shortest := max(longest-longest/3, min(least, most))
	pause := shortest + time.Duration(jitter*float64(longest-shortest))
	return max(pause, retryAfter)
}

// RetryAfter reads a Retry-After header: seconds, or a date by the server's clock. It returns 0 if the header is
// absent, in the past or invalid, and the largest duration if the value is too large.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(ServerTime(h, now)))
	}
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return 0
	}
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err != nil || seconds > math.MaxInt64/uint64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds) * time.Second
}

// ServerTime returns the time by the server's clock, from its Date header. Without one it returns now.
func ServerTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now.Round(0) // without the monotonic clock, which is of no use to the server
}

// ServerTimeThen returns what the server's clock showed at an earlier time of our clock. The Date header shows what it
// shows now. Our clock may have been set back since then, and the monotonic clock stands still while a machine sleeps.
// So the longer of both durations has passed.
func ServerTimeThen(h http.Header, then, now time.Time) time.Time {
	ahead := ServerTime(h, now).Sub(now).Round(time.Second)
	byWallClock := now.Round(0).Sub(then.Round(0)) // Round(0) removes the monotonic reading
	passed := max(now.Sub(then), byWallClock)
	return now.Add(ahead - passed)
}

type sourceKey struct{}

// WithJitter returns a context whose calls take their random numbers from source, in several goroutines
// concurrently.
func WithJitter(ctx context.Context, source func() float64) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// Jitter returns a number from 0 to below 1.
func Jitter(ctx context.Context) float64 {
	if source, ok := ctx.Value(sourceKey{}).(func() float64); ok {
		return source()
	}
	return rand.Float64() //nolint:gosec // nobody gains by guessing a pause
}

// Attempt is one attempt and its result.
type Attempt struct { //nolint:errname // it is an error only for the retry loop
	Number        int
	Started       time.Time     // when it began to send; the limiter's time is before that
	Duration      time.Duration // since then, known to Caller.End
	BytesSent     int64         // of the body
	BytesReceived int64         // of the body

	Outcome        // what the retry decision goes by
	Header         http.Header
	Body           []byte // valid until the result is released
	Step           Step   // that failed; None for a success
	ReachedSending bool   // Caller.Begin has returned, so only sending remained

	// LimitedFor is how long the calls of the client send nothing because the server refused the attempt by a limit. It
	// is zero if that was not so. It is known to Caller.End.
	LimitedFor time.Duration

	Cause      error // why it failed
	ContextErr error // of the caller's context, if that was over too
	Err        error // as Explain put it; nil for a success

	passedGate bool // so the Gate has to learn of its end

	ctx context.Context //nolint:containedctx // the caller's, as Begin left it
}

// Step is where an attempt failed.
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
	GateWait       // the context ended at the Gate; nothing was sent
)

// Error implements error, so an attempt can be passed through the retry loop.
func (a *Attempt) Error() string { return redact.Cause(a.Cause) }

// Unfinished reports whether a panic, or the end of the goroutine, left the attempt without a result.
func (a *Attempt) Unfinished() bool { return a.Status == 0 && a.Err == nil }

// classify sets the step and the cause of a failed attempt. A complete but unusable response comes first. What
// BeforeCommit, the source of the body or the caller's context reported takes precedence over the transport's error,
// which only follows from it.
func (a *Attempt) classify(ctx, watched context.Context, state *SendState, err error) {
	a.ContextErr = redact.ContextErr(ctx)
	commitRefusal := state.commitRefusal.Load()
	sourceErr := state.sourceErr.Load()
	switch {
	case errors.Is(err, ErrUnusable):
		a.Step = Content
		a.Cause = err
	case commitRefusal != nil:
		a.Step = Commit
		a.Cause = *commitRefusal
		a.Sent = Partly
		a.Permanent = true
	case sourceErr != nil:
		a.Step = Source
		a.Cause = *sourceErr
		a.Sent = Partly
		a.Permanent = true
	case a.ContextErr != nil:
		a.Step = Context
		a.Cause = a.ContextErr
		a.Permanent = true
	default:
		a.Step = Network
		a.Cause = cmp.Or(context.Cause(watched), err)
		a.Permanent = Permanent(a.Cause)
	}
}

// Permanent reports whether the configuration causes a transport error, so a retry would fail too. Examples are an
// untrusted certificate, TLS to a port without TLS, and an unknown host name.
func Permanent(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	return redact.Kind(err) == "tls"
}

// notProcessed matches HTTP/2 errors for a request that the server has not processed, because they have no exported
// types. They are REFUSED_STREAM, and a graceful GOAWAY that names an earlier stream as the last. It is anchored,
// because other texts can quote what a server sent.
var notProcessed = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?` +
	`(http2: Transport received Server's graceful shutdown GOAWAY|stream error: stream ID \d+; REFUSED_STREAM)`)

// Refused reports whether the error shows that the server has not processed the request.
func Refused(err error) bool { return err != nil && notProcessed.MatchString(err.Error()) }

// Reset reports whether the peer ended the connection before it had read all. The last two numbers are those of
// Windows.
func Reset(err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{syscall.ECONNRESET, syscall.EPIPE, 10053, 10054}, number)
}
