package exchange

import (
	"context"
	"net/http"
)

// Stream takes in what is too large for memory, over any number of attempts. All of it runs in the goroutine of Do.
type Stream interface {
	// Prepare comes before each attempt and is no part of it: it may take other calls. An error ends the call.
	Prepare(ctx context.Context) error
	// Request builds the request of one attempt, with all its headers.
	Request(ctx context.Context) (*http.Request, error)
	// Take reads the response, without closing it, and returns how many bytes it gave. A nil error ends the call well. The
	// context is the one of the call; time between the watch's Pause and Progress is not held against the server.
	Take(ctx context.Context, resp *http.Response, watch Watch) (received int64, err error)
	// Judged tells an error with which Take judged the response or failed by itself from a response that broke off.
	Judged(err error) bool
	// Next decides what may follow the attempt that Explain gave this error. It is asked once after each.
	Next(err error, maxRetries int) Next
}

// take gives the stream the response.
func (c *Call) take(ctx context.Context, resp *http.Response, a *Attempt, watchdog *Watchdog) (err error) {
	defer func() { _ = resp.Body.Close() }()
	a.Status, a.Header = resp.StatusCode, resp.Header
	a.BytesReceived, err = c.Stream.Take(ctx, resp, watchdog)
	if err != nil && c.Stream.Judged(err) {
		a.Step = Content
	}
	return err
}
