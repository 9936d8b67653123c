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

// contact is what the end of an upload, or of a request, says of the service.
type contact int

const (
	noContact contact = iota // nothing
	answered                 // it answered, whatever it said
	failing                  // it, or this machine, fails in a way that others would meet too
)

const (
	troubleAfter    = 3 // failures of one kind in a row
	maxTries        = 3 // of one recording, while others succeed
	maxProbePause   = time.Minute
	defaultMaxPause = 15 * time.Minute
)

// trouble is the state in which everything fails in the same way. Nothing more is begun then. From time to time the
// run checks whether it has passed, first by a harmless request, then by one recording.
type trouble struct {
	kind    string
	why     error
	count   int // in a row
	paused  bool
	since   time.Time // it is paused, less the time in which it waited for a recording
	wait    time.Duration
	next    time.Time // probe
	probing bool      // a probe is under way
	one     bool      // one recording may be begun
	let     time.Time // since when
	trying  bool      // that one is under way
	ended   error     // the run was given up for it
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
func (t *trouble) holdsBack() bool { return t.paused && !t.one }

// begun takes in that a recording is begun.
func (t *trouble) begun() {
	if t.paused {
		t.letOne(false)
		t.trying = true
	}
}

// letOne says whether one recording may be begun. As long as none comes it is the caller who is waited for, and not the
// service.
func (t *trouble) letOne(may bool) {
	now := time.Now()
	if t.one {
		t.since = t.since.Add(now.Sub(t.let))
	}
	t.one, t.let = may, now
}

// freed takes in that a worker is free. A recording that said nothing of the service lets the next one be tried.
func (t *trouble) freed(busy int) {
	if t.paused && t.trying && busy == 0 {
		t.letOne(true)
	}
}

// due is when something has to be done about it; zero: never.
func (t *trouble) due(maxPause time.Duration) time.Time {
	if !t.paused || t.one {
		return time.Time{}
	}
	end := t.since.Add(limit(maxPause))
	if t.probing || t.trying || end.Before(t.next) {
		return end
	}
	return t.next
}

// limit is how long a run may pause.
func limit(maxPause time.Duration) time.Duration {
	if maxPause == 0 {
		return defaultMaxPause
	}
	return maxPause
}

// takeContact counts failures of one kind, and pauses or goes on accordingly.
func (r *run) takeContact(m message) {
	t := &r.trouble
	if m.probed {
		t.probing = false
	}
	switch {
	case m.contact == answered && m.probed:
		t.letOne(true) // it is there; whether it takes recordings, one has to show
	case m.contact == answered:
		r.progress.successes++
		if t.paused {
			r.tell(Event{Pause: &Pause{}})
		}
		*t = trouble{ended: t.ended}
	case m.contact == failing:
		r.takeFailure(m)
	}
}

func (r *run) takeFailure(m message) {
	t, kind := &r.trouble, troubleKind(m.err)
	if kind != t.kind {
		t.count = 0
		t.why = m.err // those that follow may be its consequences
	}
	lasts := m.probed || t.one || t.trying // what fails before the first look does not say so
	t.letOne(false)
	t.kind = kind
	t.trying = false
	t.count++
	now := time.Now()
	switch {
	case r.ended, t.paused && !lasts:
	case t.paused:
		t.wait = min(2*t.wait, maxProbePause)
		t.next = now.Add(t.wait)
	case t.count >= troubleAfter || m.probed:
		t.paused, t.since, t.wait = true, now, firstPause
		t.next = now.Add(t.wait)
		if r.uploader.MaxPause >= 0 {
			r.tell(Event{Pause: &Pause{Why: t.why, Next: t.next}})
		}
	}
}

// probe finds out whether the trouble has passed, or gives up.
func (r *run) probe(now time.Time) {
	t := &r.trouble
	switch {
	case !t.paused, t.one:
	case now.Sub(t.since) >= limit(r.uploader.MaxPause):
		const why = "the run ended, because everything fails in the same way: "
		t.ended = fail(why+redact.Opaque(t.why).Error(), t.why)
		r.cancel()
	case !t.probing && !t.trying && !now.Before(t.next):
		t.probing = true
		r.workers.Go(r.identify)
	}
}

// identify asks the service whose token this is. Before the first recording is begun, it also tells the journal.
func (r *run) identify() {
	r.guarded(func() { r.send(r.identity()) }, func(cause any) message {
		return message{probed: true, broken: fail("a callback or the journal ended its goroutine"), panic: cause}
	})
}

func (r *run) identity() message {
	owner, err := r.uploader.Owner, error(nil)
	if owner.Service == "" || r.owner.Service != "" {
		owner, err = OwnerOf(r.ctx, r.uploader.Client)
	}
	owner.Headers = fileheader.Fingerprint(r.uploader.Client)
	m := message{probed: true, contact: answered, err: err}
	switch {
	case err != nil:
		m.contact = failing
	case r.owner.Service == "":
		binding, err := r.uploader.Journal.Bind(r.ctx, owner)
		if err != nil && r.ctx.Err() == nil {
			m.broken = err
		}
		if err == nil {
			m.bound = &bound{owner, binding}
		}
	}
	return m
}

// failureOf tells what an error says of the service, and whether trying the recording later may help.
func (r *run) failureOf(t *task, err error) (what contact, later bool) {
	_, response := errors.AsType[*clinicaldoc.Error](err)
	switch kind := troubleKind(err); {
	case kind == "" && response:
		return answered, false
	case kind == "", kind == kindFiles && !folderGone(t.recording.File):
		return noContact, false
	case kind == kindFiles, kind == kindMachine:
		return failing, true
	}
	mayPass := clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrUnauthorized)
	return failing, t.recording.Params.Audio.Size() >= 0 && mayPass
}

const (
	kindMachine = "this machine"
	kindFiles   = "files"
)

// troubleKind is what kind of failure others would meet too; empty: it is this recording's own.
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

// lasting reports whether a list is what it is because of the service's own manner: it answers, and waiting changes
// nothing.
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
