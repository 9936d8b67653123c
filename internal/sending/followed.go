package sending

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	kernelBuffers = 4 << 20 // what may have left us and not arrived
	leastRate     = 64 << 10
)

// followedBody is the body of one attempt as net/http takes it, until stop.
type followedBody struct {
	state     *State
	announced bool // by Expect: 100-continue

	reading sync.Mutex // held while the source is read
	head    io.Reader  // nil when it has been read
	tail    []byte
	begun   time.Time // when the first byte was asked for
	stopped atomic.Bool
	quit    chan struct{} // closed by stop
	taken   atomic.Int64
	before  atomic.Int64 // the latest read: these have left, as net/http reads on when it has written
	whole   atomic.Bool  // the last bytes have begun to leave
}

// Close leaves the source to whoever owns it.
func (b *followedBody) Close() error { return nil }

func (b *followedBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.begun.IsZero() {
		b.awaitContinue()
		b.begun = time.Now()
	}
	if b.stopped.Load() {
		return 0, errCallOver
	}
	b.before.Store(b.taken.Load())
	select {
	case b.state.progress <- struct{}{}:
	default:
	}
	n, err := b.next(p)
	switch taken := b.taken.Add(int64(n)); {
	case n > 0 && len(b.tail) == 0:
		// Nothing has to move until the server has worked through what is on its way.
		sending := time.Since(b.begun) - time.Duration(b.state.held.Load())
		b.state.Watchdog.Allow(sending + time.Duration(min(taken, kernelBuffers))*time.Second/leastRate)
	case n > 0:
		b.state.Watchdog.Progress()
	}
	if b.stopped.Load() {
		return 0, errCallOver // asked after whole is set: Settle has seen that, or these bytes go nowhere
	}
	return n, err
}

// awaitContinue holds back a body whose response came before it was asked for: net/http would begin to send it to save the
// connection.
func (b *followedBody) awaitContinue() {
	if b.announced && b.state.waits.Load() && b.state.responded.Load() {
		select {
		case <-b.state.goOn:
		case <-b.quit:
		}
	}
}

// left is how many bytes have left.
func (b *followedBody) left() int64 {
	if b.whole.Load() {
		return b.taken.Load()
	}
	return b.before.Load()
}

func (b *followedBody) next(p []byte) (int, error) {
	if b.head != nil {
		n, err := b.readHead(p)
		switch {
		case errors.Is(err, io.EOF):
			b.head, err = nil, nil
		case err != nil:
			b.state.fail(err)
		}
		if n > 0 || err != nil || b.head != nil {
			return n, err
		}
	}
	if !b.whole.Load() {
		if err := b.state.commit(b.quit); err != nil {
			return 0, err
		}
		b.whole.Store(true)
	}
	if len(b.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.tail)
	b.tail = b.tail[n:]
	return n, nil
}

// fail keeps the source's error. A function of its own, or every read would pay for it with an allocation.
func (s *State) fail(err error) { s.failed.CompareAndSwap(nil, &err) }

// readHead reads the caller's source, in a goroutine of net/http's, where its panic could not be recovered.
func (b *followedBody) readHead(p []byte) (n int, err error) {
	returned := false
	defer func() {
		if !returned {
			err = errCallOver
			b.state.Watchdog.Cancel(errCallOver)
		}
	}()
	defer b.state.source.Catch(&returned)
	n, err = b.head.Read(p)
	returned = true
	return n, err
}

// grace is how long the end of an attempt waits for what is under way: the caller may reuse the source afterwards, but a
// read of a pipe may block for ever.
const grace = time.Second

// stop ends the reading and reports whether nobody reads the source any more. After it reads fail, so that what was
// concluded stays true. Only the first call waits.
func (b *followedBody) stop() (free bool) {
	if b.stopped.CompareAndSwap(false, true) {
		close(b.quit)
	} else {
		return b.free()
	}
	if b.free() {
		return true
	}
	unlocked := make(chan struct{})
	go func() {
		b.reading.Lock()
		defer b.reading.Unlock()
		close(unlocked)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-unlocked:
		return true
	case <-timer.C:
		return false
	}
}

func (b *followedBody) free() bool {
	free := b.reading.TryLock()
	if free {
		b.reading.Unlock()
	}
	return free
}
