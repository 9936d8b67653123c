//nolint:bodyclose // the responses are made here and have nothing to close
package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fenced is the state of an upload that runs beforeCommit before its last bytes are sent, if it is not nil.
func fenced(t *testing.T, beforeCommit func(context.Context) error) *SendState {
	t.Helper()
	s := &SendState{BeforeCommit: beforeCommit}
	s.Watchdog.Guard(t.Context(), time.Minute)
	t.Cleanup(s.Watchdog.Stop)
	return s
}

func (s *SendState) runCommitNow(ctx context.Context) error {
	reply := make(chan error, 1)
	s.runCommit(ctx, reply)
	return <-reply
}

func TestRunCommit_ContextEnded_Refuses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := fenced(t, func(context.Context) error { cancel(); return nil })
	require.ErrorIs(t, s.runCommitNow(ctx), errCallOver, "it ended while BeforeCommit ran")
	s = fenced(t, func(context.Context) error { t.Error("nobody wants to know"); return nil })
	require.ErrorIs(t, s.runCommitNow(ctx), errCallOver)
	s = fenced(t, func(context.Context) error { return nil })
	require.NoError(t, s.runCommitNow(t.Context()))
}

// A body that waits for BeforeCommit when the call ends is released, and so is the connection that reads it.
func TestStop_BodyWaitsForCommit_IsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fenced(t, func(context.Context) error { return nil })
		body := s.Follow(
			&Body{Size: -1, Open: func() (io.Reader, []byte) { return strings.NewReader(""), []byte("end") }}, false,
		)
		read := make(chan error)
		go func() {
			_, err := body.Read(make([]byte, 10))
			read <- err
		}()
		synctest.Wait()
		s.Stop()
		require.ErrorIs(t, <-read, errCallOver)
	})
}

func TestRunCommit_RefusedBefore_IsNotCalledAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	refusal := errors.New("synthetic")
	s := fenced(t, func(context.Context) error { asked++; return refusal })
	for range 2 { // a transport may begin anew
		require.ErrorIs(t, s.runCommitNow(t.Context()), errCallOver)
	}
	assert.Equal(t, 1, asked)
	assert.ErrorIs(t, *s.commitRefusal.Load(), refusal)
}

// An error of the reader that provides the body is recorded as a failure of the body, and not as a refusal by
// BeforeCommit.
func TestSendState_ErrorOfTheSource_IsNotARefusal(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	s := fenced(t, nil)
	source := io.MultiReader(strings.NewReader("he"), iotest.ErrReader(failure))
	body := s.Follow(&Body{Size: -1, Open: func() (io.Reader, []byte) { return source, []byte("end") }}, false)
	_, err := io.ReadAll(body)
	require.ErrorIs(t, err, failure)
	assert.Equal(t, failure, *s.sourceErr.Load())
	assert.Nil(t, s.commitRefusal.Load())
}

// net/http would panic because of the count, in a goroutine of its own.
func TestSendState_WrongCountOfTheSource_IsAnError(t *testing.T) {
	t.Parallel()
	for _, count := range []int{-1, 11} {
		s := fenced(t, nil)
		source := readerFunc(func([]byte) (int, error) { return count, nil })
		body := s.Follow(&Body{Size: -1, Open: func() (io.Reader, []byte) { return source, []byte("end") }}, false)
		n, err := body.Read(make([]byte, 10))
		assert.Zero(t, n)
		require.ErrorIs(t, err, errWrongCount)
		assert.Equal(t, error(errWrongCount), *s.sourceErr.Load())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type closing struct {
	io.Reader
	closed chan struct{}
}

func (c closing) Close() error { close(c.closed); return nil }

func TestAbandon_LateResponse_IsClosed(t *testing.T) {
	t.Parallel()
	s := fenced(t, nil)
	var resp *http.Response
	late, closed := make(chan struct{}), make(chan struct{})
	work := GoGuarded(func() {
		<-late
		resp = &http.Response{Body: closing{strings.NewReader(""), closed}}
	})
	s.abandon(work, &resp)
	close(late)
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("it is still open")
	}
}

// The first reported progress is 0, even if bytes were sent before the caller's goroutine could report anything.
func TestUntilDelivered_Progress_BeginsAtZero(t *testing.T) {
	t.Parallel()
	s := new(SendState)
	body := &followedBody{}
	body.takenBefore.Store(7)
	s.body.Store(body)
	delivered := make(chan struct{})
	close(delivered)
	var reports []int64
	assert.True(t, s.untilDelivered(t.Context(), func(sent int64) { reports = append(reports, sent) }, delivered))
	assert.Equal(t, []int64{0, 7}, reports)
}

// bodyOf is a body of unknown size that the head begins, and "end" ends.
func bodyOf(head io.Reader) *Body {
	return &Body{Size: -1, Open: func() (io.Reader, []byte) { return head, []byte("end") }}
}

// Some readers return their last bytes together with the end, or no bytes for a while.
func TestFollowedBody_AnyReader_IsReadCompletely(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]io.Reader{
		"the end with the data": iotest.DataErrReader(strings.NewReader("head")),
		"byte by byte":          iotest.OneByteReader(strings.NewReader("head")),
		"nothing in between":    &hesitant{from: strings.NewReader("head")},
	} {
		got, err := io.ReadAll(fenced(t, nil).Follow(bodyOf(head), false))
		require.NoError(t, err, name)
		assert.Equal(t, "headend", string(got), name)
	}
}

// hesitant returns no bytes at every other read.
type hesitant struct {
	from    io.Reader
	hasByte bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	h.hasByte = !h.hasByte
	if !h.hasByte {
		return 0, nil
	}
	return h.from.Read(p[:1])
}

// slowReader takes some time for each read.
type slowReader struct {
	io.Reader
	takes time.Duration
}

func (s slowReader) Read(p []byte) (int, error) {
	time.Sleep(s.takes)
	return s.Reader.Read(p)
}

// The stall timeout is a minute. After the last bytes, the server gets as long as the upload took, and the time that
// the bytes on their way need.
func TestFollowedBody_Progress_RestartsTheStallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := func(head io.Reader) (reading, waiting time.Duration) {
			s := fenced(t, nil)
			body := s.Follow(bodyOf(head), false)
			start := time.Now()
			buffer := make([]byte, 3*leastRate)
			for s.Watchdog.Err() == nil {
				if _, err := body.Read(buffer); err != nil {
					break
				}
			}
			reading = time.Since(start)
			<-s.Watchdog.ctx.Done()
			return reading, time.Since(start) - reading
		}
		const takes = 50 * time.Second
		large := strings.NewReader(strings.Repeat("x", 7*leastRate-len("end"))) // in three reads, and then its end
		reading, waiting := ended(slowReader{large, takes})
		assert.Equal(t, 4*takes, reading)
		assert.Equal(t, time.Minute+4*takes+7*time.Second, waiting)

		reading, _ = ended(slowReader{never{}, takes})
		assert.Equal(t, 2*takes, reading, "no bytes are no progress")
	})
}

// never returns no bytes.
type never struct{}

func (never) Read([]byte) (int, error) { return 0, nil }

// A response to a part of the request says nothing that the refusal does not. A success means that the server has all.
func TestSendStreamed_CommitRefused_ReturnsTheRefusalUnlessTheServerAccepted(t *testing.T) {
	t.Parallel()
	refusal := errors.New("synthetic refusal")
	lost := errors.New("synthetic loss")
	for name, tc := range map[string]struct {
		refusal error
		status  int
		err     error // of the transport
		want    error
	}{
		"refused, and rejected by the server": {refusal, http.StatusUnprocessableEntity, nil, refusal},
		"refused, but accepted by the server": {refusal, http.StatusCreated, nil, nil},
		"refused, and lost":                   {refusal, 0, lost, lost},
		"only rejected by the server":         {nil, http.StatusUnprocessableEntity, nil, nil},
	} {
		s := fenced(t, nil)
		s.Follow(bodyOf(strings.NewReader("head")), false)
		if tc.refusal != nil {
			s.commitRefusal.Store(&tc.refusal)
		}
		resp, err := s.SendStreamed(t.Context(), nil, func() (*http.Response, error) {
			if tc.err != nil {
				return nil, tc.err
			}
			return responds(tc.status, ""), nil
		})
		require.ErrorIs(t, err, tc.want, name)
		assert.Equal(t, err == nil, resp != nil, name)
	}
}

// net/http's goroutine ends with a source that calls runtime.Goexit, so nobody else would close the connection.
func TestReadHead_SourceExits_ClosesTheConnection(t *testing.T) {
	t.Parallel()
	s := fenced(t, nil)
	closed := false
	s.conn.Store(new(net.Conn(hungUp{closed: &closed})))
	body := s.Follow(bodyOf(exiting{}), false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = body.Read(make([]byte, 1))
	}()
	<-done
	assert.True(t, closed)
}

// exiting ends the goroutine that reads it.
type exiting struct{}

func (exiting) Read([]byte) (int, error) {
	runtime.Goexit()
	return 0, nil
}
