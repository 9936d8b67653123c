// Command mutants changes the library in small ways, one at a time, and sees whether a test notices: the places and the kinds
// of change are those that gremlins finds, the tests those of a change that go through the place.
//
//	go run ./internal/dev/mutants                                    all packages; the table in RESULTS.md is made anew
//	go run ./internal/dev/mutants -package internal/poll,ingest      some of them
//	go run ./internal/dev/mutants -package . -slice 3/20             a twentieth of the mutants of each
//	go run ./internal/dev/mutants -package . -only 'wait.go:1[0-9]+' those of certain lines, without a table
//
// Gremlins itself would compile for each mutant and run all tests of a package. Here one program holds all mutants of a
// package, and the environment chooses one; each test was run alone once, to know which lines it reaches. What is written in
// EQUAL.txt is not counted: these mutants do what the library does. With a folder as -cache, the next run of the same functions
// is about the mutants that lived. It needs a shell that knows ulimit.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// subject is a package of the library: its folder, and the folders of the tests that may notice a mistake in it.
type subject struct {
	folder string
	judges []string
}

var subjects = []subject{
	{".", []string{".", "ingest"}},
	{"ingest", []string{"ingest"}},
	{"ingest/jetstream", []string{"ingest/jetstream"}},
	{"internal/creates", []string{"internal/creates", "."}},
	{"internal/disk", []string{"internal/disk", "ingest", "."}},
	{"internal/disk/durable", []string{"internal/disk/durable", "ingest"}},
	{"internal/download", []string{"internal/download", "."}},
	{"internal/exchange", []string{"internal/exchange", "."}},
	{"internal/fileheader", []string{"internal/fileheader", "internal/exchange", "."}},
	{"internal/jsonscan", []string{"internal/jsonscan", "internal/tolerant", "."}},
	{"internal/list", []string{"internal/list", "."}},
	{"internal/poll", []string{"internal/poll", "."}},
	{"internal/redact", []string{"internal/redact", "."}},
	{"internal/tolerant", []string{"internal/tolerant", "internal/jsonscan", "."}},
}

type settings struct {
	packages string
	slice    string
	only     string
	workers  int
	cache    string
}

func main() {
	var s settings
	flag.StringVar(&s.packages, "package", "", "folders of packages, with commas; without it all")
	flag.StringVar(&s.slice, "slice", "1/1", "which part of the mutants, of how many")
	flag.StringVar(&s.only, "only", "", "pattern of the places, as file:line; then no table is written")
	flag.IntVar(&s.workers, "workers", 3, "how many mutants at a time")
	flag.StringVar(&s.cache, "cache", "", "folder that keeps which tests reach which lines, and what was killed, for the next run of the same functions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	here := filepath.Join(root, "internal", "dev", "mutants")
	if _, err := os.Stat(here); err != nil {
		return errors.New("run it from the repository's root")
	}
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cache, err := filepath.Abs(cmp.Or(s.cache, folder))
	if err != nil {
		return err
	}
	l := &laboratory{root: root, folder: folder, workers: s.workers, cache: cache}
	all, err := l.find(ctx)
	if err != nil {
		return err
	}
	equal, err := readEqual(filepath.Join(here, "EQUAL.txt"))
	if err != nil {
		return err
	}
	r := &report{path: filepath.Join(here, "RESULTS.md"), equal: equal}
	for _, subject := range subjects {
		if s.packages != "" && !slices.Contains(strings.Split(s.packages, ","), subject.folder) {
			continue
		}
		began := time.Now()
		mutants, total, err := choose(all[subject.folder], s)
		if err == nil {
			err = l.judge(ctx, subject, mutants)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", subject.folder, err)
		}
		if err := r.add(subject.folder, total, mutants, s.only != "", time.Since(began)); err != nil {
			return err
		}
	}
	return r.verdict()
}

// choose takes a slice of the mutants: every so many, so that each slice has some of each file.
func choose(all []*mutant, s settings) (chosen []*mutant, total int, err error) {
	var part, parts int
	if _, err := fmt.Sscanf(s.slice, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		return nil, 0, fmt.Errorf("%q is no slice such as 3/20", s.slice)
	}
	only, err := regexp.Compile(s.only)
	if err != nil {
		return nil, 0, err
	}
	for i, m := range all {
		if i%parts == part-1 && only.MatchString(fmt.Sprintf("%s:%d", m.file, m.line)) {
			chosen = append(chosen, m)
		}
	}
	return chosen, len(all), nil
}

// laboratory is where mutants live.
type laboratory struct {
	root, folder string
	workers      int
	cache        string
	known        map[string][]test // which tests reach what, by the folder of the tests
}

// each calls the function for each index, as many at a time as there are workers.
func (l *laboratory) each(n int, do func(int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}
