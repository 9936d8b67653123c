package ingest_test

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// keysVariable is for more keys than an ordinary test has time for, such as a million.
const keysVariable = "CLINICALDOC_INGEST_KEYS"

// someKeys are just more than fit into a table that then doubles: the most memory that a key can take.
const someKeys = 14_400

// Not parallel: it counts the memory of all.
func TestFileJournal_ManyKeys_TakeLittleMemory(t *testing.T) { //nolint:paralleltest // as said
	wanted, _ := strconv.Atoi(os.Getenv(keysVariable))
	keys := cmp.Or(wanted, someKeys)
	for name, states := range map[string][]ingest.State{
		"created":  {ingest.StateClaimed, ingest.StateCommitting, ingest.StateCreated},
		"in doubt": {ingest.StateInDoubt},
	} {
		path := writeKeys(t, service, keys, states)
		before := liveHeap()
		start := time.Now()
		j, err := ingest.OpenJournal(t.Context(), path)
		require.NoError(t, err)
		taken := time.Since(start)
		perKey := float64(liveHeap()-before) / float64(keys)
		t.Logf("%d keys %s: opened in %s, %.0f bytes a key", keys, name, taken.Round(time.Millisecond), perKey)
		assert.Less(t, perKey, 200.0, name)
		require.NoError(t, j.Close())
	}
}

func liveHeap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A search for a note takes no longer if the journal knows many recordings.
func TestRun_LostResponsesAmongManyKeys_TakeNoLonger(t *testing.T) {
	t.Parallel()
	lost := 50
	wanted, _ := strconv.Atoi(os.Getenv(keysVariable))
	if wanted > 0 {
		lost = 200
	}
	srv := newBox(t)
	// were all lost, the run would pause
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Every(2))
	path := writeKeys(t, ingest.ServiceName(srv.URL), cmp.Or(wanted, someKeys), []ingest.State{ingest.StateCreated})
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, path), Workers: 8}
	start := time.Now()
	results := upload(t, u, func(yield func(ingest.Recording, error) bool) {
		for n := range 2 * lost {
			r := recording(n)
			r.Params.PatientID = int64(1 + n/4)
			if !yield(r, nil) {
				return
			}
		}
	})
	took := time.Since(start)
	assert.Equal(t, counts{ingest.Created: 2 * lost}, statuses(results))
	t.Logf("%d lost responses among %d keys: %s", lost, cmp.Or(wanted, someKeys), took.Round(time.Millisecond))
	if wanted > 0 {
		assert.Less(t, took, 10*time.Second, "a scan of all keys for each takes half a minute")
	}
}

func writeKeys(t *testing.T, service string, keys int, states []ingest.State) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(file)
	require.NoError(t, ingest.WriteJournal(w, service, func(yield func(ingest.Entry) bool) {
		for _, state := range states {
			for n := range keys {
				if !yield(entry(n, state)) {
					return
				}
			}
		}
	}))
	require.NoError(t, w.Flush())
	require.NoError(t, file.Close())
	return path
}

// Claims without a Save, such as those of files that are gone, are written only with a later entry. At most 1000 of them
// wait for one. The lines of the others are left out: they are only for people who read the file.
func TestFileJournal_ClaimsWithoutSave_AddAtMostABatch(t *testing.T) {
	t.Parallel()
	const (
		claims        = 5000
		waitingClaims = 1000
	)
	path := journalPath(t)
	j := openBound(t, path)
	for n := range claims {
		load(t, j, n)
	}
	put(t, j, claims, ingest.StateCreated)
	require.NoError(t, j.Close())
	assert.LessOrEqual(t, lines(t, path), 1+waitingClaims+1, "the header, the claims that waited, and the note")
	j = openBound(t, path)
	assert.Equal(t, ingest.StateCreated, load(t, j, claims).State)
}
