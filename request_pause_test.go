package clinicaldoc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestBackoffGrowsWithJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		distinct := map[time.Duration]bool{}
		for range 20 {
			var at []time.Time
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				at = append(at, time.Now())
				return madeResponse(r, http.StatusBadGateway, ""), nil
			})
			_, err := c.Notes.Get(t.Context(), 9)
			require.ErrorIs(t, err, clinicaldoc.ErrServer)
			require.Len(t, at, 4)
			for i, full := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
				wait := at[i+1].Sub(at[i])
				assert.GreaterOrEqual(t, wait, full/2)
				assert.LessOrEqual(t, wait, full)
				distinct[wait] = true
			}
		}
		assert.Greater(t, len(distinct), 30, "clients that fail together must not come back together")
	})
}

func TestRetryAfterIsHeeded(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, tc := range []struct {
		value       string
		least, most time.Duration // never: no second attempt
	}{
		{"7", 7 * time.Second, 7 * time.Second},
		{"30", 30 * time.Second, 30 * time.Second},
		{"31", never, never},
		{"3600", never, never},
		{"9300000000", never, never},           // overflows a duration
		{"99999999999999999999", never, never}, // and a 64-bit number
		{"0", 250 * time.Millisecond, 500 * time.Millisecond},
		{"-5", 250 * time.Millisecond, 500 * time.Millisecond},
		{"1.5", 250 * time.Millisecond, 500 * time.Millisecond},
		{"soon", 250 * time.Millisecond, 500 * time.Millisecond},
		{"", 250 * time.Millisecond, 500 * time.Millisecond},
		{"Mon, 02 Jan 1995 15:04:05 GMT", 250 * time.Millisecond, 500 * time.Millisecond},
		{"date in 12s", 12 * time.Second, 12 * time.Second},
		{"date in 90s", never, never},
		{"Fri, 31 Dec 9999 23:59:59 GMT", never, never},
	} {
		for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprintf("%d %s", code, tc.value), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					value := tc.value
					if in, isDate := strings.CutPrefix(value, "date in "); isDate {
						d, err := time.ParseDuration(in)
						require.NoError(t, err)
						value = time.Now().Add(d).UTC().Format(http.TimeFormat)
					}
					start, attempts := time.Now(), 0
					c := timedClient(t, func(r *http.Request) (*http.Response, error) {
						if attempts++; attempts > 1 {
							return madeResponse(r, http.StatusOK, socketNote(9)), nil
						}
						return madeResponse(r, code, `{"message":"synthetic"}`, "Retry-After", value), nil
					})
					_, err := c.Notes.Get(t.Context(), 9)
					waited := time.Since(start)
					if tc.least == never {
						var answered *clinicaldoc.Error
						require.ErrorAs(t, err, &answered)
						assert.Equal(t, "synthetic", answered.Message)
						assert.Greater(t, answered.RetryAfter, 30*time.Second)
						assert.Zero(t, waited)
						assert.Equal(t, 1, attempts)
						return
					}
					require.NoError(t, err)
					assert.GreaterOrEqual(t, waited, tc.least)
					assert.LessOrEqual(t, waited, tc.most)
				})
			})
		}
	}
}

func TestPauseThatDoesNotFitTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start, attempts := time.Now(), 0
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			attempts++
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "6"), nil
		})
		_, err := c.Notes.Get(ctx, 9)
		var answered *clinicaldoc.Error
		require.ErrorAs(t, err, &answered)
		assert.Equal(t, 6*time.Second, answered.RetryAfter)
		assert.Zero(t, time.Since(start), "there is nothing to wait for")
		assert.Equal(t, 1, attempts)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestContextEndsDuringThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "10"), nil
		})
		for _, call := range []func() error{
			func() error { _, err := c.Notes.Get(ctx, 9); return err },
		} {
			err := call()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
			var answered *clinicaldoc.Error
			require.ErrorAs(t, err, &answered)
			assert.Equal(t, 3*time.Second, time.Since(start))
		}
	})
}

func TestCreateWhoseContextEndsDuringThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "10"), nil
		})
		_, err := c.Notes.Create(ctx, socketParams(10))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "a 429 was not acted upon")
	})
}

func TestNoRetries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		option []clinicaldoc.Option
		call   []clinicaldoc.CallOption
	}{
		"MaxRetries 0": {option: []clinicaldoc.Option{clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})}},
		"WithoutRetry": {call: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, attempts := time.Now(), 0
				c := timedClient(t, func(r *http.Request) (*http.Response, error) {
					attempts++
					return madeResponse(r, http.StatusServiceUnavailable, `{"message":"synthetic"}`, "Retry-After", "1"), nil
				}, tc.option...)
				_, err := c.Notes.Get(t.Context(), 9, tc.call...)
				var answered *clinicaldoc.Error
				require.ErrorAs(t, err, &answered)
				assert.Equal(t, "synthetic", answered.Message)
				assert.Equal(t, 1, attempts)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

func TestLimiterIsAskedBeforeEachAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, attempts := 0, 0
		refusal := errors.New("synthetic: budget spent")
		limiter := limiterFunc(func(context.Context) error {
			if asked++; asked == 4 {
				return refusal
			}
			return nil
		})
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			attempts++
			return madeResponse(r, http.StatusBadGateway, ""), nil
		}, clinicaldoc.WithLimiter(limiter))
		_, err := c.Notes.Get(t.Context(), 9)
		require.ErrorIs(t, err, refusal)
		assert.Equal(t, 4, asked)
		assert.Equal(t, 3, attempts)
	})
}
