package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		again.hasty = w.hasty
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

// asTest is the world as a test to paste.
func (w *world) asTest() string {
	slices.Sort(w.events)
	var text strings.Builder
	fmt.Fprintf(&text, "func TestWorld%d(t *testing.T) {\n\tt.Parallel()\n\trelive(t, %d,\n", w.seed, w.seed)
	for _, e := range slices.Compact(w.events) {
		fmt.Fprintf(&text, "\t\t%q,\n", e)
	}
	return text.String() + "\t)\n}\n"
}

// relive runs the world of a seed with these events alone, and fails if a promise is broken.
func relive(t *testing.T, seed uint64, events ...string) {
	t.Helper()
	w := newWorld(seed)
	w.only = map[string]bool{}
	for _, e := range events {
		w.only[e] = true
	}
	w.run(t)
	assert.Empty(t, w.violations, strings.Join(w.lines(), "\n"))
}

// A defect that is known: the program takes what is undecided for not created. What is left of such a world is a create, the
// fault that loses its response, and nothing else.
func TestShrink_FailingWorld_KeepsFewEvents(t *testing.T) {
	t.Parallel()
	w := hasty(t)
	events := len(slices.Compact(slices.Sorted(slices.Values(w.events))))
	smallest, runs := shrink(t, w, "two notes")
	t.Logf("seed %d: from %d events to %d in %d runs\n%s\n%s", w.seed, events, len(smallest.events), runs, strings.Join(smallest.lines(), "\n"), smallest.asTest())
	require.LessOrEqual(t, len(smallest.events), 6)
	relive(t, smallest.seed, smallest.events...) // who waits for the verdict comes through the same
}

// hasty is the first world in which programs that do not wait for a verdict make two notes of one recording.
func hasty(t *testing.T) *world {
	t.Helper()
	for seed := uint64(1); seed < 500; seed++ {
		w := newWorld(seed)
		w.hasty = true
		w.run(t)
		if w.breaks("two notes") {
			return w
		}
	}
	t.Fatal("no world shows it")
	return nil
}
