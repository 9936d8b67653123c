//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// terminal is a program on a pseudo-terminal of 70 by 12, and what a person would see there.
type terminal struct {
	t       *testing.T
	command *exec.Cmd
	keys    *os.File
	screen  vt10x.Terminal

	mu   sync.Mutex
	raw  strings.Builder
	more chan struct{} // holds one when something was drawn
	over chan struct{}
}

// hangups makes programs at a terminal end with it, also if the tests run where SIGHUP is ignored, as with nohup. A
// signal that is caught here has its usual meaning in a program that is started.
var hangups = sync.OnceFunc(func() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
})

func onTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	hangups()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second) //nolint:usetesting // outlives the test's end by a little
	t.Cleanup(cancel)
	term := &terminal{t: t, command: exec.CommandContext(ctx, "clinicaldoc", args...), screen: vt10x.New(vt10x.WithSize(70, 12)), more: make(chan struct{}, 1), over: make(chan struct{})}
	term.command.Env = append(append(os.Environ(), "TERM=xterm", "CI=", "NO_COLOR="), env...)
	keys, err := pty.StartWithSize(term.command, &pty.Winsize{Rows: 12, Cols: 70})
	require.NoError(t, err)
	term.keys = keys
	t.Cleanup(func() { _ = keys.Close() })
	go term.follow()
	return term
}

func (x *terminal) follow() {
	defer close(x.over)
	buffer := make([]byte, 4096)
	for {
		n, err := x.keys.Read(buffer)
		x.mu.Lock()
		x.raw.Write(buffer[:n])
		_, _ = x.screen.Write(buffer[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case x.more <- struct{}{}:
		default:
		}
	}
}

func (x *terminal) seen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

// until waits for what a person would wait for.
func (x *terminal) until(text string) {
	x.t.Helper()
	for !strings.Contains(x.seen(), text) {
		select {
		case <-x.more:
		case <-x.over:
			if !strings.Contains(x.seen(), text) {
				x.t.Fatalf("%q never came:\n%s", text, x.seen())
			}
		case <-time.After(20 * time.Second):
			x.t.Fatalf("%q does not come:\n%s", text, x.seen())
		}
	}
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	_, err := x.keys.WriteString(keys)
	require.NoError(x.t, err)
}

// ends waits for the exit code.
func (x *terminal) ends() int {
	x.t.Helper()
	<-x.over
	return exitCode(x.t, x.command.Wait())
}

func TestTerminal_Upload_ShowsProgressUntilCtrlC(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(time.Hour).Always())
	folder := t.TempDir()
	for _, name := range []string{"visit-a.wav", "visit-b.wav", "visit-c.wav"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), append([]byte("RIFF"+name), make([]byte, 12<<20)...), 0o600))
	}
	x := onTerminal(t, environment(t, srv), "upload", "--begin", "--patient", "7", "--prompt", "1", "--workers", "3", folder)
	x.until("recording 1 of 3, 12.0 MB")
	x.until("recording 3 of 3, 12.0 MB")
	x.until("[#")
	x.until("0/3 done")
	t.Logf("under way:\n%s", x.seen())
	require.NoError(t, pty.Setsize(x.keys, &pty.Winsize{Rows: 12, Cols: 60}))
	x.mu.Lock()
	x.screen.Resize(60, 12)
	x.mu.Unlock()
	x.until("recording 1 of 3, 12.0 MB    [") // the rows are drawn anew, narrower, though nothing moves
	for _, row := range []string{"recording 1 of 3", "recording 2 of 3", "recording 3 of 3", "0/3 done"} {
		x.until(row)
		assert.LessOrEqual(t, strings.Count(x.seen(), row), 1, "%s:\n%s", row, x.seen())
	}
	if seen, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", x.command.Process.Pid)); err == nil {
		assert.NotContains(t, string(seen), srv.Token, "everybody can read the list of processes")
	}
	x.press("\x03")
	assert.Equal(t, 130, x.ends())
	screen := x.seen()
	t.Logf("after Ctrl-C:\n%s", screen)
	assert.Contains(t, screen, "3 recordings: 0 created, 0 already there, 0 refused")
	assert.Contains(t, screen, "Run the same command again")
	assert.NotContains(t, screen, "[#", "the rows are taken away")
	assert.NotContains(t, x.raw.String(), "visit-")
	assert.NotContains(t, x.raw.String(), srv.Token)
	assert.Empty(t, srv.Notes())
}

// A person at a terminal sees once, above the progress, that nothing moves because of the service's limit.
func TestTerminal_ServiceLimit_SaysThatItWaits(t *testing.T) {
	t.Parallel()
	limited := func() *clinicaldoctest.Server {
		srv := newServer(t)
		srv.AddNote(clinicaldoctest.Note{})
		return srv
	}
	recording := filepath.Join(t.TempDir(), "visit-a.wav")
	require.NoError(t, os.WriteFile(recording, []byte("RIFF\x11\x00\x00\x00WAVEfmt synthetic"), 0o600))
	for name, test := range map[string]struct {
		route string
		args  []string
	}{
		"export, list":  {clinicaldoctest.RouteListNotes, []string{"export", filepath.Join(t.TempDir(), "notes.jsonl")}},
		"export, notes": {clinicaldoctest.RouteGetNote, []string{"export", filepath.Join(t.TempDir(), "notes.jsonl")}},
		"upload": {
			clinicaldoctest.RouteCreateNote,
			[]string{"upload", "--begin", "--patient", "7", "--prompt", "1", recording},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := limited()
			srv.Inject(test.route, clinicaldoctest.TooManyRequests(57*time.Second)) // and less than another second
			x := onTerminal(t, environment(t, srv), test.args...)
			x.until("waiting 58 s for the service's limit")
			assert.Regexp(t, `(?m)^waiting`, x.seen(), "the line stands above the progress")
			assert.Equal(t, 1, strings.Count(x.seen(), "waiting"), x.seen())
			x.press("\x03")
			assert.Equal(t, 130, x.ends())
		})
	}
}

func TestTerminal_SignAndDelete_AskFirst(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	id := srv.AddNote(clinicaldoctest.Note{Name: "Follow-up", Analysis: "All is \x1b[31mwell\x1b]0;title\a"})
	require.EqualValues(t, 1, id)
	env := environment(t, srv)

	x := onTerminal(t, env, "notes", "sign", "1")
	x.until("Sign this note? [y/N]")
	assert.Contains(t, x.seen(), "All is")
	assert.NotContains(t, x.raw.String(), "\x1b[31m", "what the service sends does not control the terminal")
	x.press("\n")
	assert.Equal(t, 5, x.ends())
	assert.Contains(t, x.seen(), "declined")
	assert.Equal(t, clinicaldoctest.StageComplete, srv.Notes()[0].Stage)

	for _, args := range [][]string{{"notes", "show", "1"}, {"notes", "show", "1", "--json"}, {"notes", "show", "1", "--jq", ".analysis"}, {"api", "GET", "/v1/progress-notes/1"}} {
		x = onTerminal(t, env, args...)
		assert.Equal(t, 0, x.ends())
		assert.Contains(t, x.raw.String(), "All is")
		assert.NotContains(t, x.raw.String(), "\x1b", args)
	}

	x = onTerminal(t, env, "notes", "sign", "1")
	x.until("Sign this note? [y/N]")
	x.press("y\n")
	assert.Equal(t, 0, x.ends())
	assert.Equal(t, clinicaldoctest.StageSigned, srv.Notes()[0].Stage)

	x = onTerminal(t, env, "notes", "delete", "1")
	x.until("[y/N]")
	x.press("n\n")
	assert.Equal(t, 5, x.ends())
	x = onTerminal(t, env, "notes", "delete", "1")
	x.until("[y/N]")
	x.press("\x03")
	assert.Equal(t, 130, x.ends(), "Ctrl-C does not wait for Enter")
	x = onTerminal(t, env, "notes", "delete", "1")
	x.until("[y/N]")
	require.NoError(t, x.command.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, x.ends())
	assert.Len(t, srv.Notes(), 1)

	x = onTerminal(t, env, "notes", "delete", "1")
	x.until("[y/N]")
	x.press("yes\n")
	assert.Equal(t, 0, x.ends())
	assert.Empty(t, srv.Notes())
}

func TestTerminal_Revoke_AsksFirst(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddToken(1, "another device")
	env := environment(t, srv)
	revoke := func(answer string) (code, requests int) {
		x := onTerminal(t, env, "tokens", "revoke", "2")
		x.until("Revoke token 2? [y/N]")
		x.press(answer)
		code = x.ends()
		for _, r := range srv.Requests() {
			if r.Route == clinicaldoctest.RouteRevokeToken {
				requests++
			}
		}
		return code, requests
	}
	code, requests := revoke("\n")
	assert.Equal(t, 5, code)
	assert.Zero(t, requests)
	code, requests = revoke("y\n")
	assert.Equal(t, 0, code)
	assert.Equal(t, 1, requests)
}

func TestTerminal_Recording_IsNotPrinted(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{Audio: []byte("RIFF\x1b]0;title\a")})
	x := onTerminal(t, environment(t, srv), "audio", "download", "1", "-")
	assert.Equal(t, 2, x.ends())
	assert.NotContains(t, x.raw.String(), "\x1b]0;", "what the service sends does not control the terminal")
	x = onTerminal(t, environment(t, srv), "audio", "download", "1", "-", "--raw")
	assert.Equal(t, 0, x.ends())
	assert.Contains(t, x.raw.String(), "RIFF")
}

func TestTerminal_TablesAndLogin_FitAndHideTheToken(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{Name: strings.Repeat("患者", 40)})
	env := environment(t, srv)

	x := onTerminal(t, env, "notes", "list", "--reveal")
	assert.Equal(t, 0, x.ends())
	lines := strings.Split(strings.TrimRight(x.seen(), "\n "), "\n")
	assert.Contains(t, lines[0], "ID  STAGE     CREATED")
	assert.Contains(t, lines[1], "…", "it is cut to the terminal's width")
	assert.Contains(t, x.raw.String(), "\x1b[1m")
	x = onTerminal(t, append(env, "NO_COLOR=1"), "notes", "list")
	assert.Equal(t, 0, x.ends())
	assert.NotContains(t, x.raw.String(), "\x1b[")

	x = onTerminal(t, append(env, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN="), "login", srv.URL)
	x.until("Token:")
	x.press("\x03")
	assert.Equal(t, 130, x.ends(), "Ctrl-C is no empty token")

	x = onTerminal(t, append(env, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN="), "login", srv.URL)
	x.until("Token:")
	x.press(srv.Token + "\n")
	assert.Equal(t, 0, x.ends())
	assert.NotContains(t, x.raw.String(), srv.Token)
	assert.Contains(t, x.seen(), "logged in to")
}

func TestTerminal_Pager_ShowsTheOutput(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{Name: "Follow-up"})
	x := onTerminal(t, append(environment(t, srv), "PAGER=sed 's/^/paged \"$CLINICALDOC_TOKEN\" /'"), "notes", "list")
	assert.Equal(t, 0, x.ends())
	assert.Contains(t, x.seen(), "paged \"$CLINICALDOC_TOKEN\" ID")
	x = onTerminal(t, append(environment(t, srv), "PAGER=head -n 1 | tr a-z A-Z"), "notes", "show", "1")
	assert.Equal(t, 0, x.ends())
	assert.Contains(t, x.seen(), "NOTE      1")
	x = onTerminal(t, append(environment(t, srv), "PAGER=nosuch-pager"), "notes", "show", "1")
	assert.Equal(t, 0, x.ends())
	assert.Contains(t, x.seen(), "stage     complete", "a pager that is not there hides nothing")
}

// The first upload on a terminal asks whether to begin a journal.
func TestTerminal_FirstUpload_AsksForTheJournal(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	recording := filepath.Join(t.TempDir(), "visit-a.wav")
	require.NoError(t, os.WriteFile(recording, []byte("RIFF"), 0o600))
	env := environment(t, srv)
	for _, one := range []struct {
		answer      string
		code, notes int
	}{{"n\n", 5, 0}, {"y\n", 0, 1}} {
		x := onTerminal(t, env, "upload", "--patient", "7", "--prompt", "1", recording)
		x.until("[y/N]")
		x.press(one.answer)
		assert.Equal(t, one.code, x.ends())
		assert.Len(t, srv.Notes(), one.notes)
	}
}

func TestTerminal_CtrlCInEditor_IsTheEditors(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{Name: "Follow-up"})
	editor := filepath.Join(t.TempDir(), "editor")
	require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\ntrap 'echo caught; echo written > \"$1\"; exit 0' INT\necho editing\nwhile :; do read line; done\n"), 0o700))
	x := onTerminal(t, append(environment(t, srv), "EDITOR="+editor, "VISUAL="), "notes", "edit", "1")
	x.until("editing")
	x.press("\x03")
	x.until("caught")
	assert.Equal(t, 0, x.ends(), x.seen())
	assert.Equal(t, "written", srv.Notes()[0].Analysis)
}

// The first signal also ends everything that waits at the terminal: a question, a token, an editor and a pager.
func TestTerminal_FirstSignal_EndsEveryWait(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{Name: "Follow-up", Analysis: "as it was"})
	noAccount := []string{"CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN="}
	waits := filepath.Join(t.TempDir(), "waits")
	require.NoError(t, os.WriteFile(waits, []byte("#!/bin/sh\necho waiting\nexec sleep 300\n"), 0o700))
	for name, one := range map[string]struct {
		args, env []string
		until     string
		after     string // is on the screen at the end
	}{
		"token":              {args: []string{"login", srv.URL}, env: noAccount, until: "Token:", after: "interrupted"},
		"question":           {args: []string{"notes", "delete", "1"}, until: "[y/N]", after: "interrupted"},
		"editor":             {args: []string{"notes", "edit", "1"}, env: []string{"VISUAL=" + waits}, until: "waiting"},
		"editor with words":  {args: []string{"notes", "edit", "1"}, env: []string{"VISUAL=env A=1 '" + waits + "'"}, until: "waiting"},
		"editor of commands": {args: []string{"notes", "edit", "1"}, env: []string{"VISUAL=f() { echo waiting; sleep 300; }; f"}, until: "waiting"},
		"pager":              {args: []string{"notes", "show", "1"}, env: []string{"PAGER=" + waits}, until: "waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := onTerminal(t, append(environment(t, srv), one.env...), one.args...)
			x.until(one.until)
			require.NoError(t, x.command.Process.Signal(syscall.SIGTERM))
			assert.Equal(t, 143, x.ends(), x.seen())
			assert.Contains(t, x.seen(), one.after)
		})
	}
	// Ctrl-C is the editor's; one that ends by it ends the command.
	x := onTerminal(t, append(environment(t, srv), "VISUAL="+waits), "notes", "edit", "1")
	x.until("waiting")
	x.press("\x03")
	assert.Equal(t, 130, x.ends(), x.seen())
	assert.Equal(t, "as it was", srv.Notes()[0].Analysis)
}

// An empty CLINICALDOC_PAGER turns the pager off, whatever PAGER is.
func TestTerminal_EmptyPager_MeansNone(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{Name: "Follow-up"})
	x := onTerminal(t, append(environment(t, srv), "PAGER=sed s/^/paged/", "CLINICALDOC_PAGER="), "notes", "list")
	assert.Equal(t, 0, x.ends())
	assert.NotContains(t, x.seen(), "paged")
	x = onTerminal(t, append(environment(t, srv), "PAGER=false", "CLINICALDOC_PAGER=sed s/^/paged/"), "notes", "list")
	assert.Equal(t, 0, x.ends())
	assert.Contains(t, x.seen(), "pagedID")
}
