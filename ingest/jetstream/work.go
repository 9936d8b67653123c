package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Result is what became of a recording in this worker's hands.
type Result struct {
	ingest.Result
	Ending Ending
	Rest   time.Duration // later: until it is tried again
}

// Ending is what the queue does with a recording.
type Ending int

// The endings. Only recordings that are done, or became a dead letter, leave the queue.
const (
	Done  Ending = iota + 1 // its note has reached Uploader.Until
	Later                   // it is tried again
	Dead                    // it became a dead letter
)

// String returns the ending in a word.
func (e Ending) String() string {
	switch e {
	case Done:
		return "done"
	case Later:
		return "later"
	case Dead:
		return "dead letter"
	}
	return fmt.Sprintf("Ending(%d)", int(e))
}

// LogValue lists what may be logged of the result.
func (r Result) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("ending", r.Ending.String())}
	if r.Rest > 0 {
		attrs = append(attrs, slog.Duration("rest", r.Rest))
	}
	return slog.GroupValue(append(attrs, r.Result.LogValue().Group()...)...)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (r Result) Format(s fmt.State, _ rune) { redact.Format(s, "jetstream.Result", r) }

// Work uploads recordings of the queue and yields what became of each, until the context ends. The uploader sets
// the client, the number of uploads at a time, the parameters of FindCreated and, optionally, the owner of the
// recordings. Its Journal is ignored: the fleet's journal is used.
//
// A recording is done when its note has reached the uploader's Until, by default when it is complete. Until then it
// stays in the queue. The worker waits for the notes of its recordings while it uploads others. After MaxWait the
// result is Processing, and the note is read again every ten minutes, by any worker. A recording that the service
// could not process becomes a dead letter.
//
// A recording that fails and may succeed later is tried again after growing pauses, on any machine. One that is
// refused for good becomes a dead letter. An unresolved recording is searched for once, and then waits until it can
// be decided. If all fail in the same way, the worker pauses, and the fleet pauses if all its workers do.
//
// OnEvent is called for each try of a recording and for this worker's pauses, by several goroutines concurrently.
// When the context ends, uploads end within half a minute, and their recordings stay in the queue. That is not an
// error. An error is yielded once, last: the fleet's store cannot be trusted, or belongs to another service or
// user.
func (f *Fleet) Work(ctx context.Context, uploader *ingest.Uploader) iter.Seq2[Result, error] {
	return f.work(ctx, uploader, false)
}

// Drain is [Fleet.Work] that ends when the queue is empty: each recording is done, or is a dead letter. It also
// ends if all recordings that are left have complete notes, or if MaxWait has passed since its last upload and
// their notes are in processing.
func (f *Fleet) Drain(ctx context.Context, uploader *ingest.Uploader) iter.Seq2[Result, error] {
	return f.work(ctx, uploader, true)
}

// work is Work or, if endsWhenDrained is set, Drain.
func (f *Fleet) work(ctx context.Context, uploader *ingest.Uploader, endsWhenDrained bool) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := checkUploader(uploader); err != nil {
			yield(Result{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &work{
			fleet: f, uploader: uploader, endsWhenDrained: endsWhenDrained,
			id: rand.Text(), since: time.Now(), results: make(chan Result), cancel: cancel,
		}
		w.follower = newFollower(w)
		w.pauser = &pauser{
			fleet: f, id: w.id, probe: newProbe(uploader.Client),
			beat: w.beat, onEvent: uploader.OnEvent, endOnPanic: w.endOnPanic,
		}
		go w.run(ctx)
		defer func() { // also when the loop's body panics: what is under way has to be put back
			cancel()
			for range w.results {
			}
		}()
		isListening := true             // the caller's loop wants more
		for result := range w.results { // until run has put back what was under way
			if isListening && !yield(result, nil) {
				isListening = false
				cancel()
			}
		}
		if w.panicked != nil {
			panic(w.panicked)
		}
		if err := w.failure.Load(); err != nil && isListening {
			yield(Result{}, *err)
		}
	}
}

// checkUploader returns an error if a field of the uploader is out of its range.
func checkUploader(u *ingest.Uploader) error {
	switch {
	case u.Workers < 0 || u.Workers > maxWorkers:
		return fail("Workers must be from 0 to 1024", clinicaldoc.ErrInvalidArgument)
	case u.Until < 0 || u.Until > clinicaldoc.StageSigned:
		return fail("Until must be a stage that can be waited for", clinicaldoc.ErrInvalidArgument)
	}
	return nil
}

// work is one Work.
type work struct {
	fleet           *Fleet
	uploader        *ingest.Uploader
	endsWhenDrained bool
	id              string
	since           time.Time
	pauser          *pauser
	follower        *follower
	results         chan Result
	cancel          context.CancelFunc

	panicking      sync.Once
	panicked       any // to be read once results is closed
	failure        atomic.Pointer[error]
	uploadingCount atomic.Int64
	knownOwner     atomic.Pointer[ingest.Owner]
	doneCount      atomic.Int64
	hasNamedUser   atomic.Bool // a note has named the fleet's user

	drainLock   sync.Mutex // lets one goroutine at a time read all that is left in the queue
	drainReadAt time.Time  // when one did; guarded by drainLock
}

const (
	defaultWorkers = 4
	maxWorkers     = 1024                   // as an Uploader's
	nextWait       = 200 * time.Millisecond // for a recording of a lane
	searchTime     = 5 * time.Second        // of FindCreated, after which an unresolved recording rests
	drainReadEvery = 2 * time.Second        // all that is left in the queue is read, to see whether it is drained
)

// run works until the context ends or, for Drain, until the queue is drained. The worker is shown as alive to the end,
// also while it puts back the recordings whose notes it waits for.
func (w *work) run(ctx context.Context) {
	defer close(w.results)
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	watching, stopWatching := context.WithCancel(ctx)
	var heartbeat, watches, uploads sync.WaitGroup
	w.beat(ctx)
	heartbeat.Go(func() { w.keepBeating(beating) })
	watches.Go(func() { w.follower.run(watching) })
	watches.Go(func() { w.watchStore(watching) })
	workers := cmp.Or(w.uploader.Workers, defaultWorkers)
	alternate := workers == 1 // a single worker serves both lanes in turn
	for n := range workers {
		uploads.Go(func() { w.serve(ctx, lanesOf(n, workers), alternate) })
	}
	uploads.Wait()
	stopWatching()
	watches.Wait()
	w.follower.putBack()
	w.pauser.pauses.Wait() // a pause under way ends with ctx
	stopBeating()
	heartbeat.Wait()
	w.fleet.live.removeWorker(context.WithoutCancel(ctx), w.id)
}

// lanesOf returns the lanes of worker n in the order in which it asks them. A quarter of the workers, and at least one,
// first asks for recordings that failed, so they are tried again however many new ones there are.
func lanesOf(n, workers int) [2]lane {
	if n < max(workers/4, 1) {
		return [2]lane{againLane, freshLane}
	}
	return [2]lane{freshLane, againLane}
}

// watchStore ends the work if the store cannot be trusted any more. Uploads verify the store too, but one may take
// long. Other errors may pass.
func (w *work) watchStore(ctx context.Context) {
	for sleep(ctx, verifyEvery) {
		err := w.fleet.store.check(ctx)
		if errors.Is(err, ErrStore) {
			w.fail(err)
			return
		}
	}
}

// serve handles one recording after the other, until the context ends, the store cannot be trusted or, for Drain, the
// queue is drained. It asks the lanes in their order. If alternate is set, the order is reversed after each time.
func (w *work) serve(ctx context.Context, lanes [2]lane, alternate bool) {
	for w.pauser.wait(ctx) {
		d, err := w.next(ctx, lanes)
		switch {
		case errors.Is(err, ErrStore):
			w.fail(err)
			return
		case err != nil: // the engine does not respond, or a consumer is gone
			if err := w.reopen(ctx); err != nil {
				w.fail(err)
				return
			}
			_ = sleep(ctx, shortDelay)
		case d != nil:
			w.handle(ctx, d)
		case w.endsWhenDrained && w.isDrained(ctx):
			return
		}
		if alternate {
			lanes[0], lanes[1] = lanes[1], lanes[0]
		}
	}
}

// next returns a recording of the first lane that has one, or nil if both are empty.
func (w *work) next(ctx context.Context, lanes [2]lane) (*delivery, error) {
	for _, l := range lanes {
		d, err := w.fleet.queue.next(ctx, l, nextWait)
		if d != nil || err != nil || ctx.Err() != nil {
			return d, err
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// reopen verifies the store, and makes the queue's consumers again if they are missing. It returns an error only if the
// store cannot be trusted. After any other failure, the worker calls it again later.
func (w *work) reopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := w.fleet.store.verify(ctx, time.Now())
	if err == nil {
		err = w.fleet.queue.openConsumers(ctx)
	}
	if errors.Is(err, ErrStore) {
		return err
	}
	return nil
}

// isDrained reports whether the queue is empty, or all recordings in it have notes that are done or that this worker
// has waited for long enough. It reads the complete queue, so it does that only from time to time.
func (w *work) isDrained(ctx context.Context) bool {
	info, err := w.fleet.queue.stream.Info(ctx)
	if err != nil {
		return false
	}
	if info.State.Msgs == 0 {
		return true
	}
	if !w.follower.isNeeded() || w.follower.count() > 0 { // the recordings that are left still need work
		return false
	}
	w.drainLock.Lock()
	defer w.drainLock.Unlock()
	if time.Since(w.drainReadAt) < drainReadEvery {
		return false
	}
	hasWaited := w.follower.isOver(time.Now())
	allEnded, err := w.fleet.allWaiting(ctx, func(e ingest.Entry) bool {
		// If isDone is set, it is done in one lane, and a second message of it waits in the other.
		isDone := e.Stage.AtLeast(w.follower.untilStage)
		return e.State == ingest.StateCreated && (isDone || hasWaited)
	})
	w.drainReadAt = time.Now()
	return err == nil && allEnded
}

// fail ends the work. The first error is yielded.
func (w *work) fail(err error) {
	w.failure.CompareAndSwap(nil, &err)
	w.cancel()
}

// endOnPanic is deferred where code of the caller's own runs, such as a callback or a token source. A panic there ends
// the work, and goes on in the caller's goroutine. Then endOnPanic also calls then.
func (w *work) endOnPanic(then func()) {
	if cause := recover(); cause != nil {
		w.panicking.Do(func() { w.panicked = cause })
		w.cancel()
		then()
	}
}

// handle uploads a recording, and does what its outcome asks for. A recording whose note is in processing is left to
// the follower, if that has room for it.
func (w *work) handle(ctx context.Context, d *delivery) {
	w.uploadingCount.Add(1)
	defer w.uploadingCount.Add(-1)
	keepAliveCtx, stopKeepAlive := context.WithCancel(context.WithoutCancel(ctx))
	isFollowed := false
	defer func() {
		if !isFollowed { // otherwise the follower stops it
			stopKeepAlive()
		}
	}()
	go d.keepAlive(keepAliveCtx)
	defer w.endOnPanic(func() { _ = d.putBack(shortDelay) })
	result, err := w.try(ctx, d)
	outcome := judge(result, err, d.tries, random(), d.queue.ackWait) // of a followed recording only for the pauser
	if err == nil && result.Status == ingest.Processing {
		isFollowed = w.follower.hold(d, result, stopKeepAlive) // which may change the delivery's tries
	}
	if !isFollowed {
		w.end(context.WithoutCancel(ctx), d, &outcome)
	}
	if outcome.isForPauser {
		w.pauser.report(ctx, outcome.cause, d.queued.File)
	}
	w.finish(outcome)
}

// try uploads a recording. It returns errStopped if the work ended before the recording was tried to the end.
func (w *work) try(ctx context.Context, d *delivery) (ingest.Result, error) {
	if d.isDamaged {
		return ingest.Result{}, fail("the message cannot be read", ingest.ErrJournalDamaged)
	}
	result, err := w.upload(ctx, d.queued.recording())
	isRefused := result.Status == 0 || result.Status == ingest.Refused
	if isRefused && ctx.Err() != nil {
		return ingest.Result{}, errStopped // the end of the work may be why
	}
	if isFatal(err) {
		w.fail(err)
		return result, errStopped
	}
	return result, err
}

// finish counts a recording that is done, and yields the outcome if it is a result.
func (w *work) finish(o outcome) {
	if o.Ending == Done {
		w.doneCount.Add(1)
	}
	if o.isResult {
		w.results <- o.Result
	}
}

// upload runs the uploader on one recording. It does not wait for the note: the follower does. An unresolved recording
// is searched for only for a short time, because the complete search would keep a worker for ten minutes.
func (w *work) upload(ctx context.Context, recording ingest.Recording) (result ingest.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := *w.uploader
	u.Journal = w.fleet.journal
	u.Workers = 1
	u.Total = 1
	u.MaxPause = -1 // the queue tries again
	u.Until = w.follower.untilStage
	ctx = poll.LeaveWaits(ctx) // the follower waits
	if u.Owner, err = w.recordingsOwner(ctx); err != nil {
		return ingest.Result{Recording: recording}, err
	}
	search := &searchTimer{timer: time.AfterFunc(searchTime, cancel), next: w.uploader.OnEvent}
	search.timer.Stop() // until the recording is unresolved
	defer search.timer.Stop()
	u.OnEvent = search.event
	result, err = lastResult(u.Run(ctx, ingest.Recordings(recording)))
	isUnresolved := !search.until.IsZero()
	isUnsaved := result.NoteID != 0 && err != nil && !errors.Is(err, ctx.Err()) // the journal does not know the note
	switch {
	case isUnsaved:
		return result, err
	case result.Note != nil && !isUnresolved:
		return result, w.checkUser(u.Owner, result.Note)
	case result.Status != 0:
		return result, nil
	case isUnresolved: // the search was cut short
		return ingest.Result{Recording: recording, Status: ingest.InDoubt, Until: search.until, Err: err}, nil
	}
	return ingest.Result{Recording: recording}, err
}

// lastResult returns the last result of a run, and the error with which the run ended, or nil.
func lastResult(run iter.Seq2[ingest.Result, error]) (result ingest.Result, err error) {
	for r, failed := range run {
		err = failed
		if failed == nil {
			result = r
			result.Position = 0 // see withoutPosition
		}
	}
	return result, err
}

// searchTimer ends the search for an unresolved recording after searchTime. Only the goroutine of the run uses it.
type searchTimer struct {
	timer *time.Timer
	until time.Time          // when the recording can be decided; zero if it is not unresolved
	next  func(ingest.Event) // OnEvent of the caller; may be nil
}

// event starts the timer when the recording is unresolved, stops it when the recording is uploaded once more, and
// passes the event on to the caller. A result that waits for its note is passed on as the event that the note exists.
func (s *searchTimer) event(e ingest.Event) {
	switch {
	case e.State == ingest.StateInDoubt && s.until.IsZero():
		s.until = e.Until
		s.timer.Reset(searchTime)
	case e.State == ingest.StateClaimed: // an upload begins, and its time is not limited
		s.until = time.Time{}
		s.timer.Stop()
	}
	if e.Result != nil && e.Result.Status == ingest.Processing { // the follower reports the result later
		e.Result = nil
		e.State = ingest.StateCreated
	}
	if s.next != nil {
		s.next(withoutPosition(e))
	}
}

// checkUser returns an error matching ErrOtherUser if the service created the note for another user than the fleet's.
// The fleet's user may not see such a note in a list. A run of one recording cannot notice that. A service may name the
// owner of a team in every note, so a note counts only after another one has named the fleet's user.
func (w *work) checkUser(owner ingest.Owner, note *clinicaldoc.ProgressNote) error {
	isKnown := owner.UserID != 0 && note.UserID != 0
	if !isKnown {
		return nil
	}
	if note.UserID == owner.UserID {
		w.hasNamedUser.Store(true)
		return nil
	}
	if !w.hasNamedUser.Load() {
		return nil
	}
	return fail("the client's user changed: the service created a note for another user than the fleet's. "+
		"Nothing more is uploaded; use a token of the fleet's user", ingest.ErrOtherUser)
}

// withoutPosition returns the event of a recording that has no position: each recording of a queue is a run of its own.
func withoutPosition(e ingest.Event) ingest.Event {
	e.Position = 0
	if e.Result != nil {
		e.Result.Position = 0
	}
	return e
}

// recordingsOwner returns the owner of the recordings: the uploader's if it has one, otherwise that of its client,
// which is read from the service once.
func (w *work) recordingsOwner(ctx context.Context) (ingest.Owner, error) {
	if w.uploader.Owner.Service != "" {
		return w.uploader.Owner, nil
	}
	if owner := w.knownOwner.Load(); owner != nil {
		return *owner, nil
	}
	owner, err := ingest.OwnerOf(ctx, w.uploader.Client)
	if err == nil {
		w.knownOwner.Store(&owner)
	}
	return owner, err
}

var errStopped = fail("the worker stopped")

// outcome is what is done with a recording after a try.
type outcome struct {
	Result
	cause       error // why it failed; nil if it did not
	isForPauser bool  // it shows whether the service works, so the pauser counts it
	isResult    bool  // it is yielded; otherwise this worker puts the recording back as if it had not had it
}

// judge decides what is done with a recording after a try. By default it is tried again later. An err is of the journal
// or of the worker, and not of the recording; the result then has at most a note. The random number, from 0 to 1,
// spreads the rest. The lease is how long another worker may have the recording.
func judge(result ingest.Result, err error, tries int, random float64, lease time.Duration) outcome {
	o := outcome{
		Result: Result{Result: result, Ending: Later, Rest: delay(tries, random)},
		cause:  cmp.Or(err, result.Err), isForPauser: true, isResult: true,
	}
	isDone := slices.Contains([]ingest.Status{ingest.Created, ingest.AlreadyThere, ingest.Complete}, result.Status)
	switch {
	case errors.Is(err, errStopped):
		o.putBack(shortDelay)
	case o.isDamaged(), errors.Is(o.cause, ingest.ErrKeyReused):
		o.bury()
	case err != nil && result.NoteID != 0: // whoever gets the recording next saves its note
		o.isForPauser = false
	case err != nil:
		o.Status = ingest.Refused
		o.Err = err
	case isDone:
		o.Ending = Done
		o.cause = nil
	case result.Status == ingest.Processing:
		o.putBack(followedRest)
		o.isForPauser = result.Note != nil // then it was created, or found, in this try
		o.cause = nil
		o.Err = cmp.Or(o.Err, errProcessing)
	case result.Status == ingest.Failed:
		o.bury()
	case errors.Is(result.Err, ingest.ErrTaken):
		o.putBack(lease)
	case result.Status == ingest.InDoubt:
		o.judgeUnresolved(tries)
	case isPermanent(result.Err, tries):
		o.bury()
	}
	if o.Ending != Later {
		o.Rest = 0
	}
	if o.Ending != Done {
		o.Err = cmp.Or(o.Err, o.cause, errNotDone)
	}
	return o
}

var errNotDone = fail("the outcome of the recording is not known yet; it is tried again later")

// isDamaged reports whether the recording's own record is damaged. If the result has Until, a record of another
// recording is: this one is only unresolved.
func (o *outcome) isDamaged() bool {
	return errors.Is(o.cause, ingest.ErrJournalDamaged) && o.Until.IsZero()
}

// putBack makes the outcome one that leaves the recording to others, as if this worker had not had it.
func (o *outcome) putBack(rest time.Duration) {
	o.Rest = rest
	o.isForPauser = false
	o.isResult = false
}

// bury decides that the recording becomes a dead letter.
func (o *outcome) bury() {
	o.Ending = Dead
	o.isForPauser = false
}

// judgeUnresolved lets an unresolved recording rest until it can be decided, but not longer than maxDelay: another
// worker, whose clock is right, may decide it earlier. A recording that stays unresolved long after that time becomes a
// dead letter. Many tries are not enough for that, because they may have failed during an outage.
func (o *outcome) judgeUnresolved(tries int) {
	left := time.Until(o.Until)
	if left > 0 {
		o.Rest = min(max(left, firstDelay), maxDelay)
	} else if tries >= maxTries && left < -maxDelay {
		o.Ending = Dead
	}
	o.isForPauser = tries == 1 // later tries only ask, and do not upload
}

// isPermanent reports whether a refusal will not change if the recording is tried again. A refusal that may be a
// mistake of the service counts as permanent only after some tries.
func isPermanent(err error, tries int) bool {
	var response *clinicaldoc.Error
	switch {
	case errors.Is(err, clinicaldoc.ErrValidation), errors.Is(err, clinicaldoc.ErrTooLarge):
		return true
	case errors.Is(err, clinicaldoc.ErrUnauthorized), errors.Is(err, clinicaldoc.ErrForbidden),
		clinicaldoc.Retryable(err), kindOf(err) == kindFile, kindOf(err) == kindEngine:
		return false
	case errors.As(err, &response) && response.StatusCode/100 == 4, errors.Is(err, clinicaldoc.ErrInvalidArgument):
		return tries >= maxTries
	}
	return false
}

// end does what the outcome says. If that fails, the recording stays in the queue, and the worker that gets it next
// does it.
func (w *work) end(ctx context.Context, d *delivery, o *outcome) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	switch {
	case o.Ending == Done:
		err = d.remove(ctx)
	case o.Ending == Dead:
		err = d.bury(ctx, redact.Opaque(cmp.Or(o.cause, o.Err)).Error())
	case o.isResult:
		err = d.later(ctx, o.Rest)
	default:
		err = d.putBack(o.Rest)
	}
	if err != nil && o.Ending == Dead { // the letter was not stored, or the recording may still be in the queue
		o.Ending = Later
		o.Rest = maxDelay
	}
}

// keepBeating shows every ten seconds that this worker is alive, until the context ends.
func (w *work) keepBeating(ctx context.Context) {
	for sleep(ctx, beatEvery) {
		w.beat(ctx)
	}
}

// beat writes what this worker does, and how it fails if it pauses, for the other workers and for Status.
func (w *work) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	host, _ := os.Hostname()
	failing := w.pauser.pausedFor()
	me := liveWorker{Kind: string(failing.kind), Worker: Worker{
		Host: host, Process: os.Getpid(), Since: w.since, Failing: failing.reason,
		Uploading: int(w.uploadingCount.Load()), Done: int(w.doneCount.Load()), Processing: w.follower.count(),
	}}
	if now, err := w.fleet.live.now(ctx); err == nil {
		me.Ahead = time.Since(now).Round(time.Millisecond)
	}
	_ = w.fleet.live.beat(ctx, w.id, me)
}
