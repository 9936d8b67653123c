package exchange_test

import (
	"context"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

func TestGuard_NoProgress_Cancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		<-ctx.Done()
		assert.Equal(t, time.Minute, time.Since(start))
		var timeout interface{ Timeout() bool }
		require.ErrorIs(t, context.Cause(ctx), exchange.ErrStalled)
		require.ErrorAs(t, context.Cause(ctx), &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, "no data was transferred for 1m0s", redact.Cause(context.Cause(ctx)))
	})
}

func TestProgress_InTime_KeepsTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		for range 100 {
			time.Sleep(59 * time.Second)
			require.NoError(t, ctx.Err())
			watchdog.Progress()
		}
		last := time.Now()
		<-ctx.Done()
		assert.Equal(t, time.Minute, time.Since(last))
	})
}

func TestStop_CancelsWithoutAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), time.Minute)
		watchdog.Stop()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		watchdog.Progress() // net/http may still read a body
		watchdog.Stop()
		time.Sleep(time.Hour)
		assert.NotErrorIs(t, context.Cause(ctx), exchange.ErrStalled)
	})
}

func TestGuard_ParentEnds_Cancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(parent, time.Minute)
		defer watchdog.Stop()
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
	})
}

func TestProgress_ManyGoroutines_IsSafe(t *testing.T) {
	t.Parallel()
	watchdog := new(exchange.Watchdog)
	ctx := watchdog.Guard(t.Context(), time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				watchdog.Progress()
			}
		})
	}
	watchdog.Stop()
	all.Wait()
	assert.Error(t, ctx.Err())
}

func TestAllow_GivesMoreTimeOnce(t *testing.T) {
	t.Parallel()
	for longer, want := range map[time.Duration]time.Duration{
		0: time.Minute, 30 * time.Second: 90 * time.Second, -time.Second: time.Minute, math.MaxInt64: time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			watchdog := new(exchange.Watchdog)
			ctx := watchdog.Guard(t.Context(), time.Minute)
			defer watchdog.Stop()
			time.Sleep(59 * time.Second)
			start := time.Now()
			watchdog.Allow(longer)
			<-ctx.Done()
			assert.Equal(t, want, time.Since(start), longer)
		})
	}
}

func TestPause_StopsTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		watchdog.Pause()
		time.Sleep(24 * time.Hour)
		require.NoError(t, ctx.Err())
		start := time.Now()
		watchdog.Progress()
		<-ctx.Done()
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestBound_SlowWork_IsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		start := time.Now()
		watchdog.Bound(10) // stall timeouts, which are 600 seconds
		for ctx.Err() == nil {
			time.Sleep(50 * time.Second)
			watchdog.Progress()
		}
		assert.Equal(t, 650*time.Second, time.Since(start), "the first progress after them ends it")
		assert.Contains(t, context.Cause(ctx).Error(), "too slowly")
	})
}

func TestWatchdog_LargestTimeout_DoesNotWrap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), math.MaxInt64)
		defer watchdog.Stop()
		// Ten stall timeouts, and a stall timeout plus an hour, are more than a time.Duration can hold. Neither sum may
		// wrap: a time in the past would end the work.
		watchdog.Bound(10)
		for range 100 {
			watchdog.Allow(time.Hour)
			time.Sleep(time.Hour)
			require.NoError(t, ctx.Err(), "before the next progress, which restarts the time")
			watchdog.Progress()
		}
		assert.NoError(t, ctx.Err())
	})
}

func TestWatchedReader_Stall_EndsTheRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := new(exchange.Watchdog)
		ctx := watchdog.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		pipe, feed := io.Pipe()
		defer func() { _ = pipe.Close() }()
		r := &exchange.WatchedReader{Reader: pipe, Watch: watchdog, Left: math.MaxInt64}
		go func() {
			for range 3 {
				time.Sleep(50 * time.Second)
				_, _ = feed.Write([]byte("x"))
			}
			time.Sleep(2 * time.Minute)
			_, _ = feed.Write([]byte("y"))
			_ = feed.Close()
		}()
		for range 3 {
			n, err := r.Read(make([]byte, 10))
			require.NoError(t, err)
			assert.Equal(t, 1, n)
		}
		require.NoError(t, ctx.Err(), "bytes are progress")
		_, err := r.Read(make([]byte, 10))
		require.ErrorIs(t, err, exchange.ErrStalled, "it ends with the work, although the pipe knows nothing of that")
		_, err = io.ReadAll(r)
		assert.NoError(t, err)
	})
}

// countingWatch counts the calls of Progress.
type countingWatch struct {
	exchange.Watch
	progress int
}

func (w *countingWatch) Progress()  { w.progress++ }
func (w *countingWatch) Err() error { return nil }

func TestWatchedReader_Limit_EndsTheReading(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]io.Reader{
		"at once":       strings.NewReader("synthetic"),
		"byte by byte":  iotest.OneByteReader(strings.NewReader("synthetic")),
		"with no bytes": io.MultiReader(strings.NewReader("synth"), strings.NewReader("etic")),
	} {
		got, err := io.ReadAll(&exchange.WatchedReader{Reader: source, Watch: new(countingWatch), Left: 7})
		require.NoError(t, err)
		assert.Equal(t, "synthet", string(got), name)
	}
}

func TestWatchedReader_NoBytes_AreNoProgress(t *testing.T) {
	t.Parallel()
	watch := new(countingWatch)
	r := &exchange.WatchedReader{Reader: strings.NewReader("x"), Watch: watch, Left: 7}
	_, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, 1, watch.progress, "the end is none")
}

func TestWithTimeout_End_MatchesDeadlineExceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unlimited, cancel := exchange.WithTimeout(t.Context(), 0)
		defer cancel()
		_, limited := unlimited.Deadline()
		assert.False(t, limited)

		ctx, cancel := exchange.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		<-ctx.Done()
		cause := context.Cause(ctx)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
		require.NotErrorIs(t, cause, context.Canceled)
		assert.Contains(t, cause.Error(), "WithHTTPClient")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, cause, &timeout)
		assert.True(t, timeout.Timeout())
	})
}
