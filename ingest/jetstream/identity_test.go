package jetstream

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// A recording of a queue is known by its key. It has no position, because each one is a run of its own.
func TestWork_NamesRecordingsByTheirKeysAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		first := filed(t, dir, 1)
		require.NoError(t, f.Publish(t.Context(), first))
		keyed, err := first.WithKey()
		require.NoError(t, err)
		want := ingest.Binding{Origin: ingest.ServiceName(srv.URL)}.Key(keyed.Key)
		u := uploader(srv)
		var mu sync.Mutex
		events := 0
		u.OnEvent = func(event ingest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if event.Pause != nil {
				return // it is of no recording
			}
			events++
			assert.Equal(t, want, event.JournalKey)
			assert.Zero(t, event.Position)
		}
		for result, err := range f.Drain(t.Context(), u) {
			require.NoError(t, err)
			assert.Equal(t, want, result.JournalKey)
			assert.Zero(t, result.Position)
		}
		assert.Positive(t, events)
	})
}
