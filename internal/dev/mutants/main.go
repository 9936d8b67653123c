// Command mutants makes the changes of gremlins to a package and prints those that its tests do not notice.
//
// Gremlins compiles a package for each change and runs all of its tests, which takes hours for a large package. This
// command compiles all changes into one test binary and runs only the tests that execute the changed line.
//
//	go run -C internal/dev ./mutants -n 150 ../..
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
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

var (
	number   = flag.Int("n", 0, "how many changes to try, chosen at random; 0: all")
	seed     = flag.Uint64("seed", 1, "what chooses them")
	parallel = flag.Int("parallel", 2, "how many changes to try at a time")
	only     = flag.String("only", "", "pattern of the changes to try, such as 'notes.go:12:'")
	every    = flag.Bool("every", false, "also try changes that coverage does not assign to a test, with all tests")
	limit    = flag.Duration("limit", 2*time.Minute, "how long the tests of a change may take")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	folder, err := filepath.Abs(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), folder, scratch)
	if removed := os.RemoveAll(scratch); err == nil {
		err = removed
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder, scratch string) error {
	tests, err := coveredBy(ctx, folder, scratch)
	if err != nil {
		return err
	}
	changes, err := find(folder)
	if err != nil {
		return err
	}
	all := len(changes)
	changes = choose(changes, tests)
	binary, changes, err := build(ctx, folder, scratch, changes)
	if err != nil {
		return err
	}
	log.Printf("%d changes, %d to try", all, len(changes))
	results := try(ctx, folder, binary, changes, tests)
	count := map[result]int{}
	for i, r := range results {
		count[r]++
		if r != noticed {
			fmt.Println(r, changes[i].name())
		}
	}
	efficacy := 100 * float64(count[noticed]) / float64(count[noticed]+count[survived])
	fmt.Printf("%d noticed, %d survived, %d timed out: %.1f %%\n",
		count[noticed], count[survived], count[timedOut], efficacy)
	return nil
}

// choose returns the changes that the flags ask for.
func choose(changes []change, tests coverage) []change {
	pattern := regexp.MustCompile(*only)
	changes = slices.DeleteFunc(changes, func(c change) bool {
		isTested := *every || tests.of(c) != ""
		return !isTested || !pattern.MatchString(c.name())
	})
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	if *number > 0 && *number < len(changes) {
		changes = changes[:*number]
	}
	return changes
}

type result string

const (
	noticed  result = "noticed"
	survived result = "survived"
	timedOut result = "timed out"
)

// try runs the tests of each change and returns the results in the order of the changes.
func try(ctx context.Context, folder, binary string, changes []change, tests coverage) []result {
	results := make([]result, len(changes))
	var group sync.WaitGroup
	next := make(chan int)
	for range *parallel {
		group.Go(func() {
			for i := range next {
				began := time.Now()
				results[i] = tryOne(ctx, folder, binary, i+1, tests.of(changes[i]))
				took := time.Since(began).Round(time.Second)
				log.Printf("%d/%d %s %s %s", i+1, len(changes), took, results[i], changes[i].name())
			}
		})
	}
	for i := range changes {
		next <- i
	}
	close(next)
	group.Wait()
	return results
}

func tryOne(ctx context.Context, folder, binary string, number int, tests string) result {
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	test := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run", "^("+cmp.Or(tests, ".*")+")$")
	test.Dir = folder
	test.Env = append(os.Environ(), plant.Variable+"="+strconv.Itoa(number))
	test.WaitDelay = time.Second
	err := test.Run()
	switch {
	case ctx.Err() != nil:
		return timedOut
	case err != nil:
		return noticed
	default:
		return survived
	}
}

// build compiles the changes into one test binary. It leaves out those that do not compile, and those that package
// plant cannot make.
func build(ctx context.Context, folder, scratch string, changes []change) (string, []change, error) {
	binary := filepath.Join(scratch, "mutants.test")
	for {
		var field plant.Field
		kept := changes[:0:0]
		for _, c := range changes {
			if field.Plant(len(kept)+1, c.path, c.start, c.end, c.with) == nil {
				kept = append(kept, c)
			}
		}
		overlay, err := field.Write(scratch)
		if err != nil {
			return "", nil, err
		}
		out, err := exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-vet=off", "-gcflags=-e",
			"-ldflags=-w", "-overlay", overlay, "-o", binary, ".").CombinedOutput()
		if err == nil {
			return binary, kept, nil
		}
		changes = slices.Clone(kept)
		for _, number := range wrongChanges(out) {
			changes[number-1] = change{}
		}
		changes = slices.DeleteFunc(changes, func(c change) bool { return c == change{} })
		if len(changes) == len(kept) {
			return "", nil, fmt.Errorf("go test -c: %w\n%s", err, out)
		}
	}
}

// compileError is how package plant lets the compiler name the code of a change.
var compileError = regexp.MustCompile(`(?m)planted-(\d+)\.go:`)

// wrongChanges returns the numbers of the changes that the compiler complains about.
func wrongChanges(output []byte) []int {
	var numbers []int
	for _, found := range compileError.FindAllSubmatch(output, -1) {
		if number, err := strconv.Atoi(string(found[1])); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// coverage has the tests that execute each block of a file, by the file's name.
type coverage map[string]map[span][]string

// span is where a block begins and ends: line, column, line, column.
type span [4]int

func (s span) contains(line, column int) bool {
	after := line > s[0] || line == s[0] && column >= s[1]
	before := line < s[2] || line == s[2] && column < s[3]
	return after && before
}

// of returns the tests that execute the code of a change, as alternatives of a regular expression.
func (c coverage) of(of change) string {
	for at, tests := range c[filepath.Base(of.path)] {
		if at.contains(of.line, of.column) {
			return strings.Join(tests, "|")
		}
	}
	return ""
}

// coveredBy runs the package's tests one by one, and returns what each of them executes.
func coveredBy(ctx context.Context, folder, scratch string) (coverage, error) {
	binary := filepath.Join(scratch, "coverage.test")
	out, err := exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-vet=off", "-cover", "-o", binary, ".").
		CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	list := exec.CommandContext(ctx, binary, "-test.list", "^(Test|Fuzz|Example)")
	list.Dir = folder
	names, err := list.Output()
	if err != nil {
		return nil, err
	}
	executed := coverage{}
	for name := range strings.FieldsSeq(string(names)) {
		profile := filepath.Join(scratch, "profile")
		test := exec.CommandContext(ctx, binary, "-test.run", "^"+name+"$", "-test.coverprofile", profile)
		test.Dir = folder
		if out, err := test.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		if err := executed.add(name, profile); err != nil {
			return nil, err
		}
	}
	return executed, nil
}

// executedBlock is a line of a coverage profile, of a block that was executed.
var executedBlock = regexp.MustCompile(`(?m)([^/\n]+\.go):(\d+)\.(\d+),(\d+)\.(\d+) \d+ [1-9]\d*$`)

func (c coverage) add(test, profile string) error {
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	for _, found := range executedBlock.FindAllStringSubmatch(string(text), -1) {
		var at span
		for i := range at {
			if at[i], err = strconv.Atoi(found[i+2]); err != nil {
				return err
			}
		}
		file := found[1]
		if c[file] == nil {
			c[file] = map[span][]string{}
		}
		c[file][at] = append(c[file][at], test)
	}
	return nil
}
