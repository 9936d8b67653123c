package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	kernelBuffers = 4 << 20 // what may have left us and not arrived
	leastRate     = 64 << 10

	stopTimeout   = time.Second // for a read that is under way when an attempt ends: a pipe may block for ever
	responseGrace = time.Second // for which an announced body is held back whose response came first
)

// followedBody is the body of one attempt as net/http takes it, until stop.
type followedBody struct {
	state     *SendState
	announced bool // by Expect: 100-continue

	reading chan struct{} // full while the source is read
	head    io.Reader     // nil when it has been read
	tail    []byte
	begun   time.Time     // when the first byte was asked for, without the time at the fence
	stopped atomic.Bool   // Do: the attempt is over; it gives no more
	quit    chan struct{} // closed by stop
	taken   atomic.Int64
	before  atomic.Int64 // the latest read: these have left, as net/http reads on when it has written
	whole   atomic.Bool  // before the last bytes begin to leave; Conclude, getConn
}

// Close leaves the source to whoever owns it.
func (b *followedBody) Close() error { return nil }

func (b *followedBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if b.begun.IsZero() && b.state.ignored.Load() == counts {
		if err := b.awaitContinue(); err != nil {
			return 0, err
		}
		b.begun = time.Now()
	}
	switch {
	case b.stopped.Load():
		return 0, errCallOver
	case b.state.ignored.Load() == skipped:
		return 0, errSkipped
	}
	b.before.Store(b.taken.Load())
	select {
	case b.state.progress <- struct{}{}:
	default:
	}
	n, err := b.next(p)
	taken := b.taken.Add(int64(n))
	if n > 0 {
		b.progressed(taken)
	}
	if b.stopped.Load() {
		return 0, errCallOver // asked after whole is set: Conclude has seen that, or these bytes go nowhere
	}
	return n, err
}

// progressed reports to the watchdog that so many bytes were taken. After the last ones, no data has to be transferred
// until the server has processed what is on its way.
func (b *followedBody) progressed(taken int64) {
	if len(b.tail) > 0 {
		b.state.Watchdog.Progress()
		return
	}
	onItsWay := time.Duration(min(taken, kernelBuffers)) * time.Second / leastRate
	b.state.Watchdog.Allow(time.Since(b.begun) + onItsWay)
}

// hasBegun reports whether bytes of the body have left. A body that is not followed leaves with the headers.
func (b *followedBody) hasBegun() bool {
	if b == nil {
		return true
	}
	return b.taken.Load() > 0 || b.whole.Load()
}

// awaitContinue holds back a body whose response came before it was asked for: net/http would begin to send it to save
// the connection. A transport of the caller's may return the response only when it has seen the end of the body.
func (b *followedBody) awaitContinue() error {
	if !b.announced || !b.state.waits.Load() {
		return nil
	}
	if !b.state.responded.Load() {
		return nil
	}
	select {
	case <-b.state.goOn:
		return nil
	case <-b.quit:
	case <-time.After(responseGrace):
	}
	return errCallOver
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
			b.head = nil
			err = nil
		case err != nil:
			b.state.fail(err)
		}
		if n > 0 || err != nil || b.head != nil {
			return n, err
		}
	}
	if !b.whole.Load() {
		stopped := time.Now()
		if err := b.state.commit(b.quit); err != nil {
			return 0, err
		}
		b.whole.Store(true)
		b.begun = b.begun.Add(time.Since(stopped))
	}
	if len(b.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.tail)
	b.tail = b.tail[n:]
	return n, nil
}

// fail keeps the source's error. A function of its own, or every read would pay for it with an allocation.
func (s *SendState) fail(err error) { s.failed.CompareAndSwap(nil, &err) }

// readHead reads from the caller's reader. If that panics or calls runtime.Goexit, readHead ends the attempt and keeps
// what happened: SendStreamed repeats it in the caller's goroutine. Nobody could recover a panic in net/http's.
func (b *followedBody) readHead(p []byte) (n int, err error) {
	var work Guarded
	defer func() {
		if work.returned {
			return
		}
		b.state.exited.Store(new(work))
		calledGoexit := work.panicked == nil
		if calledGoexit {
			b.state.hangUp() // net/http's goroutine ends here, and nobody else would end the request
		}
		b.state.Watchdog.cancel(errCallOver)
		b.head = nil
		n = 0
		err = errCallOver
	}()
	work.run(func() { n, err = b.head.Read(p) })
	return n, err
}

// stop ends the reading and reports whether nobody reads the source any more: what was concluded stays true. Only the
// first call waits.
func (b *followedBody) stop() (free bool) {
	first := b.stopped.CompareAndSwap(false, true)
	if first {
		close(b.quit)
	}
	select {
	case b.reading <- struct{}{}:
	default:
		if !first {
			return false
		}
		select {
		case b.reading <- struct{}{}:
		case <-time.After(stopTimeout):
			return false
		}
	}
	<-b.reading
	return true
}

// SendStreamed runs deliver, which sends a followed body, in its own goroutine, because the source of the body may
// block. The calling goroutine can still end with the context, and run the caller's callbacks.
func (s *SendState) SendStreamed(
	ctx context.Context, progress func(sent int64), deliver func() (*http.Response, error),
) (*http.Response, error) {
	if progress == nil {
		progress = func(int64) {}
		s.progress = nil // waking this goroutine at each read would cost a tenth of an upload's CPU time
	}
	var resp *http.Response
	var err error
	work := GoGuarded(func() { resp, err = deliver() }) //nolint:bodyclose // the caller does, or abandon
	returned := false
	defer func() {
		if !returned { // the context ended, or something of the caller's panicked
			s.abandon(work, &resp)
		}
	}()
	delivered := s.untilDelivered(ctx, progress, work.Done())
	if source := s.exited.Load(); source != nil {
		source.Wait()
	}
	if !delivered {
		return nil, context.Cause(ctx)
	}
	work.Wait()
	if refused := s.refused.Load(); refused != nil && err == nil && resp.StatusCode/100 != 2 {
		return nil, *refused // whatever the server thought of a part of the request
	}
	returned = true
	return resp, err
}

// abandon lets the work end by itself, with the context of the attempt.
func (s *SendState) abandon(work *Guarded, resp **http.Response) {
	s.Stop()
	go func() {
		<-work.Done()
		if *resp != nil {
			_ = (*resp).Body.Close()
		}
	}()
}

// untilDelivered runs the caller's callbacks until the request is delivered, and reports whether it was.
func (s *SendState) untilDelivered(ctx context.Context, progress func(sent int64), delivered <-chan struct{}) bool {
	progress(0) // also where the request is on its way already
	for {
		select {
		case <-delivered:
			progress(s.body.Load().left())
			return true
		case <-s.progress:
			progress(s.body.Load().left())
		case reply := <-s.commits:
			s.runCommit(ctx, reply)
		case <-ctx.Done():
			if !s.body.Load().stop() {
				return false
			}
			select {
			case <-delivered:
				return true
			case <-time.After(stopTimeout):
				return false
			}
		}
	}
}

// commit is called before the last bytes are sent. It asks the goroutine of Do to run BeforeCommit, and waits for the
// result. It returns an error if the bytes must not be sent.
func (s *SendState) commit(quit <-chan struct{}) error {
	if s.BeforeCommit == nil {
		return nil
	}
	reply := make(chan error, 1)
	select {
	case s.commits <- reply:
		return <-reply
	case <-quit:
		return errCallOver
	}
}

// runCommit runs BeforeCommit for a body that waits at the fence. The context's end before or while it runs keeps the
// fence shut, and so does an earlier refusal.
func (s *SendState) runCommit(ctx context.Context, reply chan<- error) {
	err := error(errCallOver) // also if it panics
	defer func() { reply <- err }()
	if ctx.Err() != nil || s.refused.Load() != nil {
		return
	}
	s.Watchdog.Pause()
	refusal := s.BeforeCommit(ctx)
	s.Watchdog.Progress()
	switch {
	case refusal != nil:
		s.refused.Store(&refusal)
	case ctx.Err() == nil:
		err = nil
	}
}
