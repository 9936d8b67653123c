package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	kernelBuffers = 4 << 20  // bytes that may have been written and not arrived
	leastRate     = 64 << 10 // bytes a second at which they are expected to arrive

	stopTimeout   = time.Second // for a read that is under way when an attempt ends: a pipe may block forever
	responseGrace = time.Second // how long an announced body is held back if its response comes first
)

// followedBody is the body that net/http reads in one attempt. It records how much of it was read, and ends at stop.
type followedBody struct {
	state     *SendState
	announced bool // by Expect: 100-continue

	readLock    chan struct{} // full while the source is read
	head        io.Reader     // nil when it has been read
	tail        []byte        // not yet read
	beganAt     time.Time     // when the first byte was read, moved by the time that BeforeCommit took
	stopped     atomic.Bool   // Do: the attempt is over, and every read fails
	quit        chan struct{} // closed by stop
	bytesTaken  atomic.Int64  // bytes that net/http has read
	takenBefore atomic.Int64  // those of the reads before the latest, which net/http has probably written by now

	mayBeComplete atomic.Bool // set before the last bytes can be sent; Conclude, getConn
}

// Close does nothing: the source belongs to the caller.
func (b *followedBody) Close() error { return nil }

// Read implements [io.Reader]. It fails once the attempt is over, and on a connection that was skipped.
func (b *followedBody) Read(p []byte) (int, error) {
	b.readLock <- struct{}{}
	defer func() { <-b.readLock }()
	isFirstRead := b.beganAt.IsZero() // of those for a connection that carries the request
	if isFirstRead && b.state.connKind.Load() == usable {
		if err := b.awaitContinue(); err != nil {
			return 0, err
		}
		b.beganAt = time.Now()
	}
	switch {
	case b.stopped.Load():
		return 0, errCallOver
	case b.state.connKind.Load() == skipped:
		return 0, errSkipped
	}
	b.takenBefore.Store(b.bytesTaken.Load())
	select {
	case b.state.progress <- struct{}{}:
	default: // SendStreamed has not received the previous one yet
	}
	n, err := b.next(p)
	taken := b.bytesTaken.Add(int64(n))
	if n > 0 {
		b.progressed(taken)
	}
	if b.stopped.Load() {
		return 0, errCallOver // Conclude may not have seen that mayBeComplete was set, so these bytes are not sent
	}
	return n, err
}

// progressed reports to the watchdog that so many bytes were read. After the last ones it allows more time: as long as
// the body took so far, and what the bytes on their way need. Nothing more is read until the server responds.
func (b *followedBody) progressed(taken int64) {
	if len(b.tail) > 0 {
		b.state.Watchdog.Progress()
		return
	}
	onItsWay := time.Duration(min(taken, kernelBuffers)) * time.Second / leastRate
	b.state.Watchdog.Allow(time.Since(b.beganAt) + onItsWay)
}

// wasRead reports whether bytes of the body may have been sent. A nil body is not followed: it is sent with the
// headers.
func (b *followedBody) wasRead() bool {
	if b == nil {
		return true
	}
	return b.bytesTaken.Load() > 0 || b.mayBeComplete.Load()
}

// awaitContinue holds back an announced body if the response came before the server asked for the body: net/http would
// begin to send it to save the connection. It returns nil if the body may be sent. It gives up after a while, because a
// transport of the caller may return the response only when it has seen the end of the body.
func (b *followedBody) awaitContinue() error {
	if !b.announced || !b.state.awaitsContinue.Load() {
		return nil
	}
	if !b.state.responded.Load() {
		return nil
	}
	select {
	case <-b.state.bodyWanted:
		return nil
	case <-b.quit:
	case <-time.After(responseGrace):
	}
	return errCallOver
}

// bytesWritten returns how many bytes were written to the connection, as far as is known.
func (b *followedBody) bytesWritten() int64 {
	if b.mayBeComplete.Load() {
		return b.bytesTaken.Load()
	}
	return b.takenBefore.Load()
}

// next reads from the head, and after its end from the tail. Before the first read from the tail it waits for
// BeforeCommit.
func (b *followedBody) next(p []byte) (int, error) {
	if b.head != nil {
		n, err := b.nextOfHead(p)
		isHeadRead := b.head == nil && n == 0
		if err != nil || !isHeadRead {
			return n, err
		}
	}
	isCommitted := b.mayBeComplete.Load()
	if !isCommitted {
		asked := time.Now()
		if err := b.state.commit(b.quit); err != nil {
			return 0, err
		}
		b.mayBeComplete.Store(true)
		b.beganAt = b.beganAt.Add(time.Since(asked)) // the time of BeforeCommit is not the upload's
	}
	if len(b.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.tail)
	b.tail = b.tail[n:]
	return n, nil
}

// nextOfHead reads from the head and keeps the source's error. At the end of the head it sets head to nil and returns
// no error.
func (b *followedBody) nextOfHead(p []byte) (int, error) {
	n, err := b.readHead(p)
	if errors.Is(err, io.EOF) {
		b.head = nil
		return n, nil
	}
	if err != nil {
		b.state.keepSourceErr(err)
	}
	return n, err
}

// keepSourceErr keeps the source's error. It is a separate function, because otherwise every read would allocate.
func (s *SendState) keepSourceErr(err error) { s.sourceErr.CompareAndSwap(nil, &err) }

// readHead reads from the caller's reader, in a goroutine of net/http, where nobody could recover a panic. If the
// reader panics or calls runtime.Goexit, readHead ends the attempt and stores this in sourceExit. SendStreamed then
// panics or calls Goexit in the caller's goroutine.
func (b *followedBody) readHead(p []byte) (n int, err error) {
	var work Guarded
	defer func() {
		if work.returned {
			return
		}
		b.state.sourceExit.Store(new(work)) // a copy
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
	isCount := n >= 0 && n <= len(p)
	if !isCount {
		return 0, errWrongCount
	}
	return n, err
}

// errWrongCount is the error of a source that breaks the rules of [io.Reader]. In a goroutine of net/http, its count
// would cause a panic that nobody could recover.
const errWrongCount = redact.Text("its reader returned a negative count, or more bytes than were asked for")

// stop makes further reads fail and reports whether no read of the source is under way. Then the source is not used any
// more, and mayBeComplete does not change. The first call waits for a read that is under way, up to stopTimeout.
func (b *followedBody) stop() (isSourceIdle bool) {
	isFirst := b.stopped.CompareAndSwap(false, true)
	if isFirst {
		close(b.quit)
	}
	select {
	case b.readLock <- struct{}{}: // no read is under way
		<-b.readLock
		return true
	default:
	}
	if !isFirst {
		return false
	}
	select {
	case b.readLock <- struct{}{}:
		<-b.readLock
		return true
	case <-time.After(stopTimeout):
		return false
	}
}

// SendStreamed runs deliver, which sends a followed body, in its own goroutine, because the source of the body may
// block. Meanwhile the calling goroutine runs the caller's callbacks, and returns when the context ends.
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
	isHandedOver := false
	defer func() {
		if !isHandedOver { // the context ended, or a function of the caller panicked
			s.abandon(work, &resp)
		}
	}()
	delivered := s.untilDelivered(ctx, progress, work.Done())
	if source := s.sourceExit.Load(); source != nil {
		source.Wait() // panics, or ends this goroutine, as the source did
	}
	if !delivered {
		return nil, context.Cause(ctx)
	}
	work.Wait()
	commitRefusal := s.commitRefusal.Load()
	isRejected := err == nil && resp.StatusCode/100 != 2
	if commitRefusal != nil && isRejected {
		return nil, *commitRefusal // the server only responded to a part of the request
	}
	isHandedOver = true
	return resp, err
}

// abandon stops the body and lets the work end with the context of the attempt. A response that still comes is closed.
func (s *SendState) abandon(work *Guarded, resp **http.Response) {
	s.Stop()
	go func() {
		<-work.Done()
		if *resp != nil {
			_ = (*resp).Body.Close()
		}
	}()
}

// untilDelivered runs the caller's callbacks until the request is delivered. It returns false if the context ended
// before that. After the end of the context it waits a little for a delivery that is not blocked by the source.
func (s *SendState) untilDelivered(ctx context.Context, progress func(sent int64), delivered <-chan struct{}) bool {
	progress(0) // even if bytes have been sent by now
	for {
		select {
		case <-delivered:
			progress(s.body.Load().bytesWritten())
			return true
		case <-s.progress:
			progress(s.body.Load().bytesWritten())
		case reply := <-s.commitRequests:
			s.runCommit(ctx, reply)
		case <-ctx.Done():
			isSourceIdle := s.body.Load().stop()
			if !isSourceIdle {
				return false
			}
			select {
			case <-delivered: // the context has ended, so there is no last call of progress
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
	case s.commitRequests <- reply:
		return <-reply
	case <-quit:
		return errCallOver
	}
}

// runCommit runs BeforeCommit for a body that waits in commit, and replies nil if the last bytes may be sent. They may
// not be sent if the context ends before or while it runs, or if BeforeCommit has refused before.
func (s *SendState) runCommit(ctx context.Context, reply chan<- error) {
	err := error(errCallOver) // also if it panics
	defer func() { reply <- err }()
	if ctx.Err() != nil || s.commitRefusal.Load() != nil {
		return
	}
	s.Watchdog.Pause()
	refusal := s.BeforeCommit(ctx)
	s.Watchdog.Progress()
	switch {
	case refusal != nil:
		s.commitRefusal.Store(&refusal)
	case ctx.Err() == nil:
		err = nil
	}
}
