package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// WaitParams says what to wait for and how often to look. The zero value waits for [StageComplete] with the defaults.
type WaitParams struct {
	// Until is the stage to wait for, or any stage beyond it; zero: StageComplete. StageFailed cannot be waited for.
	Until Stage
	// Interval is the shortest pause between two polls, at least 50 ms; zero: 2 seconds, or MaxInterval if that is shorter.
	// Pauses grow by a tenth of the time waited so far, and up to a fifth of each is random.
	Interval time.Duration
	// MaxInterval is the longest pause, at least 50 ms, unless the service requests more; zero: 1 minute, or Interval if
	// that is longer.
	MaxInterval time.Duration
	// MaxFailures is how many failed polls in a row are survived; zero: 10, which bridges an outage of at least 3 minutes
	// with the default intervals.
	MaxFailures int
	// OnUpdate, when set, is called with the note at the first poll and whenever its stage or updated_at has changed, in
	// the goroutine of the wait and before the note is returned or yielded. WaitAll may call it with a row of the list,
	// in which texts can be missing or shortened; the note that it yields without an error was always read by itself.
	OnUpdate func(*ProgressNote)
}

// check refuses params that make no sense and fills in the defaults.
func (p WaitParams) check(name string) (WaitParams, error) {
	tooShort := func(d time.Duration) bool { return d != 0 && d < poll.MinInterval }
	switch {
	case !slices.Contains([]Stage{0, StageUploaded, StageTranscribing, StageTranscribed, StageAnalysing, StageComplete, StageSigned}, p.Until):
		return p, invalid(name+": Until", "is not a stage to wait for")
	case tooShort(p.Interval) || p.Interval > poll.MaxWait:
		return p, invalid(name+": Interval", "%s is outside %s to %s", p.Interval, poll.MinInterval, poll.MaxWait)
	case tooShort(p.MaxInterval) || p.MaxInterval > poll.MaxWait:
		return p, invalid(name+": MaxInterval", "%s is outside %s to %s", p.MaxInterval, poll.MinInterval, poll.MaxWait)
	case p.MaxInterval > 0 && p.Interval > p.MaxInterval:
		return p, invalid(name+": Interval", "must not exceed MaxInterval")
	case p.MaxFailures < 0:
		return p, invalid(name+": MaxFailures", "must not be negative")
	}
	p.Until = cmp.Or(p.Until, StageComplete)
	p.MaxInterval = cmp.Or(p.MaxInterval, max(time.Minute, p.Interval))
	p.Interval = cmp.Or(p.Interval, min(2*time.Second, p.MaxInterval))
	p.MaxFailures = cmp.Or(p.MaxFailures, 10)
	return p, nil
}

// WaitError is why a wait ended before its aim, and how far the note had come: enough to wait on later, in another
// process, by ID. It matches what Err matches: [ErrProcessingFailed] when the service reports an error state,
// [context.DeadlineExceeded], [context.Canceled], [ErrNotFound] and so on. Its text does not hold the error state.
type WaitError struct {
	ID      int64         // of the note
	Note    *ProgressNote // as last seen; nil when no poll succeeded
	Polls   int           // how often the note was looked for
	Elapsed time.Duration // since the wait began
	Err     error         // why it ended
}

// Error returns a text that is safe to log.
func (e *WaitError) Error() string {
	cause := "no cause"
	if e.Err != nil {
		cause = redact.Cause(e.Err)
	}
	return fmt.Sprintf("clinicaldoc: waiting for note %d (%s, %d polls in %s): %s", e.ID, e.stage(), e.Polls, e.Elapsed.Round(time.Millisecond), cause)
}

// Unwrap makes [errors.Is] and [errors.As] see what Err matches.
func (e *WaitError) Unwrap() error { return redact.Opaque(e.Err) }

// LogValue lists what may be logged of the error.
func (e WaitError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("id", e.ID), slog.String("stage", e.stage()), slog.Int("polls", e.Polls),
		slog.Duration("elapsed", e.Elapsed), slog.String("error", e.Error()),
	)
}

// Format prints the error's text for every verb.
func (e WaitError) Format(s fmt.State, _ rune) { printError(s, &e) }

func (e WaitError) stage() string {
	if e.Note == nil {
		return "never seen"
	}
	return e.Note.Stage().String()
}

// Wait polls the note until it has come to params.Until, and returns it.
//
// Each poll is one request, without the client's retries; docs/waiting.md says how often. Failures that may pass are survived
// up to MaxFailures in a row: no response, 408, 425, 429, most 5xx, a response that is no note, and a redirect once the note was
// seen or this client made it. Any other response ends the wait, but for a 404 within 10 seconds of this client's Create of the
// note. A context without a deadline ends it after 24 hours.
//
// Errors: [*WaitError], with the note as last seen; [ErrInvalidArgument] for an id below 1 or senseless params.
func (s *NotesService) Wait(ctx context.Context, id int64, params WaitParams, opts ...CallOption) (*ProgressNote, error) {
	ends, err := Collect(s.wait(ctx, "Notes.Wait", false, []int64{id}, params, opts))
	if err != nil {
		return nil, err
	}
	return ends[0], nil
}

// Watch ranges over a note's changes: it yields the note as first seen and whenever its stage or updated_at has changed,
// and ends when the note has come to params.Until. It polls as Wait does, only while it is ranged over, and can be ranged
// over again.
//
// An error ends it. It is yielded once, together with the note as last seen (nil if it never was); see Wait for the errors.
func (s *NotesService) Watch(ctx context.Context, id int64, params WaitParams, opts ...CallOption) iter.Seq2[*ProgressNote, error] {
	return s.wait(ctx, "Notes.Watch", true, []int64{id}, params, opts)
}

// wait ranges over the notes until every one has ended: over their changes too, or over the ends alone.
func (s *NotesService) wait(ctx context.Context, name string, changes bool, ids []int64, params WaitParams, opts []CallOption) iter.Seq2[*ProgressNote, error] {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return ranged(ctx, s.client, name, opts, func(ctx context.Context, call *scope, yield noteYield) error {
		return (&waiter{call: call, params: params, yield: yield, changes: changes}).run(ctx, ids)
	})
}

// waiter is one Wait, Watch or WaitAll: it makes the requests, and knows when the next one is due.
type waiter struct {
	call     *scope
	params   WaitParams
	schedule poll.Schedule
	opts     []CallOption // of each request, which is sent once: polling is the retry
	latest   *Response    // of the latest request
	sent     time.Time    // when the latest read of a note was

	yield   noteYield
	changes bool // are yielded, not ends alone
	stopped bool // nothing is requested or yielded any more
	pending []*awaited
	ticks   int
	reads   int  // of single notes
	shuffle bool // no read of the tick before succeeded

	listFailures int  // in a row; maxListFailures: the list is of no use
	listProved   bool // a row of the list has shown the end of a note
	notesFirst   bool // the list took the last request that the service allows: the next one is for a note
}

// run waits until every note has ended.
func (s *waiter) run(ctx context.Context, ids []int64) (err error) {
	for _, id := range ids {
		if err := checkID(s.call.name, id); err != nil {
			return err
		}
		s.pending = append(s.pending, &awaited{id: id})
	}
	if s.params, err = s.params.check(s.call.name); err != nil {
		return err
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, poll.MaxWait)
		defer cancel()
	}
	s.params.OnUpdate = s.call.auditedUpdate(ctx, s.params.OnUpdate)
	s.schedule = poll.Schedule{Interval: s.params.Interval, MaxInterval: s.params.MaxInterval, Began: time.Now()}
	s.latest = cmp.Or(s.call.options.response, new(Response))
	s.opts = []CallOption{s.call.options.inherited(), WithResponse(s.latest), once}
	for s.tick(ctx); len(s.pending) > 0 && !s.stopped && !s.call.auditFailed(); s.tick(ctx) {
		if err := s.schedule.Sleep(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = &callError{op: getNote, detail: redact.Cause(err), causes: []error{err, cause}}
			}
			s.endAll(err)
			break
		}
	}
	return nil
}

// respect pauses as long as the service asks for: by Retry-After, or until an exhausted limit is reset.
func (s *waiter) respect() {
	now := time.Now()
	header := s.latest.Header
	s.schedule.Respect(exchange.RetryAfter(header, now))
	exhausted := rateLimitRemaining(header) == 0
	if reset := s.latest.RateLimit.Reset; exhausted && !reset.IsZero() {
		s.schedule.Respect(untilReset(reset, exchange.ServerTime(header, now), now))
	}
}

// untilReset is how long it takes until a limit is reset: by the service's clock or by ours, whichever is sooner. Behind
// a cache, the service's may stand still, so that the reset never comes. If the reset has passed by our clock, ours is
// wrong.
func untilReset(reset, serviceTime, now time.Time) time.Duration {
	byService := reset.Sub(serviceTime)
	byOurs := reset.Sub(now)
	if byOurs <= 0 {
		return byService
	}
	return min(byService, byOurs)
}

// mayPass reports whether a read that failed may succeed later: where the retries within a call say so, and where a proxy may
// have responded that wants people to log in, by a redirect or by what is no note.
func mayPass(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.redirect() || exchange.Reads.MayRetry(exchange.Outcome{Status: refused.StatusCode})
	}
	lasting := []error{ErrInvalidArgument, ErrPatientMismatch, errOtherPage, exchange.ErrTooLong, errTooMany}
	return !slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(err, target) })
}

// awaited is one note that is waited for.
type awaited struct {
	id       int64
	note     *ProgressNote // as last seen; nil before. The caller has it too, and may change it
	stage    Stage         // of it, as it came
	updated  time.Time     // likewise
	polls    int
	failures int   // in a row
	failure  error // the latest of them

	state   awaitedState
	checked int // number of the tick that looked for it last, in either way
	read    int // number of the latest read of it, among those of all notes; 0 before

	unlisted   bool  // the list does not show it, or is not believed about it
	rowStage   Stage // as its latest row shows; 0 before
	rowUpdated time.Time
}

// awaitedState is how far a note that is waited for is.
type awaitedState int

const (
	unseen  awaitedState = iota // nothing is known of it yet: it is read at once
	waiting                     // it is looked for in the list, or read in turn
	ended                       // a row has shown its end: it is read at once
	yielded
)

// found takes in that a poll did not fail.
func (w *awaited) found(tick int) {
	w.state, w.checked, w.failures, w.failure = waiting, tick, 0, nil
	w.polls++
}

// see takes in the note as a poll gave it and calls OnUpdate if it has changed.
func (w *awaited) see(note *ProgressNote, onUpdate func(*ProgressNote)) (changed bool) {
	changed = w.note == nil || w.stage != note.Stage() ||
		!w.updated.IsZero() && !w.updated.Equal(note.UpdatedAt) // rows of a list may lack it
	w.note, w.stage, w.updated = note, note.Stage(), note.UpdatedAt
	if changed && onUpdate != nil {
		onUpdate(note)
	}
	return changed
}

var errErrorState = redact.Fail("the service reports an error state for it; see Note.ErrorState", ErrProcessingFailed)

const (
	maxReplicaLag   = 10 * time.Second // for which a note may not be found yet after its creation
	maxListPages    = 10               // of a tick
	maxListFailures = 3                // in a row, before the list is given up
	maxReadFailures = 3                // in a row, before a tick is given up
	minReads        = 20               // of a tick
	readsPerSecond  = 10               // of the pause before the tick, if that allows more
)

// WaitAll waits for many notes and yields each once, as it ends: as Get gives it when it has come to params.Until; else with
// its [*WaitError] and as last seen, which may be a row of the list (nil if it never was). The others go on. When the context
// ends, or the service responds with 401, all that remain are yielded with that error. An id given twice counts once.
//
// It looks for many by one list request where it can; docs/waiting.md says how often. MaxFailures counts for each note.
// It polls only while it is ranged over, can be ranged over again, and keeps nothing that it has yielded. An id below 1 and
// senseless params are [ErrInvalidArgument], yielded once with a nil note before any request.
func (s *NotesService) WaitAll(ctx context.Context, ids []int64, params WaitParams, opts ...CallOption) iter.Seq2[*ProgressNote, error] {
	return s.wait(ctx, "Notes.WaitAll", false, ids, params, opts)
}

// due reports whether the note has to be read whatever the rate: for the first time, or for the last.
func (w *awaited) due() bool { return w.state == unseen || w.state == ended }

// tick looks for every pending note that the bounds allow: first by the list, then one by one.
func (s *waiter) tick(ctx context.Context) {
	listed := false
	if !s.notesFirst { // else it is the turn of what the list before did not show
		s.ticks++
		listed = s.readList(ctx)
	}
	failures := s.listFailures
	s.notesFirst = listed && s.schedule.PauseRequested()
	read := s.readNotes(ctx)
	if s.listFailures != failures {
		read = s.readNotes(ctx) || read // what was looked for in vain
	}
	if s.schedule.Failures++; listed || read {
		s.schedule.Failures = 0
	}
	s.pending = slices.DeleteFunc(s.pending, func(w *awaited) bool { return w.state == yielded })
	if s.schedule.PauseRequested() && slices.ContainsFunc(s.pending, (*awaited).due) {
		s.schedule.Began = time.Now() // the service decides how fast they can be read
	}
}

// readList lists the newest notes, and reports whether a page came. It goes on as long as fewer pages were read than notes are
// looked for: what it does not find by then is read by itself from now on, so that no more was spent than that saves.
func (s *waiter) readList(ctx context.Context) (succeeded bool) {
	expected := map[int64]*awaited{}
	for _, w := range s.pending {
		if !w.unlisted && w.state != ended {
			expected[w.id] = w
		}
	}
	reads := len(expected) // without the list
	if !s.listProved {
		reads-- // one of the listed notes is read as well
	}
	if s.listFailures == maxListFailures || reads < 2 {
		return false
	}
	pages := 0
	newest := noteList{service: s.call.client.Notes, params: ListNotesParams{Sort: SortLatest, PerPage: maxPerPage}, opts: s.opts}
	for visit, err := range list.Through(ctx, list.List[fetchedPage]{Fetch: newest.fetch, Rule: list.AsGiven}) {
		s.respect()
		if err != nil {
			s.listFailed(err, expected)
			return succeeded
		}
		pages++
		succeeded, s.listFailures = true, 0
		s.seeRows(visit.Value.Items, expected)
		if s.schedule.PauseRequested() {
			return true
		}
		if pages >= len(expected) || pages == maxListPages {
			break
		}
	}
	for _, w := range expected {
		w.unlisted = true
	}
	return true
}

// seeRows takes in the rows of a page, and removes them from what is expected.
func (s *waiter) seeRows(rows []ProgressNote, expected map[int64]*awaited) {
	for i := range rows {
		w := expected[rows[i].ID]
		if w == nil {
			continue
		}
		delete(expected, w.id)
		row := rows[i] // a copy, so that the note does not hold its whole page in memory
		w.rowStage, w.rowUpdated = row.Stage(), row.UpdatedAt
		if w.rowStage == StageFailed || w.rowStage.AtLeast(s.params.Until) {
			w.state, s.listProved = ended, true
			continue
		}
		w.found(s.ticks)
		if w.note != nil && !row.UpdatedAt.After(w.updated) && w.stage.AtLeast(w.rowStage) {
			continue // no news; the note as it was read is worth more than its row
		}
		if w.note != nil {
			w.read = -1 // it has changed: the first to be read, if any is
		}
		w.see(&row, s.params.OnUpdate)
	}
}

// listFailed decides what a failed list call means: trouble of the service, in which single reads would not help, or the
// list's own.
func (s *waiter) listFailed(err error, expected map[int64]*awaited) {
	if errors.Is(err, ErrUnauthorized) {
		s.endAll(err)
	}
	if !errors.Is(err, ErrRateLimited) {
		s.listFailures++
	}
	for _, w := range s.pending {
		if expected[w.id] != nil && mayPass(err) && !errors.Is(err, ErrUnexpectedResponse) {
			s.missed(w, err)
		}
	}
}

// readNotes reads notes one by one, and reports whether the service responded to one. It stops when the service wants a
// pause or seems to be in trouble; if not one could be read, that counts for all.
func (s *waiter) readNotes(ctx context.Context) (succeeded bool) {
	failures := 0 // in a row
	for _, w := range s.toRead(ctx) {
		if s.stopped || s.schedule.PauseRequested() || poll.Expired(ctx) != nil {
			return succeeded
		}
		err := s.readNote(ctx, w)
		if err == nil || !mayPass(err) {
			succeeded, failures = true, 0
			continue
		}
		if failures++; failures < maxReadFailures && !errors.Is(err, ErrRateLimited) {
			continue
		}
		for _, other := range s.pending {
			if !succeeded && other.state != yielded && other.checked < s.ticks {
				s.missed(other, err)
			}
		}
		s.shuffle = !succeeded
		return succeeded
	}
	return succeeded
}

// toRead returns the notes to read in this tick: all that are due, and of those that the list did not show as many as the
// pause before allows, the one that waited longest first. As long as the list has not shown an end, one of the listed
// notes joins them: rows without flags and times would look like notes that are not worked on.
func (s *waiter) toRead(ctx context.Context) []*awaited {
	var due, others []*awaited
	var probe *awaited
	for _, w := range s.pending {
		switch looked := w.checked == s.ticks; {
		case w.state == yielded:
		case !looked && w.due():
			due = append(due, w)
		case !looked:
			others = append(others, w)
		case !s.listProved && w.rowStage != 0 && !w.unlisted && w.failure == nil && (probe == nil || w.read < probe.read):
			probe = w
		}
	}
	slices.SortStableFunc(others, func(a, b *awaited) int { return cmp.Compare(a.read, b.read) })
	allowed := max(minReads, int(readsPerSecond*s.schedule.LastPause.Seconds()))
	notes := slices.Concat(due, others[:min(len(others), allowed)])
	if probe != nil {
		notes = append(notes, probe)
	}
	for i := 0; s.shuffle && i < len(notes); i++ { // a few notes that cannot be read must not stand for all of them
		j := int(exchange.Jitter(ctx) * float64(i+1))
		notes[i], notes[j] = notes[j], notes[i]
	}
	s.shuffle = false
	return notes
}

func (s *waiter) readNote(ctx context.Context, w *awaited) error {
	before, listed := w.state, w.checked == s.ticks
	s.sent = time.Now()
	note, err := s.call.client.Notes.Get(ctx, w.id, s.opts...)
	s.respect()
	if !errors.Is(err, ErrRateLimited) { // or its turn is still to come
		s.reads++
		w.read = s.reads
		if w.state == unseen {
			w.state = waiting
		}
	}
	if err != nil {
		s.missed(w, err)
		if errors.Is(err, ErrUnauthorized) {
			s.endAll(err)
		}
		return err
	}
	w.found(s.ticks)
	changed := w.see(note, s.params.OnUpdate)
	stage := w.stage
	over := stage == StageFailed || stage.AtLeast(s.params.Until)
	if !over && before == ended {
		w.unlisted = true // it is not believed about this note
	}
	sameVersion := w.rowUpdated.IsZero() || w.rowUpdated.Equal(w.updated)
	if listed && sameVersion && w.rowStage != stage && (over || w.rowStage == StageUploaded) {
		s.listFailures = maxListFailures // it does not show stages
		for _, w := range s.pending {
			if w.state == waiting && w.read == 0 { // what was only seen there has not been looked for
				w.state, w.checked = unseen, 0
			}
		}
	}
	switch {
	case stage == StageFailed:
		s.end(w, errErrorState)
	case over:
		s.end(w, nil)
	case changed && s.changes:
		s.stopped = !s.yield(note, nil)
	}
	return nil
}

// missed takes in a failed poll, which may end the wait: but not if a replica lags that has not got what this client created.
func (s *waiter) missed(w *awaited, err error) {
	w.checked, w.failure = s.ticks, err
	w.polls++
	created, own := s.call.client.creates.Note(w.id)
	if own && errors.Is(err, ErrNotFound) && s.sent.Sub(created) < maxReplicaLag {
		return
	}
	w.failures++
	refused, _ := errors.AsType[*Error](err)
	misconfigured := exchange.Permanent(err) || refused != nil && refused.redirect()
	if !mayPass(err) || misconfigured && w.note == nil && !own || w.failures > s.params.MaxFailures {
		s.end(w, err)
	}
}

// end yields the note for the last time, with an error if there is a cause, and lets go of it. When the context ends it while
// polls fail, both are in the error.
func (s *waiter) end(w *awaited, cause error) {
	if w.failure != nil && !errors.Is(w.failure, cause) && !errors.Is(cause, w.failure) {
		detail := redact.Cause(cause) + "; the latest poll failed: " + redact.Cause(w.failure)
		cause = &callError{op: getNote, detail: detail, causes: []error{cause, w.failure}}
	}
	note := w.note
	w.state, w.note, w.failure = yielded, nil, nil
	switch {
	case s.stopped:
	case cause == nil:
		s.stopped = !s.yield(note, nil)
	default:
		_ = s.call.noted(cause) // alone: a WaitError holds its note
		s.stopped = !s.yield(note, &WaitError{ID: w.id, Note: note, Polls: w.polls, Elapsed: time.Since(s.call.started), Err: cause})
	}
}

// endAll ends all that remain, and the wait.
func (s *waiter) endAll(cause error) {
	for _, w := range s.pending {
		if w.state != yielded {
			s.end(w, cause)
		}
	}
	s.stopped = true
}
