package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// born holds a new note against the notes that its recording has already, and against what was said of them.
func (w *world) born(f, earlier *fact) {
	w.count("notes", 1)
	c := f.by
	if c == nil {
		return
	}
	w.service.busy.Store(f.id)
	c.mu.Lock()
	c.born = f.id
	c.mu.Unlock()
	w.say(c.program.name, "   note %d is born of %.8s", f.id, f.fingerprint)
	if earlier != nil && (earlier.died().IsZero() || earlier.by == c && c.op == "create") {
		w.violate("two notes", "notes %d and %d of one recording", earlier.id, f.id)
	}
	c.carriedOut(change{at: time.Now(), by: c})
}

// acted holds a change of a note against what the call that made it could know.
func (w *world) acted(r request, f *fact, done change) {
	c := r.call
	if c == nil {
		return
	}
	c.carriedOut(done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := len(f.changes) - 1; at >= 0 && c.unchanged != nil && w.service.replica == nil && f.changes[at].at.After(c.readAt) && f.changes[at].at.Before(c.began) {
		w.violate("edit overwritten", "note %d: %s acts although the note is not what was read", f.id, c.op)
	}
	if r.attempt < 2 || r.attempt != c.writes || r.method == http.MethodDelete || len(f.changes) == 0 {
		return
	}
	theirs := f.changes[len(f.changes)-1]
	switch {
	case theirs.by == c || theirs.at.Before(c.firstWrite):
	case r.knew.doubtful && !r.knew.looked:
		w.violate("edit overwritten", "note %d: attempt %d of %s acts on somebody's change without having looked", f.id, r.attempt, c.op)
	case r.knew.looked && !r.knew.lookedAt.Before(theirs.at):
		w.violate("edit overwritten", "note %d: attempt %d of %s acts on somebody's change that it was shown", f.id, r.attempt, c.op)
	default:
		w.count("reached: a change between read and write", 1)
	}
}

// carriedOut notes that the service did what the call asked for.
func (c *call) carriedOut(done change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acts = append(c.acts, done)
	if c.over {
		c.program.world.count("reached: a late commit after the word", 1)
	}
	if c.denied {
		c.program.world.violate("denied", "%s in step %s.%d was said not to be done, and now is", c.op, c.program.name, c.step)
	}
}

// deny is the SDK's word that the call was not carried out.
func (c *call) deny() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = true
	if len(c.acts) > 0 {
		c.program.world.violate("denied", "%s in step %s.%d is said not to be done, and was", c.op, c.program.name, c.step)
	}
}

// end takes in the SDK's word on a call that is over.
func (c *call) end(err error) {
	w, p := c.program.world, c.program
	c.checkBounds()
	c.checkTrail(err)
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	if err == nil {
		w.say(p.name, "   %s: done", c.op)
		return
	}
	w.say(p.name, "   %s: %s", c.op, err)
	w.count("errors", 1)
	w.checkText(fmt.Sprintf("%v %+v %#v", err, err, err))
	c.checkAdvice(err)
	var conflict *clinicaldoc.ConflictError
	carriedOut := errors.As(err, &conflict) && strings.Contains(err.Error(), "the change was made")
	if conflict != nil {
		w.count("reached: conflict", 1)
	}
	if !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) && !carriedOut {
		c.deny()
	}
	c.checkUse(err)
}

// checkAdvice looks whether an error says one thing, and the right one, and what observers were told before.
func (c *call) checkAdvice(err error) {
	unknown, text := errors.Is(err, clinicaldoc.ErrOutcomeUnknown), err.Error()
	if unknown && c.op == "create" && strings.Contains(text, "try again later") || c.op == "else" && strings.Contains(text, "FindCreated") {
		c.program.world.violate("advice", "%s says %s", c.op, text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.observed {
		if observe(o.err).text != o.text {
			c.program.world.violate("advice", "%s: the error that an observer has was changed", c.op)
		}
	}
}

// observe keeps the error that an observer was told.
func (c *call) observe(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observed = append(c.observed, observe(err))
}

// checkUse looks whether the SDK could have known better: one that calls everything unknown would break no other promise.
func (c *call) checkUse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.program.world
	unknown := errors.Is(err, clinicaldoc.ErrOutcomeUnknown)
	refusal, refused := errors.AsType[*clinicaldoc.Error](err)
	gone := errors.Is(err, clinicaldoc.ErrNotFound) || refused && refusal.StatusCode == http.StatusGone
	switch {
	case c.op == "get" && c.requests == 1 && c.fault == breaksOff && !refused:
		w.violate("useless", "a read is not tried again, although its response broke off")
	case c.op == "create" && unknown && !c.doubtful:
		w.violate("useless", "a create is unknown, although no attempt can have had its effect")
	case c.op == "sign" && unknown && c.looked && c.showed.signed() && c.unchanged == nil:
		w.violate("useless", "note %d was shown to be signed, and that is unknown", c.note)
	case c.op == "sign" && errors.Is(err, clinicaldoc.ErrNoteIncomplete) && w.service.replica == nil && (c.stage == clinicaldoctest.StageComplete || c.stage == clinicaldoctest.StageSigned):
		w.violate("useless", "note %d is complete, and said not to be", c.note)
	case c.op == "update" && errors.Is(err, clinicaldoc.ErrConflict) && c.unchanged == nil && c.looked && c.showed.Analysis == c.text():
		w.violate("useless", "note %d was shown to hold our text, and that is a conflict", c.note)
	case (c.op == "delete" || c.op == "else") && gone && len(c.acts) > 0 && (!unknown || c.unchanged == nil), c.op == "revoke" && errors.Is(err, clinicaldoc.ErrUnauthorized) && len(c.acts) > 0:
		w.violate("useless", "%s did it, and misses it now", c.op)
	}
}

// text is what an update of the call's step writes.
func (c *call) text() string {
	return fmt.Sprintf("%s by %s in step %d", textMark, c.program.name, c.step)
}

// checkLoss holds what a lost create remembers against the truth.
func (c *call) checkLoss(lost *clinicaldoc.OutcomeUnknownError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named != 0 && lost.NoteID != c.named {
		c.program.world.violate("useless", "the response named note %d, and the error does not", c.named)
	}
}

// checkText looks for what nobody may print.
func (w *world) checkText(text string) {
	for _, mark := range []string{nameMark, textMark, "Numbat", storageHost} {
		if strings.Contains(text, mark) {
			w.violate("printed", "%s in %s", mark, text)
		}
	}
}

// reader reads what is logged.
type reader struct{ *world }

func (r reader) Write(p []byte) (int, error) {
	r.checkText(string(p))
	return len(p), nil
}

// checkRequest looks where the token goes.
func (w *world) checkRequest(c *call, req *http.Request) {
	wanted := map[string]string{apiHost: "Bearer " + c.token, storageHost: ""}
	if token, known := wanted[req.URL.Host]; !known || req.Header.Get("Authorization") != token {
		w.violate("token", "%s of %s went to %s, or with another token", req.Method, c.op, req.URL.Host)
	}
}

// bounds are what the documentation promises of a call: how many requests at most, and how long it may take. An attempt
// takes a stall timeout and the longest pause at most.
var bounds = map[string]struct {
	writes, requests int
	lasts            time.Duration
}{
	"create": {4, 4, 4 * attemptTime},
	"get":    {0, 4, 4 * attemptTime},
	"update": {4, 24, 24 * attemptTime},
	"sign":   {4, 28, 28 * attemptTime},
	"delete": {4, 24, 24 * attemptTime},
	"revoke": {4, 4, 4 * attemptTime},
	"else":   {4, 4, 4 * attemptTime},
	"find":   {0, 250, 0},
	"wait":   {0, 400, 0},
	"list":   {0, 4000, 0},

	"download": {0, 400, 0},
	"ingest":   {1000, 20000, 0},
}

const (
	attemptTime = 92 * time.Second
	limitTime   = 20 * time.Minute
	grace       = 3 * time.Second // after a context's end
)

func (c *call) checkBounds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, b, took := c.program.world, bounds[c.op], time.Since(c.began)
	took -= time.Duration(c.writes) * w.design.uploads // bytes move all the time
	// What a limit refuses is no attempt. At most three refusals come between two attempts.
	attempts := c.requests - c.limits
	writes := c.writes - c.limitedWrites
	refusals := 3 * (b.requests + 1)
	lasts := b.lasts
	if slices.Contains(w.design.faults, tooMany) {
		lasts += limitTime // a call also waits for limits that others met
	}
	switch {
	case writes > b.writes || attempts > b.requests || c.limits > refusals:
		w.violate("flood", "%s made %d requests, %d of them writes, %d limited", c.op, c.requests, c.writes, c.limits)
	case c.limit > 0 && took > c.limit+grace, c.limit == 0 && b.lasts > 0 && took > lasts:
		w.violate("late", "%s took %s", c.op, took)
	}
	w.count("requests of "+c.op, c.requests)
	w.count(highest+"requests of "+c.op, c.requests)
}

// longestSearch is how long a search takes at most, whatever clocks show.
const longestSearch = 12 * time.Hour

// refuseAddress takes in that a search was given an address that it can never use: to ask for it again does not help.
func (c *call) refuseAddress(f *fact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.op != "find" {
		return
	}
	if slices.Contains(c.useless, f) {
		c.program.world.violate("flood", "a search asks again for an address of note %d that it can never use", f.id)
	}
	c.useless = append(c.useless, f)
}

// maxRequests is far above what any world needs.
const maxRequests = 20_000

// checkFlood ends a world in which somebody asks without end.
func (w *world) checkFlood() {
	w.mu.Lock()
	w.tally["requests"]++
	flood := w.tally["requests"] == maxRequests
	w.mu.Unlock()
	if flood {
		w.violate("flood", "%d requests in a day", maxRequests)
		w.abort()
	}
}
