package exchange

import (
	"context"
	"net/http"
)

// Caller is who makes a call: it learns of each attempt, and has the words for those that fail. It runs in the goroutine of Do.
type Caller interface {
	// Begin comes when limiter and token are behind and only sending remains. It may add to the header, and returns the context
	// for all that follows.
	Begin(ctx context.Context, a *Attempt, header http.Header) context.Context
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
