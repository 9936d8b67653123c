package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// task is a recording in work. One goroutine at a time has it.
type task struct {
	recording Recording
	own       Entry // its key and what it is described by; never changes
	entry     Entry // as it was saved last, or is to be saved
	claim     Claim
	uploads   int       // in this run
	doubted   bool      // it was in doubt in this run
	asks      int       // in vain, in this run
	due       time.Time // when it is asked about once more
	err       error     // the latest

	equals []Recording // with the same key, that came meanwhile; guarded by run.mu
}

const (
	maxUploads = 3      // of one recording in one run
	maxEquals  = 10_000 // waiting for one recording
	grace      = 10 * time.Second
)

// begin decides from the journal what is to be done with a recording.
func (r *run) begin(t *task) {
	var content *snapshot
	var err error
	if t.recording, content, err = t.recording.prepare(); err != nil {
		r.report(Result{Recording: t.recording, Status: Refused, Err: err})
		return
	}
	defer content.release()
	t.own = Entry{Key: keyOf(r.service, t.recording.Key), State: StateClaimed}
	t.own.describe(r.service, t.recording.Params)
	t.entry = t.own
	if !r.enter(t) {
		return
	}
	claim, err := r.uploader.Journal.Claim(r.ctx, t.own.Key)
	switch {
	case errors.Is(err, ErrTaken):
		r.done(t, Result{Status: InDoubt, Err: err}, nil)
		return
	case err != nil && r.ctx.Err() != nil: // it is the run that ended
		r.done(t, Result{Status: Refused, Err: err}, nil)
		return
	case err != nil:
		r.done(t, Result{Status: Refused, Err: err}, err)
		return
	}
	t.claim = claim
	known := claim.Entry()
	switch {
	case known.differs(t.own):
		r.done(t, Result{Status: Refused, Err: fail("the key was used for another patient's recording, or one of another size; give each recording a key of its own", ErrKeyReused)}, nil)
	case known.State == StateCreated:
		r.done(t, Result{Status: AlreadyThere, NoteID: known.NoteID}, nil)
	case known.State.sent() && r.unsaved(t) != 0:
		t.entry = known
		r.saveAgain(t)
	case known.State == StateCommitting:
		t.entry = known
		r.recover(t)
	case known.State == StateInDoubt:
		t.entry = known
		r.doubt(t)
	default:
		r.upload(t, content)
	}
}

// enter makes the task the only one of its key in this run. Otherwise its recording waits for the result of the other.
func (r *run) enter(t *task) bool {
	r.mu.Lock()
	first := r.active[t.own.Key]
	switch {
	case first == nil:
		r.active[t.own.Key] = t
	case first.sameAs(t) && len(first.equals) < maxEquals:
		first.equals = append(first.equals, t.recording)
		r.mu.Unlock()
		return false
	}
	r.mu.Unlock()
	switch {
	case first == nil:
		return true
	case !first.sameAs(t):
		r.report(Result{Recording: t.recording, Status: Refused, Err: fail("two recordings of this run have the same key; give each a key of its own", ErrKeyReused)})
	default:
		r.report(Result{Recording: t.recording, Status: InDoubt, Err: fail("too many equal recordings wait for the first one", ErrTaken)})
	}
	return false
}

func (t *task) sameAs(other *task) bool {
	return t.own.Patient == other.own.Patient && t.own.Size == other.own.Size
}

// upload creates the note, of the content if that was read already.
func (r *run) upload(t *task, content *snapshot) {
	t.uploads++
	t.entry = t.own
	t.entry.SentAt = time.Now()
	r.event(Event{Recording: t.recording, State: StateClaimed})
	note, err := r.create(t, content)
	t.err = err
	unknown, lost := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
	if lost {
		unknown.Params = t.recording.Params // without what belongs to this upload
	}
	conflict, other := errors.AsType[*clinicaldoc.ConflictError](err)
	journal, broken := errors.AsType[*journalError](err)
	switch {
	case err == nil:
		r.created(t, note)
	case lost:
		r.lost(t, unknown)
	case other && conflict.Current != nil: // a note was made, but not this patient's: a person has to look
		t.entry.NoteID = conflict.Current.ID
		r.lost(t, &clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, NoteID: conflict.Current.ID, Err: err})
	case broken && errors.Is(journal.err, ErrTaken): // another worker took it over; its note is not ours to make
		r.done(t, Result{Status: InDoubt, Err: journal.err}, nil)
	case broken:
		r.done(t, Result{Status: Refused, Err: journal.err}, journal.err)
	default:
		r.refused(t, err)
	}
}

// create calls Create with the journal in its BeforeCommit. Once the recording may have left whole, the end of the run waits
// a little for its response: that is better than a doubt.
func (r *run) create(t *task, content *snapshot) (*clinicaldoc.ProgressNote, error) {
	params := t.recording.Params
	if content != nil {
		defer content.release()
		params.Audio = content.audio(params.Audio)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	defer cancel(nil)
	var committed atomic.Bool
	defer context.AfterFunc(r.ctx, func() {
		end := func() { cancel(context.Cause(r.ctx)) }
		if !committed.Load() {
			end()
			return
		}
		timer := time.AfterFunc(grace, end)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})()
	params.BeforeCommit = func(attempt context.Context) error {
		if before := t.recording.Params.BeforeCommit; before != nil {
			if err := before(attempt); err != nil {
				return err
			}
		}
		committed.Store(true)
		if err := r.ctx.Err(); err != nil {
			return err
		}
		e := t.entry
		e.State, e.At = StateCommitting, time.Now()
		if err := t.claim.Save(attempt, e); err != nil {
			return &journalError{err}
		}
		t.entry = e
		return nil
	}
	if r.uploader.OnEvent != nil {
		params.OnProgress = r.onProgress(t)
	}
	return r.uploader.Client.Notes.Create(ctx, params)
}

// journalError marks what the journal refused in BeforeCommit.
type journalError struct{ err error }

func (e *journalError) Error() string    { return redact.Opaque(e.err).Error() }
func (e *journalError) SafeText() string { return e.Error() }
func (e *journalError) Unwrap() error    { return e.err }

// created writes down the note. That it exists is told also when it cannot be written down. The worker goes on meanwhile:
// this line can share a sync with the next upload's.
func (r *run) created(t *task, note *clinicaldoc.ProgressNote) {
	e := t.createdEntry(note, false)
	r.saving <- struct{}{}
	r.workers.Go(func() {
		defer func() { <-r.saving }()
		r.done(t, Result{Status: Created, NoteID: note.ID, Note: note}, r.saveCreated(t, e))
	})
}

func (t *task) createdEntry(note *clinicaldoc.ProgressNote, found bool) Entry {
	e := t.entry
	e.State, e.At, e.NoteID, e.Found, e.Until, e.Why = StateCreated, time.Now(), note.ID, found, time.Time{}, ""
	return e
}

// refused writes down that no note exists.
func (r *run) refused(t *task, cause error) {
	e := t.entry
	e.State, e.At, e.Until, e.NoteID, e.Why = StateRefused, time.Now(), time.Time{}, 0, redact.Opaque(cause).Error()
	r.done(t, Result{Status: Refused, Err: cause}, r.save(t, e))
}

// save writes an entry down also when the run is being ended. What another worker took over is that one's to write.
func (r *run) save(t *task, e Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), grace)
	defer cancel()
	t.entry = e
	if err := t.claim.Save(ctx, e); !errors.Is(err, ErrTaken) {
		return err
	}
	return nil
}

// done ends a task with the result of its recording and of those that are equal to it. An error is the journal's and ends
// the run.
func (r *run) done(t *task, result Result, broken error) {
	m := message{results: r.finish(t, result), broken: broken}
	if t.doubted {
		m.patient = &t.own.Patient
	}
	r.messages <- m
}

// finish lets go of the key and returns the results.
func (r *run) finish(t *task, result Result) []Result {
	if t.claim != nil {
		t.claim.Release()
	}
	r.mu.Lock()
	if r.active[t.own.Key] == t {
		delete(r.active, t.own.Key)
	}
	if t.doubted {
		r.doubts--
	}
	equals := t.equals
	r.mu.Unlock()
	result.Recording = t.recording
	results := []Result{result}
	for _, recording := range equals {
		equal := result
		equal.Recording, equal.Note = recording, nil
		if equal.Status == Created {
			equal.Status = AlreadyThere
		}
		results = append(results, equal)
	}
	return results
}

// report is the result of a recording that never became a task.
func (r *run) report(result Result) { r.messages <- message{results: []Result{result}} }
