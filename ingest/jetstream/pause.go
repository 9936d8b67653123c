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
	sameFailures = 5           // in a row, and a worker pauses
	firstProbe   = time.Second // after which it looks whether things are well; doubled each time
	maxProbe     = time.Minute
	probeTimeout = 10 * time.Second
	pauseMargin  = 5 * time.Second // by which the fleet's pause is longer than the time to the next look
	followEvery  = time.Second     // a worker that does not look itself asks whether the pause is over
)

// probeAfter is how long a pause lasts before somebody looks whether things are well.
func probeAfter(step int) time.Duration { return min(firstProbe<<min(step, 10), maxProbe) }

// kind is how something failed, as far as it matters for a pause. The zero kind is no failure.
type kind string

// The kinds. Files are this machine's matter: other workers may go on.
const (
	kindService      kind = "service"
	kindUnauthorized kind = "unauthorized"
	kindForbidden    kind = "forbidden"
	kindRateLimited  kind = "rate limited"
	kindFile         kind = "file"
	kindEngine       kind = "engine"
)

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

// pauser lets a worker, and the fleet, rest while everything fails the same way.
type pauser struct {
	fleet *Fleet
	id    string
	probe func(ctx context.Context, f failure) error
	beat  func(ctx context.Context) // says how this worker fails
	event func(ingest.Event)        // of the caller's; nil: nobody is told
	catch func(then func())         // see work

	resting sync.WaitGroup

	mu      sync.Mutex
	failing failure
	count   int           // in a row
	step    int           // of the growing pauses; 0 after a success
	said    bool          // why, since the last success
	gate    chan struct{} // closed when the pause is over; nil: there is none
}

// report takes in how a recording ended. The error is of one that failed.
func (p *pauser) report(ctx context.Context, err error, file string) {
	if err == nil {
		p.succeeded(ctx)
		return
	}
	f := failure{kind: kindOf(err), cause: err, file: file, reason: redact.Opaque(err).Error()}
	begun, begins := p.failed(f)
	if !begins {
		return
	}
	p.resting.Go(func() {
		defer p.catch(func() {})
		p.rest(ctx, begun.failure, begun.first)
	})
	if begun.first && p.event != nil {
		p.event(ingest.Event{Pause: &ingest.Pause{Why: begun.cause, Next: begun.next}})
	}
}

// beginning is a pause that begins.
type beginning struct {
	failure
	first bool      // since the last success
	next  time.Time // when it is tried again
}

// failed counts a failure and reports whether a pause begins with it. The pause is for the first failure of the
// row: those that follow may be its consequences.
func (p *pauser) failed(f failure) (begun beginning, begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.kind != p.failing.kind {
		p.count = 0
	}
	if p.count == 0 {
		p.failing = f
	}
	p.count++
	if p.count < sameFailures || p.gate != nil || f.kind == kindEngine {
		return beginning{}, false
	}
	p.gate = make(chan struct{})
	begun = beginning{failure: p.failing, first: !p.said, next: time.Now().Add(probeAfter(p.step))}
	p.said = true
	return begun, true
}

// succeeded takes in that a recording has its note: the next pause is a short one again, also of the fleet.
func (p *pauser) succeeded(ctx context.Context) {
	p.mu.Lock()
	paused, said := p.step > 0, p.said
	p.failing, p.count, p.step, p.said = failure{}, 0, 0, false
	p.mu.Unlock()
	if said {
		p.fleet.logger.InfoContext(ctx, "uploads succeed again")
	}
	if said && p.event != nil {
		p.event(ingest.Event{Pause: &ingest.Pause{}})
	}
	if !paused {
		return
	}
	_ = within(ctx, func(ctx context.Context) error {
		latest, revision, err := p.fleet.live.pause(ctx)
		if err != nil || latest == nil || !latest.Over || latest.Step == 0 {
			return err
		}
		latest.Step = 0
		return p.fleet.live.setPause(ctx, *latest, revision)
	})
}

// pausing reports how all fails, if this worker pauses.
func (p *pauser) pausing() failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate == nil {
		return failure{}
	}
	return p.failing
}

// wait returns when there is no pause. It reports false when the context ended.
func (p *pauser) wait(ctx context.Context) bool {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate == nil {
		return ctx.Err() == nil
	}
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

// rest is a pause, with a look from time to time whether things are well.
func (p *pauser) rest(ctx context.Context, f failure, say bool) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.gate)
		p.gate, p.count = nil, 0
	}()
	warn := func(then string) {
		if say {
			p.fleet.logger.WarnContext(ctx, "all uploads fail the same way",
				slog.String("reason", f.reason), slog.String("then", then))
		}
		say = false
	}
	p.beat(ctx)
	lead := false
	for ctx.Err() == nil {
		step := p.next()
		var other *livePause
		if lead, other = p.together(ctx, f, step); other != nil {
			warn("another worker checks when the fleet can continue")
			p.follow(ctx)
			return
		}
		warn("this worker checks when uploads can continue")
		if !pause(ctx, probeAfter(step)) {
			break
		}
		probing, cancel := context.WithTimeout(ctx, probeTimeout)
		err := p.probe(probing, f)
		cancel()
		if err == nil {
			break
		}
	}
	if lead {
		p.resume(context.WithoutCancel(ctx))
	}
}

// next counts the pauses since the last success.
func (p *pauser) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step++
	return p.step - 1
}

// together pauses the whole fleet if all its workers fail this way. It reports whether this worker leads the
// pause, or who else does. Where the engine does not respond the worker pauses alone.
func (p *pauser) together(ctx context.Context, f failure, step int) (lead bool, other *livePause) {
	if f.kind == kindFile {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	workers, err := p.fleet.live.workers(ctx)
	if err != nil {
		return false, nil
	}
	for _, w := range workers {
		if w.Kind != string(f.kind) {
			return false, nil
		}
	}
	now, err := p.fleet.live.now(ctx)
	if err != nil {
		return false, nil
	}
	current, revision, err := p.fleet.live.pause(ctx)
	switch {
	case err != nil:
		return false, nil
	case current != nil && !current.Over && current.By != p.id && now.Before(current.Until.Add(pauseMargin)):
		return false, current
	case current != nil && current.Kind == string(f.kind): // the next one of several is longer, whoever leads it
		step = max(step, current.Step)
		p.mu.Lock()
		p.step = step + 1
		p.mu.Unlock()
	}
	until := now.Add(probeAfter(step))
	next := livePause{Pause: Pause{Reason: f.reason, Until: until}, Kind: string(f.kind), By: p.id, Step: step + 1}
	if err := p.fleet.live.setPause(ctx, next, revision); err != nil {
		return false, nil
	}
	for _, name := range laneNames {
		_, _ = p.fleet.queue.stream.PauseConsumer(ctx, name, until.Add(pauseMargin))
	}
	return true, nil
}

// follow waits until the pause that another worker leads is over, or that worker is dead.
func (p *pauser) follow(ctx context.Context) {
	for pause(ctx, followEvery) {
		request, cancel := context.WithTimeout(ctx, requestTimeout)
		current, _, err := p.fleet.live.pause(request)
		now, failed := p.fleet.live.now(request)
		cancel()
		isOver := current == nil || current.Over || now.After(current.Until.Add(pauseMargin))
		if err == nil && failed == nil && isOver {
			return
		}
	}
}

// resume ends a pause that this worker leads. Its length is remembered: if nothing succeeds, the next one is longer.
func (p *pauser) resume(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	current, revision, err := p.fleet.live.pause(ctx)
	if err == nil && current != nil && current.By == p.id {
		current.Over = true
		_ = p.fleet.live.setPause(ctx, *current, revision)
	}
	for _, name := range laneNames {
		_, _ = p.fleet.queue.stream.ResumeConsumer(ctx, name)
	}
}

// probe finds out, without a recording, whether uploads can succeed again.
func probe(client *clinicaldoc.Client) func(context.Context, failure) error {
	return func(ctx context.Context, f failure) error {
		if f.kind == kindFile {
			_, err := os.Stat(filepath.Dir(f.file))
			return err
		}
		_, err := client.Users.Me(ctx, clinicaldoc.WithoutRetry())
		return err
	}
}
