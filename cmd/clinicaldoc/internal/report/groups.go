package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// The people who act on a report.
const (
	byOperator = "whoever runs the uploads"
	byReader   = "somebody who may read the patients' notes"
)

// Summary is a report in short.
type Summary struct {
	Headline string  `json:"headline"`
	Reason   string  `json:"reason,omitempty"` // why the upload ended early, or sent nothing
	Next     []Step  `json:"next"`
	Groups   []Group `json:"groups"`
}

// Step is something to do now.
type Step struct {
	By string `json:"by"`
	Do string `json:"do"`
}

// String is the step in one line.
func (s Step) String() string { return capital(s.By) + ": " + s.Do }

// Group are the recordings of a run that need the same step for the same reason.
type Group struct {
	Status  string              `json:"status"`
	Earlier bool                `json:"earlier,omitempty"` // they are of earlier uploads
	Count   int                 `json:"count"`
	Why     string              `json:"why,omitempty"`
	Words   string              `json:"service_says,omitempty"`
	Fields  map[string][]string `json:"service_objects,omitempty"`
	Step
	Keys       []string    `json:"keys"`
	Recordings []Recording `json:"-"`
}

// Summarized returns the run with its summary.
func (r Run) Summarized() Run {
	r.Summary = &Summary{Headline: r.Outcome(), Reason: r.Why(), Next: r.Steps(), Groups: r.Groups()}
	return r
}

// anyKey stands for the key of a recording in what to do about several.
const anyKey = "KEY"

// shownOfGroup is how many recordings of a group a report for people lists.
const shownOfGroup = 10

// first are the recordings that a report for people lists.
func first(list []Recording) []Recording { return list[:min(len(list), shownOfGroup)] }

// First are the recordings of a group that a report for people lists.
func (g Group) First() []Recording { return first(g.Recordings) }

// Rest are the others.
func (g Group) Rest() []Recording { return g.Recordings[len(g.First()):] }

// OnPaper reports whether all recordings of the group are printed: somebody decides about each of them.
func (g Group) OnPaper() bool { return g.Status != Processing }

// titles say what became of the recordings of a group, by their status.
var titles = map[string]part{
	Unresolved: {
		one:  "recording is unresolved: it may or may not have a note",
		many: "recordings are unresolved: they may or may not have a note",
	},
	Failed: {
		one:  "recording failed: it has a note that cannot be used, or none",
		many: "recordings failed: they have notes that cannot be used, or none",
	},
	Refused: {
		one:  "recording was refused: it has no note",
		many: "recordings were refused: they have no note",
	},
	Processing: {
		one:  "recording is processing: its note is not complete yet",
		many: "recordings are processing: their notes are not complete yet",
	},
}

// Title says what became of the recordings.
func (g Group) Title() string {
	title, known := titles[g.Status]
	if !known { // one of a later version
		title = part{one: "recording: " + g.Status, many: "recordings: " + g.Status}
	}
	title.count = g.Count
	if g.Earlier {
		return "Of earlier uploads: " + title.String()
	}
	return title.String()
}

// groupOrder puts first what needs a person most.
var groupOrder = []string{Unresolved, Failed, Refused, Processing}

// Groups are the recordings that need somebody: those that need the same step for the same reason together.
func (r Run) Groups() []Group {
	groups := []Group{}
	places := map[string]int{}
	add := func(x Recording, earlier bool) {
		g := groupOf(x, earlier)
		place, known := places[g.identity()]
		if !known {
			place = len(groups)
			places[g.identity()] = place
			groups = append(groups, g)
		}
		groups[place].Count++
		groups[place].Keys = append(groups[place].Keys, x.Key)
		groups[place].Recordings = append(groups[place].Recordings, x)
	}
	for _, x := range r.Recordings {
		if !x.hasNote() {
			add(x, false)
		}
	}
	for _, x := range r.Followed {
		if !x.hasNote() {
			add(x, true)
		}
	}
	for i := range groups {
		if groups[i].Count == 1 {
			groups[i].Do = groups[i].Recordings[0].Do
		}
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Compare(slices.Index(groupOrder, a.Status), slices.Index(groupOrder, b.Status))
	})
	return groups
}

// groupOf is the group of a recording, without the recording.
func groupOf(x Recording, earlier bool) Group {
	g := Group{Status: x.Status, Earlier: earlier, Why: plain(x.Error), Words: x.Words, Fields: x.Fields}
	g.Do = strings.ReplaceAll(x.Do, x.Key, anyKey)
	g.By = byOperator
	if x.Status == Unresolved || x.Status == Failed {
		g.By = byReader
	}
	return g
}

// identity is equal for recordings of one group.
func (g Group) identity() string {
	text, _ := json.Marshal(g) // a group has nothing that JSON has not
	return string(text)
}

// Steps are what to do now, by whom; none if nothing is to be done.
func (r Run) Steps() []Step {
	steps := []Step{}
	add := func(by, do string) {
		if do != "" {
			steps = append(steps, Step{by, do})
		}
	}
	groups := r.Groups()
	count := func(status string) int { return r.Count(status) + r.countFollowed(status) }
	again := r.runAgain(groups)
	add(byOperator, again)
	for _, g := range groups {
		if g.Status == Refused && g.Do != again {
			add(
				byOperator,
				output.Count(g.Count, "recording was refused: ", "recordings were refused: for each, ")+g.Do,
			)
		}
	}
	if n := count(Failed); n > 0 {
		these := output.Count(n, "failed recording is", "failed recordings are")
		add(byReader, fmt.Sprintf(
			"decide whether the %s sent again, as described below", strings.TrimPrefix(these, "1 "),
		))
	}
	if n := count(Unresolved); n > 0 {
		what := output.Count(n, "recording that is unresolved, if the next upload does not find its note",
			"recordings that are unresolved, if the next upload does not find their notes")
		add(byReader, "decide about the "+strings.TrimPrefix(what, "1 ")+"; see below")
	}
	return steps
}

// runAgain is what to do about the run as a whole.
func (r Run) runAgain(groups []Group) string {
	advice := r.Advice()
	isAboutGroups := r.Why() == "" && !r.CutOff() && len(groups) > 0
	switch {
	case !isAboutGroups && strings.HasPrefix(advice, "clinicaldoc "):
		return fmt.Sprintf("run %q, then run the same upload again", advice)
	case !isAboutGroups:
		return advice
	case r.Count(Processing)+r.countFollowed(Processing)+r.Count(Unresolved) > 0:
		return "run the same upload again later: it checks the notes again, and sends nothing twice"
	}
	return ""
}

// Advice says what to do about a run, empty if nothing is to be done.
func (r Run) Advice() string {
	switch {
	case r.Running:
		return ""
	case r.Empty:
		return "make room on the disk, and run the same upload again: what is done is not sent twice"
	case r.CutOff():
		return `run the same upload again, or "clinicaldoc upload retry": what is done is not sent twice`
	}
	return r.Do
}
