// Package poll is the schedule of a wait: when to look next, and for how long at most.
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

// Schedule decides how long to pause between two polls. It serves one goroutine.
type Schedule struct {
	Failures  int           // polls in a row that failed, which make the next pause longer
	LastPause time.Duration // without what the service requested; 0 before the first pause

	interval, maxInterval time.Duration
	began                 time.Time     // pauses grow with the time since
	requested             time.Duration // the longest pause that the service requested since the last one
}

// NewSchedule begins a schedule with pauses from interval to maxInterval, none of which is 0.
func NewSchedule(interval, maxInterval time.Duration) *Schedule {
	return &Schedule{interval: interval, maxInterval: maxInterval, began: time.Now()}
}

// Restart makes pauses as short as at the beginning, and grow again from there.
func (s *Schedule) Restart() { s.began = time.Now() }

// Respect makes the next pause at least as long as the service requests, up to MaxRequestedPause.
func (s *Schedule) Respect(pause time.Duration) {
	s.requested = max(s.requested, min(pause, MaxRequestedPause))
}

// PauseRequested reports whether the service wants no request before the next pause.
func (s *Schedule) PauseRequested() bool { return s.requested > 0 }

// Sleep waits for the time of the next poll. An error means that there is none: the context ended.
func (s *Schedule) Sleep(ctx context.Context) error {
	s.LastPause = s.pause(ctx)
	pause := max(s.LastPause, s.requested)
	s.requested = 0
	return Sleep(ctx, pause)
}

// Sleep waits until the time has passed or the context has ended, and returns its error then.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return Expired(ctx)
}

// pause is never shorter than the interval, grows with the time waited up to maxInterval, and up to a fifth of it is
// random, so that many waits do not poll together. After failures it also grows with their number.
func (s *Schedule) pause(ctx context.Context) time.Duration {
	shortest, longest := s.bounds(time.Since(s.began))
	pause := shortest + time.Duration(exchange.Jitter(ctx)*float64(longest-shortest+1))
	if s.Failures > 0 {
		pause = max(pause, exchange.Backoff(s.Failures-1, s.interval, s.maxInterval, 0, exchange.Jitter(ctx)))
	}
	return pause
}

func (s *Schedule) bounds(elapsed time.Duration) (shortest, longest time.Duration) {
	longest = min(s.interval+s.interval/4+elapsed/10, s.maxInterval)
	return max(s.interval, longest-longest/5), longest
}

// WithMaxWait gives a context without a deadline the longest a wait may take.
func WithMaxWait(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, MaxWait)
}

// Expired returns the context's error if it has ended, also when its own timer is late.
func Expired(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
