package faultmatrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// report collects the cells and prints them as a table.
type report struct {
	columns []string
	rows    []string

	mu       sync.Mutex
	cells    int
	verdicts map[[2]string]bool
	totals   totals
}

type totals struct{ calls, attempts, requests, struck, created, duplicates, astray, lostEdits, untrue int }

func newReport(rows []fault) *report {
	r := &report{verdicts: map[[2]string]bool{}}
	for _, f := range rows {
		if !slices.Contains(r.rows, f.name) {
			r.rows = append(r.rows, f.name)
		}
	}
	for _, op := range operations() {
		r.columns = append(r.columns, op.name)
	}
	return r
}

// expect counts a cell before it runs.
func (r *report) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cells++
}

func (r *report) add(f fault, op operation, v *verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts[[2]string{f.name, op.name}] = len(v.broken) == 0
	r.totals.calls++
	r.totals.attempts += v.totals.attempts
	r.totals.requests += v.totals.requests
	r.totals.struck += v.totals.struck
	r.totals.created += v.totals.created
	r.totals.duplicates += max(0, v.totals.created-1)
	r.totals.astray += v.totals.astray
	r.totals.lostEdits += v.totals.lostEdits
	r.totals.untrue += v.totals.untrue
}

// String is the table. A dot is a cell that does not exist, or was not chosen with -run.
func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	width := 0
	for _, row := range r.rows {
		width = max(width, utf8.RuneCountInString(row))
	}
	fmt.Fprintf(&b, "%-*s", width, "fault")
	for _, column := range r.columns {
		fmt.Fprintf(&b, " %-*s", max(len(column), 4), column)
	}
	b.WriteByte('\n')
	for _, row := range r.rows {
		fmt.Fprintf(&b, "%-*s", width, row)
		for _, column := range r.columns {
			fmt.Fprintf(&b, " %-*s", max(len(column), 4), r.verdict(row, column))
		}
		b.WriteByte('\n')
	}
	broken := 0
	for kept := range maps.Values(r.verdicts) {
		if !kept {
			broken++
		}
	}
	fmt.Fprintf(&b, "\n%d faults x %d operations: %d cells, %d run, %d ok, %d FAIL\n",
		len(r.rows), len(r.columns), r.cells, len(r.verdicts), len(r.verdicts)-broken, broken)
	fmt.Fprintf(&b, "%d calls, %d attempts, %d requests, %d faults injected, %d created, %d duplicates, %d tokens astray, %d edits lost, %d untrue words\n",
		r.totals.calls, r.totals.attempts, r.totals.requests, r.totals.struck, r.totals.created, r.totals.duplicates, r.totals.astray,
		r.totals.lostEdits, r.totals.untrue)
	return b.String()
}

func (r *report) verdict(row, column string) string {
	kept, ran := r.verdicts[[2]string{row, column}]
	switch {
	case !ran:
		return "."
	case kept:
		return "ok"
	}
	return "FAIL"
}
