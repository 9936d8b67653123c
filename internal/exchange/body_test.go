package exchange

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The buffers are the process's, so that these tests do not run beside each other.

func TestLargeBuffersAreNotKept(t *testing.T) { //nolint:paralleltest // see above
	for size, kept := range map[int]bool{1: true, 2 << 20: true, 2<<20 + 1: false} {
		returned := false
		for range 20 { // the race detector makes a pool forget
			empty()
			r := Result{buffer: bytes.NewBuffer(make([]byte, 0, size))}
			b := r.buffer
			r.Release()
			returned = returned || buffers.Get() == b
		}
		assert.Equal(t, kept, returned, size)
	}
}

// empty makes the pool forget what earlier tests have left.
func empty() {
	runtime.GC()
	runtime.GC()
}

func TestBytesWithholdTheirLast(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{`{"a":1}`: {`{"a":1`, `}`}, `1`: {"", "1"}, "": {"", ""}} {
		head, tail := (&Body{Bytes: []byte(text)}).open()
		read, err := io.ReadAll(head)
		require.NoError(t, err)
		assert.Equal(t, want, [2]string{string(read), string(tail)})
	}
}

// Who releases twice must not give a buffer to two others.
func TestABufferHasOneOwner(t *testing.T) { //nolint:paralleltest // see above
	for range 20 {
		empty()
		r := Result{buffer: new(bytes.Buffer)}
		r.Release()
		r.Release()
		first, second := buffers.Get(), buffers.Get()
		assert.NotSame(t, first, second)
	}
}
