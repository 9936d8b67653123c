package ingest

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Event is something that happened to a recording, or to the run. It is enough for metrics: results have their
// durations and sizes, pauses their reasons.
type Event struct {
	Recording  Recording // zero for a Pause
	JournalKey Key       // of the recording, as in its Result; zero: it has none yet
	Position   int       // of the recording, as in its Result
	State      State     // claimed, unresolved, or created if it waits for its note; zero for the other events
	Until      time.Time // unresolved: from then on it can be decided
	// Sent is how many of the Size bytes were sent; Size is -1 if it is not known. Both are zero for the other events.
	// These events come at most a few times a second, and some are skipped if the results are received slowly.
	Sent, Size int64
	Result     *Result  // of the recording that ended; nil for the other events
	Pause      *Pause   // begins or ends a pause of the run; nil for the other events
	Progress   Progress // of the run so far

	// RateLimitWait is how long the client now waits for a rate limit of the service. It is zero for the other events.
	RateLimitWait time.Duration
}

// LogValue lists what may be logged of the event.
func (e Event) LogValue() slog.Value {
	attrs := appendIdentity([]slog.Attr{slog.Any("progress", e.Progress)}, e.JournalKey, e.Position)
	switch {
	case e.Result != nil:
		attrs = append(attrs, slog.Any("result", *e.Result))
	case e.Pause != nil:
		attrs = append(attrs, slog.Any("pause", *e.Pause))
	case e.State != 0:
		attrs = append(attrs, slog.String("state", e.State.String()))
	case e.RateLimitWait > 0:
		attrs = append(attrs, slog.Duration("rate_limit_wait", e.RateLimitWait))
	default:
		attrs = append(attrs, slog.Int64("sent", e.Sent), slog.Int64("size", e.Size))
	}
	return slog.GroupValue(attrs...)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (e Event) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Event", e) }

// Progress is how far a run has come.
type Progress struct {
	Total        int // of recordings; 0: not known
	Created      int
	AlreadyThere int
	Refused      int
	InDoubt      int // that ended unresolved
	Complete     int // of those that have notes: the note has reached Uploader.Until
	Processing   int // of those that have notes: the note has not
	Failed       int // of those that have notes: the service could not process it, or it was deleted
	SentAgain    int // of those that have notes: a person decided to replace an earlier note
	Active       int // being uploaded, or searched for because they are unresolved
	Doubts       int // of these, unresolved
	Elapsed      time.Duration
	// Left estimates the remaining time from the pace of the latest recordings. It is at least the time until all
	// unresolved recordings can be decided, although that often takes less. It is 0 if it cannot be estimated, because
	// the total is not known or too few recordings have ended.
	Left time.Duration
}

// Done returns how many recordings have ended, or wait only for their notes.
func (p Progress) Done() int { return p.Created + p.AlreadyThere + p.Refused + p.InDoubt }

// LogValue lists the counts.
func (p Progress) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("total", p.Total), slog.Int("created", p.Created),
		slog.Int("already_there", p.AlreadyThere), slog.Int("refused", p.Refused),
		slog.Int("in_doubt", p.InDoubt), slog.Int("complete", p.Complete), slog.Int("processing", p.Processing),
		slog.Int("failed", p.Failed), slog.Int("sent_again", p.SentAgain),
		slog.Int("active", p.Active), slog.Int("doubts", p.Doubts),
		slog.Duration("elapsed", p.Elapsed), slog.Duration("left", p.Left),
	)
}

// Format prints the counts for every verb.
func (p Progress) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Progress", p) }

const (
	paceResults    = 64 // so many of the latest results tell the pace
	minPaceResults = 8  // fewer do not tell it
)

// progress counts.
type progress struct {
	total, begunCount int
	begun             time.Time
	endedByStatus     [InDoubt + 1]int
	resultTimes       [paceResults]time.Time // when results came, in turns
	results           int
	successes         int // times that the service was seen to work
	complete          int
	processing        int
	failed            int
	sentAgain         int
}

func newProgress(total int) progress { return progress{total: max(total, 0), begun: time.Now()} }

// count counts a recording that has its result, or waits only for its note.
func (p *progress) count(result Result) {
	p.endedByStatus[result.Status]++
	if len(result.Replaced) > 0 && result.NoteID != 0 {
		p.sentAgain++
	}
	p.resultTimes[p.results%paceResults] = time.Now()
	p.results++
}

// summary returns the counts for the caller.
func (p *progress) summary(now time.Time) Progress {
	s := Progress{
		Total: p.total, Created: p.endedByStatus[Created], AlreadyThere: p.endedByStatus[AlreadyThere],
		Refused: p.endedByStatus[Refused], InDoubt: p.endedByStatus[InDoubt],
		Complete: p.complete, Processing: p.processing, Failed: p.failed, SentAgain: p.sentAgain,
		Active: p.begunCount - p.results, Elapsed: now.Sub(p.begun),
	}
	s.Left = p.timeLeft(now)
	return s
}

// timeLeft estimates the remaining time from the pace of the latest results. Only the latest count, because recordings
// that had their notes already end fast. It is 0 if the total is not known, or if all or too few have ended.
func (p *progress) timeLeft(now time.Time) time.Duration {
	if p.total <= p.results || p.results < minPaceResults {
		return 0
	}
	counted := min(p.results, paceResults)
	oldest := p.resultTimes[p.results%paceResults] // the times are a ring: the next one replaces the oldest
	if p.results == counted {                      // all results count, so the pace is that since the beginning
		oldest = p.begun
	}
	return now.Sub(oldest) / time.Duration(counted) * time.Duration(p.total-p.results)
}

// callOnEvent completes an event and calls OnEvent with it. Only the goroutine that ranges over the results calls it.
func (r *run) callOnEvent(e Event) {
	if r.uploader.OnEvent == nil {
		return
	}
	e.Position = e.Recording.position
	if e.Result != nil {
		e.JournalKey = e.Result.JournalKey
	}
	now := time.Now()
	e.Progress = r.progress.summary(now)
	r.mu.Lock()
	e.Progress.Doubts = r.unresolvedCount
	isEstimated := e.Progress.Left > 0
	if r.unresolvedCount > 0 && isEstimated { // the last unresolved one may take until allDecidedBy
		e.Progress.Left = max(e.Progress.Left, r.allDecidedBy.Sub(now))
	}
	r.mu.Unlock()
	r.uploader.OnEvent(e)
}

// sendEvent makes the goroutine that ranges over the results call OnEvent.
func (r *run) sendEvent(e Event) {
	if r.uploader.OnEvent != nil {
		r.send(happened{e})
	}
}

// reportRateLimit sends an event that the client waits for a rate limit of the service. It sends one for each wait,
// although the service refuses several requests.
func (r *run) reportRateLimit(wait time.Duration) {
	ends := time.Now().Add(wait)
	r.mu.Lock()
	isReported := ends.Before(r.rateLimitEnds.Add(time.Second)) // several requests meet one limit
	if !isReported {
		r.rateLimitEnds = ends
	}
	r.mu.Unlock()
	if !isReported {
		r.sendEvent(Event{RateLimitWait: wait})
	}
}

const progressPause = 200 * time.Millisecond

// onProgress returns a function for CreateNoteParams.OnProgress that calls the recording's own, and reports an event a
// few times a second. It drops the event if the results are not being received.
func (r *run) onProgress(t *task) func(sent, size int64) {
	var reported time.Time
	callersOwn := t.recording.Params.OnProgress
	return func(sent, size int64) {
		if callersOwn != nil {
			callersOwn(sent, size)
		}
		if now := time.Now(); now.Sub(reported) >= progressPause {
			reported = now
			event := Event{Recording: t.recording, JournalKey: t.own.Key, Sent: sent, Size: size}
			select {
			case r.messages <- happened{event}:
			default: // nobody receives at the moment, and the upload must not wait
			}
		}
	}
}
