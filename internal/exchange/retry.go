package exchange

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
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

// Outcome is what one attempt came to.
type Outcome struct {
	Status    int  // of the response; 0 when there was none
	Sent      Sent // matters only without a response
	Permanent bool // the failure will be the same next time
}

// Unknown reports whether the server may have acted on the request.
func (o Outcome) Unknown() bool {
	switch {
	case o.Status == 0:
		return o.Sent == Wholly
	case o.Status < 300, o.Status >= 500:
		return true
	case o.Status < 400:
		// A 302 or 303 may follow an action that was carried out; these say that it has to be asked elsewhere.
		return o.Status != http.StatusMovedPermanently && o.Status != http.StatusTemporaryRedirect && o.Status != http.StatusPermanentRedirect
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
		return o.Status == 0 && !o.Unknown()
	case o.Status == 0:
		return true
	}
	return transient(o.Status)
}

// transient lists the statuses that often pass by themselves.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// Backoff returns how long to wait before repeating for the n-th time (counted from 0): exponential from least to most, a
// third of it by spread, a random number from 0 to 1, and never less than least, or than what the server asked for.
func Backoff(n int, least, most, retryAfter time.Duration, spread float64) time.Duration {
	longest := most
	if n < 62 && least <= most>>n {
		longest = least << n
		longest += min(longest/2, most-longest)
	}
	shortest := max(longest-longest/3, min(least, most))
	return max(shortest+time.Duration(spread*float64(longest-shortest)), retryAfter)
}

// RetryAfter reads a Retry-After header: seconds, or a date by the server's own clock. What is absent, in the past or not
// understood gives 0; what is too large for a duration gives the largest.
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

// ServerTime is the time by the server's own clock, as its Date header says, else ours.
func ServerTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now.Round(0) // without the monotonic clock, which is of no use to the server
}

type sourceKey struct{}

// WithJitter makes the calls of a context take their randomness from source, which gives numbers from 0 to below 1. Several
// goroutines may ask it at once.
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

// Shuffle brings n elements into a random order.
func Shuffle(ctx context.Context, n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(Jitter(ctx)*float64(i+1)))
	}
}
