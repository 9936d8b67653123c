package list

import (
	"context"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Line fetches values ahead of a reader. It belongs to the reader's goroutine; a panic of a fetch comes out there.
type Line[P comparable, V any] struct {
	ctx   context.Context
	depth int // how many values may be under way ahead, or wait to be read
	fetch func(ctx context.Context, at P) (V, error)
	next  func(P) (P, bool) // gives the position after another as long as it is known to exist

	last    P // the position that was begun last
	pending []*future[P, V]
}

// future is a value to come.
type future[P comparable, V any] struct {
	at     P
	ctx    context.Context // ended by a failure
	cancel context.CancelFunc
	work   *exchange.Guarded
	value  V
	err    error
}

// Get reads the value at a position. If it is not the one that follows in the line, the line is given up and starts there, with a
// fetch in the reader's goroutine.
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

// LookAhead begins to fetch what follows, as far as next knows of it and the depth allows. After a failure nothing is of use.
func (l *Line[P, V]) LookAhead() {
	failed := func(f *future[P, V]) bool { return f.ctx.Err() != nil }
	for len(l.pending) < l.depth && !slices.ContainsFunc(l.pending, failed) {
		at, ok := l.next(l.last)
		if !ok {
			return
		}
		ctx, cancel := context.WithCancel(l.ctx)
		f := &future[P, V]{at: at, ctx: ctx, cancel: cancel}
		f.work = exchange.GoGuarded(func() {
			if f.value, f.err = l.fetch(f.ctx, at); f.err != nil {
				cancel()
			}
		})
		l.pending, l.last = append(l.pending, f), at
	}
}

// Stop gives up what was not read and returns when nothing of it is left.
func (l *Line[P, V]) Stop() {
	for _, f := range l.pending {
		f.cancel()
		defer f.work.Wait() //nolint:gocritic // all of them, also if one panics
	}
	l.pending = nil
}
