package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A seed is worth nothing if it does not bring the same world back. The sum is the same on all releases of Go.
func TestWorld_SameSeed_HasTheSameHistory(t *testing.T) {
	t.Parallel()
	sum := uint64(0)
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
		sum = mix(sum, first.hash())
	}
	t.Logf("sum of all histories: %016x", sum)
}
