package ingest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// auditLog is an audit function that can fail.
type auditLog struct {
	mu     sync.Mutex
	fails  bool
	access []clinicaldoc.Access
}

func (l *auditLog) tell(_ context.Context, access clinicaldoc.Access) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails {
		return errors.New("the trail's disk is full")
	}
	l.access = append(l.access, access)
	return nil
}

// A note whose creation could not be written into the trail exists: no later run makes a second one.
func TestRun_TrailFails_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := newBox(t, clinicaldoctest.InProcess())
		path := journalPath(t)
		trail := &auditLog{fails: true}
		run := func() ingest.Result {
			journal := openJournal(t, srv.URL, path)
			u := &ingest.Uploader{
				Client: srv.Client(quick(), clinicaldoc.WithAudit(trail.tell)), Journal: journal, MaxPause: -1,
				Find: clinicaldoc.FindCreatedParams{Settle: time.Nanosecond},
			}
			results, _ := collect(t.Context(), u, recordings(0, 1))
			require.NoError(t, journal.Close())
			require.Len(t, results, 1)
			return results[0]
		}
		first := run()
		require.Len(t, srv.Created(), 1)
		assert.Equal(t, ingest.InDoubt, first.Status)
		require.ErrorIs(t, first.Err, clinicaldoc.ErrNotAudited)

		trail.fails = false
		second := run()
		require.NoError(t, second.Err)
		assert.Equal(t, srv.Created()[0].NoteID, second.NoteID)
		assert.Len(t, srv.Created(), 1)
		require.NotEmpty(t, trail.access)
		last := trail.access[len(trail.access)-1]
		assert.Equal(t, "Notes.FindCreated", last.Operation, "the note that the response named was read")
		assert.Equal(t, clinicaldoc.AccessDisclosed, last.Outcome)
	})
}
