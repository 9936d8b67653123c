package jetstream

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// save writes an entry as a worker of its own would.
func save(t *testing.T, j *Journal, e ingest.Entry) {
	t.Helper()
	c, err := j.Claim(t.Context(), e.Key)
	require.NoError(t, err)
	require.NoError(t, c.Save(t.Context(), e))
	c.Release()
}

func statesOf(t *testing.T, j *Journal, patient uint32, since time.Time) map[ingest.Key]ingest.State {
	t.Helper()
	entries, err := j.EntriesForPatient(t.Context(), patient, since)
	require.NoError(t, err)
	states := map[ingest.Key]ingest.State{}
	for _, e := range entries {
		states[e.Key] = e.State
	}
	assert.Len(t, entries, len(states), "each comes once")
	return states
}

// A worker that lists the entries of a patient sees every entry that was committed before, also while others write.
func TestEntries_WhileOthersWrite_ListWhatIsCommitted(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	openJournal(t, connect(t, s), time.Second)
	var all sync.WaitGroup
	for w := range 4 {
		j := openJournal(t, connect(t, s), time.Minute)
		all.Go(func() {
			for n := range 10 {
				e := entry(1000*w+n, ingest.StateCommitting)
				c, err := j.Claim(t.Context(), e.Key)
				if !assert.NoError(t, err) || !assert.NoError(t, c.Save(t.Context(), e)) {
					return
				}
				entries, err := j.EntriesForPatient(t.Context(), 7, time.Time{})
				if assert.NoError(t, err) {
					assert.GreaterOrEqual(t, len(entries), n+1, fmt.Sprint("worker ", w))
				}
				c.Release()
			}
		})
	}
	all.Wait()
	assert.Len(t, statesOf(t, openJournal(t, connect(t, s), time.Second), 7, time.Time{}), 40)
}

// damage overwrites the record of a committed recording with something that cannot be read.
func damage(t *testing.T, j *Journal, n int) {
	t.Helper()
	save(t, j, entry(n, ingest.StateCommitting))
	_, err := j.records(key(n)).Put(t.Context(), recordKey(key(n)), []byte("{"))
	require.NoError(t, err)
}

func TestEntriesForPatient_OneRecordIsDamaged_ListsTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newEngine().fleet(defaultLease).Journal()
		damage(t, j, 1)
		save(t, j, entry(2, ingest.StateCreated))
		save(t, j, entry(3, ingest.StateCommitting))
		entries, err := j.EntriesForPatient(t.Context(), 7, time.Time{})
		require.ErrorIs(t, err, ingest.ErrJournalDamaged)
		var keys []ingest.Key
		for _, e := range entries {
			keys = append(keys, e.Key)
		}
		assert.ElementsMatch(t, []ingest.Key{key(2), key(3)}, keys)
	})
}

// A damaged record of the patient must not hide a recording with the same content that is being sent.
func TestCommit_SameContentIsOpenAndAnotherRecordIsDamaged_Waits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		first := claimed(t, e.fleet(defaultLease).Journal(), 1)
		defer first.Release()
		require.NoError(t, first.Save(t.Context(), wantedTwice(1, ingest.StateCommitting)))
		damage(t, e.fleet(defaultLease).Journal(), 2)
		second := claimed(t, e.fleet(defaultLease).Journal(), 3)
		defer second.Release()
		require.ErrorIs(t, second.Save(t.Context(), wantedTwice(3, ingest.StateCommitting)), ingest.ErrTaken)
	})
}
