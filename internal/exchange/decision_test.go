package exchange_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func status(r *http.Request, code int) *http.Response {
	return &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r,
	}
}

// caller gets as errors the attempts themselves.
type caller struct{}

func (caller) Begin(ctx context.Context, _ *exchange.Attempt, _ http.Header) context.Context {
	return ctx
}
func (caller) End(context.Context, *exchange.Attempt)               {}
func (caller) Explain(a, _ *exchange.Attempt) error                 { return a }
func (caller) BeforeRetry(context.Context, *exchange.Attempt) error { return nil }

// newCall reads something, with three retries that wait a second at first.
func newCall(send transport) *exchange.Request {
	return &exchange.Request{
		Peer: &exchange.Peer{
			Transport: send, MaxBody: 1 << 20, MinWait: time.Second, MaxWait: time.Minute, StallTimeout: time.Hour,
		},
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "api.clinic.test", Path: "/"}, Effect: exchange.Reads,
		MaxRetries: 3,
		Caller:     caller{},
	}
}

// The first wait is below two seconds, so that it fits.
func TestDo_WaitBeforeTheDeadline_IsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		codes := []int{http.StatusServiceUnavailable, http.StatusOK}
		call := newCall(func(r *http.Request) (*http.Response, error) {
			code := codes[0]
			codes = codes[1:]
			return status(r, code), nil
		})
		result, err := call.Do(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, result.Last.Number)
	})
}

// A wait that ends with the deadline leaves no time for an attempt.
func TestDo_WaitUntilTheDeadline_IsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		started := time.Now()
		call := newCall(func(r *http.Request) (*http.Response, error) {
			resp := status(r, http.StatusServiceUnavailable)
			resp.Header.Set("Retry-After", "5")
			return resp, nil
		})
		_, err := call.Do(ctx)
		require.Error(t, err)
		assert.Zero(t, time.Since(started))
	})
}

// The wait that was found to fit is the one that is taken, so that no deadline passes within it.
func TestDo_CheckedWait_IsTheOneTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), 1250*time.Millisecond)
			call := newCall(
				func(r *http.Request) (*http.Response, error) { return status(r, http.StatusServiceUnavailable), nil },
			)
			result, _ := call.Do(ctx)
			cancel()
			require.False(t, result.Stopped, "it ended within a wait")
		}
	})
}

// If the context ends while the response arrives, Do returns its error, and the result has the response.
func TestDo_ContextEndsDuringResponse_ReturnsBoth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call := newCall(func(r *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return status(r, http.StatusServiceUnavailable), nil
		})
		result, err := call.Do(ctx)
		require.True(t, result.Stopped)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, result.Last.Number)
		assert.Equal(t, http.StatusServiceUnavailable, result.Last.Status)
	})
}

// After its body was cut off twice, a create is not sent again. Other requests are retried as often as the policy
// allows.
func TestDo_CutBody_OnlyCreatesStopAfterTheSecond(t *testing.T) {
	t.Parallel()
	for effect, attempts := range map[exchange.Effect]int{exchange.Repeatable: 4, exchange.Creates: 2} {
		synctest.Test(t, func(t *testing.T) {
			call := newCall(func(r *http.Request) (*http.Response, error) {
				_, err := r.Body.Read(make([]byte, 10))
				require.NoError(t, err)
				return nil, io.ErrUnexpectedEOF
			})
			call.Method = http.MethodPost
			call.Effect = effect
			call.Body = &exchange.Body{Bytes: []byte(strings.Repeat("x", 100<<10))}
			result, err := call.Do(t.Context())
			require.Error(t, err)
			assert.Equal(t, exchange.Partly, result.Last.Sent)
			assert.Equal(t, attempts, result.Last.Number)
		})
	}
}
