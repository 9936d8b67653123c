package exchange_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestGate_Open_AllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	var gate exchange.Gate
	header := http.Header{"X-Ratelimit-Remaining": {"59"}}
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = gate.Enter(ctx, true)
		gate.Leave(time.Now(), header, 0)
	}))
}

// The end of an attempt reports how long the calls of the client wait.
func TestGate_Refusal_IsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		codes := []int{http.StatusTooManyRequests, http.StatusOK}
		request := newCall(func(r *http.Request) (*http.Response, error) {
			resp := status(r, codes[0])
			codes = codes[1:]
			resp.Header.Set("Retry-After", "50")
			return resp, nil
		})
		request.Peer.Gate = new(exchange.Gate)
		request.Peer.MaxRetryAfter = time.Minute
		var limited []time.Duration
		request.Caller = ended{end: func(a *exchange.Attempt) { limited = append(limited, a.LimitedFor) }}
		start := time.Now()
		_, err := request.Do(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{50 * time.Second, 0}, limited)
		assert.Equal(t, 50*time.Second, time.Since(start))
	})
}
