package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tally counts what happened in worlds.
type tally map[string]int

func (t tally) add(other tally) {
	for what, n := range other {
		t[what] += n
	}
}

// report is the tally for people: what happened, and how useful the SDK was in it. An SDK that calls everything undecided
// would break no promise.
func (t tally) report() string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&text, "  %-60s %9d\n", what, t[what])
	}
	fmt.Fprintf(&text, "\nusefulness\n")
	share := func(label, part, whole string) {
		if t[whole] > 0 {
			fmt.Fprintf(&text, "  %-60s %8.2f %%  (%d of %d)\n", label, 100*float64(t[part])/float64(t[whole]), t[part], t[whole])
		}
	}
	for _, kind := range []string{"", "quiet: "} {
		share(kind+"lost creates decided", kind+"lost creates decided", kind+"lost creates")
		share(kind+"lost creates decided within Settle of their loss", kind+"lost creates decided within Settle", kind+"lost creates")
		share(kind+"lists that end whole", kind+"lists whole", kind+"lists")
	}
	for _, op := range []string{"create", "get", "update", "sign", "delete", "find", "wait", "list"} {
		if calls := t["calls "+op]; calls > 0 {
			fmt.Fprintf(&text, "  %-60s %8.2f\n", "requests for each "+op, float64(t["requests of "+op])/float64(calls))
		}
	}
	return text.String()
}

// reachable are the cases that make worlds worth running: a zero after many worlds is a hole in the simulation.
var reachable = []string{
	"late commits", "reached: a change between read and write", "reached: deleted before it was found", "reached: found",
	"reached: not created", "reached: undecided", "reached: conflict", "reached: a late commit after the word", "reads of a replica", "restarts", "lists from a cache", "reached: a recording was fetched", "reached: a recording was fetched in parts", "lists that leave out a row", "worlds over HTTP/1.1", "worlds over HTTP/2",
}
