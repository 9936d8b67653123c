package faultmatrix

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const (
	// untimed is longer than the tests may take.
	untimed = 24 * time.Hour
	// reportTime is how long before the deadline of the tests a cell counts as hung, so that it is reported by its name.
	reportTime = time.Minute
	// stallAfter is short, so that stalls cost little time; morePatience is for machines on which healthy answers look
	// stalled too.
	stallAfter   = 400 * time.Millisecond
	morePatience = 10 * time.Second
)

// busy has a place for each cell that is run at once: they wait for sockets more than for a processor. Uploads that stall wait
// for seconds and need no place, so that nothing waits for them at the end.
var busy = make(chan struct{}, 128)

// firstTries are those of all cells. Second tries begin after them, a few at a time.
var (
	firstTries  sync.WaitGroup
	secondTries = make(chan struct{}, 8)
)

// runCell runs a cell and fails the test where its promise is broken. A stall is the one fault that time itself can
// feign: such a cell gets a second chance, which a broken rule does not pass either. It then has more patience, and few
// other cells take the processor from it.
func runCell(t *testing.T, f fault, op operation, p promise) {
	t.Helper()
	v := tryFirst(t, f, op, p)
	if f.stall > 0 && len(v.broken) > 0 {
		firstTries.Wait()
		secondTries <- struct{}{}
		defer func() { <-secondTries }()
		f.stall = morePatience
		v = tryCell(t, f, op, p)
	}
	for _, broken := range v.broken {
		t.Error(broken)
	}
}

func tryFirst(t *testing.T, f fault, op operation, p promise) *verdict {
	t.Helper()
	defer firstTries.Done()
	if f.stall == 0 || op.kind != creates {
		busy <- struct{}{}
		defer func() { <-busy }()
	}
	return tryCell(t, f, op, p)
}

// verdict is what came of a cell.
type verdict struct {
	broken []string // promises, in words
}

func (v *verdict) check(kept bool, format string, args ...any) {
	if !kept {
		v.broken = append(v.broken, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) within(what string, n int, s span) {
	v.check(n >= s.least && n <= s.most, "%s: %d, promised %d to %d", what, n, s.least, s.most)
}

// tryCell makes one call under one fault and holds what happened against the promise.
func tryCell(t *testing.T, f fault, op operation, p promise) *verdict {
	t.Helper()
	w := newWorld(t, f, op)
	defer w.close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The context itself has no deadline, because calls take that into account.
	if deadline, ok := t.Deadline(); ok {
		watch := time.AfterFunc(time.Until(deadline)-reportTime, cancel)
		defer watch.Stop()
	}
	w.warmUp(ctx)

	right, err := op.call(ctx, w)
	v := new(verdict)
	if v.check(ctx.Err() == nil, "it would still be waiting"); ctx.Err() != nil {
		return v
	}
	checkResult(v, p, w, right, err)
	checkAttempts(v, p, w, err)
	checkToken(v, w)
	checkPrivacy(v, w, err)
	checkEdits(v, w)
	return v
}

// checkResult holds the outcome against the promise, and the box's state against what the caller was told.
func checkResult(v *verdict, p promise, w *world, right func() bool, err error) {
	unsure := errors.Is(err, clinicaldoc.ErrOutcomeUnknown)
	switch p.result {
	case success:
		v.check(err == nil, "promised success, got %v", err)
	case failure:
		v.check(err != nil, "promised a failure, got success")
		v.check(!unsure, "it surely was not carried out, but is reported as unknown: %v", err)
	case unknownOutcome:
		v.check(unsure, "an unknown outcome is reported as %v", err)
	case successOrUnknown:
		v.check(err == nil || unsure, "promised success or an unknown outcome, got %v", err)
	case anyFailure:
		v.check(err != nil, "promised a failure, got success")
	case wholeOrTold:
		v.check(err == nil || errors.Is(err, clinicaldoc.ErrIncompleteList), "promised a whole list or the word that it is not, got %v", err)
	case absent:
	}
	if unsure {
		v.check(w.op.kind == creates || w.op.kind == repeats, "only changes have unknown outcomes: %v", err)
		var typed *clinicaldoc.OutcomeUnknownError
		v.check(errors.As(err, &typed) == (w.op.kind == creates), "an unknown outcome is a %T", err)
	}
	if err == nil && !p.lie {
		v.check(right(), "the result is not what the box holds")
	}
	if err != nil {
		checkError(v, p, err)
	}
	if w.op.done == nil || p.lie {
		return
	}
	want := 0
	if err == nil || w.fault.commits && !w.op.refuses {
		want = 1
	}
	done := w.op.done(w)
	v.check(done == want, "carried out %d times instead of %d; the caller was told %v", done, want, err)
}
