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

// run is one Run. The goroutine that ranges over the results decides what is begun; each recording is uploaded, and
// each doubt resolved, in a goroutine of its own that sends messages.
type run struct {
	uploader *Uploader
	parent   context.Context // the caller's
	ctx      context.Context // ends with the caller's, with a break, or when the run gives up
	cancel   context.CancelFunc

	resolving     context.Context // ends also when the journal fails
	stopResolving context.CancelFunc

	// Set before the first recording is begun.
	owner   Owner
	service string // that keys are hashed with
	gaps    bool   // of the journal

	drawn     chan Recording // closed after the last one
	feedPanic any            // of the caller's iterator; to be read once drawn is closed
	feedErr   error          // likewise
	halt      chan struct{}  // closed when no more are wanted

	messages   chan message
	gone       chan struct{}                                // closed when nobody takes messages any more
	recordings creates.Memo[creates.Ref, creates.Recording] // of notes, as far as they were read

	namesUser atomic.Bool // a note of this run has named the journal's user

	saving  chan struct{} // holds one for each note that is being written down
	finding chan struct{} // holds one while a note that was found is being taken
	workers sync.WaitGroup

	mu        sync.Mutex
	active    map[Key]*task
	pending   []*task   // unresolved, and no resolver is free
	doubts    int       // unresolved, pending or being resolved
	until     time.Time // by then all of them can be decided
	limitEnds time.Time // of the service's rate limit, as far as it was reported
	resolvers int
	notes     notesCache
	sending   map[content]Key // what has to be resolved before the next recording with this content is sent

	// Of the goroutine that ranges over the results.
	progress    progress
	busy        int     // recordings in a worker's hands
	unfinished  int     // begun, and without a result
	waiting     []*task // unresolved, and to be asked about once more later
	again       []*task // surely without a note, to be uploaded once more
	backlog     []job   // to be tried once more
	exhausted   bool    // there are no more recordings
	ended       bool    // nothing new is begun
	deadline    time.Time
	trouble     trouble
	broken      error // why the journal cannot be used
	feedFailure error // why there are no more recordings
	follows     follows
}

// How long the end of a run may take, all in all, and of it the response of what was sent whole, and writing it down.
const (
	stopTimeout   = 20 * time.Second
	responseGrace = 10 * time.Second
	saveTimeout   = 8 * time.Second
)

// job is a recording to be begun.
type job struct {
	recording Recording
	counted   bool // it is in the progress already
	tries     int  // in vain, while others succeeded
	successes int  // of the run at the last one
	due       time.Time
	result    Result // of the last one; zero: there was none
	waits     int    // for a recording that this run does not have
	waitsFor  Key    // the recording that has to be resolved first
}

// message is what the other goroutines have to tell.
type message struct {
	results []Result
	free    bool // a worker is
	patient *uint32
	waiting *task
	again   *task
	back    []job   // to be tried once more, for err
	blocked []job   // that wait for another recording
	dropped int     // recordings that will have no result
	contact contact // what it says of the service
	err     error   // of the contact, or of a probe
	probed  bool
	bound   *bound
	event   *Event
	staged  *staged // what a note that is followed has come to
	round   bool    // a round of following notes is over
	broken  error   // of the journal
	panic   any     // of the caller's own code; nil: none
}

// bound is whose recordings these are, and what the journal said to that.
type bound struct {
	owner   Owner
	binding Binding
}

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

// send tells the goroutine that ranges over the results, if it still listens. A task that was to go on lets its claim
// go else: the lease of one that nobody knows of would be renewed as long as the process lives.
func (r *run) send(m message) {
	select {
	case r.messages <- m:
	case <-r.gone:
		for _, t := range []*task{m.waiting, m.again} {
			if t != nil {
				r.finish(t, Result{})
			}
		}
	}
}

// stop ends what is left of a run and waits for it, but no longer than stopTimeout in all.
func (r *run) stop() {
	r.cancel()
	r.end()
	close(r.halt)
	close(r.gone)
	for _, t := range slices.Concat(r.waiting, r.again) {
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

// end takes in that nothing new is begun.
func (r *run) end() {
	if !r.ended {
		r.ended, r.deadline = true, time.Now().Add(stopTimeout)
	}
}

// feed draws the recordings, in a goroutine of its own: one that has to be waited for must not hold back results.
func (r *run) feed(recordings iter.Seq2[Recording, error]) {
	defer close(r.drawn)
	normal := false
	defer func() {
		if !normal {
			if r.feedPanic = recover(); r.feedPanic == nil {
				r.feedErr = redact.New("the iterator ended its goroutine")
			}
		}
	}()
	for recording, err := range recordings {
		if err != nil {
			r.feedErr = err
			break
		}
		select {
		case r.drawn <- recording:
			continue
		case <-r.halt:
		}
		break
	}
	normal = true
}

// loop is over when every recording that was begun has its result, or stopTimeout after the run was ended. It reports
// false when the caller wants no more.
func (r *run) loop(yield func(Result, error) bool) bool {
	done := r.ctx.Done()
	for {
		r.beginMore()
		r.followMore(time.Now())
		if r.finished() {
			return r.giveUp(yield)
		}
		timer, stop := r.nextTimer()
		var drawn <-chan Recording
		if r.mayBegin() && !r.exhausted {
			drawn = r.drawn
		}
		var results []Result
		select {
		case <-timer:
		case recording, more := <-drawn:
			if more {
				r.begin(job{recording: recording})
			} else {
				r.takeExhausted()
			}
		case m := <-r.messages:
			results = r.take(m)
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

// finished reports whether there is nothing to wait for.
func (r *run) finished() bool {
	if r.ended && !time.Now().Before(r.deadline) {
		return true
	}
	if r.ended {
		return r.unfinished == r.waitingRecordings()
	}
	return r.isIdle() && r.follows.isOver()
}

// isIdle reports whether every recording was uploaded, refused, or left unresolved.
func (r *run) isIdle() bool {
	left := !r.exhausted || len(r.backlog)+len(r.waiting) > 0
	return !left && r.unfinished == r.waitingRecordings()
}

// waitingRecordings counts the results of tasks that nobody works on.
func (r *run) waitingRecordings() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, t := range r.waiting {
		count += 1 + len(t.equals)
	}
	for _, t := range r.again {
		if r.ended {
			count += 1 + len(t.equals)
		}
	}
	return count
}

// nextTimer is for the earliest time at which something has to be done, until stop is called.
func (r *run) nextTimer() (<-chan time.Time, func()) {
	var first time.Time
	at := func(due time.Time) {
		if !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if r.ended {
		at(r.deadline)
	} else {
		for _, j := range r.backlog {
			if r.mayBegin() {
				at(j.due)
			}
		}
		at(r.trouble.due(r.uploader.MaxPause))
		at(r.follows.nextRound())
		for _, t := range r.waiting {
			at(t.due)
		}
	}
	if first.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(first))
	return timer.C, func() { timer.Stop() }
}

// wake does what is due.
func (r *run) wake(now time.Time) {
	r.askAgain(func(t *task) bool { return !now.Before(t.due) })
	r.probe(now)
}

// mayBegin reports whether another recording may be begun now.
func (r *run) mayBegin() bool {
	return !r.ended && r.ctx.Err() == nil && r.service != "" && r.busy < r.uploader.workers() && !r.trouble.holdsBack()
}

// beginMore begins what was begun before.
func (r *run) beginMore() {
	for now := time.Now(); r.mayBegin(); {
		if len(r.again) > 0 {
			t := r.again[0]
			r.again = r.again[1:]
			r.start(t, func(t *task) { r.upload(t) })
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
		defer r.send(message{free: true})
		r.guard(t, do)
	})
}

// guard hands a panic of the caller's own code, such as its audio source, to the caller's goroutine.
func (r *run) guard(t *task, do func(*task)) {
	r.guarded(func() { do(t) }, func(cause any) message {
		if cause == nil {
			t.err = fail("a callback or the recording's source ended its goroutine", clinicaldoc.ErrOutcomeUnknown)
		}
		return message{results: r.finish(t, t.inDoubt()), panic: cause}
	})
}

// guarded sends a message when the caller's own code panics with a cause, or ends the goroutine, which has none.
func (r *run) guarded(do func(), ended func(cause any) message) {
	normal := false
	defer func() {
		if !normal {
			r.send(ended(recover()))
		}
	}()
	do()
	normal = true
}

// takeExhausted takes in that there are no more recordings.
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

// take takes in a message and returns the results in it.
func (r *run) take(m message) []Result {
	if m.broken != nil {
		r.broken = cmp.Or(r.broken, m.broken)
		r.end()
		r.stopResolving()
	}
	if m.waiting != nil {
		r.waiting = append(r.waiting, m.waiting)
	}
	if m.again != nil {
		r.again = append(r.again, m.again)
	}
	if m.event != nil {
		r.tell(*m.event)
	}
	if m.panic != nil {
		panic(m.panic)
	}
	if m.bound != nil {
		r.owner, r.service, r.gaps = m.bound.owner, m.bound.binding.Origin, m.bound.binding.Gaps
	}
	r.takeContact(m)
	r.takeBack(m)
	r.takeBlocked(m.blocked)
	if m.free {
		r.busy--
		r.trouble.freed(r.busy)
	}
	r.unfinished -= len(m.results) + m.dropped
	var results []Result
	for _, result := range m.results {
		r.progress.count(result)
		r.unblock(result.JournalKey)
		if ready, ok := r.hold(result); ok {
			results = append(results, r.tellResult(ready))
		}
	}
	results = append(results, r.takeStage(m)...)
	if m.patient != nil && !r.ended {
		// What was found for it may explain what stood in the way of others.
		r.askAgain(func(t *task) bool { return t.own.Patient == *m.patient })
	}
	return results
}

// takeBack takes recordings back that are to be begun once more.
func (r *run) takeBack(m message) {
	r.unfinished -= len(m.back)
	for _, j := range m.back {
		if j.successes != r.progress.successes {
			j.tries++
			j.successes = r.progress.successes
		}
		j.due = time.Now().Add(firstPause << min(j.tries, maxTries))
		r.backlog = append(r.backlog, j)
	}
}

// askAgain asks once more about some of the recordings that were asked about in vain.
func (r *run) askAgain(which func(*task) bool) {
	r.waiting = slices.DeleteFunc(r.waiting, func(t *task) bool {
		again := which(t)
		if again {
			r.resolve(t)
		}
		return again
	})
}

// giveUp yields those that nothing more can be found out about, and those that failed because everything did.
func (r *run) giveUp(yield func(Result, error) bool) bool {
	var results []Result
	for _, t := range r.waiting {
		results = append(results, r.abandon(t, t.inDoubt())...)
	}
	for _, t := range r.again {
		results = append(results, r.abandon(t, Result{Status: Refused, Err: t.err})...)
	}
	r.waiting, r.again = nil, nil
	for _, j := range r.backlog {
		if j.result.Err != nil { // one that waited for another recording was never begun
			results = append(results, j.result)
		}
	}
	held := r.stillHeld()
	for i, result := range slices.Concat(results, held) {
		if i < len(results) { // the others were counted when they came
			r.progress.count(result)
		}
		if !yield(r.tellResult(result), nil) {
			return false
		}
	}
	return true
}

// tellResult tells of a result that is about to be yielded.
func (r *run) tellResult(result Result) Result {
	r.tell(Event{Recording: result.Recording, Result: &result})
	return result
}

// abandon ends a task that nobody works on. Letting go of its key may take a while, which this goroutine must not.
func (r *run) abandon(t *task, result Result) []Result {
	r.workers.Go(t.claim.Release)
	return r.resultsOf(t, result)
}

// failure is why the run ended early; nil if it did not.
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
