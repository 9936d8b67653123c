package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// tally counts what happened in worlds.
type tally map[string]int

// highest begins the names of what is not a sum, but the highest of all.
const highest = "highest "

func (t tally) add(other tally) {
	for what, n := range other {
		if strings.HasPrefix(what, highest) {
			t[what] = max(t[what], n)
			continue
		}
		t[what] += n
	}
}

// share is how much of the whole a part is; of nothing, nothing.
func (t tally) share(part, whole string) float64 { return float64(t[part]) / float64(max(t[whole], 1)) }

// report is the season for people: what happened, and how useful the SDK was in each kind of scenario. An SDK that calls
// everything undecided would break no promise.
func (s *season) report() string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.total)) {
		fmt.Fprintf(&text, "  %-60s %9d\n", what, s.total[what])
	}
	outcomesTable(&text, "by the kind of scenario", s.kinds)
	outcomesTable(&text, "without variations", s.plain)
	outcomesTable(&text, "by variation", s.varied)
	return text.String()
}

// outcomesTable is a table of what became of lost creates and of lists, a row for each group of scenarios.
func outcomesTable(text *strings.Builder, title string, groups map[string]tally) {
	const row = "  %-52s%10s%8s%9s%9s%9s%9s%9s%9s\n"
	fmt.Fprintf(text, "\n"+row, title, "scenarios", "lost", "minute", "Settle", "end", "requests", "highest", "lists")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		t := groups[name]
		percent := func(what, of string) string { return fmt.Sprintf("%.1f%%", 100*t.share(what, of)) }
		fmt.Fprintf(text, row, name, strconv.Itoa(t["worlds"]), strconv.Itoa(t["lost creates"]),
			percent("lost creates decided within a minute", "lost creates"),
			percent("lost creates decided within Settle", "lost creates"), percent("lost creates decided", "lost creates"),
			fmt.Sprintf("%.1f", t.share("requests of find", "lost creates")), strconv.Itoa(t[highest+"requests of find"]),
			percent("lists whole", "lists"))
	}
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
