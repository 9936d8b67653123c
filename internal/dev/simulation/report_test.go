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

// report is the season for people: what happened, and by the kind of world and of storage how useful the SDK was in it. An SDK
// that calls everything undecided would break no promise.
func (s *season) report() string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.total)) {
		fmt.Fprintf(&text, "  %-60s %9d\n", what, s.total[what])
	}
	useful(&text, "usefulness, by the kind of world", s.kinds, "create", "get", "update", "sign", "delete", "find", "wait", "list")
	useful(&text, "by what storage does", s.stores)
	return text.String()
}

// useful is a table of what became of lost creates and lists, and of what calls cost.
func useful(text *strings.Builder, title string, kinds map[string]tally, ops ...string) {
	names := slices.Sorted(maps.Keys(kinds))
	row := func(label, format string, value func(tally) any) {
		fmt.Fprintf(text, "  %-40s", label)
		for _, kind := range names {
			fmt.Fprintf(text, format, value(kinds[kind]))
		}
		text.WriteByte('\n')
	}
	fmt.Fprintf(text, "\n  %-40s%s\n", title, fmt.Sprintf(strings.Repeat("%11s", len(names)), anys(names)...))
	counts := func(what string) { row(what, "%11d", func(t tally) any { return t[what] }) }
	shares := func(label, part, whole string) {
		row("  "+label, "%10.1f%%", func(t tally) any { return 100 * t.share(part, whole) })
	}
	each := func(label, what, of string) { row(label, "%11.2f", func(t tally) any { return t.share(what, of) }) }
	counts("worlds")
	counts("lost creates")
	for _, s := range soon {
		shares("decided "+s.label, "lost creates decided "+s.label, "lost creates")
	}
	shares("decided in the end", "lost creates decided", "lost creates")
	each("  requests", "requests of find", "lost creates")
	each("  of them for recordings", "requests for recordings", "lost creates")
	each("  bytes", "bytes of find", "lost creates")
	counts("lists")
	shares("whole", "lists whole", "lists")
	for _, op := range ops {
		each("requests for each "+op, "requests of "+op, "calls "+op)
	}
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
	"reached: not created", "reached: undecided", "reached: conflict", "reached: a late commit after the word", "reads of a replica", "restarts", "lists from a cache", "reached: a recording was fetched", "reached: a recording was fetched in parts", "reached: a recording was listened to", "reached: a listener got a fresh URL", "reached: a recording was replaced while somebody listened", "lists that leave out a row", "recordings uploaded again by others", "requests for recordings",
	"reached: asked at the wrong place, or as the wrong user", "worlds over HTTP/1.1", "worlds over HTTP/2", "slow lists", "reached: an id is used again", "reached: an id is used again for another patient", "long uploads", "worlds of lists in another order",
	"compactions", "power cuts in a compaction", "recordings fetched into files",
}
