package list

import (
	"context"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Line fetches values ahead of a reader. It must be used by one goroutine. If a fetch panics, Get panics.
type Line[P comparable, V any] struct {
	ctx   context.Context
	depth int // how many values may be fetched ahead
	fetch func(ctx context.Context, at P) (V, error)
	next  func(P) (P, bool) // returns the position after another if it is known to exist

	last    P // the position whose fetch began last
	pending []*future[P, V]
}

// future is a value that is being fetched.
type future[P comparable, V any] struct {
	at     P
	ctx    context.Context // cancelled by a failure
	cancel context.CancelFunc
	work   *exchange.Guarded
	value  V
	err    error
}

// Get returns the value at a position. If it is not the next one that was fetched ahead, what was fetched ahead is
// discarded, and Get fetches the value itself.
func (l *Line[P, V]) Get(at P) (V, error) {
	if len(l.pending) == 0 || l.pending[0].at != at {
		l.Stop()
		l.last = at
		return l.fetch(l.ctx, at)
	}
	f := l.pending[0]
	l.pending = slices.Delete(l.pending, 0, 1) // which also lets go of the value
	defer f.cancel()
	f.work.Wait()
	return f.value, f.err
}

// LookAhead begins to fetch the values that follow, as far as next and the depth allow. After a failure it fetches
// nothing.
func (l *Line[P, V]) LookAhead() {
	for len(l.pending) < l.depth {
		if l.failed() {
			return
		}
		at, ok := l.next(l.last)
		if !ok {
			return
		}
		l.pending = append(l.pending, l.begin(at))
		l.last = at
	}
}

// begin fetches a value in another goroutine.
func (l *Line[P, V]) begin(at P) *future[P, V] {
	ctx, cancel := context.WithCancel(l.ctx)
	f := &future[P, V]{at: at, ctx: ctx, cancel: cancel}
	f.work = exchange.GoGuarded(func() {
		f.value, f.err = l.fetch(f.ctx, at)
		if f.err != nil {
			cancel()
		}
	})
	return f
}

// failed reports whether a value that was fetched ahead could not be fetched.
func (l *Line[P, V]) failed() bool {
	return slices.ContainsFunc(l.pending, func(f *future[P, V]) bool { return f.ctx.Err() != nil })
}

// Stop discards what was fetched ahead, and returns when no fetch is running.
func (l *Line[P, V]) Stop() {
	for _, f := range l.pending {
		f.cancel()
		defer f.work.Wait() //nolint:gocritic // deferred, so that all of them are waited for even if one panics
	}
	l.pending = nil
}
