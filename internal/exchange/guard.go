package exchange

import "runtime"

// Guarded is a function that runs in its own goroutine (GoGuarded), or has run in this one (run).
type Guarded struct {
	done     chan struct{}
	returned bool // it neither panicked nor exited
	panicked any  // with this value; never nil for a panic
}

// GoGuarded runs f in a goroutine. Somebody has to call Wait, or a panic is lost.
func GoGuarded(f func()) *Guarded {
	w := &Guarded{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.run(f)
	}()
	return w
}

// run runs f in this goroutine and recovers its panic. A runtime.Goexit in f still ends the goroutine.
func (w *Guarded) run(f func()) {
	defer func() { w.panicked = recover() }()
	f()
	w.returned = true
}

// Done is closed when the work has ended, in whatever way.
func (w *Guarded) Done() <-chan struct{} { return w.done }

// Wait waits until the function has ended, and ends in the same way: it returns, panics with the same value, or
// ends this goroutine.
func (w *Guarded) Wait() {
	if w.done != nil { // nil: run was called without GoGuarded, and has ended
		<-w.done
	}
	switch {
	case w.returned:
	case w.panicked != nil:
		panic(w.panicked)
	default:
		runtime.Goexit()
	}
}
