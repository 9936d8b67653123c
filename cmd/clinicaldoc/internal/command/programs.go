package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"unicode"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// shell is a command line as a shell reads it, with quotes and variables, and arguments behind it. The program sees neither the
// token nor the base URL: one without the other is of no use. Nothing here ends it: killing the shell would leave the program behind.
func shell(ctx context.Context, line string, args ...string) *exec.Cmd {
	ctx = context.WithoutCancel(ctx)
	var run *exec.Cmd
	if runtime.GOOS == "windows" {
		run = exec.CommandContext(ctx, "cmd", append([]string{"/C", line}, args...)...) //nolint:gosec // the user's own program
	} else {
		run = exec.CommandContext(ctx, "sh", append([]string{"-c", line + ` "$@"`, "sh"}, args...)...) //nolint:gosec // the same
	}
	run.Env = withoutAccount(os.Environ())
	return run
}

// interactive is the command line of a program that does something else at Ctrl-C than to end: its shell does not end either.
func interactive(line string) string {
	if runtime.GOOS == "windows" {
		return line
	}
	return "trap : INT; " + line
}

// shellWords is a command line that a shell reads as these words.
func shellWords(program string, args []string) string {
	var line strings.Builder
	line.WriteString(program)
	for _, arg := range args {
		if arg == "" || strings.ContainsFunc(arg, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./=,:@%+", r)
		}) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		line.WriteString(" " + arg)
	}
	return line.String()
}

// withoutAccount is an environment for other programs.
func withoutAccount(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.ContainsFunc([]string{clinicaldoc.EnvBaseURL, clinicaldoc.EnvToken, envNATS}, func(ours string) bool { return strings.EqualFold(name, ours) })
	})
}

// firstSet is the first of these variables that says something.
func firstSet(names ...string) string {
	for _, name := range names {
		if text := strings.TrimSpace(os.Getenv(name)); text != "" {
			return text
		}
	}
	return ""
}

// paged does something whose output goes through the pager of CLINICALDOC_PAGER or PAGER, if standard output is a terminal.
func (e *Env) paged(ctx context.Context, do func() error) error {
	line := firstSet("CLINICALDOC_PAGER", "PAGER")
	if !e.IO.OutTTY || e.IO.Plain || line == "" || line == "cat" {
		return do()
	}
	pager := shell(ctx, interactive(line))
	pager.Env = append(pager.Env, "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"), "LV="+cmp.Or(os.Getenv("LV"), "-c"))
	pager.Stdout, pager.Stderr = os.Stdout, os.Stderr
	text, err := pager.StdinPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		return do()
	}
	out := e.IO.Out
	e.IO.Out = text
	defer func() { e.IO.Out = out }()
	var ended error
	withoutInterrupts(func() {
		err = do()
		_ = text.Close()
		ended = pager.Wait()
	})
	if exit, ok := errors.AsType[*exec.ExitError](ended); ok && (exit.ExitCode() == 126 || exit.ExitCode() == 127) { // the shell cannot run it
		e.IO.Out = out
		return do()
	}
	if closedPipe.is(runtime.GOOS, err) || errors.Is(err, io.ErrClosedPipe) {
		return nil // the reader has seen enough
	}
	return err
}
