package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// tally counts what happened in worlds.
type tally map[string]int

// The beginnings of names that are not sums: the highest of all, and one count for each value.
const (
	highest    = "highest "
	candidates = "candidates of an undecided create: "
)

func (t tally) add(other tally) {
	for what, n := range other {
		if strings.HasPrefix(what, highest) {
			t[what] = max(t[what], n)
			continue
		}
		t[what] += n
	}
}

// quantile is the value at or below which that share of the values lies that were counted one by one; -1 if there are
// none.
func (t tally) quantile(prefix string, share float64) int {
	values := map[int]int{}
	total := 0
	for what, n := range t {
		text, counted := strings.CutPrefix(what, prefix)
		value, err := strconv.Atoi(text)
		if counted && err == nil {
			values[value] += n
			total += n
		}
	}
	seen := 0
	for _, value := range slices.Sorted(maps.Keys(values)) {
		seen += values[value]
		if float64(seen) >= share*float64(total) {
			return value
		}
	}
	return -1
}

// share is how much of the whole a part is; of nothing, nothing.
func (t tally) share(part, whole string) float64 { return float64(t[part]) / float64(max(t[whole], 1)) }

// report is the season for people: what happened, and how useful the SDK was in each kind of scenario. An SDK that calls
// everything undecided would break no promise.
func (s *season) report() string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.total)) {
		if !strings.HasPrefix(what, candidates) {
			fmt.Fprintf(&text, "  %-60s %9d\n", what, s.total[what])
		}
	}
	useful(&text, "usefulness, by the kind of scenario", s.kinds, "create", "get", "update", "sign", "delete", "find", "wait", "list")
	outcomesTable(&text, "what became of lost creates, without variations", s.plain)
	outcomesTable(&text, "by variation", s.varied)
	if len(s.wrong) > 0 {
		text.WriteString("\n  broken promises, by variation\n")
	}
	for _, label := range slices.Sorted(maps.Keys(s.wrong)) {
		seeds := slices.Sorted(slices.Values(s.wrong[label]))
		fmt.Fprintf(&text, "  %-50s%4d scenarios: seeds %v\n", label, len(seeds), seeds[:min(len(seeds), 8)])
	}
	return text.String()
}

// outcomesTable is a table of what became of lost creates, a row for each group of scenarios.
func outcomesTable(text *strings.Builder, title string, groups map[string]tally) {
	const row = "  %-52s%10s%8s%9s%9s%9s%9s%9s%12s%6s%6s\n"
	fmt.Fprintf(text, "\n"+row, title, "scenarios", "lost", "minute", "Settle", "end",
		"requests", "highest", "candidates", "90 %", "none")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		t := groups[name]
		percent := func(what string) string { return fmt.Sprintf("%.1f%%", 100*t.share(what, "lost creates")) }
		fmt.Fprintf(text, row, name, strconv.Itoa(t["worlds"]), strconv.Itoa(t["lost creates"]),
			percent("lost creates decided within a minute"), percent("lost creates decided within Settle"),
			percent("lost creates decided"), fmt.Sprintf("%.1f", t.share("requests of find", "lost creates")),
			strconv.Itoa(t[highest+"requests of find"]), strconv.Itoa(t.quantile(candidates, 0.5)),
			strconv.Itoa(t.quantile(candidates, 0.9)), strconv.Itoa(t[candidates+"0"]))
	}
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
	"reached: not created", "reached: undecided", "reached: conflict", "reached: a late commit after the word", "reads of a replica", "restarts", "lists from a cache", "reached: a recording was fetched", "reached: a recording was fetched in parts", "lists that leave out a row", "recordings uploaded again by others", "requests for recordings",
	"reached: asked at the wrong place, or as the wrong user", "slow lists", "reached: an id is used again", "reached: an id is used again for another patient", "long uploads", "worlds of lists in another order",
	"compactions", "power cuts in a compaction", "recordings fetched into files",
	"reached: an older note of an unchanged recording is read",
	"reached: a younger note of an unchanged recording is read",
	"reached: a response names a job", "reached: another user of the same number asks",
	"notes renamed by the service", "lists that count deleted notes",
}

func TestTally_HighestAndQuantiles(t *testing.T) {
	t.Parallel()
	total := tally{}
	total.add(tally{highest + "requests": 40, "requests": 50, candidates + "1": 5, candidates + "10": 4})
	total.add(tally{highest + "requests": 30, "requests": 30, candidates + "2": 1})
	assert.Equal(t, 40, total[highest+"requests"])
	assert.Equal(t, 80, total["requests"])
	assert.Equal(t, 1, total.quantile(candidates, 0.5))
	assert.Equal(t, 2, total.quantile(candidates, 0.6))
	assert.Equal(t, 10, total.quantile(candidates, 0.9))
	assert.Equal(t, -1, tally{}.quantile(candidates, 0.5))
}
