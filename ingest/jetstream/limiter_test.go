package jetstream

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Places are one interval apart by the clock of the server. If a new leader's clock is behind, nobody waits longer. If
// it is ahead, nobody is let through early.
func TestLimiter_Places_AreOneIntervalApart(t *testing.T) {
	t.Parallel()
	one, err := newLimiter(nil, 2)
	require.NoError(t, err)
	many, err := newLimiter(nil, 1000)
	require.NoError(t, err)
	now := time.Unix(1_800_000_000, 0)
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		limiter *Limiter
		latest  time.Duration // of the place, from now
		place   time.Duration
		due     time.Duration
	}{
		"one is due":                       {one, -500 * ms, 0, 0},
		"one is not due":                   {one, -200 * ms, 0, 300 * ms},
		"one was due a moment ago":         {one, -600 * ms, -100 * ms, 0},
		"one was due long ago":             {one, -time.Hour, -500 * ms, 0},
		"the clock was set back a little":  {one, 900 * ms, 0, 1400 * ms},
		"the clock was set back":           {one, 1001 * ms, 0, 0},
		"the clock was set back an hour":   {one, time.Hour, 0, 0},
		"fifty are due together":           {many, -1 * ms, 49 * ms, 0},
		"fifty are not due":                {many, 20 * ms, 0, 21 * ms},
		"many, a clock that was set back":  {many, 1050 * ms, 49 * ms, 0},
		"many, and it was set back little": {many, 1049 * ms, 0, 1050 * ms},
	} {
		place, due := c.limiter.place(now.Add(c.latest), now)
		assert.Equal(t, c.due, due, name)
		if c.due == 0 {
			assert.Equal(t, c.place, place.Sub(now), name)
		}
	}
	_, due := one.place(time.Time{}, now)
	assert.Zero(t, due, "nobody took one yet")
	for _, perSecond := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := newLimiter(nil, perSecond)
		require.Error(t, err)
	}
	fast, err := newLimiter(nil, 1e12)
	require.NoError(t, err)
	assert.Equal(t, time.Nanosecond, fast.interval, "as many as can be told apart")
	assert.Zero(t, placeOf([]byte("old")), "what cannot be read is long past")
}

func TestLimiter_SeveralWorkers_ShareTheLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	openFleet(t, connect(t, s), Params{})
	const rate, each, workers = 50, 10, 4
	begun := time.Now()
	var all sync.WaitGroup
	for range workers {
		l, err := openFleet(t, connect(t, s), Params{}).Limiter(rate)
		require.NoError(t, err)
		all.Go(func() {
			for range each {
				assert.NoError(t, l.Wait(t.Context()))
			}
		})
	}
	all.Wait()
	// The first goes at once, and one that was late lets the next one go at once.
	assert.GreaterOrEqual(t, time.Since(begun), time.Second*(each*workers-1-workers)/rate)
}

// A worker that ends or dies before it uses its place takes nothing from the others. The clocks of workers are not
// used.
func TestLimiter_WorkersThatDie_TakeNoPlaces(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	f := openFleet(t, connect(t, s), Params{})
	steady, err := f.Limiter(20)
	require.NoError(t, err)
	var others sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 5 {
		others.Go(func() {
			for ctx.Err() == nil {
				ending, end := context.WithTimeout(ctx, 10*time.Millisecond) // before its place is due, most often
				l, err := f.Limiter(20)
				if assert.NoError(t, err) {
					_ = l.Wait(ending)
				}
				end()
			}
		})
	}
	// Each of the others takes a place only when it is due, and then it has used it. So the stream has no more places than
	// time has passed, and the steady one is never further away from its own than a few others.
	for range 10 {
		require.NoError(t, steady.Wait(t.Context()))
	}
	cancel()
	others.Wait()
	stream, err := f.store.js.Stream(t.Context(), f.store.limitName())
	require.NoError(t, err)
	_, due := steady.place(latestPlace(t, f), stream.CachedInfo().TimeStamp)
	assert.LessOrEqual(t, due, steady.interval, "nothing is reserved beyond the next place")
}

func latestPlace(t *testing.T, f *Fleet) time.Time {
	t.Helper()
	stream, err := f.store.js.Stream(t.Context(), f.store.limitName())
	require.NoError(t, err)
	message, err := stream.GetMsg(t.Context(), stream.CachedInfo().State.LastSeq)
	require.NoError(t, err)
	return placeOf(message.Data)
}

// Places that were not used in their time are lost. Later requests do not come faster to make up for them.
func TestLimiter_UnusedPlaces_AreNotMadeUpFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := newEngine().fleet(defaultLease).Limiter(1000) // fifty are taken at a time
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		time.Sleep(time.Minute)
		begun := time.Now()
		for range 50 {
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.Equal(t, 49*time.Millisecond, time.Since(begun))
	})
}

// A caller that comes late, or whose context has ended, does not delay the places of the others.
func TestLimiter_LateOrCanceledWaiter_MovesNoPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := newEngine().fleet(defaultLease).Limiter(100) // five are taken at a time
		require.NoError(t, err)
		begun := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		ended, end := context.WithCancel(t.Context())
		end()
		for range 20 {
			require.ErrorIs(t, l.Wait(ended), context.Canceled)
		}
		time.Sleep(25 * time.Millisecond)
		for _, at := range []time.Duration{25 * time.Millisecond, 25 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond} {
			require.NoError(t, l.Wait(t.Context()))
			assert.Equal(t, at, time.Since(begun))
		}
		assert.Zero(t, l.placesLeft)
	})
}

// Callers in one process get their places one after the other.
func TestLimiter_WaitersOfOneProcess_TakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		l, err := e.fleet(defaultLease).Limiter(2)
		require.NoError(t, err)
		e.carry = func(_ context.Context, _ string, effect func() error) error {
			time.Sleep(time.Millisecond)
			return effect()
		}
		for range 2 { // the first is late
			require.NoError(t, l.Wait(t.Context()))
		}
		var all sync.WaitGroup
		went := make(chan time.Time, 6)
		for range cap(went) {
			all.Go(func() {
				err := l.Wait(t.Context())
				went <- time.Now()
				assert.NoError(t, err)
			})
		}
		all.Wait()
		last := <-went
		for range cap(went) - 1 {
			next := <-went
			assert.Greater(t, next.Sub(last), 400*time.Millisecond)
			last = next
		}
	})
}

// The limiter repeats failed requests to the engine for 20 seconds (defaultPatience). The minute that it waited for a
// place before does not count, so one failure after it is repeated too.
func TestLimiter_FailureAfterALongWait_IsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		l, err := e.fleet(defaultLease).Limiter(1.0 / 60)
		require.NoError(t, err)
		for range 2 { // a new limiter has two places that are due
			require.NoError(t, l.Wait(t.Context()))
		}
		begun, failed := time.Now(), false
		e.before = func(context.Context, string, string) error {
			if time.Since(begun) > 50*time.Second && !failed {
				failed = true
				return errors.New("synthetic")
			}
			return nil
		}
		require.NoError(t, l.Wait(t.Context()))
		assert.True(t, failed)
	})
}

// hurried is an engine at which another is faster.
type hurried struct {
	jetstream.JetStream
	faster func()
}

func (h hurried) Publish(ctx context.Context, subject string, value []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	h.faster()
	return h.JetStream.Publish(ctx, subject, value, opts...)
}

// The limiter continues after a restart of the server, which has forgotten the places.
func TestLimiter_ServerRestarted_GoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServerIn(t, dir, 0)
	f := openFleet(t, connect(t, s), Params{})
	l, err := f.Limiter(1000)
	require.NoError(t, err)
	require.NoError(t, l.Wait(t.Context()))
	stream, err := f.store.js.Stream(t.Context(), f.store.limitName())
	require.NoError(t, err)
	assert.Equal(t, jetstream.MemoryStorage, stream.CachedInfo().Config.Storage)
	require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.limitName()))
	l.placesLeft = 0
	require.NoError(t, l.Wait(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Wait(ctx), context.Canceled)

	// If two callers want the same place, one of them gets it.
	wanted := 0
	second := &store{name: f.store.name, header: f.store.header, js: hurried{f.store.js, func() {
		if wanted++; wanted == 1 {
			assert.NoError(t, l.take(t.Context()))
		}
	}}}
	slow, err := newLimiter(second, 1000)
	require.NoError(t, err)
	require.NoError(t, slow.take(t.Context()))
	assert.Greater(t, wanted, 1)
}

// No second has more requests than granted, except one that comes a little late.
func TestLimiter_EachSecond_HasOnlyGrantedRequests(t *testing.T) {
	t.Parallel()
	l, err := newLimiter(nil, 20)
	require.NoError(t, err)
	var granted []time.Time
	now, latest := time.Unix(1_800_000_000, 0), time.Time{}
	for n := range 2000 { // looked for every 7 ms
		now = now.Add(7 * time.Millisecond)
		if n%300 > 250 {
			continue // nobody looks for a while
		}
		if place, due := l.place(latest, now); due == 0 {
			latest = place
			granted = append(granted, now)
		}
	}
	assert.Greater(t, len(granted), 220)
	for i, at := range granted {
		end, _ := slices.BinarySearchFunc(granted, at.Add(time.Second), time.Time.Compare)
		assert.LessOrEqual(t, end-i, 21)
	}
}
