package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// Bytes may have left before the caller's goroutine comes to report any.
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
