// Package measure counts allocations exactly and takes time as ratios, which a busy machine disturbs less than seconds.
package measure

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Work is one operation.
type Work func() error

// Allocs is what one operation allocates, in this process.
type Allocs struct{ Objects, Bytes float64 }

// Allocations runs the work n times in a row and returns what one run allocates. The collector rests meanwhile: it
// would empty the pools that the contenders use, at times of its own choosing. The middle one of several series counts.
func Allocations(n int, work Work) (Allocs, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const series = 5
	var objects, bytes []float64
	for range series {
		runtime.GC()
		for range 5 { // fills pools and connections
			if err := work(); err != nil {
				return Allocs{}, err
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if err := work(); err != nil {
				return Allocs{}, err
			}
		}
		runtime.ReadMemStats(&after)
		objects = append(objects, float64(after.Mallocs-before.Mallocs)/float64(n))
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	}
	return Allocs{Median(objects), Median(bytes)}, nil
}

// block is how long one side runs before it is the other's turn.
const block = 20 * time.Millisecond

// Ratio is how many times longer the work takes than the reference. The two take turns in short blocks, so that a busy
// machine slows both; of the ratios of neighbouring blocks the middle one counts.
func Ratio(blocks int, reference, work Work) (Spread, error) {
	runtime.GC()
	ratios := make([]float64, 0, blocks)
	for range blocks {
		low, err := timePerRun(reference)
		if err != nil {
			return Spread{}, err
		}
		high, err := timePerRun(work)
		if err != nil {
			return Spread{}, err
		}
		ratios = append(ratios, high/low)
	}
	return SpreadOf(ratios), nil
}

// timePerRun returns the seconds that one run takes in a block of them.
func timePerRun(work Work) (float64, error) {
	start := time.Now()
	for runs := 1; ; runs++ {
		if err := work(); err != nil {
			return 0, err
		}
		if spent := time.Since(start); spent >= block {
			return spent.Seconds() / float64(runs), nil
		}
	}
}

// Spread is the middle one of several values, and between what the middle half of them lies.
type Spread struct{ Median, Low, High float64 }

// SpreadOf returns the spread of values.
func SpreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return Spread{}
	}
	quarter := len(sorted) / 4
	return Spread{sorted[len(sorted)/2], sorted[quarter], sorted[len(sorted)-1-quarter]}
}

// String prints the middle value and the two around it.
func (s Spread) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.Low, s.High) }

// Median returns the middle value.
func Median(values []float64) float64 {
	return SpreadOf(values).Median
}
