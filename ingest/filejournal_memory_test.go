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

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// keysVariable is for more keys than an ordinary test has time for, such as a million.
const keysVariable = "CLINICALDOC_INGEST_KEYS"

// someKeys are just more than fit into a table that then doubles: the most memory that a key can take.
const someKeys = 14_400

// Not parallel: it counts the memory of all.
func TestAKeyTakesLittleMemory(t *testing.T) { //nolint:paralleltest // as said
	wanted, _ := strconv.Atoi(os.Getenv(keysVariable))
	keys := cmp.Or(wanted, someKeys)
	for name, states := range map[string][]ingest.State{
		"created":  {ingest.StateClaimed, ingest.StateCommitting, ingest.StateCreated},
		"in doubt": {ingest.StateInDoubt},
	} {
		path := writeKeys(t, keys, states)
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

func writeKeys(t *testing.T, keys int, states []ingest.State) string {
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
