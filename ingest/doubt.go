package ingest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	defaultSettle = 10 * time.Minute // as FindCreated's
	maxResolvers  = 32               // searches at a time
	maxDoubts     = 10_000           // unresolved recordings at a time; what comes then is left to the next run
	relatedWindow = 27 * time.Hour   // FindCreated looks at the notes of about a day
	maxAsks       = 6                // in vain about one recording in one run
	maxAskTime    = 2 * time.Minute  // after it was first asked about in vain
	firstPause    = 2 * time.Second  // before anything is tried once more; doubled each time
)

// outcomeUnknown makes a recording unresolved: it was sent, and the response is missing or did not show its note.
func (r *run) outcomeUnknown(t *task, unknown *clinicaldoc.OutcomeUnknownError) {
	lostAt := time.Now()
	var uploadTook time.Duration
	if !unknown.LostAt.IsZero() { // it is zero if Create did not lose the response, but failed after it
		lostAt = unknown.LostAt
		uploadTook = max(lostAt.Sub(unknown.SentAt), 0)
		t.entry.SentAt = unknown.SentAt
	}
	if unknown.AudioSize != 0 { // the size of a stream is known only after it was read
		t.entry.Size = unknown.AudioSize
	}
	t.entry.Loss = lossOf(unknown, map[string]any{"audio_sha256": t.entry.SHA256})
	t.entry.NoteID = namedNote(t.entry.Loss)
	r.saveUnresolved(t, lostAt.Add(max(r.settle(), uploadTook)), redact.Opaque(unknown).Error())
}

// resumeCommitted makes a recording unresolved that an earlier process or run had committed. Nobody knows when that one
// ended, so the time until it can be decided begins now.
func (r *run) resumeCommitted(t *task, known Entry) {
	t.entry = known
	isResumed := r.resumeUnsaved(t)
	if isResumed {
		return
	}
	took := max(t.entry.At.Sub(t.entry.SentAt), 0)
	overrides := map[string]any{"id": rand.Text(), "audio_sha256": t.entry.SHA256, "took": int64(took)}
	if !t.entry.isOfUnknownUser() {
		overrides["service"] = r.owner.Service
		overrides["user_id"] = r.owner.UserID
	}
	lost := &clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, AudioSize: t.entry.Size}
	t.entry.Loss = lossOf(lost, overrides)
	r.saveUnresolved(t, time.Now().Add(max(r.settle(), took)), "the process ended before the response came")
}

// ofUnknownUser is the Loss of a recording that was committed by a run which did not know its user. The user that the
// journal gets later may be another one, and may not see the recording's note.
var ofUnknownUser = json.RawMessage(`{"user_unknown":true}`)

func (e Entry) isOfUnknownUser() bool {
	return e.State == StateCommitting && bytes.Equal(e.Loss, ofUnknownUser)
}

// withAdvice returns FindCreated's error. If the journal does not know who sent the recording, because an older version
// did not keep that, it adds what a person can do.
func (t *task) withAdvice(err error) error {
	if t.lostCreate().Service != "" {
		return err
	}
	const why = "the journal does not know which user sent it; compare it with the patient's notes and decide " +
		"which note is its own, or that none is (Uploader.Resolve): "
	return fail(why+redact.Opaque(err).Error(), err)
}

// keepLearned replaces the entry's Loss by the lost create in FindCreated's error. That is the same one, with what
// FindCreated has learned: the service's clock, by which Settle counts in the next process too, and the notes that a
// person should compare. It reports whether Loss has changed. An entry of an earlier version stays without a Loss.
func (t *task) keepLearned(err error) (changed bool) {
	unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
	if !ok || len(t.entry.Loss) == 0 {
		return false
	}
	before := t.entry.Loss
	t.entry.Loss = lossOf(unknown, map[string]any{"took": int64(t.uploadTook())})
	return !bytes.Equal(before, t.entry.Loss)
}

// lossOf returns the JSON of a lost create for [Entry].Loss. It leaves out the error's text, and the params, which name
// a patient and which the recording has. Members in overrides replace those of the same name; an empty string or 0 in
// overrides does not.
func lossOf(unknown *clinicaldoc.OutcomeUnknownError, overrides map[string]any) json.RawMessage {
	loss := *unknown
	loss.Params = clinicaldoc.CreateNoteParams{} // otherwise MarshalJSON might read the recording for its hash
	text, err := json.Marshal(loss)
	members := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(text, &members) != nil {
		return nil
	}
	for name, value := range overrides {
		if value != "" && value != int64(0) {
			members[name], _ = json.Marshal(value)
		}
	}
	delete(members, "params")
	delete(members, "error")
	text, _ = json.Marshal(members)
	return text
}

// namedNote returns the id of the note that the response contained, or 0. An id that may be something else's does not
// count: a response may contain the id of a job.
func namedNote(loss json.RawMessage) int64 {
	var kept struct {
		NoteID   int64 `json:"note_id"`
		Unproven bool  `json:"note_id_unproven"`
	}
	if err := json.Unmarshal(loss, &kept); err != nil || kept.Unproven {
		return 0
	}
	return kept.NoteID
}

func (r *run) settle() time.Duration { return cmp.Or(r.uploader.Find.Settle, defaultSettle) }

// saveUnresolved saves that the recording is unresolved, and until when: from then on FindCreated can say that there is
// no note. A restart keeps the saved time and does not postpone it. Then saveUnresolved leaves the recording to a
// resolver.
func (r *run) saveUnresolved(t *task, until time.Time, why string) {
	e := t.entry
	e.State = StateInDoubt
	e.At = time.Now()
	e.Until = until
	e.Why = why
	if err := r.saveDoubt(t, e); err != nil {
		r.endTaskWithJournal(t, t.unresolvedResult(), err)
		return
	}
	r.leaveToResolver(t)
}

// leaveToResolver leaves an unresolved recording to a resolver, so that the worker can go on. If too many recordings
// are unresolved, it ends the task, and the next run searches for the note.
func (r *run) leaveToResolver(t *task) {
	if t.entry.SHA256 != "" {
		r.reserve(t, t.entry.SHA256) // so the patient's other recordings with this content wait; see commit
	}
	r.mu.Lock()
	isFull := !t.isCountedUnresolved && r.unresolvedCount >= maxDoubts
	if !t.isCountedUnresolved && !isFull { // it is counted already if it was uploaded once more
		t.isCountedUnresolved = true
		r.unresolvedCount++
	}
	if t.entry.Until.After(r.allDecidedBy) {
		r.allDecidedBy = t.entry.Until
	}
	r.mu.Unlock()
	if isFull {
		const why = "too many recordings are unresolved; the next run searches for this one"
		t.latestErr = cmp.Or(t.latestErr, fail(why, clinicaldoc.ErrOutcomeUnknown))
		r.endTask(t, t.unresolvedResult())
		return
	}
	r.sendEvent(Event{Recording: t.recording, JournalKey: t.own.Key, State: StateInDoubt, Until: t.entry.Until})
	r.resolve(t)
}

// resolve leaves the recording to a resolver, and begins another resolver if there are not too many.
func (r *run) resolve(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, t)
	if r.resolverCount < maxResolvers {
		r.resolverCount++
		r.goroutines.Go(r.resolveAll)
	}
}

// resolveAll is a resolver. It ends when nothing is pending.
func (r *run) resolveAll() {
	returned := false
	defer func() {
		if !returned { // the caller's own code ended the goroutine, and another one takes its place
			r.goroutines.Go(r.resolveAll)
		}
	}()
	for t := r.nextPending(); t != nil; t = r.nextPending() {
		r.guardTask(t, r.ask)
	}
	returned = true
}

// nextPending returns the next task for a resolver. If there is none, it returns nil and no longer counts the resolver.
func (r *run) nextPending() *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		r.resolverCount--
		return nil
	}
	t := r.pending[0]
	r.pending = slices.Delete(r.pending, 0, 1)
	return t
}

// ask waits for FindCreated's verdict on an unresolved recording. If there is none, it asks again, as long as the
// journal has meanwhile explained more of the patient's notes.
func (r *run) ask(t *task) {
	explainedBefore := math.MinInt
	for {
		related, err := r.relatedEntries(t)
		if err != nil {
			r.journalFailed(t, err)
			return
		}
		params := r.findParams(t, related)
		explained := len(params.Exclude) - len(params.Unresolved) // grows when another recording gets its note
		if explained <= explainedBefore {
			r.askAgainLater(t)
			return
		}
		explainedBefore = explained
		isDone := r.askOnce(t, params)
		if isDone {
			return
		}
	}
}

// askOnce asks FindCreated once. It reports whether the resolver is done with the task: the task is over, or the
// recording is uploaded once more because its note was not created. The resolver is not done if there was no verdict,
// or if the note that was found is or may be another recording's.
func (r *run) askOnce(t *task, params clinicaldoc.FindCreatedParams) (isDone bool) {
	errBefore := t.latestErr
	note, err := r.findCreated(t, params)
	switch {
	case err == nil:
		return r.takeFoundNote(t, note)
	case errors.Is(err, clinicaldoc.ErrNotCreated):
		r.notCreated(t, err)
		return true
	}
	t.latestErr = t.withAdvice(err)
	lossChanged := t.keepLearned(err)
	isRunEnding := r.resolveCtx.Err() != nil
	if !isRunEnding {
		return false // it may be asked again
	}
	t.latestErr = cmp.Or(errBefore, t.latestErr) // an earlier error, because this one may only be the end of the run
	var journalErr error
	if lossChanged {
		journalErr = r.save(t, t.entry)
	}
	r.endTaskWithJournal(t, t.unresolvedResult(), journalErr)
	return true
}

// findCreated calls FindCreated, first by a unique name if the recording has one. A name that contains the key proves
// that a note is the recording's. If no note has it, that proves nothing, because a service or a person may change
// names: then the content of the notes has to decide.
func (r *run) findCreated(t *task, params clinicaldoc.FindCreatedParams) (*clinicaldoc.ProgressNote, error) {
	notes := r.uploader.Client.Notes
	note, err := notes.FindCreated(r.resolveCtx, t.lostCreate(), params)
	namesUnchanged := r.uploader.Find.UniqueName || r.uploader.Client.Assumptions().NamesUnchanged
	if !params.UniqueName || namesUnchanged || !errors.Is(err, clinicaldoc.ErrNotCreated) {
		return note, err
	}
	params.UniqueName = false
	return notes.FindCreated(r.resolveCtx, t.lostCreate(), params)
}

// relatedEntries returns what the journal knows of the patient from about the time of the upload. If a name identifies
// the note, it returns the entries of any time.
func (r *run) relatedEntries(t *task) ([]Entry, error) {
	since := t.entry.SentAt.Add(-relatedWindow)
	if r.isNameUnique(t) {
		since = anyTime
	}
	entries, err := r.uploader.Journal.EntriesForPatient(r.resolveCtx, t.own.Patient, since)
	return t.withCurrentNames(entries), err
}

// journalFailed ends an unresolved task because the journal could not be read. The error ends the run, unless only one
// record is damaged, or the end of the run is the cause of the error.
func (r *run) journalFailed(t *task, err error) {
	isRunEnding := r.resolveCtx.Err() != nil
	if isRunEnding {
		r.endTask(t, t.unresolvedResult())
		return
	}
	t.latestErr = err
	if errors.Is(err, ErrJournalDamaged) {
		err = nil // other patients' recordings go on
	}
	r.endTaskWithJournal(t, t.unresolvedResult(), err)
}

// takeFoundNote saves the note that FindCreated returned, and reports whether the task is over. It is not over if
// another recording of the journal has the note or may have made it: then FindCreated has to be asked again. It is over
// if the journal fails. takeFoundNote runs for one recording at a time, so that no two take the same note.
func (r *run) takeFoundNote(t *task, note *clinicaldoc.ProgressNote) (isOver bool) {
	r.takeLock <- struct{}{}
	defer func() { <-r.takeLock }()
	related, err := r.relatedEntries(t)
	if err != nil {
		r.journalFailed(t, err)
		return true
	}
	for _, e := range related {
		if e.Key != t.own.Key && r.mayClaim(e, t, note) {
			const why = "a note was found, but it is or may be that of another recording"
			t.latestErr = fail(why, clinicaldoc.ErrOutcomeUnknown)
			return false
		}
	}
	e := r.createdEntry(t, note)
	e.Found = true
	result := Result{Status: Created, NoteID: note.ID, Note: note, Stage: note.Stage(), Replaced: e.replacedIDs()}
	r.endTaskWithJournal(t, result, r.save(t, e))
	return true
}

// mayClaim reports whether the recording of e, another one of the journal, has the note that was found for the task, or
// may have made it.
func (r *run) mayClaim(e Entry, t *task, note *clinicaldoc.ProgressNote) bool {
	isNamedByResponse := note.ID == t.entry.NoteID
	switch {
	case e.ownsNote(note.ID, note.CreatedAt):
		return true
	case isNamedByResponse || !e.mayHaveUnknownNote(): // the response to the task's own upload is proof
		return false
	case r.isNameUnique(t):
		return e.Name == t.own.Name
	}
	return e.mayHaveContent(t.entry.Size, t.entry.SHA256)
}

// askAgainLater saves why FindCreated could not decide, and lets it be asked again after a pause, because the journal
// may then know more of the patient's notes. After maxAsks or maxAskTime, or if the entry cannot be saved, it ends the
// task, and the next run asks again.
func (r *run) askAgainLater(t *task) {
	e := t.entry
	e.At = time.Now()
	e.Why = redact.Opaque(t.latestErr).Error()
	err := r.save(t, e)
	t.vainAsks++
	if t.vainAsks == 1 {
		t.stopAskingAt = time.Now().Add(maxAskTime)
	}
	wasLastAsk := t.vainAsks >= maxAsks || time.Now().After(t.stopAskingAt)
	if err != nil || wasLastAsk {
		r.endTaskWithJournal(t, t.unresolvedResult(), err)
		return
	}
	t.nextAsk = time.Now().Add(firstPause << (t.vainAsks - 1))
	r.send(askLater{t})
}

// notCreated uploads a recording once more, because by FindCreated's verdict it has no note. After maxUploads uploads
// the recording is refused. If an earlier run got the note in a response, the verdict does not count, and the note is
// saved.
func (r *run) notCreated(t *task, verdict error) {
	if r.unsavedNote(t) != nil {
		r.saveAgain(t)
		return
	}
	if t.uploads >= maxUploads {
		cause := redact.Opaque(cmp.Or(t.latestErr, verdict)).Error() // how the upload failed says more than the verdict
		why := "the service accepted it several times without creating a note: " + cause
		r.refused(t, fail(why, clinicaldoc.ErrNotCreated, t.latestErr))
		return
	}
	t.latestErr = verdict
	r.send(uploadAgain{t})
}

// findParams returns the caller's params for FindCreated with what the journal knows of the patient: the notes of other
// recordings, and other recordings that are unresolved.
func (r *run) findParams(t *task, related []Entry) clinicaldoc.FindCreatedParams {
	params := r.uploader.Find
	params.OnProgress = nil // several searches at once would call it
	params.UniqueName = r.hasUniqueName(t, related)
	params.Settle = max(r.settle(), t.uploadTook())
	if len(t.entry.Loss) == 0 {
		// An entry of an earlier version has no Loss, so its Settle counts from SentAt.
		params.Settle = max(t.entry.Until.Sub(t.entry.SentAt), 1) // 0 would be the default
	}
	params.Exclude = slices.Clone(params.Exclude)
	params.Unresolved = slices.Clone(params.Unresolved)
	for _, id := range t.entry.Excluded {
		params.Exclude = append(params.Exclude, &clinicaldoc.ProgressNote{ID: id})
	}
	for _, e := range related {
		for _, replaced := range e.Replaced {
			note := &clinicaldoc.ProgressNote{ID: replaced.ID, CreatedAt: replaced.CreatedAt}
			params.Exclude = append(params.Exclude, note)
		}
		switch {
		case e.Key == t.own.Key: // it is the one that is asked about
		case e.State == StateCreated:
			params.Exclude = append(params.Exclude, e.note())
		case e.mayHaveUnknownNote():
			params.Unresolved = append(params.Unresolved, t.lostCreateOf(e))
		}
	}
	return params
}

// lostCreateOf describes the lost create of another recording of the patient, for FindCreatedParams.Unresolved. The
// journal does not know its name, unless that is the same as the task's.
func (t *task) lostCreateOf(e Entry) *clinicaldoc.OutcomeUnknownError {
	other := &clinicaldoc.OutcomeUnknownError{}
	if len(e.Loss) > 0 {
		_ = json.Unmarshal(e.Loss, other) // for its ID; without it, the other fields have to do
	}
	other.Params = clinicaldoc.CreateNoteParams{PatientID: t.recording.Params.PatientID}
	if e.Name == t.own.Name {
		other.Params.Name = t.recording.Params.Name
	}
	other.SentAt = e.SentAt
	other.AudioSize = e.Size
	other.AudioSHA256 = e.SHA256
	return other
}

// uploadTook returns how long an upload took whose process ended before the response came. It is 0 for other uploads.
func (t *task) uploadTook() time.Duration {
	var loss struct {
		Took time.Duration `json:"took"`
	}
	_ = json.Unmarshal(t.entry.Loss, &loss)
	return loss.Took
}

// lostCreate returns the error that FindCreated is asked with.
func (t *task) lostCreate() *clinicaldoc.OutcomeUnknownError {
	unknown := &clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, LostAt: t.entry.SentAt, AudioSize: t.entry.Size}
	if len(t.entry.Loss) > 0 { // an earlier version kept none
		_ = json.Unmarshal(t.entry.Loss, unknown)
	}
	unknown.Params = t.recording.Params
	unknown.NoteID = t.entry.NoteID
	unknown.Err = t.latestErr
	return unknown
}

// unresolvedResult returns the result of a recording that is unresolved, with the latest error and the notes to
// compare.
func (t *task) unresolvedResult() Result {
	err := t.latestErr
	if err == nil {
		err = fail("it is not known yet whether its note was created", clinicaldoc.ErrOutcomeUnknown)
	}
	result := Result{
		Status: InDoubt, NoteID: t.entry.NoteID, Until: t.entry.Until, Candidates: t.entry.Candidates(), Err: err,
	}
	unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
	if ok && len(unknown.Candidates) > 0 { // they are newer than the entry's
		result.Candidates = slices.Clone(unknown.Candidates)
	}
	return result
}
