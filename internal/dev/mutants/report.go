package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// report is the table of results.
type report struct {
	path  string
	equal map[string]int // how many mutants of that key do what the library does
	below []string
}

const heading = `# Mutants

Made by ` + "`make mutants`" + `, whose comment in main.go says how. Mutants are the small changes that gremlins finds; taken are those of
the slice that was asked for, run those of them that can be compiled and that a test of a change goes through. Of those that
lived, the ones in EQUAL.txt do what the library does, with the reason; the others are listed below. Efficacy is killed among
killed and lived, without the equal ones and those that timed out; covered is the share of the mutants that can be compiled.
With a cache, what was killed before in a function that has not changed since counts as killed and is not run again.

| package | mutants | not viable | taken | not covered | run | killed | timed out | lived | of these equal | efficacy | covered | made |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

// row counts the verdicts.
func (r *report) row(folder string, total int, mutants []*mutant) (row string, left []*mutant) {
	count := map[verdict]int{}
	used, equals := map[string]int{}, 0
	for _, m := range mutants {
		count[m.verdict]++
		if m.verdict != lived && m.verdict != notCovered {
			continue
		}
		if used[m.key()] < r.equal[m.key()] {
			used[m.key()]++
			equals++
			if m.verdict == notCovered {
				count[notCovered]--
				count[lived]++
			}
			continue
		}
		left = append(left, m)
	}
	viable := len(mutants) - count[notViable]
	run := viable - count[notCovered]
	efficacy := percent(count[killed], count[killed]+count[lived]-equals)
	covered := percent(run, viable)
	if efficacy < 95 || covered < 90 {
		r.below = append(r.below, folder)
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %.1f %% | %.1f %% | %s |", folder, total, count[notViable], len(mutants), count[notCovered],
		run, count[killed], count[timedOut], count[lived], equals, efficacy, covered, time.Now().UTC().Format("2006-01-02")), left
}

func percent(part, of int) float64 {
	if of == 0 {
		return 100
	}
	return 100 * float64(part) / float64(of)
}

// add prints a package's row and, if the run was not about some lines only, puts it into the table.
func (r *report) add(folder string, total int, mutants []*mutant, some bool, took time.Duration) error {
	row, left := r.row(folder, total, mutants)
	fmt.Printf("%s in %s\n", row, took.Round(time.Second))
	if some {
		return nil
	}
	section := []string{row}
	for _, m := range left {
		section = append(section, fmt.Sprintf("    %s: %s", m.verdict, m))
	}
	rows := map[string][]string{}
	text, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		for _, s := range subjects {
			inside := s.folder == folderOf(line)
			if strings.HasPrefix(line, "| "+s.folder+" |") || inside {
				rows[s.folder] = append(rows[s.folder], line)
			}
		}
	}
	rows[folder] = section
	return os.WriteFile(r.path, []byte(render(rows)), 0o600)
}

// folderOf is the package of a line about a mutant.
func folderOf(line string) string {
	_, place, ok := strings.Cut(strings.TrimSpace(line), ": ")
	file, _, _ := strings.Cut(place, ":")
	if !ok || !strings.HasPrefix(line, "    ") {
		return ""
	}
	if i := strings.LastIndex(file, "/"); i >= 0 {
		return file[:i]
	}
	return "."
}

func render(rows map[string][]string) string {
	var b, left strings.Builder
	b.WriteString(heading)
	for _, s := range subjects {
		for i, line := range rows[s.folder] {
			if i == 0 {
				b.WriteString(line + "\n")
			} else {
				left.WriteString(line + "\n")
			}
		}
	}
	if left.Len() > 0 {
		b.WriteString("\nNot noticed, or not reached:\n\n" + left.String())
	}
	return b.String()
}

// verdict is an error if a package is below the bar.
func (r *report) verdict() error {
	if len(r.below) > 0 {
		return fmt.Errorf("below 95 %% of efficacy or 90 %% of coverage: %s", strings.Join(r.below, ", "))
	}
	return nil
}

// readEqual reads the mutants that do what the library does: a line that names one, as it is printed but without the place in
// the file, and an indented one with the reason.
func readEqual(path string) (map[string]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	equal, last := map[string]int{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t") && last == "":
			return nil, fmt.Errorf("%s: a reason without a mutant: %s", path, line)
		case strings.HasPrefix(line, "\t"):
			equal[last]++
			last = ""
		case last != "":
			return nil, fmt.Errorf("%s: no reason for %s", path, last)
		default:
			last = line
		}
	}
	return equal, nil
}
