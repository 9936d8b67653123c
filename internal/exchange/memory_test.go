package exchange

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The buffers are the process's, so that these tests do not run beside each other.

func TestBuffersComeBack(t *testing.T) { //nolint:paralleltest // see above
	empty()
	b := getBuffer()
	putBuffer(b)
	assert.Same(t, b, getBuffer())
}

func TestLargeBuffersAreNotKept(t *testing.T) { //nolint:paralleltest // see above
	for size, kept := range map[int]bool{1: true, 2 << 20: true, 2<<20 + 1: false} {
		empty()
		b := bytes.NewBuffer(make([]byte, 0, size))
		putBuffer(b)
		assert.Equal(t, kept, getBuffer() == b, size)
	}
}

// kept gives many buffers back, lets something happen, and returns how many of them come again.
func kept(meanwhile func()) (count int) {
	const many = 64
	empty()
	given := map[*bytes.Buffer]bool{}
	for range many {
		b := bytes.NewBuffer(make([]byte, 0, 10))
		given[b] = true
		putBuffer(b)
	}
	meanwhile()
	for range many {
		if given[getBuffer()] {
			count++
		}
	}
	return count
}

func TestManyBuffersAreKeptForManyCallsAtOnce(t *testing.T) { //nolint:paralleltest // see above
	assert.Greater(t, kept(func() {}), 32, "all of them, but for what the race detector makes a pool forget")
}

func TestFewBuffersAreKeptForGood(t *testing.T) { //nolint:paralleltest // see above
	assert.Equal(t, 4, kept(func() {
		runtime.GC()
		runtime.GC()
	}))
}

// empty takes what earlier tests have left.
func empty() {
	runtime.GC()
	runtime.GC()
	for range 20 {
		getBuffer()
	}
}

// Who releases twice must not give a buffer to two others.
func TestABufferHasOneOwner(t *testing.T) { //nolint:paralleltest // see above
	empty()
	m := memory{buffer: new(bytes.Buffer)}
	m.release()
	m.release()
	first, second := getBuffer(), getBuffer()
	assert.NotSame(t, first, second)
}
