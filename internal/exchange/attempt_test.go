package exchange

import (
	"net/http"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		c := newRequest(Reads, func(*http.Request) (*http.Response, error) { return responds(200, "synthetic"), nil })
		result, err := c.Do(t.Context())
		require.NoError(t, err)
		attempts = append(attempts, weak.Make(result.Last))
		result.Release()
		assert.Nil(t, result.Last.Body)
	}
	runtime.GC()
	runtime.GC()
	for _, attempt := range attempts {
		assert.Nil(t, attempt.Value())
	}
}
