package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// Each number of the fleet's timing stands here once more: doubled or halved, one of these tests fails.

var discard = slog.New(slog.DiscardHandler)

// A lease lasts 30 seconds after its last renewal, and is renewed every ten seconds.
func TestLease_WithoutASignOfLife_Lasts30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		begun := time.Now()
		c := claimed(t, j, 1)
		time.Sleep(35 * time.Second)
		assert.Equal(t, []time.Duration{100 * time.Millisecond, 10100 * time.Millisecond, 20100 * time.Millisecond, 30100 * time.Millisecond}, e.writesOf(j, key(1), begun))
		fallSilent(c)
		asked := time.Now()
		other := claimed(t, e.fleet(defaultLease).Journal(), 1)
		assert.Equal(t, 30*time.Second, time.Since(asked))
		other.Release()
		require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateCommitting)), ingest.ErrTaken)
		assert.True(t, c.isLost, "it asks no more")
	})
}

// A lease below 200 ms is rejected, and nothing is created then. An upload that takes less than a third of the lease is
// not leased.
func TestLease_Shortest_Is200Milliseconds(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t))
	openFleet(t, conn, Params{Lease: 200 * time.Millisecond})
	_, err := Join(t.Context(), conn, Params{Lease: 199 * time.Millisecond})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = Begin(t.Context(), conn, Params{Name: "other", Lease: 199 * time.Millisecond})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = Join(t.Context(), conn, Params{Name: "other"})
	require.ErrorIs(t, err, ErrNoFleet, "what is refused makes nothing")
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(240 * time.Millisecond).Journal()
		begun := time.Now()
		c := claimed(t, j, 1)
		time.Sleep(79 * time.Millisecond)
		assert.Empty(t, e.writesOf(j, key(1), begun))
		time.Sleep(11 * time.Millisecond)
		assert.Equal(t, []time.Duration{80 * time.Millisecond}, e.writesOf(j, key(1), begun))
		c.Release()
	})
}

// If the journal already knows the recording, its lease is written immediately, and renewed like any other.
func TestLease_KnownRecording_IsWrittenImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		leased(t, j, 1).Release()
		begun, before := time.Now(), len(e.writesOf(j, key(1), time.Now()))
		c := claimed(t, j, 1)
		time.Sleep(25 * time.Second)
		assert.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, e.writesOf(j, key(1), begun)[before:])
		c.Release()
	})
}

// A renewal without a response from the engine is repeated when the next one is due, and not ten seconds after its own
// end.
func TestRenewal_Late_DoesNotDelayTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		begun := time.Now()
		e.before = func(ctx context.Context, op, _ string) error {
			if op == "update" && time.Since(begun) < 19*time.Second { // which the requests of the first renewal are
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		c := claimed(t, j, 1)
		time.Sleep(29 * time.Second)
		assert.Equal(t, []time.Duration{100 * time.Millisecond, 20100 * time.Millisecond}, e.writesOf(j, key(1), begun))
		c.Release()
	})
}

// Waiting for a silent server is bounded by the lease. The path from the patient may take half of it, and a renewal
// or the end of the claim a third.
func TestClaim_SilentServer_WaitsOnlyAPartOfTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			lease time.Duration
			do    func(*claim)
			want  time.Duration
		}{
			"mark": {12 * time.Second, func(c *claim) {
				err := c.markPatient(t.Context(), 7)
				require.ErrorIs(t, err, errEngine)
				require.ErrorIs(t, err, context.DeadlineExceeded, "by which a run knows its own end")
			}, 10100 * time.Millisecond}, // the second request begins after 5.1 s
			"renewal": {30 * time.Second, func(c *claim) { c.renew(t.Context()) }, 10 * time.Second},
			"release": {6 * time.Second, (*claim).Release, 2 * time.Second},
		} {
			e := newEngine()
			j := e.fleet(c.lease).Journal()
			held := leased(t, j, 1)
			if name != "release" {
				held.stopRenewing()
			}
			e.before = func(ctx context.Context, _, _ string) error { <-ctx.Done(); return ctx.Err() }
			begun := time.Now()
			c.do(held)
			assert.Equal(t, c.want, time.Since(begun), name)
		}
	})
}

// A connection tries to reconnect every half second, and sends a ping every three seconds. The engine waits for a
// worker's sign of life as long as the lease of the worker that began the fleet, and keeps the entry of a live worker
// for ten minutes. A request for a recording takes 200 ms.
func TestConnection_TimesAndLimits_AreSet(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn := connect(t, s)
	assert.Equal(t, 500*time.Millisecond, conn.Opts.ReconnectWait)
	assert.Equal(t, 3*time.Second, conn.Opts.PingInterval)
	f := openFleet(t, conn, Params{Lease: 40 * time.Second})
	assert.False(t, f.logger.Enabled(t.Context(), slog.LevelError), "without a Logger nothing is logged")
	for _, l := range []lane{freshLane, againLane} {
		assert.Equal(t, 40*time.Second, f.queue.consumer(l).CachedInfo().Config.AckWait)
	}
	bucket, err := f.live.kv.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 10*time.Minute, bucket.TTL())
	_, err = f.store.js.UpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: f.store.liveName(), TTL: time.Hour}) // by an administrator
	require.NoError(t, err)
	other, err := Join(t.Context(), conn, Params{Lease: time.Minute, Logger: discard})
	require.NoError(t, err)
	assert.Equal(t, 40*time.Second, other.queue.ackWait, "a later worker does not change it")
	assert.Same(t, discard, other.logger)

	asked, err := connect(t, s).SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.>")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, err := range f.Work(ctx, &ingest.Uploader{}) {
			assert.NoError(t, err)
		}
	}()
	for range 8 {
		request, err := asked.NextMsgWithContext(ctx)
		require.NoError(t, err)
		assert.Contains(t, string(request.Data), `"expires":200000000,`)
	}
	cancel()
	<-ended
}

// Embed returns an error if the server has not started after ten seconds.
func TestEmbed_DoesNotStart_FailsAfter10Seconds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "store"), nil, 0o600)) // where its folder should be
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := Embed(t.Context(), dir)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "no reason was given")
		assert.NotContains(t, err.Error(), dir, "its name may be a patient's")
		assert.Equal(t, 10*time.Second, time.Since(begun).Round(time.Second))
		lock, err := disk.Take(filepath.Join(dir, "clinicaldoc.lock"))
		require.NoError(t, err, "the folder is free for the next try")
		require.NoError(t, disk.Close(lock))
	})
}

// Doubts yields all unresolved entries or an error: after 20 seconds without a response, and when the connection is
// lost.
func TestDoubts_SilentServer_ReturnsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		begun := time.Now()
		for _, err := range e.fleet(defaultLease).Journal().Doubts(t.Context()) {
			require.ErrorIs(t, err, errEngine)
		}
		assert.Equal(t, 20*time.Second, time.Since(begun))
		e.watched = make(chan jetstream.KeyValueEntry)
		close(e.watched)
		failed := false
		for _, err := range e.fleet(defaultLease).Journal().Doubts(t.Context()) {
			require.ErrorIs(t, err, errEngine)
			failed = true
		}
		assert.True(t, failed)
		e.watched = make(chan jetstream.KeyValueEntry)
		value, err := json.Marshal(record{Entry: entry(1, ingest.StateInDoubt)})
		require.NoError(t, err)
		go func() { // a large journal takes a while
			for range 3 {
				time.Sleep(15 * time.Second)
				e.watched <- &memoryEntry{value: value}
			}
			for range e.store.header.Buckets {
				e.watched <- nil
			}
		}()
		doubts := 0
		for _, err := range e.fleet(defaultLease).Journal().Doubts(t.Context()) {
			require.NoError(t, err)
			doubts++
		}
		assert.Equal(t, 3, doubts)
	})
}

// A claim that waits for another worker reads its record every seven and a half seconds, and so notices that the worker
// lives.
func TestClaim_LivingOwner_IsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		c := leased(t, j, 1) // renewed after 0.1 s
		time.Sleep(7 * time.Second)
		asked := time.Now()
		_, err := e.fleet(defaultLease).Journal().Claim(t.Context(), key(1))
		require.ErrorIs(t, err, ingest.ErrTaken)
		assert.Equal(t, 7500*time.Millisecond, time.Since(asked), "renewed after 3.1 s")
		c.Release()
	})
}

// A commit that takes longer than half the lease fails. A later entry of the recording is saved however long that
// takes.
func TestCommit_LongerThan15Seconds_Fails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state ingest.State
		takes time.Duration
		want  error
	}{
		{ingest.StateCommitting, 15 * time.Second, nil},
		{ingest.StateCommitting, 15*time.Second + time.Millisecond, ingest.ErrTaken},
		{ingest.StateInDoubt, 15*time.Second + time.Millisecond, nil},
	} {
		state, takes, want := c.state, c.takes, c.want
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			c := claimed(t, e.fleet(defaultLease).Journal(), 1)
			begun := time.Now()
			e.before = func(ctx context.Context, op, _ string) error { // fails, for that time
				if op == "create" && time.Since(begun) < takes {
					select {
					case <-time.After(min(4*time.Second, takes-time.Since(begun)) - patientlyEach):
						return errors.New("synthetic")
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			}
			c.stopRenewing()
			err := c.Save(t.Context(), entry(1, state))
			assert.Equal(t, takes, time.Since(begun))
			require.ErrorIs(t, err, want)
		})
	}
}

func (c *claim) stopRenewing() {
	c.stopRenewals()
	<-c.renewalsEnded
}

// A request that fails is repeated ten times a second for 20 seconds. A request without a response takes five seconds.
func TestPatiently_FailingServer_GivesUpAfter20Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			silent bool
			asked  int
			took   time.Duration
		}{{false, 202, 20100 * time.Millisecond}, {true, 4, 20300 * time.Millisecond}} {
			e := newEngine()
			j := e.fleet(defaultLease).Journal()
			asked := 0
			e.before = func(ctx context.Context, _, _ string) error {
				asked++
				if c.silent {
					<-ctx.Done()
				}
				return errors.New("synthetic")
			}
			begun := time.Now()
			_, err := j.Claim(t.Context(), key(1))
			require.ErrorIs(t, err, errEngine)
			assert.Equal(t, c.took, time.Since(begun))
			assert.Equal(t, c.asked, asked)
		}
	})
}

// A store is verified again after ten seconds, and not sooner.
func TestStore_IsVerifiedEvery10Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		f := e.fleet(defaultLease)
		streams := len(f.store.streams())
		for _, c := range []struct {
			after time.Duration
			asked int
		}{{0, streams}, {9 * time.Second, streams}, {time.Second, 2 * streams}, {9999 * time.Millisecond, 2 * streams}, {time.Millisecond, 3 * streams}} {
			time.Sleep(c.after)
			require.NoError(t, f.store.check(t.Context()))
			assert.Len(t, e.infos, c.asked)
		}
	})
}

// A worker notices that an older copy of its store was restored.
func TestStore_OlderCopyRestored_IsRejected(t *testing.T) {
	t.Parallel()
	f := newEngine().fleet(defaultLease)
	require.NoError(t, f.store.check(t.Context()))
	f.store.sequences[f.store.queueName()] = 1
	f.store.verified = time.Time{}
	require.ErrorIs(t, f.store.check(t.Context()), ErrStore)
}

// A failed recording rests for two seconds, and twice as long after each further failure, up to ten minutes. Up to half
// of that is added or subtracted at random.
func TestDelay_DoublesUpTo10Minutes(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]int{0: 2, 1: 2, 2: 4, 3: 8, 8: 256, 9: 512, 10: 600, 100: 600} {
		want := time.Duration(want) * time.Second
		assert.Equal(t, want, delay(tries, 0.5), tries)
		assert.Equal(t, want/2, delay(tries, 0), tries)
		assert.Equal(t, want*3/2, delay(tries, 1), tries)
	}
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{time.Second: 2 * time.Second, 3 * time.Second: 3 * time.Second, 9 * time.Minute: 9 * time.Minute, time.Hour: 10 * time.Minute} {
			doubt := ingest.Result{Status: ingest.InDoubt, Until: time.Now().Add(left)}
			assert.Equal(t, want, judge(doubt, nil, 7, 0.5, defaultLease).Rest, left)
		}
		taken := ingest.Result{Status: ingest.InDoubt, Err: errTaken}
		assert.Equal(t, 30*time.Second, judge(taken, nil, 7, 0.5, defaultLease).Rest)
		assert.Equal(t, time.Second, judge(ingest.Result{}, errStopped, 7, 0.5, defaultLease).Rest)
		assert.Equal(t, 8*time.Second, judge(ingest.Result{}, errors.New("synthetic"), 3, 0.5, defaultLease).Rest)
	})
}

// message is one of a lane.
type message struct {
	jetstream.Msg
	progress atomic.Int64
}

func (m *message) InProgress() error { m.progress.Add(1); return nil }
func (m *message) DoubleAck(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A worker shows the engine every ten seconds that it has the recording. When the recording has ended, the worker waits
// at most five seconds for the engine to confirm that.
func TestDelivery_InHand_ShowsASignOfLifeEvery10Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &message{} // is never acknowledged
		d := &delivery{queue: newEngine().fleet(defaultLease).queue, message: m}
		ctx, cancel := context.WithCancel(t.Context())
		go d.keepAlive(ctx)
		time.Sleep(35 * time.Second)
		assert.Equal(t, int64(3), m.progress.Load())
		cancel()
		begun := time.Now()
		w := &work{fleet: newEngine().fleet(defaultLease)}
		w.end(t.Context(), d, &outcome{Result: Result{Ending: Done}})
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

// lossy is a service that receives recordings, but whose responses to them are lost. It has no notes. Its clock may be
// behind.
type lossy struct {
	behind  time.Duration
	slow    time.Duration // its first list is
	creates int
}

func (s *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	body := `{"data":[],"meta":{"current_page":1,"last_page":1,"per_page":100,"total":0}}`
	switch {
	case r.Method == http.MethodPost:
		s.creates++
		return nil, errors.New("synthetic: the connection was lost")
	case strings.HasSuffix(r.URL.Path, "/user"):
		body = `{"id":1,"name":"Synthetic","email":"s@example.test","created_at":"2000-01-01T00:00:00Z","updated_at":"2000-01-01T00:00:00Z"}`
	default:
		time.Sleep(s.slow)
		s.slow = 0
	}
	header := http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().Add(-s.behind).UTC().Format(http.TimeFormat)}}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(body)), Header: header}, nil
}

// synthetic is a recording in memory.
func synthetic() ingest.Recording {
	params := clinicaldoc.CreateNoteParams{Name: "Encounter #1.", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", content(1))}
	return ingest.Recording{Key: "1", Params: params}
}

func lossyWork(t *testing.T, e *engine, s *lossy) *work {
	t.Helper()
	client, err := clinicaldoc.NewClient(service, "synthetic", clinicaldoc.WithHTTPClient(&http.Client{Transport: s}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	require.NoError(t, err)
	return withFollower(&work{fleet: e.fleet(defaultLease), uploader: &ingest.Uploader{Client: client, Until: clinicaldoc.StageUploaded}})
}

// An unresolved recording is searched for during five seconds. Then it rests until it can be decided: ten minutes after
// the response was lost.
func TestWork_Unresolved_IsSearchedFor5Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &lossy{}
		w := lossyWork(t, newEngine(), s)
		begun := time.Now()
		result, err := w.upload(t.Context(), synthetic())
		require.NoError(t, err)
		assert.Equal(t, ingest.InDoubt, result.Status)
		assert.Equal(t, 5*time.Second, time.Since(begun))
		assert.Equal(t, 10*time.Minute, result.Until.Sub(begun))
		assert.Equal(t, 1, s.creates)

		// The time before the search does not count, such as that of the list of a patient's notes.
		s = &lossy{slow: 10 * time.Second}
		begun = time.Now()
		_, err = lossyWork(t, newEngine(), s).upload(t.Context(), synthetic())
		require.NoError(t, err)
		assert.Equal(t, 15*time.Second, time.Since(begun))
		assert.Equal(t, 1, s.creates)
	})
}

// A worker whose clock is an hour ahead, by which ten minutes have passed, decides nothing that the engine's clock does
// not: the service may still be making the note. When its time has come, it is uploaded once more.
func TestWork_ClockAnHourAhead_DecidesNothingEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &lossy{}
		result, err := lossyWork(t, e, s).upload(t.Context(), synthetic())
		require.NoError(t, err)
		require.Equal(t, ingest.InDoubt, result.Status)

		// This worker's clock moves by an hour. Those of the engine and the service do not.
		time.Sleep(time.Hour)
		e.ahead = -time.Hour
		s.behind = time.Hour
		result, err = lossyWork(t, e, s).upload(t.Context(), synthetic())
		require.NoError(t, err)
		assert.Equal(t, ingest.InDoubt, result.Status)
		assert.Equal(t, 1, s.creates, "it was not uploaded again")
		left := time.Until(result.Until)
		twoSearches := 10 * time.Second
		assert.InDelta(t, (10*time.Minute - twoSearches).Seconds(), left.Seconds(), 1, "by the engine's clock")

		// The worker with the wrong clock did not make the wait longer for the others.
		e.ahead = 0 // now the hour has passed by all clocks
		s.behind = 0
		time.Sleep(time.Second)
		c := entryOf(t, e)
		assert.True(t, c.Until.Before(time.Now()), "it is due: %v", time.Until(c.Until))
		_, err = lossyWork(t, e, s).upload(t.Context(), synthetic())
		require.NoError(t, err)
		assert.Greater(t, s.creates, 1, "then it is uploaded again")
	})
}

// entryOf returns the only entry in an engine, as a worker sees it.
func entryOf(t *testing.T, e *engine) ingest.Entry {
	t.Helper()
	j := e.fleet(defaultLease).Journal()
	for _, b := range j.buckets {
		for name := range b.KeyValue.(*memory).entries {
			if digits, ok := strings.CutPrefix(name, "r."); ok {
				var k ingest.Key
				require.NoError(t, k.UnmarshalText([]byte(digits)))
				c, err := j.Claim(t.Context(), k)
				require.NoError(t, err)
				e := c.Entry()
				c.Release()
				return e
			}
		}
	}
	t.Fatal("there is none")
	return ingest.Entry{}
}

// A request of the limiter takes at most two seconds. If a place is not due yet, the limiter waits at most a tenth of
// the interval longer.
func TestLimiter_SilentServerOrPlaceNotDue_WaitsInBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		l, err := e.fleet(defaultLease).Limiter(2)
		require.NoError(t, err)
		var longest time.Duration
		for range 300 {
			before := time.Now()
			require.NoError(t, l.Wait(t.Context()))
			longest = max(longest, time.Since(before))
		}
		assert.Greater(t, longest, 535*time.Millisecond)
		assert.LessOrEqual(t, longest, 550*time.Millisecond)

		asked := 0
		e.before = func(ctx context.Context, _, _ string) error {
			asked++
			<-ctx.Done()
			return ctx.Err()
		}
		begun := time.Now()
		require.ErrorIs(t, l.Wait(t.Context()), errEngine)
		assert.Equal(t, 10, asked)
		assert.Equal(t, 20900*time.Millisecond, time.Since(begun))
	})
}

// A verification that failed does not count: the next one follows immediately.
func TestStore_VerificationFailed_IsRepeatedImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		s := e.fleet(defaultLease).store
		e.before = func(context.Context, string, string) error { return errors.New("synthetic") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, s.check(ctx))
		e.before = nil
		config := e.configs[s.deadName()]
		config.MaxAge = time.Hour
		e.configs[s.deadName()] = config
		require.ErrorIs(t, s.check(t.Context()), ErrStore)
	})
}

// Each verification remembers the last sequence number of each stream, so an older copy is noticed later.
func TestStore_OlderCopyAfterAVerification_IsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		f := e.fleet(defaultLease)
		_, err := e.Publish(t.Context(), e.store.subject("q")+"1", []byte("{}"))
		require.NoError(t, err)
		require.NoError(t, f.store.check(t.Context()))
		e.bucket(f.store.queueName()).last = 0
		time.Sleep(verifyEvery)
		require.ErrorIs(t, f.store.check(t.Context()), ErrStore)
		e.bucket(f.store.queueName()).last = 9
		e.before = func(context.Context, string, string) error { t.Error("who knew the old one asks no more"); return nil }
		require.ErrorIs(t, f.store.check(t.Context()), ErrStore)
	})
}

// After a lost connection the store is verified again, and once more if that fails.
func TestStore_Reconnected_IsVerifiedUntilThatSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		s := e.fleet(defaultLease).store
		require.NoError(t, s.check(t.Context()))
		s.reconnects = 1 // others than those of the connection
		e.before = func(context.Context, string, string) error { return errors.New("synthetic") }
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.Error(t, s.check(ctx), "it was not verified")
			cancel()
		}
		e.before = nil
		require.NoError(t, s.check(t.Context()))
		assert.Zero(t, s.reconnects)
	})
}

func TestLogger_KeepsTheFirstError(t *testing.T) {
	t.Parallel()
	var l logger
	assert.Equal(t, "no reason was given", l.first())
	l.Errorf("the %s", "first")
	l.Fatalf("the second")
	assert.Equal(t, "the first", l.first())
}
