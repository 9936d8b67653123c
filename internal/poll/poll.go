// Package poll is the schedule of a wait: when to poll next, and for how long at most.
package poll

import (
	"context"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// The bounds of every wait.
const (
	MinInterval       = 50 * time.Millisecond // a shorter one is a forgotten unit, and would spin
	MaxWait           = 24 * time.Hour        // of a wait whose context has no deadline
	MaxRequestedPause = time.Hour             // the longest pause that a service can request
)

// leftWaits is the key of LeaveWaits.
type leftWaits struct{}

// LeaveWaits returns a context for an upload that keeps the stage of its note, and leaves waiting for the note to the
// caller.
func LeaveWaits(ctx context.Context) context.Context {
	return context.WithValue(ctx, leftWaits{}, true)
}

// LeavesWaits reports whether the context comes from LeaveWaits.
func LeavesWaits(ctx context.Context) bool {
	return ctx.Value(leftWaits{}) != nil
}

// Schedule decides how long to pause between two polls. It serves one goroutine.
type Schedule struct {
	Interval, MaxInterval time.Duration // of pauses; neither is 0
	Began                 time.Time     // of the wait; pauses grow with the time since then

	Failures  int           // polls in a row that failed, which make the next pause longer
	LastPause time.Duration // without what the service requested; 0 before the first pause

	requested time.Duration // the longest pause that the service requested since the last one
}

// Respect makes the next pause at least as long as the service requests, up to MaxRequestedPause.
func (s *Schedule) Respect(pause time.Duration) {
	s.requested = max(s.requested, min(pause, MaxRequestedPause))
}

// PauseRequested reports whether the service wants no request before the next pause.
func (s *Schedule) PauseRequested() bool { return s.requested > 0 }

// Sleep waits for the time of the next poll. It returns an error if the context ended.
//
// A pause is never shorter than Interval, and grows with the time waited up to MaxInterval. Up to a fifth of it is
// random, so many waits do not poll together. After failures it also grows with their number.
func (s *Schedule) Sleep(ctx context.Context) error {
	shortest, longest := s.bounds(time.Since(s.Began))
	s.LastPause = shortest + time.Duration(exchange.Jitter(ctx)*float64(longest-shortest))
	if s.Failures > 0 {
		backoff := exchange.Backoff(s.Failures-1, s.Interval, s.MaxInterval, 0, exchange.Jitter(ctx))
		s.LastPause = max(s.LastPause, backoff)
	}
	pause := max(s.LastPause, s.requested)
	s.requested = 0
	return Sleep(ctx, pause)
}

// bounds returns the shortest and the longest pause after that time of waiting.
func (s *Schedule) bounds(elapsed time.Duration) (shortest, longest time.Duration) {
	longest = min(s.Interval+s.Interval/4+elapsed/10, s.MaxInterval)
	return max(s.Interval, longest-longest/5), longest
}

// Sleep waits until the time has passed or the context has ended. It returns an error if the context has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return Expired(ctx)
}

// Expired returns the context's error if it has ended, also when its own timer is late.
func Expired(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, hasDeadline := ctx.Deadline()
	if hasDeadline && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
