package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A seed is worth nothing if it does not bring the same world back.
func TestWorld_SameSeed_HasTheSameHistory(t *testing.T) {
	t.Parallel()
	for seed := *from; seed < *from+max(*seeds/5, 1); seed++ {
		first, second := newWorld(seed), newWorld(seed)
		if !first.design.exact() {
			continue
		}
		first.run(t)
		second.run(t)
		if first.hash() != second.hash() {
			assert.Equal(t, first.lines(), second.lines(), "seed %d", seed)
			return
		}
	}
}
