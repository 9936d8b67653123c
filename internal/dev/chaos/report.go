package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// stormReport is what a storm came to.
type stormReport struct {
	findings

	storm       storm
	records     []*record
	calls       map[string]int
	failed      map[string]int
	attempts    int64
	toxics      map[string]int
	opened, cut int64
	told        int // lists that said that they may not be whole
	conflicts   int
	late        int // changes that the gateway passed on late
	edited      int // by clinicians
	removed     int // by clinicians
	blown, took time.Duration
	goroutines  error // nil: none is left
	files       int   // left open
}

func newStormReport(s storm, all []*caller, n *network, attempts int64) *stormReport {
	r := &stormReport{
		storm: s, attempts: attempts, calls: map[string]int{}, failed: map[string]int{},
		toxics: n.toxics, opened: n.meter.opened.Load(), cut: n.meter.cut.Load(),
	}
	for _, c := range all {
		r.add(c.found)
		r.records = append(r.records, c.records...)
		addTo(r.calls, c.calls)
		addTo(r.failed, c.failed)
		r.told += c.told
		r.conflicts += c.conflicts
	}
	return r
}

// outcomes counts the creates by what their callers were told in the end.
func (r *stormReport) outcomes() map[outcome]int {
	counts := map[outcome]int{}
	for _, record := range r.records {
		counts[record.outcome]++
	}
	return counts
}

func (r *stormReport) downloads() int {
	n := 0
	for _, record := range r.records {
		for _, sum := range record.downloads {
			if sum == record.sum {
				n++
			}
		}
	}
	return n
}

// String prints the totals.
func (r *stormReport) String() string {
	o := r.outcomes()
	var b strings.Builder
	fmt.Fprintf(&b, "storm of seed %d: %d callers, %.1f s, with looking up %.1f s\n", r.storm.seed, r.storm.callers, r.blown.Seconds(), r.took.Seconds())
	fmt.Fprintf(&b, "  calls            %6d   %s\n", sum(r.calls), listed(r.calls))
	fmt.Fprintf(&b, "  attempts         %6d   over %d connections\n", r.attempts, r.opened)
	fmt.Fprintf(&b, "  failed calls     %6d   %s\n", sum(r.failed), listed(r.failed))
	fmt.Fprintf(&b, "  faults injected  %6d   %d connections cut; toxics added: %s\n", sum(r.toxics)+int(r.cut), r.cut, listed(r.toxics))
	fmt.Fprintf(&b, "  creates          %6d   answered %d, surely not made %d, the rest unknown\n", len(r.records), o[created], o[notSent])
	fmt.Fprintf(&b, "  unknown outcomes %6d   found %d, not created %d, undecided %d\n", o[found]+o[notCreated]+o[undecided]+o[lost], o[found], o[notCreated], o[undecided]+o[lost])
	fmt.Fprintf(&b, "  late commits     %6d   requests that the service got after their client was told nothing, or 504\n", r.late)
	fmt.Fprintf(&b, "  clinicians       %6d   edits and %d deletions of theirs; callers met %d conflicts and %d lists that may not be whole\n", r.edited, r.removed, r.conflicts, r.told)
	fmt.Fprintf(&b, "  byte-equal       %6d   downloads\n", r.downloads())
	fmt.Fprintf(&b, "  late copies      %6d   updates overwritten by an earlier one that the network had held back\n", r.lateCopies)
	fmt.Fprintf(&b, "  duplicates       %6d\n", len(r.duplicates))
	fmt.Fprintf(&b, "  losses           %6d\n", len(r.losses))
	fmt.Fprintf(&b, "  wrong answers    %6d\n", len(r.wrong))
	fmt.Fprintf(&b, "  leaks            %6d   goroutines and open files\n", leaked(r.goroutines, r.files))
	return b.String()
}

// failure is nil when every promise was kept.
func (r *stormReport) failure() error {
	err := r.findings.failure()
	for _, record := range r.records {
		if record.outcome == undecided && record.title == record.name {
			err = errors.Join(err, fmt.Errorf("undecided: %s, although every name was given once", record.name))
		}
	}
	if r.goroutines != nil {
		err = errors.Join(err, fmt.Errorf("leak: %w", r.goroutines))
	}
	if r.files > 0 {
		err = errors.Join(err, fmt.Errorf("leak: %d open files", r.files))
	}
	return err
}

// failure is nil when the service is as callers were told.
func (f *findings) failure() error {
	var all []error
	for _, kind := range []struct {
		name string
		list []string
	}{{"duplicate", f.duplicates}, {"loss", f.losses}, {"wrong", f.wrong}} {
		for _, finding := range kind.list {
			all = append(all, fmt.Errorf("%s: %s", kind.name, finding))
		}
	}
	return errors.Join(all...)
}

// leaked counts goroutines as one, however many: their stacks are in the failure.
func leaked(goroutines error, files int) int {
	if goroutines != nil {
		return files + 1
	}
	return files
}

func addTo(sums, numbers map[string]int) {
	for name, n := range numbers {
		sums[name] += n
	}
}

func sum(numbers map[string]int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

func listed(numbers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return strings.Join(parts, ", ")
}
