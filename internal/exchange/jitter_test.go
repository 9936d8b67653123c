package exchange_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestFloat64(t *testing.T) {
	t.Parallel()
	seen := map[float64]bool{}
	for range 100 {
		x := exchange.Jitter(t.Context())
		assert.GreaterOrEqual(t, x, 0.0)
		assert.Less(t, x, 1.0)
		seen[x] = true
	}
	assert.Greater(t, len(seen), 90, "random where nobody says otherwise")

	own := exchange.WithJitter(t.Context(), func() float64 { return 0.25 })
	assert.InDelta(t, 0.25, exchange.Jitter(own), 0)
}

func TestShuffle(t *testing.T) {
	t.Parallel()
	shuffled := func(source func() float64) []int {
		list := []int{1, 2, 3, 4}
		exchange.Shuffle(exchange.WithJitter(t.Context(), source), len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	}
	assert.Equal(t, []int{2, 3, 4, 1}, shuffled(func() float64 { return 0 }))
	assert.Equal(t, []int{1, 2, 3, 4}, shuffled(func() float64 { return 0.999 }))

	list := []int{1, 2, 3, 4}
	exchange.Shuffle(t.Context(), len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	slices.Sort(list)
	assert.Equal(t, []int{1, 2, 3, 4}, list)
	exchange.Shuffle(t.Context(), 0, func(int, int) { t.Error("nothing to swap") })
}
