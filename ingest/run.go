package ingest

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// run is one Run. The goroutine that ranges over the results decides what is begun. Other goroutines upload recordings
// and search for notes; they report to it by messages.
type run struct {
	uploader  *Uploader
	callerCtx context.Context // as it was passed to Run
	ctx       context.Context // ends with callerCtx, with a break, or when the run gives up
	cancel    context.CancelFunc

	resolveCtx    context.Context // ends with ctx, and when the journal fails
	stopResolving context.CancelFunc

	// Set before the first recording is begun.
	owner          Owner
	service        string // that keys are hashed with; empty: the journal is not bound yet
	journalHasGaps bool

	drawn        chan Recording // from the caller's iterator; closed after the last one
	feedPanic    any            // of the caller's iterator; to be read once drawn is closed
	feedErr      error          // likewise
	noMoreWanted chan struct{}  // closed when no more recordings are wanted

	messages       chan message
	nobodyReceives chan struct{}                                // closed when nobody receives messages any more
	noteRecordings creates.Memo[creates.Ref, creates.Recording] // of notes, as far as they were read

	hasNamedUser atomic.Bool // a note of this run has named the journal's user

	saveSlots  chan struct{} // holds one for each note that is being saved
	takeLock   chan struct{} // holds one while a recording takes a note that was found
	goroutines sync.WaitGroup

	mu              sync.Mutex
	activeTasks     map[Key]*task
	pending         []*task   // unresolved, and no resolver is free
	unresolvedCount int       // tasks that are or were unresolved and have not ended
	allDecidedBy    time.Time // when all unresolved recordings can be decided
	rateLimitEnds   time.Time // of the service's rate limit, as far as it was reported
	resolverCount   int
	notes           notesCache
	// reservedBy has the recording that is resolved before another one of the patient with this content is sent. One
	// with a unique name does not wait.
	reservedBy map[content]Key

	// Of the goroutine that ranges over the results.
	progress      progress
	busyWorkers   int     // that have a task
	unfinished    int     // recordings that were begun and have no result
	toAskAgain    []*task // unresolved, and to be asked about once more when they are due
	toUploadAgain []*task // certainly without a note, to be uploaded once more
	backlog       []job   // to be begun once more when they are due
	exhausted     bool    // there are no more recordings
	isEnding      bool    // nothing new is begun; see startEnding
	endDeadline   time.Time
	trouble       trouble
	journalErr    error // why the journal cannot be used
	feedFailure   error // why there are no more recordings
	follower      noteFollower
}

const (
	stopTimeout   = 20 * time.Second // for the end of a run, which includes the other two
	responseGrace = 10 * time.Second // for the response to a complete upload
	saveTimeout   = 8 * time.Second  // for saving an entry
)

// job is a recording to be begun.
type job struct {
	recording          Recording
	isCounted          bool      // it has its position in the run
	countedTries       int       // tries that failed while others succeeded; see putBack
	successesAtFailure int       // progress.successes at the last failure
	due                time.Time // when it may be begun
	lastFailure        Result    // zero: there was none
	rivalWaits         int       // how often it waited for a recording that this run does not have
	waitsFor           Key       // the recording that has to be resolved first
}

// newRun returns a run that has not begun anything.
func (u *Uploader) newRun(ctx context.Context) *run {
	r := &run{
		uploader: u, callerCtx: ctx, activeTasks: map[Key]*task{}, notes: notesCache{}, reservedBy: map[content]Key{},
		drawn: make(chan Recording), noMoreWanted: make(chan struct{}),
		messages: make(chan message), nobodyReceives: make(chan struct{}), takeLock: make(chan struct{}, 1),
		saveSlots: make(chan struct{}, u.workers()), progress: newProgress(u.Total),
		follower: newNoteFollower(ctx, u.Until),
	}
	if u.OnEvent != nil {
		ctx = exchange.WithLimitReport(ctx, r.reportRateLimit)
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.resolveCtx, r.stopResolving = context.WithCancel(r.ctx)
	return r
}

// stop ends what is left of a run. It waits until all goroutines have ended, but not longer than until the deadline
// that startEnding sets.
func (r *run) stop() {
	r.cancel()
	r.startEnding()
	close(r.noMoreWanted)
	close(r.nobodyReceives)
	for _, t := range slices.Concat(r.toAskAgain, r.toUploadAgain) {
		r.abandon(t, Result{}) // nobody takes its results, but its key has to be released
	}
	allEnded := make(chan struct{})
	go func() {
		r.goroutines.Wait()
		close(allEnded)
	}()
	select {
	case <-allEnded:
	case <-time.After(time.Until(r.endDeadline)):
	}
}

// startEnding makes the run begin nothing new. What is under way has until the deadline, stopTimeout from now.
func (r *run) startEnding() {
	if !r.isEnding {
		r.isEnding = true
		r.endDeadline = time.Now().Add(stopTimeout)
	}
}

// endIfBroken ends the run if the journal failed with an error. The first such error is the run's.
func (r *run) endIfBroken(err error) {
	if err == nil {
		return
	}
	r.journalErr = cmp.Or(r.journalErr, err)
	r.startEnding()
	r.stopResolving()
}

// feed runs the caller's iterator, in a goroutine of its own: a wait for the next recording must not hold back results.
// It closes r.drawn after the last recording. If the iterator panics or ends its goroutine, feed keeps that for
// takeExhausted.
func (r *run) feed(recordings iter.Seq2[Recording, error]) {
	defer close(r.drawn)
	returned := false
	defer func() {
		if returned {
			return
		}
		r.feedPanic = recover()
		if r.feedPanic == nil {
			r.feedErr = redact.New("the iterator ended its goroutine")
		}
	}()
	r.feedErr = r.drawAll(recordings)
	returned = true
}

// drawAll sends the recordings to r.drawn until no more are wanted. It returns the iterator's error.
func (r *run) drawAll(recordings iter.Seq2[Recording, error]) error {
	for recording, err := range recordings {
		if err != nil {
			return err
		}
		select {
		case r.drawn <- recording:
		case <-r.noMoreWanted:
			return nil
		}
	}
	return nil
}

// loop begins recordings, applies messages and yields results. It returns when every recording that was begun has its
// result, or stopTimeout after the run was ended. It reports false if the caller wants no more results.
func (r *run) loop(yield func(Result, error) bool) bool {
	done := r.ctx.Done()
	for {
		r.beginMore()
		r.followMore(time.Now())
		if r.finished() {
			return r.yieldRest(yield)
		}
		timer, stopTimer := r.nextTimer()
		var results []Result
		select {
		case <-timer:
		case recording, isMore := <-r.drawnIfWanted():
			if isMore {
				r.begin(job{recording: recording})
			} else {
				r.takeExhausted()
			}
		case m := <-r.messages:
			results = m.apply(r)
		case <-done:
			done = nil // a nil channel is never ready, so this happens once
			r.startEnding()
		}
		stopTimer()
		for _, result := range results {
			if !yield(result, nil) {
				return false
			}
		}
		if !r.isEnding {
			r.doWhatIsDue(time.Now())
		}
	}
}

// drawnIfWanted returns the channel of recordings if another one may be begun now. Otherwise it returns nil, from which
// nothing is ever received.
func (r *run) drawnIfWanted() <-chan Recording {
	if r.exhausted || !r.mayBegin() {
		return nil
	}
	return r.drawn
}

// finished reports whether there is nothing to wait for.
func (r *run) finished() bool {
	if !r.isEnding {
		return r.isIdle() && r.follower.isOver()
	}
	isLate := !time.Now().Before(r.endDeadline)
	return isLate || r.unfinished == r.waitingRecordings() // nobody works on those that wait, and nobody will
}

// isIdle reports whether every recording was uploaded, refused, or left unresolved.
func (r *run) isIdle() bool {
	isMoreToDo := !r.exhausted || len(r.backlog)+len(r.toAskAgain) > 0
	return !isMoreToDo && r.unfinished == r.waitingRecordings()
}

// waitingRecordings counts the recordings that have no result and that no goroutine works on. Those to be uploaded once
// more count only while the run is ending: before that, the next free worker takes them.
func (r *run) waitingRecordings() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.toAskAgain
	if r.isEnding {
		waiting = slices.Concat(r.toAskAgain, r.toUploadAgain)
	}
	count := 0
	for _, t := range waiting {
		count += len(t.equalRecordings) + 1 // with the task's own recording
	}
	return count
}

// nextTimer returns the channel of a timer for the earliest time at which something has to be done, and a function that
// stops the timer. The channel is nil if there is no such time.
func (r *run) nextTimer() (expired <-chan time.Time, stop func()) {
	due := r.nextDue()
	if due.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(due))
	return timer.C, func() { timer.Stop() }
}

// nextDue returns the earliest time at which something has to be done, or zero if there is none. While the run is
// ending, only its deadline counts.
func (r *run) nextDue() time.Time {
	if r.isEnding {
		return r.endDeadline
	}
	due := earlier(r.trouble.nextCheck(r.uploader.MaxPause), r.follower.nextRound())
	for _, t := range r.toAskAgain {
		due = earlier(due, t.nextAsk)
	}
	if r.mayBegin() { // otherwise the backlog waits for a worker, for the journal or for the end of a pause
		for _, j := range r.backlog {
			due = earlier(due, j.due)
		}
	}
	return due
}

// earlier returns the earlier of two times. A zero time does not count.
func earlier(a, b time.Time) time.Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero() || a.Before(b):
		return a
	}
	return b
}

// doWhatIsDue asks about the unresolved recordings that are due, and probes the service if that is due.
func (r *run) doWhatIsDue(now time.Time) {
	r.askAgain(func(t *task) bool { return !now.Before(t.nextAsk) })
	r.probeIfDue(now)
}

// mayBegin reports whether another recording may be begun now.
func (r *run) mayBegin() bool {
	if r.isEnding || r.ctx.Err() != nil {
		return false
	}
	isWorkerFree := r.busyWorkers < r.uploader.workers()
	return r.isJournalBound() && isWorkerFree && !r.trouble.holdsBack()
}

// isJournalBound reports whether the journal is bound to its service and user, so that keys can be hashed.
func (r *run) isJournalBound() bool { return r.service != "" }

// beginMore begins recordings once more, as far as workers are free. Those that certainly have no note come first, then
// those of the backlog that are due.
func (r *run) beginMore() {
	for now := time.Now(); r.mayBegin(); {
		if len(r.toUploadAgain) > 0 {
			t := r.toUploadAgain[0]
			r.toUploadAgain = r.toUploadAgain[1:]
			r.start(t, r.upload)
			continue
		}
		i := slices.IndexFunc(r.backlog, func(j job) bool { return !now.Before(j.due) })
		if i < 0 {
			return
		}
		j := r.backlog[i]
		r.backlog = slices.Delete(r.backlog, i, i+1)
		r.begin(j)
	}
}

// begin gives a recording to a worker. A new recording gets its position in the run.
func (r *run) begin(j job) {
	r.unfinished++
	if !j.isCounted {
		j.isCounted = true
		r.progress.begunCount++
		j.recording.position = r.progress.begunCount
	}
	r.start(&task{job: j, recording: j.recording, begun: time.Now()}, r.decide)
}

// start gives a task to a worker.
func (r *run) start(t *task, do func(*task)) {
	r.busyWorkers++
	r.trouble.recordingBegun()
	r.goroutines.Go(func() {
		defer r.send(workerFree{})
		r.guardTask(t, do)
	})
}

// guardTask calls do with a task. If the caller's own code, such as its audio source, panics or ends the goroutine, the
// task ends as unresolved.
func (r *run) guardTask(t *task, do func(*task)) {
	exited := func() message {
		t.latestErr = fail("a callback or the recording's source ended its goroutine", clinicaldoc.ErrOutcomeUnknown)
		return taskEnded{results: r.finish(t, t.unresolvedResult())}
	}
	r.callGuarded(func() { do(t) }, exited)
}

// callGuarded calls do. If do does not return, the caller's own code panicked or ended the goroutine. A panic goes on
// in the goroutine that ranges over the results. Without a panic, that goroutine gets the message that exited returns.
// In both cases exited is called, to end what do has begun.
func (r *run) callGuarded(do func(), exited func() message) {
	returned := false
	defer func() {
		if returned {
			return
		}
		cause := recover()
		m := exited()
		if cause != nil {
			m = panicked{cause}
		}
		r.send(m)
	}()
	do()
	returned = true
}

// takeExhausted records that there are no more recordings, and why, if the iterator failed. A panic of the iterator
// goes on here, in the caller's goroutine.
func (r *run) takeExhausted() {
	if r.feedPanic != nil {
		panic(r.feedPanic)
	}
	r.exhausted = true
	r.progress.total = r.progress.begunCount // whatever Uploader.Total has promised
	if r.feedErr != nil {
		r.feedFailure = fail("the recordings ended early: "+redact.Cause(r.feedErr), r.feedErr)
	}
}

// askAgain asks the service again about the recordings in toAskAgain for which isWanted is true, and takes them off
// that list.
func (r *run) askAgain(isWanted func(*task) bool) {
	r.toAskAgain = slices.DeleteFunc(r.toAskAgain, func(t *task) bool {
		wanted := isWanted(t)
		if wanted {
			r.resolve(t)
		}
		return wanted
	})
}

// yieldRest yields the results of the recordings that nobody works on any longer. It reports false if the caller wants
// no more results.
func (r *run) yieldRest(yield func(Result, error) bool) bool {
	for _, result := range r.abandonAll() {
		r.progress.count(result)
		if !yield(r.emitResult(result), nil) {
			return false
		}
	}
	for _, result := range r.stillHeld() { // which were counted when their notes were created
		if !yield(r.emitResult(result), nil) {
			return false
		}
	}
	return true
}

// abandonAll ends all tasks that wait. It returns the results of recordings that are unresolved, that were not uploaded
// once more, or that failed and were not begun once more.
func (r *run) abandonAll() (results []Result) {
	for _, t := range r.toAskAgain {
		results = append(results, r.abandon(t, t.unresolvedResult())...)
	}
	for _, t := range r.toUploadAgain {
		results = append(results, r.abandon(t, Result{Status: Refused, Err: t.latestErr})...)
	}
	r.toAskAgain = nil
	r.toUploadAgain = nil
	for _, j := range r.backlog {
		if j.lastFailure.Err != nil { // one that only waited for another recording has no result
			results = append(results, j.lastFailure)
		}
	}
	return results
}

// emitResult calls OnEvent with a result that is about to be yielded, and returns it.
func (r *run) emitResult(result Result) Result {
	r.callOnEvent(Event{Recording: result.Recording, Result: &result})
	return result
}

// abandon ends a task that nobody works on and returns its results. Another goroutine releases the key, because that
// may take a while.
func (r *run) abandon(t *task, result Result) []Result {
	r.goroutines.Go(t.claim.Release)
	return r.resultsOf(t, result)
}

// failure returns why the run ended early, or nil if it did not.
func (r *run) failure() error {
	switch {
	case r.journalErr != nil:
		return r.journalErr
	case r.trouble.gaveUp != nil:
		return r.trouble.gaveUp
	case r.callerCtx.Err() != nil:
		return contextFailure(r.callerCtx)
	}
	return r.feedFailure
}
