package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// The exit codes; see exitCodesText.
const (
	codeOther        = 1
	codeUsage        = 2
	codeNotFound     = 3
	codeUnauthorized = 4
	codeRefused      = 5
	codeUnreachable  = 6
	codeUnresolved   = 7
	codePending      = 8
	codeSome         = 9
)

const exitCodesText = `Exit codes:

  0    done
  1    any other error; doctor: something is bad
  2    wrong usage: nothing was sent
  3    there is no such note or token
  4    not logged in, or the token is refused
  5    refused by the service (403, 409, 413, 422), by a check of this program, or by your answer;
       upload: all were refused
  6    the service is unreachable, fails (5xx), or limits requests (429) for long: try again later
  7    unresolved: it may or may not have been done; check before you do it again
  8    not complete when the time to wait had passed; upload: notes are still being processed
  9    partly done: something was left out, refused, or could not be processed by the service;
       "clinicaldoc upload report" names it
  130  interrupted by Ctrl-C (143: terminated)
`

func newExitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText}
}

// usageError is a mistake on the command line: nothing was sent.
type usageError struct{ text, do string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// refusedError is a no of this program or of the person in front of it.
type refusedError struct{ text, do string }

func (e *refusedError) Error() string { return e.text }

func refusedf(format string, args ...any) error {
	return &refusedError{text: fmt.Sprintf(format, args...)}
}

// errDeclined means that the person said no.
var errDeclined = &refusedError{text: "declined: nothing was sent"}

// runError is a run that did not do all that it was meant to: an exit code, and what to do.
type runError struct {
	code     int
	text, do string
}

func (e *runError) Error() string { return e.text }

// codeError is an exit code after everything was told already.
type codeError struct{ code int }

func (e *codeError) Error() string { return "see above" }

// exitCode returns the code for an error. An unknown outcome comes first: such an error also matches what it holds
// inside.
func exitCode(ctx context.Context, err error) int {
	if told, ok := errors.AsType[*codeError](err); ok {
		return told.code
	}
	if errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		return codeUnresolved
	}
	if stopped, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		if stopped.signal == syscall.SIGTERM {
			return 128 + int(syscall.SIGTERM)
		}
		return 128 + int(syscall.SIGINT)
	}
	return kindOf(err).code
}

// tell prints an error and what to do about it.
func (e *Env) tell(ctx context.Context, err error) {
	stopped, isStopped := errors.AsType[*signalError](context.Cause(ctx))
	if isStopped && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		e.IO.Note("clinicaldoc: %s", stopped)
		return
	}
	if _, told := errors.AsType[*codeError](err); told || errors.Is(err, errQuiet) {
		return
	}
	if wrong, ok := errors.AsType[*ingest.ManifestError](err); ok {
		e.tellLines(wrong.Problems)
	} else {
		e.tellText(err)
	}
	if do := kindOf(err).do; do != "" {
		e.IO.Note("  do: %s", despiteVariables(do))
	}
}

// despiteVariables completes the advice to log in if the environment's variables override every login.
func despiteVariables(do string) string {
	isSet := os.Getenv(clinicaldoc.EnvBaseURL) != "" || os.Getenv(clinicaldoc.EnvToken) != ""
	if !isSet || !strings.HasPrefix(do, "clinicaldoc login ") {
		return do
	}
	return do + " (and unset " + clinicaldoc.EnvBaseURL + " and " + clinicaldoc.EnvToken + ", which override it)"
}

// tellText prints an error's text; the SDK's begin with the same word.
func (e *Env) tellText(err error) {
	e.IO.Note("clinicaldoc: %s", errorText(err))
}

// maxWrongLines bounds how many mistakes of a manifest are listed.
const maxWrongLines = 50

// tellLines lists what is wrong with a manifest.
func (e *Env) tellLines(problems []ingest.ManifestProblem) {
	for _, p := range problems[:min(len(problems), maxWrongLines)] {
		e.IO.Note("line %d: %s", p.Line, p.What)
	}
	if more := len(problems) - maxWrongLines; more > 0 {
		e.IO.Note("and %d more", more)
	}
	e.IO.Note("clinicaldoc: the manifest has %s: nothing was sent", output.Count(len(problems), "mistake", "mistakes"))
}
