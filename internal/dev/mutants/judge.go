package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/plant"
)

// batch is what one process runs: tests of one folder.
type batch struct {
	folder string
	tests  []string
	took   time.Duration
	cpu    time.Duration
}

// judge gives each mutant its verdict.
func (l *laboratory) judge(ctx context.Context, s subject, mutants []*mutant) error {
	before, err := l.killedBefore()
	if err != nil {
		return err
	}
	trials := make([][]batch, len(mutants))
	for i, m := range mutants {
		if before[m.same] {
			m.verdict = killed
		}
		if m.verdict != "" {
			continue
		}
		for _, folder := range s.judges {
			tests, err := l.tests(ctx, folder)
			if err != nil {
				return err
			}
			trials[i] = append(trials[i], batches(folder, tests, m)...)
		}
	}
	planted, err := l.plant(ctx, s, mutants)
	if err != nil {
		return err
	}
	for i, m := range mutants {
		if m.verdict == "" && trials[i] == nil {
			m.verdict = notCovered
		}
	}
	failures := make([]error, len(mutants))
	l.each(len(mutants), func(i int) {
		m := mutants[i]
		if m.verdict == "" && ctx.Err() == nil {
			failures[i] = l.judgeOne(ctx, m, planted, trials[i])
			if m.verdict == killed {
				failures[i] = errors.Join(failures[i], l.remember(m))
			}
		}
		if m.verdict != killed && m.verdict != notViable {
			fmt.Printf("%s: %s\n", m.verdict, m)
		}
	})
	return errors.Join(errors.Join(failures...), ctx.Err())
}

// killedBefore are the mutants that a run with the same cache killed, while their functions are as they were.
func (l *laboratory) killedBefore() (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(l.cache, "killed.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	before := map[string]bool{}
	for same := range strings.FieldsSeq(string(text)) {
		before[same] = true
	}
	return before, nil
}

func (l *laboratory) remember(m *mutant) error {
	file, err := os.OpenFile(filepath.Join(l.cache, "killed.txt"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(m.same + "\n")
	return errors.Join(err, file.Close())
}

func (l *laboratory) judgeOne(ctx context.Context, m *mutant, p *programs, trials []batch) (err error) {
	if p.apart[m.number] {
		if p, err = l.apart(ctx, m, trials); p != nil {
			defer func() { _ = os.RemoveAll(p.folder) }()
		}
	}
	if err == nil && m.verdict == "" {
		m.verdict, err = l.try(ctx, m, p, trials)
	}
	return err
}

// batches are the tests that reach the mutant, the quickest first: most mutants need no more than these.
func batches(folder string, tests []test, m *mutant) (list []batch) {
	limit := time.Second
	for _, t := range tests { // sorted by how long they take
		if !t.reaches(m) {
			continue
		}
		if len(list) == 0 || list[len(list)-1].took+t.Took > limit && len(list[len(list)-1].tests) > 0 {
			list, limit = append(list, batch{folder: folder}), 4*limit
		}
		b := &list[len(list)-1]
		b.tests, b.took, b.cpu = append(b.tests, t.Name), b.took+t.Took, b.cpu+t.CPU
	}
	return list
}

// try runs the tests until one notices the mutant.
func (l *laboratory) try(ctx context.Context, m *mutant, p *programs, trials []batch) (verdict, error) {
	for _, b := range trials {
		binary, err := p.binary(ctx, b.folder)
		if err != nil {
			return "", err
		}
		for again := true; again; {
			found, by, err := b.run(ctx, m, binary, p.fit(b.folder, b.tests))
			if err != nil {
				return "", err
			}
			if again = found == killed && by != "" && !p.passes(ctx, b.folder, binary, by); !again && found != lived {
				return found, nil
			}
		}
	}
	return lived, nil
}

// run runs tests on a mutant, and says which one failed.
func (b batch) run(ctx context.Context, m *mutant, binary string, tests []string) (found verdict, by string, err error) {
	if len(tests) == 0 {
		return lived, "", nil
	}
	// A loop without end is told by processor time, since others may keep the machine busy; a deadlock by the clock.
	timed, cancel := context.WithTimeout(ctx, 30*time.Second+10*b.took)
	defer cancel()
	run := exec.CommandContext(timed, "sh", "-c", `ulimit -t "$1"; shift; exec "$@"`, "sh", strconv.Itoa(5+int(3*b.cpu.Seconds())),
		binary, "-test.failfast", "-test.timeout", "0", "-test.run", "^("+strings.Join(tests, "|")+")$")
	run.Dir, run.Env, run.WaitDelay = b.folder, append(os.Environ(), plant.Variable+"="+strconv.Itoa(m.number)), time.Second
	out, _ := run.CombinedOutput() // how it ended is asked of the process
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case run.ProcessState == nil:
		return "", "", fmt.Errorf("%s cannot be run", binary)
	case run.ProcessState.Success():
		return lived, "", nil
	case timed.Err() != nil, strings.HasPrefix(run.ProcessState.String(), "signal:"):
		return timedOut, "", nil
	}
	if failed := regexp.MustCompile(`(?m)^--- FAIL: (\w+)`).FindSubmatch(out); failed != nil {
		by = string(failed[1])
	}
	return killed, by, nil
}

// programs are test binaries with mutants.
type programs struct {
	folder  string // where they are
	overlay string
	apart   map[int]bool // what cannot lie beside others

	building sync.Mutex
	made     map[string]string

	mu     sync.Mutex
	passed map[string]bool // whether a test passes without a mutant, by folder and name; nil: the mutant cannot be left out
}

// flags let the compiler tell all that is wrong, of each package of ours.
const flags = "-gcflags=" + module + "/...=-e"

func (p *programs) binary(ctx context.Context, folder string) (string, error) {
	p.building.Lock()
	defer p.building.Unlock()
	if made := p.made[folder]; made != "" {
		return made, nil
	}
	made := filepath.Join(p.folder, strings.ReplaceAll(folder, "/", "-")+".test")
	build := exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-vet=off", "-ldflags=-w", flags, "-overlay", p.overlay, "-o", made, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	p.made[folder] = made
	return made, nil
}

// fit are the tests but those that are known to fail without a mutant.
func (p *programs) fit(folder string, tests []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
		passed, known := p.passed[folder+" "+name]
		return known && !passed
	})
}

// passes runs a test without a mutant: what fails then, because it looks at sources or counts what they allocate, judges nothing.
func (p *programs) passes(ctx context.Context, folder, binary, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed, known := p.passed[folder+" "+name]
	if p.passed == nil {
		return true
	}
	if !known {
		run := exec.CommandContext(ctx, binary, "-test.run", "^"+name+"$")
		run.Dir = folder
		if passed = run.Run() == nil; !passed {
			fmt.Printf("%s %s fails without a mutant: it judges nothing\n", folder, name)
		}
		p.passed[folder+" "+name] = passed
	}
	return passed
}

// plant makes one program of all mutants that can be compiled.
func (l *laboratory) plant(ctx context.Context, s subject, mutants []*mutant) (*programs, error) {
	p := &programs{apart: map[int]bool{}, made: map[string]string{}, passed: map[string]bool{}}
	var err error
	if p.folder, err = os.MkdirTemp(l.folder, "planted"); err != nil {
		return nil, err
	}
	for {
		var field plant.Field
		for _, m := range mutants {
			if m.verdict != "" {
				continue
			}
			err := field.Plant(m.number, filepath.Join(l.root, m.file), m.start, m.end, m.with)
			if errors.Is(err, plant.ErrApart) {
				p.apart[m.number] = true
			} else if err != nil {
				return nil, err
			}
		}
		if p.overlay, err = field.Write(p.folder); err != nil {
			return nil, err
		}
		out, err := exec.CommandContext(ctx, "go", "build", "-C", s.folder, flags, "-overlay", p.overlay, ".").CombinedOutput()
		if err == nil {
			return p, nil
		}
		if !markBroken(mutants, string(out)) {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
	}
}

// markBroken says of which mutants the compiler complains.
func markBroken(mutants []*mutant, out string) (some bool) {
	for _, found := range regexp.MustCompile(`planted-(\d+)\.go:`).FindAllStringSubmatch(out, -1) {
		i := slices.IndexFunc(mutants, func(m *mutant) bool { return strconv.Itoa(m.number) == found[1] })
		some = some || mutants[i].verdict == ""
		mutants[i].verdict = notViable
	}
	return some
}

// apart makes programs of one mutant alone.
func (l *laboratory) apart(ctx context.Context, m *mutant, trials []batch) (*programs, error) {
	p := &programs{made: map[string]string{}}
	var err error
	if p.folder, err = os.MkdirTemp(l.folder, "apart"); err != nil {
		return nil, err
	}
	path := filepath.Join(l.root, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	instead := filepath.Join(p.folder, "mutant.go")
	if err := os.WriteFile(instead, []byte(string(text[:m.start])+m.with+string(text[m.end:])), 0o600); err != nil {
		return p, err
	}
	if p.overlay, err = plant.WriteOverlay(p.folder, map[string]string{path: instead}); err != nil {
		return p, err
	}
	if _, err := p.binary(ctx, trials[0].folder); err != nil && ctx.Err() == nil {
		m.verdict = notViable
	}
	return p, nil
}
