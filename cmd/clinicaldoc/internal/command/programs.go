package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// shell is a command line as a shell reads it, with quotes and variables, and arguments behind it. The program sees
// neither the token nor the base URL: one without the other is of no use. Nothing here ends it: killing the shell
// would leave the program behind.
func shell(ctx context.Context, line string, args ...string) *exec.Cmd {
	ctx = context.WithoutCancel(ctx)
	var run *exec.Cmd
	if runtime.GOOS == "windows" {
		words := append([]string{"/C", line}, args...)
		run = exec.CommandContext(ctx, "cmd", words...) //nolint:gosec // the user's own program
	} else {
		if len(args) > 0 { // after a compound command such as an if it would be a mistake of syntax
			line += ` "$@"`
		}
		run = exec.CommandContext(ctx, "sh", append([]string{"-c", line, "sh"}, args...)...) //nolint:gosec // the same
	}
	run.Env = withoutAccount(os.Environ())
	return run
}

// programGrace is how long an editor or a pager may take to end after a termination signal.
const programGrace = 5 * time.Second

// interactive is a program at the terminal, such as an editor. Ctrl-C is left to the program, and its shell
// survives it. If the context ends, the program is asked to terminate, and killed after a grace period.
func interactive(ctx context.Context, line string, args ...string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		return shell(ctx, line, args...)
	}
	if oneProgram.MatchString(line) {
		line = "exec " + line // in the shell's place, so that signals reach it
	}
	plain := shell(ctx, "trap : INT; "+line, args...)
	run := exec.CommandContext(ctx, plain.Path, plain.Args[1:]...) //nolint:gosec // the user's own program
	run.Env = plain.Env
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = programGrace
	return run
}

// oneProgram matches a command line that is a program with arguments: no operators of the shell, no variables
// before it, no builtin such as ":".
var oneProgram = regexp.MustCompile(`^["'~/.A-Za-z0-9_][^\s=;|&(){}<>` + "`" + `]*(\s[^;|&(){}<>` + "`" + `\n]*)?$`)

// wasInterrupted reports whether Ctrl-C ended a program.
func wasInterrupted(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	bySignal := ok && status.Signaled() && status.Signal() == syscall.SIGINT
	return bySignal || exit.ExitCode() == 128+int(syscall.SIGINT)
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
		ours := []string{clinicaldoc.EnvBaseURL, clinicaldoc.EnvToken, envNATS}
		return slices.ContainsFunc(ours, func(own string) bool { return strings.EqualFold(name, own) })
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

// pagerLine is the command line of the pager. CLINICALDOC_PAGER counts also if it is empty, which means none.
func pagerLine() string {
	line, ok := os.LookupEnv("CLINICALDOC_PAGER")
	if !ok {
		line = os.Getenv("PAGER")
	}
	return strings.TrimSpace(line)
}

// paged does something whose output goes through the pager of CLINICALDOC_PAGER or PAGER, if standard output is a
// terminal.
func (e *Env) paged(ctx context.Context, do func() error) error {
	line := pagerLine()
	if !e.IO.OutTTY || e.IO.Plain || line == "" || line == "cat" {
		return do()
	}
	pager := interactive(ctx, line)
	pager.Env = append(pager.Env, "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"), "LV="+cmp.Or(os.Getenv("LV"), "-c"))
	pager.Stdout, pager.Stderr = os.Stdout, os.Stderr
	text, err := pager.StdinPipe()
	if err != nil {
		return do()
	}
	out := e.IO.Out
	e.IO.Out = text
	defer func() { e.IO.Out = out }()
	runs := false
	ended := leaveInterruptsTo(pager, func() {
		runs = true
		err = do()
		_ = text.Close()
	})
	if !runs || cannotRun(ended) {
		e.IO.Out = out
		return do()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case closedPipe.is(runtime.GOOS, err), errors.Is(err, io.ErrClosedPipe):
		return nil // the reader has seen enough
	}
	return err
}

// cannotRun reports whether the shell could not run a program.
func cannotRun(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && (exit.ExitCode() == 126 || exit.ExitCode() == 127)
}
