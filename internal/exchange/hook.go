package exchange

import (
	"context"
	"net/http"
	"time"
)

// Hook learns of each attempt, in the goroutine of Do.
type Hook interface {
	// Begin comes when limiter and token are behind and only sending remains; nil changes nothing.
	Begin(ctx context.Context, a *Attempt) *Trace
	// End comes once for each attempt, with all that is known of it, also for one that did not get as far as Begin, and for
	// one that something panicked in.
	End(ctx context.Context, a *Attempt)
}

// Trace is what a hook gives an attempt on its way.
type Trace struct {
	Context context.Context // instead of the one it got, for all that follows
	Parent  string          // W3C trace context for the server; empty: none
	State   string
}

func (c *call) begin(ctx context.Context, a *Attempt, header http.Header) context.Context {
	if c.Hook != nil {
		a.trace = c.Hook.Begin(ctx, a)
	}
	a.trace.inject(header)
	return a.context(ctx)
}

func (c *call) end(ctx context.Context, a *Attempt) {
	a.Duration = time.Since(a.Started)
	if c.Hook != nil {
		c.Hook.End(a.context(ctx), a)
	}
}

// Begun reports whether the hook's Begin has learned of the attempt.
func (a *Attempt) Begun() bool { return a.trace != nil }

// Unfinished reports whether a panic, or the end of the goroutine, left the attempt without a result.
func (a *Attempt) Unfinished() bool { return a.Status == 0 && a.Err == nil }

// context is what the hook made of the attempt's context.
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
