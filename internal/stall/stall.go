// Package stall ends work that makes no progress, however long the work as a whole may take.
package stall

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Watchdog cancels its context when Progress has not been called for a while.
type Watchdog struct {
	after   time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
	stopped atomic.Bool
}

// Guard returns a context that is cancelled, with an *Error as its cause, once Progress has not been called for the
// given time. Stop must be called when the work is over.
func Guard(ctx context.Context, after time.Duration) (context.Context, *Watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watchdog{after: after, cancel: cancel}
	w.timer = time.AfterFunc(after, w.expire)
	return ctx, w
}

// Progress says that something moved. It may be called from any goroutine, also after Stop.
func (w *Watchdog) Progress() {
	if !w.stopped.Load() {
		w.timer.Reset(w.after)
	}
}

// Pause stops the clock until the next Progress: what happens meanwhile is not the watched work's fault.
func (w *Watchdog) Pause() { w.timer.Stop() }

// Cancel ends the work at once for another reason than a stall.
func (w *Watchdog) Cancel(cause error) { w.cancel(cause) }

// Stop ends the watch and releases the context.
func (w *Watchdog) Stop() {
	w.stopped.Store(true)
	w.timer.Stop()
	w.cancel(nil)
}

func (w *Watchdog) expire() { w.cancel(&Error{After: w.after}) }

// Error is the cause of a context that a Watchdog cancelled.
type Error struct{ After time.Duration }

func (e *Error) Error() string { return "no byte moved for " + e.After.String() }

// SafeText is the error's text: it holds a duration only.
func (e *Error) SafeText() string { return e.Error() }

// ErrStalled is matched by every Error.
var ErrStalled = redact.New("stalled")

// Is matches ErrStalled.
func (e *Error) Is(target error) bool { return target == ErrStalled }

// Timeout marks the error as a timeout for callers that ask net.Error's question.
func (e *Error) Timeout() bool { return true }
