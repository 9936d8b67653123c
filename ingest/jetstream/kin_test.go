package jetstream

import (
	"encoding/json"
	"errors"
	"maps"
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

func kin(t *testing.T, j *Journal, patient uint32, since time.Time) map[ingest.Key]ingest.State {
	t.Helper()
	entries, err := j.EntriesForPatient(t.Context(), patient, since)
	require.NoError(t, err)
	states := map[ingest.Key]ingest.State{}
	for _, e := range entries {
		states[e.Key] = e.State
	}
	assert.Len(t, entries, len(states), "each is told once")
	return states
}

func TestKinAreWhatAnyWorkerHasWritten(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, bucket := range []string{"journal", "endswith-r"} {
		mine, err := Open(t.Context(), connect(t, s), Params{Bucket: bucket, Lease: time.Second})
		require.NoError(t, err)
		_, err = mine.Bind(t.Context(), ingest.Owner{Service: service})
		require.NoError(t, err)
		theirs, err := Open(t.Context(), connect(t, s), Params{Bucket: bucket, Lease: time.Second})
		require.NoError(t, err)
		since := time.Now().Add(-time.Minute)
		assert.Empty(t, kin(t, mine, 7, since))

		want := map[ingest.Key]ingest.State{}
		for n := range 20 {
			save(t, theirs, entry(n, ingest.StateCommitting))
			want[key(n)] = ingest.StateCommitting
		}
		other := entry(20, ingest.StateCommitting)
		other.Patient = 8
		save(t, theirs, other)
		assert.Equal(t, want, kin(t, mine, 7, since))
		assert.Equal(t, map[ingest.Key]ingest.State{key(20): ingest.StateCommitting}, kin(t, mine, 8, since))

		// What changes is told anew, what surely has no note is not.
		save(t, theirs, entry(1, ingest.StateCreated))
		save(t, theirs, entry(2, ingest.StateInDoubt))
		save(t, theirs, entry(3, ingest.StateRefused))
		save(t, theirs, entry(4, ingest.StateClaimed))
		save(t, mine, entry(21, ingest.StateCommitting))
		want[key(1)], want[key(2)], want[key(21)] = ingest.StateCreated, ingest.StateInDoubt, ingest.StateCommitting
		delete(want, key(3))
		delete(want, key(4))
		assert.Equal(t, want, kin(t, mine, 7, since))
		assert.Equal(t, want, kin(t, theirs, 7, since))

		again := claimed(t, theirs, 3) // which does not know whose it is
		assert.Equal(t, want, kin(t, mine, 7, since))
		require.NoError(t, again.Save(t.Context(), entry(3, ingest.StateCommitting)))
		again.Release()
		save(t, theirs, entry(4, ingest.StateCommitting))
		want[key(3)], want[key(4)] = ingest.StateCommitting, ingest.StateCommitting
		assert.Equal(t, want, kin(t, mine, 7, since))

		// An older doubt asks for more, a younger one for less.
		assert.Empty(t, kin(t, mine, 7, time.Now().Add(time.Minute)))
		old := entry(22, ingest.StateCommitting)
		old.SentAt = since.Add(-time.Hour)
		save(t, theirs, old)
		assert.Equal(t, want, kin(t, mine, 7, since))
		want[key(22)] = ingest.StateCommitting
		assert.Equal(t, want, kin(t, mine, 7, since.Add(-2*time.Hour)))
		assert.Equal(t, want, kin(t, mine, 7, time.Time{}))
	}
}

// A program that never ends does not keep what is long past.
func TestWhatWasReadForKinIsForgotten(t *testing.T) {
	t.Parallel()
	j := openJournal(t, connect(t, startServer(t)), time.Second)
	since := time.Now().Add(-time.Minute)
	save(t, j, entry(0, ingest.StateCommitting))
	want := map[ingest.Key]ingest.State{key(0): ingest.StateCommitting}
	assert.Equal(t, want, kin(t, j, 7, since))
	for _, b := range j.buckets {
		b.begun = time.Now().Add(-forget - time.Second)
		b.entries[key(1)], b.keys[7] = entry(1, ingest.StateCommitting), append(b.keys[7], key(1)) // as if it had been there
	}
	assert.Equal(t, want, kin(t, j, 7, since))
}

// Reading a long journal is not cut off, and leaves nothing behind at the server.
func TestKinOfALongJournal(t *testing.T) {
	t.Parallel()
	j := openJournal(t, connect(t, startServer(t)), time.Second)
	first := j.buckets[0]
	j.buckets = j.buckets[:1]
	const count = 3*atOnce + 1
	for n := range count {
		value, err := json.Marshal(record{Entry: entry(n, ingest.StateCreated)})
		require.NoError(t, err)
		_, err = first.Put(t.Context(), recordKey(key(n)), value)
		require.NoError(t, err)
	}
	assert.Len(t, kin(t, j, 7, time.Now().Add(-time.Hour)), count)
	info, err := first.stream.Info(t.Context())
	require.NoError(t, err)
	assert.Zero(t, info.State.Consumers)
}

// A record moves to the end when it is written anew: it must not be overlooked because it moved while the bucket was read.
func TestKinOverlookNothingThatMoves(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	writer := openJournal(t, connect(t, s), time.Second)
	writer.buckets = writer.buckets[:1]
	var (
		mu      sync.Mutex
		known   = map[ingest.Key]bool{}
		writers sync.WaitGroup
		stop    = make(chan struct{})
	)
	put := func(n int, state ingest.State) error {
		value, failed := json.Marshal(record{Entry: entry(n, state)})
		_, err := writer.buckets[0].Put(t.Context(), recordKey(key(n)), value)
		mu.Lock()
		defer mu.Unlock()
		known[key(n)] = true
		return errors.Join(failed, err)
	}
	for n := range 600 {
		require.NoError(t, put(n, ingest.StateCommitting))
	}
	for w := range 4 {
		writers.Go(func() {
			for n := w; ; n += 4 {
				select {
				case <-stop:
					return
				default:
					assert.NoError(t, put(n%600, ingest.StateInDoubt))
				}
			}
		})
	}
	for range 50 {
		reader := openJournal(t, connect(t, s), time.Second) // which has read nothing
		reader.buckets = reader.buckets[:1]
		mu.Lock()
		want := maps.Clone(known)
		mu.Unlock()
		got := kin(t, reader, 7, time.Now().Add(-time.Hour))
		for k := range want {
			if got[k] == 0 {
				t.Errorf("%v is missing of %d", k, len(want))
			}
		}
	}
	close(stop)
	writers.Wait()
}
