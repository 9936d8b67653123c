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
	passed   time.Time     // when the latest request passed
	changed  chan struct{} // closed when waiting calls may try again; nil if none waits

	limited   bool      // no more than remaining requests are under way, but always one
	remaining int       // how many further requests the server allows
	reported  bool      // an accepted request reported that, rather than a refusal
	learned   time.Time // when it was learned
	wrong     bool      // the server accepted a request beyond its own count, which is not used until the next refusal
}

// hold says why a request does not pass now.
type hold struct {
	until   time.Time       // when to try again at the latest
	closed  bool            // nothing passes before that
	changed <-chan struct{} // closed if it is worth trying earlier
}

// Enter waits until a request may be sent. It returns an error if the context ends before, or if its deadline is
// earlier than the end of the limit. If wait is false, the request passes immediately. Call Leave once for each Enter
// that returns nil.
func (g *Gate) Enter(ctx context.Context, wait bool) error {
	for {
		now := time.Now()
		held := g.pass(now, wait)
		if held.changed == nil {
			return nil
		}
		deadline, limited := ctx.Deadline()
		if limited && held.closed && held.until.After(deadline) {
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

// pass lets a request pass if it may be sent now: the hold is zero then.
func (g *Gate) pass(now time.Time, wait bool) hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	closed := now.Before(g.opens)
	nextByPace := g.passed.Add(gatePace)
	full := g.isFull() && now.Before(nextByPace)
	mustWait := closed || full
	if !wait || !mustWait {
		g.underWay++
		g.passed = now
		return hold{}
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	if closed {
		return hold{until: g.opens, closed: true, changed: g.changed}
	}
	return hold{until: nextByPace, changed: g.changed}
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

func (g *Gate) close(now time.Time, refused time.Duration) {
	if opens := now.Add(refused); opens.After(g.opens) {
		g.opens = opens
	}
	g.limited = true
	g.remaining = 0
	g.reported = false
	g.learned = now
	g.wrong = false
}

// learn records how many requests remain after one that was accepted. Responses may overtake each other, so a higher
// count is used only if its request was sent after the lower one was learned.
func (g *Gate) learn(now, sent time.Time, header http.Header) {
	remaining, reported := rateLimitRemaining(header)
	newer := sent.After(g.learned)
	beyond := g.limited && g.reported && g.remaining == 0 && remaining == 0
	switch {
	case g.wrong:
	case !reported:
		if newer {
			g.limited = false
		}
	case newer && beyond:
		g.limited = false
		g.wrong = true
	case newer, !g.limited, remaining < g.remaining:
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

func reportLimit(ctx context.Context, wait time.Duration) {
	if report, ok := ctx.Value(limitReportKey{}).(func(time.Duration)); ok {
		report(wait)
	}
}

// rateLimitRemaining reads how many requests the server still allows.
func rateLimitRemaining(header http.Header) (remaining int, reported bool) {
	value := header.Get("X-Ratelimit-Remaining")
	if value == "" {
		return 0, false
	}
	remaining, err := strconv.Atoi(value)
	return remaining, err == nil && remaining >= 0
}
