package ingest

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// serviceHealth is what the end of an upload, or of a request, shows of the service. The zero value shows nothing.
type serviceHealth struct {
	answered bool  // the service answered, whatever it said
	failure  error // the service, or this machine, fails in a way that other recordings would meet too
}

var serviceAnswered = serviceHealth{answered: true}

func serviceFailing(err error) serviceHealth { return serviceHealth{failure: err} }

const (
	troubleAfter    = 3 // failures of one kind in a row
	maxTries        = 3 // of one recording, while others succeed
	maxProbePause   = time.Minute
	defaultMaxPause = 15 * time.Minute
)

// trouble counts failures of one kind in a row. After a few of them the run pauses: nothing more is begun. From time to
// time it tests whether the trouble has passed, first by a probe, which is a harmless request, then by one recording.
type trouble struct {
	kind         string
	firstFailure error // the first failure of this kind
	failures     int   // of this kind, in a row

	paused      bool
	pausedSince time.Time // when the pause began; later by the time in which the run waited for a recording
	probeWait   time.Duration
	nextProbe   time.Time
	probing     bool // a probe is under way

	mayTryOne   bool      // the probe was answered: one recording may be begun
	mayTrySince time.Time // when mayTryOne was set
	tryingOne   bool      // that recording is under way

	gaveUp error // why the run was given up; nil: it was not
}

// Pause reports that a run begins no further uploads for the moment, or that it goes on.
type Pause struct {
	Why  error     // the error with which everything fails; nil: the run goes on
	Next time.Time // when the run tests again whether the cause has passed
}

// LogValue lists what may be logged of the pause.
func (p Pause) LogValue() slog.Value {
	if p.Why == nil {
		return slog.GroupValue(slog.Bool("paused", false))
	}
	why := redact.Opaque(p.Why).Error()
	return slog.GroupValue(slog.Bool("paused", true), slog.String("why", why), slog.Time("next", p.Next))
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (p Pause) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Pause", p) }

// holdsBack reports whether nothing may be begun.
func (t *trouble) holdsBack() bool { return t.paused && !t.mayTryOne }

// recordingBegun records that a recording is begun. In a pause it is the one that is tried.
func (t *trouble) recordingBegun() {
	if t.paused {
		t.allowOne(false)
		t.tryingOne = true
	}
}

// allowOne sets whether one recording may be begun in a pause. Until one comes, the run waits for the caller and not
// for the service, so that time does not count as a pause.
func (t *trouble) allowOne(may bool) {
	now := time.Now()
	if t.mayTryOne {
		t.pausedSince = t.pausedSince.Add(now.Sub(t.mayTrySince))
	}
	t.mayTryOne = may
	t.mayTrySince = now
}

// workerFreed records that a worker is free. If the recording that was tried showed nothing of the service, the next
// one is tried.
func (t *trouble) workerFreed(busyWorkers int) {
	// Usually an answer would have ended the pause, and a failure the try.
	if t.paused && t.tryingOne && busyWorkers == 0 {
		t.allowOne(true)
	}
}

// nextCheck returns when the next probe is due, or when the run gives up if that is earlier. It is zero if nothing is
// held back.
func (t *trouble) nextCheck(maxPause time.Duration) time.Time {
	if !t.holdsBack() {
		return time.Time{}
	}
	giveUp := t.pausedSince.Add(pauseLimit(maxPause))
	// No probe begins during another one, or while a recording is tried.
	if t.isTested() || giveUp.Before(t.nextProbe) {
		return giveUp
	}
	return t.nextProbe
}

// isTested reports whether a probe or a recording is under way that shows whether the trouble has passed.
func (t *trouble) isTested() bool { return t.probing || t.tryingOne }

// count counts a failure. The first one of a kind is the reason, because later ones may be its consequences.
func (t *trouble) count(failure error) {
	kind := troubleKind(failure)
	if kind != t.kind {
		t.kind = kind
		t.firstFailure = failure
		t.failures = 0
	}
	t.failures++
}

// postponeProbe doubles the time until the next probe.
func (t *trouble) postponeProbe() {
	t.probeWait = min(2*t.probeWait, maxProbePause)
	t.nextProbe = time.Now().Add(t.probeWait)
}

// pauseLimit returns how long a run may pause: Uploader.MaxPause, or its default.
func pauseLimit(maxPause time.Duration) time.Duration {
	if maxPause == 0 {
		return defaultMaxPause
	}
	return maxPause
}

// takeHealth records what a recording showed of the service. If the service answered, a pause is over, and failures are
// counted from zero. If it failed, a pause may begin; see takeFailure.
func (r *run) takeHealth(health serviceHealth) {
	switch {
	case health.answered:
		r.progress.successes++
		if r.trouble.paused {
			r.callOnEvent(Event{Pause: &Pause{}}) // the run goes on
		}
		r.trouble = trouble{gaveUp: r.trouble.gaveUp} // a run that was given up stays so
	case health.failure != nil:
		r.takeFailure(health.failure, fromRecording)
	}
}

// probeEnded records how a probe ended: with a failure or, if that is nil, with an answer. After an answer one
// recording has to show whether the service takes recordings.
func (r *run) probeEnded(failure error) {
	r.trouble.probing = false
	if failure == nil {
		r.trouble.allowOne(true)
		return
	}
	r.takeFailure(failure, fromProbe)
}

// failureSource is what met a failure.
type failureSource int

const (
	fromRecording failureSource = iota
	fromProbe
)

// takeFailure begins a pause after a few failures of one kind, or after a probe that failed. During a pause it
// postpones the next probe, except for uploads that were begun before the pause and fail now.
func (r *run) takeFailure(failure error, source failureSource) {
	t := &r.trouble
	isAfterProbe := source == fromProbe || t.mayTryOne || t.tryingOne
	t.allowOne(false)
	t.tryingOne = false
	t.count(failure)
	switch {
	case r.isEnding: // nothing more is begun anyway
	case t.paused && isAfterProbe:
		t.postponeProbe()
	case t.paused: // the upload was begun before the pause
	case source == fromProbe, t.failures >= troubleAfter:
		r.pause()
	}
}

// pause begins a pause. It calls OnEvent, unless a negative MaxPause ends the run immediately.
func (r *run) pause() {
	t := &r.trouble
	t.paused = true
	t.pausedSince = time.Now()
	t.probeWait = firstPause
	t.nextProbe = t.pausedSince.Add(t.probeWait)
	if r.uploader.MaxPause >= 0 {
		r.callOnEvent(Event{Pause: &Pause{Why: t.firstFailure, Next: t.nextProbe}})
	}
}

// probeIfDue begins a probe if one is due. If the pause has lasted too long, it ends the run.
func (r *run) probeIfDue(now time.Time) {
	t := &r.trouble
	switch {
	case !t.holdsBack(): // there is nothing to test
	case now.Sub(t.pausedSince) >= pauseLimit(r.uploader.MaxPause):
		const why = "the run ended, because everything fails in the same way: "
		t.gaveUp = fail(why+redact.Opaque(t.firstFailure).Error(), t.firstFailure)
		r.cancel()
	case !t.isTested() && !now.Before(t.nextProbe):
		t.probing = true
		r.goroutines.Go(r.probeService)
	}
}

// probeService asks the service whose token this is, and reports the answer to the run. The first answer also binds the
// journal.
func (r *run) probeService() {
	exited := func() message { return probed{journalErr: fail("a callback or the journal ended its goroutine")} }
	r.callGuarded(func() { r.send(r.askOwner()) }, exited)
}

// askOwner asks the service for the user. The first time, before any recording is begun, it also binds the journal, and
// asks only if the Uploader has no Owner.
func (r *run) askOwner() probed {
	isFirst := r.owner.Service == ""
	owner := r.uploader.Owner
	if owner.Service == "" || !isFirst {
		var err error
		owner, err = OwnerOf(r.ctx, r.uploader.Client)
		if err != nil {
			return probed{failure: err}
		}
	}
	if !isFirst {
		return probed{}
	}
	owner.Headers = fileheader.Fingerprint(r.uploader.Client)
	binding, err := r.uploader.Journal.Bind(r.ctx, owner)
	switch {
	case err == nil:
		return probed{bound: &bound{owner, binding}}
	case r.ctx.Err() != nil: // the end of the run is not an error of the journal
		return probed{}
	}
	return probed{journalErr: err}
}

// failureOf returns what the error of a recording shows about the health of the service, and whether it may help to try
// the recording again later.
func (r *run) failureOf(t *task, err error) (health serviceHealth, mayTryLater bool) {
	switch troubleKind(err) {
	case "":
		_, isResponse := errors.AsType[*clinicaldoc.Error](err)
		return serviceHealth{answered: isResponse}, false
	case kindFiles:
		if !isFolderGone(t.recording.File) { // only this file is missing
			return serviceHealth{}, false
		}
		return serviceFailing(err), true
	case kindMachine:
		return serviceFailing(err), true
	}
	mayPass := clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrUnauthorized)
	canBeReadAgain := t.recording.Params.Audio.Size() >= 0 // a stream of unknown size can be read once
	return serviceFailing(err), mayPass && canBeReadAgain
}

const (
	kindMachine = "this machine"
	kindFiles   = "files"
)

// troubleKind returns the kind of a failure that other recordings would meet too, or may meet in the case of kindFiles.
// It is empty if the failure is this recording's own, or if waiting would not help. Failures of the same kind are
// counted together.
func troubleKind(err error) string {
	if response, ok := errors.AsType[*clinicaldoc.Error](err); ok {
		if status := response.StatusCode; status >= 500 || slices.Contains([]int{401, 403, 408, 425, 429}, status) {
			return strconv.Itoa(status)
		}
		return ""
	}
	switch {
	case disk.Limited(err): // such as too many open files
		return kindMachine
	case errors.Is(err, clinicaldoc.ErrInvalidArgument) && errors.Is(err, fs.ErrNotExist):
		return kindFiles // this file, or its folder too
	case errors.Is(err, clinicaldoc.ErrInvalidArgument), errors.Is(err, errBeforeCommit), isLastingListFailure(err):
		return ""
	}
	return "no response"
}

// isLastingListFailure reports whether a list failed because of how the service lists notes, so waiting would change
// nothing.
func isLastingListFailure(err error) bool {
	isOfList := errors.Is(err, clinicaldoc.ErrIncompleteList) || errors.Is(err, clinicaldoc.ErrPatientMismatch)
	return isOfList && !clinicaldoc.Retryable(err)
}

// isFolderGone reports whether the folder of a file cannot be read or is empty, as if a share is not mounted.
func isFolderGone(file string) bool {
	if file == "" {
		return false
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return true
	}
	defer func() { _ = dir.Close() }()
	_, err = dir.Readdirnames(1)
	return err != nil // it holds nothing, or cannot be read
}
