package command

import (
	"cmp"
	"context"
	"errors"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// kind is a kind of error: its exit code and what to do about it.
type kind struct {
	code int
	do   string
}

// remedies is the one table of causes, the first that fits counts. None of what it says to do leads to an empty or an
// older journal: that would upload twice what the journal knew.
var remedies = []struct {
	is error
	kind
}{
	{clinicaldoc.ErrOutcomeUnknown, kind{
		codeUnresolved, `check first whether it was done: "clinicaldoc notes show ID", "clinicaldoc tokens list"`,
	}},
	{clinicaldoc.ErrNotAudited, kind{
		codeRefused, "make room on the disk for the file of --audit; run the command again only if no change was made",
	}},
	{clinicaldoc.ErrInUse, kind{codeRefused, waitForOther}},
	{ingest.ErrTaken, kind{codeRefused, waitForOther}},
	{ingest.ErrTooEarly, kind{
		codeRefused,
		"wait until that time, and run the same upload again: it searches for the note; --force decides anyway",
	}},
	{ingest.ErrKeyReused, kind{codeRefused, ""}},
	{ingest.ErrJournalDamaged, kind{codeRefused, "clinicaldoc upload salvage"}},
	{ingest.ErrJournalVersion, kind{
		codeRefused,
		"if a later version of this program wrote the journal, update this program; else check the file in --journal",
	}},
	{ingest.ErrJournalMoved, kind{
		codeRefused, "put the journal's file back where it was, and run the same command again",
	}},
	{ingest.ErrOtherService, kind{
		codeRefused,
		`if only the service's address changed: "clinicaldoc upload rename FILE"; else leave out --journal`,
	}},
	{ingest.ErrOtherUser, kind{
		codeRefused, `upload as the user who began it: "clinicaldoc context use NAME"; or leave out --journal`,
	}},
	{jetstream.ErrDeadLetter, kind{
		codeRefused, `correct what the reason names; "clinicaldoc upload retry" with the same --nats sends it again`,
	}},
	{jetstream.ErrOlderWorkers, kind{
		codeRefused, "ask whoever runs the workers that it names to end them; then run the same command again",
	}},
	{jetstream.ErrServerTooOld, kind{
		codeRefused, "ask whoever runs the NATS server to update it; then run the same command again",
	}},
	{jetstream.ErrStore, kind{
		codeRefused,
		"ask whoever runs the NATS server to restore the fleet's streams; if that is not possible, " +
			`end all workers and run "clinicaldoc fleet repair"`,
	}},
	{jetstream.ErrQueueFull, kind{
		codeRefused,
		"ask whoever runs the NATS server to raise the limit of the queue's stream; then run the same command again",
	}},
	{account.ErrNone, kind{codeUnauthorized, "clinicaldoc login URL"}},
	{account.ErrKeyring, kind{
		codeUnauthorized,
		"if nobody is logged in, as in cron, keep the token in a file: CLINICALDOC_KEYRING=off clinicaldoc login URL",
	}},
	{ingest.ErrCutShort, kind{
		codeRefused, "copy it again when it is complete, and run the same command again; " + uploadAnyway,
	}},
	{ingest.ErrNotARecording, kind{
		codeRefused, "replace the file with the recording, or remove it from the upload; " + uploadAnyway,
	}},
	{clinicaldoc.ErrInvalidArgument, kind{codeUsage, ""}},
	{clinicaldoc.ErrNoteIncomplete, kind{codeRefused, "clinicaldoc notes wait ID"}},
	{clinicaldoc.ErrPatientMismatch, kind{
		codeRefused,
		`the service may filter by another parameter: "clinicaldoc doctor --gaps" finds it, ` +
			`"clinicaldoc context set --query" sets it`,
	}},
	{clinicaldoc.ErrUnauthorized, kind{codeUnauthorized, "clinicaldoc login URL"}},
	{clinicaldoc.ErrNotFound, kind{
		codeNotFound, `check the id; if other ids are not found either, run "clinicaldoc doctor"`,
	}},
	{clinicaldoc.ErrForbidden, kind{
		codeRefused, `only the user who made a note may change it; "clinicaldoc whoami" shows your user`,
	}},
	{clinicaldoc.ErrConflict, kind{codeRefused, `somebody changed it: read it again with "clinicaldoc notes show ID"`}},
	{clinicaldoc.ErrValidation, kind{codeRefused, ""}},
	{clinicaldoc.ErrTooLarge, kind{
		codeRefused,
		"make the recording smaller, or ask whoever runs the service to raise its limit; " +
			"then run the same command again",
	}},
	{clinicaldoc.ErrProcessingFailed, kind{
		codeOther, `"clinicaldoc notes show ID" shows the error that the service reports`,
	}},
	{clinicaldoc.ErrRateLimited, kind{codeUnreachable, "wait a little and run the command again"}},
	{clinicaldoc.ErrServer, kind{
		codeUnreachable, `run the command again later; "clinicaldoc doctor" checks the service`,
	}},
	{clinicaldoc.ErrIncompleteList, kind{
		codeOther,
		"run the command again; if it fails again, the list's parameters may have other names: " +
			`"clinicaldoc doctor --gaps" finds them`,
	}},
	{clinicaldoc.ErrSizeMismatch, kind{codeRefused, "if the service re-encodes recordings: --ignore-size"}},
	{clinicaldoc.ErrUnexpectedResponse, kind{codeOther, `check the base URL with "clinicaldoc doctor"`}},
	{clinicaldoc.ErrStalled, kind{codeUnreachable, "clinicaldoc doctor"}},
	{output.ErrInterrupted, kind{128 + int(syscall.SIGINT), ""}},
	{errQuiet, kind{codeUsage, ""}},
}

const waitForOther = "wait for the other upload to end, or end it; only one upload at a time can use a journal"

const uploadAnyway = "--skip-recording-check uploads it as it is"

const makeRoom = "make room on the disk, and run the same command again"

// numbers are by what a system says one thing. Package syscall has the names of Unix on every system, but Windows' own
// numbers are others.
type numbers struct{ unix, windows []syscall.Errno }

func (n numbers) is(system string, err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	return ok && (slices.Contains(n.unix, number) || system == "windows" && slices.Contains(n.windows, number))
}

var (
	noRoom = numbers{
		[]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, []syscall.Errno{39, 112, 223, 1295},
	}
	closedPipe = numbers{[]syscall.Errno{syscall.EPIPE}, []syscall.Errno{109, 232}}
)

func kindOf(err error) kind {
	if k, ok := ownKind(err); ok {
		return k
	}
	for _, r := range remedies {
		if errors.Is(err, r.is) {
			return r.kind
		}
	}
	switch {
	case noRoom.is(runtime.GOOS, err):
		return kind{codeOther, makeRoom}
	// a connection's own timeout claims to be that as well
	case errors.Is(err, context.DeadlineExceeded) && !clinicaldoc.Retryable(err):
		return kind{codePending, "run the command again to continue waiting"}
	case unreachable(err):
		return kind{codeUnreachable, "clinicaldoc doctor"}
	}
	return kind{code: codeOther}
}

// ownKind is for the errors that this program makes itself.
func ownKind(err error) (kind, bool) {
	if wrong, ok := errors.AsType[*usageError](err); ok {
		return kind{codeUsage, wrong.do}, true
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return kind{codeRefused, refused.do}, true
	}
	if unclear, ok := errors.AsType[*account.AmbiguousError](err); ok {
		do := cmp.Or(unclear.Do, "set or unset both variables, or log in again; nothing was sent")
		return kind{codeUsage, do}, true
	}
	if _, ok := errors.AsType[*account.NotPrivateError](err); ok {
		return kind{
			codeRefused,
			"set CLINICALDOC_CONFIG_DIR to a folder where files can be private; if others may have read a token: " +
				"\"clinicaldoc tokens revoke ID\"",
		}, true
	}
	if _, ok := errors.AsType[*ingest.ManifestError](err); ok {
		return kind{codeUsage, "correct these lines, and run the same command again"}, true
	}
	if failed, ok := errors.AsType[*runError](err); ok {
		return kind{failed.code, failed.do}, true
	}
	if _, ok := errors.AsType[*fleetError](err); ok {
		return kind{codeUnreachable, "check the URL, and the file of --nats-creds"}, true
	}
	return kind{}, false
}

// unreachable tells a network's errors from those of this machine's files: an error number alone can be either.
func unreachable(err error) bool {
	if clinicaldoc.Retryable(err) {
		return true
	}
	e, ok := errors.AsType[net.Error](err)
	_, number := e.(syscall.Errno) // the number itself, not one inside
	return ok && !number
}

// wordsOf says in this command's words what the libraries say in a Go program's. What stands first is looked for first.
var wordsOf = strings.NewReplacer(
	"and decide which note is its own, or that none is (Uploader.Resolve)", `and decide: "clinicaldoc upload resolve"`,
	"Send the recording again, or name another note (Uploader.Resolve)", `Decide: "clinicaldoc upload resolve"`,
	"first (Uploader.Resolve)", `first: "clinicaldoc upload resolve"`,
	"decide which note is its own (Uploader.Resolve)", `decide: "clinicaldoc upload resolve"`,
	"; AllNew uploads without this check", "",
	"Repair makes it again", `"clinicaldoc fleet repair" makes it again`,
	"Repair corrects that", `"clinicaldoc fleet repair" corrects that`,
	": clinicaldoc: ", ": ",
	"Audio: is empty", "the recording is empty",
	"AudioFile: is not a regular file", "it is not a regular file",
	"Audio: has a file name", "the recording has a file name",
	"AudioFile: the file cannot be opened", "the file cannot be opened",
	"Audio: the file cannot be opened", "the file cannot be opened",
	": invalid argument", "",
	"the notes could not be read: the call was cancelled (context canceled)",
	"the run ended before the notes could be read",
	"the service rejected some values; see Fields", "the service rejected some values",
	"try again later, set RetryPolicy.MaxRetryAfter to wait longer, or share a limiter with WithLimiter",
	"the limit lasts longer than the command waits",
	"use https, or WithInsecureHTTP on a network you trust", "use https, or --insecure-http on a network you trust",
	"call Notes.FindCreated before creating it again", "search for the note before creating it again",
	"set DownloadParams.IgnoreSize", "add --ignore-size",
	"TrustPatientFilter accepts such rows", "--trust-patient-filter accepts such rows",
	"; see Note.ErrorState", "",
	"see WithQueryNames", "see --query",
	"in WithQueryNames", "in --query",
	"keep the journal elsewhere, or open it with WithoutLock and make certain that only one process uses it",
	"move the journal to a disk that supports them, and name it with --journal",
	"under another address, call Rename", `under another address: "clinicaldoc upload rename FILE"`,
	"if it was never begun, BeginJournal begins it", "if it was never begun, --begin begins it",
	"OpenJournal opens it", "leave out --begin",
	"SalvageJournal keeps", `"clinicaldoc upload salvage" keeps`,
	"SalvageJournal makes", `"clinicaldoc upload salvage" makes`,
	"it is longer than the limit of WithMaxResponseSize", "it is longer than any response of the service",
	"(set by HTTPS_PROXY, HTTP_PROXY or WithHTTPClient)", "(set by HTTPS_PROXY or HTTP_PROXY)",
	"(a bare container has none), or pass a client that trusts it to WithHTTPClient", "(a bare container has none)",
	"check the address, or pass a client that trusts it to WithHTTPClient", "check the address",
	"; pass a client certificate or other TLS settings with WithHTTPClient",
	"; this command cannot use a client certificate",
	"in HTTPS_PROXY or WithHTTPClient", "in HTTPS_PROXY",
	"WithHeader: Content-Type is set by the SDK alone", "--header: only this program sets Content-Type",
	"Audio: the file has changed since AudioFile; call that again when it is complete",
	"the file has changed during the upload; run the command again when it is complete",
)

// methodName matches a method of the library before its route, as in "Notes.Get (GET /v1/progress-notes/{id})".
var methodName = regexp.MustCompile(`\b[A-Z][A-Za-z]*\.[A-Z][A-Za-z]* \(([A-Z]+ /[^()]*)\)`)

// errorText is an error's text in this command's words, harmless to a terminal.
func errorText(err error) string { return ownWords(err.Error()) }

// ownWords is a text of the libraries in this command's words, harmless to a terminal.
func ownWords(text string) string {
	for _, library := range []string{"clinicaldoc: ", "ingest: ", "jetstream: ", "gaps: "} {
		text = strings.TrimPrefix(text, library)
	}
	return wordsOf.Replace(methodName.ReplaceAllString(output.Harmless(text), "$1"))
}
