package exchange

import (
	"sync"
	"time"
)

// The budget for retries.
const (
	maxRetryBudget  = 100 // retries that can be taken in a row
	retryPerSuccess = 0.2 // given back by each success, in addition to one each second
)

// Budget bounds the retries of all calls of a client, so they do not multiply the load of a failing server. A retry
// takes from it, and successes and time give back. The zero value is full. It is safe for concurrent use.
type Budget struct {
	mu            sync.Mutex
	spent         float64   // retries that were taken and not given back; never negative
	refilledUntil time.Time // until when time has given back
}

// Take reports whether a retry may be made, and counts it.
func (b *Budget) Take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.giveBack(now.Sub(b.refilledUntil).Seconds())
	b.refilledUntil = now
	if b.spent+1 > maxRetryBudget {
		return false
	}
	b.spent++
	return true
}

// Succeeded gives back a share of a retry.
func (b *Budget) Succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(retryPerSuccess)
}

// giveBack reduces what is spent. The caller holds the lock.
func (b *Budget) giveBack(retries float64) {
	b.spent = max(0, b.spent-retries)
}
