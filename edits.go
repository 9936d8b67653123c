package clinicaldoc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// IfUnchanged makes Update, Sign and Delete act only if the note is still what the caller read: its texts (but for CRLF and
// LF), flags, patient and updated_at. The note is read first; if it differs, nothing is sent and the error is a [*ConflictError] with the note
// as it is now. Read the note with Get: rows of a list may leave texts out, and then differ.
//
// The service has no conditional requests, so that somebody's change between that read and the write goes unnoticed
// there; the note that comes back from the write is compared too, and a surprise is a [*ConflictError] as well.
//
// A nil note, a note with another id than the one to change, and any other method are [ErrInvalidArgument].
func IfUnchanged(note *ProgressNote) CallOption {
	return when(note != nil, "IfUnchanged", "the note is nil", func(o *callOptions) { o.unchanged, o.version = note.ID, note.Version() })
}

// IfVersion is [IfUnchanged] for who kept no more of the note than its [ProgressNote.Version], such as the page of a web
// application. An empty version, and any other method than Update, Sign and Delete, are [ErrInvalidArgument].
func IfVersion(version string) CallOption {
	return when(version != "", "IfVersion", "the version is empty", func(o *callOptions) { o.unchanged, o.version = 0, version })
}

// ConflictError says that a note is not what the caller read or wrote. It matches [ErrConflict]. Whether anything was
// sent is in its text; if that may be, it matches [ErrOutcomeUnknown] too. A created note that names another patient than
// was asked for is one as well, and then matches [ErrPatientMismatch].
type ConflictError struct {
	Current *ProgressNote // as the service has it now
	Err     error         // what else is known; may be nil

	op     operation
	detail redact.Text
}

// Error returns a text that is safe to log.
func (e *ConflictError) Error() string {
	return errorPrefix(e.op.name, e.op.method, e.op.route) + string(cmp.Or(e.detail, "the note is in conflict"))
}

// SafeText is the error's text; see [Error.SafeText].
func (e *ConflictError) SafeText() string { return e.Error() }

// Unwrap makes [errors.Is] and [errors.As] see [ErrConflict] and Err.
func (e *ConflictError) Unwrap() []error { return redact.OpaqueAll(ErrConflict, e.Err) }

// LogValue lists what may be logged of the error.
func (e ConflictError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("error", e.Error()), slog.Any("current", e.Current))
}

// Format prints the error's text for every verb.
func (e ConflictError) Format(s fmt.State, _ rune) { printError(s, &e) }

// edit is one Update, Sign or Delete: it overwrites nobody's change, and changes nothing else than what was read.
type edit struct {
	*scope

	id     int64
	began  time.Time
	read   *ProgressNote    // before the edit, as the caller's version says; nil: no version was given
	readBy Response         // this response
	params UpdateNoteParams // of an Update
	body   exchange.Body    // of an Update
	done   *ProgressNote    // as an earlier attempt left it
}

// newEdit begins an edit: the note is what the caller read, if that was said.
func (s *NotesService) newEdit(ctx context.Context, op operation, id int64, call *scope, params UpdateNoteParams) (*edit, request, error) {
	r, err := op.withID(id)
	if err != nil {
		return nil, r, err
	}
	if read := call.options.unchanged; read != 0 && read != id {
		return nil, r, invalid(op.name+": IfUnchanged", "the note is another one than the one to change")
	}
	e := &edit{scope: call, id: id, began: time.Now(), params: params}
	if op == updateNote {
		if e.body.Bytes, err = e.params.encode(); err != nil {
			return nil, r, err
		}
		call.sent.Body = &e.body
	}
	r.edit = e
	call.request = r
	if call.options.version == "" {
		return e, r, nil
	}
	switch e.read, err = s.Get(ctx, id, call.options.inherited(), WithResponse(&e.readBy)); {
	case err != nil:
		return nil, r, err
	case e.read.Version() != call.options.version:
		return nil, r, e.conflict(e.read, "nothing was sent: the note is not what was read; look at it again", nil)
	}
	return e, r, nil
}

// isDone reports whether the note is as the edit leaves it.
func (e *edit) isDone(note *ProgressNote) bool {
	switch e.op {
	case updateNote:
		changed := e.params.applied(note)
		return sameText(changed.Name, note.Name) && sameText(changed.Transcription, note.Transcription) && sameText(changed.Analysis, note.Analysis)
	case signNote:
		return note.Has.Signed
	}
	return false
}

// beforeRetry looks at the note before it is written once more: the attempt before may have done it, and somebody may
// have changed it since.
func (e *edit) beforeRetry(ctx context.Context, lost *exchange.Attempt) error {
	mayHaveActed := lost.Unknown()
	if e.read == nil && (!mayHaveActed || e.op == deleteNote) {
		return nil // nothing was done, or doing it twice changes nothing
	}
	var response Response
	current, err := e.client.Notes.Get(ctx, e.id, e.options.inherited(), WithResponse(&response))
	switch {
	case mayHaveActed && e.op == deleteNote && errors.Is(err, ErrNotFound) && !changedSince(e.read.CreatedAt, e.began.Add(-time.Minute), &e.readBy):
		return errAlreadyDone // and no replica that has not got it yet
	case err != nil:
		return &callError{op: e.op, detail: "not retried, as the note cannot be read: " + redact.Cause(err), causes: []error{lost.Err, err}}
	case mayHaveActed && e.isDone(current):
		e.done = current
		return errAlreadyDone
	case e.op == signNote && !current.Stage().AtLeast(StageComplete):
		return incomplete(lost.Err)
	case e.read != nil && current.Version() != e.options.version,
		e.read == nil && !e.client.edited.had(current, e.began) && changedSince(current.UpdatedAt, e.began, &response):
		return e.conflict(current, "not retried: the note may have been changed since the call began", lost.Err)
	}
	return nil
}

// changedSince reports whether a note may have been changed since then, by our clock or by the service's, which told when it was.
func changedSince(updated, then time.Time, r *Response) bool {
	at := updated.Truncate(time.Second)
	if r.zoneless {
		at = at.Add(creates.MostBehind * time.Second)
	}
	ours, theirs := then.Truncate(time.Second), exchange.ServerTimeThen(r.Header, then, time.Now()).Truncate(time.Second)
	return updated.IsZero() || !at.Before(ours) || !at.Before(theirs)
}

// after turns what came of the edit into its result.
func (e *edit) after(note *ProgressNote, err error) (*ProgressNote, error) {
	switch {
	case errors.Is(err, errAlreadyDone):
		note = e.done
	case err != nil:
		return nil, err
	}
	if e.read != nil && !sameTexts(e.params.applied(e.read), *note) {
		return nil, e.conflict(note, "it was carried out, but the note that came back holds other texts: the service or somebody changed them", nil)
	}
	e.client.edited.add(note)
	return note, nil
}

// editedNotes knows notes as this client's latest edits left them. A time in whole seconds cannot tell an edit that was over
// when a call began from one that was made since.
type editedNotes struct {
	mu    sync.Mutex
	notes [64]editedNote
	next  int
}

type editedNote struct {
	digest [sha256.Size]byte
	at     time.Time
}

func (e *editedNotes) add(n *ProgressNote) {
	edited := editedNote{n.digest(), time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notes[e.next] = edited
	e.next = (e.next + 1) % len(e.notes)
}

// had reports whether the note is as an edit left it that was over by then.
func (e *editedNotes) had(n *ProgressNote, then time.Time) bool {
	digest := n.digest()
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.notes[:], func(n editedNote) bool { return n.digest == digest && !n.at.After(then) })
}

func (e *edit) conflict(current *ProgressNote, detail redact.Text, cause error) error {
	return &ConflictError{Current: current, Err: cause, op: e.op, detail: detail}
}

// sameTexts compares a written note with what was wanted, white space at the ends aside. A response may leave out the name,
// and all texts.
func sameTexts(want, got ProgressNote) bool {
	if got.Name != "" && !sameText(want.Name, got.Name) {
		return false
	}
	return got.Transcription == "" && got.Analysis == "" || sameText(want.Transcription, got.Transcription) && sameText(want.Analysis, got.Analysis)
}

func sameText(a, b string) bool { return lines(strings.TrimSpace(a)) == lines(strings.TrimSpace(b)) }

// lines makes lines end alike: forms send CRLF where a service keeps LF.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// applied is the note with the params' texts.
func (p UpdateNoteParams) applied(note *ProgressNote) ProgressNote {
	changed := *note
	for _, field := range []struct{ from, to *string }{
		{p.Name, &changed.Name}, {p.Transcription, &changed.Transcription}, {p.Analysis, &changed.Analysis},
	} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	return changed
}

// incomplete is the failure to sign a note that is not complete. It is not signed, but an attempt without a response may
// still be under way, and sign it when it is.
func incomplete(refusal error) error {
	err := &callError{
		op: signNote, detail: "transcription and analysis are not both complete; wait for the note, then sign",
		causes: []error{ErrNoteIncomplete, refusal},
	}
	if errors.Is(refusal, ErrOutcomeUnknown) {
		return maybeDone(err)
	}
	return err
}

// mayBeExplained reports whether a look at the note can say more of a failed Sign: the service refused it for a reason
// that may be the note's state, or its response was lost and nobody has looked yet.
func mayBeExplained(err error) bool {
	refused, _ := errors.AsType[*Error](err)
	_, conflict := errors.AsType[*ConflictError](err)
	switch {
	case err == nil, errors.Is(err, errAlreadyDone), errors.Is(err, ErrNoteIncomplete), conflict:
		return false
	case errors.Is(err, ErrRateLimited): // the service wants no request now
		return false
	case errors.Is(err, ErrOutcomeUnknown):
		return true
	case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrNotFound):
		return false
	}
	return refused != nil && refused.StatusCode >= 400 && refused.StatusCode != http.StatusRequestTimeout
}

// explainSign reads the note to find out what a failure means: done after all, an incomplete note, or what it looks like.
func (s *NotesService) explainSign(ctx context.Context, edit *edit, failure error) (*ProgressNote, error) {
	note, err := s.Get(ctx, edit.id, edit.options.inherited())
	switch {
	case err != nil:
		return nil, failure
	case note.Has.Signed && errors.Is(failure, ErrOutcomeUnknown):
		return note, nil
	case !note.Stage().AtLeast(StageComplete):
		return nil, incomplete(failure)
	}
	return nil, failure
}
