package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// The patient's unresolved recordings are found by marks. So a recording is not committed before its mark is written.
func TestCommit_PatientsMarkFails_IsNotMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		c := claimed(t, j, 1)
		c.stopRenewing()
		e.before = func(_ context.Context, op, key string) error {
			if op == "put" && strings.HasPrefix(key, "p.") {
				return errors.New("synthetic")
			}
			return nil
		}
		require.Error(t, c.Save(t.Context(), entry(1, ingest.StateCommitting)))
		e.before = nil
		r, _, err := j.read(t.Context(), key(1))
		require.NoError(t, err)
		assert.NotEqual(t, ingest.StateCommitting, r.Entry.State)
	})
}

// Release writes the record that was saved last, not the one whose Save failed.
func TestRelease_AfterFailedCommit_DoesNotWriteIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		var failing atomic.Bool
		e.before = func(_ context.Context, op, _ string) error {
			if op == "update" && failing.Load() {
				return errors.New("synthetic")
			}
			return nil
		}
		c := leased(t, j, 2)
		failing.Store(true)
		require.Error(t, c.Save(t.Context(), entry(2, ingest.StateCommitting)))
		failing.Store(false)
		c.Release()
		r, _, err := j.read(t.Context(), key(2))
		require.NoError(t, err)
		assert.NotEqual(t, ingest.StateCommitting, r.Entry.State)
	})
}

// A renewal was carried out when the claim ended, but its response did not come. Nobody waits for that lease to end.
func TestRelease_RenewalUnderWay_FreesTheRecording(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(*testing.T, *Journal) *claim{
		"new key": func(t *testing.T, j *Journal) *claim { return claimed(t, j, 1) },
		"leased":  func(t *testing.T, j *Journal) *claim { return leased(t, j, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				j := e.fleet(defaultLease).Journal()
				var responsesAreLost atomic.Bool
				e.carry = func(ctx context.Context, op string, effect func() error) error {
					err := effect()
					isWrite := op == "update" || op == "create"
					if isWrite && responsesAreLost.Load() {
						<-ctx.Done()
						return ctx.Err()
					}
					return err
				}
				c := create(t, j)
				responsesAreLost.Store(true)
				time.Sleep(defaultLease/3 + time.Second)
				responsesAreLost.Store(false)
				c.Release()
				begun := time.Now()
				claimed(t, j, 1).Release()
				assert.Zero(t, time.Since(begun))
			})
		})
	}
}

func TestRelease_LeaseTakenByAnother_LeavesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newEngine().fleet(defaultLease).Journal()
		c := leased(t, j, 1)
		value, err := json.Marshal(record{Owner: "another", WriteID: "another", Entry: c.record.Entry})
		require.NoError(t, err)
		_, err = j.records(key(1)).Put(t.Context(), recordKey(key(1)), value)
		require.NoError(t, err)
		c.Release()
		found, _, err := j.read(t.Context(), key(1))
		require.NoError(t, err)
		assert.Equal(t, "another", found.Owner)
	})
}

// A claim keeps its lease until Release, also if the context of Claim has ended: an upload may still be under way.
func TestLease_ContextEnded_LastsUntilRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		ctx, cancel := context.WithCancel(t.Context())
		c, err := j.Claim(ctx, key(1))
		require.NoError(t, err)
		time.Sleep(time.Second)
		cancel()
		time.Sleep(3 * defaultLease)
		other := e.fleet(defaultLease).Journal()
		_, err = other.Claim(t.Context(), key(1))
		require.ErrorIs(t, err, ingest.ErrTaken)
		c.Release()
		released := time.Now()
		next, err := other.Claim(t.Context(), key(1))
		require.NoError(t, err)
		assert.Zero(t, time.Since(released), "nobody waits for the rest of the lease")
		next.Release()
	})
}

func TestRenewal_LeaseTakenByAnother_IsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		c := leased(t, j, 1)
		c.stopRenewing()
		value, err := json.Marshal(record{Owner: "another", WriteID: "another", Entry: c.record.Entry})
		require.NoError(t, err)
		_, err = j.records(key(1)).Put(t.Context(), recordKey(key(1)), value)
		require.NoError(t, err)
		c.renew(t.Context())
		assert.True(t, c.isLost)
		require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateRefused)), ingest.ErrTaken)
	})
}

// A worker that cannot save its note while another has the recording leaves it to that one. It does not renew the
// other's lease, overwrite its record, or end its claim.
func TestSave_NoteCannotBeWritten_LeavesTheClaimToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var failing atomic.Bool
		var updates atomic.Int32
		e.before = func(_ context.Context, op, _ string) error {
			if op == "update" && failing.Load() && updates.Add(1) > 1 { // the first one meets the other's record
				return nats.ErrTimeout
			}
			return nil
		}
		j := e.fleet(defaultLease).Journal()
		c := leased(t, j, 1)
		defer c.Release()
		value, err := json.Marshal(record{Owner: "another", WriteID: "another", Entry: entry(1, ingest.StateInDoubt)})
		require.NoError(t, err)
		_, err = j.records(key(1)).Put(t.Context(), recordKey(key(1)), value)
		require.NoError(t, err)
		failing.Store(true)
		require.Error(t, c.Save(t.Context(), entry(1, ingest.StateCreated)))
		require.Greater(t, updates.Load(), int32(1))
		failing.Store(false)
		owner := func() string {
			r, _, err := j.read(t.Context(), key(1))
			require.NoError(t, err)
			return r.Owner
		}
		time.Sleep(defaultLease)
		assert.Equal(t, "another", owner(), "after a renewal")
		require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateRefused)), ingest.ErrTaken)
		assert.Equal(t, "another", owner())
		c.Release()
		assert.Equal(t, "another", owner(), "after a release")
		require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCreated)), "what the service said is true all the same")
	})
}

// Two workers may each have a note for one recording. The journal keeps the first, so what it has reported stays true.
func TestSave_SecondNoteOfARecording_KeepsTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		first, second, third := claimed(t, j, 1), claimed(t, j, 1), claimed(t, j, 1)
		first.stopRenewing()
		second.stopRenewing()
		third.stopRenewing()
		created := entry(1, ingest.StateCreated)
		require.NoError(t, first.Save(t.Context(), created))
		other := created
		other.NoteID++
		require.NoError(t, second.Save(t.Context(), other))
		assert.Equal(t, created.NoteID, second.Entry().NoteID, "also for who came second")
		require.ErrorIs(t, third.Save(t.Context(), entry(1, ingest.StateInDoubt)), ingest.ErrTaken)
		require.NoError(t, third.Save(t.Context(), other), "as does one whose doubt was too late")
		r, _, err := j.read(t.Context(), key(1))
		require.NoError(t, err)
		assert.Equal(t, created.NoteID, r.Entry.NoteID)
	})
}

// The time from which an unresolved recording can be decided follows the clock of the engine. Other workers see the
// right time even if the clock of the worker that saved it is wrong.
func TestUnresolved_WrongWorkerClock_EndsByTheServersClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.ahead = time.Hour
		j := e.fleet(defaultLease).Journal()
		c := claimed(t, j, 1)
		doubt := entry(1, ingest.StateInDoubt)
		doubt.Until = time.Now().Add(10 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		assert.True(t, c.record.UntilByEngine.Equal(time.Now().Add(time.Hour+10*time.Minute)), c.record.UntilByEngine)
		c.Release()
		e.ahead = 2 * time.Hour // of a new leader
		c = claimed(t, j, 1)
		assert.True(t, c.Entry().Until.Equal(doubt.Until), "no clock ends it before the time that was written")
		c.Release()
		e.ahead = 0 // by which an hour more is left
		c = claimed(t, j, 1)
		for range 2 {
			seen := c.Entry()
			assert.Equal(t, time.Hour, seen.Until.Sub(doubt.Until))
			require.NoError(t, c.Save(t.Context(), seen))
			assert.True(t, c.record.Entry.Until.Equal(doubt.Until), "for others it is as it was")
		}
		c.Release()
	})
}

// The time from which an unresolved recording can be decided is saved once, by the clock of the engine at that time.
// Later renewals do not move it, whatever the clocks show then.
func TestUnresolved_RenewedByOtherClocks_KeepsItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		c := claimed(t, e.fleet(defaultLease).Journal(), 1)
		c.stopRenewing()
		doubt := entry(1, ingest.StateInDoubt)
		doubt.Until = time.Now().Add(10 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		before := c.record.UntilByEngine
		e.ahead = time.Hour // the engine's clock jumps
		c.renew(t.Context())
		assert.True(t, before.Equal(c.record.UntilByEngine), c.record.UntilByEngine.Sub(before))
	})
}

// If the caller saves a new time from which an unresolved recording can be decided, that time is kept, also if the
// clock of the worker differs from that in the record.
func TestUnresolved_NewEnd_IsSavedAsGiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		c := claimed(t, e.fleet(defaultLease).Journal(), 1)
		c.stopRenewing()
		doubt := entry(1, ingest.StateInDoubt)
		doubt.Until = time.Now().Add(10 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		e.ahead = time.Hour        // the engine's clock jumps
		c.untilShift = time.Minute // Entry shows the end a minute later here than it is in the record
		doubt.Until = time.Now().Add(20 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		assert.True(t, doubt.Until.Equal(c.Entry().Until), c.Entry().Until.Sub(doubt.Until))
		assert.Equal(t, 20*time.Minute, c.record.UntilByEngine.Sub(e.now()))
	})
}

// A recording keeps its note in the journal unless a person decides otherwise. Then the old note stays in Replaced.
func TestSave_RecordingHasItsNote_KeepsItUnlessDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newEngine().fleet(defaultLease).Journal()
		c := claimed(t, j, 1)
		require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCreated)))
		c.Release()
		c = claimed(t, j, 1)
		other := entry(1, ingest.StateCreated)
		other.NoteID++
		for _, e := range []ingest.Entry{
			entry(1, ingest.StateRefused), entry(1, ingest.StateInDoubt), entry(1, ingest.StateCommitting), other,
		} {
			require.ErrorIs(t, c.Save(t.Context(), e), ingest.ErrTaken, e.State)
		}
		c.Release()
		assert.Equal(t, ingest.StateCreated, claimed(t, j, 1).Entry().State)
		other.Replaced = []ingest.NoteRef{{ID: other.NoteID - 1}}
		require.NoError(t, claimed(t, j, 1).Save(t.Context(), other))
		assert.Equal(t, other.NoteID, claimed(t, j, 1).Entry().NoteID)
	})
}

// A claim makes no unnecessary writes, because an embedded server syncs the disk for each.
func TestClaim_WriteNotNeeded_IsNotMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(t *testing.T, c *claim)
		writes int
	}{
		"carried out unheard": {func(t *testing.T, c *claim) {
			t.Helper()
			require.NoError(t, c.Save(t.Context(), entry(0, ingest.StateCommitting)))
		}, 1},
		"its note, carried out unheard": {func(t *testing.T, c *claim) {
			t.Helper()
			require.NoError(t, c.Save(t.Context(), entry(0, ingest.StateCreated)))
		}, 1},
		"renewed after its note": {func(t *testing.T, c *claim) {
			t.Helper()
			require.NoError(t, c.Save(t.Context(), entry(0, ingest.StateCreated)))
			c.renew(t.Context())
		}, 1},
		"released twice": {func(t *testing.T, c *claim) {
			t.Helper()
			c.renew(t.Context())
			c.Release()
			c.Release()
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				unheard := strings.HasSuffix(name, "unheard")
				e.carry = func(_ context.Context, op string, effect func() error) error {
					err := effect()
					if op == "create" && unheard {
						unheard = false
						return nats.ErrTimeout
					}
					return err
				}
				j := e.fleet(defaultLease).Journal()
				held := claimed(t, j, 0)
				c.do(t, held)
				assert.Len(t, e.writesOf(j, key(0), time.Now()), c.writes)
				held.Release()
			})
		})
	}
}

// While another worker has the recording, Claim reads its record. It stops waiting when the recording is released or
// has a note. If two workers want a free recording, the second one waits in the same way.
func TestClaim_HeldByAnother_WaitsUntilItIsReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, first *claim)
		state     ingest.State
	}{
		"let go": {func(_ *testing.T, first *claim) { first.Release() }, ingest.StateClaimed},
		"its note": {func(t *testing.T, first *claim) {
			t.Helper()
			assert.NoError(t, first.Save(t.Context(), entry(1, ingest.StateCreated)))
		}, ingest.StateCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				first := leased(t, e.fleet(defaultLease).Journal(), 1)
				timer := time.AfterFunc(time.Second, func() { c.meanwhile(t, first) })
				defer timer.Stop()
				asked := time.Now()
				second := claimed(t, e.fleet(defaultLease).Journal(), 1)
				assert.Equal(t, c.state, second.Entry().State)
				assert.Equal(t, 7500*time.Millisecond, time.Since(asked))
				second.Release()
				first.Release()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		leased(t, e.fleet(defaultLease).Journal(), 1).Release()
		slow := e.another()
		faster := sync.OnceFunc(func() { claimed(t, e.fleet(defaultLease).Journal(), 1).stopRenewing() }) // and it dies
		slow.before = func(_ context.Context, op, _ string) error {
			if op == "update" {
				faster()
			}
			return nil
		}
		asked := time.Now()
		claimed(t, slow.fleet(defaultLease).Journal(), 1).Release()
		assert.Equal(t, 30*time.Second, time.Since(asked))
	})
}

// wantedTwice is the entry of a recording that is wanted as several notes of its patient.
func wantedTwice(n int, state ingest.State) ingest.Entry {
	e := entry(n, state)
	e.SHA256 = strings.Repeat("ab", 32)
	return e
}

// Two recordings with the same content cannot be told apart by their notes if both outcomes are unknown. So a worker
// does not commit one while any worker commits the other, or is unresolved about it.
func TestCommit_SameContentIsOpenElsewhere_Waits(t *testing.T) {
	t.Parallel()
	for _, open := range []ingest.State{ingest.StateCommitting, ingest.StateInDoubt} {
		t.Run(open.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				first := claimed(t, e.fleet(defaultLease).Journal(), 1)
				defer first.Release()
				second := claimed(t, e.fleet(defaultLease).Journal(), 2)
				defer second.Release()
				require.NoError(t, first.Save(t.Context(), wantedTwice(1, ingest.StateCommitting)))
				if open == ingest.StateInDoubt {
					require.NoError(t, first.Save(t.Context(), wantedTwice(1, ingest.StateInDoubt)))
				}
				err := second.Save(t.Context(), wantedTwice(2, ingest.StateCommitting))
				require.ErrorIs(t, err, ingest.ErrTaken)
				require.ErrorContains(t, err, "the same content")
				second.Release()
				known, _, err := second.journal.read(t.Context(), key(2))
				require.NoError(t, err)
				assert.False(t, mayHaveNote(known.Entry.State), "nothing of it has left: %s", known.Entry.State)

				other := entry(3, ingest.StateCommitting)
				other.SHA256 = strings.Repeat("cd", 32)
				third := claimed(t, second.journal, 3)
				require.NoError(t, third.Save(t.Context(), other), "other content waits for nobody")
				third.Release()

				require.NoError(t, first.Save(t.Context(), wantedTwice(1, ingest.StateCreated)))
				first.Release()
				again := claimed(t, second.journal, 2)
				require.NoError(t, again.Save(t.Context(), wantedTwice(2, ingest.StateCommitting)))
				again.Release()
			})
		})
	}
}

// If several workers commit recordings with the same content at the same time, at most one succeeds.
func TestCommit_SameContentAtTheSameTime_GoesOnOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			var commits atomic.Int64
			var all sync.WaitGroup
			for n := range 3 {
				machine := e.another()
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				var mu sync.Mutex
				machine.before = func(context.Context, string, string) error {
					mu.Lock()
					defer mu.Unlock()
					time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
					return nil
				}
				all.Go(func() {
					c := claimed(t, machine.fleet(defaultLease).Journal(), n)
					defer c.Release()
					if c.Save(t.Context(), wantedTwice(n, ingest.StateCommitting)) == nil {
						commits.Add(1)
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, commits.Load(), int64(1), "seed %d", seed)
		})
	}
}
