package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// resting is a worker of a fleet that may pause.
type resting struct {
	*pauser
	well atomic.Bool

	seen   sync.Mutex
	probes []time.Duration // when it looked, after it began
	begun  time.Time
	log    bytes.Buffer
}

func newResting(e *engine, id string) *resting {
	f := e.fleet(defaultLease)
	r := &resting{begun: time.Now()}
	f.logger = slog.New(slog.NewTextHandler(&r.log, nil))
	w := withFollower(&work{fleet: f, id: id, since: time.Now(), uploader: &ingest.Uploader{}})
	r.pauser = &pauser{fleet: f, id: id, beat: w.beat, endOnPanic: w.endOnPanic}
	w.pauser = r.pauser
	r.probe = func(context.Context, failure) error {
		r.seen.Lock()
		defer r.seen.Unlock()
		r.probes = append(r.probes, time.Since(r.begun))
		if r.well.Load() {
			return nil
		}
		return errors.New("synthetic")
	}
	w.beat(context.Background())
	return r
}

// failTimes reports failures of one kind.
func (r *resting) failTimes(ctx context.Context, count int) {
	for range count {
		r.report(ctx, fail("synthetic failure", clinicaldoc.ErrServer), "")
	}
	synctest.Wait()
}

func (r *resting) succeed(ctx context.Context) { r.report(ctx, nil, "") }

// looks are when it looked, counted from its beginning or the last looksAnew.
func (r *resting) looks() []time.Duration {
	r.seen.Lock()
	defer r.seen.Unlock()
	return r.probes
}

// looksAnew forgets when it looked until now.
func (r *resting) looksAnew() {
	r.seen.Lock()
	defer r.seen.Unlock()
	r.probes, r.begun = nil, time.Now()
}

func (r *resting) pausedNow() bool { return r.pausedFor().kind != "" }

func seconds(numbers ...int) (times []time.Duration) {
	for _, n := range numbers {
		times = append(times, time.Duration(n)*time.Second)
	}
	return times
}

// A worker whose clock is wrong pauses the fleet for as long as any other.
func TestPause_WrongWorkerClock_LastsAsLongAsAnyOther(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			e := newEngine()
			e.clock = skew(ahead)
			newResting(e, "a").failTimes(ctx, sameFailures)
			until := time.Now().Add(6 * time.Second)
			assert.Equal(t, map[string]time.Time{"fresh": until, "again": until}, e.paused())
			cancel()
			synctest.Wait()
		})
	}
}

// Five failures of one kind in a row begin a pause. The worker probes the service after 1, 2, 4 seconds and so on, at
// last every minute. It reports the reason once. Failures of different kinds, or with a success between them, do not
// begin a pause.
func TestPause_FiveFailuresInARow_ProbesAfterGrowingTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := newEngine()
		r := newResting(e, "a")
		var told []ingest.Pause
		r.onEvent = func(event ingest.Event) { told = append(told, *event.Pause) }
		r.failTimes(ctx, sameFailures-1)
		r.succeed(ctx)
		r.failTimes(ctx, sameFailures-1)
		r.report(ctx, fail("synthetic", clinicaldoc.ErrForbidden), "")
		r.failTimes(ctx, sameFailures-1)
		assert.False(t, r.pausedNow())
		assert.Empty(t, e.paused())
		r.failTimes(ctx, 1)
		assert.True(t, r.pausedNow())
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0].Why, clinicaldoc.ErrServer)
		assert.Equal(t, time.Second, time.Until(told[0].Next))
		assert.Equal(t, map[string]time.Time{"fresh": time.Now().Add(6 * time.Second), "again": time.Now().Add(6 * time.Second)}, e.paused(), "five seconds beyond the next look")

		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, seconds(1, 3, 7, 15, 31, 63, 123, 183, 243), r.looks())
		assert.Equal(t, 1, strings.Count(r.log.String(), "synthetic failure"), r.log.String())
		r.well.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.False(t, r.pausedNow())
		assert.True(t, r.wait(ctx))
		assert.Empty(t, e.paused(), "the fleet goes on")

		// Nothing succeeded since: the next pause is as long as the last, and not logged again. It takes five failures, too.
		r.looksAnew()
		r.failTimes(ctx, sameFailures-1)
		assert.False(t, r.pausedNow())
		r.failTimes(ctx, 1)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		assert.Equal(t, seconds(60), r.looks())
		assert.Equal(t, 1, strings.Count(r.log.String(), "synthetic failure"))
		r.succeed(ctx)
		synctest.Wait()
		assert.Contains(t, r.log.String(), "succeed again")
		require.Len(t, told, 2, "it is told once, and when it is over")
		require.NoError(t, told[1].Why)

		r.looksAnew()
		r.failTimes(ctx, sameFailures)
		assert.True(t, r.pausedNow())
		assert.Equal(t, time.Second, time.Until(told[2].Next), "after a success it is a short one")
		cancel()
		synctest.Wait()
		assert.False(t, r.pausedNow())
		last, _, err := r.fleet.live.pause(t.Context())
		require.NoError(t, err)
		assert.True(t, last.Over, "a worker that ends leaves no pause behind")
	})
}

// If the engine does not respond, each request waits for it. So such failures do not begin a pause.
func TestPause_ServerUnreachable_DoesNotBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newResting(newEngine(), "a")
		for range 2 * sameFailures {
			r.report(t.Context(), unreachable(errors.New("synthetic")), "")
		}
		assert.False(t, r.pausedNow())
	})
}

// The fleet pauses if all its workers fail in the same way. One of them, the leader, probes whether the fleet can go
// on. A worker that fails alone pauses alone. If the leader dies, another worker takes its place.
func TestPause_AllWorkersFail_PausesTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dying, kill := context.WithCancel(ctx)
		e := newEngine()
		a, b := newResting(e, "a"), newResting(e, "b")
		a.failTimes(dying, sameFailures)
		assert.True(t, a.pausedNow())
		assert.Empty(t, e.paused(), "the other works")
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		b.failTimes(ctx, sameFailures)
		assert.NotEmpty(t, e.paused())
		p, _, err := b.fleet.live.pause(ctx)
		require.NoError(t, err)
		assert.Equal(t, "b", p.By)
		status := p.Pause
		assert.Contains(t, status.Reason, "synthetic failure")

		time.Sleep(5 * time.Second) // b looks after 1 and 3 seconds; a looked once, alone, and then saw that b does
		synctest.Wait()
		assert.Equal(t, seconds(1), a.looks())
		assert.Len(t, b.looks(), 2)
		b.well.Store(true)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.False(t, b.pausedNow())
		assert.Empty(t, e.paused())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.False(t, a.pausedNow(), "it sees that within a second")

		// The next pause, whoever leads it, continues with the longer times: four probes were made.
		b.well.Store(false)
		b.looksAnew()
		a.failTimes(dying, sameFailures)
		b.failTimes(ctx, sameFailures)
		p, _, err = a.fleet.live.pause(ctx)
		require.NoError(t, err)
		leads := p.By
		assert.Equal(t, 8*time.Second, time.Until(p.Until), "after 1, 2, 4")
		assert.Contains(t, "ab", leads)
		kill()
		cancel()
		synctest.Wait()
	})
}

// A success ends a row of failures.
func TestPause_SuccessBetweenFailures_DoesNotBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := newResting(newEngine(), "a")
		a.failTimes(ctx, sameFailures-1)
		a.succeed(ctx)
		a.failTimes(ctx, sameFailures-1)
		assert.False(t, a.pausedNow())
	})
}

// The engine decides who leads a pause: if two workers write with the same revision, only the first one succeeds.
func TestSetPause_OldRevision_IsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		live := newEngine().fleet(defaultLease).live
		require.NoError(t, live.setPause(ctx, livePause{By: "a"}, 0))
		require.Error(t, live.setPause(ctx, livePause{By: "b"}, 0))
		_, revision, err := live.pause(ctx)
		require.NoError(t, err)
		require.NoError(t, live.setPause(ctx, livePause{By: "b"}, revision))
		require.Error(t, live.setPause(ctx, livePause{By: "c"}, revision))
	})
}

// A worker that paused the fleet also ends that pause if it pauses alone in a later round.
func TestPause_LeaderPausesAloneInTheLastRound_ResumesTheFleet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ isSilent, anotherSucceeds bool }{
		"the engine does not respond": {isSilent: true},
		"another worker succeeds":     {anotherSucceeds: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				e := newEngine()
				var silent atomic.Bool
				e.before = func(_ context.Context, op, key string) error {
					isAboutWorkers := op == "info" && strings.HasSuffix(key, "-live")
					if silent.Load() && isAboutWorkers {
						return nats.ErrTimeout
					}
					return nil
				}
				a := newResting(e, "a")
				a.failTimes(ctx, sameFailures)
				require.NotEmpty(t, e.paused())
				silent.Store(c.isSilent)
				if c.anotherSucceeds {
					require.NoError(t, a.fleet.live.beat(ctx, "b", liveWorker{}))
				}
				time.Sleep(2 * time.Second) // the first probe failed, and the second round has begun
				synctest.Wait()
				require.True(t, a.pausedNow())
				a.well.Store(true)
				time.Sleep(time.Second)
				synctest.Wait()
				require.False(t, a.pausedNow())
				assert.Empty(t, e.paused())
				shared, _, err := a.fleet.live.pause(ctx)
				require.NoError(t, err)
				assert.True(t, shared.Over)
			})
		})
	}
}

// A worker does not end the pause that another worker has begun since its own.
func TestPause_AnotherWorkerLeadsByNow_IsNotResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine()
		a := newResting(e, "a")
		a.failTimes(ctx, sameFailures)
		shared, revision, err := a.fleet.live.pause(ctx)
		require.NoError(t, err)
		shared.By = "b"
		require.NoError(t, a.fleet.live.setPause(ctx, *shared, revision))
		before := e.paused()
		require.NotEmpty(t, before)
		a.well.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, a.pausedNow())
		assert.Equal(t, before, e.paused())
		cancel()
	})
}

// A worker that takes over the fleet's pauses also checks only after the longer time that it announces.
func TestPause_NextLeader_ProbesWhenThePauseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine()
		b := newResting(e, "b")
		before := livePause{Kind: string(kindService), By: "a", ProbesWithNext: 3, Over: true}
		require.NoError(t, b.fleet.live.setPause(ctx, before, 0))
		b.failTimes(ctx, sameFailures)
		shared, _, err := b.fleet.live.pause(ctx)
		require.NoError(t, err)
		assert.Equal(t, 8*time.Second, time.Until(shared.Until), "after 1, 2 and 4 seconds")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Equal(t, seconds(8, 24), b.looks())
		cancel()
		synctest.Wait()
	})
}

// A worker that cannot write that it leads a pause does not pause the fleet, because no other worker could end that
// pause. It pauses alone.
func TestPause_LeaderCannotBeWritten_PausesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine()
		a := newResting(e, "a")
		e.before = func(_ context.Context, op, key string) error {
			if key == pauseKey && op == "create" {
				return jetstream.ErrKeyExists
			}
			return nil
		}
		a.failTimes(ctx, sameFailures)
		assert.True(t, a.pausedNow())
		assert.Empty(t, e.paused())
		cancel()
		synctest.Wait()
	})
}

// After a success the next pause of the fleet is a short one, whoever leads it.
func TestPause_AfterASuccess_IsShortAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := newEngine()
		a := newResting(e, "a")
		a.failTimes(ctx, sameFailures)
		time.Sleep(time.Minute)
		a.well.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.False(t, a.pausedNow())
		a.succeed(ctx)
		b := newResting(e, "b")
		b.failTimes(ctx, sameFailures)
		assert.NotEmpty(t, e.paused(), "b pauses the fleet, in which a shows no sign of life any more")
		pause, _, err := b.fleet.live.pause(ctx)
		require.NoError(t, err)
		assert.Equal(t, "b", pause.By)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, seconds(1, 3, 7), b.looks(), "after 1, 2 and 4 s")
		cancel()
		synctest.Wait()
	})
}

// If the leader of a pause has died, the pause is over five seconds after the leader should have probed. Then another
// worker probes.
func TestPause_LeaderDied_EndsFiveSecondsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := newEngine()
		b := newResting(e, "b")
		dead := livePause{
			Pause: Pause{Reason: "synthetic", Until: time.Now().Add(3300 * time.Millisecond)},
			Kind:  string(kindService), By: "dead", ProbesWithNext: 3,
		}
		require.NoError(t, b.fleet.live.setPause(ctx, dead, 0))
		b.failTimes(ctx, sameFailures)
		assert.Empty(t, e.paused(), "another leads")
		// It is due at 3.3 s and over at 8.3 s. b asks every second, so it knows at 9 s.
		time.Sleep(8900 * time.Millisecond)
		synctest.Wait()
		assert.True(t, b.pausedNow())
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		assert.False(t, b.pausedNow())
		assert.Empty(t, b.looks())
		b.failTimes(ctx, sameFailures)
		assert.NotEmpty(t, e.paused(), "now it leads")
		cancel()
		synctest.Wait()
	})
}

// pauseOfAnother is a pause that another worker began.
type pauseOfAnother struct {
	left  time.Duration // until the other should look
	over  bool
	leads bool // a worker that fails then leads the next pause itself
}

func pausesOfAnother() map[string]pauseOfAnother {
	return map[string]pauseOfAnother{
		"the other looks":           {3 * time.Second, false, false},
		"the other is a bit late":   {-4 * time.Second, false, false},
		"the other is too late":     {-5 * time.Second, false, true},
		"the other's pause is over": {3 * time.Second, true, true},
	}
}

// begin writes the pause, and has the worker b fail.
func (c pauseOfAnother) begin(ctx context.Context, t *testing.T) (e *engine, b *resting, other livePause) {
	t.Helper()
	e = newEngine()        //nolint:contextcheck // it outlives the context
	b = newResting(e, "b") //nolint:contextcheck // as above
	other = livePause{
		Pause: Pause{Until: time.Now().Add(c.left)}, Kind: string(kindService), By: "other", ProbesWithNext: 1,
		Over: c.over,
	}
	require.NoError(t, b.fleet.live.setPause(ctx, other, 0))
	b.failTimes(ctx, sameFailures)
	return e, b, other
}

func TestPause_LedByAnother_IsTakenOverWhenLate(t *testing.T) {
	t.Parallel()
	for name, c := range pausesOfAnother() {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			e, _, _ := c.begin(ctx, t)
			assert.Equal(t, c.leads, len(e.paused()) > 0, name)
			cancel()
			synctest.Wait()
		})
	}
}

// If another worker leads the pause by now, a worker neither ends nor shortens it.
func TestPause_LedByAnotherSince_IsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range pausesOfAnother() {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_, b, other := c.begin(ctx, t)
			_, revision, err := b.fleet.live.pause(ctx)
			require.NoError(t, err)
			other.Over, other.ProbesWithNext = false, 5
			require.NoError(t, b.fleet.live.setPause(ctx, other, revision))
			b.succeed(ctx)
			cancel()
			synctest.Wait()
			now, _, err := b.fleet.live.pause(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []any{false, 5}, []any{now.Over, now.ProbesWithNext}, name)
		})
	}
}

// The bucket of live workers also contains the pause. It does not hide a worker, in whichever order the entries come.
func TestLive_BesideAPause_ListsAllWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newEngine().fleet(defaultLease).live
		require.NoError(t, l.setPause(t.Context(), livePause{}, 0))
		for n := range 10 {
			require.NoError(t, l.beat(t.Context(), fmt.Sprint(n), liveWorker{}))
		}
		l.removeWorker(t.Context(), "9")
		for range 10 { // in any order
			workers, err := l.workers(t.Context())
			require.NoError(t, err)
			assert.Len(t, workers, 9)
		}
	})
}

// A worker shows every ten seconds that it is alive. It counts as dead after 30 seconds without that.
func TestLive_Worker_BeatsEvery10Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine()
		f := e.fleet(defaultLease)
		w := withFollower(&work{fleet: f, id: "a", since: time.Now(), pauser: &pauser{}, uploader: &ingest.Uploader{}})
		e.ahead = -3 * time.Minute
		done := make(chan struct{})
		go func() { w.keepBeating(ctx); close(done) }()
		alive := func() int {
			workers, err := f.live.workers(t.Context())
			require.NoError(t, err)
			for _, w := range workers {
				assert.Equal(t, 3*time.Minute, w.Ahead, "its clock is ahead of the server's")
			}
			return len(workers)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		assert.Zero(t, alive())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, 1, alive())
		time.Sleep(15 * time.Second) // the last one was five seconds ago
		synctest.Wait()
		cancel()
		<-done
		time.Sleep(24 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, alive())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, alive())
	})
}

// A probe without a response ends after ten seconds.
func TestPause_SilentProbe_EndsAfter10Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newResting(newEngine(), "a")
		r.probe = func(ctx context.Context, _ failure) error {
			r.probes = append(r.probes, time.Since(r.begun))
			<-ctx.Done()
			return ctx.Err()
		}
		r.failTimes(ctx, sameFailures)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Equal(t, seconds(1, 13, 27), r.looks())
		cancel()
		synctest.Wait()
	})
}

func TestKindOf_EachFailure_HasItsKind(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	client := srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	look := newProbe(client)
	require.NoError(t, look(t.Context(), failure{kind: kindService}))
	require.NoError(t, look(t.Context(), failure{kind: kindFile, file: filepath.Join(t.TempDir(), "none.wav")}))
	require.Error(t, look(t.Context(), failure{kind: kindFile, file: filepath.Join(t.TempDir(), "none", "none.wav")}))
	for status, want := range map[int]kind{401: kindUnauthorized, 403: kindForbidden, 429: kindRateLimited, 500: kindService, 503: kindService, 404: kindService} {
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(status, "synthetic").Times(1))
		assert.Equal(t, want, kindOf(look(t.Context(), failure{kind: kindService})), status)
	}
	_, err := clinicaldoc.AudioFile(filepath.Join(t.TempDir(), "none.wav"))
	assert.Equal(t, kindFile, kindOf(err))
	assert.Equal(t, kindEngine, kindOf(unreachable(errors.New("synthetic"))))
	srv.Close()
	_, err = client.Users.Me(t.Context())
	assert.Equal(t, kindService, kindOf(err))
}

// While the service rejects the token, a fleet makes few requests, however many recordings wait. When the service
// accepts the token, all recordings are uploaded.
func TestPause_ServiceGone_MakesFewRequests(t *testing.T) {
	t.Parallel()
	const count = 150
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	params := Params{Lease: untilTestEnds}
	publish(t, openFleet(t, connect(t, s), params), dir, count)
	srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
	client := srv.Client(clinicaldoc.WithStallTimeout(untilTestEnds)) // so that no create is without a response
	ended := make(chan error)
	var log bytes.Buffer
	for n := range 3 {
		params := params
		if n == 0 {
			params.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}
		f := openFleet(t, connect(t, s), params)
		go func() {
			var failure error
			for result, err := range f.Drain(t.Context(), &ingest.Uploader{Client: client, Workers: 4}) {
				if err != nil || result.Ending == Dead {
					failure = fmt.Errorf("%v %w", result, err)
				}
			}
			ended <- failure
		}()
	}
	watch := openFleet(t, connect(t, s), params)
	require.Eventually(t, func() bool {
		status, err := watch.Status(t.Context()) // who leads a pause may be late: then it is none for a moment
		return err == nil && status.Pause != nil && len(status.Workers) == 3 && strings.Contains(status.String(), "paused")
	}, untilTestEnds, 50*time.Millisecond)
	assert.Less(t, len(srv.Requests()), 100)
	assert.Empty(t, srv.Notes())
	srv.ClearFaults()
	for range 3 {
		require.NoError(t, <-ended)
	}
	require.NoError(t, srv.CreatedOnce(contents(count)...))
	assert.LessOrEqual(t, strings.Count(log.String(), "all uploads fail the same way"), 1)
}

// The reason of a pause is the failed upload, and not the search for its note, which is ended after some seconds.
func TestPause_ReportsTheFirstCause(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(503, "synthetic").Always())
		f := e.fleet(defaultLease)
		publish(t, f, dir, 2*sameFailures)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		u := uploader(srv)
		pauses := make(chan error, 100)
		u.OnEvent = func(event ingest.Event) {
			if event.Pause != nil && event.Pause.Why != nil {
				pauses <- event.Pause.Why
				cancel()
			}
		}
		for result, err := range f.Work(ctx, u) {
			require.NoError(t, err)
			assert.NotContains(t, fmt.Sprint(result.Err), "context canceled")
		}
		require.Len(t, pauses, 1)
		why := <-pauses
		require.ErrorIs(t, why, clinicaldoc.ErrServer)
		require.NotErrorIs(t, why, context.Canceled)
		assert.Contains(t, why.Error(), "503")
	})
}

func TestPause_FailuresInARow_KeepsFirstReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newResting(newEngine(), "a")
		var told []ingest.Pause
		r.onEvent = func(event ingest.Event) { told = append(told, *event.Pause) }
		r.report(ctx, fail("first synthetic failure", clinicaldoc.ErrServer), "")
		for range sameFailures {
			r.report(ctx, fail("later synthetic failure", clinicaldoc.ErrServer), "")
		}
		synctest.Wait()
		assert.Contains(t, r.pausedFor().reason, "first synthetic failure")
		assert.Contains(t, r.log.String(), "first synthetic failure")
		require.Len(t, told, 1)
		require.ErrorContains(t, told[0].Why, "first synthetic failure")
		shared, _, err := r.fleet.live.pause(ctx)
		require.NoError(t, err)
		assert.Contains(t, shared.Reason, "first synthetic failure")
		cancel()
		synctest.Wait()
	})
}

// If this machine does not find the files, only this worker pauses, and not the fleet.
func TestPause_FilesMissing_PausesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine()
		r := newResting(e, "a")
		for range sameFailures {
			r.report(ctx, &fs.PathError{Op: "open", Path: "CANARY", Err: fs.ErrNotExist}, "CANARY")
		}
		synctest.Wait()
		assert.True(t, r.pausedNow())
		assert.Empty(t, e.paused())
		assert.NotContains(t, r.pausedFor().reason+r.log.String(), "CANARY", "a path may hold a name")
		cancel()
		synctest.Wait()
	})
}

// A probe sends one request without retries: the pauses between probes take their place.
func TestProbe_ServiceUnavailable_IsNotRetried(t *testing.T) {
	t.Parallel()
	asked := 0
	client, err := clinicaldoc.NewClient(service, "synthetic", clinicaldoc.WithHTTPClient(&http.Client{Transport: answers(func(r *http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Request: r, Body: http.NoBody, Header: http.Header{}}, nil
	})}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: 1, MaxWait: 1}))
	require.NoError(t, err)
	require.Error(t, newProbe(client)(t.Context(), failure{kind: kindService}))
	assert.Equal(t, 1, asked)
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// Some servers keep the bucket of live workers in memory only. If it is gone, it is created again.
func TestLive_BucketGone_IsMadeAgain(t *testing.T) {
	t.Parallel()
	e := newEngine()
	l := e.fleet(defaultLease).live
	made := false
	e.before = func(_ context.Context, op, _ string) error {
		made = made || op == "bucket"
		if op == "put" {
			return errors.New("synthetic")
		}
		return nil
	}
	_ = l.beat(t.Context(), "a", liveWorker{})
	assert.True(t, made)
	e.before = nil
	l.store.header.Replicas = 3
	_, err := newLive(t.Context(), l.store)
	require.NoError(t, err)
	assert.Equal(t, jetstream.KeyValueConfig{Bucket: l.store.liveName(), TTL: 10 * time.Minute, Replicas: 3}, e.bucketAsked, "as many copies as of all else")
}
