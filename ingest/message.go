package ingest

import "time"

// message is what another goroutine reports to the one that ranges over the results. Only the latter calls apply, which
// changes the state of the run and returns the results that can be yielded now.
type message interface {
	apply(r *run) []Result
}

// send hands a message to the goroutine that ranges over the results. If nobody receives messages any more, the message
// is dropped. A task in it is ended, because nobody else would release its claim while the process lives.
func (r *run) send(m message) {
	select {
	case r.messages <- m:
	case <-r.nobodyReceives:
		var noResult Result
		switch m := m.(type) {
		case askLater:
			r.finish(m.task, noResult)
		case uploadAgain:
			r.finish(m.task, noResult)
		}
	}
}

// workerFree reports that a worker can work on another task.
type workerFree struct{}

func (workerFree) apply(r *run) []Result {
	r.busyWorkers--
	r.trouble.workerFreed(r.busyWorkers)
	return nil
}

// taskEnded reports the results of a task.
type taskEnded struct {
	results     []Result
	health      serviceHealth
	journalErr  error   // ends the run
	askAgainFor *uint32 // a patient whose other recordings are asked about again; nil: none
}

// apply counts the results and makes due what has waited for them. It returns those whose notes the run does not wait
// for.
func (m taskEnded) apply(r *run) []Result {
	r.endIfBroken(m.journalErr)
	r.takeHealth(m.health)
	r.unfinished -= len(m.results)
	var ready []Result
	for _, result := range m.results {
		r.progress.count(result)
		r.unblock(result.JournalKey)
		if isHeld := r.holdBack(&result); !isHeld {
			ready = append(ready, r.emitResult(result))
		}
	}
	if m.askAgainFor != nil && !r.isEnding {
		r.askAgain(func(t *task) bool { return t.own.Patient == *m.askAgainFor })
	}
	return ready
}

// putBack reports recordings that failed for a reason that may pass. They are begun once more later.
type putBack struct {
	jobs    []job
	failure error
}

// apply puts the recordings into the backlog. A try counts only if the service has worked for others since the last
// one: otherwise the service may be the cause.
func (m putBack) apply(r *run) []Result {
	r.takeHealth(serviceFailing(m.failure))
	r.unfinished -= len(m.jobs)
	for _, j := range m.jobs {
		if j.successesAtFailure != r.progress.successes {
			j.countedTries++
			j.successesAtFailure = r.progress.successes
		}
		j.due = time.Now().Add(firstPause << min(j.countedTries, maxTries)) // doubled with each try
		r.backlog = append(r.backlog, j)
	}
	return nil
}

// blocked reports recordings that have to wait for another one. They are begun when that one has its result, or after a
// pause.
type blocked struct{ jobs []job }

// apply puts the recordings into the backlog, due after a pause that is doubled each time. unblock makes them due
// earlier.
func (m blocked) apply(r *run) []Result {
	r.unfinished -= len(m.jobs)
	for _, j := range m.jobs {
		j.due = time.Now().Add(firstPause << min(j.rivalWaits, maxTries))
		r.backlog = append(r.backlog, j)
	}
	return nil
}

// dropped reports how many recordings will have no result, because the run ended.
type dropped int

func (m dropped) apply(r *run) []Result {
	r.unfinished -= int(m)
	return nil
}

// askLater reports an unresolved recording that is to be asked about once more when it is due.
type askLater struct{ task *task }

func (m askLater) apply(r *run) []Result {
	r.toAskAgain = append(r.toAskAgain, m.task)
	return nil
}

// uploadAgain reports a recording that certainly has no note, because the service answered so.
type uploadAgain struct{ task *task }

func (m uploadAgain) apply(r *run) []Result {
	r.toUploadAgain = append(r.toUploadAgain, m.task)
	r.takeHealth(serviceAnswered)
	return nil
}

// apply takes in what a request showed of the service while its task goes on.
func (c serviceHealth) apply(r *run) []Result {
	r.takeHealth(c)
	return nil
}

// journalBroken reports an error of the journal while a task goes on.
type journalBroken struct{ err error }

func (m journalBroken) apply(r *run) []Result {
	r.endIfBroken(m.err)
	return nil
}

// probed reports the end of a probe.
type probed struct {
	failure    error  // of the service; nil: it answered
	journalErr error  // ends the run
	bound      *bound // of the first probe; nil of the others
}

// bound is whose recordings these are, and what the journal said to that.
type bound struct {
	owner   Owner
	binding Binding
}

// apply takes over what the probe showed: whether the service answers and, in the first probe, whose recordings these
// are.
func (m probed) apply(r *run) []Result {
	r.endIfBroken(m.journalErr)
	if m.bound != nil {
		r.owner = m.bound.owner
		r.service = m.bound.binding.Origin
		r.journalHasGaps = m.bound.binding.Gaps
	}
	r.probeEnded(m.failure)
	return nil
}

// happened reports an event for OnEvent.
type happened struct{ event Event }

func (m happened) apply(r *run) []Result {
	r.callOnEvent(m.event)
	return nil
}

// roundEnded reports the end of a round of following notes.
type roundEnded struct{ journalErr error }

func (m roundEnded) apply(r *run) []Result {
	r.endIfBroken(m.journalErr)
	r.follower.endRound()
	return nil
}

// noteFollowed reports what became of a note that is followed.
type noteFollowed struct {
	noteOutcome
	journalErr error
}

func (m noteFollowed) apply(r *run) []Result {
	r.endIfBroken(m.journalErr)
	return r.releaseHeld(m.noteOutcome)
}

// panicked reports a panic of the caller's own code, which goes on in the caller's goroutine.
type panicked struct{ cause any }

func (m panicked) apply(*run) []Result { panic(m.cause) }
