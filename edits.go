package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// IfUnchanged makes Update, Sign and Delete act only if the note is still what the caller read: its texts (but for CRLF and
// LF), flags, patient and updated_at. The note is read first; if it differs, nothing is sent and the error is a [*ConflictError] with the note
// as it is now. Read the note with Get: rows of a list may leave texts out, and then differ.
//
// The service has no conditional requests, so a change between that read and the write cannot be prevented. The note
// that comes back from the write is compared too. If it names another patient, or has other texts, other flags or an
// earlier updated_at than expected, the error is a [*ConflictError] that carries it. What a response leaves out is not
// compared.
//
// A nil note, a note with another id than the one to change, a second condition, and any other method are
// [ErrInvalidArgument].
func IfUnchanged(note *ProgressNote) CallOption {
	if note == nil {
		return condition("IfUnchanged", "the note is nil", 0, "")
	}
	return condition("IfUnchanged", "", note.ID, note.Version())
}

// IfVersion is [IfUnchanged] for who kept no more of the note than its [ProgressNote.Version], such as the page of a web
// application. An empty version, and any other method than Update, Sign and Delete, are [ErrInvalidArgument].
func IfVersion(version string) CallOption {
	wrong := ""
	if version == "" {
		wrong = "the version is empty"
	}
	return condition("IfVersion", wrong, 0, version)
}

// condition is the option of that name, which is rejected for what is wrong with it, and next to another one.
func condition(name, wrong string, id int64, version string) CallOption {
	return func(o *callOptions) error {
		switch {
		case wrong != "":
			return invalid(name, "%s", wrong)
		case o.version != "":
			return invalid(name, "a call takes one condition; pass IfUnchanged or IfVersion once")
		}
		o.unchanged = id
		o.version = version
		return nil
	}
}

// ConflictError says that a note is not what the caller read or wrote. It matches [ErrConflict]. Whether anything was
// sent is in its text; if that may be, it matches [ErrOutcomeUnknown] too. If a note that was created or written names
// another patient than expected, it also matches [ErrPatientMismatch].
type ConflictError struct {
	Current *ProgressNote // as the service has it now; nil if it is withheld, see [NotAuditedError]
	Err     error         // what else is known; may be nil

	op     operation
	detail redact.Text
}

// Error returns a text that is safe to log.
func (e *ConflictError) Error() string {
	return errorText(e.op.name, e.op.method, e.op.route, string(cmp.Or(e.detail, "the note is in conflict")), "")
}

// Unwrap makes [errors.Is] and [errors.As] see [ErrConflict] and Err.
func (e *ConflictError) Unwrap() []error { return redact.OpaqueAll(ErrConflict, e.Err) }

// LogValue lists what may be logged of the error.
func (e ConflictError) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("error", e.Error())}
	if e.Current != nil {
		attrs = append(attrs, slog.Any("current", e.Current))
	}
	return slog.GroupValue(attrs...)
}

// Format prints the error's text for every verb.
func (e ConflictError) Format(s fmt.State, _ rune) { printError(s, &e) }

// edit is one Update, Sign or Delete: it overwrites nobody's change, and changes nothing else than what was read.
type edit struct {
	*scope

	id     int64
	began  time.Time
	read   *ProgressNote    // before the edit, as the caller's version says; nil: no version was given
	readBy *Response        // this response
	params UpdateNoteParams // of an Update
	body   exchange.Body    // of an Update
	done   *ProgressNote    // as an earlier attempt left it
}

// runEdit is run for an Update, Sign or Delete, which begins if the note is what the caller read, where that was said.
func runEdit[T any](
	ctx context.Context, c *Client, op *operation, id int64, params UpdateNoteParams, opts []CallOption, act func(context.Context, *edit) (*T, error),
) (*T, error) {
	return run(ctx, c, op.name, opts, func(ctx context.Context, call *scope) (*T, error) {
		path, err := op.path(id)
		if err != nil {
			return nil, err
		}
		if read := call.options.unchanged; read != 0 && read != id {
			return nil, invalid(op.name+": IfUnchanged", "the note is another one than the one to change")
		}
		e := &edit{scope: call, id: id, began: time.Now(), params: params}
		if op == updateNote {
			if e.body.Bytes, err = e.params.encode(); err != nil {
				return nil, err
			}
			call.sent.Body = &e.body
		}
		call.op, call.sent.Path, call.edit = op, path, e
		if call.options.version == "" {
			return act(ctx, e)
		}
		e.readBy = new(Response)
		switch e.read, err = c.Notes.Get(ctx, id, call.options.inherited(), WithResponse(e.readBy)); {
		case err != nil:
			return nil, err
		case e.read.Version() != call.options.version:
			return nil, e.conflict(e.read, "nothing was sent: the note is not what was read; look at it again", nil)
		}
		return act(ctx, e)
	})
}

// isDone reports whether the note is as the edit leaves it.
func (e *edit) isDone(note *ProgressNote) bool {
	if e.op != updateNote {
		return e.op == signNote && note.Has.Signed
	}
	return e.params.textsApplied(note) && e.params.extraApplied(note)
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
	case mayHaveActed && e.isDeleted(err):
		return errAlreadyDone
	case err != nil:
		return &callError{op: e.op, detail: "not retried, as the note cannot be read: " + redact.Cause(err), causes: []error{lost.Err, err}}
	case mayHaveActed && e.isDone(current):
		e.done = current
		e.zoneless = response.zoneless
		return errAlreadyDone
	case e.op == signNote && !current.Stage().AtLeast(StageComplete):
		return incomplete(lost.Err)
	case e.read != nil && current.Version() != e.options.version,
		e.read == nil && !e.madeBefore(current) && changedSince(current.UpdatedAt, e.began, &response):
		return e.conflict(current, "not retried: the note may have been changed since the call began", lost.Err)
	}
	return nil
}

// isDeleted reports whether a read that failed shows that the note is deleted, and not that a replica lacks it still.
func (e *edit) isDeleted(err error) bool {
	justBefore := e.began.Add(-time.Minute)
	return e.op == deleteNote && errors.Is(err, ErrNotFound) && !changedSince(e.read.CreatedAt, justBefore, e.readBy)
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
		e.wrote = true // as the look before the retry has shown
	case err != nil:
		return nil, err
	}
	if e.read != nil {
		if err := e.compareWritten(note); err != nil {
			return nil, err
		}
	}
	e.client.creates.Edited.Put(note.state(), time.Now())
	return note, nil
}

// compareWritten compares the note that came back from the write with the one that was read, in all that IfUnchanged
// compares. A response may leave out texts, flags, the patient and the time.
func (e *edit) compareWritten(note *ProgressNote) error {
	want := e.params.applied(e.read)
	if e.op == signNote {
		want.Has.Signed = true
	}
	changed := func(what redact.Text, cause error) error {
		const before, after = "it was carried out, but the note that came back ", ": the service or somebody changed it"
		return e.conflict(note, before+what+after, cause)
	}
	switch {
	case !samePatient(&want, note):
		return changed("names another patient", ErrPatientMismatch)
	case !sameTexts(&want, note):
		return changed("holds other texts", nil)
	case !sameFlags(&want, note):
		return changed("has other flags", nil)
	case e.isOlder(note):
		return changed("is older than the one that was read", nil)
	}
	return nil
}

// isOlder reports whether a written note was changed before the one that was read. The clocks of a service's machines
// may differ a little. A time without a zone may be hours off.
func (e *edit) isOlder(written *ProgressNote) bool {
	const clocksDiffer = time.Minute
	if e.zoneless || e.readBy.zoneless || written.UpdatedAt.IsZero() {
		return false
	}
	return written.UpdatedAt.Before(e.read.UpdatedAt.Add(-clocksDiffer))
}

// samePatient compares the patient of a written note with the one wanted. A response may leave it out.
func samePatient(want, got *ProgressNote) bool {
	if namesNoPatient(got) {
		return true
	}
	wantID, wantNamed := want.PatientID()
	gotID, gotNamed := got.PatientID()
	if wantNamed || gotNamed {
		return wantNamed == gotNamed && wantID == gotID
	}
	return want.Patient.raw == got.Patient.raw
}

// sameFlags compares the flags of a written note with those wanted, as far as both are known.
func sameFlags(want, got *ProgressNote) bool {
	wanted := want.Has.flags()
	for i, flag := range got.Has.flags() {
		known := want.sentFlags().has(i) && got.sentFlags().has(i)
		if known && *flag != *wanted[i] {
			return false
		}
	}
	return true
}

// madeBefore reports whether the note is as an edit of this client left it that was over when this one began. A time in whole
// seconds cannot tell that from one that was made since.
func (e *edit) madeBefore(note *ProgressNote) bool {
	at := e.client.creates.Edited.Get(note.state())
	return !at.IsZero() && !at.After(e.began)
}

// state tells the note as it is from the same one before and after.
func (n *ProgressNote) state() uint64 {
	var texts [len(noteTexts)]string
	for i, text := range n.texts() {
		texts[i] = *text
	}
	flags := [...]bool{n.Has.Content, n.Has.Transcription, n.Has.Signed}
	return creates.Hash(struct {
		id, updated int64
		texts       [len(noteTexts)]string
		patient     string
		beside      tolerant.Reference
		flags       [len(flagMembers)]bool
	}{n.ID, n.UpdatedAt.UnixNano(), texts, n.Patient.raw, tolerant.ReferenceBy(patientID, n.Extra.raw), flags})
}

func (e *edit) conflict(current *ProgressNote, detail redact.Text, cause error) error {
	return &ConflictError{Current: current, Err: cause, op: *e.op, detail: detail}
}

// sameTexts compares a written note with what was wanted, white space at the ends aside. A response may leave out the name,
// and all other texts.
func sameTexts(want, got *ProgressNote) bool {
	wanted := want.texts()
	leftOut := got.leavesOut()
	for i, text := range got.texts() {
		if !leftOut[i] && !sameText(*wanted[i], *text) {
			return false
		}
	}
	return true
}

// leavesOut reports of each text whether a response does not show it: the name if it is empty, and the others if all of
// them are.
func (n *ProgressNote) leavesOut() (out [len(noteTexts)]bool) {
	others := false
	for i, text := range n.texts() {
		out[i] = *text == ""
		others = others || !noteTexts[i].required && *text != ""
	}
	for i := range out {
		out[i] = out[i] && (noteTexts[i].required || !others)
	}
	return out
}

func sameText(a, b string) bool { return lines(strings.TrimSpace(a)) == lines(strings.TrimSpace(b)) }

// lines makes lines end alike: forms send CRLF where a service keeps LF.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// textsApplied reports whether the note has the params' texts, white space at the ends aside.
func (p *UpdateNoteParams) textsApplied(note *ProgressNote) bool {
	texts := note.texts()
	for i, text := range p.texts() {
		if text != nil && !sameText(*text, *texts[i]) {
			return false
		}
	}
	return true
}

// applied is the note with the params' texts.
func (p *UpdateNoteParams) applied(note *ProgressNote) ProgressNote {
	changed := *note
	texts := changed.texts()
	for i, text := range p.texts() {
		if text != nil {
			*texts[i] = *text
		}
	}
	return changed
}

// incomplete is the failure to sign a note that is not complete. It is not signed, but an attempt without a response may
// still be under way, and sign it when it is.
func incomplete(refusal error) error {
	const detail = "transcription and analysis are not both complete; wait for the note, then sign"
	err := &callError{op: signNote, detail: detail, causes: []error{ErrNoteIncomplete, refusal}}
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
	case err == nil, conflict, errors.Is(err, errAlreadyDone), errors.Is(err, ErrNoteIncomplete):
		return false
	case errors.Is(err, ErrRateLimited): // the service wants no request now
		return false
	}
	obvious := []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout} // enough without a look
	return errors.Is(err, ErrOutcomeUnknown) || refused != nil && refused.StatusCode >= 400 && !slices.Contains(obvious, refused.StatusCode)
}

// explainSign reads the note to find out what a failure means: done after all, an incomplete note, or what it looks like.
func (e *edit) explainSign(ctx context.Context, failure error) (*ProgressNote, error) {
	switch note, err := e.client.Notes.Get(ctx, e.id, e.options.inherited()); {
	case err == nil && note.Has.Signed && errors.Is(failure, ErrOutcomeUnknown):
		e.wrote = true
		return note, nil
	case err == nil && !note.Stage().AtLeast(StageComplete):
		return nil, incomplete(failure)
	}
	return nil, failure
}
