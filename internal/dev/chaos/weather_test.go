package main

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestASeedReplays: the same seed gives the same faults and the same operations, another gives others.
func TestASeedReplays(t *testing.T) {
	t.Parallel()
	faults := func(seed uint64) (drawn [][]toxic) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 50 {
			drawn = append(drawn, forecast(rng))
		}
		return drawn
	}
	work := func(seed uint64) (drawn []draw) {
		c := newCaller(nil, 7, seed, "")
		for range 50 {
			drawn = append(drawn, c.draw())
		}
		return drawn
	}
	first, again := faults(1), faults(1)
	assert.Equal(t, first, again)
	assert.NotEqual(t, faults(1), faults(2))
	calls, repeated := work(1), work(1)
	assert.Equal(t, calls, repeated)
	assert.NotEqual(t, work(1), work(2))
}
