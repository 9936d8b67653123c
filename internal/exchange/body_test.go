package exchange

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All tests share the buffers of the process, so these tests do not run in parallel.

func TestRelease_LargeBuffer_IsNotKept(t *testing.T) { //nolint:paralleltest // see above
	for size, kept := range map[int]int{1: 1, 2 << 20: 1, 2<<20 + 1: 0} {
		emptyBuffers()
		r := Result{Last: new(Attempt), buffer: bytes.NewBuffer(make([]byte, 0, size))}
		r.Release()
		assert.Len(t, buffers, kept, size)
	}
}

func TestRelease_ManyBuffers_KeepsFew(t *testing.T) { //nolint:paralleltest // see above
	emptyBuffers()
	for range 100 {
		r := Result{Last: new(Attempt), buffer: new(bytes.Buffer)}
		r.Release()
	}
	assert.Len(t, buffers, 8)
}

// emptyBuffers removes the buffers that earlier tests have released.
func emptyBuffers() {
	for len(buffers) > 0 {
		<-buffers
	}
}

func TestBodyOpen_Bytes_LastByteIsTheTail(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{`{"a":1}`: {`{"a":1`, `}`}, `1`: {"", "1"}, "": {"", ""}} {
		head, tail := (&Body{Bytes: []byte(text)}).open()
		read, err := io.ReadAll(head)
		require.NoError(t, err)
		assert.Equal(t, want, [2]string{string(read), string(tail)})
	}
}

// Two concurrent calls must not each read a part of one recording.
func TestOnceReader_SecondReader_GetsTheError(t *testing.T) {
	t.Parallel()
	var begun atomic.Bool
	from, other := bytes.NewReader([]byte("ab")), errors.New("another reads it")
	first := &OnceReader{From: from, Begun: &begun, Otherwise: other}
	second := &OnceReader{From: from, Begun: &begun, Otherwise: other}
	for _, want := range []string{"a", "b"} {
		one := make([]byte, 1)
		_, err := first.Read(one)
		require.NoError(t, err)
		assert.Equal(t, want, string(one))
		n, err := second.Read(one)
		require.ErrorIs(t, err, other)
		assert.Zero(t, n)
	}
}

// A result that is released twice returns its buffer once. Otherwise two later results would share it.
func TestRelease_Twice_ReturnsTheBufferOnce(t *testing.T) { //nolint:paralleltest // see above
	emptyBuffers()
	r := Result{Last: new(Attempt), buffer: new(bytes.Buffer)}
	r.Release()
	r.Release()
	assert.Len(t, buffers, 1)
}

// A copy of a stream is followed, and one of bytes is not.
func TestConclude_CopyIsNotRead_OnlyAStreamIsKnownToBeIncomplete(t *testing.T) {
	t.Parallel()
	stream := &Body{Size: 2, Open: func() (io.Reader, []byte) { return bytes.NewReader([]byte("a")), []byte("b") }}
	for want, body := range map[Sent]*Body{Partly: stream, Wholly: {Bytes: make([]byte, SmallSize+1)}} {
		state, request := new(SendState), &http.Request{Header: http.Header{}}
		state.Watchdog.Guard(t.Context(), time.Minute)
		state.Attach(request, body, true)
		copied, err := request.GetBody()
		require.NoError(t, err)
		assert.Equal(t, want, state.Conclude(errors.New("synthetic")))
		require.NoError(t, copied.Close())
		state.Watchdog.Stop()
	}
}

// A transport may send a copy from GetBody and never read the body itself, so the server may have all of it.
func TestConclude_CopyOfABody_MayBeComplete(t *testing.T) {
	t.Parallel()
	state, request := new(SendState), &http.Request{Header: http.Header{}}
	state.Watchdog.Guard(t.Context(), time.Minute)
	defer state.Watchdog.Stop()
	state.Attach(request, &Body{Bytes: make([]byte, SmallSize+1)}, true)
	copied, err := request.GetBody()
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, copied)
	require.NoError(t, err)
	assert.EqualValues(t, SmallSize+1, n)
	assert.Equal(t, Wholly, state.Conclude(errors.New("synthetic")))
}

// A create that was written to a retired connection is sent on another one, unless it may have been sent twice.
func TestSkipped_RetiredConnection_OnlyForACreate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ sendOnce, repeated, want bool }{
		{true, false, true}, {true, true, false}, {false, false, false},
	} {
		state := &SendState{SendOnce: tc.sendOnce}
		state.repeated.Store(tc.repeated)
		assert.Equal(t, tc.want, state.Skipped(errRetired), "%+v", tc)
		assert.False(t, state.Skipped(errors.New("synthetic")), "%+v", tc)
	}
}
