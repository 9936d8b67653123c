package jetstream

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// A recording is done when its note has reached Uploader.Until, not when the note exists: the service may fail to
// process it. So a recording whose note is in processing stays in the queue. The worker that has it waits for the note,
// together with those of its other recordings, while it uploads. A worker that stops puts them back, and another one
// goes on.

const (
	defaultMaxWait = 15 * time.Minute // as an Uploader's
	maxFollowed    = 2000             // recordings whose notes a worker waits for
	followedRest   = time.Minute      // of a recording for which there is no room
	roundTime      = 5 * time.Second  // after which a round ends if there are new recordings
)

// follower waits for the notes of a worker's recordings, in rounds.
type follower struct {
	work          *work
	untilStage    clinicaldoc.Stage
	maxWait       time.Duration // how long a note is waited for; negative: it is read once
	newRecordings chan struct{} // holds one if recordings were added since the last round began

	mu         sync.Mutex
	held       map[ingest.Key]*followed
	lastUpload time.Time // when a note was last created or found for this worker; at first, when it started
}

// followed is a recording whose note is in processing.
type followed struct {
	delivery      *delivery
	stopKeepAlive context.CancelFunc // see delivery.keepAlive
	result        ingest.Result
	heldSince     time.Time
}

func newFollower(w *work) *follower {
	return &follower{
		work: w, untilStage: cmp.Or(w.uploader.Until, clinicaldoc.StageComplete),
		maxWait:       cmp.Or(w.uploader.MaxWait, defaultMaxWait),
		newRecordings: make(chan struct{}, 1), held: map[ingest.Key]*followed{}, lastUpload: w.since,
	}
}

// isNeeded reports whether a recording is done only when its note has reached a stage.
func (f *follower) isNeeded() bool { return f.untilStage > clinicaldoc.StageUploaded }

// count returns how many recordings wait for their notes here.
func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

// hold takes over a recording whose note is in processing, and calls stopKeepAlive when it is done with it. It reports
// false, and takes over nothing, if there is no room or the recording is held already.
func (f *follower) hold(d *delivery, result ingest.Result, stopKeepAlive context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, isHeld := f.held[result.JournalKey] // it waits in both lanes
	if isHeld || len(f.held) >= maxFollowed {
		return false
	}
	now := time.Now()
	if result.Note != nil { // it was created, or found, in this try
		f.lastUpload = now
	}
	f.held[result.JournalKey] = &followed{
		delivery: d, stopKeepAlive: stopKeepAlive, result: result, heldSince: now,
	}
	select {
	case f.newRecordings <- struct{}{}:
	default: // it holds one already
	}
	return true
}

// drop forgets a recording. It returns nil if the recording is not held.
func (f *follower) drop(key ingest.Key) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held[key]
	delete(f.held, key)
	return held
}

// waitEnds returns when a note is given up that has been waited for since then. For Drain, the time counts from the
// last upload, if that is later.
func (f *follower) waitEnds(since time.Time) time.Time {
	if f.work.endsWhenDrained && since.Before(f.lastUpload) {
		since = f.lastUpload
	}
	return since.Add(max(f.maxWait, 0))
}

// isOver reports whether this worker holds no recording, and MaxWait has passed since its last upload.
func (f *follower) isOver(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held) == 0 && !now.Before(f.waitEnds(f.lastUpload))
}

// run follows notes until the context ends.
func (f *follower) run(ctx context.Context) {
	defer f.work.endOnPanic(func() {}) // there is nothing to undo: work.run puts the recordings back
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.newRecordings:
		}
		for f.count() > 0 && ctx.Err() == nil {
			began := time.Now()
			f.round(ctx)
			left := roundTime - time.Since(began)
			if f.count() > 0 && left > 0 {
				_ = sleep(ctx, left)
			}
		}
	}
}

// putBack leaves the recordings to other workers. It is called after the last hold.
func (f *follower) putBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, held := range f.held {
		held.stopKeepAlive()
		_ = held.delivery.putBack(shortDelay)
		delete(f.held, key)
	}
}

// following is the fleet's journal with only these entries in processing. A run without recordings waits for their
// notes.
type following struct {
	*Journal
	entries []ingest.Entry
}

// Processing implements [ingest.ProcessingJournal].
func (j following) Processing(context.Context) ([]ingest.Entry, error) { return j.entries, nil }

// round waits for the notes that are held now, until new recordings come or the time of one of them is over.
func (f *follower) round(ctx context.Context) {
	roundCtx, endRound := context.WithCancel(ctx)
	defer endRound()
	u, err := f.uploader(ctx)
	if err != nil {
		return
	}
	go f.endRoundEarly(roundCtx, endRound)
	noRecordings := ingest.Recordings()
	for result, err := range u.Run(roundCtx, noRecordings) {
		if err == nil {
			f.take(ctx, result)
			continue
		}
		if isFatal(err) {
			f.work.fail(err)
		}
	}
	if roundCtx.Err() == nil { // the round was not ended early, so the time of a note may be over
		f.giveUp(ctx)
	}
}

// endRoundEarly ends a round after roundTime if there are new recordings, or as soon as some come.
func (f *follower) endRoundEarly(roundCtx context.Context, endRound context.CancelFunc) {
	if !sleep(roundCtx, roundTime) {
		return
	}
	select {
	case <-roundCtx.Done():
	case <-f.newRecordings:
		endRound()
	}
}

// uploader returns an uploader that waits for the notes that are held now, until the first of them is given up.
func (f *follower) uploader(ctx context.Context) (*ingest.Uploader, error) {
	owner, err := f.work.recordingsOwner(ctx)
	if err != nil {
		return nil, err
	}
	u := *f.work.uploader
	u.Owner = owner
	u.Until = f.untilStage
	u.MaxPause = -1 // the next round tries again
	u.OnEvent = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	journal := following{Journal: f.work.fleet.journal}
	now := time.Now()
	u.MaxWait = f.maxWait
	for key, held := range f.held {
		journal.entries = append(journal.entries, ingest.Entry{
			Key: key, State: ingest.StateCreated, NoteID: held.result.NoteID, Stage: clinicaldoc.StageUploaded,
		})
		left := f.waitEnds(held.heldSince).Sub(now)
		u.MaxWait = min(u.MaxWait, max(left, time.Millisecond))
	}
	u.Journal = journal
	return &u, nil
}

// take updates a held recording by what a round saw of its note. If the note is not in processing any more, it ends the
// recording, but only if the journal has the same stage: otherwise the stage was not saved, and the note is read again.
func (f *follower) take(ctx context.Context, seen ingest.Result) {
	held := f.update(seen)
	if held == nil || seen.Status == ingest.Processing {
		return
	}
	known, _, err := f.work.fleet.journal.read(ctx, seen.JournalKey)
	if err != nil {
		return
	}
	isSameNote := known.Entry.State == ingest.StateCreated && known.Entry.NoteID == seen.NoteID
	if !isSameNote { // a person decided
		f.drop(seen.JournalKey)
		held.stopKeepAlive()
		_ = held.delivery.putBack(shortDelay)
		return
	}
	if known.Entry.Stage == seen.Stage {
		f.end(ctx, f.drop(seen.JournalKey))
	}
}

// update writes what was seen of a note into the result of its recording. It returns nil if the recording is not held.
func (f *follower) update(seen ingest.Result) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held[seen.JournalKey]
	if held == nil {
		return nil
	}
	held.result.Status = seen.Status
	held.result.Stage = seen.Stage
	held.result.Note = seen.Note
	held.result.Err = seen.Err
	return held
}

// giveUp lets the recordings rest whose notes were waited for long enough.
func (f *follower) giveUp(ctx context.Context) {
	f.mu.Lock()
	var over []*followed
	now := time.Now()
	for key, held := range f.held {
		if !now.Before(f.waitEnds(held.heldSince)) {
			over = append(over, held)
			delete(f.held, key)
		}
	}
	f.mu.Unlock()
	for _, held := range over {
		held.result.Status = ingest.Processing
		if held.result.Err == nil {
			held.result.Err = errProcessing
		}
		f.end(ctx, held)
	}
}

var errProcessing = fail("the service has not processed the recording yet; its note is read again later")

// end does what the outcome of a recording asks for, and reports it. The recording is not held any more.
func (f *follower) end(ctx context.Context, held *followed) {
	defer held.stopKeepAlive()
	w := f.work
	held.result.Took += time.Since(held.heldSince)
	var noErr error
	outcome := judge(held.result, noErr, held.delivery.tries, random(), held.delivery.queue.ackWait)
	if held.result.Status == ingest.Processing { // it was waited for long enough
		outcome.Rest = maxDelay
		outcome.isResult = true
		held.delivery.tries-- // it did not fail
	}
	w.end(context.WithoutCancel(ctx), held.delivery, &outcome)
	w.finish(outcome)
	if w.uploader.OnEvent != nil {
		result := outcome.Result.Result
		w.uploader.OnEvent(ingest.Event{Recording: result.Recording, JournalKey: result.JournalKey, Result: &result})
	}
}

// isFatal reports whether an error ends the work.
func isFatal(err error) bool {
	return errors.Is(err, ErrStore) || errors.Is(err, ingest.ErrOtherService) || errors.Is(err, ingest.ErrOtherUser)
}
