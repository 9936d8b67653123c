package exchange

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The next size in which Go hands out memory is an eighth more, for every call.
func TestAnAttemptFitsItsSizeClass(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, int(unsafe.Sizeof(try{})), 896)
}
