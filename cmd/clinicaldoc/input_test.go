//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// input is a place that a command reads from. FIFO in its arguments is the path of a FIFO.
type input struct {
	args  []string
	env   []string
	stdin bool // standard input is a pipe that the test writes to; else the test writes to the FIFO
}

const fifoArg = "FIFO"

// inputs are all places that commands read from and that may not end.
func inputs(srv *clinicaldoctest.Server) map[string]input {
	noAccount := []string{"CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN="}
	put := []string{"api", "PUT", "/v1/progress-notes/1"}
	return map[string]input{
		"token from standard input":    {args: []string{"login", srv.URL}, env: noAccount, stdin: true},
		"body from standard input":     {args: append(put, "--input", "-"), stdin: true},
		"body from a FIFO":             {args: append(put, "--input", fifoArg)},
		"field from standard input":    {args: append(put, "-F", "analysis=@-"), stdin: true},
		"field from a FIFO":            {args: append(put, "-F", "analysis=@"+fifoArg)},
		"manifest from standard input": {args: []string{"upload", "--begin", "--manifest", "/dev/stdin"}, stdin: true},
		"manifest from a FIFO":         {args: []string{"upload", "--begin", "--manifest", fifoArg}},
	}
}

// started is a command that reads from an input.
type started struct {
	*exec.Cmd
	said *strings.Builder
	feed *os.File // where the test writes what the command reads
}

// start runs a command under a limit of its memory.
func (in input) start(t *testing.T, srv *clinicaldoctest.Server) *started {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	args := []string{"-c", `ulimit -v 4000000; exec "$@"`, "sh", "clinicaldoc"}
	for _, arg := range in.args {
		args = append(args, strings.ReplaceAll(arg, fifoArg, fifo))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	p := &started{Cmd: exec.CommandContext(ctx, "sh", args...), said: &strings.Builder{}}
	p.Env = append(append(os.Environ(), environment(t, srv)...), in.env...)
	p.Stdout, p.Stderr = p.said, p.said
	var err error
	if in.stdin {
		var stdin *os.File
		stdin, p.feed, err = os.Pipe()
		require.NoError(t, err)
		p.Stdin = stdin
		defer func() { assert.NoError(t, stdin.Close()) }()
	}
	require.NoError(t, p.Start())
	if !in.stdin {
		// Blocks until the command has opened the other end.
		p.feed, err = os.OpenFile(fifo, os.O_WRONLY, 0)
		require.NoError(t, err)
	}
	t.Cleanup(func() { _ = p.feed.Close() })
	return p
}

// awaitReader waits until the command has read what was written, so that it waits for more.
func (p *started) awaitReader(t *testing.T) {
	t.Helper()
	_, err := p.feed.WriteString("x")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		waiting, err := unix.IoctlGetInt(int(p.feed.Fd()), unix.TIOCINQ)
		return err == nil && waiting == 0
	}, 30*time.Second, time.Millisecond, "the command does not read")
}

// inputTable is what became of each input at each signal.
type inputTable struct {
	mu    sync.Mutex
	cells map[string]map[syscall.Signal]string
}

func (table *inputTable) set(name string, signal syscall.Signal, cell string) {
	table.mu.Lock()
	defer table.mu.Unlock()
	if table.cells == nil {
		table.cells = map[string]map[syscall.Signal]string{}
	}
	if table.cells[name] == nil {
		table.cells[name] = map[syscall.Signal]string{}
	}
	table.cells[name][signal] = cell
}

// String is the table in Markdown.
func (table *inputTable) String() string {
	text := "| input | Ctrl-C (INT) | TERM |\n|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(table.cells)) {
		row := table.cells[name]
		text += fmt.Sprintf("| %s | %s | %s |\n", name, row[syscall.SIGINT], row[syscall.SIGTERM])
	}
	return text
}

// Every read of an input ends at the first signal, although the input goes on. With -v the test prints a table.
func TestInput_FirstSignal_EndsEveryRead(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	var table inputTable
	t.Cleanup(func() { t.Logf("\n%s", &table) })
	for name, in := range inputs(srv) {
		for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(name+", "+signal.String(), func(t *testing.T) {
				t.Parallel()
				p := in.start(t, srv)
				p.awaitReader(t)
				sent := time.Now()
				require.NoError(t, p.Process.Signal(signal))
				got := exitCode(t, p.Wait())
				table.set(name, signal, fmt.Sprintf("exit %d after %v", got, time.Since(sent).Round(time.Millisecond)))
				assert.Equal(t, code, got, p.said.String())
				assert.Contains(t, p.said.String(), "interrupted")
			})
		}
	}
}

// Opening a FIFO without a writer blocks, and ends at the first signal too.
func TestInput_FIFOWithoutWriter_EndsAtFirstSignal(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for name, in := range inputs(srv) {
		if in.stdin {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, unix.Mkfifo(fifo, 0o600))
			args := make([]string, 0, len(in.args)+1)
			for _, arg := range in.args {
				args = append(args, strings.ReplaceAll(arg, fifoArg, fifo))
			}
			p, said := newCLI(t, srv, in.env...).command(append(args, "--debug")...)
			require.NoError(t, p.Start())
			awaitOpen(t, p.Process.Pid)
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			assert.Equal(t, 143, exitCode(t, p.Wait()), said)
		})
	}
}

// awaitOpen waits until a thread of the process blocks in the opening of a FIFO.
func awaitOpen(t *testing.T, pid int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("this system does not tell where a process waits: ", err)
	}
	require.Eventually(t, func() bool {
		places, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/wchan")
		if err != nil {
			return false
		}
		for _, place := range places {
			if where, err := os.ReadFile(place); err == nil && strings.Contains(string(where), "wait_for_partner") {
				return true
			}
		}
		return false
	}, 30*time.Second, time.Millisecond, "the FIFO is not opened")
}

// An input without an end is read up to its bound, and no further.
func TestInput_Endless_IsReadUpToItsBound(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for name, in := range inputs(srv) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 64 << 20
			if in.args[0] == "login" {
				limit = 64 << 10
			}
			p := in.start(t, srv)
			fed := feedEndless(p.feed)
			assert.Equal(t, 2, exitCode(t, p.Wait()), p.said.String())
			assert.Contains(t, p.said.String(), "longer than 64 ")
			assert.LessOrEqual(t, fed, limit+(2<<20), "bytes were read or are in the pipe")
			assert.Less(t, len(p.said.String()), 4096)
		})
	}
	assert.Empty(t, srv.Requests())
}

// feedEndless writes until nobody reads any more, or 300 MB.
func feedEndless(to *os.File) (fed int) {
	block := []byte(strings.Repeat("x", 1<<20))
	for fed < 300<<20 {
		n, err := to.Write(block)
		fed += n
		if err != nil {
			break
		}
	}
	return fed
}

// If the path of a token or of the settings leads to something other than a regular file, the command rejects it
// without reading.
func TestInput_SettingsAreAFIFO_AreRejected(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for _, name := range []string{"config.json", "tokens/ward.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := newCLI(t, srv, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
			run.login(srv, "ward")
			path := filepath.Join(configDir(run.env), filepath.FromSlash(name))
			require.NoError(t, os.Remove(path))
			require.NoError(t, unix.Mkfifo(path, 0o600))
			said, code := run.run("whoami") // it would wait for the FIFO's writer for ever
			assert.NotZero(t, code)
			assert.Contains(t, said, "is not a regular file")
		})
	}
}

// A FIFO is rejected where only a file makes sense: nothing waits for it.
func TestInput_FIFOInPlaceOfAFile_IsRejected(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	upload := []string{"upload", "--begin", "--patient", "7", "--prompt", "1"}
	for name, args := range map[string][]string{
		"recording":             slices.Concat(upload, []string{fifoArg}),
		"journal":               slices.Concat(upload, []string{"--journal", fifoArg, os.Args[0]}),
		"journal that is read":  {"upload", "status", "--journal", fifoArg},
		"journal that is moved": {"upload", "rename", fifoArg},
		"state of a watch":      {"watch", "--count", "1", "--state", fifoArg},
		"credentials of a fleet": slices.Concat(upload,
			[]string{"--nats", "nats://127.0.0.1:1", "--nats-creds", fifoArg, os.Args[0]}),
		"target of an export":     {"export", fifoArg},
		"file of the audit trail": {"notes", "show", "1", "--audit", fifoArg},
		"seed of the box":         {"box", "-addr", "127.0.0.1:0", "-seed", fifoArg},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "visit.wav")
			require.NoError(t, unix.Mkfifo(fifo, 0o600))
			args := slices.Clone(args)
			args[slices.Index(args, fifoArg)] = fifo
			said, code := newCLI(t, srv).run(args...) // it would wait for the FIFO's writer for ever
			assert.Positive(t, code, said)
			assert.Contains(t, said, "clinicaldoc: ")
			assert.Empty(t, srv.Notes())
		})
	}
}

// configDir is the folder of the settings in an environment.
func configDir(env []string) string {
	for _, pair := range env {
		if folder, ok := strings.CutPrefix(pair, "CLINICALDOC_CONFIG_DIR="); ok {
			return folder
		}
	}
	return ""
}
