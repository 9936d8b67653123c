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
	ctx          context.Context //nolint:containedctx // the one it cancels
	stallTimeout time.Duration
	timer        *time.Timer
	cancel       context.CancelCauseFunc
	stopped      atomic.Bool
	// overallDeadline is when the work must be over even if data is transferred, in Unix nanoseconds; 0: never.
	overallDeadline atomic.Int64
}

// Watch is how the reader of a response reports to a Watchdog.
type Watch interface {
	Progress()       // data was transferred
	Pause()          // until the next Progress, none is expected
	Bound(times int) // the work must be over after so many stall timeouts, even if data is transferred
	Err() error      // why the work was ended; nil: it was not
}

// Guard starts the watchdog. It returns a context that is cancelled with [ErrStalled] once Progress has not been called
// for that time. Call Stop to release it.
func (w *Watchdog) Guard(ctx context.Context, stallTimeout time.Duration) context.Context {
	w.stallTimeout = stallTimeout
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	cancel := w.cancel // the timer must not hold w, which may be part of something large: it is kept even if stopped
	w.timer = time.AfterFunc(stallTimeout, func() {
		cancel(timeoutError{redact.Text("no data was transferred for " + stallTimeout.String()), ErrStalled})
	})
	return w.ctx
}

// Progress reports that data was transferred. It cancels the context if the time of Bound has passed. It may be called
// from any goroutine, also after Stop.
func (w *Watchdog) Progress() {
	deadline := w.overallDeadline.Load()
	if deadline != 0 && time.Now().UnixNano() > deadline {
		w.cancel(errTooSlow)
	}
	w.Allow(0)
}

// Allow restarts the time without progress, and makes it longer than usual by that much until the next Progress.
func (w *Watchdog) Allow(longer time.Duration) {
	if !w.stopped.Load() {
		w.timer.Reset(max(w.stallTimeout, w.stallTimeout+longer)) // max, because the sum may wrap
	}
}

// Bound limits the total time from now on to so many stall timeouts, against a server that sends a byte now and then.
func (w *Watchdog) Bound(times int) {
	stallTimeout := min(w.stallTimeout, math.MaxInt64/1000) // more would wrap
	longest := time.Duration(times) * stallTimeout
	w.overallDeadline.Store(time.Now().Add(longest).UnixNano())
}

// WatchedReader reads up to a limit and reports progress for what it reads. It returns the Watch's error once the work
// was ended, even if Reader does not notice that.
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

// Pause stops the clock until the next Progress. The time in between does not count.
func (w *Watchdog) Pause() { w.timer.Stop() }

// Err returns why the work was ended, or nil if it was not.
func (w *Watchdog) Err() error { return context.Cause(w.ctx) }

// Stop ends the watch and releases the context.
func (w *Watchdog) Stop() {
	w.stopped.Store(true)
	w.timer.Stop()
	w.cancel(nil)
}

const errTooSlow = redact.Text("it arrives too slowly")

// ErrStalled is matched by the error of an attempt in which no data was transferred for the stall timeout.
var ErrStalled = redact.New("stalled")

// WithTimeout limits the total time to d, unless d is 0. Its end matches [context.DeadlineExceeded].
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	const text = "the Timeout of the http.Client from WithHTTPClient passed"
	return context.WithTimeoutCause(ctx, d, timeoutError{text, context.DeadlineExceeded})
}

// timeoutError is a timeout as [net.Error] reports it. It matches one other error.
type timeoutError struct {
	redact.Text
	matches error
}

func (timeoutError) Timeout() bool          { return true }
func (e timeoutError) Is(target error) bool { return target == e.matches }

func init() { redact.Trust(timeoutError.Error) }
