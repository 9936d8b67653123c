package idset_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/idset"
)

func TestAddTellsWhatIsNew(t *testing.T) {
	t.Parallel()
	var s idset.Set
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

func TestAddAgreesWithAMap(t *testing.T) {
	t.Parallel()
	var s idset.Set
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

const million = 1_000_000

func TestAMillionNeighboursTakeLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the process' heap
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := new(idset.Set)
	for id := range int64(million) {
		s.Add(id)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20))
	runtime.KeepAlive(s)
}

func BenchmarkAddDense(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var s idset.Set
		for id := range int64(million) {
			s.Add(id)
		}
	}
}
