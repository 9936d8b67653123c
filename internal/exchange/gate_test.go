package exchange_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestGate_Open_AllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	var gate exchange.Gate
	header := http.Header{"X-Ratelimit-Remaining": {"59"}}
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = gate.Enter(ctx, true, 0)
		gate.Leave(time.Now(), header, 0)
	}))
}

// The end of an attempt reports how long the calls of the client wait.
func TestGate_Refusal_IsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		codes := []int{http.StatusTooManyRequests, http.StatusOK}
		request := newCall(func(r *http.Request) (*http.Response, error) {
			resp := status(r, codes[0])
			codes = codes[1:]
			resp.Header.Set("Retry-After", "50")
			return resp, nil
		})
		request.Peer.Gate = new(exchange.Gate)
		request.Peer.MaxRetryAfter = time.Minute
		var limited []time.Duration
		request.Caller = ended{end: func(a *exchange.Attempt) { limited = append(limited, a.LimitedFor) }}
		start := time.Now()
		_, err := request.Do(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{50 * time.Second, 0}, limited)
		assert.Equal(t, 50*time.Second, time.Since(start))
	})
}

// gated is a gate, and what a test does with it.
type gated struct {
	exchange.Gate

	t *testing.T
}

// send sends a request, which must pass immediately, and returns when it was sent.
func (g *gated) send() time.Time {
	g.t.Helper()
	require.True(g.t, g.passes())
	return time.Now()
}

// passes reports whether a request passes immediately. It is then under way.
func (g *gated) passes() bool {
	ended, cancel := context.WithCancel(g.t.Context())
	cancel()
	return g.Enter(ended, true, 0) == nil
}

// room sends as many requests as pass immediately, at most ten, and returns their number. None has a response that
// the gate learns from.
func (g *gated) room() int {
	sent := 0
	for sent < 10 && g.passes() {
		sent++
	}
	for range sent {
		g.Leave(time.Now(), nil, 0)
	}
	return sent
}

// accept sends a request that the server accepts, a second after all before it. The response takes a second.
func (g *gated) accept(header http.Header) {
	g.t.Helper()
	time.Sleep(time.Second)
	sent := g.send()
	time.Sleep(time.Second)
	g.Leave(sent, header, 0)
}

// refuse sends a request that the server refuses because of a limit, and waits for the end of the limit.
func (g *gated) refuse() {
	g.t.Helper()
	time.Sleep(time.Second)
	sent := g.send()
	time.Sleep(time.Second)
	g.Leave(sent, http.Header{}, time.Minute)
	time.Sleep(time.Minute)
}

const unlimited = 10 // as many as room sends

func remaining(n string) http.Header { return http.Header{"X-Ratelimit-Remaining": {n}} }

// inGate runs a test with a gate of its own, in virtual time.
func inGate(t *testing.T, name string, test func(t *testing.T, g *gated)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, &gated{t: t}) })
	})
}

func TestGate_Refusal_HoldsRequestsUntilTheLimitEnds(t *testing.T) {
	t.Parallel()
	inGate(t, "requests wait", func(t *testing.T, g *gated) {
		g.Leave(g.send(), http.Header{}, time.Minute)
		start := time.Now()
		assert.False(t, g.passes())
		require.NoError(t, g.Enter(t.Context(), false, 0), "this one does not wait")
		g.Leave(start, nil, 0)
		early, cancel := context.WithDeadline(t.Context(), start.Add(time.Minute-time.Nanosecond))
		defer cancel()
		require.ErrorIs(t, g.Enter(early, true, 0), context.DeadlineExceeded)
		assert.Zero(t, time.Since(start), "nothing is gained by waiting")
		late, cancel := context.WithDeadline(t.Context(), start.Add(time.Hour))
		defer cancel()
		require.NoError(t, g.Enter(late, true, 0))
		assert.Equal(t, time.Minute, time.Since(start))
	})
	inGate(t, "a context ends the wait", func(t *testing.T, g *gated) {
		g.Leave(g.send(), http.Header{}, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		require.ErrorIs(t, g.Enter(ctx, true, 0), context.Canceled)
		assert.Equal(t, time.Second, time.Since(start))
	})
	inGate(t, "the longer limit counts", func(t *testing.T, g *gated) {
		first, second := g.send(), g.send()
		g.Leave(first, http.Header{}, time.Minute)
		g.Leave(second, http.Header{}, time.Second)
		start := time.Now()
		require.NoError(t, g.Enter(t.Context(), true, 0))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestGate_LimitIsOver_CallsRefusedMostOftenGoFirst(t *testing.T) {
	t.Parallel()
	const travel = 100 * time.Millisecond
	// waitTogether has calls with these numbers of refusals wait together. It returns their order, and when the last
	// response came.
	waitTogether := func(t *testing.T, g *gated, response http.Header, refusals ...int) (order []int, took time.Duration) {
		t.Helper()
		start := time.Now()
		g.Leave(g.send(), http.Header{}, time.Minute)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, n := range refusals {
			all.Go(func() {
				err := g.Enter(t.Context(), true, n)
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				sent := time.Now()
				time.Sleep(travel)
				g.Leave(sent, response, 0)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		return order, time.Since(start)
	}
	inGate(t, "others follow in order", func(t *testing.T, g *gated) {
		order, took := waitTogether(t, g, nil, 0, 2, 0, 3, 1, 1)
		assert.Equal(t, []int{3, 2, 1, 1, 0, 0}, order)
		assert.Equal(t, time.Minute+6*travel, took)
	})
	inGate(t, "others follow together if many requests remain", func(t *testing.T, g *gated) {
		order, took := waitTogether(t, g, remaining("9"), 0, 1, 2, 3, 4, 5)
		assert.Equal(t, []int{5, 4, 3, 2, 1, 0}, order)
		assert.Equal(t, time.Minute+2*travel, took)
	})
	inGate(t, "one that gives up holds up nobody", func(t *testing.T, g *gated) {
		g.Leave(g.send(), http.Header{}, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { assert.ErrorIs(t, g.Enter(ctx, true, 1), context.Canceled) })
		synctest.Wait()
		cancel()
		all.Wait()
		time.Sleep(time.Minute)
		assert.True(t, g.passes())
	})
}

func TestGate_LimitIsOver_OneRequestGoesFirst(t *testing.T) {
	t.Parallel()
	inGate(t, "others follow its response", func(t *testing.T, g *gated) {
		g.refuse()
		first := g.send()
		assert.False(t, g.passes())
		start := time.Now()
		time.AfterFunc(time.Millisecond, func() { g.Leave(first, remaining("5"), 0) })
		require.NoError(t, g.Enter(t.Context(), true, 0))
		assert.Equal(t, time.Millisecond, time.Since(start))
	})
	inGate(t, "others follow each second if it has none", func(t *testing.T, g *gated) {
		g.refuse()
		g.send()
		for range 3 {
			start := time.Now()
			require.NoError(t, g.Enter(t.Context(), true, 0))
			assert.Equal(t, time.Second, time.Since(start))
		}
	})
	inGate(t, "a deadline may pass before its response", func(t *testing.T, g *gated) {
		g.refuse()
		g.send()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, g.Enter(ctx, true, 0), context.DeadlineExceeded)
		assert.Equal(t, time.Millisecond, time.Since(start), "its response could have come earlier")
	})
	inGate(t, "a response that is lost teaches nothing", func(t *testing.T, g *gated) {
		g.refuse()
		g.Leave(g.send(), nil, 0)
		assert.Equal(t, 1, g.room())
	})
}

func TestGate_RemainingIsReported_BoundsRequests(t *testing.T) {
	t.Parallel()
	inGate(t, "as many as remain", func(t *testing.T, g *gated) {
		assert.Equal(t, unlimited, g.room())
		g.accept(remaining("3"))
		assert.Equal(t, 3, g.room())
		g.accept(remaining("7"))
		assert.Equal(t, 7, g.room())
		g.accept(remaining("0"))
		assert.Equal(t, 1, g.room(), "one is always allowed")
	})
	inGate(t, "what cannot be read is not a number", func(t *testing.T, g *gated) {
		for _, value := range []string{"-1", "few", ""} {
			g.accept(remaining(value))
			assert.Equal(t, unlimited, g.room(), value)
		}
	})
	inGate(t, "an older response can only lower it", func(t *testing.T, g *gated) {
		first, second, third := g.send(), g.send(), g.send()
		time.Sleep(time.Second)
		g.Leave(second, remaining("3"), 0)
		g.Leave(first, remaining("4"), 0)
		assert.Equal(t, 2, g.room(), "the third is under way")
		g.Leave(third, remaining("2"), 0)
		assert.Equal(t, 2, g.room())
	})
	inGate(t, "a refusal counts more", func(t *testing.T, g *gated) {
		g.accept(remaining("3"))
		g.refuse()
		assert.Equal(t, 1, g.room())
		g.accept(remaining("0"))
		assert.Equal(t, 1, g.room(), "the first one after the limit was the last one that the server allows")
	})
	inGate(t, "a server that accepts more miscounts", func(t *testing.T, g *gated) {
		g.accept(remaining("0"))
		g.accept(remaining("0"))
		assert.Equal(t, unlimited, g.room())
		g.accept(remaining("3"))
		assert.Equal(t, unlimited, g.room(), "its count is not used")
		g.refuse()
		g.accept(remaining("3"))
		assert.Equal(t, 3, g.room(), "until it refuses a request")
	})
	inGate(t, "a server whose count starts again does not", func(t *testing.T, g *gated) {
		g.accept(remaining("0"))
		g.accept(remaining("5"))
		assert.Equal(t, 5, g.room())
	})
	inGate(t, "an older response with the last one does not either", func(t *testing.T, g *gated) {
		first, second := g.send(), g.send()
		time.Sleep(time.Second)
		g.Leave(second, remaining("0"), 0)
		g.Leave(first, remaining("0"), 0)
		assert.Equal(t, 1, g.room())
	})
}

func TestGate_RemainingIsNotReported_CountsAccepted(t *testing.T) {
	t.Parallel()
	accept := func(g *gated, count int) {
		for range count {
			g.accept(http.Header{})
		}
	}
	inGate(t, "as many as the server accepted", func(t *testing.T, g *gated) {
		accept(g, 4)
		assert.Equal(t, unlimited, g.room())
		g.refuse()
		for _, room := range []int{1, 3, 2, 1, 1} {
			assert.Equal(t, room, g.room())
			accept(g, 1)
		}
		assert.Equal(t, unlimited, g.room(), "it accepted more, so the limit is another one")
	})
	inGate(t, "a second refusal changes nothing", func(t *testing.T, g *gated) {
		accept(g, 4)
		g.refuse()
		g.refuse()
		accept(g, 1)
		assert.Equal(t, 3, g.room())
	})
	inGate(t, "a late refusal does not begin to count anew", func(t *testing.T, g *gated) {
		accept(g, 4)
		late := g.send()
		g.refuse()
		accept(g, 1)
		g.Leave(late, http.Header{}, time.Minute)
		time.Sleep(time.Minute)
		accept(g, 1)
		assert.Equal(t, 2, g.room())
	})
	inGate(t, "a late success counts for the limit before", func(t *testing.T, g *gated) {
		accept(g, 2)
		late := g.send()
		g.refuse()
		g.Leave(late, http.Header{}, 0)
		accept(g, 1)
		assert.Equal(t, 2, g.room())
	})
}

// A server that refuses every attempt gets as many as MaxRetries allows, with growing pauses.
func TestGate_RefusedRepeatedly_RetriesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		request := newCall(func(r *http.Request) (*http.Response, error) {
			return status(r, http.StatusTooManyRequests), nil
		})
		request.Peer.Gate = new(exchange.Gate)
		start := time.Now()
		result, err := request.Do(exchange.WithJitter(t.Context(), func() float64 { return 0 }))
		require.Error(t, err)
		assert.Equal(t, 4, result.Last.Number)
		assert.Equal(t, (1+2+4)*time.Second, time.Since(start))
	})
}

// The context's report learns of a refusal because of a limit, and of nothing else.
func TestWithLimitReport_Refusal_IsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		codes := []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusOK}
		request := newCall(func(r *http.Request) (*http.Response, error) {
			resp := status(r, codes[0])
			codes = codes[1:]
			resp.Header.Set("Retry-After", "5")
			return resp, nil
		})
		request.Peer.Gate = new(exchange.Gate)
		request.Peer.MaxRetryAfter = time.Minute
		var reported []time.Duration
		report := func(wait time.Duration) { reported = append(reported, wait) }
		_, err := request.Do(exchange.WithLimitReport(t.Context(), report))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{5 * time.Second}, reported)
	})
}
