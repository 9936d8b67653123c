// Package handover runs a function in another goroutine as if it ran in the one that waits for it: a panic or a
// runtime.Goexit of the function comes out there, where the caller of a library can recover it.
package handover

import "runtime"

// Task is a function under way, or ended.
type Task struct {
	done     chan struct{}
	returned bool // neither panicked nor exited
	panicked any  // the panic's value; nil with returned false: runtime.Goexit
}

// Go runs f in a goroutine of its own. Somebody has to call Wait, or a panic is lost.
func Go(f func()) *Task {
	t := &Task{done: make(chan struct{})}
	go t.run(f)
	return t
}

func (t *Task) run(f func()) {
	defer close(t.done)
	defer func() {
		if !t.returned {
			t.panicked = recover()
		}
	}()
	f()
	t.returned = true
}

// Done is closed when f has ended, however it did.
func (t *Task) Done() <-chan struct{} { return t.done }

// Wait returns when f has returned. If f panicked, Wait panics with the same value; if f called [runtime.Goexit], so does
// Wait. It may be called more than once and ends alike each time.
func (t *Task) Wait() {
	<-t.done
	switch {
	case t.returned:
	case t.panicked != nil:
		panic(t.panicked)
	default:
		runtime.Goexit()
	}
}
