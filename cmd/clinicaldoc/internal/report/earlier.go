package report

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxEarlier bounds how many runs before the last one are told.
const maxEarlier = 5

// earlier are the runs of the day before this one that still need somebody, the last one first.
func (r *Run) earlier(folder string, before []string) (list []Earlier) {
	later := newLaterRuns()
	later.add(r)
	for _, name := range slices.Backward(before) {
		run, err := Read(filepath.Join(folder, name))
		if r.Began.Sub(run.Began) > 24*time.Hour || len(list) == maxEarlier {
			break
		}
		if err == nil && later.leaveOpen(&run) {
			list = append(list, Earlier{run.ID, run.Began, run.outcomeAndWhy()})
		}
		later.add(&run)
	}
	return list
}

// laterRuns is what the runs after another one say of its recordings.
type laterRuns struct {
	toTheEnd bool            // one of them has a result for each of its recordings
	named    map[string]bool // files and keys that one of them names, whatever became of them
	settled  map[string]bool // files that have a note, or that are unresolved there as well
	commands map[string]bool // command lines that found recordings
}

func newLaterRuns() *laterRuns {
	return &laterRuns{named: map[string]bool{}, settled: map[string]bool{}, commands: map[string]bool{}}
}

func (l *laterRuns) add(r *Run) {
	l.toTheEnd = l.toTheEnd || r.toTheEnd()
	if r.Total > 0 {
		l.commands[r.commandLine()] = true
	}
	for _, x := range slices.Concat(r.Recordings, r.Followed, r.Unfinished) {
		l.named[x.File] = true
		l.named[x.Key] = true
	}
	for _, x := range slices.Concat(r.Done(), r.unresolved()) {
		l.settled[x.File] = true
	}
	for _, left := range r.LeftOut {
		l.named[left.File] = true
	}
}

// leaveOpen reports whether a run needs somebody, as far as no later one names the same recordings.
func (l *laterRuns) leaveOpen(r *Run) bool {
	if r.Class() == classGood {
		return false
	}
	if slices.ContainsFunc(r.unresolved(), func(x Recording) bool { return !l.settled[x.File] }) {
		return true
	}
	rest := slices.Concat(r.Open(), r.Unfinished)
	if len(rest) == 0 && r.ended() == 0 {
		return l.leaveOpenUnbegun(r)
	}
	for _, left := range r.LeftOut {
		rest = append(rest, Recording{File: left.File})
	}
	isOpen := func(x Recording) bool { return !l.names(x) && !removed(x.File) }
	return l.leaveGapOpen(r) || slices.ContainsFunc(rest, isOpen)
}

// leaveGapOpen reports whether results that could not be written need somebody: one of the planned recordings is not
// named by a later run. If not all of those are known, it is enough that a later run has all its results.
func (l *laterRuns) leaveGapOpen(r *Run) bool {
	if r.Missing() == 0 {
		return false
	}
	if len(r.planned) < r.Total {
		return !l.toTheEnd
	}
	return slices.ContainsFunc(r.planned, func(x Recording) bool { return !l.names(x) })
}

// names reports whether a later run names a recording. One of an earlier upload has a key alone.
func (l *laterRuns) names(x Recording) bool { return l.named[cmp.Or(x.File, x.Key)] }

// usageCode is the exit code of a mistake on the command line, which whoever made it has seen.
const usageCode = 2

// leaveOpenUnbegun is leaveOpen for a run that came to no recording.
func (l *laterRuns) leaveOpenUnbegun(r *Run) bool {
	switch {
	case !r.Empty && l.commands[r.commandLine()]:
		return false
	case len(r.LeftOut) > 0: // a folder or a manifest that could not be read
		return slices.ContainsFunc(r.LeftOut, func(left LeftOut) bool { return !l.namesBelow(left.File) })
	}
	return r.Code != usageCode && !l.toTheEnd
}

// namesBelow reports whether a later run names something in the folder.
func (l *laterRuns) namesBelow(folder string) bool {
	if l.named[folder] {
		return true
	}
	for file := range l.named {
		if strings.HasPrefix(file, filepath.Clean(folder)+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// commandLine tells command lines of several folders apart.
func (r *Run) commandLine() string { return r.Folder + "\x00" + r.Command }

// toTheEnd reports whether the run has a result for each of its recordings, and the report has them all.
func (r *Run) toTheEnd() bool {
	if r.Running || r.CutOff() {
		return false
	}
	hasResults := r.Total > 0 && r.Left() == 0 && r.Missing() == 0
	return r.Code == 0 || hasResults && !r.Fleet
}

func (r *Run) unresolved() (list []Recording) {
	for _, x := range r.Recordings {
		if x.Status == Unresolved {
			list = append(list, x)
		}
	}
	return list
}

// removed reports whether somebody has removed a file. In an empty folder, or in none, a share may not be mounted.
func removed(file string) bool {
	if file == "" {
		return false
	}
	if _, err := os.Lstat(file); !os.IsNotExist(err) {
		return false
	}
	others, err := os.ReadDir(filepath.Dir(file))
	return err == nil && len(others) > 0
}
