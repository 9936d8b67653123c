package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// world is one day of a clinic. Everything in it comes from the seed.
//
// It is repeatable for three reasons. Choices depend only on where they are made (draws), no two actors act at one
// instant (slot), and the SDK's randomness comes from the scenario (jitter).
type world struct {
	seed   uint64
	design design
	only   map[string]bool // the events that happen; nil: all
	mute   bool            // nothing is written down but what is broken: a third of the time

	began   time.Time
	calm    time.Time // from then on nothing goes wrong
	service *service
	station *station       // nil: there is none
	abort   func()         // ends a world that would not end
	running sync.WaitGroup // commits and copies that nobody waits for

	mu         sync.Mutex
	history    []line
	events     []string // steps and faults that happened
	violations []violation
	tally      tally
}

type line struct {
	at    time.Duration
	actor string
	text  string
}

// violation is a broken promise. Its kind does not change when the world shrinks.
type violation struct{ kind, detail string }

func newWorld(seed uint64) *world { return &world{seed: seed, design: newDesign(seed), tally: tally{}} }

// run lives through the world in a bubble of its own.
func (w *world) run(t *testing.T) {
	t.Helper()
	defer func() {
		if stuck := recover(); stuck != nil { // the bubble's own complaint: something blocks for ever, or was left running
			w.violate("stuck", "%v", stuck)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w.began = time.Now()
		w.calm = w.began.Add(w.design.scale + time.Hour)
		w.service = newService(w)
		defer w.service.close()
		var ctx context.Context
		ctx, w.abort = context.WithCancel(t.Context())
		defer w.abort()
		var actors sync.WaitGroup
		for _, a := range w.actors() {
			actors.Go(func() { a.live(ctx) })
		}
		actors.Wait()
		w.running.Wait()
	})
}

// actor lives in the world.
type actor interface{ live(ctx context.Context) }

func (w *world) actors() (list []actor) {
	var team []*program
	for i := range w.design.programs {
		team = append(team, newProgram(w, i, team))
		list = append(list, team[i])
	}
	for i := range w.design.clinicians {
		list = append(list, &clinician{being{world: w, name: fmt.Sprintf("c%d", i), number: 8 + i}, team})
	}
	if w.design.ingest {
		w.station = newStation(w, 20)
		list = append(list, w.station)
	}
	return list
}

// being is what all actors have: a name, and a number by which they are told apart.
type being struct {
	world  *world
	name   string
	number int
	step   int
}

// slotLength is the time in which each actor has an instant of its own.
const slotLength = 1024

// slot waits for the next instant that belongs to the number alone.
func (w *world) slot(number int) {
	now := time.Now().UnixNano()
	next := now - now%slotLength + slotLength + int64(number)
	time.Sleep(time.Duration(next - now))
}

// sleepUntil waits for a time of the world.
func (b *being) sleepUntil(at time.Duration) { time.Sleep(time.Until(b.world.began.Add(at))) }

// begin starts the step of that number at its time, if that is to happen.
func (b *being) begin(step int, at time.Duration) bool {
	b.step = step
	if !b.world.happens(fmt.Sprintf("%s.%d", b.name, step)) {
		return false
	}
	b.sleepUntil(at)
	return true
}

// draws are the choices of the being's present step.
func (b *being) draws(purpose string) *draws {
	return drawsAt(b.world.seed, uint64(b.number), uint64(b.step), hashOf(purpose))
}

// context gives the SDK its randomness: from the instant, so that no order of questions matters.
func (b *being) context(ctx context.Context) context.Context {
	return exchange.WithJitter(ctx, func() float64 {
		return drawsAt(b.world.seed, uint64(b.number), uint64(time.Now().UnixNano())).float()
	})
}

// happens reports whether an event is part of the world, and remembers that it came up.
func (w *world) happens(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.only != nil && !w.only[event] {
		return false
	}
	w.events = append(w.events, event)
	return true
}

func (w *world) say(who, format string, args ...any) {
	if w.mute {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, line{time.Since(w.began), who, fmt.Sprintf(format, args...)})
}

func (w *world) violate(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, violation{kind, fmt.Sprintf(format, args...)})
	w.history = append(w.history, line{time.Since(w.began), "ORACLE", kind + ": " + fmt.Sprintf(format, args...)})
}

func (w *world) count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.add(tally{what: n})
}

// lines are the history in the order of time; at one instant a program may ask for several pages at once.
func (w *world) lines() []string {
	slices.SortStableFunc(w.history, func(a, b line) int {
		if a.at != b.at {
			return int(max(min(a.at-b.at, 1), -1))
		}
		return strings.Compare(a.actor+a.text, b.actor+b.text)
	})
	list := make([]string, len(w.history))
	for i, l := range w.history {
		list[i] = fmt.Sprintf("%15s  %-7s %s", l.at, l.actor, l.text)
	}
	return list
}

func (w *world) hash() uint64 {
	h := fnv.New64a()
	for _, line := range w.lines() {
		_, _ = h.Write([]byte(line + "\n"))
	}
	return h.Sum64()
}
