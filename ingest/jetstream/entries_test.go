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

// What is committed is seen by whoever asks later, while others write.
func TestEntries_WhileOthersWrite_ListWhatIsCommitted(t *testing.T) {
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
