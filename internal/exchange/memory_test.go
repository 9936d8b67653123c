package exchange

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHugeBuffersAreNotKept(t *testing.T) {
	t.Parallel()
	huge := bytes.NewBufferString(strings.Repeat("a", maxKeptBuffer+1))
	(&memory{buffer: huge}).release()
	for range 100 {
		assert.NotSame(t, huge, buffers.Get())
	}
}
