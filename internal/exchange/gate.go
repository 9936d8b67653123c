package exchange

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// gatePace is how often a gate lets a request pass that should let others go first, or whose earlier requests have no
// response yet. A long upload does not hold up other calls for longer.
const gatePace = time.Second

var errOpensLate = redact.Fail("the limit lasts longer than the context's deadline allows", context.DeadlineExceeded)

// Gate holds back the requests of all calls of a client while the server refuses requests because of a limit. The zero
// value is open. It is safe for concurrent use.
//
// When the limit is over, one request goes first. The others follow if it was not refused. X-RateLimit-Remaining
// bounds how many are sent at a time. Without that header, as many are sent as the server accepted between its last two
// refusals, and then one more, which shows whether the limit is reached. The calls that were refused most often go
// first. Otherwise a call among many could be refused in every window, until it has no retries left.
type Gate struct {
	mu       sync.Mutex
	opensAt  time.Time     // no request passes before
	underWay int           // requests that passed and have not returned
	lastPass time.Time     // when the latest request passed
	changed  chan struct{} // closed when waiting calls may try again; nil if none waits
	waiting  map[int]int   // how many calls wait, by how often they were refused

	isLimited           bool      // no more than remaining requests may be under way, but always one
	remaining           int       // how many further requests the server allows
	remainingIsReported bool      // an accepted request reported remaining, rather than a refusal
	learnedAt           time.Time // when remaining was learned
	// serverMiscounts is set if the server accepted a request beyond its own count, which is then not used until the
	// next refusal.
	serverMiscounts bool

	// For a server that does not report how many requests remain.
	accepted     int // requests that it accepted since it last refused one
	acceptedThen int // requests that it accepted before that, since the refusal before; 0: not known
}

// hold is why a request does not pass now.
type hold struct {
	until    time.Time       // when to try again at the latest
	isClosed bool            // nothing passes before that
	changed  <-chan struct{} // closed if it is worth trying earlier
}

// Enter waits until a request may be sent. It returns an error if the context ends before, or if its deadline is
// earlier than the end of the limit. refusals is how often the server has refused the call because of a limit. If
// mayWait is false, the request passes immediately. Call Leave once for each Enter that returns nil.
func (g *Gate) Enter(ctx context.Context, mayWait bool, refusals int) error {
	now := time.Now()
	if !mayWait {
		g.pass(now)
		return nil
	}
	held, passed := g.tryPass(now, refusals)
	if passed {
		return nil
	}
	g.startWaiting(refusals)
	defer g.stopWaiting(refusals)
	for !passed {
		deadline, hasDeadline := ctx.Deadline()
		if hasDeadline && held.isClosed && held.until.After(deadline) {
			return errOpensLate
		}
		timer := time.NewTimer(held.until.Sub(now))
		select {
		case <-ctx.Done():
		case <-held.changed:
		case <-timer.C:
		}
		timer.Stop()
		if ended := redact.ContextErr(ctx); ended != nil {
			return ended
		}
		now = time.Now()
		held, passed = g.tryPass(now, refusals)
	}
	return nil
}

// pass counts a request that does not wait.
func (g *Gate) pass(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.underWay++
	g.lastPass = now
}

func (g *Gate) startWaiting(refusals int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[int]int{}
	}
	g.waiting[refusals]++
}

// stopWaiting lets the others try, which may have waited for this one.
func (g *Gate) stopWaiting(refusals int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[refusals]--
	if g.waiting[refusals] == 0 {
		delete(g.waiting, refusals)
	}
	g.wake()
}

// wake lets waiting calls try again. The caller holds the lock.
func (g *Gate) wake() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// tryPass counts the request and reports that it passed, if it may be sent now. Otherwise it returns why not.
func (g *Gate) tryPass(now time.Time, refusals int) (held hold, passed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isClosed := now.Before(g.opensAt)
	latest := g.lastPass
	if g.opensAt.After(latest) {
		latest = g.opensAt
	}
	nextByPace := latest.Add(gatePace)
	mustLetPass := g.isFull() || g.isOvertaking(refusals)
	isHeld := mustLetPass && now.Before(nextByPace)
	if !isClosed && !isHeld {
		g.underWay++
		g.lastPass = now
		return hold{}, true
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	if isClosed {
		return hold{until: g.opensAt, isClosed: true, changed: g.changed}, false
	}
	return hold{until: nextByPace, changed: g.changed}, false
}

// isOvertaking reports whether a call would go before one that was refused more often. The caller holds the lock.
func (g *Gate) isOvertaking(refusals int) bool {
	for others := range g.waiting {
		if others > refusals {
			return true
		}
	}
	return false
}

// isFull reports whether as many requests are under way as the server allows. One is always allowed. The caller holds
// the lock.
func (g *Gate) isFull() bool {
	if !g.isLimited || g.underWay == 0 {
		return false
	}
	return g.underWay >= g.remaining
}

// Leave reports that a request returned: when it was sent, and the header of its response, nil if there was none. If
// the server refused it because of a limit, refusedFor is positive, and no further request passes for that time.
func (g *Gate) Leave(sent time.Time, header http.Header, refusedFor time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.underWay--
	switch {
	case refusedFor > 0:
		g.close(now, sent, refusedFor)
	case header != nil:
		g.learn(now, sent, header)
	}
	g.wake()
}

// close lets no request pass for that time, and one at a time after that until one is accepted.
func (g *Gate) close(now, sent time.Time, refusedFor time.Duration) {
	if opens := now.Add(refusedFor); opens.After(g.opensAt) {
		g.opensAt = opens
	}
	isFirstRefusal := sent.After(g.learnedAt) // the others were sent before this one was known
	if isFirstRefusal && g.accepted > 0 {
		g.acceptedThen = g.accepted
		g.accepted = 0
	}
	g.isLimited = true
	g.remaining = 0
	g.remainingIsReported = false
	g.learnedAt = now
	g.serverMiscounts = false
}

// learn records how many requests remain after one that was accepted. Responses may overtake each other, so a higher
// count is used only if its request was sent after the lower one was learned.
func (g *Gate) learn(now, sent time.Time, header http.Header) {
	if g.serverMiscounts {
		return
	}
	remaining, isReported := rateLimitRemaining(header)
	isNewer := sent.After(g.learnedAt)
	wasUsedUp := g.isLimited && g.remainingIsReported && g.remaining == 0
	switch {
	case !isReported:
		g.countAccepted(isNewer)
	case isNewer && wasUsedUp && remaining == 0: // none was left before this one, and yet it was accepted
		g.isLimited = false
		g.serverMiscounts = true
	case isNewer, !g.isLimited, remaining < g.remaining:
		g.isLimited = true
		g.remaining = remaining
		g.remainingIsReported = true
		g.learnedAt = now
	}
}

// countAccepted counts a request that was accepted, for a server that does not report how many remain. A request that
// is not newer than the latest refusal belongs to the limit that is now over. If more requests are accepted than
// before, the limit is another one, so all requests are sent.
func (g *Gate) countAccepted(isNewer bool) {
	if !isNewer {
		g.acceptedThen++
		return
	}
	g.accepted++
	g.isLimited = g.accepted <= g.acceptedThen
	g.remaining = g.acceptedThen - g.accepted
	g.remainingIsReported = false
}

type limitReportKey struct{}

// WithLimitReport returns a context whose calls report a request that the server refused because of a limit. The
// report receives the time that the client's calls now wait. It is called in the goroutine of the call.
func WithLimitReport(ctx context.Context, report func(wait time.Duration)) context.Context {
	return context.WithValue(ctx, limitReportKey{}, report)
}

// reportLimit calls the report of the context, if it has one.
func reportLimit(ctx context.Context, wait time.Duration) {
	if report, ok := ctx.Value(limitReportKey{}).(func(time.Duration)); ok {
		report(wait)
	}
}

// rateLimitRemaining returns how many requests the server still allows, and whether the header reports that.
func rateLimitRemaining(header http.Header) (remaining int, reported bool) {
	value := header.Get("X-Ratelimit-Remaining")
	if value == "" {
		return 0, false
	}
	remaining, err := strconv.Atoi(value)
	return remaining, err == nil && remaining >= 0
}
