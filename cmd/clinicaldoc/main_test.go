package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // scripts choose a time zone, which this system may not have

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"clinicaldoc": main})
}

// What must not be seen: a token never, names and texts only where they are asked for.
const (
	canaryToken   = "1|canaryTokenQ7zXw"
	canaryName    = "CanaryName Vfollow"
	canaryPatient = "CanaryPatient Vperson"
	canaryText    = "CanaryText Vfindings"
	signature     = "ignature="
)

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// Every script runs against the service as its description is filled in several ways.
func TestScripts_EachVariant_Pass(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "framework", "cursor", "flat", "drifting"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variant, ok := clinicaldoctest.VariantNamed(name)
			require.True(t, ok)
			runScripts(t, "testdata/variants", variant)
		})
	}
}

// With stop, which is testscript's own, a script passes without the lines after it.
func TestScripts_EachOne_RunsToItsEnd(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.NotRegexp(t, `(?m)^stop\b`, string(text), path)
	}
}

// Scripts whose result does not depend on the variant of the service run once.
func TestScripts_OneService_Pass(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/once", clinicaldoctest.Variant{})
}

func runScripts(t *testing.T, folder string, variant clinicaldoctest.Variant) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a shell")
	}
	testscript.Run(t, testscript.Params{
		Dir: folder, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error { return setUp(t, e, variant) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits(false), "reveals": exits(true), "requests": requests, "notes": notes,
			"advance": advance, "quick": quick, "slow": slow, "shutdown": shutdown,
			"fault": fault, "clear": clearFaults, "answer": answer, "script": script, "later": later,
		},
	})
}

const serverKey = "server"

// setUp gives each script a service of its own, with a user, a patient and four notes of which two are complete.
func setUp(t *testing.T, e *testscript.Env, variant clinicaldoctest.Variant) error {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(variant), clinicaldoctest.WithFrozenClock(start), clinicaldoctest.WithToken(canaryToken), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	e.Values[serverKey] = srv
	e.Defer(func() {
		srv.Close()
		checkFolder(t, e.WorkDir)
	})
	srv.AddToken(1, "another device")
	srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: canaryPatient})
	for i, stage := range []clinicaldoctest.Stage{clinicaldoctest.StageComplete, clinicaldoctest.StageComplete, clinicaldoctest.StageTranscribing, clinicaldoctest.StageFailed} {
		n := clinicaldoctest.Note{ID: int64(i + 1), PatientID: 7, Name: canaryName, Stage: stage, Stuck: true, Transcription: canaryText + " said", Analysis: canaryText + " found", CreatedAt: start.Add(-time.Hour)}
		if stage == clinicaldoctest.StageFailed {
			n.ErrorState = "CanaryText error"
		}
		srv.AddNote(n)
	}
	query := srv.Variant().Query
	e.Setenv("CLINICALDOC_BASE_URL", srv.URL)
	e.Setenv("CLINICALDOC_TOKEN", canaryToken)
	e.Setenv("CLINICALDOC_QUERY_NAMES", account.QueryNames(query).String())
	e.Setenv("URL", srv.URL)
	e.Setenv("GORACE", os.Getenv("GORACE"))
	e.Setenv("PORT", srv.URL[strings.LastIndex(srv.URL, ":")+1:])
	e.Setenv("TOKEN", canaryToken)
	e.Setenv("OTHER", srv.AddUser(clinicaldoctest.User{}).Token)
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("CLINICALDOC_CONFIG_DIR", filepath.Join(e.WorkDir, "config"))
	e.Setenv("CLINICALDOC_STATE_DIR", filepath.Join(e.WorkDir, "state"))
	e.Setenv("CLINICALDOC_KEYRING", "off")
	e.Setenv(seededFault, os.Getenv(seededFault))
	return nil
}

// seededFault chooses a fault in a program that was compiled with some. Scripts see only the variables set here.
const seededFault = "PLANTED"

// checkFolder looks at what a script leaves behind: settings, journals and lists of commands hold no secrets.
func checkFolder(t *testing.T, folder string) {
	t.Helper()
	assert.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name := filepath.ToSlash(strings.TrimPrefix(path, folder))
		isToken := strings.HasPrefix(name, "/config/tokens/") || strings.HasSuffix(name, "token.txt")
		assert.False(t, bytes.Contains(text, []byte(canaryToken)) && !isToken, "a token in %s", name)
		if strings.HasPrefix(name, "/config/") || strings.HasPrefix(name, "/state/journals/") {
			for _, canary := range []string{canaryName, canaryPatient, canaryText, "visit-"} {
				assert.NotContains(t, string(text), canary, name)
			}
		}
		if isToken && strings.HasPrefix(name, "/config/") {
			info, err := entry.Info()
			assert.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
		}
		return err
	}))
}

func server(ts *testscript.TestScript) *clinicaldoctest.Server {
	return ts.Value(serverKey).(*clinicaldoctest.Server)
}

// exits runs a program, wants an exit code, and looks for what must not be printed.
func exits(revealed bool) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 2 {
			ts.Fatalf("usage: exits CODE PROGRAM ARGUMENTS...")
		}
		want, err := strconv.Atoi(args[0])
		ts.Check(err)
		got := 0
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			got = -1
			if _, scanErr := fmt.Sscanf(err.Error(), "exit status %d", &got); scanErr != nil {
				ts.Fatalf("%v", err)
			}
		}
		if got != want {
			ts.Fatalf("exit code %d instead of %d", got, want)
		}
		said := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		canaries := []string{canaryToken, "canaryToken", signature}
		if !revealed {
			canaries = append(canaries, canaryName, canaryPatient, canaryText, "CanaryText", "visit-")
		}
		for _, canary := range canaries {
			if strings.Contains(said, canary) {
				ts.Fatalf("%q was printed", canary)
			}
		}
	}
}

// advance moves the service's clock.
func advance(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	server(ts).Advance(d)
}

// fault injects one: fault 'GET /user' status=500:always.
func fault(ts *testscript.TestScript, _ bool, args []string) {
	f, err := clinicaldoctest.ParseFault(args[1])
	ts.Check(err)
	server(ts).Inject(args[0], f)
}

// requests wants so many requests to a route since the last time.
func requests(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	for _, r := range server(ts).Requests() {
		if len(args) < 2 || r.Route == args[1] {
			got++
		}
	}
	server(ts).ForgetRequests()
	if got != want {
		ts.Fatalf("%d requests instead of %d", got, want)
	}
}

// notes wants so many notes on the service.
func notes(ts *testscript.TestScript, _ bool, args []string) {
	if got := strconv.Itoa(len(server(ts).Notes())); got != args[0] {
		ts.Fatalf("%s notes instead of %s", got, args[0])
	}
}

// shutdown ends the service. Its name is not stop, because testscript's own stop ends the script. From then on, the
// commands use a port that no test listens on: another server may get the one that was used.
func shutdown(ts *testscript.TestScript, _ bool, _ []string) {
	server(ts).Close()
	ts.Setenv("CLINICALDOC_BASE_URL", "http://127.0.0.1:1")
}

// quick lets time pass and every stage take none.
func quick(ts *testscript.TestScript, _ bool, _ []string) {
	server(ts).SetDelays(clinicaldoctest.Delays{})
	server(ts).Unfreeze()
}

// slow lets the service take an hour to process what is uploaded from now on.
func slow(ts *testscript.TestScript, _ bool, _ []string) {
	server(ts).SetDelays(clinicaldoctest.Delays{Transcribing: time.Hour})
}

// script lets the service fail to process the next recordings, with these error states; "" is processed.
func script(ts *testscript.TestScript, _ bool, args []string) {
	for _, state := range args {
		server(ts).ScriptNext(clinicaldoctest.Script{TranscriptionError: state})
	}
}

// answer lets a route respond once with a status and a text: answer 'GET /user' 200 '<html>'.
func answer(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	server(ts).Inject(args[0], clinicaldoctest.Answer(status, args[2]))
}

// later writes the first line of a journal as a later version may.
func later(ts *testscript.TestScript, _ bool, args []string) {
	const line = "clinicaldoc-ingest 99 https://service.example"
	sum := crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf(nil, "%08x %s\n", sum, line), 0o600))
}

// clearFaults takes back every fault.
func clearFaults(ts *testscript.TestScript, _ bool, _ []string) { server(ts).ClearFaults() }

// environment is that of a user of the service.
func environment(t *testing.T, srv *clinicaldoctest.Server) []string {
	t.Helper()
	folder := t.TempDir()
	return []string{
		"CLINICALDOC_BASE_URL=" + srv.URL, "CLINICALDOC_TOKEN=" + srv.Token, "CLINICALDOC_KEYRING=off", "HOME=" + folder,
		"CLINICALDOC_CONFIG_DIR=" + filepath.Join(folder, "config"), "CLINICALDOC_STATE_DIR=" + filepath.Join(folder, "state"),
	}
}

// cli runs commands with one environment.
type cli struct {
	t   *testing.T
	env []string
}

// patience is how long a command may take on a busy machine.
const patience = 2 * time.Minute

func newCLI(t *testing.T, srv *clinicaldoctest.Server, env ...string) cli {
	t.Helper()
	return cli{t, append(environment(t, srv), env...)}
}

// with returns a copy with more variables.
func (c cli) with(env ...string) cli { return cli{c.t, slices.Concat(c.env, env)} }

// command is one that was not started yet, and what it prints.
func (c cli) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	c.t.Cleanup(cancel)
	command := exec.CommandContext(ctx, "clinicaldoc", args...)
	command.Env = append(os.Environ(), c.env...)
	said := &bytes.Buffer{}
	command.Stdout = said
	command.Stderr = said
	return command, said
}

// run returns what a command printed, and its exit code.
func (c cli) run(args ...string) (string, int) {
	c.t.Helper()
	command, said := c.command(args...)
	code := exitCode(c.t, command.Run())
	return said.String(), code
}

// exits runs a command that must end with this code, and returns what it printed.
func (c cli) exits(code int, args ...string) string {
	c.t.Helper()
	said, got := c.run(args...)
	require.Equal(c.t, code, got, "%v: %s", args, said)
	return said
}

// login logs in to a server, with a name for the context.
func (c cli) login(srv *clinicaldoctest.Server, context string) {
	c.t.Helper()
	command, said := c.command("login", srv.URL, "--context", context)
	command.Stdin = strings.NewReader(srv.Token)
	require.NoError(c.t, command.Run(), said)
}

// exitCode is the exit code of a command that ended with this error.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

func newServer(t *testing.T, options ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(options...)
	t.Cleanup(srv.Close)
	return srv
}

// visits writes recordings into a new folder.
func visits(t *testing.T, count int) (folder string, recordings [][]byte) {
	t.Helper()
	folder = t.TempDir()
	for i := range count {
		recordings = append(recordings, fmt.Appendf(nil, "RIFF recording %d", i))
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("visit-%02d.wav", i)), recordings[i], 0o600))
	}
	return folder, recordings
}
