package fetch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

// Loop drives a download: it makes the attempts, with pauses between them.
type Loop struct {
	Transport        http.RoundTripper
	StallTimeout     time.Duration
	Trace            func(context.Context, *stall.Watchdog) context.Context // watches the transport
	MaxRetries       int
	MinWait, MaxWait time.Duration
	Report           func(context.Context, Attempt)
}

// Attempt is what is told of an attempt.
type Attempt struct {
	Number     int
	StatusCode int         // 0: no response
	Header     http.Header // nil: no response
	Received   int64
	Duration   time.Duration
	Err        error
}

// Run makes attempts until the recording is complete or none may follow.
func (l Loop) Run(ctx context.Context, d *Download) error {
	for number := 1; ; number++ {
		if err := d.Prepare(ctx); err != nil {
			return err
		}
		report := Attempt{Number: number}
		started := time.Now()
		err := l.attempt(ctx, d, &report)
		report.Duration, report.Err = time.Since(started), err
		l.Report(ctx, report)
		if err == nil {
			return d.CheckSize(ctx)
		}
		next := d.Next(err, l.MaxRetries)
		if !next.Retry {
			return err
		}
		if next.AtOnce || l.pause(ctx, next) {
			continue
		}
		if ctx.Err() != nil {
			return ended(ctx, "gave up waiting to retry", err)
		}
		return err
	}
}

// attempt sends one request to storage and takes in what comes. A nil error means that the recording is complete.
func (l Loop) attempt(ctx context.Context, d *Download, report *Attempt) error {
	guarded, watchdog := stall.Guard(ctx, l.StallTimeout)
	defer watchdog.Stop()
	req, err := d.Request(l.Trace(guarded, watchdog))
	if err != nil {
		return err
	}
	resp, err := l.Transport.RoundTrip(req)
	if err != nil {
		return explain(ctx, guarded, Break(err))
	}
	defer func() { _ = resp.Body.Close() }()
	report.StatusCode, report.Header = resp.StatusCode, resp.Header
	report.Received, err = d.Take(ctx, resp, watchdog)
	return explain(ctx, guarded, err)
}

// explain finds out why a request or a response broke off. The guarded context is the caller's under the watchdog.
func explain(ctx, guarded context.Context, err error) error {
	broken, ok := errors.AsType[*Error](err)
	if !ok || broken.Kind != Broken {
		return err
	}
	switch cause := context.Cause(guarded); {
	case ctx.Err() != nil:
		return ended(ctx, "the download broke off")
	case cause != nil:
		return Break(cause)
	case retry.Permanent(err):
		return failed("no answer: "+redact.Cause(broken.Causes[0]), broken.Causes...)
	}
	return broken
}

// ended is the end of the caller's context, beside what failed before it.
func ended(ctx context.Context, text string, earlier ...error) error {
	causes := append([]error{ctx.Err(), context.Cause(ctx)}, earlier...)
	return failed(text+": "+redact.Cause(ctx.Err()), causes...)
}

// pause waits before the next attempt, or reports that the wait does not fit.
func (l Loop) pause(ctx context.Context, next Next) bool {
	wait := retry.Backoff(next.Failures-1, l.MinWait, l.MaxWait, next.RetryAfter)
	if deadline, limited := ctx.Deadline(); next.RetryAfter > l.MaxWait || limited && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
