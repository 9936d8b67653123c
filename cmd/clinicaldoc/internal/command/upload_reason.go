package command

import (
	"context"
	"errors"
	"runtime"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// reasons are the causes that end an upload early or before it begins, in words for a morning report. The first that
// fits counts.
var reasons = []struct {
	is   error
	text string
}{
	{account.ErrNone, "nobody has logged in to the service in this account"},
	{account.ErrKeyring, "the token is in the system's keyring, which cannot be used when nobody is logged in"},
	{clinicaldoc.ErrUnauthorized, "the service did not accept the token: it is wrong, expired or revoked"},
	{clinicaldoc.ErrNotAudited, "the audit trail could not be written"},
	{clinicaldoc.ErrInUse, "another upload was using the journal"},
	{clinicaldoc.ErrRateLimited, "the service limited the number of requests for too long"},
	{clinicaldoc.ErrServer, "the service, or a proxy before it, was failing"},
	{clinicaldoc.ErrStalled, "the connection to the service stalled"},
}

// reasonOf says why an upload ended early, or sent nothing.
func reasonOf(ctx context.Context, err error) string {
	if _, stopped := errors.AsType[*signalError](context.Cause(ctx)); stopped {
		return "somebody, or the system, interrupted the upload"
	}
	for _, r := range reasons {
		if errors.Is(err, r.is) {
			return r.text
		}
	}
	switch {
	case noRoom.is(runtime.GOOS, err):
		return "the disk is full: " + errorText(err)
	case isGone(err):
		return "the recordings could no longer be read"
	case errors.Is(err, ingest.ErrJournalDamaged):
		return "the journal is damaged"
	case unreachable(err):
		return "the service could not be reached"
	}
	return errorText(err)
}
