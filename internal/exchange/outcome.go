package exchange

import (
	"context"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Attempt is what one attempt came to.
type Attempt struct { //nolint:errname // an outcome first; an error for the retry loop alone
	Number        int
	Started       time.Time     // when it began to send; the limiter's time is before that
	Duration      time.Duration // since then, known to Hook.End
	BytesSent     int64         // of the body
	BytesReceived int64         // of the body

	Status  int // of the response; 0 when none came whole, but for a stream
	Header  http.Header
	Body    []byte // valid until Release
	TooLong bool   // a success whose body is longer than it may be

	permanent bool // the failure will be the same next time
	Step      Step // that failed; None for a response
	Sent      Sent

	Cause error // why it failed
	Ended error // of the caller's context, if that was over too
	Err   error // as Explain put it; nil for a 2xx

	trace *Trace // of the hook; nil: none, or nothing was to be sent
}

// Step is where an attempt without a response ended.
type Step uint8

// The steps that can fail.
const (
	None      Step = iota
	Limit          // the limiter refused; nothing was sent
	Authorize      // there is no token; nothing was sent
	Source         // the body could not be read; the server cannot have all of it
	Commit         // BeforeCommit refused; the server cannot have all of it
	Context        // the caller's context ended
	Network        // no response, or only a part of one
	Content        // the stream cannot use the response, or has no request
)

// Error makes an attempt the error by which the retry loop learns of it.
func (a *Attempt) Error() string { return redact.Cause(a.Cause) }

// Outcome is what the retry decision goes by.
func (a *Attempt) Outcome() Outcome {
	return Outcome{Status: a.Status, Sent: a.Sent, Permanent: a.permanent}
}

// response tells the retry loop of the attempt. It has no headers, or http.Client would follow a redirect; send has done so
// where that is allowed.
func (a *Attempt) response() (*http.Response, error) {
	if a.Step != None {
		return nil, a
	}
	return &http.Response{StatusCode: a.Status, Body: http.NoBody}, nil
}

func success(status int) bool { return status >= 200 && status <= 299 }

// judge finds the cause of an attempt without a response where it is told best: by the stream, at our own end, in the
// caller's context, in the watchdog, or else in the transport's error.
func (a *Attempt) judge(ctx, watched context.Context, state *SendState, err error) {
	a.Ended = redact.ContextErr(ctx)
	refused, failed := state.Failure()
	cause := context.Cause(watched)
	switch {
	case a.Step == Content:
		a.Cause = err
	case refused != nil:
		a.Step, a.Cause, a.Sent, a.permanent = Commit, refused, Partly, true
	case failed != nil:
		a.Step, a.Cause, a.Sent, a.permanent = Source, failed, Partly, true
	case a.Ended != nil:
		a.Step, a.Cause, a.permanent = Context, a.Ended, true
	case cause != nil:
		a.Step, a.Cause = Network, cause
	default:
		a.Step, a.Cause, a.permanent = Network, err, Permanent(err)
	}
}
