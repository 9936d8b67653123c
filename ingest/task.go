package ingest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// task is a recording in work. One goroutine at a time has it.
type task struct {
	job              job
	recording        Recording
	sha256           string   // of the recording; empty: not known yet
	unusable         error    // why it cannot be sent; the journal may know its note, and its file may be gone since
	own              Entry    // its key and what describes it, without what became of it; fixed once decide has it
	earlierNames     []uint32 // hashes that an entry of an earlier version may have of the name
	entry            Entry    // as it was saved last, or is to be saved
	claim            Claim
	begun            time.Time
	uploads          int       // in this run
	vainAsks         int       // how often FindCreated could not decide in this run
	stopAskingAt     time.Time // from when on it is not asked about again
	nextAsk          time.Time // when it is asked about once more
	latestErr        error     // of Create, FindCreated or the journal; nil: there was none
	reservedContents []content // see run.reserve; guarded by run.mu
	onlySavesStage   bool      // see saveStage
	decidedBy        string    // the person who decided that it has no note, or that it is to be sent again

	isCountedUnresolved bool // it is counted in run.unresolvedCount until it ends

	equalRecordings []Recording // that came meanwhile and have the same key; guarded by run.mu
}

const (
	maxUploads = 3      // of one recording in one run
	maxEquals  = 10_000 // waiting for one recording
)

// decide claims a recording, and does what follows from what the journal knows of it. Of the rows only the first one
// that applies counts.
func (r *run) decide(t *task) {
	isClaimed := r.claimTask(t)
	if !isClaimed {
		return
	}
	known := t.withCurrentName(t.claim.Entry())
	t.own.Replaced = known.Replaced
	t.own.Excluded = known.Excluded
	t.entry = t.own
	t.decidedBy = known.By
	isNew := r.uploader.AllNew && !r.journalHasGaps && t.decidedBy == ""
	for _, row := range []struct {
		applies bool
		do      func(t *task, known Entry)
	}{
		{known.isOtherRecording(t.own), r.keyReused},
		{known.State == StateCreated, r.alreadyThere}, // the name of a note that exists may change
		{known.State.mayHaveNote() && known.Name != t.own.Name, r.otherName},
		{known.State.mayHaveNote() && r.unsavedNote(t) != nil, r.saveKnown},
		{t.unusable != nil && !known.State.mayHaveNote(), func(t *task, _ Entry) { r.cannotSend(t, Refused) }},
		{known.State == StateCommitting, r.resumeCommitted},
		{known.mayHaveUnknownNote(), r.resumeUnresolved},
		{t.unusable != nil, func(t *task, _ Entry) { r.cannotSend(t, InDoubt) }}, // unresolved, but never sent
		{isNew, r.uploadNew},
		{true, func(t *task, _ Entry) { r.searchThenUpload(t) }},
	} {
		if row.applies {
			row.do(t, known)
			return
		}
	}
}

// claimTask describes a recording and takes its key, in this run and in the journal. It ends the task and reports false
// if it cannot.
func (r *run) claimTask(t *task) bool {
	if isDescribed := r.describe(t); !isDescribed {
		return false
	}
	if isOnly := r.enter(t); !isOnly {
		return false
	}
	return r.claimKey(t)
}

// describe fills in what the journal knows the recording by. It ends the task and reports false if there is no key, or
// the journal cannot be read.
func (r *run) describe(t *task) bool {
	t.recording, t.unusable = t.recording.prepare()
	if t.unusable != nil && t.recording.Key == "" {
		r.cannotSend(t, Refused)
		return false
	}
	t.sha256 = t.recording.SHA256
	t.own = Entry{State: StateClaimed}
	t.own.describe(r.service, t.recording.Params)
	t.earlierNames = earlierNames(r.service, t.recording.Params)
	key, err := r.findKey(t)
	t.own.Key = key
	if err != nil {
		r.claimFailed(t, err)
		return false
	}
	if t.unusable != nil {
		t.own.Size = -1 // not known
	} else {
		t.unusable = r.checkRecording(t.recording)
	}
	t.entry = t.own
	return true
}

// claimKey takes the key in the journal. It ends the task and reports false if it cannot.
func (r *run) claimKey(t *task) bool {
	claim, err := r.uploader.Journal.Claim(r.ctx, t.own.Key)
	if err != nil {
		r.claimFailed(t, err)
		return false
	}
	t.claim = claim
	return true
}

// claimFailed ends a task whose key cannot be taken.
func (r *run) claimFailed(t *task, err error) {
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrJournalDamaged): // which is of this recording alone
		r.endTask(t, Result{Status: InDoubt, Err: err})
	case r.ctx.Err() != nil: // it is the run that ended
		r.drop(t)
	default:
		r.endTaskWithJournal(t, Result{Status: Refused, Err: err}, err)
	}
}

func (r *run) keyReused(t *task, _ Entry) {
	const why = "the key was used for another patient's recording, or one of another size; " +
		"give each recording its own key"
	r.endTask(t, Result{Status: Refused, Err: fail(why, ErrKeyReused)})
}

func (r *run) alreadyThere(t *task, known Entry) {
	result := Result{Status: AlreadyThere, NoteID: known.NoteID, Stage: known.Stage, Replaced: known.replacedIDs()}
	r.endTask(t, result)
}

// otherName ends a task whose recording is unresolved under another name.
func (r *run) otherName(t *task, known Entry) {
	const why = "the recording is unresolved under another name; give it that name again, or decide which note " +
		"is its own (Uploader.Resolve)"
	r.endTask(t, Result{
		Status: InDoubt, NoteID: known.NoteID, Until: known.Until, Candidates: known.Candidates(),
		Err: fail(why, ErrKeyReused),
	})
}

// saveKnown writes down the note that an earlier run could not.
func (r *run) saveKnown(t *task, known Entry) {
	t.entry = known
	r.saveAgain(t)
}

// resumeUnresolved goes on with a recording that an earlier run left unresolved.
func (r *run) resumeUnresolved(t *task, known Entry) {
	t.entry = known
	r.leaveToResolver(t)
}

// cannotSend ends a task whose recording cannot be sent. If that may pass, the recording is begun once more later.
func (r *run) cannotSend(t *task, status Status) {
	health, mayTryLater := r.failureOf(t, t.unusable)
	result := Result{Status: status, Err: t.unusable}
	if mayTryLater && r.mayTryAgain(t) {
		r.putBack(t, result)
		return
	}
	r.endTaskWith(t, result, taskEnded{health: health})
}

// enter makes the task the only one of its key in this run, and reports whether it is. Otherwise the task is over: its
// recording gets the result of the other task, waits for it, or is refused because it is another recording.
func (r *run) enter(t *task) bool {
	first, joined := r.enterOrJoin(t)
	switch {
	case first == t:
		return true
	case joined: // it gets the first one's result
	case first.onlySavesStage: // which takes a moment
		r.block(t, t.own.Key)
	case !first.mayBeSameRecording(t):
		const why = "two recordings of this run have the same key; give each its own key"
		r.endTask(t, Result{Status: Refused, Err: fail(why, ErrKeyReused)})
	default:
		const why = "too many equal recordings wait for the first one"
		r.endTask(t, Result{Status: InDoubt, Err: fail(why, ErrTaken)})
	}
	return false
}

// enterOrJoin makes the task the only one of its key if there is no other. If there is an equal one, the recording
// joins that one. It returns the task that has the key.
func (r *run) enterOrJoin(t *task) (first *task, joined bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.activeTasks[t.own.Key]
	if first == nil {
		r.activeTasks[t.own.Key] = t
		return t, false
	}
	isFull := len(first.equalRecordings) >= maxEquals
	joined = !first.onlySavesStage && first.mayBeSameRecording(t) && !isFull
	if joined {
		first.equalRecordings = append(first.equalRecordings, t.recording)
	}
	return first, joined
}

// mayBeSameRecording reports whether two tasks of one key can be of the same recording.
func (t *task) mayBeSameRecording(other *task) bool {
	return t.own.Patient == other.own.Patient && t.own.Size == other.own.Size
}

// upload creates the note, and does what follows from Create's error.
func (r *run) upload(t *task) {
	if t.unusable != nil {
		r.refused(t, t.unusable)
		return
	}
	t.uploads++
	t.entry = t.own
	t.entry.SentAt = time.Now()
	t.entry.SHA256 = t.sha256
	r.sendEvent(Event{Recording: t.recording, JournalKey: t.own.Key, State: StateClaimed})
	note, err := r.create(t)
	if errors.Is(err, errChanged) {
		err = errChanged // without what Create has put around it
	}
	t.latestErr = err
	unknown, lost := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
	if lost {
		unknown.Params = t.recording.Params // as the caller passed them, without what create added for this upload
	}
	noteID, isCreated := createdAnyway(err)
	journal, isOfJournal := errors.AsType[*journalError](err)
	rival, isBlocked := errors.AsType[*rivalError](err)
	switch {
	case err == nil:
		r.created(t, note)
	case lost:
		r.send(serviceFailing(err))
		r.outcomeUnknown(t, unknown)
	case isCreated:
		r.outcomeUnknown(t, &clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, NoteID: noteID, Err: err})
	case isBlocked:
		r.waitForRival(t, rival.rival)
	case isOfJournal:
		r.notJournaled(t, journal.err)
	default:
		r.refused(t, err)
	}
}

// createdAnyway returns the id of a note that exists although Create returned an error, and reports whether there is
// one. Either the note is another patient's, and a person has to decide, or it is withheld until the audit trail works.
// The caller has handled creates with an unknown outcome before.
func createdAnyway(err error) (noteID int64, exists bool) {
	conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err)
	if ok && conflict.Current != nil {
		return conflict.Current.ID, true
	}
	withheld, ok := errors.AsType[*clinicaldoc.NotAuditedError](err)
	if ok && withheld.Changed {
		return withheld.NoteID, true
	}
	return 0, false
}

// notJournaled ends an upload that was not committed, because its entry could not be written to the journal.
func (r *run) notJournaled(t *task, err error) {
	runErr := r.ctx.Err()
	switch {
	case errors.Is(err, ErrTaken): // another worker took it over and makes its note
		r.endTask(t, Result{Status: InDoubt, Err: err})
	case runErr != nil && errors.Is(err, runErr): // the end of the run is why
		r.drop(t)
	default:
		r.endTaskWithJournal(t, Result{Status: Refused, Err: err}, err)
	}
}

// create calls Create with the journal in its BeforeCommit. The end of the run ends the call too. Once the complete
// recording may have left, the call has responseGrace more: its response is better than an unknown outcome.
func (r *run) create(t *task) (*clinicaldoc.ProgressNote, error) {
	params := t.recording.Params
	var sum string // the SHA-256 of what is sent; Create sets it before it calls BeforeCommit
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(r.ctx), creates.WantedSum{}, &sum))
	defer cancel(nil)
	var committed atomic.Bool
	stop := context.AfterFunc(r.ctx, func() {
		endCall := func() { cancel(context.Cause(r.ctx)) }
		if committed.Load() {
			time.AfterFunc(responseGrace, endCall)
			return
		}
		endCall()
	})
	defer stop()
	params.BeforeCommit = func(attempt context.Context) error {
		if before := t.recording.Params.BeforeCommit; before != nil {
			if err := before(attempt); err != nil {
				return errors.Join(errBeforeCommit, err)
			}
		}
		committed.Store(true)
		return r.commit(attempt, t, sum)
	}
	if r.uploader.OnEvent != nil {
		params.OnProgress = r.onProgress(t)
	}
	return r.uploader.Client.Notes.Create(ctx, params)
}

// commit saves that the last bytes of the recording may leave, and its SHA-256. It returns a *rivalError if another
// recording with the same content has to be resolved first, and a *journalError if the entry cannot be saved.
func (r *run) commit(attempt context.Context, t *task, sum string) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if t.sha256 != "" && sum != t.sha256 {
		return errChanged
	}
	holder := r.reserve(t, sum)
	if holder != t.own.Key && !r.isNameUnique(t) {
		return &rivalError{Entry{Key: holder, State: StateCommitting}}
	}
	e := t.entry
	e.State = StateCommitting
	e.At = time.Now()
	e.SHA256 = sum
	if r.owner.UserID == 0 {
		e.Loss = ofUnknownUser
	}
	if err := t.claim.Save(attempt, e); err != nil {
		return &journalError{err}
	}
	t.entry = e
	return nil
}

var errChanged = fail("the recording changed while it was prepared for the upload; "+
	"try again when it is complete", clinicaldoc.ErrInvalidArgument)

// errBeforeCommit marks what the caller's BeforeCommit refused.
var errBeforeCommit = redact.New("BeforeCommit refused")

// journalError marks what the journal refused in BeforeCommit.
type journalError struct{ err error }

func (e *journalError) Error() string { return redact.Opaque(e.err).Error() }
func (e *journalError) Unwrap() error { return e.err }

// created ends a task whose note the service has created. Another goroutine saves the note, so that the worker goes on:
// the line can share a sync of the disk with the next upload's. The recording is Created even if its note cannot be
// saved.
func (r *run) created(t *task, note *clinicaldoc.ProgressNote) {
	if err := r.checkUser(note); err != nil {
		r.send(journalBroken{err}) // which ends the run before this worker begins another recording
	}
	e := r.createdEntry(t, note)
	result := Result{Status: Created, NoteID: note.ID, Note: note, Stage: note.Stage(), Replaced: e.replacedIDs()}
	r.saveSlots <- struct{}{}
	r.goroutines.Go(func() {
		defer func() { <-r.saveSlots }()
		r.guardTask(t, func(t *task) {
			r.endTaskWith(t, result, taskEnded{health: serviceAnswered, journalErr: r.saveCreated(t, e)})
		})
	})
}

// checkUser returns an error matching ErrOtherUser if another user than the journal's created the note. The journal's
// user may not see that user's notes, so a search after a crash could miss one. Some services name the owner of a team
// in each note: a note counts only after another one of this run has named the journal's user.
func (r *run) checkUser(note *clinicaldoc.ProgressNote) error {
	areKnown := r.owner.UserID != 0 && note.UserID != 0
	switch {
	case !areKnown:
		return nil
	case note.UserID == r.owner.UserID:
		r.hasNamedUser.Store(true)
		return nil
	case !r.hasNamedUser.Load():
		return nil
	}
	return fail("the client's user changed during the run: the service created a note for another user than the "+
		"journal's. Nothing more is uploaded; use a token of the journal's user", ErrOtherUser)
}

// createdEntry returns the entry of a recording that has this note. Its Found is false; the caller sets it.
func (r *run) createdEntry(t *task, note *clinicaldoc.ProgressNote) Entry {
	e := t.entry
	e.State = StateCreated
	e.At = time.Now()
	e.NoteID = note.ID
	e.NoteCreatedAt = note.CreatedAt
	e.Found = false
	e.Until = time.Time{}
	e.Why = ""
	e.Loss = nil
	e.Excluded = nil
	if r.follower.isNeeded() {
		e.Stage = note.Stage()
	}
	return e
}

// refused ends a task whose recording certainly has no note. If the cause may pass, the recording is begun once more
// later. If the run ended before the outcome was final, the recording has no result.
func (r *run) refused(t *task, cause error) {
	health, mayTryLater := r.failureOf(t, cause)
	tryLater := mayTryLater && r.mayTryAgain(t)
	runEnded := r.ctx.Err() != nil && notAnswered(cause)
	isCommitted := t.entry.State == StateCommitting
	isFinal := !tryLater && !runEnded
	var journalErr error
	if isCommitted || isFinal { // otherwise the journal knows of no upload anyway
		journalErr = r.saveRefused(t, cause)
	}
	switch {
	case journalErr != nil || isFinal:
		r.endTaskWith(t, Result{Status: Refused, Err: cause}, taskEnded{health: health, journalErr: journalErr})
	case runEnded:
		r.drop(t)
	default:
		r.putBack(t, Result{Status: Refused, Err: cause})
	}
}

// notAnswered reports whether an upload failed without an answer of the service, or was canceled while it waited for a
// rate limit.
func notAnswered(cause error) bool {
	_, isResponse := errors.AsType[*clinicaldoc.Error](cause)
	return !isResponse || errors.Is(cause, context.Canceled)
}

// saveRefused saves that no note exists, and why.
func (r *run) saveRefused(t *task, cause error) error {
	e := t.entry
	e.State = StateRefused
	e.At = time.Now()
	e.Until = time.Time{}
	e.NoteID = 0
	e.Loss = nil
	e.Why = redact.Opaque(cause).Error()
	return r.save(t, e)
}

// save saves an entry, also while the run is ending. It is not an error if another worker took the recording over: only
// that one saves it.
func (r *run) save(t *task, e Entry) error { return unlessTaken(r.write(t, e)) }

// unlessTaken returns the error, or nil if that matches ErrTaken.
func unlessTaken(err error) error {
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}

// write saves an entry like save, but returns an error matching ErrTaken if another worker took the recording over.
func (r *run) write(t *task, e Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), saveTimeout)
	defer cancel()
	t.entry = e
	return t.claim.Save(ctx, e)
}

// endTask ends a task. Its result is that of its recording and of those that are equal to it.
func (r *run) endTask(t *task, result Result) { r.endTaskWith(t, result, taskEnded{}) }

// endTaskWithJournal ends a task like endTask. An error of the journal ends the run; it may be nil.
func (r *run) endTaskWithJournal(t *task, result Result, journalErr error) {
	r.endTaskWith(t, result, taskEnded{journalErr: journalErr})
}

// endTaskWith ends a task like endTask, and also reports what else is known at its end. If the recording was
// unresolved, others of the patient are asked about again: its note may have been in their way.
func (r *run) endTaskWith(t *task, result Result, end taskEnded) {
	end.results = r.finish(t, result)
	if t.isCountedUnresolved {
		end.askAgainFor = &t.own.Patient
	}
	r.send(end)
}

// mayTryAgain reports whether a recording that failed may be begun once more.
func (r *run) mayTryAgain(t *task) bool {
	return r.uploader.MaxPause >= 0 && t.job.countedTries < maxTries
}

// putBack ends a task whose recording is begun once more later. The recording has this result if the run ends first.
func (r *run) putBack(t *task, result Result) {
	r.send(putBack{jobs: r.jobsOf(t, result), failure: result.Err})
}

// block ends a task whose recording has no result yet. It is begun again when the recording with that key has its own,
// or after a pause.
func (r *run) block(t *task, waitsFor Key) {
	t.job.waitsFor = waitsFor
	var noResult Result
	r.send(blocked{r.jobsOf(t, noResult)})
}

// drop ends a task that has no result, because the run ended before its outcome was final.
func (r *run) drop(t *task) { r.send(dropped(len(r.jobsOf(t, Result{})))) }

// jobsOf ends a task and returns its recordings as jobs, to be begun once more. A result with an error becomes their
// lastFailure.
func (r *run) jobsOf(t *task, result Result) []job {
	var jobs []job
	for _, result := range r.finish(t, result) {
		j := t.job
		j.recording = result.Recording
		if result.Err != nil {
			j.lastFailure = result
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// finish ends a task: it releases the key and returns the results of the recording and of those that are equal to it.
func (r *run) finish(t *task, result Result) []Result {
	if claim := t.claim; claim != nil {
		t.claim = nil // first, so that it is not released again if Release panics
		claim.Release()
	}
	return r.resultsOf(t, result)
}

// resultsOf ends a task whose key is released elsewhere. It returns the results of the recording and of those that are
// equal to it, for which a created note is already there. Only the first result has the note, so that no two share an
// object.
func (r *run) resultsOf(t *task, result Result) []Result {
	r.mu.Lock()
	if r.activeTasks[t.own.Key] == t { // a task without a key, or that enter turned away, is not the active one
		delete(r.activeTasks, t.own.Key)
	}
	r.freeReserved(t)
	if t.isCountedUnresolved {
		r.unresolvedCount--
	}
	equals := slices.Clip(t.equalRecordings)
	r.mu.Unlock()
	result.Recording = t.recording
	result.JournalKey = t.own.Key
	result.Position = t.recording.position
	result.Took = time.Since(t.begun)
	results := []Result{result}
	for _, recording := range equals {
		equal := result
		equal.Recording = recording
		equal.Position = recording.position
		equal.Note = nil
		if equal.Status == Created {
			equal.Status = AlreadyThere
		}
		results = append(results, equal)
	}
	return results
}
