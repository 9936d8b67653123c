package clinicaldoc

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

const (
	maxWait       = 24 * time.Hour // of a wait whose context has no deadline
	maxAskedPause = time.Hour      // the longest pause that the service can ask for
	elapsedShare  = 10             // a pause grows by this part of the time waited so far
)

// schedule is the one schedule of Wait, Watch and WaitAll.
type schedule struct {
	interval, maxInterval time.Duration

	started  time.Time
	asked    time.Duration // the longest pause that the service asked for since the last one
	failures int           // polls in a row that failed
}

// limited gives a context without a deadline the longest a wait may take.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, maxWait)
}

// pause is how long to wait before the next poll. It is never shorter than Interval, grows with the time waited up to
// MaxInterval, and up to a fifth of it is random. After failures it also grows with their number; what the service asks
// for beats all.
func (p *schedule) pause() time.Duration {
	least, most := p.interval, p.maxInterval
	longest := min(least+least/4+time.Since(p.started)/elapsedShare, most)
	shortest := max(least, longest-longest/5)
	pause := shortest + rand.N(longest-shortest+1) //nolint:gosec // spreads load; it protects nothing
	if p.failures > 0 {
		pause = max(pause, retry.Backoff(p.failures-1, least, most, 0))
	}
	return max(pause, p.asked)
}

// sleep waits for the time of the next poll. An error means that there is none.
func (p *schedule) sleep(ctx context.Context) error {
	timer := time.NewTimer(p.pause())
	defer timer.Stop()
	p.asked = 0
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
