package ingest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Report is the outcome of a run.
type Report struct {
	Results []Result // of each recording that ended
	Earlier []Result // of recordings of earlier runs, whose notes were in processing
	// Left are the recordings that have no result: the next run begins them. They include those that the run did not
	// reach, unless the iterator takes longer than a second to return them, or returns more than 100,000.
	Left   []Recording
	Pauses []Pause // when everything failed in the same way, and when it went on
	Began  time.Time
	Took   time.Duration
	Err    error // why the run ended early; nil: it reached its end
}

// RunAll runs to the end and returns the result of each recording. It waits until the notes are complete, unless Until
// is another stage. It keeps all results in memory: use [Uploader.Run] if there are too many.
func (u *Uploader) RunAll(ctx context.Context, recordings iter.Seq2[Recording, error]) *Report {
	report := &Report{Began: time.Now()}
	listening := *u // the caller's uploader stays as it is
	listening.Until = cmp.Or(u.Until, clinicaldoc.StageComplete)
	listening.OnEvent = func(e Event) {
		if e.Pause != nil {
			report.Pauses = append(report.Pauses, *e.Pause)
		}
		if u.OnEvent != nil {
			u.OnEvent(e)
		}
	}
	drawn := drawing{from: recordings}
	for result, err := range listening.Run(ctx, drawn.all) {
		if err != nil {
			report.Err = err
			continue
		}
		if result.Earlier {
			report.Earlier = append(report.Earlier, result)
			continue
		}
		report.Results = append(report.Results, result)
	}
	report.Left = drawn.without(report.Results)
	report.Took = time.Since(report.Began)
	return report
}

// Count returns how many recordings ended with the status, without those of earlier runs.
func (r *Report) Count(status Status) int {
	count := 0
	for _, result := range r.Results {
		if result.Status == status {
			count++
		}
	}
	return count
}

// OK reports whether every recording is done, including those of earlier runs. A recording is done if its note has
// reached Uploader.Until.
func (r *Report) OK() bool {
	if r.Err != nil || len(r.Left) > 0 {
		return false
	}
	notDone := func(result Result) bool { return !result.Status.done() }
	return !slices.ContainsFunc(r.Results, notDone) && !slices.ContainsFunc(r.Earlier, notDone)
}

// done reports whether nothing is left to be done for a recording that ended so.
func (s Status) done() bool { return s == Created || s == AlreadyThere || s == Complete }

// LogValue lists what may be logged of the report: counts, and why the run ended.
func (r Report) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Int("complete", r.Count(Complete)), slog.Int("processing", r.Count(Processing)),
		slog.Int("failed", r.Count(Failed)), slog.Int("created", r.Count(Created)),
		slog.Int("already_there", r.Count(AlreadyThere)), slog.Int("refused", r.Count(Refused)),
		slog.Int("in_doubt", r.Count(InDoubt)), slog.Int("left", len(r.Left)), slog.Int("earlier", len(r.Earlier)),
		slog.Int("pauses", (len(r.Pauses)+1)/2), // each is reported when it begins and when it ends
		slog.Duration("took", r.Took),
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("error", redact.Opaque(r.Err).Error()))
	}
	return slog.GroupValue(attrs...)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (r Report) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Report", r) }

// drawing remembers which recordings were drawn, by an iterator that may go on after the run.
type drawing struct {
	from iter.Seq2[Recording, error]
	mu   sync.Mutex
	list []Recording
}

const (
	maxLeft  = 100_000     // recordings that are drawn after the run
	leftTime = time.Second // in which they have to come
)

// all draws the recordings of a run. If the run ends early, it draws the others too, for the report.
func (d *drawing) all(yield func(Recording, error) bool) {
	var drawUntil time.Time // zero: the run goes on
	drawnAfter := 0
	for recording, err := range d.from {
		if err == nil {
			d.mu.Lock()
			d.list = append(d.list, recording)
			d.mu.Unlock()
		}
		if drawUntil.IsZero() && !yield(recording, err) {
			drawUntil = time.Now().Add(leftTime)
		}
		if drawUntil.IsZero() {
			continue
		}
		drawnAfter++
		isEnough := drawnAfter > maxLeft || time.Now().After(drawUntil)
		if err != nil || isEnough {
			return
		}
	}
}

// without returns the drawn recordings that have no result.
func (d *drawing) without(results []Result) []Recording {
	ended := map[string]int{} // how many, because equal recordings have a result each
	for _, result := range results {
		ended[nameOf(result.Recording)]++
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []Recording
	for _, recording := range d.list {
		if name := nameOf(recording); ended[name] > 0 {
			ended[name]--
			continue
		}
		left = append(left, recording)
	}
	return left
}

// nameOf returns a text that distinguishes the recordings of a run. It is the same before and after a file got its key.
func nameOf(r Recording) string {
	if r.File != "" && r.SHA256 != "" { // the key may have been made of them
		r.Key = ""
	}
	return fmt.Sprintf("%q %q %d %q", r.File, r.Key, r.Params.PatientID, r.Params.Name)
}
