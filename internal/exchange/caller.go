package exchange

import (
	"context"
	"net/http"
	"time"
)

// Caller is who makes a call: it learns of each attempt, and has the words for those that fail. It runs in the goroutine of Do.
type Caller interface {
	// Begin comes when limiter and token are behind and only sending remains; nil changes nothing.
	Begin(ctx context.Context, a *Attempt) *Trace
	// End comes once for each attempt, with all that is known of it, also for one that did not get as far as Begin, and for
	// one that something panicked in.
	End(ctx context.Context, a *Attempt)
	// Explain turns a failed attempt into the error that Do returns and End learns of. The attempt before it is nil for the
	// first one.
	Explain(a, before *Attempt) error
	// BeforeRetry comes before each retry by effect, with the first attempt whose outcome is not known, or else the last: it
	// may look at the server. An error ends the call.
	BeforeRetry(ctx context.Context, a *Attempt) error
}

// Trace is what a caller gives an attempt on its way.
type Trace struct {
	Context context.Context // instead of the one it got, for all that follows
	Parent  string          // W3C trace context for the server; empty: none
	State   string
}

func (c *call) begin(ctx context.Context, a *Attempt, header http.Header) context.Context {
	a.trace = c.Caller.Begin(ctx, a)
	a.trace.inject(header)
	return a.context(ctx)
}

func (c *call) end(ctx context.Context, a *Attempt) {
	a.Duration = time.Since(a.Started)
	c.Caller.End(a.context(ctx), a)
}

// Begun reports whether Begin gave the attempt a trace.
func (a *Attempt) Begun() bool { return a.trace != nil }

// Unfinished reports whether a panic, or the end of the goroutine, left the attempt without a result.
func (a *Attempt) Unfinished() bool { return a.Status == 0 && a.Err == nil }

// context is what Begin made of the attempt's context.
func (a *Attempt) context(ctx context.Context) context.Context {
	if a.trace == nil {
		return ctx
	}
	return a.trace.Context
}

func (t *Trace) inject(h http.Header) {
	if t == nil || t.Parent == "" {
		return
	}
	h["Traceparent"] = []string{t.Parent}
	delete(h, "Tracestate") // the caller's own belongs to another parent
	if t.State != "" {
		h["Tracestate"] = []string{t.State}
	}
}
