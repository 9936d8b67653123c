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
	uploader *Uploader
	parent   context.Context // the caller's
	ctx      context.Context // ends with the caller's, with a break, or when the run gives up
	cancel   context.CancelFunc

	resolving     context.Context // ends also when the journal fails
	stopResolving context.CancelFunc

	// Set before the first recording is begun.
	owner          Owner
	service        string // that keys are hashed with; empty: the journal is not bound yet
	journalHasGaps bool

	drawn     chan Recording // from the caller's iterator; closed after the last one
	feedPanic any            // of the caller's iterator; to be read once drawn is closed
	feedErr   error          // likewise
	halt      chan struct{}  // closed when no more recordings are wanted

	messages       chan message
	gone           chan struct{}                                // closed when nobody receives messages any more
	noteRecordings creates.Memo[creates.Ref, creates.Recording] // of notes, as far as they were read

	namesUser atomic.Bool // a note of this run has named the journal's user

	saving  chan struct{} // holds one for each note that is being written down
	finding chan struct{} // holds one while a note that was found is being taken
	workers sync.WaitGroup

	mu        sync.Mutex
	active    map[Key]*task
	pending   []*task   // unresolved, and no resolver is free
	doubts    int       // unresolved, pending or being resolved
	decidedBy time.Time // when all of them can be decided
	limitEnds time.Time // of the service's rate limit, as far as it was reported
	resolvers int
	notes     notesCache
	sending   map[content]Key // what has to be resolved before the next recording with this content is sent

	// Of the goroutine that ranges over the results.
	progress    progress
	busy        int     // workers
	unfinished  int     // recordings that were begun and have no result
	toAsk       []*task // unresolved, and to be asked about once more when they are due
	toUpload    []*task // certainly without a note, to be uploaded once more
	backlog     []job   // to be begun once more when they are due
	exhausted   bool    // there are no more recordings
	ended       bool    // nothing new is begun
	deadline    time.Time
	trouble     trouble
	broken      error // why the journal cannot be used
	feedFailure error // why there are no more recordings
	follows     follows
}

const (
	stopTimeout   = 20 * time.Second // for the end of a run, which includes the other two
	responseGrace = 10 * time.Second // for the response to a complete upload
	saveTimeout   = 8 * time.Second  // for saving an entry
)

// job is a recording to be begun.
type job struct {
	recording Recording
	counted   bool      // it is in the progress already
	tries     int       // that failed while others succeeded
	successes int       // progress.successes at the last failure
	due       time.Time // when it may be begun
	result    Result    // of the last failure; zero: there was none
	waits     int       // for a recording that this run does not have
	waitsFor  Key       // the recording that has to be resolved first
}

// newRun returns a run that has not begun anything.
func (u *Uploader) newRun(ctx context.Context) *run {
	r := &run{
		uploader: u, parent: ctx, active: map[Key]*task{}, notes: notesCache{}, sending: map[content]Key{},
		drawn: make(chan Recording), halt: make(chan struct{}),
		messages: make(chan message), gone: make(chan struct{}), finding: make(chan struct{}, 1),
		saving: make(chan struct{}, u.workers()), progress: newProgress(u.Total),
		follows: newFollows(ctx, u.Until),
	}
	if u.OnEvent != nil {
		ctx = exchange.WithLimitReport(ctx, r.limited)
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.resolving, r.stopResolving = context.WithCancel(r.ctx)
	return r
}

// stop ends what is left of a run and waits for it, until the run's deadline at most.
func (r *run) stop() {
	r.cancel()
	r.end()
	close(r.halt)
	close(r.gone)
	for _, t := range slices.Concat(r.toAsk, r.toUpload) {
		r.abandon(t, Result{})
	}
	over := make(chan struct{})
	go func() {
		r.workers.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(time.Until(r.deadline)):
	}
}

// end lets nothing new begin. What is under way has until the deadline.
func (r *run) end() {
	if !r.ended {
		r.ended = true
		r.deadline = time.Now().Add(stopTimeout)
	}
}

// endIfBroken ends the run if the journal failed with an error. The first such error is the run's.
func (r *run) endIfBroken(err error) {
	if err == nil {
		return
	}
	r.broken = cmp.Or(r.broken, err)
	r.end()
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
		case <-r.halt:
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
		timer, stop := r.nextTimer()
		var results []Result
		select {
		case <-timer:
		case recording, more := <-r.wanted():
			if more {
				r.begin(job{recording: recording})
			} else {
				r.takeExhausted()
			}
		case m := <-r.messages:
			results = m.apply(r)
		case <-done:
			done = nil
			r.end()
		}
		stop()
		for _, result := range results {
			if !yield(result, nil) {
				return false
			}
		}
		if !r.ended {
			r.wake(time.Now())
		}
	}
}

// wanted returns the channel of recordings if another one may be begun now, else nil, which never receives.
func (r *run) wanted() <-chan Recording {
	if r.exhausted || !r.mayBegin() {
		return nil
	}
	return r.drawn
}

// finished reports whether there is nothing to wait for.
func (r *run) finished() bool {
	if !r.ended {
		return r.isIdle() && r.follows.isOver()
	}
	isLate := !time.Now().Before(r.deadline)
	return isLate || r.unfinished == r.waitingRecordings()
}

// isIdle reports whether every recording was uploaded, refused, or left unresolved.
func (r *run) isIdle() bool {
	isMoreToDo := !r.exhausted || len(r.backlog)+len(r.toAsk) > 0
	return !isMoreToDo && r.unfinished == r.waitingRecordings()
}

// waitingRecordings counts the recordings that have no result and that no goroutine works on. Those to be uploaded once
// more are among them only after the run was ended.
func (r *run) waitingRecordings() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.toAsk
	if r.ended {
		waiting = slices.Concat(r.toAsk, r.toUpload)
	}
	count := 0
	for _, t := range waiting {
		count += 1 + len(t.equals)
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

// nextDue returns the earliest time at which something has to be done, or zero if there is none.
func (r *run) nextDue() time.Time {
	if r.ended {
		return r.deadline
	}
	due := earlier(r.trouble.due(r.uploader.MaxPause), r.follows.nextRound())
	for _, t := range r.toAsk {
		due = earlier(due, t.due)
	}
	if r.mayBegin() {
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

// wake asks about the unresolved recordings that are due, and probes the service if that is due.
func (r *run) wake(now time.Time) {
	r.askAgain(func(t *task) bool { return !now.Before(t.due) })
	r.probe(now)
}

// mayBegin reports whether another recording may be begun now.
func (r *run) mayBegin() bool {
	if r.ended || r.ctx.Err() != nil {
		return false
	}
	isBound := r.service != ""
	isWorkerFree := r.busy < r.uploader.workers()
	return isBound && isWorkerFree && !r.trouble.holdsBack()
}

// beginMore begins recordings that were begun before, as far as workers are free: those without a note first, then
// those of the backlog that are due.
func (r *run) beginMore() {
	for now := time.Now(); r.mayBegin(); {
		if len(r.toUpload) > 0 {
			t := r.toUpload[0]
			r.toUpload = r.toUpload[1:]
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
	if !j.counted {
		j.counted = true
		r.progress.seen++
		j.recording.position = r.progress.seen
	}
	r.start(&task{job: j, recording: j.recording, begun: time.Now()}, r.decide)
}

// start gives a task to a worker.
func (r *run) start(t *task, do func(*task)) {
	r.busy++
	r.trouble.begun()
	r.workers.Go(func() {
		defer r.send(workerFree{})
		r.guard(t, do)
	})
}

// guard works on a task. If the caller's own code, such as its audio source, panics or ends the goroutine, the task is
// unresolved.
func (r *run) guard(t *task, do func(*task)) {
	r.guarded(func() { do(t) }, func() message {
		t.err = fail("a callback or the recording's source ended its goroutine", clinicaldoc.ErrOutcomeUnknown)
		return taskEnded{results: r.finish(t, t.inDoubt())}
	})
}

// guarded calls do. If do does not return, the caller's own code panicked or ended the goroutine. A panic goes on in
// the goroutine that ranges over the results. If there is none, that goroutine gets the message of exited, which is
// called in both cases.
func (r *run) guarded(do func(), exited func() message) {
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
	r.progress.total = r.progress.seen
	if r.feedErr != nil {
		r.feedFailure = fail("the recordings ended early: "+redact.Cause(r.feedErr), r.feedErr)
	}
}

// askAgain asks once more about some of the recordings that were asked about in vain.
func (r *run) askAgain(which func(*task) bool) {
	r.toAsk = slices.DeleteFunc(r.toAsk, func(t *task) bool {
		again := which(t)
		if again {
			r.resolve(t)
		}
		return again
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

// abandonAll returns the results of the recordings that are unresolved, that were not uploaded once more, and that
// failed and were not begun once more.
func (r *run) abandonAll() (results []Result) {
	for _, t := range r.toAsk {
		results = append(results, r.abandon(t, t.inDoubt())...)
	}
	for _, t := range r.toUpload {
		results = append(results, r.abandon(t, Result{Status: Refused, Err: t.err})...)
	}
	r.toAsk = nil
	r.toUpload = nil
	for _, j := range r.backlog {
		if j.result.Err != nil { // one that waited for another recording was never begun
			results = append(results, j.result)
		}
	}
	return results
}

// emitResult calls OnEvent with a result that is about to be yielded, and returns it.
func (r *run) emitResult(result Result) Result {
	r.emit(Event{Recording: result.Recording, Result: &result})
	return result
}

// abandon ends a task that nobody works on and returns its results. Another goroutine releases the key, because that
// may take a while.
func (r *run) abandon(t *task, result Result) []Result {
	r.workers.Go(t.claim.Release)
	return r.resultsOf(t, result)
}

// failure returns why the run ended early, or nil if it did not.
func (r *run) failure() error {
	switch {
	case r.broken != nil:
		return r.broken
	case r.trouble.ended != nil:
		return r.trouble.ended
	case r.parent.Err() != nil:
		return contextFailure(r.parent)
	}
	return r.feedFailure
}
