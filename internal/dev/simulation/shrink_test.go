package simulation

import (
	"slices"
	"testing"
)

// shrink reduces a world to the fewest events in which the same kind of promise is still broken: steps of actors, and faults
// that struck. An event that is left out moves no other, for each has its own time and its own choices.
func shrink(t *testing.T, w *world, kind string) (smallest *world, runs int) {
	t.Helper()
	slices.Sort(w.events) // in the order of the scheduler the result would depend on it
	kept := slices.Compact(w.events)
	smallest = w
	fails := func(events []string) bool {
		runs++
		again := newWorld(w.seed)
		again.only = map[string]bool{}
		for _, e := range events {
			again.only[e] = true
		}
		again.run(t)
		if !again.breaks(kind) {
			return false
		}
		smallest = again
		return true
	}
	for size := max(len(kept)/2, 1); ; size = max(size/2, 1) {
		before := len(kept)
		for i := 0; i < len(kept); {
			rest := slices.Concat(kept[:i], kept[min(i+size, len(kept)):])
			if fails(rest) {
				kept = rest
				continue
			}
			i += size
		}
		if size == 1 && len(kept) == before {
			return smallest, runs
		}
	}
}

func (w *world) breaks(kind string) bool {
	return slices.ContainsFunc(w.violations, func(v violation) bool { return v.kind == kind })
}
