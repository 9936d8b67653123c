package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

// WaitParams says what to wait for and how often to look. The zero value waits for [StageComplete] with the defaults.
type WaitParams struct {
	// Until is the stage to wait for, or any stage beyond it; zero: StageComplete. StageFailed cannot be waited for.
	Until Stage
	// Interval is the shortest pause between two polls, at least 50 ms; zero: 2 seconds, or MaxInterval if that is shorter.
	// Pauses grow by a tenth of the time waited so far, and up to a fifth of each is random.
	Interval time.Duration
	// MaxInterval is the longest pause, at least 50 ms, unless the service asks for more; zero: 1 minute, or Interval if
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

const (
	defaultInterval    = 2 * time.Second
	defaultMaxInterval = time.Minute
	defaultMaxFailures = 10
)

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
	p.MaxInterval = cmp.Or(p.MaxInterval, max(defaultMaxInterval, p.Interval))
	p.Interval = cmp.Or(p.Interval, min(defaultInterval, p.MaxInterval))
	p.MaxFailures = cmp.Or(p.MaxFailures, defaultMaxFailures)
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

// SafeText is the error's text; see [Error.SafeText].
func (e *WaitError) SafeText() string { return e.Error() }

// Unwrap makes [errors.Is] and [errors.As] see what Err matches.
func (e *WaitError) Unwrap() error { return redact.Opaque(e.Err) }

// LogValue lists what may be logged of the error.
func (e WaitError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("id", e.ID),
		slog.String("stage", e.stage()),
		slog.Int("polls", e.Polls),
		slog.Duration("elapsed", e.Elapsed),
		slog.String("error", e.Error()),
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
// It polls at once and then in pauses that grow with the time waited, see [WaitParams]; each poll is one request,
// without the client's retries. A Retry-After and an exhausted rate limit are respected up to an hour. Failures that may
// pass are survived up to MaxFailures in a row: no response, 408, 425, 429, most 5xx, a response that is no note, and a
// redirect once the note was seen or this client made it. Any other response, such as 401, 403 and 404, ends the wait; only
// a 404 within 10 seconds of this client's Create of the note is survived too: what serves reads may lag behind. A context
// without a deadline ends it after 24 hours, which cost about 1,600 polls with the defaults, and never more than 1,850.
//
// Errors: [*WaitError], with the note as last seen; [ErrInvalidArgument] for an id below 1 or senseless params.
func (s *NotesService) Wait(ctx context.Context, id int64, params WaitParams, opts ...CallOption) (*ProgressNote, error) {
	var last *ProgressNote
	for note, err := range s.watch(ctx, "Notes.Wait", id, params, opts) {
		if err != nil {
			return nil, err
		}
		last = note
	}
	return last, nil
}

// Watch ranges over a note's changes: it yields the note as first seen and whenever its stage or updated_at has changed,
// and ends when the note has come to params.Until. It polls as Wait does, only while it is ranged over, and can be ranged
// over again.
//
// An error ends it. It is yielded once, together with the note as last seen (nil if it never was); see Wait for the errors.
func (s *NotesService) Watch(ctx context.Context, id int64, params WaitParams, opts ...CallOption) iter.Seq2[*ProgressNote, error] {
	return s.watch(ctx, "Notes.Watch", id, params, opts)
}

func (s *NotesService) watch(ctx context.Context, name string, id int64, params WaitParams, opts []CallOption) iter.Seq2[*ProgressNote, error] {
	return func(yield func(*ProgressNote, error) bool) {
		p, err := s.newPoller(name, params, opts)
		if err == nil && id < 1 {
			err = invalid(name+": id", "%d is not a valid id; ids start at 1", id)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, hooked := s.client.startCall(ctx, name) // of this range
		defer hooked.end(ctx, nil)
		p.hooked = hooked
		ctx, cancel := poll.WithMaxWait(ctx)
		defer cancel()
		w := &watched{id: id}
		for {
			note, err := p.get(ctx, id)
			if err == nil {
				changed := w.see(p, note)
				over, failed := w.verdict(p)
				if (changed || failed != nil) && !yield(note, p.hooked.noted(failed)) || over {
					return
				}
			} else if w.miss(p, err) {
				yield(w.note, p.hooked.noted(w.waitError(p, err)))
				return
			}
			p.schedule.SetFailures(w.failures)
			if err := p.sleep(ctx); err != nil {
				yield(w.note, p.hooked.noted(w.waitError(p, err)))
				return
			}
		}
	}
}

// poller is how Wait, Watch and WaitAll ask, and when.
type poller struct {
	service  *NotesService
	params   WaitParams
	started  time.Time
	schedule *poll.Schedule
	hooked   *hookedCall

	opts   []CallOption // the caller's, but each request is sent once: polling is the retry
	caller *Response    // to be filled for the caller; nil: not wanted
	latest Response     // of the latest request
	asked  time.Time    // when that was sent
}

func (s *NotesService) newPoller(name string, params WaitParams, opts []CallOption) (*poller, error) {
	params, err := params.check(name)
	if err != nil {
		return nil, err
	}
	caller, err := newCallOptions(opts)
	if err != nil {
		return nil, err
	}
	p := &poller{service: s, params: params, started: time.Now(), schedule: poll.NewSchedule(params.Interval, params.MaxInterval), caller: caller.response}
	p.opts = append(slices.Clip(opts), WithResponse(&p.latest), WithoutRetry())
	return p, nil
}

func (p *poller) get(ctx context.Context, id int64) (*ProgressNote, error) {
	return ask(p, func(opts []CallOption) (*ProgressNote, error) { return p.service.Get(ctx, id, opts...) })
}

// ask makes one request and heeds what its response says of the next one.
func ask[T any](p *poller, call func(opts []CallOption) (*T, error)) (*T, error) {
	p.latest, p.asked = Response{}, time.Now()
	value, err := call(p.opts)
	if p.caller != nil && p.latest.Attempts > 0 {
		*p.caller = p.latest
	}
	p.schedule.Heed(p.latest.askedPause(time.Now()))
	return value, err
}

// askedPause is how long the service asks callers to wait: as Retry-After says, or until a used-up limit is reset.
func (r *Response) askedPause(now time.Time) time.Duration {
	pause := retry.After(r.Header.Get("Retry-After"), now)
	remaining, err := strconv.Atoi(r.Header.Get("X-RateLimit-Remaining"))
	if err == nil && remaining <= 0 && !r.RateLimit.Reset.IsZero() {
		pause = max(pause, r.RateLimit.Reset.Sub(serverTime(r.Header, now)))
	}
	return pause
}

// sleep waits for the time of the next poll. When the context has ended, the error holds the cause given to its cancellation.
func (p *poller) sleep(ctx context.Context) error {
	err := p.schedule.Sleep(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return &callError{op: getNote, detail: redact.Cause(err), causes: []error{err, cause}}
	}
	return err
}

// transient reports whether a request's failure may pass by itself. A redirect, or a response that is no note, may be a
// proxy's that asks people to log in.
func transient(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return redirected(err) || retry.Reads.MayRetry(retry.Outcome{Status: refused.StatusCode})
	}
	return !errors.Is(err, ErrInvalidArgument)
}

// redirected reports whether all that came was a redirect.
func redirected(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.StatusCode < http.StatusBadRequest
}

// watched is one note that is waited for.
type watched struct {
	id       int64
	note     *ProgressNote // as last seen; nil before
	polls    int
	failures int   // in a row
	failure  error // the latest of them
}

// see takes in the note as a poll gave it and calls OnUpdate if it has changed.
func (w *watched) see(p *poller, note *ProgressNote) (changed bool) {
	changed = w.note == nil || w.note.Stage() != note.Stage() ||
		!w.note.UpdatedAt.IsZero() && !w.note.UpdatedAt.Equal(note.UpdatedAt) // rows of a list may not tell it
	w.note = note
	w.found()
	if changed && p.params.OnUpdate != nil {
		p.params.OnUpdate(note)
	}
	return changed
}

// found counts a poll that did not fail.
func (w *watched) found() {
	w.polls++
	w.failures, w.failure = 0, nil
}

// miss takes in a failed poll and reports whether that ends the wait.
func (w *watched) miss(p *poller, err error) (over bool) {
	w.polls++
	w.failure = err
	if p.service.client.mayLag(w.id, p.asked, err) {
		return false
	}
	w.failures++
	misconfigured := w.note == nil && !p.service.client.created.Has(w.id) && (retry.Permanent(err) || redirected(err))
	return !transient(err) || misconfigured || w.failures > p.params.MaxFailures
}

// maxReplicaLag is for how long after its creation a note may not be found yet.
const maxReplicaLag = 10 * time.Second

// mayLag reports whether a note was not found only because this client has just created it.
func (c *Client) mayLag(id int64, asked time.Time, err error) bool {
	created, ok := c.created.Time(id)
	return ok && errors.Is(err, ErrNotFound) && asked.Sub(created) < maxReplicaLag
}

const errErrorState = safeError("the service reports an error state for it; see Note.ErrorState")

// verdict tells whether the note has come to its end, and if that is a failure, the error.
func (w *watched) verdict(p *poller) (over bool, err error) {
	stage := w.note.Stage()
	if stage == StageFailed {
		return true, w.waitError(p, sentinelError{errErrorState, ErrProcessingFailed})
	}
	return stage.AtLeast(p.params.Until), nil
}

// waitError makes the error that ends the wait. When the context ends it while polls fail, both are in it.
func (w *watched) waitError(p *poller, cause error) error {
	if w.failure != nil && !errors.Is(w.failure, cause) && !errors.Is(cause, w.failure) {
		cause = &callError{
			op:     getNote,
			detail: redact.Cause(cause) + "; the latest poll failed: " + redact.Cause(w.failure),
			causes: []error{cause, w.failure},
		}
	}
	return &WaitError{ID: w.id, Note: w.note, Polls: w.polls, Elapsed: time.Since(p.started), Err: cause}
}

// rowMisses reports whether the note's row does not tell what the note does, although it shows the same version.
func (w *awaited) rowMisses(note *ProgressNote, over bool) bool {
	sameVersion := w.rowUpdated.IsZero() || w.rowUpdated.Equal(note.UpdatedAt)
	return sameVersion && w.rowStage != note.Stage() && (over || w.rowStage == StageUploaded)
}
