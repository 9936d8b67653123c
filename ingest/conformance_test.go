package ingest_test

import (
	"testing"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/journaltest"
)

func TestFileJournal_KeepsTheContract(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	journaltest.Run(t, func() ingest.Journal { return openJournal(t, service, path) })
}
