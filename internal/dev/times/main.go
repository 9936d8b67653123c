// Command times runs the root module's tests as go test ./... does, though none from the cache, and tells how long each
// package's take and how much of a processor. On a busy machine only the latter says something. Flags of go test may follow.
//
//	go run ./internal/dev/times [-race ...]
package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// notesVariable holds the file to which each package's test binary is noted: go test starts it by this program.
const notesVariable = "CLINICALDOC_TIMES"

func main() {
	var code int
	var err error
	if notes := os.Getenv(notesVariable); notes != "" {
		code, err = runOne(notes, os.Args[1:])
	} else {
		code, err = runAll(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// taken is what a program took.
type taken struct {
	name           string
	wall, user, of time.Duration // of: the system
}

func (t taken) String() string {
	return fmt.Sprintf("%8.1f s %8.1f s   %s", t.wall.Seconds(), (t.user + t.of).Seconds(), t.name)
}

// run runs a command to its end. Its times are those of all that it started and waited for.
func run(command *exec.Cmd, name string) (t taken, code int, err error) {
	command.Stderr = os.Stderr
	began := time.Now()
	err = command.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return taken{}, 1, err
	}
	state := command.ProcessState
	return taken{name, time.Since(began), state.UserTime(), state.SystemTime()}, state.ExitCode(), nil
}

// runOne runs a test binary and notes what it took.
func runOne(notes string, words []string) (int, error) {
	folder, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	binary := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // what go test has built
	binary.Stdout = os.Stdout
	t, code, err := run(binary, folder)
	if err != nil {
		return 1, err
	}
	file, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1, err
	}
	_, err = fmt.Fprintf(file, "%d %d %d %s\n", t.wall, t.user, t.of, t.name)
	return code, errors.Join(err, file.Close())
}

func runAll(flags []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	folder, err := os.MkdirTemp("", "times")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	notes := filepath.Join(folder, "notes")
	command := exec.Command("go", append([]string{"test", "-count=1", "-exec", self}, append(flags, "./...")...)...) //nolint:gosec,noctx // the go command
	command.Env = append(os.Environ(), notesVariable+"="+notes)
	command.Stdout = os.Stderr
	whole, code, err := run(command, "go test, building and linking included")
	if err != nil {
		return 1, err
	}
	packages, err := read(notes)
	if err != nil {
		return 1, err
	}
	fmt.Println("      wall  processor")
	for _, t := range append(packages, whole) {
		fmt.Println(t)
	}
	return code, nil
}

func read(notes string) ([]taken, error) {
	file, err := os.Open(notes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var all []taken
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var t taken
		words := strings.SplitN(lines.Text(), " ", 4)
		if _, err := fmt.Sscan(strings.Join(words[:3], " "), &t.wall, &t.user, &t.of); err != nil {
			return nil, err
		}
		if t.name, err = filepath.Rel(root, words[3]); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b taken) int { return cmp.Compare(b.user+b.of, a.user+a.of) })
	return all, nil
}
