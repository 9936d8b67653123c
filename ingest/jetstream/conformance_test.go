package jetstream

import (
	"testing"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/journaltest"
)

func TestJournal_KeepsTheContract(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const lease = time.Minute // a commit has half of it, also on a busy machine
	journaltest.Run(t, func() ingest.Journal { return openFleet(t, connect(t, s), Params{Lease: lease}).Journal() })
}
