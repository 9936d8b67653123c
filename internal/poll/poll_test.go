package poll

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slept is how long a schedule pauses next.
func slept(t *testing.T, s *Schedule) time.Duration {
	t.Helper()
	started := time.Now()
	require.NoError(t, s.Sleep(t.Context()))
	return time.Since(started)
}

func TestSchedule_Pauses_GrowWithTheTimeWaited(t *testing.T) {
	t.Parallel()
	firstPauses := map[time.Duration]bool{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := &Schedule{Interval: 2 * time.Second, MaxInterval: time.Minute, Began: time.Now()}
			assert.Zero(t, s.LastPause)
			began := time.Now()
			for i := range 60 {
				longest := min(2500*time.Millisecond+time.Since(began)/10, time.Minute)
				pause := slept(t, s)
				if i == 0 {
					firstPauses[pause] = true
				}
				assert.GreaterOrEqual(t, pause, max(2*time.Second, longest*4/5))
				assert.LessOrEqual(t, pause, longest)
				assert.Equal(t, pause, s.LastPause)
			}
			assert.Greater(t, slept(t, s), 45*time.Second)
			s.Began = time.Now()
			assert.LessOrEqual(t, slept(t, s), 2500*time.Millisecond)
		})
	}
	assert.Greater(t, len(firstPauses), 10, "pauses are random")
}

// The documentation of Wait states how many polls a day takes at most, and about how many it takes.
func TestSchedule_Day_TakesABoundedNumberOfPolls(t *testing.T) {
	t.Parallel()
	s := &Schedule{Interval: 2 * time.Second, MaxInterval: time.Minute, Began: time.Now()}
	count := func(pause func(shortest, longest time.Duration) time.Duration) int {
		polls := 1
		for at := pause(s.bounds(0)); at < MaxWait; at += pause(s.bounds(at)) {
			polls++
		}
		return polls
	}
	most := count(func(shortest, _ time.Duration) time.Duration { return shortest })
	mean := count(func(shortest, longest time.Duration) time.Duration { return (shortest + longest) / 2 })
	assert.LessOrEqual(t, most, 1850)
	assert.Greater(t, most, 1800)
	assert.InDelta(t, 1625, mean, 25)
}

func TestSchedule_Failures_LengthenThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Schedule{Interval: 2 * time.Second, MaxInterval: time.Minute, Began: time.Now()}
		s.Failures = 4
		assert.GreaterOrEqual(t, slept(t, s), 8*time.Second)
		s.Began = time.Now()
		s.Failures = math.MaxInt
		pause := slept(t, s)
		assert.GreaterOrEqual(t, pause, 30*time.Second)
		assert.LessOrEqual(t, pause, time.Minute, "but not beyond the longest")
		s.Began = time.Now()
		s.Failures = 0
		assert.LessOrEqual(t, slept(t, s), 2500*time.Millisecond)
	})
}

func TestSchedule_RequestedPause_IsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Schedule{Interval: 2 * time.Second, MaxInterval: time.Minute, Began: time.Now()}
		assert.False(t, s.PauseRequested())
		s.Respect(0)
		s.Respect(-time.Hour)
		assert.False(t, s.PauseRequested())
		s.Respect(100 * time.Second)
		s.Respect(time.Second)
		assert.True(t, s.PauseRequested())
		assert.Equal(t, 100*time.Second, slept(t, s))
		assert.LessOrEqual(t, s.LastPause, 3*time.Second, "the schedule's own")
		assert.False(t, s.PauseRequested(), "it counts once")
		s.Respect(math.MaxInt64)
		assert.Equal(t, time.Hour, slept(t, s))
	})
}

func TestSleep_ContextEnds_Returns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Schedule{Interval: time.Hour, MaxInterval: time.Hour, Began: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		started := time.Now()
		require.ErrorIs(t, s.Sleep(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(started))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Sleep(ended), context.Canceled)
		assert.Equal(t, time.Minute, time.Since(started))
	})
}

// late is a context whose deadline has passed before its timer fired.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestExpired_LateTimer_ReturnsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, Expired(t.Context()))
		require.ErrorIs(t, Expired(late{t.Context()}), context.DeadlineExceeded)
	})
}
