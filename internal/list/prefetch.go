package list

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Line fetches values ahead of a reader. It belongs to the reader's goroutine; a panic of a fetch comes out there.
type Line[P comparable, V any] struct {
	ctx   context.Context
	depth int
	fetch FetchAt[P, V]
	next  func(P) (P, bool)

	last    P // the position that was read last, or is being read
	pending []*future[P, V]
	flights context.Context // of those begun since Stop
	cancel  context.CancelFunc
	failed  atomic.Bool // one of them has: nothing after it is of use
}

// FetchAt gets the value at a position. It calls responded when the response is here, before it works on it.
type FetchAt[P comparable, V any] func(ctx context.Context, at P, responded func()) (V, error)

// NewLine returns a line that fetches up to depth values beyond the one being read, and never more than that without a
// response; with 0, each when it is read, in the reader's goroutine. Next gives the position after another as long as it
// is known to exist.
func NewLine[P comparable, V any](ctx context.Context, depth int, fetch FetchAt[P, V], next func(P) (P, bool)) *Line[P, V] {
	return &Line[P, V]{ctx: ctx, depth: depth, fetch: fetch, next: next}
}

// future is a value to come.
type future[P comparable, V any] struct {
	at        P
	responded chan struct{}
	work      *exchange.Guarded
	value     V
	err       error
}

// Get reads the value at a position. If it is not the one that follows in the line, the line is given up and starts
// there, with nothing ahead before LookAhead.
func (l *Line[P, V]) Get(at P) (V, error) {
	if l.depth == 0 {
		return l.fetch(l.ctx, at, func() {})
	}
	follows := len(l.pending) > 0 && l.pending[0].at == at
	if !follows {
		l.Stop()
		l.begin(at, nil)
	}
	f := l.pending[0]
	l.pending[0] = nil // or the line would hold the value
	l.pending, l.last = l.pending[1:], at
	if follows {
		l.lookAhead(f.responded)
	}
	f.work.Wait()
	return f.value, f.err
}

// LookAhead begins to fetch what follows, as far as next knows of it and the depth allows.
func (l *Line[P, V]) LookAhead() { l.lookAhead(nil) }

// lookAhead fills the line. While a response is waited for, the last place in it has to wait as well.
func (l *Line[P, V]) lookAhead(response <-chan struct{}) {
	last := l.last
	if n := len(l.pending); n > 0 {
		last = l.pending[n-1].at
	}
	for n := len(l.pending); n < l.depth && !l.failed.Load(); n++ {
		at, ok := l.next(last)
		switch {
		case !ok:
			return
		case n == l.depth-1:
			l.begin(at, response)
		default:
			l.begin(at, nil)
		}
		last = at
	}
}

// begin adds a future to the line, which fetches at once or after that response.
func (l *Line[P, V]) begin(at P, after <-chan struct{}) {
	if l.cancel == nil {
		l.flights, l.cancel = context.WithCancel(l.ctx) //nolint:gosec // Stop calls it
	}
	ctx := l.flights
	f := &future[P, V]{at: at, responded: make(chan struct{}), err: context.Canceled}
	l.pending = append(l.pending, f)
	f.work = exchange.GoGuarded(func() {
		if after != nil {
			select {
			case <-after:
			case <-ctx.Done():
			}
			if ctx.Err() != nil || l.failed.Load() {
				return
			}
		}
		f.value, f.err = l.fetch(ctx, at, func() {
			close(f.responded)
			runtime.Gosched() // working on it may keep a processor for long: first the next one shall be requested
		})
		if f.err != nil {
			l.failed.Store(true)
		}
	})
}

// Stop gives up what was not read and returns when nothing of it is left.
func (l *Line[P, V]) Stop() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	left := l.pending
	l.pending, l.cancel = nil, nil
	for _, f := range left {
		<-f.work.Done()
	}
	l.failed.Store(false)
	for _, f := range left {
		f.work.Wait()
	}
}
