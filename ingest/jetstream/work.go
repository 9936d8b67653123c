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

func (f *Fleet) work(ctx context.Context, uploader *ingest.Uploader, drain bool) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := checkUploader(uploader); err != nil {
			yield(Result{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &work{
			fleet: f, uploader: uploader, drain: drain,
			id: rand.Text(), since: time.Now(), results: make(chan Result), cancel: cancel,
		}
		w.follower = newFollower(w)
		w.pauser = &pauser{
			fleet: f, id: w.id, probe: newProbe(uploader.Client), beat: w.beat, event: uploader.OnEvent, catch: w.catch,
		}
		go w.run(ctx)
		defer func() { // also when the loop's body panics: what is under way has to be put back
			cancel()
			for range w.results {
			}
		}()
		wanted := true
		for result := range w.results { // to the end
			if wanted && !yield(result, nil) {
				wanted = false
				cancel()
			}
		}
		if w.panicked != nil {
			panic(w.panicked)
		}
		if err := w.failed.Load(); err != nil && wanted {
			yield(Result{}, *err)
		}
	}
}

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
	fleet    *Fleet
	uploader *ingest.Uploader
	drain    bool
	id       string
	since    time.Time
	pauser   *pauser
	follower *follower
	results  chan Result
	cancel   context.CancelFunc

	panicking sync.Once
	panicked  any // to be read once results is closed
	failed    atomic.Pointer[error]
	uploading atomic.Int64
	owner     atomic.Pointer[ingest.Owner]
	done      atomic.Int64
	namesUser atomic.Bool // a note has named the fleet's user

	ending sync.Mutex // of who looks whether the queue holds only notes in processing
	looked time.Time  // guarded by ending
}

const (
	defaultWorkers = 4
	maxWorkers     = 1024                   // as an Uploader's
	nextWait       = 200 * time.Millisecond // for a recording of the lane that is asked first
	doubtLook      = 5 * time.Second        // FindCreated may look for, before an unresolved recording rests
	endLook        = 2 * time.Second        // between two looks at all that is left in the queue
)

// run works until the context ends or, with drain, until the queue is drained. The worker is shown as living to the
// end, also while it puts back the recordings whose notes it waits for.
func (w *work) run(ctx context.Context) {
	defer close(w.results)
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	watching, stopWatching := context.WithCancel(ctx)
	var beats, watches, uploads sync.WaitGroup
	w.beat(ctx)
	beats.Go(func() { w.beats(beating) })
	watches.Go(func() { w.follower.run(watching) })
	watches.Go(func() { w.watchStore(watching) })
	workers := cmp.Or(w.uploader.Workers, defaultWorkers)
	alternate := workers == 1 // no other worker asks the second lane first
	for n := range workers {
		uploads.Go(func() { w.serve(ctx, lanesOf(n, workers), alternate) })
	}
	uploads.Wait()
	stopWatching()
	watches.Wait()
	w.follower.putBack()
	w.pauser.resting.Wait()
	stopBeating()
	beats.Wait()
	w.fleet.live.gone(context.WithoutCancel(ctx), w.id)
}

// lanesOf returns the lanes of worker n in the order in which it asks them. A quarter of the workers, and at least one,
// first asks for recordings that failed, so they are tried again however many new ones there are.
func lanesOf(n, workers int) [2]lane {
	if n < max(workers/4, 1) {
		return [2]lane{againLane, freshLane}
	}
	return [2]lane{freshLane, againLane}
}

// watchStore ends the work if the store cannot be trusted any more. Recordings verify the store too, but an upload may
// take long.
func (w *work) watchStore(ctx context.Context) {
	for pause(ctx, verifyEvery) {
		err := w.fleet.store.check(ctx)
		if errors.Is(err, ErrStore) {
			w.fail(err)
			return
		}
	}
}

// serve takes one recording after the other. If alternate is set, it asks the other lane first each time.
func (w *work) serve(ctx context.Context, lanes [2]lane, alternate bool) {
	for w.pauser.wait(ctx) {
		d, err := w.next(ctx, lanes)
		switch {
		case errors.Is(err, ErrStore):
			w.fail(err)
			return
		case err != nil:
			if err := w.reopen(ctx); err != nil {
				w.fail(err)
				return
			}
			_ = pause(ctx, shortDelay)
		case d != nil:
			w.handle(ctx, d)
		case w.drain && w.isDrained(ctx):
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

// reopen looks whether the queue is there and makes its consumers anew if they are not. An engine that does not
// respond is waited for.
func (w *work) reopen(ctx context.Context) error {
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := w.fleet.store.verify(request, time.Now())
	if err == nil {
		err = w.fleet.queue.consumers(request)
	}
	if errors.Is(err, ErrStore) {
		return err
	}
	return nil
}

// isDrained reports whether nothing is left in the queue, or only recordings whose notes were waited for long enough.
func (w *work) isDrained(ctx context.Context) bool {
	info, err := w.fleet.queue.stream.Info(ctx)
	switch {
	case err != nil:
		return false
	case info.State.Msgs == 0:
		return true
	case !w.follower.wanted() || w.follower.count() > 0:
		return false
	}
	w.ending.Lock()
	defer w.ending.Unlock()
	if time.Since(w.looked) < endLook {
		return false
	}
	isOver := w.follower.isOver(time.Now())
	ended, err := w.fleet.allWaiting(ctx, func(e ingest.Entry) bool {
		isDone := e.Stage.AtLeast(w.follower.until) // it also waits in the other lane
		return e.State == ingest.StateCreated && (isDone || isOver)
	})
	w.looked = time.Now()
	return err == nil && ended
}

// fail ends the work.
func (w *work) fail(err error) {
	w.failed.CompareAndSwap(nil, &err)
	w.cancel()
}

// catch is deferred where code of the caller's own runs, such as a callback or a token source: a panic there ends
// the work.
func (w *work) catch(then func()) {
	if cause := recover(); cause != nil {
		w.panicking.Do(func() { w.panicked = cause })
		w.cancel()
		then()
	}
}

// handle does what has to be done with a recording, and says what became of it.
func (w *work) handle(ctx context.Context, d *delivery) {
	w.uploading.Add(1)
	defer w.uploading.Add(-1)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	held := false
	defer func() {
		if !held {
			stop()
		}
	}()
	go d.keep(keeping)
	defer w.catch(func() { _ = d.putBack(shortDelay) })
	var outcome outcome
	if d.damaged {
		damage := fail("the message cannot be read", ingest.ErrJournalDamaged)
		outcome = judge(ingest.Result{}, damage, d.tries, random(), d.queue.ackWait)
	} else {
		result, err := w.upload(ctx, d.waiting.recording())
		if ctx.Err() != nil && (result.Status == 0 || result.Status == ingest.Refused) {
			result, err = ingest.Result{}, errStopped // whatever it says, it was not tried to the end
		}
		if isFatal(err) {
			w.fail(err)
			err = errStopped
		}
		held = err == nil && result.Status == ingest.Processing && w.follower.hold(d, result, stop)
		outcome = judge(result, err, d.tries, random(), d.queue.ackWait)
	}
	if !held {
		w.end(context.WithoutCancel(ctx), d, &outcome)
	}
	if outcome.counts {
		w.pauser.report(ctx, outcome.cause, d.waiting.File)
	}
	w.finish(outcome)
}

// finish tells what became of a recording.
func (w *work) finish(o outcome) {
	if o.Ending == Done {
		w.done.Add(1)
	}
	if o.tried {
		w.results <- o.Result
	}
}

// upload runs the uploader on one recording. One unresolved is looked for once: it would keep a worker for ten minutes.
func (w *work) upload(ctx context.Context, recording ingest.Recording) (result ingest.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := *w.uploader
	u.Journal = w.fleet.journal
	u.Workers = 1
	u.Total = 1
	u.MaxPause = -1 // the queue tries again
	u.Until = w.follower.until
	ctx = poll.LeaveWaits(ctx) // the follower waits
	if u.Owner, err = w.whose(ctx); err != nil {
		return ingest.Result{Recording: recording}, err
	}
	look := &doubtTimer{timer: time.AfterFunc(doubtLook, cancel), next: w.uploader.OnEvent}
	look.timer.Stop() // until there is a doubt
	defer look.timer.Stop()
	u.OnEvent = look.event
	for r, failed := range u.Run(ctx, ingest.Recordings(recording)) {
		if failed != nil {
			err = failed
			continue
		}
		result = r
		result.Position = 0
		err = nil
	}
	notSaved := result.NoteID != 0 && err != nil && !errors.Is(err, ctx.Err())
	responded := result.Note != nil && look.until.IsZero()
	switch {
	case notSaved:
		return result, err // the journal does not know the note
	case responded:
		return result, w.checkUser(u.Owner, result.Note)
	case result.Status != 0:
		return result, nil
	case !look.until.IsZero(): // it was cut short
		return ingest.Result{Recording: recording, Status: ingest.InDoubt, Until: look.until, Err: err}, nil
	}
	return ingest.Result{Recording: recording}, err
}

// doubtTimer ends the search for an unresolved recording. The run's goroutine alone uses it.
type doubtTimer struct {
	timer *time.Timer
	until time.Time          // unresolved: from then on it can be decided
	next  func(ingest.Event) // of the caller's; nil: nobody is told
}

func (d *doubtTimer) event(e ingest.Event) {
	switch {
	case e.State == ingest.StateInDoubt && d.until.IsZero():
		d.until = e.Until
		d.timer.Reset(doubtLook)
	case e.State == ingest.StateClaimed: // it has no note, and its upload takes as long as it takes
		d.until = time.Time{}
		d.timer.Stop()
	}
	if e.Result != nil && e.Result.Status == ingest.Processing { // its result comes when its note is complete
		e.Result = nil
		e.State = ingest.StateCreated
	}
	if d.next != nil {
		d.next(withoutPosition(e))
	}
}

// checkUser returns an error matching ErrOtherUser if the service created the note for another user than the
// fleet's, which may not see it in its list. A run of one recording cannot notice that. A service may name the
// owner of a team in every note, so a note counts only after another one has named the fleet's user.
func (w *work) checkUser(owner ingest.Owner, note *clinicaldoc.ProgressNote) error {
	known := owner.UserID != 0 && note.UserID != 0
	switch {
	case !known:
		return nil
	case note.UserID == owner.UserID:
		w.namesUser.Store(true)
		return nil
	case !w.namesUser.Load():
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

// whose recordings they are is asked once, unless the uploader says it.
func (w *work) whose(ctx context.Context) (ingest.Owner, error) {
	if w.uploader.Owner.Service != "" {
		return w.uploader.Owner, nil
	}
	if owner := w.owner.Load(); owner != nil {
		return *owner, nil
	}
	owner, err := ingest.OwnerOf(ctx, w.uploader.Client)
	if err == nil {
		w.owner.Store(&owner)
	}
	return owner, err
}

var errStopped = fail("the worker stopped")

// outcome is what is done with a recording.
type outcome struct {
	Result
	cause  error // why, if it failed
	counts bool  // for a pause
	tried  bool  // else it was put back because of this worker, and is no result
}

// judge decides. An error is of the journal or of the worker; there is a result then only if it is a note.
func judge(result ingest.Result, err error, tries int, random float64, lease time.Duration) outcome {
	o := outcome{
		Result: Result{Result: result, Ending: Later, Rest: delay(tries, random)},
		cause:  cmp.Or(err, result.Err), counts: true, tried: true,
	}
	isDone := slices.Contains([]ingest.Status{ingest.Created, ingest.AlreadyThere, ingest.Complete}, result.Status)
	switch {
	case errors.Is(err, errStopped):
		o.putBack(shortDelay)
	case o.isDamaged(), errors.Is(o.cause, ingest.ErrKeyReused):
		o.bury()
	case err != nil && result.NoteID != 0: // whoever gets the recording next writes its note down
		o.counts = false
	case err != nil:
		o.Status = ingest.Refused
		o.Err = err
	case isDone:
		o.Ending = Done
		o.cause = nil
	case result.Status == ingest.Processing:
		o.putBack(followedRest)
		o.counts = result.Note != nil // the service made it now
		o.cause = nil
		o.Err = cmp.Or(o.Err, errProcessing)
	case result.Status == ingest.Failed:
		o.bury()
	case errors.Is(result.Err, ingest.ErrTaken):
		o.putBack(lease)
	case result.Status == ingest.InDoubt:
		o.judgeDoubt(tries)
	case forGood(result.Err, tries):
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

// isDamaged reports whether the recording's own record is damaged. One with a time to wait for is unresolved because of
// another's.
func (o *outcome) isDamaged() bool {
	return errors.Is(o.cause, ingest.ErrJournalDamaged) && o.Until.IsZero()
}

// putBack leaves the recording to others, as if this worker had not had it.
func (o *outcome) putBack(rest time.Duration) {
	o.Rest = rest
	o.counts = false
	o.tried = false
}

// bury makes a dead letter of the recording.
func (o *outcome) bury() {
	o.Ending = Dead
	o.counts = false
}

// judgeDoubt lets an unresolved recording rest until it can be decided. Another worker's clock may be right: it may
// ask before this one's says so. One that stays unresolved long after that becomes a dead letter: earlier tries may
// have been an outage's.
func (o *outcome) judgeDoubt(tries int) {
	left := time.Until(o.Until)
	if left > 0 {
		o.Rest = min(max(left, firstDelay), maxDelay)
	} else if tries >= maxTries && left < -maxDelay {
		o.Ending = Dead
	}
	o.counts = tries == 1 // later ones are asked about and not uploaded
}

// forGood reports whether a refusal will not change by itself. What may be a mistake of the service's is tried
// some times.
func forGood(err error, tries int) bool {
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

// end does it. What cannot be done is done by whoever gets the recording next.
func (w *work) end(ctx context.Context, d *delivery, o *outcome) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	switch {
	case o.Ending == Done:
		err = d.done(ctx)
	case o.Ending == Dead:
		err = d.bury(ctx, redact.Opaque(cmp.Or(o.cause, o.Err)).Error())
	case o.tried:
		err = d.later(ctx, o.Rest)
	default:
		err = d.putBack(o.Rest)
	}
	if err != nil && o.Ending == Dead {
		o.Ending, o.Rest = Later, maxDelay
	}
}

// beats says that this worker lives.
func (w *work) beats(ctx context.Context) {
	for pause(ctx, beatEvery) {
		w.beat(ctx)
	}
}

func (w *work) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	host, _ := os.Hostname()
	failing := w.pauser.pausedFor()
	me := liveWorker{Kind: string(failing.kind), Worker: Worker{
		Host: host, Process: os.Getpid(), Since: w.since, Failing: failing.reason,
		Uploading: int(w.uploading.Load()), Done: int(w.done.Load()), Processing: w.follower.count(),
	}}
	if now, err := w.fleet.live.now(ctx); err == nil {
		me.Ahead = time.Since(now).Round(time.Millisecond)
	}
	_ = w.fleet.live.beat(ctx, w.id, me)
}
