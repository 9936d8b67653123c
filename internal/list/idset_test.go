package list_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
)

func TestIDSetAdd_ReportsNewIDs(t *testing.T) {
	t.Parallel()
	var s list.IDSet
	assert.False(t, s.Has(0), "the zero value is empty")
	assert.Zero(t, s.Len())
	for i, id := range []int64{1, 2, 63, 64, 65, 127, 128, 0, -1, -64, -65, math.MaxInt64, math.MinInt64} {
		assert.False(t, s.Has(id), id)
		assert.True(t, s.Add(id), id)
		assert.True(t, s.Has(id), id)
		assert.False(t, s.Add(id), id)
		assert.Equal(t, i+1, s.Len())
	}
}

func TestIDSetAdd_RandomIDs_AgreesWithAMap(t *testing.T) {
	t.Parallel()
	var s list.IDSet
	reference := map[int64]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		id := random.Int64N(5000) - 1000
		assert.Equal(t, reference[id], s.Has(id))
		assert.Equal(t, !reference[id], s.Add(id))
		reference[id] = true
		assert.Len(t, reference, s.Len())
	}
}

// The set agrees with a map for ids in any order and at any distance.
func TestIDSet_OrdersAndDistances_AgreesWithAMap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for _, distance := range []int64{1, 2, 3, 97, 1000, 1 << 40} {
		ids := make([]int64, 2000)
		for i := range ids {
			ids[i] = 1 + int64(i)*distance
		}
		for _, order := range []func(){func() {}, func() { slices.Reverse(ids) }, func() {
			random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}} {
			order()
			var s list.IDSet
			for n, id := range ids {
				require.False(t, s.Has(id))
				require.True(t, s.Add(id))
				require.False(t, s.Add(id))
				require.True(t, s.Has(id))
				require.Equal(t, n+1, s.Len())
			}
			for _, id := range ids {
				require.True(t, s.Has(id))
				require.Equal(t, distance == 1 && id > 1, s.Has(id-1))
			}
		}
	}
}

func TestIDSet_TakesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the process' heap
	const ids = 200_000
	for distance, bytesPerID := range map[int64]int64{1: 4, 97: 5, -97: 5, 1 << 20: 100} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := new(list.IDSet)
		for i := range int64(ids) {
			s.Add(1<<62 + i*distance)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), ids*bytesPerID, distance)
		runtime.KeepAlive(s)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, distance := range []int64{1, 97, -97, 1 << 20} {
		b.Run(strconv.FormatInt(distance, 10), func(b *testing.B) {
			b.ReportAllocs()
			var s list.IDSet
			for id := int64(0); b.Loop(); id++ {
				s.Add(1<<62 + id*distance)
			}
		})
	}
}
