package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
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
	codeInDoubt      = 7
	codePending      = 8
)

const exitCodesText = `Exit codes:

  0    done
  1    anything that is not below; doctor: something is bad
  2    wrong usage: nothing was sent
  3    there is no such note or token
  4    not logged in, or the token is refused
  5    refused: by the service (403, 409, 413, 422), by a check of this program, or by your own no
  6    unreachable, failing (5xx) or asking for patience (429): it may work later
  7    in doubt: it may or may not have been done; find out before you do it again
  8    not yet: the time to wait has passed, or another machine of the fleet has it
  130  interrupted by Ctrl-C (143: terminated)
`

func newExitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText}
}

// usageError is a mistake on the command line: nothing was sent.
type usageError struct{ text, command string }

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

// codeError is an exit code after everything was told already.
type codeError struct{ code int }

func (e *codeError) Error() string { return "see above" }

// exitCode returns the code for an error. Being in doubt comes first: such an error also matches what it holds inside.
func exitCode(ctx context.Context, err error) int {
	if told, ok := errors.AsType[*codeError](err); ok {
		return told.code
	}
	if errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		return codeInDoubt
	}
	if stopped, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		if stopped.signal == syscall.SIGTERM {
			return 128 + int(syscall.SIGTERM)
		}
		return 128 + int(syscall.SIGINT)
	}
	return kindOf(err).code
}

// kind is a kind of error: its exit code and what to do about it.
type kind struct {
	code int
	do   string
}

func kindOf(err error) kind {
	if k, ok := ownKind(err); ok {
		return k
	}
	for _, k := range []struct {
		is error
		kind
	}{
		{clinicaldoc.ErrOutcomeUnknown, kind{codeInDoubt, `look first what has become of it: "clinicaldoc notes show ID", "clinicaldoc tokens list"`}},
		{clinicaldoc.ErrInvalidArgument, kind{codeUsage, ""}},
		{clinicaldoc.ErrNoteIncomplete, kind{codeRefused, "clinicaldoc notes wait ID"}},
		{clinicaldoc.ErrPatientMismatch, kind{codeRefused, `the service may filter by another parameter: "clinicaldoc doctor --gaps" finds it, "clinicaldoc context set --query" sets it`}},
		{clinicaldoc.ErrUnauthorized, kind{codeUnauthorized, "clinicaldoc login URL"}},
		{clinicaldoc.ErrNotFound, kind{codeNotFound, `check the id; if nothing is found at all, "clinicaldoc doctor"`}},
		{clinicaldoc.ErrForbidden, kind{codeRefused, `only who made a note may change it; "clinicaldoc whoami" says who you are`}},
		{clinicaldoc.ErrConflict, kind{codeRefused, `somebody was quicker: read it again with "clinicaldoc notes show ID"`}},
		{clinicaldoc.ErrValidation, kind{codeRefused, ""}},
		{clinicaldoc.ErrTooLarge, kind{codeRefused, "the recording is larger than the service takes"}},
		{clinicaldoc.ErrProcessingFailed, kind{codeOther, `"clinicaldoc notes show ID" says what the service reports`}},
		{clinicaldoc.ErrRateLimited, kind{codeUnreachable, "wait a little and run it again"}},
		{clinicaldoc.ErrServer, kind{codeUnreachable, `run it again later; "clinicaldoc doctor" finds out more`}},
		{clinicaldoc.ErrIncompleteList, kind{codeOther, "run it again: notes came or went meanwhile"}},
		{clinicaldoc.ErrSizeMismatch, kind{codeRefused, "if the service re-encodes recordings: --ignore-size"}},
		{clinicaldoc.ErrUnexpectedResponse, kind{codeOther, `is that the right base URL? "clinicaldoc doctor" finds out`}},
		{ingest.ErrJournalInUse, kind{codeRefused, "wait for the other upload to end, or end it; a journal serves one at a time"}},
		{ingest.ErrJournalDamaged, kind{codeRefused, "restore the journal from a backup, or find out by hand which recordings have notes"}},
		{ingest.ErrJournalVersion, kind{codeRefused, "name another file with --journal"}},
		{ingest.ErrOtherService, kind{codeRefused, "name another file with --journal"}},
		{ingest.ErrTaken, kind{codePending, "another machine has it: run the command again to see what became of it"}},
		{context.DeadlineExceeded, kind{codePending, "run it again to go on waiting"}},
	} {
		if errors.Is(err, k.is) {
			return k.kind
		}
	}
	if unreachable(err) {
		return kind{codeUnreachable, "clinicaldoc doctor"}
	}
	return kind{code: codeOther}
}

// ownKind is for the errors that this program makes itself.
func ownKind(err error) (kind, bool) {
	if wrong, ok := errors.AsType[*usageError](err); ok {
		do := ""
		if wrong.command != "" {
			do = wrong.command + " --help"
		}
		return kind{codeUsage, do}, true
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return kind{codeRefused, refused.do}, true
	}
	if _, ok := errors.AsType[*account.AmbiguousError](err); ok {
		return kind{codeUsage, "set or unset both variables, or log in anew; nothing was sent"}, true
	}
	if _, ok := errors.AsType[*inDoubtError](err); ok {
		return kind{codeInDoubt, "run the same command again to ask about them"}, true
	}
	if _, ok := errors.AsType[*fleetError](err); ok {
		return kind{codeUnreachable, "check the URL, and the file of --nats-creds"}, true
	}
	if errors.Is(err, errQuiet) {
		return kind{code: codeUsage}, true
	}
	if errors.Is(err, account.ErrNone) {
		return kind{codeUnauthorized, "clinicaldoc login URL"}, true
	}
	return kind{}, false
}

func unreachable(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false // a file's errors look like a network's
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	return errors.Is(err, clinicaldoc.ErrStalled) || clinicaldoc.Retryable(err)
}

// tell prints an error and what to do about it.
func (e *Env) tell(ctx context.Context, err error) {
	if stopped, ok := errors.AsType[*signalError](context.Cause(ctx)); ok && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		e.IO.Note("clinicaldoc: %s", stopped)
		return
	}
	if _, told := errors.AsType[*codeError](err); told || errors.Is(err, errQuiet) {
		return
	}
	e.tellText(err)
	if do := kindOf(err).do; do != "" {
		e.IO.Note("  do: %s", do)
	}
}

// tellText prints an error's text; the SDK's begin with the same word.
func (e *Env) tellText(err error) {
	e.IO.Note("clinicaldoc: %s", strings.TrimPrefix(output.Harmless(err.Error()), "clinicaldoc: "))
}
