package list

import (
	"context"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Line fetches values ahead of a reader. It belongs to the reader's goroutine; a panic of a fetch comes out there.
type Line[P comparable, V any] struct {
	ctx   context.Context
	depth int
	fetch func(ctx context.Context, at P) (V, error)
	next  func(P) (P, bool)

	last    P // the position that was read last, or is being read
	pending []*future[P, V]
	slots   chan struct{}   // of fetches under way
	flights context.Context // of those begun since Stop
	cancel  context.CancelFunc
	begun   int64
	failed  atomic.Int64 // number of one of them that has: nothing after it is of use
}

// NewLine returns a line that fetches up to depth values beyond the one being read, and never more than that at a time; with 0,
// each when it is read, in the reader's goroutine. Next gives the position after another as long as it is known to exist.
func NewLine[P comparable, V any](ctx context.Context, depth int, fetch func(context.Context, P) (V, error), next func(P) (P, bool)) *Line[P, V] {
	return &Line[P, V]{ctx: ctx, depth: depth, fetch: fetch, next: next}
}

// future is a value to come.
type future[P comparable, V any] struct {
	at     P
	number int64
	work   *exchange.Guarded
	value  V
	err    error
}

// Get reads the value at a position. If it is not the one that follows in the line, the line is given up and starts
// there, with nothing ahead before LookAhead.
func (l *Line[P, V]) Get(at P) (V, error) {
	if l.depth < 1 {
		return l.fetch(l.ctx, at)
	}
	follows := len(l.pending) > 0 && l.pending[0].at == at
	if !follows {
		l.Stop()
		l.begin(at)
	}
	f := l.pending[0]
	l.pending[0] = nil // or the line would hold the value
	l.pending, l.last = l.pending[1:], at
	if follows {
		l.LookAhead()
	}
	f.work.Wait()
	return f.value, f.err
}

// LookAhead begins to fetch what follows, as far as next knows of it and the depth allows.
func (l *Line[P, V]) LookAhead() {
	last := l.last
	if n := len(l.pending); n > 0 {
		last = l.pending[n-1].at
	}
	for len(l.pending) < l.depth && l.failed.Load() == 0 {
		at, ok := l.next(last)
		if !ok {
			return
		}
		l.begin(at)
		last = at
	}
}

// begin adds a future to the line, which fetches as soon as there is a slot for it.
func (l *Line[P, V]) begin(at P) {
	if l.cancel == nil {
		l.flights, l.cancel = context.WithCancel(l.ctx) //nolint:gosec // Stop calls it
		l.slots = make(chan struct{}, l.depth)
	}
	ctx := l.flights
	l.begun++
	f := &future[P, V]{at: at, number: l.begun, err: context.Canceled}
	l.pending = append(l.pending, f)
	waits := false
	select {
	case l.slots <- struct{}{}:
	default:
		waits = true
	}
	f.work = exchange.GoGuarded(func() {
		if waits {
			l.slots <- struct{}{}
		}
		defer func() { <-l.slots }()
		if failed := l.failed.Load(); waits && (ctx.Err() != nil || failed != 0 && failed < f.number) {
			return
		}
		if f.value, f.err = l.fetch(ctx, at); f.err != nil {
			l.failed.Store(f.number)
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
	l.failed.Store(0)
	for _, f := range left {
		f.work.Wait()
	}
}
