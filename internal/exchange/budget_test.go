package exchange_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// taken is how many retries the budget allows in a row, at most 200.
func taken(b *exchange.Budget) int {
	retries := 0
	for retries < 200 && b.Take() {
		retries++
	}
	return retries
}

func TestBudget_TimeAndSuccesses_GiveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := new(exchange.Budget)
		assert.Equal(t, 100, taken(budget))
		assert.Zero(t, taken(budget))
		time.Sleep(3 * time.Second)
		assert.Equal(t, 3, taken(budget))
		time.Sleep(time.Hour)
		assert.Equal(t, 100, taken(budget), "it is never more than full")
		for range 9 {
			budget.Succeeded()
		}
		assert.Equal(t, 1, taken(budget), "five successes give one back")
		budget.Succeeded()
		assert.Equal(t, 1, taken(budget), "ten give two")
	})
}

func TestDo_SuccessfulAttempts_GiveRetriesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code := http.StatusInternalServerError
		request := newCall(func(r *http.Request) (*http.Response, error) { return status(r, code), nil })
		request.MaxRetries = 0
		budget := &request.Peer.Budget
		taken(budget)
		for range 5 {
			_, _ = request.Do(t.Context())
		}
		assert.Zero(t, taken(budget), "failures give nothing")
		code = http.StatusOK
		for range 5 {
			_, _ = request.Do(t.Context())
		}
		assert.Equal(t, 1, taken(budget))
	})
}
