package clinicaldoc

import (
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

// Stage is how far the service has come with a note. Its values are ordered; the zero value means "not set".
type Stage int

// The stages of a note's life, in order. A failed note stays failed whatever else it carries.
const (
	StageUploaded     Stage = iota + 1 // nothing has begun yet
	StageTranscribing                  // transcription has begun
	StageTranscribed                   // transcription is complete
	StageAnalysing                     // analysis has begun
	StageComplete                      // transcription and analysis are complete; ready to be edited and signed
	StageSigned                        // reviewed and signed
	StageFailed                        // the service reports an error state
)

var stageNames = [...]string{"unset", "uploaded", "transcribing", "transcribed", "analysing", "complete", "signed", "failed"}

// String returns the stage's name in lower case.
func (s Stage) String() string {
	if s < 0 || int(s) >= len(stageNames) {
		return "Stage(" + strconv.Itoa(int(s)) + ")"
	}
	return stageNames[s]
}

// AtLeast reports whether a note in stage s has come as far as t. A failed one has come nowhere but to its failure.
func (s Stage) AtLeast(t Stage) bool {
	return s >= t && (s != StageFailed || t == StageFailed)
}

// Stage derives the note's stage from its flags, timestamps and error state: failed beats signed beats complete, and
// what has started but not completed is the running stage.
func (n ProgressNote) Stage() Stage {
	transcribed := n.Has.Transcription || !n.TranscriptionCompletedAt.IsZero()
	analysed := n.Has.Content || !n.AnalysisCompletedAt.IsZero()
	switch {
	case n.ErrorState != nil && *n.ErrorState != "":
		return StageFailed
	case n.Has.Signed:
		return StageSigned
	case transcribed && analysed:
		return StageComplete
	case transcribed && !n.AnalysisStartedAt.IsZero():
		return StageAnalysing
	case transcribed:
		return StageTranscribed
	case !n.TranscriptionStartedAt.IsZero(), analysed, !n.AnalysisStartedAt.IsZero():
		return StageTranscribing
	}
	return StageUploaded
}

// WaitParams says what to wait for and how often to look. The zero value waits for [StageComplete] with the defaults.
type WaitParams struct {
	// Until is the stage to wait for, or any stage beyond it; zero: StageComplete. StageFailed cannot be waited for.
	Until Stage
	// Interval is the shortest pause between two polls; zero: 2 seconds, or MaxInterval if that is shorter. Pauses grow
	// by a tenth of the time waited so far, and up to a fifth of each is random.
	Interval time.Duration
	// MaxInterval is the longest pause, unless the service asks for more; zero: 1 minute, or Interval if that is longer.
	MaxInterval time.Duration
	// MaxFailures is how many failed polls in a row are survived; zero: 10, which bridges an outage of at least 3 minutes
	// with the default intervals.
	MaxFailures int
	// OnUpdate, when set, is called with the note at the first poll and whenever its stage or updated_at has changed, in
	// the goroutine of the wait and before the note is returned or yielded.
	OnUpdate func(*ProgressNote)
}

const (
	defaultInterval    = 2 * time.Second
	defaultMaxInterval = time.Minute
	defaultMaxFailures = 10
)

// check refuses params that make no sense and fills in the defaults.
func (p WaitParams) check(name string) (WaitParams, error) {
	switch {
	case p.Until < 0 || p.Until >= StageFailed:
		return p, invalid(name+": Until", "is not a stage to wait for")
	case p.Interval < 0 || p.Interval > poll.MaxWait:
		return p, invalid(name+": Interval", "is outside 0 to %s", poll.MaxWait)
	case p.MaxInterval < 0 || p.MaxInterval > poll.MaxWait:
		return p, invalid(name+": MaxInterval", "is outside 0 to %s", poll.MaxWait)
	case p.MaxInterval > 0 && p.Interval > p.MaxInterval:
		return p, invalid(name+": Interval", "must not exceed MaxInterval")
	case p.MaxFailures < 0:
		return p, invalid(name+": MaxFailures", "must not be negative")
	}
	if p.Until == 0 {
		p.Until = StageComplete
	}
	if p.MaxInterval == 0 {
		p.MaxInterval = max(defaultMaxInterval, p.Interval)
	}
	if p.Interval == 0 {
		p.Interval = min(defaultInterval, p.MaxInterval)
	}
	if p.MaxFailures == 0 {
		p.MaxFailures = defaultMaxFailures
	}
	return p, nil
}

// WaitError tells why a wait ended before its aim, and how far the note had come: enough to wait on later, in another
// process, by ID. It matches what Err matches: [ErrProcessingFailed] when the service reports an error state,
// [context.DeadlineExceeded], [context.Canceled], [ErrNotFound] and so on. Its text does not repeat the error state.
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

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

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
// pass (no answer, 408, 425, 429, most 5xx, an answer that is no note) are survived up to MaxFailures in a row; any other
// answer, such as 401, 403 and 404, ends the wait. A context without a deadline ends it after 24 hours, which cost at most
// 1,900 polls with the defaults.
//
// Errors: [*WaitError], with the note as last seen; [ErrInvalidArgument] for an id below 1 or senseless params.
func (s *NotesService) Wait(ctx context.Context, id int64, params WaitParams, opts ...CallOption) (*ProgressNote, error) {
	var last *ProgressNote
	for note, err := range s.Watch(ctx, id, params, opts...) {
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
	return func(yield func(*ProgressNote, error) bool) {
		p, err := newPolling("Notes.Watch", params, opts)
		if err == nil && id < 1 {
			err = invalid("Notes.Watch: id", "%d is not a valid id; ids start at 1", id)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := poll.Limited(ctx)
		defer cancel()
		w := &watched{id: id}
		for {
			note, err := ask(p, func(opts []CallOption) (*ProgressNote, error) { return s.Get(ctx, id, opts...) })
			if err == nil {
				changed := w.see(p, note)
				over, failed := w.verdict(p)
				if (changed || failed != nil) && !yield(note, failed) || over {
					return
				}
			} else if w.miss(p, err) {
				yield(w.note, w.end(p, err))
				return
			}
			p.Failures = w.failures
			if err := p.Sleep(ctx); err != nil {
				yield(w.note, w.end(p, err))
				return
			}
		}
	}
}

// polling is how Wait, Watch and WaitAll ask, and when.
type polling struct {
	*poll.Schedule

	params WaitParams
	opts   []CallOption // the caller's, but each request is sent once: the schedule does the repeating
	caller *Response    // to be filled for the caller; nil: not wanted
	latest Response     // of the latest request
}

func newPolling(name string, params WaitParams, opts []CallOption) (*polling, error) {
	params, err := params.check(name)
	if err != nil {
		return nil, err
	}
	var caller callOptions
	for _, opt := range opts {
		if err := opt(&caller); err != nil {
			return nil, err
		}
	}
	p := &polling{params: params, caller: caller.response}
	p.Schedule = &poll.Schedule{Interval: params.Interval, MaxInterval: params.MaxInterval, Started: time.Now()}
	p.opts = append(slices.Clip(opts), WithResponse(&p.latest), WithoutRetry())
	return p, nil
}

// ask makes one request and heeds what its answer says of the next one.
func ask[T any](p *polling, call func(opts []CallOption) (*T, error)) (*T, error) {
	p.latest = Response{}
	value, err := call(p.opts)
	if p.caller != nil && p.latest.Attempts > 0 {
		*p.caller = p.latest
	}
	p.Asked = max(p.Asked, askedPause(p.latest.Header, p.latest.RateLimit))
	return value, err
}

// askedPause is how long the service wants to be left alone: as Retry-After says, or until a used-up limit is reset.
func askedPause(h http.Header, limit RateLimit) time.Duration {
	now := time.Now()
	pause := retry.After(h.Get("Retry-After"), now)
	if h.Get("X-RateLimit-Remaining") != "" && limit.Remaining <= 0 && !limit.Reset.IsZero() {
		pause = max(pause, limit.Reset.Sub(now.Add(clockDifference(h))))
	}
	return min(pause, poll.MaxAskedPause)
}

// passing reports whether a request's failure may pass by itself. An answer that is no note may be a proxy's page.
func passing(err error) bool {
	if answered, ok := errors.AsType[*Error](err); ok {
		return retry.Reads.MayRepeat(retry.Outcome{Status: answered.StatusCode})
	}
	return !errors.Is(err, ErrInvalidArgument)
}

// watched is one note that is waited for.
type watched struct {
	id       int64
	note     *ProgressNote // as last seen; nil before
	polls    int
	failures int   // in a row
	failure  error // the latest of them

	page     int // of the list that showed it last; 0 before it was looked for, unlisted when the list does not show it
	lastRead int // number of the tick that read it singly
}

// see takes in the note as a poll gave it and tells the caller of a change.
func (w *watched) see(p *polling, note *ProgressNote) (changed bool) {
	changed = w.note == nil || w.note.Stage() != note.Stage() || !w.note.UpdatedAt.Equal(note.UpdatedAt)
	w.note, w.failures, w.failure = note, 0, nil
	w.polls++
	if changed && p.params.OnUpdate != nil {
		p.params.OnUpdate(note)
	}
	return changed
}

// miss takes in a failed poll and reports whether that ends the wait.
func (w *watched) miss(p *polling, err error) (over bool) {
	w.polls++
	w.failures++
	w.failure = err
	misconfigured := w.note == nil && retry.Permanent(err)
	return !passing(err) || misconfigured || w.failures > p.params.MaxFailures
}

const errErrorState = safeError("the service reports an error state for it")

// verdict tells whether the note has come to its end, and if that is a failure, the error.
func (w *watched) verdict(p *polling) (over bool, err error) {
	stage := w.note.Stage()
	if stage == StageFailed {
		return true, w.end(p, sentinelError{errErrorState, ErrProcessingFailed})
	}
	return stage.AtLeast(p.params.Until), nil
}

// end makes the error that ends the wait. When the context ends it while polls fail, both are told.
func (w *watched) end(p *polling, cause error) error {
	if w.failure != nil && !errors.Is(w.failure, cause) && !errors.Is(cause, w.failure) {
		cause = &callError{
			op:     getNote,
			detail: redact.Cause(cause) + "; the latest poll failed: " + redact.Cause(w.failure),
			causes: []error{cause, w.failure},
		}
	}
	return &WaitError{ID: w.id, Note: w.note, Polls: w.polls, Elapsed: time.Since(p.Started), Err: cause}
}
