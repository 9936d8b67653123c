package exchange

import (
	"context"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Watchdog cancels its context when Progress has not been called for a while. Guard starts it.
type Watchdog struct {
	ctx     context.Context //nolint:containedctx // the one it cancels
	after   time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
	stopped atomic.Bool
	until   atomic.Int64 // when the work must be over although it moves, in nanoseconds since 1970; 0: never
}

// Watch is how the reader of a response reports to a Watchdog.
type Watch interface {
	Progress()       // something moved
	Pause()          // until the next Progress nothing is expected to
	Bound(times int) // it must be over after so many times the patience with a stall, although something moves
	Err() error      // why the work was ended; nil: it was not
}

// Guard returns a context that is cancelled, by [ErrStalled], once Progress has not been called for the time. Stop ends
// it.
func (w *Watchdog) Guard(ctx context.Context, after time.Duration) context.Context {
	w.after = after
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	cancel := w.cancel // not w, which may be a part of something large: a stopped timer is not let go before its time
	w.timer = time.AfterFunc(after, func() {
		cancel(timeoutError{redact.Text("no data was transferred for " + after.String()), ErrStalled})
	})
	return w.ctx
}

// Progress says that something moved. It may be called from any goroutine, also after Stop.
func (w *Watchdog) Progress() {
	if until := w.until.Load(); until != 0 && time.Now().UnixNano() > until {
		w.cancel(errDrips)
	}
	w.Allow(0)
}

// Allow is Progress after which nothing has to move for longer than usual.
func (w *Watchdog) Allow(longer time.Duration) {
	if !w.stopped.Load() {
		w.timer.Reset(max(w.after, w.after+longer)) // the sum may wrap
	}
}

// Bound ends work that moves a byte now and then once so many times the patience with a stall have passed.
func (w *Watchdog) Bound(times int) {
	patience := min(w.after, math.MaxInt64/1000) // more would wrap
	w.until.Store(time.Now().Add(time.Duration(times) * patience).UnixNano())
}

// WatchedReader reads up to a limit, and each byte is progress. It ends with the work, also if what it reads does not
// notice.
type WatchedReader struct {
	Reader io.Reader
	Watch  Watch
	Left   int64 // bytes until the limit
}

func (r *WatchedReader) Read(p []byte) (int, error) {
	if r.Left <= 0 {
		return 0, io.EOF
	}
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.Left)])
	r.Left -= int64(n)
	if n > 0 {
		r.Watch.Progress()
	}
	if err == nil {
		err = r.Watch.Err()
	}
	return n, err
}

// Pause stops the clock until the next Progress: what happens meanwhile is not the watched work's fault.
func (w *Watchdog) Pause() { w.timer.Stop() }

// Err is why the work was ended, nil while it was not.
func (w *Watchdog) Err() error { return context.Cause(w.ctx) }

// Stop ends the watch and releases the context.
func (w *Watchdog) Stop() {
	w.stopped.Store(true)
	w.timer.Stop()
	w.cancel(nil)
}

const errDrips = redact.Text("it arrives too slowly")

// ErrStalled says that nothing moved.
var ErrStalled = redact.New("stalled")

// WithTimeout limits the total time to d, unless d is 0. Its end matches [context.DeadlineExceeded].
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	const text = "the Timeout of the http.Client from WithHTTPClient passed"
	return context.WithTimeoutCause(ctx, d, timeoutError{text, context.DeadlineExceeded})
}

// timeoutError is a timeout for callers that ask net.Error's question, and matches what it is.
type timeoutError struct {
	redact.Text
	is error
}

func (timeoutError) Timeout() bool          { return true }
func (e timeoutError) Is(target error) bool { return target == e.is }

func init() { redact.Trust(timeoutError.Error) }
