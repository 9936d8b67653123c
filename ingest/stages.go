package ingest

import (
	"cmp"
	"context"
	"errors"
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

// follows is what a run knows of the notes that it follows. All but until belongs to the goroutine that ranges over the
// results.
type follows struct {
	until clinicaldoc.Stage  // never changes
	held  map[int64][]Result // by note
	due   time.Time          // of the next round, while recordings are uploaded
	stop  context.CancelFunc // of the round under way; nil: there is none
	last  bool               // the round under way is the last one
	over  bool               // the last round has ended
	left  bool               // to the caller, who waits for the notes; never changes
}

func newFollows(ctx context.Context, until clinicaldoc.Stage) follows {
	return follows{
		until: cmp.Or(until, clinicaldoc.StageUploaded), held: map[int64][]Result{}, left: poll.LeavesWaits(ctx),
	}
}

// wanted reports whether a recording is done only when its note has reached a stage.
func (f *follows) wanted() bool { return f.until > clinicaldoc.StageUploaded }

// isOver reports whether there is nothing more to follow.
func (f *follows) isOver() bool { return !f.wanted() || f.left || f.over }

// nextRound is when the next round is due; zero: there is nothing to wait for.
func (f *follows) nextRound() time.Time {
	if f.stop != nil || len(f.held) == 0 {
		return time.Time{}
	}
	return f.due
}

// staged is what became of a note that is followed.
type staged struct {
	id     int64
	key    Key
	status Status
	stage  clinicaldoc.Stage
	note   *clinicaldoc.ProgressNote
	err    error
}

// hold holds back a result until its note has reached Uploader.Until, and reports whether it does. Otherwise it changes
// the status of a result that has a note to Complete, or to Processing if the caller waits for the notes.
func (r *run) hold(result *Result) (held bool) {
	f := &r.follows
	hasNote := result.Status == Created || result.Status == AlreadyThere
	switch {
	case !f.wanted() || !hasNote:
		return false
	case result.Stage.AtLeast(f.until):
		result.Status = Complete
		r.progress.complete++
		return false
	case f.left:
		result.Status = Processing
		r.progress.processing++
		return false
	case len(f.held) == 0:
		f.due = time.Now().Add(roundPause)
	}
	r.progress.processing++
	f.held[result.NoteID] = append(f.held[result.NoteID], *result)
	r.emit(Event{Recording: result.Recording, JournalKey: result.JournalKey, State: StateCreated})
	return true
}

// endRound records that the round under way has ended.
func (f *follows) endRound() {
	f.stop()
	f.stop = nil
	f.due = time.Now().Add(roundPause)
	f.over = f.last
}

// takeStage ends the results that were held back for a note. If there are none, an earlier run left the note in
// processing, and its result is new.
func (r *run) takeStage(s staged) (ready []Result) {
	held := r.follows.held[s.id]
	delete(r.follows.held, s.id)
	for i, result := range held {
		r.progress.processing--
		r.progress.countStage(s.status)
		ended := s.end(result)
		if i > 0 && s.note != nil { // equal recordings share no object
			note := *s.note
			ended.Note = &note
		}
		ready = append(ready, r.emitResult(ended))
	}
	if len(held) == 0 {
		ready = append(ready, r.emitResult(s.end(Result{JournalKey: s.key, NoteID: s.id, Earlier: true})))
	}
	r.unblock(s.key)
	return ready
}

// end completes the result of a recording.
func (s staged) end(result Result) Result {
	result.Status = s.status
	result.Stage = s.stage
	result.Note = s.note
	result.Err = s.err
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
	for _, id := range slices.Sorted(maps.Keys(r.follows.held)) {
		for _, result := range r.follows.held[id] {
			result.Status = Processing
			result.Err = fail(why, context.Canceled)
			results = append(results, result)
		}
	}
	clear(r.follows.held)
	return results
}

// followMore begins a round of following notes if one is due. Once nothing is left to upload, the last round begins. A
// shorter round that is under way then is stopped first.
func (r *run) followMore(now time.Time) {
	f := &r.follows
	if f.isOver() || r.ended || r.service == "" {
		return
	}
	isIdle := r.isIdle()
	switch {
	case f.stop != nil && isIdle && !f.last:
		f.stop()
	case f.stop != nil:
	case isIdle:
		f.last = true
		r.startRound(r.uploader.maxWait(), 0)
	case len(f.held) > 0 && !now.Before(f.due) && !r.trouble.holdsBack():
		r.startRound(roundTime, roundInterval)
	}
}

func (u *Uploader) maxWait() time.Duration {
	if u.MaxWait < 0 {
		return onceTime
	}
	return cmp.Or(u.MaxWait, defaultMaxWait)
}

// startRound begins to follow the notes of the results that are held, until the limit at most. The interval is the time
// between two looks at a note; zero: the default.
func (r *run) startRound(limit, interval time.Duration) {
	f := &r.follows
	ctx, stop := context.WithTimeout(r.ctx, limit)
	f.stop = stop
	round := round{run: r, last: f.last, keys: map[int64]Key{}}
	round.params = clinicaldoc.WaitParams{Until: f.until, Interval: interval}
	for id, results := range f.held {
		round.keys[id] = results[0].JournalKey
	}
	r.workers.Go(func() {
		r.guarded(func() { r.send(roundEnded{round.follow(ctx)}) }, func() message {
			return roundEnded{fail("a callback or the journal ended its goroutine")}
		})
	})
}

// round follows notes for a while.
type round struct {
	run    *run
	last   bool
	keys   map[int64]Key // of the recordings, by note
	params clinicaldoc.WaitParams
}

// follow waits for the notes. It saves and reports the stage of each that has ended, and in the last round also of each
// that is still in processing. It returns an error if the journal cannot be read.
func (f *round) follow(ctx context.Context) error {
	r := f.run
	if f.last {
		if err := f.addEarlier(ctx); err != nil {
			return err
		}
	}
	if len(f.keys) == 0 {
		return nil
	}
	var saves sync.WaitGroup
	defer saves.Wait()
	for seen := range f.stages(ctx) { //nolint:contextcheck // what is known is saved also after the context has ended
		isForLater := seen.status == Processing && !f.last
		if r.ctx.Err() != nil || isForLater {
			continue
		}
		r.saving <- struct{}{}
		saves.Go(func() {
			defer func() { <-r.saving }()
			r.guarded(func() { r.send(noteFollowed{seen, r.saveStage(seen)}) }, func() message {
				return noteFollowed{seen, fail("the journal ended its goroutine")}
			})
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
	for _, e := range entries {
		_, isKnown := f.keys[e.NoteID]
		isOpen := e.NoteID > 0 && !e.Stage.AtLeast(f.params.Until)
		if isOpen && !isKnown {
			f.keys[e.NoteID] = e.Key
		}
	}
	return nil
}

// stages waits for the notes and yields what becomes of each. If MaxWait is negative, it stops once each note was read.
func (f *round) stages(ctx context.Context) func(yield func(staged) bool) {
	return func(yield func(staged) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		if f.run.uploader.MaxWait < 0 {
			unseen := maps.Clone(f.keys)
			f.params.OnUpdate = func(note *clinicaldoc.ProgressNote) {
				delete(unseen, note.ID)
				if len(unseen) == 0 {
					stop()
				}
			}
		}
		for note, err := range f.run.uploader.Client.Notes.WaitAll(ctx, slices.Sorted(maps.Keys(f.keys)), f.params) {
			if seen, ok := f.classify(note, err); ok && !yield(seen) {
				return
			}
		}
	}
}

// classify returns what WaitAll's result for a note means for its recording. It reports false for a note that is not
// followed.
func (f *round) classify(note *clinicaldoc.ProgressNote, err error) (seen staged, ok bool) {
	seen.note = note
	if note != nil {
		seen.id = note.ID
		seen.stage = note.Stage()
	}
	if ended, isWait := errors.AsType[*clinicaldoc.WaitError](err); isWait {
		seen.id = ended.ID
	}
	seen.key, ok = f.keys[seen.id]
	switch {
	case err == nil:
		seen.status = Complete
	case errors.Is(err, clinicaldoc.ErrProcessingFailed):
		seen.status = Failed
		seen.err = fail("the service could not process the recording; its note contains the error state. "+
			"Send the recording again, or name another note (Uploader.Resolve)", err)
	case errors.Is(err, clinicaldoc.ErrNotFound):
		seen.status = Failed
		seen.stage = clinicaldoc.StageFailed
		seen.err = fail("the note of the recording no longer exists at the service. "+
			"Send the recording again, or name another note (Uploader.Resolve)", err)
	default:
		seen.status = Processing
		why := "the service has not processed the recording yet; the next run reads its note again"
		if isOver := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled); !isOver {
			why += ": " + redact.Opaque(err).Error()
		}
		seen.err = fail(why, err)
	}
	return seen, ok
}

// saveStage saves how far the service has come with a note. It returns the journal's error.
func (r *run) saveStage(seen staged) error {
	t := &task{own: Entry{Key: seen.key}, isStage: true}
	if !r.occupy(t) {
		return nil // the recording came again; that one is held too
	}
	defer r.vacate(t)
	claim, err := r.uploader.Journal.Claim(r.ctx, seen.key)
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrJournalDamaged), err != nil && r.ctx.Err() != nil:
		return nil // the next run reads the note again
	case err != nil:
		return err
	}
	t.claim = claim
	defer claim.Release()
	e := claim.Entry()
	isOther := e.State != StateCreated || e.NoteID != seen.id
	isUnchanged := seen.stage == 0 || e.Stage == seen.stage
	if isOther || isUnchanged {
		return nil
	}
	e.Stage = seen.stage
	e.At = time.Now()
	e.Why = ""
	if seen.status == Failed {
		e.Why = redact.Opaque(seen.err).Error()
	}
	return r.save(t, e)
}

// occupy makes a task the only one of its key, and reports whether it is.
func (r *run) occupy(t *task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[t.own.Key] != nil {
		return false
	}
	r.active[t.own.Key] = t
	return true
}

// vacate ends what occupy began.
func (r *run) vacate(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, t.own.Key)
}

// replacedIDs returns the ids of the recording's earlier notes.
func (e Entry) replacedIDs() (ids []int64) {
	for _, note := range e.Replaced {
		ids = append(ids, note.ID)
	}
	return ids
}
