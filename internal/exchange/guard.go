package exchange

import "runtime"

// Guarded is a function that runs in a goroutine of its own.
type Guarded struct {
	done     chan struct{}
	returned bool // it neither panicked nor exited
	panicked any  // with this value; never nil for a panic
}

// GoGuarded runs f in a goroutine. Somebody has to call Wait, or a panic is lost.
func GoGuarded(f func()) *Guarded {
	w := &Guarded{done: make(chan struct{})}
	go w.run(f)
	return w
}

func (w *Guarded) run(f func()) {
	defer close(w.done)
	w.returned = true
	Guard(f, func(ended *Guarded) { w.returned, w.panicked = false, ended.panicked })
}

// Guard runs f in this goroutine, which may belong to somebody who would not survive a panic. If f does not return, it
// calls failed with the ended work, for another goroutine to Wait for. A runtime.Goexit still ends this one.
func Guard(f func(), failed func(*Guarded)) {
	returned := false
	defer func() {
		if !returned {
			w := &Guarded{done: make(chan struct{}), panicked: recover()}
			close(w.done)
			failed(w)
		}
	}()
	f()
	returned = true
}

// Exited reports, when Done is closed, whether the work ended its goroutine.
func (w *Guarded) Exited() bool { return !w.returned && w.panicked == nil }

// Done is closed when the work has ended, in whatever way.
func (w *Guarded) Done() <-chan struct{} { return w.done }

// Wait waits for the work's end and ends likewise: it returns, panics with the same value, or ends this goroutine. It may
// be called more than once.
func (w *Guarded) Wait() {
	<-w.done
	switch {
	case w.returned:
	case w.panicked != nil:
		panic(w.panicked)
	default:
		runtime.Goexit()
	}
}
