// Package handover lets work run in another goroutine as if it ran in the caller's: a panic, or the end of the goroutine by
// runtime.Goexit, comes out where the work is waited for, and can be recovered there.
package handover

import (
	"runtime"
	"sync"
)

// End is how a function ended, if not by returning. The zero value is ready to use.
type End struct {
	mu     sync.Mutex
	value  any // of a panic
	exited bool
}

// Catch is to be deferred by the function that it watches, with a variable that becomes true before that returns. A panic
// goes no further; Goexit cannot be held up, but is remembered.
func (e *End) Catch(returned *bool) {
	if *returned {
		return
	}
	value := recover() // never nil for a panic
	e.mu.Lock()
	defer e.mu.Unlock()
	e.value, e.exited = value, value == nil
}

// Caught reports whether there is anything to raise.
func (e *End) Caught() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.value != nil || e.exited
}

// Raise ends this goroutine as the other one ended: it panics with the same value, exits, or returns.
func (e *End) Raise() {
	e.mu.Lock()
	value, exited := e.value, e.exited
	e.mu.Unlock()
	switch {
	case value != nil:
		panic(value)
	case exited:
		runtime.Goexit()
	}
}

// Work is a function that runs in a goroutine of its own.
type Work struct {
	end  End
	done chan struct{}
}

// Go runs f in a goroutine.
func Go(f func()) *Work {
	w := &Work{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		returned := false
		defer w.end.Catch(&returned)
		f()
		returned = true
	}()
	return w
}

// Done is closed when the work has ended, in whatever way.
func (w *Work) Done() <-chan struct{} { return w.done }

// Wait waits for the work's end and raises it here.
func (w *Work) Wait() {
	<-w.done
	w.end.Raise()
}
