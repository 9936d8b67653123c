package clinicaldoc

import (
	"cmp"
	"context"
	"encoding/json"
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
)

// IfUnchanged makes Update, Sign and Delete act only if the note is still what the caller read: its texts (except CRLF
// and LF), flags, patient and updated_at. The note is read first. If it differs, nothing is sent and the error is a
// [*ConflictError] with the current note. If a text of it cannot be read, the error matches [ErrUnexpectedResponse].
// Read the note with Get: rows of a list may omit texts, and then differ.
//
// The service has no conditional requests, so a change between that read and the write cannot be prevented. The note
// that the write returns is also compared. If it names another patient, or has other texts, other flags or an earlier
// updated_at than expected, the error is a [*ConflictError] with that note. Fields that the response omits are not
// compared.
//
// The error matches [ErrInvalidArgument] if the note is nil or has another ID than the one to change. It also does so
// if there is a second condition, and in any other method.
func IfUnchanged(note *ProgressNote) CallOption {
	if note == nil {
		return condition("IfUnchanged", "the note is nil", 0, "")
	}
	return condition("IfUnchanged", "", note.ID, note.Version())
}

// IfVersion is [IfUnchanged] for callers that kept only the note's [ProgressNote.Version], such as the page of a web
// application. The error matches [ErrInvalidArgument] if the version is empty, and in any other method than Update,
// Sign and Delete.
func IfVersion(version string) CallOption {
	wrong := ""
	if version == "" {
		wrong = "the version is empty"
	}
	return condition("IfVersion", wrong, 0, version)
}

// condition returns the option of that name: the note with the ID, if that is not 0, must still have the version. The
// option is rejected if wrong is not empty, and after another condition.
func condition(name, wrong string, id int64, version string) CallOption {
	return func(o *callOptions) error {
		switch {
		case wrong != "":
			return invalid(name, "%s", wrong)
		case o.version != "":
			return invalid(name, "a call takes one condition; pass IfUnchanged or IfVersion once")
		}
		o.versionNoteID = id
		o.version = version
		return nil
	}
}

// ConflictError reports that a note is not what the caller read or wrote. It matches [ErrConflict]. Its text includes
// whether anything was sent. If something may have been sent, it also matches [ErrOutcomeUnknown]. If a note that was
// created or written names another patient than expected, it also matches [ErrPatientMismatch].
type ConflictError struct {
	Current *ProgressNote // the current note; nil if it is withheld, see [NotAuditedError]
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

// LogValue implements [slog.LogValuer]. It lists the error's text and the current note, without its texts.
func (e ConflictError) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("error", e.Error())}
	if e.Current != nil {
		attrs = append(attrs, slog.Any("current", e.Current))
	}
	return slog.GroupValue(attrs...)
}

// Format implements [fmt.Formatter]. It prints the error's text for every verb.
func (e ConflictError) Format(s fmt.State, _ rune) { printError(s, &e) }

// edit is one Update, Sign or Delete. It does not overwrite another user's change, and changes only the note that the
// caller read.
type edit struct {
	*scope

	id             int64
	began          time.Time
	before         *ProgressNote    // the note before the edit, if the call has a condition; otherwise nil
	beforeResponse *Response        // the response with that note
	params         UpdateNoteParams // of an Update
	body           exchange.Body    // of an Update
	earlierResult  *ProgressNote    // the note as an earlier attempt left it; nil if none was carried out
}

// runEdit does what run does, for an Update, Sign or Delete. If the call has a condition, it reads the note first, and
// calls act only if the condition is met.
func runEdit[T any](
	ctx context.Context, c *Client, op *operation, id int64, params UpdateNoteParams, opts []CallOption,
	act func(context.Context, *edit) (*T, error),
) (*T, error) {
	return run(ctx, c, op.name, opts, func(ctx context.Context, call *scope) (*T, error) {
		path, err := op.path(id)
		if err != nil {
			return nil, err
		}
		readID := call.options.versionNoteID
		isOfAnotherNote := readID != 0 && readID != id
		if isOfAnotherNote {
			return nil, invalid(op.name+": IfUnchanged", "its ID is not that of the note to change")
		}
		e := &edit{scope: call, id: id, began: time.Now(), params: params}
		if op == updateNote {
			e.body.Bytes, err = e.params.encode()
			if err != nil {
				return nil, err
			}
			call.request.Body = &e.body
		}
		call.op = op
		call.request.Path = path
		call.edit = e
		if call.options.version == "" {
			return act(ctx, e)
		}
		e.beforeResponse = new(Response)
		e.before, err = c.Notes.Get(ctx, id, call.options.inherited(), WithResponse(e.beforeResponse))
		if err != nil {
			return nil, err
		}
		if e.beforeResponse.textUnread {
			const detail = "nothing was sent: a text of the note cannot be read, so it cannot be compared"
			return nil, &callError{op: op, detail: detail, causes: []error{ErrUnexpectedResponse}}
		}
		if e.before.Version() != call.options.version {
			return nil, e.conflict(e.before, "nothing was sent: the note is not what was read; read it again", nil)
		}
		return act(ctx, e)
	})
}

// hasCondition reports whether the note was read and compared before the edit; see IfUnchanged.
func (e *edit) hasCondition() bool { return e.before != nil }

// isAppliedTo reports whether the note is as the edit would leave it. It is false for a Delete.
func (e *edit) isAppliedTo(note *ProgressNote) bool {
	switch e.op {
	case updateNote:
		return e.params.textsApplied(note) && e.params.extraApplied(note)
	case signNote:
		return note.Has.Signed
	}
	return false
}

// beforeRetry decides whether the edit may be sent again after a lost attempt. It reads the note, because that attempt
// may have written it, and another user may have changed it since. It returns nil if the edit may be sent again,
// errAlreadyDone if the lost attempt was carried out, and otherwise why the call ends. Without a condition, the note is
// not read if sending the request again does no harm.
func (e *edit) beforeRetry(ctx context.Context, lost *exchange.Attempt) error {
	mayHaveActed := lost.Unknown()
	mayRepeat := !mayHaveActed || e.op == deleteNote
	if !e.hasCondition() && mayRepeat {
		return nil
	}
	var response Response
	current, err := e.client.Notes.Get(ctx, e.id, e.options.inherited(), WithResponse(&response))
	if mayHaveActed && e.isDeleted(err) {
		return errAlreadyDone
	}
	if err != nil {
		detail := "not retried, because the note cannot be read: " + redact.Cause(err)
		return &callError{op: e.op, detail: detail, causes: []error{lost.Err, err}}
	}
	lacksText := e.op == updateNote && response.textUnread // it looks empty
	if mayHaveActed && !lacksText && e.isAppliedTo(current) {
		e.earlierResult = current
		e.zoneless = response.zoneless
		return errAlreadyDone
	}
	if e.op == signNote && !current.Stage().AtLeast(StageComplete) {
		return incompleteError(lost.Err)
	}
	if e.isChanged(current, e.began, &response) {
		return e.conflict(current, "not retried: the note may have been changed since the call began", lost.Err)
	}
	return nil
}

// isChanged reports whether the note may have been changed since then, by others than this client. With a condition, it
// compares the versions. Without one, it compares updated_at with then; the response shows the service's clock.
func (e *edit) isChanged(current *ProgressNote, then time.Time, response *Response) bool {
	if e.hasCondition() {
		return current.Version() != e.options.version || response.textUnread
	}
	if e.isOfEarlierEdit(current) {
		return false
	}
	return changedSince(current.UpdatedAt, then, response)
}

// isDeleted reports whether the error of a read shows that the note is deleted. It is false for a note that was created
// just before, because a replica may lack it. The call has a condition, so the note was read before: a delete without
// one is repeated without a read.
func (e *edit) isDeleted(err error) bool {
	if e.op != deleteNote || !errors.Is(err, ErrNotFound) {
		return false
	}
	justBefore := e.began.Add(-time.Minute)
	isNew := changedSince(e.before.CreatedAt, justBefore, e.beforeResponse)
	return !isNew
}

// changedSince reports whether the time updated, as the service sent it, may be then or later. Our clock and the
// service's may differ, so updated is compared with then by both clocks, and one of them is enough. The response with
// the note has the service's time. A zero time shows nothing, so it counts as a change.
func changedSince(updated, then time.Time, response *Response) bool {
	if updated.IsZero() {
		return true
	}
	latest := creates.LatestOf(updated.Truncate(time.Second), response.zoneless)
	if response.zoneless { // it may be a local time behind UTC
		latest = latest.Add(creates.MostBehind * time.Second)
	}
	byOurs := then.Truncate(time.Second)
	byService := exchange.ServerTimeThen(response.Header, then, time.Now()).Truncate(time.Second)
	return !latest.Before(byOurs) || !latest.Before(byService)
}

// checkWritten returns the note and the error of the edit. The arguments are the result of the last attempt, or of the
// read that explained it. If an earlier attempt was carried out, the note is what that one left. With a condition,
// checkWritten compares the note with what the edit should have made of it. It remembers the note as this client's own
// edit.
func (e *edit) checkWritten(note *ProgressNote, err error) (*ProgressNote, error) {
	switch {
	case errors.Is(err, errAlreadyDone):
		note = e.earlierResult
		e.hasWritten = true // as the read before the retry has shown
	case err != nil:
		return nil, err
	}
	if e.hasCondition() {
		if err := e.compareWritten(note); err != nil {
			return nil, err
		}
	}
	e.client.creates.Edited.Put(note.contentHash(), time.Now())
	return note, nil
}

// compareWritten returns a conflict if the note that the write returned is not what the edit makes of the one that was
// read. It compares all that IfUnchanged compares. A response may omit texts, flags, the patient and the time.
func (e *edit) compareWritten(note *ProgressNote) error {
	want := e.params.applied(e.before)
	if e.op == signNote {
		want.Has.Signed = true
	}
	changedByOthers := func(what redact.Text, cause error) error {
		const before, after = "the change was made, but the returned note ", ": the service or somebody changed it"
		return e.conflict(note, before+what+after, cause)
	}
	switch {
	case !samePatient(&want, note):
		return changedByOthers("names another patient", ErrPatientMismatch)
	case !sameTexts(&want, note):
		return changedByOthers("contains different texts", nil)
	case !sameFlags(&want, note):
		return changedByOthers("has different flags", nil)
	case e.isOlder(note):
		return changedByOthers("is older than the one that was read", nil)
	}
	return nil
}

// isOlder reports whether a written note was changed before the one that was read. The clocks of a service's machines
// may differ a little. A time without a zone may be hours off, so it is not compared.
func (e *edit) isOlder(written *ProgressNote) bool {
	const tolerance = time.Minute
	if e.zoneless || e.beforeResponse.zoneless {
		return false
	}
	if written.UpdatedAt.IsZero() {
		return false
	}
	return written.UpdatedAt.Before(e.before.UpdatedAt.Add(-tolerance))
}

// samePatient compares the patient of a written note with the expected one. A response may omit it.
func samePatient(want, got *ProgressNote) bool {
	if namesNoPatient(got) {
		return true
	}
	wantID, wantNamed := want.PatientID()
	gotID, gotNamed := got.PatientID()
	if wantNamed || gotNamed {
		return wantNamed == gotNamed && wantID == gotID
	}
	wantPatient, wantIDText := want.patientTexts()
	gotPatient, gotIDText := got.patientTexts()
	return wantPatient == gotPatient && wantIDText == gotIDText
}

// sameFlags compares the flags of a written note with the expected ones, as far as both are known.
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

// isOfEarlierEdit reports whether the note is as another edit of this client left it, and that edit ended before this
// one began. The note's updated_at, in whole seconds, may not show which of two edits was first.
func (e *edit) isOfEarlierEdit(note *ProgressNote) bool {
	ended := e.client.creates.Edited.Get(note.contentHash())
	return !ended.IsZero() && !ended.After(e.began)
}

// contentHash returns a hash of the note's content. It differs between versions of the same note.
func (n *ProgressNote) contentHash() uint64 {
	var texts [len(noteTexts)]string
	for i, text := range n.texts() {
		texts[i] = *text
	}
	patientText, idText := n.patientTexts()
	flags := [...]bool{n.Has.Content, n.Has.Transcription, n.Has.Signed}
	return creates.Hash(struct {
		id, updated int64
		texts       [len(noteTexts)]string
		patient     [2]string
		flags       [len(flagMembers)]bool
	}{n.ID, n.UpdatedAt.UnixNano(), texts, [...]string{patientText, idText}, flags})
}

func (e *edit) conflict(current *ProgressNote, detail redact.Text, cause error) error {
	return &ConflictError{Current: current, Err: cause, op: *e.op, detail: detail}
}

// sameTexts compares the texts of a written note with the expected ones, without white space at the ends. A response
// may omit the name, and all other texts.
func sameTexts(want, got *ProgressNote) bool {
	wanted := want.texts()
	omitted := got.omittedTexts()
	for i, text := range got.texts() {
		if !omitted[i] && !sameText(*wanted[i], *text) {
			return false
		}
	}
	return true
}

// omittedTexts reports for each text of a note in a response whether it counts as left out by the service. A required
// text does if it is empty. The optional texts do only together, if all of them are empty.
func (n *ProgressNote) omittedTexts() (omitted [len(noteTexts)]bool) {
	hasOptional := false
	for i, text := range n.texts() {
		if !noteTexts[i].required && *text != "" {
			hasOptional = true
		}
	}
	for i, text := range n.texts() {
		if noteTexts[i].required {
			omitted[i] = *text == ""
		} else {
			omitted[i] = !hasOptional
		}
	}
	return omitted
}

// sameText compares two texts without white space at the ends, and with any line ends.
func sameText(a, b string) bool { return withLF(strings.TrimSpace(a)) == withLF(strings.TrimSpace(b)) }

// withLF returns the text with LF as the line end. Forms send CRLF, but a service may store LF.
func withLF(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// textsApplied reports whether the note has the params' texts, without white space at the ends.
func (p *UpdateNoteParams) textsApplied(note *ProgressNote) bool {
	texts := note.texts()
	for i, text := range p.texts() {
		if text != nil && !sameText(*text, *texts[i]) {
			return false
		}
	}
	return true
}

// applied returns a copy of the note with the params' texts, and with the patient that Extra names.
func (p *UpdateNoteParams) applied(note *ProgressNote) ProgressNote {
	changed := *note
	for _, member := range []string{patientMember, patientID} {
		if value, isSent := p.Extra[member]; isSent {
			patient, _ := json.Marshal(value) // encode has rejected values that cannot be encoded
			changed.Patient = Object{raw: string(patient)}
			changed.Extra = Object{} // which may name the patient before
		}
	}
	texts := changed.texts()
	for i, text := range p.texts() {
		if text != nil {
			*texts[i] = *text
		}
	}
	return changed
}

// incompleteError returns the error for a note that cannot be signed because it is not complete. An attempt without a
// response may still be under way, and sign the note when it is complete.
func incompleteError(refusal error) error {
	const detail = "transcription and analysis are not both complete; wait for the note, then sign"
	err := &callError{op: signNote, detail: detail, causes: []error{ErrNoteIncomplete, refusal}}
	if errors.Is(refusal, ErrOutcomeUnknown) {
		return withUnknownOutcome(err)
	}
	return err
}

// noteMayExplain reports whether reading the note can explain the failure of a Sign. The service may have refused
// it because of the note's state, or its response was lost and the note was not read since.
func noteMayExplain(err error) bool {
	_, isConflict := errors.AsType[*ConflictError](err)
	switch {
	case err == nil, isConflict, errors.Is(err, errAlreadyDone), errors.Is(err, ErrNoteIncomplete):
		return false
	case errors.Is(err, ErrRateLimited): // the service wants no request now
		return false
	case errors.Is(err, ErrOutcomeUnknown):
		return true
	}
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.StatusCode < 400 {
		return false
	}
	unrelated := []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout} // to the note's state
	return !slices.Contains(unrelated, refused.StatusCode)
}

// explainSign reads the note after a failed Sign. It returns the note if it is signed after all, an error matching
// ErrNoteIncomplete if it is not complete, and otherwise the failure.
func (e *edit) explainSign(ctx context.Context, failure error) (*ProgressNote, error) {
	note, err := e.client.Notes.Get(ctx, e.id, e.options.inherited())
	if err != nil {
		return nil, failure
	}
	if note.Has.Signed && errors.Is(failure, ErrOutcomeUnknown) {
		e.hasWritten = true
		return note, nil
	}
	if !note.Stage().AtLeast(StageComplete) {
		return nil, incompleteError(failure)
	}
	return nil, failure
}
