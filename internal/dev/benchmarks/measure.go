package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// work is one operation.
type work func() error

// allocs is what one operation allocates, in this process.
type allocs struct{ objects, bytes float64 }

// countAllocs runs the work n times in a row and returns what one run allocates. The collector rests meanwhile: it
// would empty the pools that the contenders use, at times of its own choosing. The middle one of several series counts.
func countAllocs(n int, work work) (allocs, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const series = 5
	var objects, bytes []float64
	for range series {
		runtime.GC()
		for range 5 { // fills pools and connections
			if err := work(); err != nil {
				return allocs{}, err
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if err := work(); err != nil {
				return allocs{}, err
			}
		}
		runtime.ReadMemStats(&after)
		objects = append(objects, float64(after.Mallocs-before.Mallocs)/float64(n))
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	}
	return allocs{median(objects), median(bytes)}, nil
}

// block is how long one side runs before it is the other's turn.
const block = 20 * time.Millisecond

// timeRatio is how many times longer the work takes than the reference. The two take turns in short blocks. A host that
// shares its processors disturbs single blocks, so the fastest quarter of the blocks of each side counts. The spread is of
// the ratios of neighbouring blocks.
func timeRatio(blocks int, reference, work work) (spread, error) {
	runtime.GC()
	var references, works, ratios []float64
	for range blocks {
		low, err := timePerRun(reference)
		if err != nil {
			return spread{}, err
		}
		high, err := timePerRun(work)
		if err != nil {
			return spread{}, err
		}
		references = append(references, low)
		works = append(works, high)
		ratios = append(ratios, high/low)
	}
	result := spreadOf(ratios)
	result.value = spreadOf(works).low / spreadOf(references).low
	return result, nil
}

// timePerRun returns the seconds that one run takes in a block of them.
func timePerRun(work work) (float64, error) {
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

// spread is what several values come to, and between what the middle half of them lies.
type spread struct{ value, low, high float64 }

// spreadOf returns the middle one of the values, and their spread.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return spread{}
	}
	quarter := len(sorted) / 4
	return spread{sorted[len(sorted)/2], sorted[quarter], sorted[len(sorted)-1-quarter]}
}

// String prints the value and the two around it.
func (s spread) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", s.value, s.low, s.high) }

// median returns the middle value.
func median(values []float64) float64 {
	return spreadOf(values).value
}
