package exchange

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// gatePace is how often a gate lets a request pass although earlier requests have no response yet. A long upload does
// not hold up other calls for longer.
const gatePace = time.Second

var errOpensLate = redact.Fail("the limit lasts longer than the context's deadline allows", context.DeadlineExceeded)

// Gate holds back the requests of all calls of a client while the server refuses requests because of a limit. The zero
// value is open. It is safe for concurrent use.
//
// When the limit is over, one request goes first. The others follow if it was not refused. X-RateLimit-Remaining
// bounds how many are sent at a time; without that header, all of them are sent.
type Gate struct {
	mu       sync.Mutex
	opens    time.Time     // no request passes before
	underWay int           // requests that passed and have not returned
	lastPass time.Time     // when the latest request passed
	changed  chan struct{} // closed when waiting calls may try again; nil if none waits

	limited   bool      // no more than remaining requests may be under way, but always one
	remaining int       // how many further requests the server allows
	reported  bool      // an accepted request reported remaining, rather than a refusal
	learned   time.Time // when remaining was learned
	miscounts bool      // the server accepted a request beyond its own count, which is not used until the next refusal
}

// hold is why a request does not pass now.
type hold struct {
	until    time.Time       // when to try again at the latest
	isClosed bool            // nothing passes before that
	changed  <-chan struct{} // closed if it is worth trying earlier
}

// Enter waits until a request may be sent. It returns an error if the context ends before, or if its deadline is
// earlier than the end of the limit. If wait is false, the request passes immediately. Call Leave once for each Enter
// that returns nil.
func (g *Gate) Enter(ctx context.Context, wait bool) error {
	for {
		now := time.Now()
		held, passed := g.tryPass(now, wait)
		if passed {
			return nil
		}
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
	}
}

// tryPass counts the request and reports that it passed, if it may be sent now. Otherwise it returns why not.
func (g *Gate) tryPass(now time.Time, wait bool) (held hold, passed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isClosed := now.Before(g.opens)
	nextByPace := g.lastPass.Add(gatePace)
	isFull := g.isFull() && now.Before(nextByPace)
	mustWait := isClosed || isFull
	if !wait || !mustWait {
		g.underWay++
		g.lastPass = now
		return hold{}, true
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	if isClosed {
		return hold{until: g.opens, isClosed: true, changed: g.changed}, false
	}
	return hold{until: nextByPace, changed: g.changed}, false
}

// isFull reports whether as many requests are under way as the server allows. One is always allowed. The caller holds
// the lock.
func (g *Gate) isFull() bool {
	if !g.limited || g.underWay == 0 {
		return false
	}
	return g.underWay >= g.remaining
}

// Leave reports that a request returned: when it was sent, and the header of its response, nil if there was none. If
// the server refused it because of a limit, no further request passes for the time refused.
func (g *Gate) Leave(sent time.Time, header http.Header, refused time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.underWay--
	switch {
	case refused > 0:
		g.close(now, refused)
	case header != nil:
		g.learn(now, sent, header)
	}
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// close lets no request pass for the time refused, and one at a time after that until one is accepted.
func (g *Gate) close(now time.Time, refused time.Duration) {
	if opens := now.Add(refused); opens.After(g.opens) {
		g.opens = opens
	}
	g.limited = true
	g.remaining = 0
	g.reported = false
	g.learned = now
	g.miscounts = false
}

// learn records how many requests remain after one that was accepted. Responses may overtake each other, so a higher
// count is used only if its request was sent after the lower one was learned.
func (g *Gate) learn(now, sent time.Time, header http.Header) {
	if g.miscounts {
		return
	}
	remaining, isReported := rateLimitRemaining(header)
	isNewer := sent.After(g.learned)
	wasUsedUp := g.limited && g.reported && g.remaining == 0
	switch {
	case !isReported:
		if isNewer {
			g.limited = false
		}
	case isNewer && wasUsedUp && remaining == 0: // and yet this one was accepted
		g.limited = false
		g.miscounts = true
	case isNewer, !g.limited, remaining < g.remaining:
		g.limited = true
		g.remaining = remaining
		g.reported = true
		g.learned = now
	}
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
