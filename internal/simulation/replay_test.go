package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A seed is worth nothing if it does not bring the same world back.
func TestASeedBringsItsWorldBack(t *testing.T) {
	t.Parallel()
	differ := 0
	for seed := *from; seed < *from+max(*seeds/5, 1); seed++ {
		first, second := newWorld(seed), newWorld(seed)
		first.run(t)
		second.run(t)
		if first.hash() != second.hash() {
			differ++
			if differ == 1 {
				assert.Equal(t, first.lines(), second.lines(), "seed %d", seed)
			}
		}
	}
	require.Zero(t, differ)
}
