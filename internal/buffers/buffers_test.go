package buffers_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/buffers"
)

// The buffers are the process's, so that these tests do not run beside each other.

func TestBuffersComeBackEmpty(t *testing.T) { //nolint:paralleltest // see above
	empty()
	b := buffers.Take()
	b.WriteString("a synthetic response")
	buffers.GiveBack(b)
	again := buffers.Take()
	assert.Same(t, b, again)
	assert.Zero(t, again.Len())
}

func TestLargeBuffersAreNotKept(t *testing.T) { //nolint:paralleltest // see above
	for size, kept := range map[int]bool{1: true, 2 << 20: true, 2<<20 + 1: false} {
		empty()
		b := bytes.NewBuffer(make([]byte, 0, size))
		buffers.GiveBack(b)
		assert.Equal(t, kept, buffers.Take() == b, size)
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
		buffers.GiveBack(b)
	}
	meanwhile()
	for range many {
		if given[buffers.Take()] {
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
		buffers.Take()
	}
}
