package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// A recording is done when its note has reached Uploader.Until, not when the note exists: the service may fail to
// process it. So a run holds back the results of recordings that have notes, and follows the notes in rounds. During
// the uploads a round is short. After the last upload there is one more, which also follows the notes of earlier runs.

const (
	defaultMaxWait = 15 * time.Minute
	roundPause     = 30 * time.Second // before a round, while recordings are uploaded
	roundTime      = 30 * time.Second // for a round, while recordings are uploaded
	roundInterval  = 10 * time.Second // between two looks of such a round
	onceTime       = time.Minute      // for reading each note once
)

// untilStages are the values of Uploader.Until.
var untilStages = []clinicaldoc.Stage{
	0, clinicaldoc.StageUploaded, clinicaldoc.StageTranscribing, clinicaldoc.StageTranscribed,
	clinicaldoc.StageAnalysing, clinicaldoc.StageComplete, clinicaldoc.StageSigned,
}

// noteFollower is what a run knows of the notes that it follows. All but until and callerWaits belongs to the goroutine
// that ranges over the results.
type noteFollower struct {
	until          clinicaldoc.Stage // never changes
	heldResults    map[heldFor][]Result
	roundDue       time.Time          // when the next round begins, while recordings are uploaded
	stopRound      context.CancelFunc // ends the round under way; nil: there is none
	isLastRound    bool               // the round under way is the last one
	lastRoundEnded bool
	callerWaits    bool // the caller waits for the notes, and the run does not; never changes
}

// heldFor is what a result is held back for. The ID alone does not do: if a note was deleted, the service may give its
// ID to the note of another recording.
type heldFor struct {
	noteID int64
	key    Key
}

// byNote orders what results are held back for by their notes.
func byNote(a, b heldFor) int {
	return cmp.Or(cmp.Compare(a.noteID, b.noteID), bytes.Compare(a.key[:], b.key[:]))
}

func newNoteFollower(ctx context.Context, until clinicaldoc.Stage) noteFollower {
	return noteFollower{
		until:       cmp.Or(until, clinicaldoc.StageUploaded),
		heldResults: map[heldFor][]Result{},
		callerWaits: poll.LeavesWaits(ctx),
	}
}

// isNeeded reports whether a recording is done only when its note has reached a stage.
func (f *noteFollower) isNeeded() bool { return f.until > clinicaldoc.StageUploaded }

// isOver reports whether there is nothing more to follow.
func (f *noteFollower) isOver() bool { return !f.isNeeded() || f.callerWaits || f.lastRoundEnded }

// nextRound returns when the next round is due. It is zero while a round is under way, and if no result is held.
func (f *noteFollower) nextRound() time.Time {
	if f.stopRound != nil || len(f.heldResults) == 0 {
		return time.Time{}
	}
	return f.roundDue
}

// noteOutcome is what became of a note that is followed.
type noteOutcome struct {
	id     int64
	key    Key
	status Status
	stage  clinicaldoc.Stage
	note   *clinicaldoc.ProgressNote
	err    error
}

// holdBack keeps a result until its note has reached Uploader.Until, and reports whether it keeps it. If the note has
// reached that stage already, the result becomes Complete. If the caller waits for the notes itself, the result becomes
// Processing. A result without a note is not changed, and no result is if the run does not wait for notes.
func (r *run) holdBack(result *Result) (isHeld bool) {
	f := &r.follower
	hasNote := result.Status == Created || result.Status == AlreadyThere
	switch {
	case !f.isNeeded() || !hasNote:
		return false
	case result.Stage.AtLeast(f.until):
		result.Status = Complete
		r.progress.complete++
		return false
	case f.callerWaits:
		result.Status = Processing
		r.progress.processing++
		return false
	}
	if len(f.heldResults) == 0 { // no round was due before
		f.roundDue = time.Now().Add(roundPause)
	}
	r.progress.processing++
	wanted := heldFor{result.NoteID, result.JournalKey}
	f.heldResults[wanted] = append(f.heldResults[wanted], *result)
	r.callOnEvent(Event{Recording: result.Recording, JournalKey: result.JournalKey, State: StateCreated})
	return true
}

// endRound records that the round under way has ended.
func (f *noteFollower) endRound() {
	f.stopRound()
	f.stopRound = nil
	f.roundDue = time.Now().Add(roundPause)
	f.lastRoundEnded = f.isLastRound // otherwise another one follows
}

// releaseHeld returns the results of a recording that were held back for its note, completed by what became of the
// note. If there are none, an earlier run left the note in processing, and its result is new.
func (r *run) releaseHeld(o noteOutcome) (ready []Result) {
	wanted := heldFor{o.id, o.key}
	held := r.follower.heldResults[wanted]
	delete(r.follower.heldResults, wanted)
	for i, result := range held {
		r.progress.processing--
		r.progress.countStage(o.status)
		ended := o.applyTo(result)
		if i > 0 && o.note != nil { // no two results share an object
			note := *o.note
			ended.Note = &note
		}
		ready = append(ready, r.emitResult(ended))
	}
	if len(held) == 0 {
		ready = append(ready, r.emitResult(o.applyTo(Result{JournalKey: o.key, NoteID: o.id, Earlier: true})))
	}
	r.unblock(o.key)
	return ready
}

// applyTo returns the result of a recording, completed by what became of its note.
func (o noteOutcome) applyTo(result Result) Result {
	result.Status = o.status
	result.Stage = o.stage
	result.Note = o.note
	result.Err = o.err
	return result
}

// countStage counts a recording that has a note, by how far the service has come with it.
func (p *progress) countStage(status Status) {
	switch status {
	case Complete:
		p.complete++
	case Failed:
		p.failed++
	default:
		p.processing++
	}
}

// stillHeld returns the results of recordings whose notes are not followed any longer, because the run has ended.
func (r *run) stillHeld() (results []Result) {
	const why = "the run ended before it was known whether the service has processed the recording; " +
		"the next run reads its note"
	for _, wanted := range slices.SortedFunc(maps.Keys(r.follower.heldResults), byNote) {
		for _, result := range r.follower.heldResults[wanted] {
			result.Status = Processing
			result.Err = fail(why, context.Canceled)
			results = append(results, result)
		}
	}
	clear(r.follower.heldResults)
	return results
}

// followMore begins a round of following notes if one is due. Once nothing is left to upload, the last round begins. A
// shorter round that is under way then is stopped first.
func (r *run) followMore(now time.Time) {
	f := &r.follower
	if f.isOver() || r.isEnding || !r.isJournalBound() {
		return
	}
	isIdle := r.isIdle()
	switch {
	case f.stopRound != nil && isIdle && !f.isLastRound:
		f.stopRound() // the last round begins when this one has ended
	case f.stopRound != nil: // it goes on
	case isIdle:
		f.isLastRound = true
		const defaultInterval = 0
		r.startRound(r.uploader.maxWait(), defaultInterval)
	case len(f.heldResults) > 0 && !now.Before(f.roundDue) && !r.trouble.holdsBack():
		r.startRound(roundTime, roundInterval)
	}
}

func (u *Uploader) maxWait() time.Duration {
	if u.MaxWait < 0 {
		return onceTime
	}
	return cmp.Or(u.MaxWait, defaultMaxWait)
}

// startRound begins to follow the notes of the results that are held, for at most the limit. The interval is the time
// between two looks at a note. If it is zero, it is WaitAll's default.
func (r *run) startRound(limit, interval time.Duration) {
	f := &r.follower
	ctx, stop := context.WithTimeout(r.ctx, limit)
	f.stopRound = stop
	round := round{run: r, isLast: f.isLastRound, keysByNote: map[int64][]Key{}}
	round.waitParams = clinicaldoc.WaitParams{Until: f.until, Interval: interval}
	for wanted := range f.heldResults {
		round.add(wanted)
	}
	exited := func() message { return roundEnded{fail("a callback or the journal ended its goroutine")} }
	r.goroutines.Go(func() {
		r.callGuarded(func() { r.send(roundEnded{round.follow(ctx)}) }, exited)
	})
}

// round follows notes for a while.
type round struct {
	run        *run
	isLast     bool
	keysByNote map[int64][]Key // of the recordings, by note
	waitParams clinicaldoc.WaitParams
}

// add makes the round follow the note of a recording, unless it does so already.
func (f *round) add(wanted heldFor) {
	keys := f.keysByNote[wanted.noteID]
	if !slices.Contains(keys, wanted.key) {
		f.keysByNote[wanted.noteID] = append(keys, wanted.key)
	}
}

// follow waits for the notes until the round's context ends. It saves and reports the stage of each note that is
// complete or has failed, and in the last round also of each that is still in processing. It returns an error if the
// journal cannot be read.
func (f *round) follow(ctx context.Context) error {
	r := f.run
	if f.isLast {
		if err := f.addEarlier(ctx); err != nil {
			return err
		}
	}
	if len(f.keysByNote) == 0 {
		return nil
	}
	var saves sync.WaitGroup
	defer saves.Wait()
	for outcome := range f.outcomes(ctx) { //nolint:contextcheck // what is known is saved also after the round's end
		isForLater := outcome.status == Processing && !f.isLast
		hasRunEnded := r.ctx.Err() != nil // not only the round
		if hasRunEnded || isForLater {
			continue
		}
		exited := func() message { return noteFollowed{outcome, fail("the journal ended its goroutine")} }
		r.saveSlots <- struct{}{}
		saves.Go(func() {
			defer func() { <-r.saveSlots }()
			r.callGuarded(func() {
				followed, isKnown := r.saveStage(outcome)
				if isKnown {
					r.send(followed)
				}
			}, exited)
		})
	}
	return nil
}

// addEarlier adds the notes that earlier runs left in processing.
func (f *round) addEarlier(ctx context.Context) error {
	journal, ok := f.run.uploader.Journal.(ProcessingJournal)
	if !ok {
		return nil
	}
	entries, err := journal.Processing(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrJournalDamaged) {
		return err
	}
	for _, e := range entries { // without damaged ones
		isUnfinished := e.NoteID > 0 && !e.Stage.AtLeast(f.waitParams.Until)
		if isUnfinished {
			f.add(heldFor{e.NoteID, e.Key})
		}
	}
	return nil
}

// outcomes waits for the notes and yields what becomes of each, once for every recording that has or had it. If MaxWait
// is negative, it stops once each note was read.
func (f *round) outcomes(ctx context.Context) iter.Seq[noteOutcome] {
	return func(yield func(noteOutcome) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		if f.run.uploader.MaxWait < 0 {
			unread := maps.Clone(f.keysByNote)
			f.waitParams.OnUpdate = func(note *clinicaldoc.ProgressNote) {
				delete(unread, note.ID)
				if len(unread) == 0 {
					stop()
				}
			}
		}
		ids := slices.Sorted(maps.Keys(f.keysByNote))
		for note, err := range f.run.uploader.Client.Notes.WaitAll(ctx, ids, f.waitParams) {
			outcome := classify(note, err)
			for _, key := range f.keysByNote[outcome.id] {
				if !yield(outcome.ofRecording(key)) {
					return
				}
			}
		}
	}
}

// ofRecording returns the outcome for one of the recordings that have or had the note. No two outcomes share an object.
func (o noteOutcome) ofRecording(key Key) noteOutcome {
	o.key = key
	if o.note != nil {
		note := *o.note
		o.note = &note
	}
	return o
}

// classify returns what WaitAll's result for a note means for its recording, which it does not know.
func classify(note *clinicaldoc.ProgressNote, err error) noteOutcome {
	outcome := noteOutcome{note: note}
	if note != nil {
		outcome.id = note.ID
		outcome.stage = note.Stage()
	}
	if failed, isWaitError := errors.AsType[*clinicaldoc.WaitError](err); isWaitError {
		outcome.id = failed.ID // there may be no note
	}
	switch {
	case err == nil:
		outcome.status = Complete
	case errors.Is(err, clinicaldoc.ErrProcessingFailed):
		outcome.status = Failed
		outcome.err = fail("the service could not process the recording; its note contains the error state. "+
			"Send the recording again, or name another note (Uploader.Resolve)", err)
	case errors.Is(err, clinicaldoc.ErrNotFound):
		outcome.status = Failed
		outcome.stage = clinicaldoc.StageFailed
		outcome.err = fail("the note of the recording no longer exists at the service. "+
			"Send the recording again, or name another note (Uploader.Resolve)", err)
	default:
		outcome.status = Processing
		why := "the service has not processed the recording yet; the next run reads its note again"
		isRoundOver := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
		if !isRoundOver {
			why += ": " + redact.Opaque(err).Error()
		}
		outcome.err = fail(why, err)
	}
	return outcome
}

// saveStage checks that the note is still the recording's, and saves how far the service has come with it. It returns
// both, and the journal's error; not being able to save only this entry is not an error, because the next run reads the
// note again. It reports false if the recording came again: then the next round reads its note, for both results.
func (r *run) saveStage(outcome noteOutcome) (followed noteFollowed, isKnown bool) {
	t := &task{own: Entry{Key: outcome.key}, onlySavesStage: true}
	isOnly := r.occupy(t)
	if !isOnly {
		return noteFollowed{}, false
	}
	defer r.vacate(t)
	claim, err := r.uploader.Journal.Claim(r.ctx, outcome.key)
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrJournalDamaged), err != nil && r.ctx.Err() != nil:
		return noteFollowed{outcome, nil}, true
	case err != nil:
		return noteFollowed{outcome, err}, true
	}
	t.claim = claim
	defer claim.Release()
	e := claim.Entry()
	isOtherNote := e.State != StateCreated || e.NoteID != outcome.id
	if isOtherNote { // a person decided
		return noteFollowed{outcome, nil}, true
	}
	outcome = r.unlessReplaced(outcome, e)
	return noteFollowed{outcome, r.saveStageOf(t, e, outcome)}, true
}

// saveStageOf saves an entry with how far the service has come with its note, unless the entry has that already.
func (r *run) saveStageOf(t *task, e Entry, outcome noteOutcome) error {
	isUnchanged := outcome.stage == 0 || e.Stage == outcome.stage
	if isUnchanged {
		return nil
	}
	e.Stage = outcome.stage
	e.At = time.Now()
	e.Why = ""
	if outcome.status == Failed {
		e.Why = redact.Opaque(outcome.err).Error()
	}
	return r.save(t, e)
}

// unlessReplaced returns the outcome of a note that is the recording's. If another note has its ID now, or if the note
// names another patient, the recording has failed: what became of that note says nothing about it.
func (r *run) unlessReplaced(outcome noteOutcome, e Entry) noteOutcome {
	if outcome.note == nil {
		return outcome
	}
	patient, isNamed := outcome.note.PatientID()
	const decide = "Send the recording again, or name another note (Uploader.Resolve)"
	switch {
	case !e.hasNote(outcome.note.ID, outcome.note.CreatedAt):
		const gone = "the note of the recording no longer exists at the service: another note has its ID. "
		outcome.err = fail(gone+decide, clinicaldoc.ErrNotFound)
	case isNamed && patientHash(r.service, patient) != e.Patient:
		const moved = "the note of the recording belongs to another patient now. "
		outcome.err = fail(moved+decide, clinicaldoc.ErrPatientMismatch)
	default:
		return outcome
	}
	outcome.status = Failed
	outcome.stage = clinicaldoc.StageFailed
	outcome.note = nil
	return outcome
}

// occupy makes a task the only one of its key, and reports whether it is.
func (r *run) occupy(t *task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.activeTasks[t.own.Key] != nil {
		return false
	}
	r.activeTasks[t.own.Key] = t
	return true
}

// vacate ends what occupy began.
func (r *run) vacate(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.activeTasks, t.own.Key)
}

// replacedIDs returns the ids of the recording's earlier notes.
func (e Entry) replacedIDs() (ids []int64) {
	for _, note := range e.Replaced {
		ids = append(ids, note.ID)
	}
	return ids
}
