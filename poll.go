package clinicaldoc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

const (
	defaultInterval    = 2 * time.Second
	defaultMaxInterval = time.Minute
	defaultMaxFailures = 10
	maxWait            = 24 * time.Hour // of a wait whose context has no deadline
	maxAskedPause      = time.Hour      // the longest pause that the service can ask for
	elapsedShare       = 10             // a pause grows by this part of the time waited so far
)

// check refuses params that make no sense and fills in the defaults.
func (p WaitParams) check(name string) (WaitParams, error) {
	switch {
	case p.Until < 0 || p.Until >= StageFailed:
		return p, invalid(name+": Until", "is not a stage to wait for")
	case p.Interval < 0 || p.Interval > maxWait:
		return p, invalid(name+": Interval", "is outside 0 to %s", maxWait)
	case p.MaxInterval < 0 || p.MaxInterval > maxWait:
		return p, invalid(name+": MaxInterval", "is outside 0 to %s", maxWait)
	case p.MaxInterval > 0 && p.Interval > p.MaxInterval:
		return p, invalid(name+": Interval", "must not exceed MaxInterval")
	case p.MaxFailures < 0:
		return p, invalid(name+": MaxFailures", "must not be negative")
	}
	if p.Until == 0 {
		p.Until = StageComplete
	}
	if p.MaxInterval == 0 {
		p.MaxInterval = max(defaultMaxInterval, p.Interval)
	}
	if p.Interval == 0 {
		p.Interval = min(defaultInterval, p.MaxInterval)
	}
	if p.MaxFailures == 0 {
		p.MaxFailures = defaultMaxFailures
	}
	return p, nil
}

// polling is the one schedule of Wait, Watch and WaitAll, and how they ask.
type polling struct {
	params  WaitParams
	started time.Time

	opts     []CallOption  // the caller's, but each request is sent once: the schedule does the repeating
	caller   *Response     // to be filled for the caller; nil: not wanted
	latest   Response      // of the latest request
	asked    time.Duration // the longest pause that the service asked for since the last one
	failures int           // polls in a row that failed
}

func newPolling(name string, params WaitParams, opts []CallOption) (*polling, error) {
	params, err := params.check(name)
	if err != nil {
		return nil, err
	}
	var caller callOptions
	for _, opt := range opts {
		if err := opt(&caller); err != nil {
			return nil, err
		}
	}
	p := &polling{params: params, started: time.Now(), caller: caller.response}
	p.opts = append(slices.Clip(opts), WithResponse(&p.latest), WithoutRetry())
	return p, nil
}

// limited gives a context without a deadline the longest a wait may take.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, maxWait)
}

// ask makes one request and heeds what its answer says of the next one.
func ask[T any](p *polling, call func(opts []CallOption) (*T, error)) (*T, error) {
	p.latest = Response{}
	value, err := call(p.opts)
	if p.caller != nil && p.latest.Attempts > 0 {
		*p.caller = p.latest
	}
	p.asked = max(p.asked, askedPause(p.latest.Header, p.latest.RateLimit))
	return value, err
}

// askedPause is how long the service wants to be left alone: as Retry-After says, or until a used-up limit is reset.
func askedPause(h http.Header, limit RateLimit) time.Duration {
	now := time.Now()
	pause := retry.After(h.Get("Retry-After"), now)
	if h.Get("X-RateLimit-Remaining") != "" && limit.Remaining <= 0 && !limit.Reset.IsZero() {
		pause = max(pause, limit.Reset.Sub(now.Add(clockDifference(h))))
	}
	return min(pause, maxAskedPause)
}

// pause is how long to wait before the next poll. It is never shorter than Interval, grows with the time waited up to
// MaxInterval, and up to a fifth of it is random. After failures it also grows with their number; what the service asks
// for beats all.
func (p *polling) pause() time.Duration {
	least, most := p.params.Interval, p.params.MaxInterval
	longest := min(least+least/4+time.Since(p.started)/elapsedShare, most)
	shortest := max(least, longest-longest/5)
	pause := shortest + rand.N(longest-shortest+1) //nolint:gosec // spreads load; it protects nothing
	if p.failures > 0 {
		pause = max(pause, retry.Backoff(p.failures-1, least, most, 0))
	}
	return max(pause, p.asked)
}

// sleep waits for the time of the next poll. An error means that there is none.
func (p *polling) sleep(ctx context.Context) error {
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
	if err := redact.ContextErr(ctx); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// passing reports whether a request's failure may pass by itself. An answer that is no note may be a proxy's page.
func passing(err error) bool {
	if answered, ok := errors.AsType[*Error](err); ok {
		return retry.Reads.MayRepeat(retry.Outcome{Status: answered.StatusCode})
	}
	return !errors.Is(err, ErrInvalidArgument)
}

// watched is one note that is waited for.
type watched struct {
	id       int64
	note     *ProgressNote // as last seen; nil before
	polls    int
	failures int   // in a row
	failure  error // the latest of them

	page     int // of the list that showed it last; 0 before it was looked for, unlisted when the list does not show it
	lastRead int // number of the tick that read it singly
}

// see takes in the note as a poll gave it and tells the caller of a change.
func (w *watched) see(p *polling, note *ProgressNote) (changed bool) {
	changed = w.note == nil || w.note.Stage() != note.Stage() || !w.note.UpdatedAt.Equal(note.UpdatedAt)
	w.note, w.failures, w.failure = note, 0, nil
	w.polls++
	if changed && p.params.OnUpdate != nil {
		p.params.OnUpdate(note)
	}
	return changed
}

// miss takes in a failed poll and reports whether that ends the wait.
func (w *watched) miss(p *polling, err error) (over bool) {
	w.polls++
	w.failures++
	w.failure = err
	misconfigured := w.note == nil && retry.Permanent(err)
	return !passing(err) || misconfigured || w.failures > p.params.MaxFailures
}

const errErrorState = safeError("the service reports an error state for it")

// verdict tells whether the note has come to its end, and if that is a failure, the error.
func (w *watched) verdict(p *polling) (over bool, err error) {
	stage := w.note.Stage()
	if stage == StageFailed {
		return true, w.end(p, sentinelError{errErrorState, ErrProcessingFailed})
	}
	return stage.AtLeast(p.params.Until), nil
}

// end makes the error that ends the wait. When the context ends it while polls fail, both are told.
func (w *watched) end(p *polling, cause error) error {
	if w.failure != nil && !errors.Is(w.failure, cause) && !errors.Is(cause, w.failure) {
		cause = &callError{
			op:     getNote,
			detail: redact.Cause(cause) + "; the latest poll failed: " + redact.Cause(w.failure),
			causes: []error{cause, w.failure},
		}
	}
	return &WaitError{ID: w.id, Note: w.note, Polls: w.polls, Elapsed: time.Since(p.started), Err: cause}
}
