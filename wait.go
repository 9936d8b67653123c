package clinicaldoc

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
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
		ctx, cancel := limited(ctx)
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
			p.failures = w.failures
			if err := p.sleep(ctx); err != nil {
				yield(w.note, w.end(p, err))
				return
			}
		}
	}
}
