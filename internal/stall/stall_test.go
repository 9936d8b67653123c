package stall_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

func TestGuardEndsWorkThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, watchdog := stall.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		<-ctx.Done()
		assert.Equal(t, time.Minute, time.Since(start))
		var cause *stall.Error
		require.ErrorAs(t, context.Cause(ctx), &cause)
		assert.Equal(t, time.Minute, cause.After)
		assert.True(t, cause.Timeout())
		assert.Equal(t, "no byte moved for 1m0s", cause.SafeText())
	})
}

func TestProgressKeepsWorkAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, watchdog := stall.Guard(t.Context(), time.Minute)
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

func TestStopReleasesTheContextWithoutAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, watchdog := stall.Guard(t.Context(), time.Minute)
		watchdog.Stop()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		watchdog.Progress() // net/http may still read a body
		watchdog.Stop()
		time.Sleep(time.Hour)
		var cause *stall.Error
		assert.NotErrorAs(t, context.Cause(ctx), &cause)
	})
}

func TestCancelGivesItsOwnCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("synthetic")
		ctx, watchdog := stall.Guard(t.Context(), time.Minute)
		defer watchdog.Stop()
		watchdog.Cancel(cause)
		time.Sleep(time.Hour)
		assert.Equal(t, cause, context.Cause(ctx))
	})
}

func TestParentEndsTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx, watchdog := stall.Guard(parent, time.Minute)
		defer watchdog.Stop()
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
	})
}

func TestProgressFromManyGoroutines(t *testing.T) {
	t.Parallel()
	ctx, watchdog := stall.Guard(t.Context(), time.Hour)
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
