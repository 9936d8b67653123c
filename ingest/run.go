package ingest

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// run is one Run. The goroutine that ranges over the results hands out recordings and takes in messages; workers upload;
// askers wait for FindCreated.
type run struct {
	uploader *Uploader
	service  string
	owner    Owner
	parent   context.Context // the caller's
	ctx      context.Context // ends with the caller's, or with a break
	cancel   context.CancelFunc

	asking     context.Context // ends also when the journal fails
	stopAsking context.CancelFunc

	drawn     chan Recording // closed after the last one
	feedPanic any            // of the caller's iterator; to be read once drawn is closed
	feedErr   error          // likewise
	halt      chan struct{}  // closed when no more are wanted

	jobs     chan Recording
	again    chan *task // that were found not to be created
	messages chan message
	saving   chan struct{} // holds one for each note that is being written down
	finding  chan struct{} // holds one while a note that was found is being taken
	quit     chan struct{} // closed when all is done
	workers  sync.WaitGroup

	mu     sync.Mutex
	active map[Key]*task
	parked []*task   // in doubt, and no asker is free
	doubts int       // in doubt, parked or asked about
	until  time.Time // by then all of them can be decided
	askers int

	// Of the goroutine that ranges over the results.
	progress   progress
	unfinished int     // recordings handed out and without a result
	stuck      []*task // asked about in vain
	ended      bool    // nothing new is begun
	broken     error   // why the journal cannot be used

	feedFailure error // why there are no more recordings
	stopping    bool  // nobody wants to know any more
}

// message is what a worker or an asker has to tell.
type message struct {
	results []Result
	patient *uint32 // of a recording that was in doubt and has its result now
	stuck   *task
	event   *Event
	broken  error // of the journal
	panic   any   // of the caller's own code; nil: none
}

func (r *run) start(recordings iter.Seq2[Recording, error]) {
	r.workers.Go(func() { r.feed(recordings) })
	workers := cmp.Or(r.uploader.Workers, defaultWorkers)
	r.saving = make(chan struct{}, workers)
	for range workers {
		r.workers.Go(r.work)
	}
}

// stop ends what is left of a run and waits for it.
func (r *run) stop() {
	r.cancel()
	r.stopping = true
	close(r.halt)
	for r.unfinished > len(r.stuck) {
		r.take(<-r.messages)
	}
	for _, t := range r.stuck {
		t.claim.Release()
	}
	close(r.quit)
	r.workers.Wait()
	r.stopAsking()
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

// loop is over when every recording that was handed out has its result. It reports false when the caller wants no more.
func (r *run) loop(yield func(Result, error) bool) bool {
	done, drawn := r.ctx.Done(), r.drawn
	var jobs chan<- Recording // nil: none is in hand
	var head Recording
	for {
		if r.ended {
			drawn, jobs = nil, nil
		}
		if drawn == nil && jobs == nil && r.unfinished == len(r.stuck) {
			return r.giveUp(yield)
		}
		var results []Result
		due, stop := r.nextAsk()
		select {
		case <-due:
			r.retryStuck(func(t *task) bool { return !time.Now().Before(t.due) })
		case recording, more := <-drawn:
			head, jobs, drawn = recording, r.jobs, nil
			if !more {
				r.exhausted()
				jobs = nil
			}
		case jobs <- head:
			jobs, drawn = nil, r.drawn
			r.unfinished++
			r.progress.seen++
		case m := <-r.messages:
			results = r.take(m)
		case <-done:
			done, r.ended = nil, true
		}
		stop()
		for _, result := range results {
			if !yield(result, nil) {
				return false
			}
		}
	}
}

// nextAsk tells when the next recording is to be asked about once more, until stop is called.
func (r *run) nextAsk() (due <-chan time.Time, stop func()) {
	if len(r.stuck) == 0 || r.asking.Err() != nil {
		return nil, func() {}
	}
	first := slices.MinFunc(r.stuck, func(a, b *task) int { return a.due.Compare(b.due) })
	timer := time.NewTimer(time.Until(first.due))
	return timer.C, func() { timer.Stop() }
}

// exhausted takes in that there are no more recordings.
func (r *run) exhausted() {
	if r.feedPanic != nil {
		panic(r.feedPanic)
	}
	r.progress.total = r.progress.seen
	if r.feedErr != nil {
		r.feedFailure = fail("the recordings ended early: "+redact.Cause(r.feedErr), r.feedErr)
	}
}

// take takes in a message and returns the results in it.
func (r *run) take(m message) []Result {
	if m.broken != nil {
		r.broken, r.ended = cmp.Or(r.broken, m.broken), true
		r.stopAsking()
	}
	if m.stuck != nil {
		r.stuck = append(r.stuck, m.stuck)
	}
	if m.event != nil {
		r.tell(*m.event)
	}
	r.unfinished -= len(m.results)
	if m.panic != nil && !r.stopping {
		panic(m.panic)
	}
	for _, result := range m.results {
		r.progress.count(result)
		r.tell(Event{Recording: result.Recording, Result: &result})
	}
	if m.patient != nil {
		// What was found for it may explain what stood in the way of others.
		r.retryStuck(func(t *task) bool { return t.own.Patient == *m.patient })
	}
	return m.results
}

// retryStuck asks once more about some of the recordings that were asked about in vain.
func (r *run) retryStuck(which func(*task) bool) {
	r.stuck = slices.DeleteFunc(r.stuck, func(t *task) bool {
		again := r.asking.Err() == nil && which(t)
		if again {
			r.park(t)
		}
		return again
	})
}

// giveUp yields those that nothing more can be found out about.
func (r *run) giveUp(yield func(Result, error) bool) bool {
	for len(r.stuck) > 0 {
		t := r.stuck[0]
		r.stuck = r.stuck[1:]
		for _, result := range r.take(message{results: r.finish(t, t.inDoubt())}) {
			if !yield(result, nil) {
				return false
			}
		}
	}
	return true
}

// failure is why the run ended early; nil if it did not.
func (r *run) failure() error {
	switch {
	case r.broken != nil:
		return r.broken
	case r.parent.Err() != nil:
		return contextFailure(r.parent)
	}
	return r.feedFailure
}

// work is a worker.
func (r *run) work() {
	for {
		select {
		case recording := <-r.jobs:
			t := &task{recording: recording}
			r.guard(t, r.begin)
		case t := <-r.again:
			r.guard(t, func(t *task) { r.upload(t, nil) })
		case <-r.quit:
			return
		}
	}
}

// guard hands a panic of the caller's own code, such as its audio source, to the caller's goroutine.
func (r *run) guard(t *task, do func(*task)) {
	normal := false
	defer func() {
		if !normal {
			cause := recover()
			r.messages <- message{results: r.finish(t, Result{Status: InDoubt}), panic: cause}
		}
	}()
	do(t)
	normal = true
}
