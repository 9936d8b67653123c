package sending

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/handover"
)

// followedBody is the body of one attempt as net/http takes it, until stop.
type followedBody struct {
	state     *State
	announced bool // by Expect: 100-continue

	reading  sync.Mutex // held while the source is read
	head     io.Reader  // nil when it has been read
	tail     []byte
	stopped  atomic.Bool
	quit     chan struct{} // closed by stop
	taken    atomic.Int64
	before   atomic.Int64          // the latest read: these have left, as net/http reads on when it has written
	whole    atomic.Bool           // the last bytes have begun to leave
	failed   atomic.Pointer[error] // the source's own
	end      handover.End          // of the source's Read
	progress chan struct{}         // net/http has read on
	commits  chan chan error       // asks Do's goroutine to run BeforeCommit
	refused  atomic.Pointer[error] // what that said
}

// Close leaves the source to whoever owns it.
func (b *followedBody) Close() error { return nil }

func (b *followedBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.announced && b.state.waits.Load() && b.state.responded.Load() {
		// The response comes before the body was asked for: net/http would begin to send it to save the connection.
		select {
		case <-b.state.goOn:
		case <-b.quit:
		}
	}
	if b.stopped.Load() {
		return 0, errCallOver
	}
	b.before.Store(b.taken.Load())
	select {
	case b.progress <- struct{}{}:
	default:
	}
	n, err := b.next(p)
	switch taken := b.taken.Add(int64(n)); {
	case n > 0 && len(b.tail) == 0:
		// Nothing has to move until the server has worked through what is on its way.
		b.state.Watchdog.Allow(time.Since(b.state.Started) + time.Duration(min(taken, kernelBuffers))*time.Second/leastRate)
	case n > 0:
		b.state.Watchdog.Progress()
	}
	if b.stopped.Load() {
		return 0, errCallOver // asked after whole is set: Settle has seen that, or these bytes go nowhere
	}
	return n, err
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
			b.fail(err)
		}
		if n > 0 || err != nil || b.head != nil {
			return n, err
		}
	}
	if !b.whole.Load() {
		if err := b.commit(); err != nil {
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
func (b *followedBody) fail(err error) { b.failed.CompareAndSwap(nil, &err) }

// readHead reads the caller's source, in a goroutine of net/http's, where its panic could not be recovered.
func (b *followedBody) readHead(p []byte) (n int, err error) {
	returned := false
	defer func() {
		if !returned {
			err = errCallOver
			b.state.Watchdog.Cancel(errCallOver)
		}
	}()
	defer b.end.Catch(&returned)
	n, err = b.head.Read(p)
	returned = true
	return n, err
}

// commit is the fence before the last bytes: it opens when Do's goroutine says so.
func (b *followedBody) commit() error {
	if b.state.BeforeCommit == nil {
		return nil
	}
	reply := make(chan error, 1)
	select {
	case b.commits <- reply:
		return <-reply
	case <-b.quit:
		return errCallOver
	}
}

// runCommit runs BeforeCommit for a body that waits at the fence. The context's end while it runs keeps the fence shut.
func (b *followedBody) runCommit(ctx context.Context, reply chan<- error) {
	b.state.Watchdog.Pause()
	err := error(errCallOver) // also if it panics
	defer func() { reply <- err }()
	err = b.state.BeforeCommit(ctx)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		b.refused.Store(&err)
	}
	b.state.Watchdog.Progress()
}

// sourceGrace is how long stop waits for a read of the source that is under way: the caller may reuse the source
// afterwards, but a read of a pipe may block for ever.
const sourceGrace = time.Second

// stop ends the reading and reports whether nobody reads the source any more. After it reads fail, so that what was
// concluded stays true.
func (b *followedBody) stop() (free bool) {
	if b.stopped.CompareAndSwap(false, true) {
		close(b.quit)
	}
	if b.reading.TryLock() {
		b.reading.Unlock()
		return true
	}
	unlocked := make(chan struct{})
	go func() {
		b.reading.Lock()
		defer b.reading.Unlock()
		close(unlocked)
	}()
	grace := time.NewTimer(sourceGrace)
	defer grace.Stop()
	select {
	case <-unlocked:
		return true
	case <-grace.C:
		return false
	}
}
