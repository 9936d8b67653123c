package buffers_test

import (
	"bytes"
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

func TestFewBuffersAreKept(t *testing.T) { //nolint:paralleltest // see above
	empty()
	given := map[*bytes.Buffer]bool{}
	for range 20 {
		b := bytes.NewBuffer(make([]byte, 0, 10))
		given[b] = true
		buffers.GiveBack(b)
	}
	kept := 0
	for range 20 {
		if given[buffers.Take()] {
			kept++
		}
	}
	assert.Equal(t, 4, kept)
}

// empty takes what earlier tests have left.
func empty() {
	for range 20 {
		buffers.Take()
	}
}
