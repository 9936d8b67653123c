package jetstream

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	sameFailures = 5           // in a row, after which a worker pauses
	firstProbe   = time.Second // until the first probe of a pause; doubled for each further one
	maxProbe     = time.Minute
	probeTimeout = 10 * time.Second
	pauseMargin  = 5 * time.Second // by which the fleet's pause is longer than the time until the next probe
	followEvery  = time.Second     // a worker that does not lead reads whether the pause is over
)

// probeAfter returns the time until the next probe, if there were so many since the last success.
func probeAfter(probes int) time.Duration { return min(firstProbe<<min(probes, 10), maxProbe) }

// kind is how something failed, as far as it matters for a pause. The zero kind is no failure.
type kind string

// The kinds. A worker whose files are missing pauses alone: other machines may have theirs.
const (
	kindService      kind = "service"
	kindUnauthorized kind = "unauthorized"
	kindForbidden    kind = "forbidden"
	kindRateLimited  kind = "rate limited"
	kindFile         kind = "file"
	kindEngine       kind = "engine"
)

// kindOf returns how err failed. It is zero if err is nil.
func kindOf(err error) kind {
	var path *fs.PathError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errEngine):
		return kindEngine
	case errors.As(err, &path):
		return kindFile
	case errors.Is(err, clinicaldoc.ErrUnauthorized):
		return kindUnauthorized
	case errors.Is(err, clinicaldoc.ErrForbidden):
		return kindForbidden
	case errors.Is(err, clinicaldoc.ErrRateLimited):
		return kindRateLimited
	}
	return kindService
}

// failure is what a worker's recordings fail with.
type failure struct {
	kind   kind
	cause  error
	reason string // safe to print
	file   string
}

// pauser pauses a worker, and the fleet, while everything fails the same way.
type pauser struct {
	fleet      *Fleet
	id         string // of this worker
	probe      func(ctx context.Context, f failure) error
	beat       func(ctx context.Context) // reports to the fleet how this worker fails
	onEvent    func(ingest.Event)        // OnEvent of the caller; may be nil
	endOnPanic func(then func())         // see work

	pauses sync.WaitGroup

	mu                 sync.Mutex
	firstFailure       failure       // of the row
	failuresInRow      int           // of one kind
	probesSinceSuccess int           // the more there were, the longer the next one waits
	isAnnounced        bool          // since the last success the reason was logged
	pauseEnded         chan struct{} // closed when the pause ends; nil while there is none
}

// report counts how a recording ended; err is nil if it has its note. A failure may begin a pause; see countFailure.
func (p *pauser) report(ctx context.Context, err error, file string) {
	if err == nil {
		p.succeeded(ctx)
		return
	}
	f := failure{kind: kindOf(err), cause: err, file: file, reason: redact.Opaque(err).Error()}
	begun := p.countFailure(f)
	if begun == nil {
		return
	}
	p.pauses.Go(func() {
		nothingToUndo := func() {}
		defer p.endOnPanic(nothingToUndo) // because rest calls the caller's own code
		p.rest(ctx, *begun)
	})
	if begun.isFirstSinceSuccess && p.onEvent != nil {
		p.onEvent(ingest.Event{Pause: &ingest.Pause{Why: begun.cause, Next: begun.nextProbe}})
	}
}

// begunPause is a pause that has just begun.
type begunPause struct {
	failure
	isFirstSinceSuccess bool
	nextProbe           time.Time
}

// countFailure counts a failure. It returns the pause that begins with it, or nil if none does. A pause begins with
// sameFailures failures of one kind in a row, unless the worker pauses already. Its reason is the first of them,
// because the others may be consequences of that one. Failures of the engine begin no pause: without the engine, no
// recording is handed out anyway.
func (p *pauser) countFailure(f failure) *begunPause {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.kind != p.firstFailure.kind {
		p.failuresInRow = 0
	}
	if p.failuresInRow == 0 {
		p.firstFailure = f
	}
	p.failuresInRow++
	isPaused := p.pauseEnded != nil
	if p.failuresInRow < sameFailures || isPaused || f.kind == kindEngine {
		return nil
	}
	p.pauseEnded = make(chan struct{})
	begun := &begunPause{
		failure: p.firstFailure, isFirstSinceSuccess: !p.isAnnounced,
		nextProbe: time.Now().Add(probeAfter(p.probesSinceSuccess)),
	}
	p.isAnnounced = true
	return begun
}

// succeeded ends the row of failures: a recording has its note. The next pause is a short one again, also of the fleet.
func (p *pauser) succeeded(ctx context.Context) {
	p.mu.Lock()
	hasPaused := p.probesSinceSuccess > 0
	wasAnnounced := p.isAnnounced
	p.firstFailure = failure{}
	p.failuresInRow = 0
	p.probesSinceSuccess = 0
	p.isAnnounced = false
	p.mu.Unlock()
	if wasAnnounced {
		p.announceEnd(ctx)
	}
	if hasPaused {
		p.shortenNext(ctx)
	}
}

// shortenNext makes the next pause of the fleet begin with the shortest time until a probe. A pause that is not over
// stays as it is.
func (p *pauser) shortenNext(ctx context.Context) {
	_ = within(ctx, func(ctx context.Context) error {
		latest, revision, err := p.fleet.live.pause(ctx)
		if err != nil || latest == nil {
			return err
		}
		if !latest.Over || latest.ProbesWithNext == 0 {
			return nil
		}
		latest.ProbesWithNext = 0
		return p.fleet.live.setPause(ctx, *latest, revision)
	})
}

// announce logs why uploads pause, and which worker checks when they can continue.
func (p *pauser) announce(ctx context.Context, f failure, r role) {
	then := "this worker checks when uploads can continue"
	if r == followsLeader {
		then = "another worker checks when the fleet can continue"
	}
	p.fleet.logger.WarnContext(ctx, "all uploads fail the same way",
		slog.String("reason", f.reason), slog.String("then", then))
}

// announceEnd reports that the reason of an announced pause is gone.
func (p *pauser) announceEnd(ctx context.Context) {
	p.fleet.logger.InfoContext(ctx, "uploads succeed again")
	if p.onEvent != nil {
		p.onEvent(ingest.Event{Pause: &ingest.Pause{}})
	}
}

// pausedFor returns the failure for which this worker pauses, or the zero failure if it does not pause.
func (p *pauser) pausedFor() failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauseEnded == nil {
		return failure{}
	}
	return p.firstFailure
}

// wait returns when there is no pause. It reports false when the context ended.
func (p *pauser) wait(ctx context.Context) bool {
	p.mu.Lock()
	pauseEnded := p.pauseEnded
	p.mu.Unlock()
	if pauseEnded == nil { // there is no pause
		return ctx.Err() == nil
	}
	select {
	case <-pauseEnded:
		return true
	case <-ctx.Done():
		return false
	}
}

// rest pauses this worker, and the fleet if all workers fail, until uploads can continue or the context ends.
func (p *pauser) rest(ctx context.Context, begun begunPause) {
	defer p.endPause()
	p.beat(ctx)
	hasPausedFleet := p.probeUntilWell(ctx, begun)
	if hasPausedFleet {
		p.resume(context.WithoutCancel(ctx))
	}
}

// endPause lets this worker's uploads go on.
func (p *pauser) endPause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.pauseEnded)
	p.pauseEnded = nil
	p.failuresInRow = 0
}

// probeUntilWell waits and probes, in rounds that grow longer, until a probe succeeds or the context ends. If another
// worker leads a pause of the fleet, it waits for the end of that pause instead. It reports whether this worker paused
// the fleet in any round. Of the pauses since the last success, it reports only the first to the log.
func (p *pauser) probeUntilWell(ctx context.Context, begun begunPause) (hasPausedFleet bool) {
	toAnnounce := begun.isFirstSinceSuccess
	for ctx.Err() == nil {
		r, wait := p.beginRound(ctx, begun.failure)
		if toAnnounce {
			p.announce(ctx, begun.failure, r)
			toAnnounce = false
		}
		if r == followsLeader {
			p.follow(ctx)
			return hasPausedFleet
		}
		if r == leads {
			hasPausedFleet = true
		}
		if !sleep(ctx, wait) || p.isWell(ctx, begun.failure) {
			return hasPausedFleet
		}
	}
	return hasPausedFleet
}

// isWell probes whether uploads can succeed again.
func (p *pauser) isWell(ctx context.Context, f failure) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.probe(ctx, f) == nil
}

// role is a worker's part in a pause.
type role int

const (
	isAlone       role = iota // it pauses and probes only for itself
	leads                     // it paused the fleet, and probes for all workers
	followsLeader             // another worker paused the fleet, and probes
)

// beginRound begins the next round of a pause, for the fleet if all workers fail this way. It returns this worker's
// role and the time until the next probe.
func (p *pauser) beginRound(ctx context.Context, f failure) (role, time.Duration) {
	probes := p.countProbe()
	if f.kind == kindFile {
		return isAlone, probeAfter(probes)
	}
	r, probes := p.pauseFleet(ctx, f, probes)
	return r, probeAfter(probes)
}

// countProbe counts a probe, and returns how many there were before it since the last success.
func (p *pauser) countProbe() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probesSinceSuccess++
	return p.probesSinceSuccess - 1
}

// countOthers takes over the fleet's number of probes, plus the next probe, if that is higher than this worker's. It
// returns how many there were before the next one.
func (p *pauser) countOthers(others int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probesSinceSuccess = max(p.probesSinceSuccess, others+1)
	return p.probesSinceSuccess - 1
}

// pauseFleet pauses the fleet if all workers fail this way, and no other worker leads a pause. Otherwise, and if the
// engine does not respond, it returns another role. A pause of the same kind goes on with its length, whoever led it,
// so pauseFleet also returns how many probes there were.
func (p *pauser) pauseFleet(ctx context.Context, f failure, probes int) (role, int) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if !p.allFail(ctx, f.kind) {
		return isAlone, probes
	}
	now, err := p.fleet.live.now(ctx)
	if err != nil {
		return isAlone, probes
	}
	latest, revision, err := p.fleet.live.pause(ctx)
	if err != nil {
		return isAlone, probes
	}
	if latest.lasts(now) && latest.By != p.id {
		return followsLeader, probes
	}
	if latest != nil && latest.Kind == string(f.kind) {
		probes = p.countOthers(latest.ProbesWithNext)
	}
	next := livePause{
		Pause: Pause{Reason: f.reason, Until: now.Add(probeAfter(probes))},
		Kind:  string(f.kind), By: p.id, ProbesWithNext: probes + 1,
	}
	return p.lead(ctx, next, revision), probes
}

// allFail reports whether all workers of the fleet fail this way. It is false if the engine does not respond.
func (p *pauser) allFail(ctx context.Context, k kind) bool {
	workers, err := p.fleet.live.workers(ctx)
	if err != nil {
		return false
	}
	for _, w := range workers {
		if w.Kind != string(k) {
			return false
		}
	}
	return true
}

// lead pauses the fleet, with this worker as the one that probes. If that cannot be written down, for example because
// another worker was faster, this worker pauses alone.
func (p *pauser) lead(ctx context.Context, next livePause, revision uint64) role {
	err := p.fleet.live.setPause(ctx, next, revision)
	if err != nil {
		return isAlone
	}
	for _, name := range laneNames {
		_, _ = p.fleet.queue.stream.PauseConsumer(ctx, name, next.Until.Add(pauseMargin))
	}
	return leads
}

// follow waits until the pause that another worker leads is over, or that worker is late with its probe, as if it died.
func (p *pauser) follow(ctx context.Context) {
	for sleep(ctx, followEvery) {
		if p.isFleetPauseOver(ctx) {
			return
		}
	}
}

// isFleetPauseOver reports whether the fleet does not pause. It is false if the engine does not respond.
func (p *pauser) isFleetPauseOver(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	latest, _, err := p.fleet.live.pause(ctx)
	if err != nil {
		return false
	}
	now, err := p.fleet.live.now(ctx)
	return err == nil && !latest.lasts(now)
}

// resume ends the pause of the fleet, unless another worker leads it by now. The pause stays in the bucket with its
// length: if nothing succeeds, the next one is longer.
func (p *pauser) resume(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	latest, revision, err := p.fleet.live.pause(ctx)
	if err == nil && latest != nil {
		if latest.By != p.id {
			return
		}
		latest.Over = true
		_ = p.fleet.live.setPause(ctx, *latest, revision)
	}
	for _, name := range laneNames {
		_, _ = p.fleet.queue.stream.ResumeConsumer(ctx, name)
	}
}

// newProbe returns a function that finds out, without a recording, whether uploads can succeed again: the folder of a
// file that was missing exists, or the service responds.
func newProbe(client *clinicaldoc.Client) func(context.Context, failure) error {
	return func(ctx context.Context, f failure) error {
		if f.kind == kindFile {
			_, err := os.Stat(filepath.Dir(f.file))
			return err
		}
		_, err := client.Users.Me(ctx, clinicaldoc.WithoutRetry())
		return err
	}
}
