package jetstream

import (
	"fmt"
	"sync"
	"testing"
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

// A patient's entries are what any worker has written, in whatever state a recording came into the journal.
func TestEntriesForAPatient(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	mine, theirs := openJournal(t, connect(t, s), time.Second), openJournal(t, connect(t, s), time.Second)
	since := time.Now().Add(-time.Minute)
	assert.Empty(t, statesOf(t, mine, 7, since))
	want := map[ingest.Key]ingest.State{}
	for n, state := range []ingest.State{ingest.StateCommitting, ingest.StateCreated, ingest.StateInDoubt} {
		save(t, theirs, entry(n, state)) // a note that was found, or may be one, without an upload
		want[key(n)] = state
		assert.Equal(t, want, statesOf(t, mine, 7, since), state)
	}
	other := entry(20, ingest.StateCommitting)
	other.Patient = 8
	save(t, theirs, other)
	old := entry(21, ingest.StateCommitting)
	old.SentAt = since.Add(-time.Hour)
	save(t, theirs, old)
	assert.Equal(t, want, statesOf(t, mine, 7, since))
	assert.Equal(t, map[ingest.Key]ingest.State{key(20): ingest.StateCommitting}, statesOf(t, mine, 8, since))
	want[key(21)] = ingest.StateCommitting
	assert.Equal(t, want, statesOf(t, mine, 7, time.Time{}))

	// The clock of who sent it may have been days behind: the note's time is the service's.
	behind := entry(23, ingest.StateCreated)
	behind.SentAt, behind.NoteCreatedAt = since.Add(-48*time.Hour), time.Now().UTC()
	behind.Patient = 12
	save(t, theirs, behind)
	assert.Equal(t, map[ingest.Key]ingest.State{key(23): ingest.StateCreated}, statesOf(t, mine, 12, since))

	// What changes is as it is now. What surely has no note is not listed, and may be uploaded for another patient.
	save(t, theirs, entry(0, ingest.StateRefused))
	save(t, theirs, entry(2, ingest.StateCreated))
	delete(want, key(0))
	want[key(2)] = ingest.StateCreated
	assert.Equal(t, want, statesOf(t, mine, 7, time.Time{}))
	moved := entry(0, ingest.StateCommitting)
	moved.Patient = 9
	save(t, theirs, moved)
	assert.Equal(t, want, statesOf(t, mine, 7, time.Time{}))
	assert.Equal(t, map[ingest.Key]ingest.State{key(0): ingest.StateCommitting}, statesOf(t, mine, 9, time.Time{}))
	moved.Patient = 10
	save(t, theirs, moved)
	assert.Equal(t, map[ingest.Key]ingest.State{key(0): ingest.StateCommitting}, statesOf(t, mine, 10, time.Time{}), "so may be one that was sent")

	// What was refused before it was sent leads from its patient when it is sent. The first moment counts.
	late, err := theirs.Claim(t.Context(), key(22))
	require.NoError(t, err)
	e := entry(22, ingest.StateRefused)
	e.Patient = 11
	require.NoError(t, late.Save(t.Context(), e))
	e.State = ingest.StateCommitting
	require.NoError(t, late.Save(t.Context(), e))
	late.Release()
	assert.Equal(t, map[ingest.Key]ingest.State{key(22): ingest.StateCommitting}, statesOf(t, mine, 11, e.SentAt))

	// A claim is of its own key, whatever the entry says.
	for n, state := range []ingest.State{ingest.StateCommitting, ingest.StateCreated} {
		c := claimed(t, theirs, 30+n)
		e := entry(30+n, state)
		e.Key = key(40)
		require.NoError(t, c.Save(t.Context(), e))
		c.Release()
		assert.Equal(t, key(30+n), claimed(t, mine, 30+n).Entry().Key)
	}
}

// What is committed is seen by whoever asks later, while others write.
func TestEntriesOverlookNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	openJournal(t, connect(t, s), time.Second)
	var all sync.WaitGroup
	for w := range 4 {
		j := openJournal(t, connect(t, s), time.Minute)
		all.Go(func() {
			for n := range 40 {
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
	assert.Len(t, statesOf(t, openJournal(t, connect(t, s), time.Second), 7, time.Time{}), 160)
}
