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
	NoteID    int64  `json:"note_id"`   // 0 if it is not known, as of a Create whose response was lost
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
	AccessNone      = "none"      // nothing of the record came back, as after a deletion
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

// WithAudit calls the function for each record that a call discloses or changes. These are each note that a method
// returns, yields, passes to a callback or puts into an error, and each recording. Changes count also if their
// outcome is unknown. It is called once for each call and record, before the caller gets the record.
//
// Records that the client reads only for its own work are reported too, at the end of the call. Examples are notes
// that an edit compares, notes and recordings that FindCreated searches, and rows of a list that were not yielded.
// Their Outcome is not AccessDisclosed. A recording counts as disclosed with its first byte; later reads of an
// [AudioStream] are not reported. [Client.Do] is reported if its path contains "/progress-notes". Tokens and users
// are not reported.
//
// If the function returns an error, the caller does not get the record: the error of the call is a
// [*NotAuditedError], which matches [ErrNotAudited]. It ends an iterator. A change is not undone: the error says that
// it was made.
//
// The function runs in the goroutine of the call, so it must be safe for concurrent use. A function that blocks delays
// its call. The context has the values of the call's context, and does not end with it: a canceled call is told too. If
// the function panics, the panic leaves the call. It must not read notes with the same client. With WithAudit,
// [Response].Body is empty after a call that failed, and in calls that consist of several requests.
//
// If the option is passed twice, the last function is used.
func WithAudit(audit func(ctx context.Context, access Access) error) Option {
	return when(audit != nil, "WithAudit", "the function is nil", func(c *config) { c.audit = audit })
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

// trail is what a call, with all calls in it, has read, and what of it the audit function was told.
type trail struct {
	operation string
	audit     func(context.Context, Access) error

	// Of the goroutine of the call.
	failure *NotAuditedError // the first one; nil: none
	ended   bool             // everything was told
	inAudit bool             // the audit function has not returned, or has panicked

	mu        sync.Mutex        // requests of a call may be under way at the same time
	read      map[record]string // what was read and not told, with its request ID
	told      map[record]bool
	addresses map[int64]string // request IDs of the responses with addresses of recordings, by note
}

func newTrail(operation string, audit func(context.Context, Access) error) *trail {
	return &trail{
		operation: operation, audit: audit,
		read: map[record]string{}, told: map[record]bool{}, addresses: map[int64]string{},
	}
}

// saw notes that a request of the call has read the record. A nil trail ignores it.
func (t *trail) saw(r record, requestID string) {
	if t == nil || r.note < 1 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.told[r] {
		t.read[r] = requestID
	}
}

// sawNote notes that a response contained the note.
func (t *trail) sawNote(n *ProgressNote, requestID string) {
	if t != nil && !n.isBare() {
		t.saw(n.record(), requestID)
	}
}

// addressed notes that a response contained the address of the note's recording.
func (t *trail) addressed(id int64, requestID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addresses[id] = requestID
}

// recording returns the record of the note's recording, with the patient if the call has read it.
func (t *trail) recording(id int64) record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return record{note: id, patient: t.patientOf(id), recording: true}
}

// patientOf returns the patient of the note as far as the call has read it, or 0. The caller holds the lock.
func (t *trail) patientOf(id int64) int64 {
	for _, records := range []iter.Seq[record]{maps.Keys(t.read), maps.Keys(t.told)} {
		for r := range records {
			if r.note == id && r.patient != 0 {
				return r.patient
			}
		}
	}
	return 0
}

// pending returns the records that were read and not told, in order.
func (t *trail) pending() []record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.read), compareRecords)
}

// take returns the accesses to those of the records that were not told before, which count as told from now on.
func (t *trail) take(outcome string, records []record) []Access {
	t.mu.Lock()
	defer t.mu.Unlock()
	var accesses []Access
	for _, r := range records {
		if t.told[r] {
			continue
		}
		requestID := t.read[r]
		if r.recording {
			requestID = cmp.Or(requestID, t.addresses[r.note])
		}
		delete(t.read, r)
		t.told[r] = true
		accesses = append(accesses, Access{
			NoteID: r.note, PatientID: r.patient, Recording: r.recording, Outcome: outcome, RequestID: requestID,
		})
	}
	return accesses
}

// tell calls the audit function for each access. After the function has failed, tell passes only changes to it, because
// the caller gets no more records.
func (t *trail) tell(ctx context.Context, accesses ...Access) {
	ctx = context.WithoutCancel(ctx)
	for _, access := range accesses {
		failed := t.failure != nil
		if failed {
			if !access.Changed {
				continue
			}
			if access.Outcome == AccessDisclosed {
				access.Outcome = AccessRead
			}
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

// disclose tells of records that the caller is about to get. It returns why the caller must not get them, or nil.
func (t *trail) disclose(ctx context.Context, given ...record) *NotAuditedError {
	if t.failure == nil {
		t.tell(ctx, t.take(AccessDisclosed, given)...)
	}
	return t.failure
}

// settle tells of everything that the call has read, disclosed and changed, and that was not told before. It returns
// why the caller must not get the records, or nil. The call ends with err.
func (s *scope) settle(ctx context.Context, given []record, err error) *NotAuditedError {
	t := s.trail
	if t.ended || t.inAudit {
		return t.failure
	}
	t.ended = true
	disclosed := t.take(AccessDisclosed, given)
	change, changed := s.change(err)
	if changed {
		disclosed = t.addChange(disclosed, change)
	}
	rest := AccessRead
	if errors.Is(err, ErrPatientMismatch) || errors.Is(err, ErrUnexpectedResponse) {
		rest = AccessRefused
	}
	t.tell(ctx, t.take(rest, t.pending())...) // first: if that fails, nothing is disclosed
	t.tell(ctx, disclosed...)
	if t.failure != nil && changed {
		t.failure.NoteID = disclosed[0].NoteID
		t.failure.Changed = true
		t.failure.OutcomeUnknown = change.OutcomeUnknown
	}
	return t.failure
}

// addChange puts the access to the changed note first: one of those that are disclosed, or another one.
func (t *trail) addChange(disclosed []Access, change Access) []Access {
	for i, a := range disclosed {
		if a.NoteID == change.NoteID || change.NoteID == 0 { // what a create discloses is the note
			a.Changed = true
			a.OutcomeUnknown = change.OutcomeUnknown
			return slices.Insert(slices.Delete(disclosed, i, i+1), 0, a)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change.Outcome = AccessNone
	change.PatientID = cmp.Or(change.PatientID, t.patientOf(change.NoteID))
	own := record{note: change.NoteID, patient: change.PatientID}
	if requestID, read := t.read[own]; read {
		change.Outcome = AccessRead
		change.RequestID = cmp.Or(change.RequestID, requestID)
		delete(t.read, own)
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
	mayHaveChanged := err == nil || unknown || s.wrote
	if !mayHaveChanged {
		return Access{}, false
	}
	id := noteIn(s.sent.Path)
	isCreate := isListPath(s.sent.Path)
	if isCreate {
		id = provenNoteID(err)
	}
	isOfNotes := isCreate || id != 0
	if !isOfNotes {
		return Access{}, false
	}
	return Access{
		NoteID: id, PatientID: s.patient, Changed: true, OutcomeUnknown: unknown, RequestID: s.requestID,
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
	if !ok || lost.kept.NoteIDUnproven {
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

// noteIn returns the ID of the note that the path names, or 0.
func noteIn(urlPath string) int64 {
	_, after, _ := strings.Cut(urlPath, notesName+"/")
	segment, _, _ := strings.Cut(after, "/")
	id, err := strconv.ParseInt(segment, 10, 64)
	if err != nil || id < 1 {
		return 0
	}
	return id
}

// runAudited runs the method of a call and tells of its records before the caller gets them.
func runAudited[T any](ctx context.Context, call *scope, method func(context.Context, *scope) (T, error)) (T, error) {
	defer func() { _ = call.settle(ctx, nil, errUnfinished) }() // after a panic; else it was done
	value, err := method(ctx, call)
	failure := call.settle(ctx, call.given(value, err), err)
	call.withholdBody(failure, err)
	if failure == nil {
		return value, err
	}
	if _, isCount := any(value).(int64); !isCount { // of bytes that the caller has
		value = *new(T)
	}
	return value, failure.besides(err)
}

// rangeAudited runs the body of an iterator and tells of each note before it is yielded.
func rangeAudited[T any](
	ctx context.Context, call *scope, yield yieldFunc[T],
	body func(context.Context, *scope, yieldFunc[T]) error,
) {
	defer func() { _ = call.settle(ctx, nil, errUnfinished) }() // after a panic; else it was done
	stopped := false
	err := body(ctx, call, func(row *T, err error) bool {
		if failure := call.trail.disclose(ctx, call.given(row, err)...); failure != nil {
			stopped = true
			yield(nil, call.keepFirst(failure.besides(err)))
			return false
		}
		stopped = !yield(row, err)
		return !stopped
	})
	if failure := call.settle(ctx, nil, err); failure != nil {
		err = failure.besides(err)
	}
	if err != nil && !stopped {
		yield(nil, call.keepFirst(err))
	}
}

// given returns the records that the result of the call hands to the caller.
func (s *scope) given(value any, err error) (given []record) {
	switch v := value.(type) {
	case *ProgressNote:
		given = appendNote(given, v)
	case *Page[ProgressNote]:
		if v != nil {
			for i := range v.Items {
				given = appendNote(given, &v.Items[i])
			}
		}
	case *AudioURL:
		if v != nil {
			given = append(given, s.trail.recording(noteIn(s.sent.Path)))
		}
	case *AudioStream:
		if v != nil {
			given = append(given, s.trail.recording(v.id))
		}
	}
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		given = appendNote(given, conflict.Current)
	}
	if ended, ok := errors.AsType[*WaitError](err); ok {
		given = appendNote(given, ended.Note)
	}
	return given
}

func appendNote(given []record, note *ProgressNote) []record {
	if note == nil {
		return given
	}
	return append(given, note.record())
}

// besides returns the failure with err as its CallErr. It removes the records from err.
func (e *NotAuditedError) besides(err error) error {
	if itself, ok := errors.AsType[*NotAuditedError](err); ok && itself == e {
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

// withholdBody empties the body in the Response of WithResponse if the caller does not get the records in it.
func (s *scope) withholdBody(failure *NotAuditedError, err error) {
	response := s.options.response
	if response == nil {
		return
	}
	refused := err != nil && response.StatusCode/100 == 2
	if failure != nil || refused {
		response.Body = nil
	}
}

// auditResponse tells of what a response to Do contains, before any of it is decoded for the caller. Without a trail
// there is nothing to do.
func (s *scope) auditResponse(ctx context.Context, response []byte, handedOut bool) error {
	if s.trail == nil {
		return nil
	}
	records := s.recordsIn(response)
	for _, r := range records {
		s.trail.saw(r, s.requestID)
	}
	if !handedOut {
		records = nil
	}
	return asError(s.settle(ctx, records, nil))
}

// recordsIn returns the records in a response to Do. They are the note or the recording that the path names, or the
// notes of another path, such as a list.
func (s *scope) recordsIn(response []byte) []record {
	if len(response) == 0 {
		return nil
	}
	if id := noteIn(s.sent.Path); id != 0 {
		return s.recordsOf(id, response)
	}
	if !strings.Contains(s.sent.Path, notesName) {
		return nil
	}
	if note, _, err := s.decodeNote(0)(response); err == nil {
		return []record{note.record()}
	}
	page, _, err := decodePage(response, "data", QueryNames{}, 0, (*ProgressNote).fill, (*ProgressNote).id)
	if err != nil {
		return nil
	}
	return s.given(page, nil)
}

// recordsOf returns the records in a response to Do with a path that names the note. A path that continues after
// the note's ID may name a part of the note, such as a version with its own ID. The access is then to both.
func (s *scope) recordsOf(id int64, response []byte) []record {
	if strings.HasSuffix(s.sent.Path, "/audio-url") {
		return []record{{note: id, recording: true}}
	}
	note, _, err := s.decodeNote(0)(response)
	if err != nil && s.op.method == http.MethodDelete { // a confirmation
		return nil
	}
	if err != nil {
		return []record{{note: id}}
	}
	isNotePath := path.Base(s.sent.Path) == strconv.FormatInt(id, 10)
	if note.ID == id || isNotePath {
		return []record{note.record()}
	}
	return []record{{note: id}, note.record()}
}

// heard records what the trail needs of a response.
func (s *scope) heard(result *exchange.Result, err error) {
	s.requestID = requestID(result.Last.Header)
	if err == nil && s.op.effect != exchange.Reads {
		s.wrote = true
	}
	isInner := s.trail == nil
	if isInner && s.options.response != nil {
		s.options.response.Body = nil // the caller does not get all records in it
	}
	if s.op == audioURL {
		s.options.trail.addressed(noteIn(s.sent.Path), s.requestID)
	}
}

// auditedUpdate returns the callback of a wait, which gets a note only after the audit function was told.
func (s *scope) auditedUpdate(ctx context.Context, onUpdate func(*ProgressNote)) func(*ProgressNote) {
	if s.trail == nil || onUpdate == nil {
		return onUpdate
	}
	return func(note *ProgressNote) {
		if s.trail.disclose(ctx, note.record()) == nil {
			onUpdate(note)
		}
	}
}

// auditFailed reports whether the caller gets nothing any more.
func (s *scope) auditFailed() bool { return s.trail != nil && s.trail.failure != nil }

// recordingDisclosure returns a function that tells of the note's recording when it is called first, or nil if nobody
// is told.
func (s *scope) recordingDisclosure(ctx context.Context, id int64) func() error {
	all := s.options.trail
	if all == nil {
		return nil
	}
	told := false
	return func() error {
		if told {
			return nil
		}
		told = true
		if s.trail == nil {
			all.saw(all.recording(id), "")
			return nil
		}
		return asError(s.trail.disclose(ctx, all.recording(id)))
	}
}

// auditDownload tells of all that a complete download has read, and of the recording if there was nothing left to
// write.
func (s *scope) auditDownload(ctx context.Context, disclose func() error) error {
	if disclose == nil {
		return nil
	}
	if err := disclose(); err != nil || s.trail == nil {
		return err
	}
	return asError(s.settle(ctx, nil, nil))
}

// asError returns the failure as an error, or nil if there is none.
func asError(failure *NotAuditedError) error {
	if failure == nil {
		return nil
	}
	return failure
}
