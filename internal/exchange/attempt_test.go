package exchange

import (
	"net/http"
	"runtime"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The next size in which Go hands out memory is an eighth more, for every call.
func TestAnAttemptFitsItsSizeClass(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, int(unsafe.Sizeof(try{})), 704)
}

// A timer that was stopped stays with the runtime until its time has come, and with it what it refers to: a response, or a
// recording, must not be among that.
func TestNoAttemptIsHeldByItsTimer(t *testing.T) {
	t.Parallel()
	for range 1000 { // with few timers, or none before it, a stopped one goes sooner
		timer := time.AfterFunc(20*time.Second, func() {})
		t.Cleanup(func() { timer.Stop() })
	}
	var attempts []weak.Pointer[Attempt]
	for range 20 {
		c := newCall(Reads, func(*http.Request) (*http.Response, error) { return responds(200, "synthetic"), nil })
		require.NoError(t, c.Do(t.Context()))
		attempts = append(attempts, weak.Make(c.Last))
		c.Release()
		assert.Nil(t, c.Last.Body)
	}
	runtime.GC()
	runtime.GC()
	for _, attempt := range attempts {
		assert.Nil(t, attempt.Value())
	}
}
