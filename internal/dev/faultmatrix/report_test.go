package faultmatrix

import (
	"fmt"
	"sync"
)

// report sums up the cells. Which of them fail, the tests say.
type report struct {
	mu     sync.Mutex
	cells  int
	run    int
	failed int
	totals totals
}

type totals struct{ calls, attempts, requests, struck, created, duplicates, astray, lostEdits, untrue int }

// expect counts a cell, whether or not it runs.
func (r *report) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cells++
}

func (r *report) add(v *verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run++
	if len(v.broken) > 0 {
		r.failed++
	}
	r.totals.calls++
	r.totals.attempts += v.totals.attempts
	r.totals.requests += v.totals.requests
	r.totals.struck += v.totals.struck
	r.totals.created += v.totals.created
	r.totals.duplicates += max(0, v.totals.created-1)
	r.totals.astray += v.totals.astray
	r.totals.lostEdits += v.totals.lostEdits
	r.totals.untrue += v.totals.untrue
}

func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d cells, %d run, %d failed\n%+v", r.cells, r.run, r.failed, r.totals)
}
