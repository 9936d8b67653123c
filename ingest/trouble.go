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

// contact is what the end of an upload, or of a request, shows of the service. The zero contact shows nothing.
type contact struct {
	answered bool  // the service answered, whatever it said
	failure  error // the service, or this machine, fails in a way that other recordings would meet too
}

var answered = contact{answered: true}

func failing(err error) contact { return contact{failure: err} }

const (
	troubleAfter    = 3 // failures of one kind in a row
	maxTries        = 3 // of one recording, while others succeed
	maxProbePause   = time.Minute
	defaultMaxPause = 15 * time.Minute
)

// trouble counts failures of one kind in a row. After a few of them the run pauses: nothing more is begun. From time to
// time it tests whether the trouble has passed, first by a probe, which is a harmless request, then by one recording.
type trouble struct {
	kind     string
	why      error // the first failure of this kind
	failures int   // of this kind, in a row

	paused    bool
	since     time.Time // when the pause began, plus the time in which it waited for a recording
	probeWait time.Duration
	nextProbe time.Time
	probing   bool // a probe is under way

	mayTryOne   bool      // the probe was answered: one recording may be begun
	mayTrySince time.Time // since when
	trying      bool      // that recording is under way

	ended error // why the run was given up; nil: it was not
}

// Pause is why nothing more is begun for the moment.
type Pause struct {
	Why  error     // what all recordings fail with; nil: the run goes on
	Next time.Time // when it is tried whether that has passed
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

// begun records that a recording is begun. In a pause it is the one that is tried.
func (t *trouble) begun() {
	if t.paused {
		t.allowOne(false)
		t.trying = true
	}
}

// allowOne sets whether one recording may be begun. Until one comes, the run waits for the caller and not for the
// service, so that time does not count as a pause.
func (t *trouble) allowOne(may bool) {
	now := time.Now()
	if t.mayTryOne {
		t.since = t.since.Add(now.Sub(t.mayTrySince))
	}
	t.mayTryOne = may
	t.mayTrySince = now
}

// freed records that a worker is free. If the recording that was tried showed nothing of the service, the next one is
// tried.
func (t *trouble) freed(busyWorkers int) {
	if t.paused && t.trying && busyWorkers == 0 {
		t.allowOne(true)
	}
}

// due returns when the next probe is due, or when the run gives up if that is earlier. It is zero if there is neither.
func (t *trouble) due(maxPause time.Duration) time.Time {
	if !t.holdsBack() {
		return time.Time{}
	}
	giveUp := t.since.Add(limit(maxPause))
	if t.isTested() || giveUp.Before(t.nextProbe) {
		return giveUp
	}
	return t.nextProbe
}

// isTested reports whether a probe or a recording is under way that shows whether the trouble has passed.
func (t *trouble) isTested() bool { return t.probing || t.trying }

// count counts a failure. The first one of a kind is the reason, because later ones may be its consequences.
func (t *trouble) count(failure error) {
	kind := troubleKind(failure)
	if kind != t.kind {
		t.kind = kind
		t.why = failure
		t.failures = 0
	}
	t.failures++
}

// postponeProbe doubles the time until the next probe.
func (t *trouble) postponeProbe() {
	t.probeWait = min(2*t.probeWait, maxProbePause)
	t.nextProbe = time.Now().Add(t.probeWait)
}

// limit is how long a run may pause.
func limit(maxPause time.Duration) time.Duration {
	if maxPause == 0 {
		return defaultMaxPause
	}
	return maxPause
}

// takeContact records what a recording showed of the service. An answer ends a pause and the row of failures.
func (r *run) takeContact(c contact) {
	switch {
	case c.answered:
		r.progress.successes++
		if r.trouble.paused {
			r.emit(Event{Pause: &Pause{}})
		}
		r.trouble = trouble{ended: r.trouble.ended}
	case c.failure != nil:
		r.takeFailure(c.failure, false)
	}
}

// takeProbe records how a probe ended: with a failure, or with an answer if that is nil. After an answer one recording
// has to show whether the service takes recordings.
func (r *run) takeProbe(failure error) {
	r.trouble.probing = false
	if failure == nil {
		r.trouble.allowOne(true)
		return
	}
	r.takeFailure(failure, true)
}

// takeFailure begins a pause after a few failures of one kind, or after a probe that failed. During a pause it
// postpones the next probe, but not for uploads that were begun before the pause and fail now.
func (r *run) takeFailure(failure error, ofProbe bool) {
	t := &r.trouble
	isAfterProbe := ofProbe || t.mayTryOne || t.trying
	t.allowOne(false)
	t.trying = false
	t.count(failure)
	switch {
	case r.ended:
	case t.paused && isAfterProbe:
		t.postponeProbe()
	case t.paused:
	case ofProbe, t.failures >= troubleAfter:
		r.pause()
	}
}

// pause begins a pause, and reports it unless the run is to end at once.
func (r *run) pause() {
	t := &r.trouble
	t.paused = true
	t.since = time.Now()
	t.probeWait = firstPause
	t.nextProbe = t.since.Add(t.probeWait)
	if r.uploader.MaxPause >= 0 {
		r.emit(Event{Pause: &Pause{Why: t.why, Next: t.nextProbe}})
	}
}

// probe begins a probe if one is due. If the pause has lasted too long, it ends the run.
func (r *run) probe(now time.Time) {
	t := &r.trouble
	switch {
	case !t.holdsBack():
	case now.Sub(t.since) >= limit(r.uploader.MaxPause):
		const why = "the run ended, because everything fails in the same way: "
		t.ended = fail(why+redact.Opaque(t.why).Error(), t.why)
		r.cancel()
	case !t.isTested() && !now.Before(t.nextProbe):
		t.probing = true
		r.workers.Go(r.identify)
	}
}

// identify asks the service whose token this is, and reports the answer. The first answer also binds the journal.
func (r *run) identify() {
	r.guarded(func() { r.send(r.identity()) }, func() message {
		return probed{journalErr: fail("a callback or the journal ended its goroutine")}
	})
}

// identity asks the service for the user. Before the first recording is begun, it also binds the journal. If the
// Uploader has an Owner, the service is asked only in later probes.
func (r *run) identity() probed {
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
	case r.ctx.Err() != nil: // it is the run that ended
		return probed{}
	}
	return probed{journalErr: err}
}

// failureOf returns what the error of a recording shows of the service, and whether trying the recording later may
// help.
func (r *run) failureOf(t *task, err error) (shown contact, mayTryLater bool) {
	switch troubleKind(err) {
	case "":
		_, isResponse := errors.AsType[*clinicaldoc.Error](err)
		return contact{answered: isResponse}, false
	case kindFiles:
		if !folderGone(t.recording.File) { // only this file is missing
			return contact{}, false
		}
		return failing(err), true
	case kindMachine:
		return failing(err), true
	}
	mayPass := clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrUnauthorized)
	canBeReadAgain := t.recording.Params.Audio.Size() >= 0
	return failing(err), mayPass && canBeReadAgain
}

const (
	kindMachine = "this machine"
	kindFiles   = "files"
)

// troubleKind returns the kind of a failure that other recordings would meet too. It is empty if the failure is this
// recording's own. Failures of the same kind are counted together.
func troubleKind(err error) string {
	if response, ok := errors.AsType[*clinicaldoc.Error](err); ok {
		if status := response.StatusCode; status >= 500 || slices.Contains([]int{401, 403, 408, 425, 429}, status) {
			return strconv.Itoa(status)
		}
		return ""
	}
	switch {
	case disk.Limited(err):
		return kindMachine
	case errors.Is(err, clinicaldoc.ErrInvalidArgument) && errors.Is(err, fs.ErrNotExist):
		return kindFiles
	case errors.Is(err, clinicaldoc.ErrInvalidArgument), errors.Is(err, errBeforeCommit), lasting(err):
		return ""
	}
	return "no response"
}

// lasting reports whether a list failed because of how the service lists notes, so that waiting would change nothing.
func lasting(err error) bool {
	isOfList := errors.Is(err, clinicaldoc.ErrIncompleteList) || errors.Is(err, clinicaldoc.ErrPatientMismatch)
	return isOfList && !clinicaldoc.Retryable(err)
}

// folderGone reports whether the folder of a file cannot be read, or holds nothing: a share that is not mounted.
func folderGone(file string) bool {
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
