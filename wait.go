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

// WaitParams sets what to wait for and how often to poll. The zero value waits for [StageComplete] with the defaults.
type WaitParams struct {
	// Until is the stage to wait for; a later stage also ends the wait. If zero, it defaults to StageComplete.
	// StageFailed is invalid.
	Until Stage
	// Interval is the shortest pause between two polls, at least 50 ms. If zero, it defaults to 2 seconds, or to
	// MaxInterval if that is shorter. Pauses grow by a tenth of the time waited so far, and up to a fifth of each is
	// random.
	Interval time.Duration
	// MaxInterval is the longest pause, at least 50 ms, unless the service requests more. If zero, it defaults to
	// 1 minute, or to Interval if that is longer.
	MaxInterval time.Duration
	// MaxFailures is how many failed polls in a row do not end the wait. If zero, it defaults to 10, which bridges an
	// outage of at least 3 minutes with the default intervals.
	MaxFailures int
	// OnUpdate, if not nil, is called with the note at the first poll and whenever its stage or updated_at has changed.
	// It runs in the goroutine of the wait, before the note is returned or yielded. WaitAll may call it with a row of
	// the list, in which texts can be missing or shortened. The notes that WaitAll yields without an error are always
	// read separately.
	OnUpdate func(*ProgressNote)
}

// waitStages are the valid values of WaitParams.Until.
var waitStages = []Stage{
	0, StageUploaded, StageTranscribing, StageTranscribed, StageAnalysing, StageComplete, StageSigned,
}

// check rejects invalid params and sets the defaults.
func (p WaitParams) check(name string) (WaitParams, error) {
	switch {
	case !slices.Contains(waitStages, p.Until):
		return p, invalid(name+": Until", "is not a stage to wait for")
	case !isInterval(p.Interval):
		return p, invalid(name+": Interval", "%s is outside %s to %s", p.Interval, poll.MinInterval, poll.MaxWait)
	case !isInterval(p.MaxInterval):
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

// isInterval reports whether a wait accepts the interval. Zero stands for the default.
func isInterval(d time.Duration) bool {
	if d == 0 {
		return true
	}
	return d >= poll.MinInterval && d <= poll.MaxWait
}

// WaitError reports why a wait ended before the note reached its stage, and how far the note had come. Use ID to wait
// again later, also in another process. The error matches what Err matches: [ErrProcessingFailed] if the service
// reports an error state, [context.DeadlineExceeded], [context.Canceled], [ErrNotFound] and so on. Its text does not
// contain the error state.
type WaitError struct {
	ID      int64         // of the note
	Note    *ProgressNote // as last seen; nil if no poll succeeded
	Polls   int           // number of polls for this note
	Elapsed time.Duration // since the wait began
	Err     error         // why it ended
}

// Error returns a text that is safe to log.
func (e *WaitError) Error() string {
	cause := "no cause"
	if e.Err != nil {
		cause = redact.Cause(e.Err)
	}
	elapsed := e.Elapsed.Round(time.Millisecond)
	return fmt.Sprintf("clinicaldoc: waiting for note %d (%s, %d polls in %s): %s",
		e.ID, e.stage(), e.Polls, elapsed, cause)
}

// Unwrap makes [errors.Is] and [errors.As] see what Err matches.
func (e *WaitError) Unwrap() error { return redact.Opaque(e.Err) }

// LogValue implements [slog.LogValuer]. It lists the note's ID and stage, the polls, the time and the error's text.
func (e WaitError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("id", e.ID), slog.String("stage", e.stage()), slog.Int("polls", e.Polls),
		slog.Duration("elapsed", e.Elapsed), slog.String("error", e.Error()),
	)
}

// Format implements [fmt.Formatter]. It prints the error's text for every verb.
func (e WaitError) Format(s fmt.State, _ rune) { printError(s, &e) }

func (e WaitError) stage() string {
	if e.Note == nil {
		return "never seen"
	}
	return e.Note.Stage().String()
}

// Wait polls the note until it reaches params.Until, and returns it.
//
// Each poll is one request, without the client's retries; docs/waiting.md describes the schedule. Up to MaxFailures
// temporary failures in a row do not end the wait: no response, 408, 425, 429, most 5xx, and a response that is not a
// note. A redirect counts as temporary if the note was seen before or this client created it. Any other response ends
// the wait, except a 404 within 10 seconds after this client created the note. If the context has no deadline, the wait
// ends after 24 hours.
//
// Wait returns a [*WaitError] with the note as last seen. It returns an error matching [ErrInvalidArgument] if the ID
// is below 1 or the params are invalid.
func (s *NotesService) Wait(
	ctx context.Context, id int64, params WaitParams, opts ...CallOption,
) (*ProgressNote, error) {
	ends, err := Collect(s.wait(ctx, "Notes.Wait", onlyFinal, []int64{id}, params, opts))
	if err != nil {
		return nil, err
	}
	return ends[0], nil
}

// Watch iterates over a note's changes. It yields the note when it is first seen and whenever its stage or updated_at
// has changed, and ends when the note reaches params.Until. It polls as Wait does, only during the iteration, and can
// be iterated again.
//
// An error ends the iteration. It is yielded once, with the note as last seen (nil if no poll succeeded). See Wait for
// the errors.
func (s *NotesService) Watch(
	ctx context.Context, id int64, params WaitParams, opts ...CallOption,
) iter.Seq2[*ProgressNote, error] {
	return s.wait(ctx, "Notes.Watch", allChanges, []int64{id}, params, opts)
}

// What a wait yields.
const (
	onlyFinal  = false
	allChanges = true
)

// wait iterates over the notes until the wait for each has ended. It yields each note then, with an error unless the
// note has reached params.Until. If yieldsChanges is set, it also yields earlier changes. Duplicate IDs count once.
func (s *NotesService) wait(
	ctx context.Context, name string, yieldsChanges bool, ids []int64, params WaitParams, opts []CallOption,
) iter.Seq2[*ProgressNote, error] {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	run := func(ctx context.Context, call *scope, yield yieldFunc[ProgressNote]) error {
		return (&waiter{call: call, params: params, yield: yield, yieldsChanges: yieldsChanges}).run(ctx, ids)
	}
	return ranged(ctx, s.client, name, opts, run)
}

// waiter is one Wait, Watch or WaitAll. It makes the requests and schedules them.
type waiter struct {
	call           *scope
	params         WaitParams
	schedule       poll.Schedule
	opts           []CallOption // of each request, which is sent once: the next poll is the retry
	latestResponse *Response    // of the latest request
	lastReadSent   time.Time    // when the latest read of a note was sent

	yield         yieldFunc[ProgressNote]
	yieldsChanges bool // each change is yielded, not only the note at its end
	stopped       bool // no more requests, and nothing more is yielded
	pending       []*awaited
	ticks         int
	reads         int  // of single notes
	shuffleNext   bool // read in random order, because no read of the previous tick succeeded

	listFailures  int  // in a row; at maxListFailures the list is no longer requested
	listShowsEnds bool // a row of the list has shown the end of a note
	notesFirst    bool // the list used the last request that the service allows, so the next one is for a note
}

// run waits until every note has ended.
func (s *waiter) run(ctx context.Context, ids []int64) (err error) {
	for _, id := range ids {
		if err := checkID(s.call.name, id); err != nil {
			return err
		}
		s.pending = append(s.pending, &awaited{id: id})
	}
	s.params, err = s.params.check(s.call.name)
	if err != nil {
		return err
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, poll.MaxWait)
		defer cancel()
	}
	s.params.OnUpdate = s.call.auditedUpdate(ctx, s.params.OnUpdate)
	s.schedule = poll.Schedule{Interval: s.params.Interval, MaxInterval: s.params.MaxInterval, Began: time.Now()}
	s.latestResponse = cmp.Or(s.call.options.response, new(Response))
	s.opts = []CallOption{s.call.options.inherited(), WithResponse(s.latestResponse), sendOnce}
	for s.tick(ctx); s.continues(); s.tick(ctx) {
		if err := s.schedule.Sleep(ctx); err != nil {
			s.endAll(withCause(ctx, err))
			break
		}
	}
	return nil
}

// continues reports whether there is something left to wait for.
func (s *waiter) continues() bool {
	if s.stopped || s.call.auditFailed() {
		return false
	}
	return len(s.pending) > 0
}

// withCause adds the cause of a context to its error.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return &callError{op: getNote, detail: redact.Cause(err), causes: []error{err, cause}}
}

// honorLimits makes the next pause as long as the service requests: by Retry-After, or until an exhausted limit is
// reset.
func (s *waiter) honorLimits() {
	now := time.Now()
	header := s.latestResponse.Header
	s.schedule.Respect(exchange.RetryAfter(header, now))
	exhausted := rateLimitRemaining(header) == 0
	if reset := s.latestResponse.RateLimit.Reset; exhausted && !reset.IsZero() {
		s.schedule.Respect(untilReset(reset, exchange.ServerTime(header, now), now))
	}
}

// untilReset returns how long it takes until a limit is reset, by the service's clock or by ours, whichever is sooner.
// Behind a cache, the service's clock may stand still, so the reset would never come. If the reset has passed by our
// clock, our clock is wrong.
func untilReset(reset, serviceTime, now time.Time) time.Duration {
	byService := reset.Sub(serviceTime)
	byOurs := reset.Sub(now)
	if byOurs <= 0 {
		return byService
	}
	return min(byService, byOurs)
}

// mayPass reports whether a read that failed may succeed later. That is so where the retries within a call would repeat
// it. A redirect, or a response that is not a note, may come from a proxy that wants people to log in.
func mayPass(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.isRedirect() || exchange.Reads.MayRetry(exchange.Outcome{Status: refused.StatusCode})
	}
	lasting := []error{ErrInvalidArgument, ErrPatientMismatch, errOtherPage, exchange.ErrTooLong, errTooMany}
	return !slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(err, target) })
}

// awaited is one note of a wait.
type awaited struct {
	id        int64
	note      *ProgressNote // as last seen; nil before. The caller has it too, and may change it
	stage     Stage         // of the note when it was seen
	updatedAt time.Time     // of the note when it was seen
	polls     int
	failures  int   // in a row
	failure   error // the latest of them

	state        awaitedState
	polledInTick int // number of the tick that last polled it, by the list or separately
	lastRead     int // number of its latest read, among the reads of all notes; 0 before; or readNext

	readSeparately bool  // the list does not show it, or shows it wrongly
	rowStage       Stage // of its latest row; 0 before
	rowUpdatedAt   time.Time
}

// readNext as the number of a note's latest read gives it precedence over the others, which have positive numbers or 0.
const readNext = -1

// awaitedState is how far the wait for a note is.
type awaitedState int

const (
	unseen      awaitedState = iota // nothing is known of it yet: it is read immediately
	waiting                         // it is searched in the list, or read in turn
	endedByList                     // a row has shown its end: it is read immediately
	yielded                         // with its last state: nothing is left to do
)

// pollSucceeded records that a poll, by the list or by a read, has found the note.
func (w *awaited) pollSucceeded(tick int) {
	w.state = waiting
	w.polledInTick = tick
	w.failures = 0
	w.failure = nil
	w.polls++
}

// recordSeen records the note that a poll returned, and calls onUpdate if the note has changed. It reports whether it
// has.
func (w *awaited) recordSeen(note *ProgressNote, onUpdate func(*ProgressNote)) (changed bool) {
	changed = w.differs(note)
	w.note = note
	w.stage = note.Stage()
	w.updatedAt = note.UpdatedAt
	if changed && onUpdate != nil {
		onUpdate(note)
	}
	return changed
}

// differs reports whether the note has another stage or updated_at than when it was last seen. Rows of a list may lack
// updated_at.
func (w *awaited) differs(note *ProgressNote) bool {
	switch {
	case w.note == nil, w.stage != note.Stage():
		return true
	case w.updatedAt.IsZero():
		return false
	}
	return !w.updatedAt.Equal(note.UpdatedAt)
}

var errErrorState = redact.Fail("the service reports an error state for it; see Note.ErrorState", ErrProcessingFailed)

const (
	maxReplicaLag   = 10 * time.Second // a replica may lack a new note for this long
	maxListPages    = 10               // per tick
	maxListFailures = 3                // in a row, until the list is no longer requested
	maxReadFailures = 3                // in a row, until a tick ends
	minReads        = 20               // per tick
	readsPerSecond  = 10               // of the pause before the tick, if that allows more
)

// WaitAll waits for many notes and yields each once, when it ends. A note that reaches params.Until is yielded as
// Get returns it. Any other note is yielded with its [*WaitError], as last seen, which may be a row of the list
// (nil if no poll succeeded). The wait for the others continues. If the context ends, or the service responds with
// 401, all remaining notes are yielded with that error. Duplicate IDs count once.
//
// WaitAll polls many notes with one list request where it can; docs/waiting.md describes the schedule. MaxFailures
// applies to each note. WaitAll polls only during the iteration, can be iterated again, and keeps nothing that it has
// yielded. If an ID is below 1 or the params are invalid, it yields an error matching [ErrInvalidArgument] with a nil
// note, and makes no request.
func (s *NotesService) WaitAll(
	ctx context.Context, ids []int64, params WaitParams, opts ...CallOption,
) iter.Seq2[*ProgressNote, error] {
	return s.wait(ctx, "Notes.WaitAll", onlyFinal, ids, params, opts)
}

// isDue reports whether the note has to be read in this tick: for the first time, or for the last.
func (w *awaited) isDue() bool { return w.state == unseen || w.state == endedByList }

// isOver reports whether a note in this stage ends its wait.
func (s *waiter) isOver(stage Stage) bool {
	return stage == StageFailed || stage.AtLeast(s.params.Until)
}

// tick polls every pending note that the limits allow: first by the list, then separately. If the list used up what the
// service allows, the next call of tick skips the list and continues with the notes.
func (s *waiter) tick(ctx context.Context) {
	listed := false
	if !s.notesFirst {
		s.ticks++
		listed = s.readList(ctx)
	}
	failuresBefore := s.listFailures
	s.notesFirst = listed && s.schedule.PauseRequested()
	succeeded := s.readNotes(ctx)
	listIsWrong := s.listFailures != failuresBefore // a read has called abandonList
	if listIsWrong {
		more := s.readNotes(ctx) // also those that were seen only in the list
		succeeded = succeeded || more
	}
	s.schedule.Failures++
	if listed || succeeded {
		s.schedule.Failures = 0
	}
	s.pending = slices.DeleteFunc(s.pending, func(w *awaited) bool { return w.state == yielded })
	if s.schedule.PauseRequested() && slices.ContainsFunc(s.pending, (*awaited).isDue) {
		s.schedule.Began = time.Now() // the pauses do not grow while the service's limit holds up these reads
	}
}

// readList polls by listing the newest notes, and reports whether it received a page. It continues while it has read
// fewer pages than there are notes to find, up to maxListPages. Notes that it does not find are read separately from
// then on.
func (s *waiter) readList(ctx context.Context) (succeeded bool) {
	expected := s.expectedRows()
	if !s.mayList(len(expected)) {
		return false
	}
	pages := 0
	latest := s.call.client.Notes.list(ListNotesParams{Sort: SortLatest, PerPage: maxPerPage})
	newest := list.List[fetchedPage[ProgressNote]]{
		Fetch: pageSource[ProgressNote]{list: latest, opts: s.opts}.fetch, Rule: list.AsGiven,
	}
	for visit, err := range list.Through(ctx, newest) {
		s.honorLimits()
		if err != nil {
			s.listFailed(err, expected)
			return succeeded
		}
		pages++
		succeeded = true
		s.listFailures = 0
		s.seeRows(visit.Value.Items, expected)
		if s.schedule.PauseRequested() {
			return true
		}
		// Reading the rest separately costs no more requests than the list did.
		enoughPages := pages >= len(expected)
		if enoughPages || pages == maxListPages {
			break
		}
	}
	for _, w := range expected { // those that were not found
		w.readSeparately = true
	}
	return true
}

// expectedRows returns the pending notes to look for in the list, by ID: all except those that are read separately, and
// those whose row has shown their end, which are read next.
func (s *waiter) expectedRows() map[int64]*awaited {
	expected := map[int64]*awaited{}
	for _, w := range s.pending {
		if !w.readSeparately && w.state != endedByList {
			expected[w.id] = w
		}
	}
	return expected
}

// mayList reports whether a list that may show this many notes saves requests.
func (s *waiter) mayList(expected int) bool {
	saved := expected
	if !s.listShowsEnds {
		saved-- // one of the listed notes is also read
	}
	return saved >= 2 && s.listFailures < maxListFailures
}

// seeRows records the rows of a page, and removes them from expected. A note whose row shows its end is not taken from
// the list: it is marked as ended, so that it is read.
func (s *waiter) seeRows(rows []ProgressNote, expected map[int64]*awaited) {
	for i := range rows {
		w := expected[rows[i].ID]
		if w == nil {
			continue
		}
		delete(expected, w.id)
		row := rows[i] // a copy, so the note does not keep its page in memory
		w.rowStage = row.Stage()
		w.rowUpdatedAt = row.UpdatedAt
		if s.isOver(w.rowStage) {
			w.state = endedByList
			s.listShowsEnds = true
			continue
		}
		w.pollSucceeded(s.ticks)
		if w.note != nil {
			isNewer := row.UpdatedAt.After(w.updatedAt) || !w.stage.AtLeast(w.rowStage)
			if !isNewer {
				continue // the note that was read has more than its row
			}
			w.lastRead = readNext // it has changed, so it is read soon
		}
		w.recordSeen(&row, s.params.OnUpdate)
	}
}

// listFailed records a failed list. If the service is in trouble, single reads would not help, so the poll of every
// expected note has failed. If only the list is, the notes are read separately.
func (s *waiter) listFailed(err error, expected map[int64]*awaited) {
	if errors.Is(err, ErrUnauthorized) {
		s.endAll(err)
	}
	if !errors.Is(err, ErrRateLimited) {
		s.listFailures++
	}
	onlyList := !mayPass(err) || errors.Is(err, ErrUnexpectedResponse)
	if onlyList {
		return
	}
	for _, w := range s.pending {
		if expected[w.id] != nil {
			s.pollFailed(w, err)
		}
	}
}

// readNotes reads notes one by one, and reports whether the service responded to one. It stops if the service requests
// a pause, or after several failures in a row, because the service seems to be in trouble. If it could not read a
// single note, that counts as a failure of all.
func (s *waiter) readNotes(ctx context.Context) (succeeded bool) {
	failures := 0 // in a row
	for _, w := range s.toRead(ctx) {
		if s.stopped || s.schedule.PauseRequested() {
			return succeeded
		}
		if poll.Expired(ctx) != nil {
			return succeeded
		}
		err := s.readNote(ctx, w)
		if err == nil || !mayPass(err) { // an error that cannot pass does not show that the service is in trouble
			succeeded = true
			failures = 0
			continue
		}
		failures++
		if failures < maxReadFailures && !errors.Is(err, ErrRateLimited) {
			continue
		}
		if !succeeded {
			s.allPollsFailed(err)
		}
		s.shuffleNext = !succeeded
		return succeeded
	}
	return succeeded
}

// allPollsFailed records a failed poll of every note that this tick has not polled.
func (s *waiter) allPollsFailed(err error) {
	for _, w := range s.pending {
		if w.state != yielded && w.polledInTick < s.ticks {
			s.pollFailed(w, err)
		}
	}
}

// toRead returns the notes to read in this tick: all that are due, then as many of the others as the pause before
// allows, and then perhaps one that the list has just shown (see probe). Of the others, those that waited longest come
// first.
func (s *waiter) toRead(ctx context.Context) []*awaited {
	var due, others, listed []*awaited
	for _, w := range s.pending {
		switch {
		case w.state == yielded:
		case w.polledInTick == s.ticks:
			listed = append(listed, w)
		case w.isDue():
			due = append(due, w)
		default:
			others = append(others, w)
		}
	}
	slices.SortStableFunc(others, byLatestRead)
	allowed := max(minReads, int(readsPerSecond*s.schedule.LastPause.Seconds()))
	notes := slices.Concat(due, others[:min(len(others), allowed)], s.probe(listed))
	if s.shuffleNext { // the few notes that could not be read must not always come first
		shuffle(ctx, notes)
	}
	s.shuffleNext = false
	return notes
}

// byLatestRead orders notes by their latest read: first those that are to be read next, then those that were never
// read.
func byLatestRead(a, b *awaited) int { return cmp.Compare(a.lastRead, b.lastRead) }

// shuffle puts the notes into a random order.
func shuffle(ctx context.Context, notes []*awaited) {
	for i := range notes {
		j := int(exchange.Jitter(ctx) * float64(i+1))
		notes[i], notes[j] = notes[j], notes[i]
	}
}

// probe returns one of the listed notes, to be read anyway, until a row has shown an end. The read shows whether rows
// are useful: those without flags and times would always look like notes in an early stage.
func (s *waiter) probe(listed []*awaited) []*awaited {
	if s.listShowsEnds {
		return nil
	}
	listed = slices.DeleteFunc(listed, func(w *awaited) bool {
		return w.readSeparately || w.rowStage == 0 || w.failure != nil
	})
	if len(listed) == 0 {
		return nil
	}
	return []*awaited{slices.MinFunc(listed, byLatestRead)}
}

// readNote reads one note. It yields the note if its wait has ended, or if it has changed and the wait yields changes.
// A failed read may end the wait too. readNote also checks by the note whether the list can be relied on.
func (s *waiter) readNote(ctx context.Context, w *awaited) error {
	endedByRow := w.state == endedByList
	isListed := w.polledInTick == s.ticks // in this tick
	note, err := s.get(ctx, w)
	if err != nil {
		s.pollFailed(w, err)
		if errors.Is(err, ErrUnauthorized) {
			s.endAll(err)
		}
		return err
	}
	w.pollSucceeded(s.ticks)
	changed := w.recordSeen(note, s.params.OnUpdate)
	stage := w.stage
	over := s.isOver(stage)
	if endedByRow && !over {
		w.readSeparately = true // the list shows this note wrongly
	}
	if isListed && s.hidesStage(w) {
		s.abandonList()
	}
	switch {
	case stage == StageFailed:
		s.end(w, errErrorState)
	case over:
		s.end(w, nil)
	case changed && s.yieldsChanges:
		s.stopped = !s.yield(note, nil)
	}
	return nil
}

// get sends the request for one note. A 429 does not count as a read: the note keeps its turn.
func (s *waiter) get(ctx context.Context, w *awaited) (*ProgressNote, error) {
	s.lastReadSent = time.Now()
	note, err := s.call.client.Notes.Get(ctx, w.id, s.opts...)
	s.honorLimits()
	if errors.Is(err, ErrRateLimited) {
		return nil, err
	}
	s.reads++
	w.lastRead = s.reads
	if w.state == unseen {
		w.state = waiting
	}
	return note, err
}

// hidesStage reports whether the note's row is of the version that was read, but does not show its stage.
func (s *waiter) hidesStage(w *awaited) bool {
	sameVersion := w.rowUpdatedAt.IsZero() || w.rowUpdatedAt.Equal(w.updatedAt)
	if !sameVersion || w.rowStage == w.stage {
		return false
	}
	return w.rowStage == StageUploaded || s.isOver(w.stage)
}

// abandonList stops listing. Notes that were seen only in the list count as never polled.
func (s *waiter) abandonList() {
	s.listFailures = maxListFailures
	for _, w := range s.pending {
		if w.state == waiting && w.lastRead == 0 { // never read
			w.state = unseen
			w.polledInTick = 0
		}
	}
}

// pollFailed records a failed poll of the note, and ends the wait for the note if no later poll can succeed. A 404 does
// not count if this client has just created the note, because a replica may not have it yet.
func (s *waiter) pollFailed(w *awaited, err error) {
	w.polledInTick = s.ticks
	w.failure = err
	w.polls++
	created, isOwn := s.call.client.creates.ReturnedAt(w.id)
	replicaLags := isOwn && errors.Is(err, ErrNotFound) && s.lastReadSent.Sub(created) < maxReplicaLag
	if replicaLags {
		return
	}
	w.failures++
	exists := isOwn || w.note != nil
	switch {
	case !mayPass(err), w.failures > s.params.MaxFailures:
		s.end(w, err)
	case !exists && isMisconfigured(err): // nothing shows that the configuration has ever worked
		s.end(w, err)
	}
}

// isMisconfigured reports whether requests may fail because of the base URL or the client's configuration.
func isMisconfigured(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok && refused.isRedirect() {
		return true
	}
	return exchange.Permanent(err)
}

// end yields the note for the last time, with an error if there is a cause, and releases it. If the latest poll failed
// for another reason, the error contains both.
func (s *waiter) end(w *awaited, cause error) {
	sameFailure := errors.Is(w.failure, cause) || errors.Is(cause, w.failure)
	if w.failure != nil && !sameFailure {
		detail := redact.Cause(cause) + "; the latest poll failed: " + redact.Cause(w.failure)
		cause = &callError{op: getNote, detail: detail, causes: []error{cause, w.failure}}
	}
	note := w.note
	w.state = yielded
	w.note = nil
	w.failure = nil
	switch {
	case s.stopped:
	case cause == nil:
		s.stopped = !s.yield(note, nil)
	default:
		_ = s.call.keepFirst(cause) // without the WaitError, which holds its note
		elapsed := time.Since(s.call.started)
		s.stopped = !s.yield(note, &WaitError{ID: w.id, Note: note, Polls: w.polls, Elapsed: elapsed, Err: cause})
	}
}

// endAll ends the wait for all remaining notes.
func (s *waiter) endAll(cause error) {
	for _, w := range s.pending {
		if w.state != yielded {
			s.end(w, cause)
		}
	}
	s.stopped = true
}
