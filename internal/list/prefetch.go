package list

import (
	"context"
	"runtime"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Line holds what is being fetched ahead of a reader. It belongs to the reader's goroutine; a panic of a fetch comes out
// there.
type Line[P comparable, V any] struct {
	ctx   context.Context
	depth int
	fetch FetchAt[P, V]
	next  func(P) (P, bool)

	current P // what was read last, or is being read
	pending []*flight[P, V]
	flights context.Context // of those begun since Stop
	cancel  context.CancelFunc
	arrived chan struct{} // a response has come
}

// FetchAt gets the value at a position. It calls responded when the response is here, before it works on it.
type FetchAt[P comparable, V any] func(ctx context.Context, at P, responded func()) (V, error)

// NewLine returns a line that fetches up to depth values ahead of the one being read, and never more than that at once; with 0,
// each when it is read, in the reader's goroutine. While Get waits for a response, those that overtake it make room for
// others, until there are twice as many as depth. Next gives the position after another as long as it is known to exist.
func NewLine[P comparable, V any](ctx context.Context, depth int, fetch FetchAt[P, V], next func(P) (P, bool)) *Line[P, V] {
	return &Line[P, V]{ctx: ctx, depth: depth, fetch: fetch, next: next, arrived: make(chan struct{}, 1)}
}

// flight is a value on its way, or arrived.
type flight[P comparable, V any] struct {
	at        P
	responded chan struct{}
	work      *exchange.Guarded
	value     V
	err       error
}

// without is 1 while there is no response, also when none will come.
func (f *flight[P, V]) without() int {
	select {
	case <-f.responded:
		return 0
	default:
		return 1
	}
}

// failed reports whether reading it will end the line.
func (f *flight[P, V]) failed() bool {
	select {
	case <-f.work.Done():
		return f.err != nil
	default:
		return false
	}
}

// Get reads the value at a position. If it is not the one that follows in the line, the line is given up and starts there.
func (l *Line[P, V]) Get(at P) (V, error) {
	if l.depth == 0 {
		return l.fetch(l.ctx, at, func() {})
	}
	f := l.take(at)
	for done := false; !done; {
		select {
		case <-l.arrived: // this one, which is still worked on, or one that overtook it
		case <-f.work.Done():
			done = true
		}
		l.lookAhead(l.depth+l.depth*f.without(), f)
	}
	f.work.Wait()
	return f.value, f.err
}

// LookAhead begins to fetch what follows, as far as next knows of it and the depth allows.
func (l *Line[P, V]) LookAhead() { l.lookAhead(l.depth) }

// lookAhead holds up to most values ahead of the one being read. With that, if it is waited for, depth may be without a
// response. Nothing follows a failure.
func (l *Line[P, V]) lookAhead(most int, waitedFor ...*flight[P, V]) {
	last := l.current
	if n := len(l.pending); n > 0 {
		last = l.pending[n-1].at
	}
	without := 0
	for _, f := range append(slices.Clip(l.pending), waitedFor...) {
		if f.failed() {
			return
		}
		without += f.without()
	}
	for ; len(l.pending) < most && without < l.depth; without++ {
		at, ok := l.next(last)
		if !ok {
			return
		}
		l.pending = append(l.pending, l.begin(at))
		last = at
	}
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
	for _, f := range left {
		f.work.Wait()
	}
}

func (l *Line[P, V]) take(at P) *flight[P, V] {
	l.current = at
	if len(l.pending) == 0 || l.pending[0].at != at {
		l.Stop()
		return l.begin(at)
	}
	f := l.pending[0]
	l.pending[0] = nil // or the line would hold the value
	l.pending = l.pending[1:]
	return f
}

func (l *Line[P, V]) begin(at P) *flight[P, V] {
	if l.cancel == nil {
		l.flights, l.cancel = context.WithCancel(l.ctx) //nolint:gosec // Stop calls it
	}
	ctx := l.flights
	f := &flight[P, V]{at: at, responded: make(chan struct{})}
	f.work = exchange.GoGuarded(func() {
		f.value, f.err = l.fetch(ctx, at, func() {
			close(f.responded)
			select {
			case l.arrived <- struct{}{}:
			default: // it is known that one has
			}
			runtime.Gosched() // working on it may keep a processor for long: first the reader shall ask for more
		})
	})
	return f
}
