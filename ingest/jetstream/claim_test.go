package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// A recording that its patient does not lead to would be overlooked by whoever decides on the patient's doubts.
func TestNothingIsCommittedWithoutItsMark(t *testing.T) {
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

// What is under way when a run ends has its lease until it is released.
func TestALeaseOutlivesTheRunsContext(t *testing.T) {
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
		_, err = e.fleet(defaultLease).Journal().Claim(t.Context(), key(1))
		require.ErrorIs(t, err, ingest.ErrTaken)
		c.Release()
	})
}

func TestARenewalNoticesThatTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		c := leased(t, j, 1)
		c.stopRenewing()
		value, err := json.Marshal(record{Owner: "another", Beat: "another", Entry: c.record.Entry})
		require.NoError(t, err)
		_, err = j.records(key(1)).Put(t.Context(), recordKey(key(1)), value)
		require.NoError(t, err)
		c.renew(t.Context())
		assert.True(t, c.lost)
		require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateRefused)), ingest.ErrTaken)
	})
}

// Whoever cannot write down its note, while another has the recording, leaves it to that one: it does not renew the other's lease
// as its own, save anything else over it, or end it.
func TestANoteThatCannotBeWrittenLeavesTheRecordingToAnother(t *testing.T) {
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
		value, err := json.Marshal(record{Owner: "another", Beat: "another", Entry: entry(1, ingest.StateInDoubt)})
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

// Two workers may each have a note for one recording; the journal keeps to the first, so that all that was said stays true.
func TestTheFirstNoteStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		j := e.fleet(defaultLease).Journal()
		first, second := claimed(t, j, 1), claimed(t, j, 1)
		first.stopRenewing()
		second.stopRenewing()
		created := entry(1, ingest.StateCreated)
		require.NoError(t, first.Save(t.Context(), created))
		other := created
		other.NoteID++
		require.NoError(t, second.Save(t.Context(), other))
		r, _, err := j.read(t.Context(), key(1))
		require.NoError(t, err)
		assert.Equal(t, created.NoteID, r.Entry.NoteID)
	})
}

func TestAClaimKnowsAPersonsWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newEngine().fleet(defaultLease).Journal()
		c := claimed(t, j, 1)
		word := entry(1, ingest.StateRefused)
		word.By = "a person"
		require.NoError(t, c.Save(t.Context(), word))
		c.Release()
		c = claimed(t, j, 1)
		assert.Equal(t, "a person", c.Entry().By)
		assert.Equal(t, ingest.StateClaimed, c.Entry().State)
		c.Release()
	})
}

// For others a doubt ends by the engine's clock, whatever the clock of the worker says that had it.
func TestADoubtIsCountedByTheEnginesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.ahead = time.Hour
		j := e.fleet(defaultLease).Journal()
		c := claimed(t, j, 1)
		doubt := entry(1, ingest.StateInDoubt)
		doubt.Until = time.Now().Add(10 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		assert.True(t, c.record.Due.Equal(time.Now().Add(time.Hour+10*time.Minute)), c.record.Due)
		c.Release()
	})
}

// When a doubt ends is written once, by the engine's clock at that time: no renewal puts it off or brings it nearer, whatever the
// clocks do since. And a new time is as it was given.
func TestADoubtEndsWhenItWasWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		c := claimed(t, e.fleet(defaultLease).Journal(), 1)
		c.stopRenewing()
		doubt := entry(1, ingest.StateInDoubt)
		doubt.Until = time.Now().Add(10 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		due := c.record.Due
		e.ahead = time.Hour
		c.renew(t.Context())
		assert.True(t, due.Equal(c.record.Due), c.record.Due.Sub(due))

		c.ahead = time.Minute // as of a worker whose clock is behind
		doubt.Until = time.Now().Add(20 * time.Minute)
		require.NoError(t, c.Save(t.Context(), doubt))
		assert.True(t, doubt.Until.Equal(c.Entry().Until), c.Entry().Until.Sub(doubt.Until))
		assert.Equal(t, 20*time.Minute, c.record.Due.Sub(e.now()))
	})
}

// A recording that has its note is nobody's to change.
func TestARecordingWithItsNoteStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newEngine().fleet(defaultLease).Journal()
		c := claimed(t, j, 1)
		require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCreated)))
		c.Release()
		c = claimed(t, j, 1)
		require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateRefused)), ingest.ErrTaken)
		c.Release()
		assert.Equal(t, ingest.StateCreated, claimed(t, j, 1).Entry().State)
	})
}
