package jetstream

import (
	"testing"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/journaltest"
)

// On a busy machine, any request may take long. So no lease ends during the test. Workers renew leases often, and look
// often whether others do, so the test need not wait for a part of one.
func TestJournal_KeepsTheContract(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	journaltest.Run(t, func() ingest.Journal {
		j := openFleet(t, connect(t, s), Params{Lease: untilTestEnds}).Journal()
		j.renewEach, j.lookEach = 50*time.Millisecond, 10*time.Millisecond
		return j
	})
}
