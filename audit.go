package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Access is a record that a call disclosed or changed; see [WithAudit]. As JSON it contains the patient's ID. It prints
// and logs without it.
type Access struct {
	Operation string `json:"operation"` // method that was called, such as "Notes.Get"
	NoteID    int64  `json:"note_id"`   // 0 if not known, such as after a Create whose response was lost
	// PatientID is the patient that the note names, or 0 if it is not known. For a Create whose response was lost it is
	// the requested one.
	PatientID int64  `json:"patient_id"`
	Recording bool   `json:"recording"` // the record is the note's recording, or its temporary URL
	Changed   bool   `json:"changed"`   // the call created, updated, signed or deleted the note
	Outcome   string `json:"outcome"`   // what the caller gets of the record, such as AccessDisclosed
	// OutcomeUnknown means that the change may or may not have been carried out. Changed is then set too.
	OutcomeUnknown bool   `json:"outcome_unknown"`
	RequestID      string `json:"request_id"` // as the service sent it with the record; empty if it sent none
}

// The values of [Access].Outcome.
const (
	AccessDisclosed = "disclosed" // the caller gets the record
	AccessRead      = "read"      // the client read the record for the call, and the caller does not get it
	AccessRefused   = "refused"   // the client read the record and rejected it, as one of another patient
	AccessNone      = "none"      // the service returned no record, as after a deletion
)

// LogValue returns the fields without the patient's ID.
func (a Access) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("operation", a.Operation), slog.Int64("note_id", a.NoteID), slog.Bool("recording", a.Recording),
		slog.Bool("changed", a.Changed), slog.String("outcome", a.Outcome),
		slog.Bool("outcome_unknown", a.OutcomeUnknown), slog.String("request_id", a.RequestID),
	)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (a Access) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Access", a) }

// WithAudit calls the function for each record that a call discloses or changes. Disclosed records are recordings, and
// notes that a method returns, yields, passes to a callback or puts into an error. Changes are reported even if their
// outcome is unknown. The function is called once for each call and record, before the caller gets the record.
//
// Records that the client reads only for its own work are reported too, at the end of the call. Examples are notes
// that an edit compares, notes and recordings that FindCreated searches, and rows of a list that were not yielded.
// Their Outcome is not AccessDisclosed. A recording counts as disclosed with its first byte; later reads of an
// [AudioStream] are not reported. [Client.Do] is reported if its path contains "/progress-notes". Tokens and users
// are not reported.
//
// If the function returns an error, the caller does not get the record: the error of the call is a [*NotAuditedError],
// which matches [ErrNotAudited]. That error ends an iterator. A change is not undone: the error says that it was made.
//
// The function runs in the goroutine of the call, so it must be safe for concurrent use. A function that blocks delays
// its call. The context has the values of the call's context, and does not end with it: a canceled call is reported
// too. If the function panics, the panic leaves the call. It must not read notes with the same client.
//
// With WithAudit, [Response].Body is empty if the record was withheld or the client rejected the response, and in
// calls that consist of several requests. A refusal of the service is not reported; Body then contains it.
//
// If the option is passed twice, the last function is used.
func WithAudit(audit func(ctx context.Context, access Access) error) Option {
	return optionIf(audit != nil, "WithAudit", "the function is nil", func(c *config) { c.audit = audit })
}

// NotAuditedError reports that the function of [WithAudit] failed, so the records of the call are withheld. It
// matches [ErrNotAudited], the function's error, and the call's own error if it failed too.
//
// If Changed is set, do not repeat the call: the change was made, or may have been made if OutcomeUnknown is set.
type NotAuditedError struct {
	Operation      string // method that was called, such as "Notes.Create"
	NoteID         int64  // of the note that was changed or withheld; 0 if it is not known
	Changed        bool   // as in [Access]
	OutcomeUnknown bool   // as in [Access]
	// Err is what the audit function returned. Its text is printed only if it is known to be harmless.
	Err error `json:"-"`
	// CallErr is the call's own error, without the record, or nil if the call succeeded.
	CallErr error `json:"-"`
}

// Error returns a text that is safe to log.
func (e *NotAuditedError) Error() string {
	what := "the record is withheld, because the audit function failed" + reason(e.Err)
	switch {
	case e.OutcomeUnknown:
		what += "; the change may or may not have been made: check before sending it again"
	case e.Changed:
		what += "; the change was made"
		if e.NoteID != 0 {
			what += ", to note " + strconv.FormatInt(e.NoteID, 10)
		}
		what += ": do not send it again"
	}
	if e.CallErr != nil {
		what += "; the call also failed: " + redact.Cause(e.CallErr)
	}
	return errorText(e.Operation, "", "", what, "")
}

// Unwrap makes [errors.Is] and [errors.As] see [ErrNotAudited], Err and CallErr.
func (e *NotAuditedError) Unwrap() []error {
	causes := []error{ErrNotAudited, e.Err}
	if e.CallErr != nil {
		causes = append(causes, e.CallErr)
	}
	return redact.OpaqueAll(causes...)
}

// LogValue returns the fields that may be logged.
func (e NotAuditedError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("error", e.Error()), slog.Int64("note_id", e.NoteID),
		slog.Bool("changed", e.Changed), slog.Bool("outcome_unknown", e.OutcomeUnknown),
	)
}

// Format implements [fmt.Formatter]. It prints the error's text for every verb.
func (e NotAuditedError) Format(s fmt.State, _ rune) { printError(s, &e) }

// record is a note of a patient, or its recording.
type record struct {
	note, patient int64
	recording     bool
}

// record returns the note and its patient, or 0 for the patient if the note does not name exactly one.
func (n *ProgressNote) record() record {
	patient, _ := n.PatientID()
	return record{note: n.ID, patient: patient}
}

// rank orders a note before its recording.
func (r record) rank() int {
	if r.recording {
		return 1
	}
	return 0
}

func compareRecords(a, b record) int {
	return cmp.Or(cmp.Compare(a.note, b.note), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.patient, b.patient))
}

// trail collects the records that a call reads, with all calls in it, and reports them to the audit function.
type trail struct {
	operation string
	audit     func(context.Context, Access) error

	// Of the goroutine of the call.
	failure *NotAuditedError // the first one; nil: none
	closed  bool             // everything was reported
	inAudit bool             // the audit function has not returned, or has panicked

	mu                sync.Mutex        // requests of a call may be under way at the same time
	unreported        map[record]string // what was read and not reported, with its request ID
	reported          map[record]bool
	addressRequestIDs map[int64]string // request IDs of the responses with addresses of recordings, by note
}

func newTrail(operation string, audit func(context.Context, Access) error) *trail {
	return &trail{
		operation: operation, audit: audit,
		unreported: map[record]string{}, reported: map[record]bool{}, addressRequestIDs: map[int64]string{},
	}
}

// addRecord records that a request of the call has read the record. A nil trail ignores it.
func (t *trail) addRecord(r record, requestID string) {
	if t == nil || r.note < 1 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reported[r] {
		t.unreported[r] = requestID
	}
}

// addNote records that a response contained the note. A nil trail ignores it.
func (t *trail) addNote(n *ProgressNote, requestID string) {
	if t != nil && !n.isBare() {
		t.addRecord(n.record(), requestID)
	}
}

// addAddress records that a response contained the address of the note's recording.
func (t *trail) addAddress(id int64, requestID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addressRequestIDs[id] = requestID
}

// recording returns the record of the note's recording, with the patient if the call has read it.
func (t *trail) recording(id int64) record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return record{note: id, patient: t.patientOf(id), recording: true}
}

// patientOf returns the patient of the note as far as the call has read it, or 0. The caller holds the lock.
func (t *trail) patientOf(id int64) int64 {
	for _, records := range []iter.Seq[record]{maps.Keys(t.unreported), maps.Keys(t.reported)} {
		for r := range records {
			if r.note == id && r.patient != 0 {
				return r.patient
			}
		}
	}
	return 0
}

// pending returns the records that were read and not reported, in order.
func (t *trail) pending() []record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.unreported), compareRecords)
}

// accessesTo returns the accesses with this outcome to those of the records that were not reported before. It marks
// them as reported, so the caller must report them.
func (t *trail) accessesTo(records []record, outcome string) []Access {
	t.mu.Lock()
	defer t.mu.Unlock()
	var accesses []Access
	for _, r := range records {
		if t.reported[r] {
			continue
		}
		requestID := t.unreported[r]
		if r.recording {
			requestID = cmp.Or(requestID, t.addressRequestIDs[r.note])
		}
		delete(t.unreported, r)
		t.reported[r] = true
		accesses = append(accesses, Access{
			NoteID: r.note, PatientID: r.patient, Recording: r.recording, Outcome: outcome, RequestID: requestID,
		})
	}
	return accesses
}

// report calls the audit function for each access. After the function has failed, report passes only changes to it, as
// not disclosed, because the caller gets no more records.
func (t *trail) report(ctx context.Context, accesses ...Access) {
	ctx = context.WithoutCancel(ctx)
	for _, access := range accesses {
		failed := t.failure != nil
		if failed && !access.Changed {
			continue
		}
		if failed && access.Outcome == AccessDisclosed {
			access.Outcome = AccessRead
		}
		access.Operation = t.operation
		t.inAudit = true
		err := t.audit(ctx, access)
		t.inAudit = false
		if err != nil && !failed {
			t.failure = &NotAuditedError{Operation: t.operation, NoteID: access.NoteID, Err: err}
		}
	}
}

// disclose reports records that the caller is about to get. It returns why the caller must not get them, or nil.
func (t *trail) disclose(ctx context.Context, records ...record) *NotAuditedError {
	if t.failure == nil {
		t.report(ctx, t.accessesTo(records, AccessDisclosed)...)
	}
	return t.failure
}

// closeTrail reports everything that the call has read, disclosed and changed, and that was not reported before. The
// call ends with err, and hands out the records in handedOut. closeTrail returns why the caller must not get them, or
// nil. It does nothing the second time, nor if the audit function has panicked.
func (s *scope) closeTrail(ctx context.Context, handedOut []record, err error) *NotAuditedError {
	t := s.ownTrail
	if t.closed || t.inAudit {
		return t.failure
	}
	t.closed = true
	disclosed := t.accessesTo(handedOut, AccessDisclosed)
	change, changed := s.change(err)
	if changed {
		disclosed = t.addChange(disclosed, change)
	}
	withheld := AccessRead
	if errors.Is(err, ErrPatientMismatch) || errors.Is(err, ErrUnexpectedResponse) {
		withheld = AccessRefused
	}
	t.report(ctx, t.accessesTo(t.pending(), withheld)...) // first: if that fails, nothing is disclosed
	t.report(ctx, disclosed...)
	if t.failure != nil && changed {
		t.failure.NoteID = disclosed[0].NoteID // where addChange has put the change
		t.failure.Changed = true
		t.failure.OutcomeUnknown = change.OutcomeUnknown
	}
	return t.failure
}

// addChange returns the disclosed accesses with the change before the others. If the changed note is disclosed too,
// both are one access.
func (t *trail) addChange(disclosed []Access, change Access) []Access {
	for i, a := range disclosed {
		// A change without an ID is a create. The first note that is disclosed counts as the created one.
		if a.NoteID == change.NoteID || change.NoteID == 0 {
			a.Changed = true
			a.OutcomeUnknown = change.OutcomeUnknown
			return slices.Insert(slices.Delete(disclosed, i, i+1), 0, a)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change.Outcome = AccessNone
	change.PatientID = cmp.Or(change.PatientID, t.patientOf(change.NoteID))
	note := record{note: change.NoteID, patient: change.PatientID}
	if requestID, wasRead := t.unreported[note]; wasRead {
		change.Outcome = AccessRead
		change.RequestID = cmp.Or(change.RequestID, requestID)
		delete(t.unreported, note)
	}
	return slices.Insert(disclosed, 0, change)
}

// change returns the access by which the call has changed a note, or may have changed it. It reports false if there is
// none. The NoteID of a create is 0, unless its outcome is unknown and the response contained the ID.
func (s *scope) change(err error) (Access, bool) {
	if s.op == nil || s.op.effect == exchange.Reads {
		return Access{}, false
	}
	unknown := s.mayHaveActed(err)
	mayHaveChanged := err == nil || unknown || s.hasWritten
	if !mayHaveChanged {
		return Access{}, false
	}
	id := noteIDInPath(s.request.Path)
	isCreate := isListPath(s.request.Path)
	if isCreate {
		id = provenNoteID(err)
	}
	isOfNotes := isCreate || id != 0
	if !isOfNotes {
		return Access{}, false
	}
	return Access{
		NoteID: id, PatientID: s.requestedPatient, Changed: true, OutcomeUnknown: unknown, RequestID: s.requestID,
	}, true
}

// mayHaveActed reports whether the outcome of a call with this error is unknown. After a panic it is unknown if a
// request was sent.
func (s *scope) mayHaveActed(err error) bool {
	if errors.Is(err, errUnfinished) {
		return s.attempts > 0
	}
	return errors.Is(err, ErrOutcomeUnknown)
}

// provenNoteID returns the ID of the note in the response to a create with an unknown outcome, or 0.
func provenNoteID(err error) int64 {
	lost, ok := errors.AsType[*OutcomeUnknownError](err)
	if !ok || lost.details.NoteIDUnproven {
		return 0
	}
	return lost.NoteID
}

// notesName is a segment of each path of notes.
const notesName = "/progress-notes"

// isListPath reports whether a path is that of the list of notes, to which new notes are posted.
func isListPath(path string) bool {
	return strings.HasSuffix(strings.TrimRight(path, "/"), notesName)
}

// noteIDInPath returns the ID of the note that the path names, or 0.
func noteIDInPath(urlPath string) int64 {
	_, after, _ := strings.Cut(urlPath, notesName+"/")
	segment, _, _ := strings.Cut(after, "/")
	id, err := strconv.ParseInt(segment, 10, 64)
	if err != nil || id < 1 {
		return 0
	}
	return id
}

// runAudited runs the method of a call and reports the records in its results. If the audit function fails, it returns
// that failure, which contains the method's error, and no records. A number of downloaded bytes is returned anyway.
func runAudited[T any](ctx context.Context, call *scope, method func(context.Context, *scope) (T, error)) (T, error) {
	defer func() { _ = call.closeTrail(ctx, nil, errUnfinished) }() // after a panic; else it was done
	value, err := method(ctx, call)
	failure := call.closeTrail(ctx, call.handedOut(value, err), err)
	call.withholdBody(failure, err)
	if failure == nil {
		return value, err
	}
	err = failure.withCallErr(err)
	_, isByteCount := any(value).(int64) // the caller has these bytes already
	if isByteCount {
		return value, err
	}
	return *new(T), err
}

// rangeAudited runs the body of an iterator, and reports each note before it is yielded. If the audit function fails,
// the failure is yielded instead and ends the iterator.
func rangeAudited[T any](
	ctx context.Context, call *scope, yield yieldFunc[T],
	body func(context.Context, *scope, yieldFunc[T]) error,
) {
	defer func() { _ = call.closeTrail(ctx, nil, errUnfinished) }() // after a panic; else it was done
	stopped := false
	err := body(ctx, call, func(row *T, err error) bool {
		if failure := call.ownTrail.disclose(ctx, call.handedOut(row, err)...); failure != nil {
			stopped = true
			yield(nil, call.keepFirst(failure.withCallErr(err)))
			return false
		}
		stopped = !yield(row, err)
		return !stopped
	})
	var handedOut []record // none are left: each row was disclosed before it was yielded
	if failure := call.closeTrail(ctx, handedOut, err); failure != nil {
		err = failure.withCallErr(err)
	}
	if err != nil && !stopped {
		yield(nil, call.keepFirst(err))
	}
}

// handedOut returns the records that the caller gets with a call's value and error. The error may contain a note too.
func (s *scope) handedOut(value any, err error) (records []record) {
	switch v := value.(type) {
	case *ProgressNote:
		records = appendNote(records, v)
	case *Page[ProgressNote]:
		if v != nil {
			for i := range v.Items {
				records = appendNote(records, &v.Items[i])
			}
		}
	case *AudioURL: // it does not name its note
		if v != nil {
			records = append(records, s.ownTrail.recording(noteIDInPath(s.request.Path)))
		}
	case *AudioStream:
		if v != nil {
			records = append(records, s.ownTrail.recording(v.id))
		}
	}
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		records = appendNote(records, conflict.Current)
	}
	if ended, ok := errors.AsType[*WaitError](err); ok {
		records = appendNote(records, ended.Note)
	}
	return records
}

// appendNote appends the record of the note, unless the note is nil.
func appendNote(records []record, note *ProgressNote) []record {
	if note == nil {
		return records
	}
	return append(records, note.record())
}

// withCallErr returns the failure with err as its CallErr. It removes the records from err.
func (e *NotAuditedError) withCallErr(err error) error {
	if itself, ok := errors.AsType[*NotAuditedError](err); ok && itself == e { // err is the failure, as Do returns it
		return e
	}
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		conflict.Current = nil
	}
	if ended, ok := errors.AsType[*WaitError](err); ok {
		ended.Note = nil
	}
	e.CallErr = err
	return e
}

// withholdBody empties the body in the Response of WithResponse if the caller does not get the records in it: because
// the audit function failed, or because the client rejected the response with err.
func (s *scope) withholdBody(failure *NotAuditedError, err error) {
	response := s.options.response
	if response == nil {
		return
	}
	isRejected := err != nil && response.StatusCode/100 == 2
	if failure != nil || isRejected {
		response.Body = nil
	}
}

// auditResponse reports the records in a response to Do, before any of it is decoded for the caller. They count as
// disclosed if the caller gets the response, and otherwise as read. Without an audit, auditResponse does nothing.
func (s *scope) auditResponse(ctx context.Context, response []byte, callerGetsIt bool) error {
	if s.ownTrail == nil {
		return nil
	}
	records := s.recordsIn(response)
	for _, r := range records {
		s.ownTrail.addRecord(r, s.requestID)
	}
	var disclosed []record
	if callerGetsIt {
		disclosed = records
	}
	return asError(s.closeTrail(ctx, disclosed, nil))
}

// recordsIn returns the records in a response to Do. They are the note or the recording that the path names, or the
// notes of another path, such as a list.
func (s *scope) recordsIn(response []byte) []record {
	if len(response) == 0 {
		return nil
	}
	if id := noteIDInPath(s.request.Path); id != 0 {
		return s.recordsOf(id, response)
	}
	if !strings.Contains(s.request.Path, notesName) {
		return nil
	}
	if note, _, err := s.decodeNote(anyID)(response); err == nil {
		return []record{note.record()}
	}
	page, _, err := decodePage(response, "data", QueryNames{}, unknownSize, (*ProgressNote).fill, (*ProgressNote).id)
	if err != nil {
		return nil
	}
	return s.handedOut(page, nil)
}

// recordsOf returns the records in a response to Do with a path that names the note. A path that continues after
// the note's ID may name a part of the note, such as a version with its own ID. The access is then to both.
func (s *scope) recordsOf(id int64, response []byte) []record {
	if strings.HasSuffix(s.request.Path, "/audio-url") {
		return []record{{note: id, recording: true}}
	}
	note, _, err := s.decodeNote(anyID)(response)
	if err != nil && s.op.method == http.MethodDelete { // a confirmation
		return nil
	}
	if err != nil {
		return []record{{note: id}}
	}
	isNotePath := path.Base(s.request.Path) == strconv.FormatInt(id, 10)
	if note.ID == id || isNotePath {
		return []record{note.record()}
	}
	return []record{{note: id}, note.record()}
}

// recordResponse records what the audit needs of a response: its request ID, whether it confirms a write, and whether
// it contains a recording's address. It is called only in an audited call. If another call contains this one, it also
// empties the body in the Response of WithResponse: that may hold records which the outer call does not return, and so
// does not report as disclosed.
func (s *scope) recordResponse(result *exchange.Result, err error) {
	s.requestID = requestID(result.Last.Header)
	if err == nil && s.op.effect != exchange.Reads {
		s.hasWritten = true
	}
	isInner := s.ownTrail == nil // the outer call has the trail
	if isInner && s.options.response != nil {
		s.options.response.Body = nil
	}
	if s.op == audioURL {
		s.options.trail.addAddress(noteIDInPath(s.request.Path), s.requestID)
	}
}

// auditedUpdate returns a callback for a wait that reports each note to the audit before it calls onUpdate. It does not
// call onUpdate once the audit function has failed.
func (s *scope) auditedUpdate(ctx context.Context, onUpdate func(*ProgressNote)) func(*ProgressNote) {
	if s.ownTrail == nil || onUpdate == nil {
		return onUpdate
	}
	return func(note *ProgressNote) {
		if s.ownTrail.disclose(ctx, note.record()) == nil {
			onUpdate(note)
		}
	}
}

// auditFailed reports whether the audit function has failed, so the caller gets no more records.
func (s *scope) auditFailed() bool { return s.ownTrail != nil && s.ownTrail.failure != nil }

// recordingDisclosure returns a function that reports the note's recording to the audit when it is called for the first
// time. It returns nil without an audit.
func (s *scope) recordingDisclosure(ctx context.Context, id int64) func() error {
	t := s.options.trail
	if t == nil {
		return nil
	}
	isInner := s.ownTrail == nil
	reported := false
	return func() error {
		if reported {
			return nil
		}
		reported = true
		if isInner { // the caller of the outer call does not get the recording
			const noRequestID = "" // accessesTo takes that of its address
			t.addRecord(t.recording(id), noRequestID)
			return nil
		}
		return asError(t.disclose(ctx, t.recording(id)))
	}
}

// auditDownload reports all that a complete download has read. It also reports the recording if nothing of it had to be
// written, because an earlier download had left all of it. The function is that of recordingDisclosure.
func (s *scope) auditDownload(ctx context.Context, disclose func() error) error {
	if disclose == nil {
		return nil
	}
	if err := disclose(); err != nil || s.ownTrail == nil {
		return err
	}
	var handedOut []record // none are left: the recording was disclosed above
	return asError(s.closeTrail(ctx, handedOut, nil))
}

// asError returns the failure as an error, or nil if there is none.
func asError(failure *NotAuditedError) error {
	if failure == nil {
		return nil
	}
	return failure
}
