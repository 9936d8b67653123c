// Package poll is the schedule of a wait: when to look next, and for how long at most.
package poll

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

const (
	MaxWait       = 24 * time.Hour // of a wait whose context has no deadline
	MaxAskedPause = time.Hour      // the longest pause that the service can ask for
	elapsedShare  = 10             // a pause grows by this part of the time waited so far
)

// Schedule is the one schedule of every wait.
type Schedule struct {
	Interval, MaxInterval time.Duration

	Started  time.Time
	Asked    time.Duration // the longest pause that the service asked for since the last one
	Failures int           // polls in a row that failed
}

// Limited gives a context without a deadline the longest a wait may take.
func Limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, MaxWait)
}

// pause is how long to wait before the next poll. It is never shorter than Interval, grows with the time waited up to
// MaxInterval, and up to a fifth of it is random. After failures it also grows with their number; what the service asks
// for beats all.
func (p *Schedule) pause() time.Duration {
	least, most := p.Interval, p.MaxInterval
	longest := min(least+least/4+time.Since(p.Started)/elapsedShare, most)
	shortest := max(least, longest-longest/5)
	pause := shortest + rand.N(longest-shortest+1) //nolint:gosec // spreads load; it protects nothing
	if p.Failures > 0 {
		pause = max(pause, retry.Backoff(p.Failures-1, least, most, 0))
	}
	return max(pause, p.Asked)
}

// Sleep waits for the time of the next poll. An error means that there is none.
func (p *Schedule) Sleep(ctx context.Context) error {
	timer := time.NewTimer(p.pause())
	defer timer.Stop()
	p.Asked = 0
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ended(ctx)
}

// ended tells whether the context is over, also when its own timer is late.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
