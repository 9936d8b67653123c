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

// share is how much of the whole a part is; of nothing, nothing.
func (t tally) share(part, whole string) float64 { return float64(t[part]) / float64(max(t[whole], 1)) }

// report is the season for people: what happened, and by the kind of world how useful the SDK was in it. An SDK that calls
// everything undecided would break no promise.
func (s *season) report() string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.total)) {
		fmt.Fprintf(&text, "  %-60s %9d\n", what, s.total[what])
	}
	kinds := slices.Sorted(maps.Keys(s.kinds))
	row := func(label, format string, value func(tally) any) {
		fmt.Fprintf(&text, "  %-40s", label)
		for _, kind := range kinds {
			fmt.Fprintf(&text, format, value(s.kinds[kind]))
		}
		text.WriteByte('\n')
	}
	fmt.Fprintf(&text, "\n  %-40s%s\n", "usefulness, by the kind of world", fmt.Sprintf(strings.Repeat("%10s", len(kinds)), anys(kinds)...))
	counts := func(what string) { row(what, "%10d", func(t tally) any { return t[what] }) }
	shares := func(label, part, whole string) {
		row("  "+label, "%9.1f%%", func(t tally) any { return 100 * t.share(part, whole) })
	}
	counts("worlds")
	counts("lost creates")
	for _, s := range soon {
		shares("decided "+s.label, "lost creates decided "+s.label, "lost creates")
	}
	shares("decided in the end", "lost creates decided", "lost creates")
	row("  requests", "%10.2f", func(t tally) any { return t.share("requests of find", "lost creates") })
	row("  of them for recordings", "%10.2f", func(t tally) any { return t.share("requests for recordings", "lost creates") })
	counts("lists")
	shares("whole", "lists whole", "lists")
	for _, op := range []string{"create", "get", "update", "sign", "delete", "find", "wait", "list"} {
		row("requests for each "+op, "%10.2f", func(t tally) any { return t.share("requests of "+op, "calls "+op) })
	}
	return text.String()
}

func anys[T any](list []T) (all []any) {
	for _, one := range list {
		all = append(all, one)
	}
	return all
}

// reachable are the cases that make worlds worth running: a zero after many worlds is a hole in the simulation.
var reachable = []string{
	"late commits", "reached: a change between read and write", "reached: deleted before it was found", "reached: found",
	"reached: not created", "reached: undecided", "reached: conflict", "reached: a late commit after the word", "reads of a replica", "restarts", "lists from a cache", "reached: a recording was fetched", "reached: a recording was fetched in parts", "reached: a recording was listened to", "reached: a listener got a fresh URL", "reached: a recording was replaced while somebody listened", "lists that leave out a row", "recordings uploaded again by others", "reached: the same recording by others", "requests for recordings",
	"reached: asked at the wrong place, or as the wrong user", "worlds over HTTP/1.1", "worlds over HTTP/2", "slow lists", "long uploads", "worlds of lists in another order",
	"compactions", "power cuts in a compaction", "recordings fetched into files",
}
