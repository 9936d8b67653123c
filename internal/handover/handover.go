// Package handover lets work run in another goroutine as if it ran in the caller's: a panic, or the end of the goroutine by
// runtime.Goexit, comes out where the work is waited for, and can be recovered there.
package handover

import "runtime"

// Work is a function that runs in a goroutine of its own.
type Work struct {
	done     chan struct{}
	returned bool // it neither panicked nor exited
	panicked any  // with this value; never nil for a panic
}

// Go runs f in a goroutine. Somebody has to call Wait, or a panic is lost.
func Go(f func()) *Work {
	w := &Work{done: make(chan struct{})}
	go w.run(f)
	return w
}

func (w *Work) run(f func()) {
	defer close(w.done)
	defer func() {
		if !w.returned {
			w.panicked = recover()
		}
	}()
	f()
	w.returned = true
}

// Done is closed when the work has ended, in whatever way.
func (w *Work) Done() <-chan struct{} { return w.done }

// Wait waits for the work's end and ends likewise: it returns, panics with the same value, or ends this goroutine. It may
// be called more than once.
func (w *Work) Wait() {
	<-w.done
	switch {
	case w.returned:
	case w.panicked != nil:
		panic(w.panicked)
	default:
		runtime.Goexit()
	}
}
