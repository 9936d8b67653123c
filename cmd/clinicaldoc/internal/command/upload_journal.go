package command

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// envNATS names a NATS server, where its URL holds a password.
const envNATS = "CLINICALDOC_NATS"

// openJournal opens the journal of one user of one service, on this machine or of a fleet: what one account uploaded, another
// has not.
func (o *uploadOptions) openJournal(ctx context.Context, baseURL string, userID int64) (ingest.Journal, func() error, error) {
	if o.nats != "" {
		return o.openFleet(ctx, baseURL, userID)
	}
	path := o.journal
	if path == "" {
		folder, err := account.StateFolder("journals")
		if err != nil {
			return nil, nil, err
		}
		path = filepath.Join(folder, journalName(baseURL, userID)+".journal")
	}
	journal, err := ingest.OpenJournal(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		journal, err = ingest.BeginJournal(ctx, path, ingest.Owner{Service: ingest.ServiceName(baseURL), UserID: userID})
	}
	if err != nil {
		return nil, nil, err
	}
	return journal, journal.Close, nil
}

// openFleet opens the journal that the machines of a fleet share.
func (o *uploadOptions) openFleet(ctx context.Context, baseURL string, userID int64) (ingest.Journal, func() error, error) {
	var options []nats.Option
	if o.natsCreds != "" {
		options = append(options, nats.UserCredentials(o.natsCreds))
	}
	conn, err := jetstream.Connect(o.nats, options...)
	if err != nil {
		return nil, nil, &fleetError{"the fleet's NATS server cannot be reached, or refuses"}
	}
	params := jetstream.Params{Name: "clinicaldoc-" + journalName(ingest.ServiceName(baseURL), userID), Replicas: o.natsReplicas}
	fleet, err := jetstream.Join(ctx, conn, params)
	if o.natsBegin && errors.Is(err, jetstream.ErrNoFleet) {
		if fleet, err = jetstream.Begin(ctx, conn, params); errors.Is(err, jetstream.ErrFleetExists) { // by another machine
			fleet, err = jetstream.Join(ctx, conn, params)
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrNoFleet):
		err = usagef("this NATS server has no journal of this service and user: if there was one, have it restored; --nats-begin begins one")
		fallthrough
	case err != nil:
		conn.Close()
		return nil, nil, err
	}
	return fleet.Journal(), func() error { conn.Close(); return nil }, nil
}

// fleetError is a NATS server that cannot be used. Its own words may hold its URL, and that a password.
type fleetError struct{ text string }

func (e *fleetError) Error() string { return e.text }

// checkNATS takes the server's URL from the flag, which must not hold a password, or from the environment.
func (o *uploadOptions) checkNATS() error {
	for server := range strings.SplitSeq(o.nats, ",") {
		if u, err := url.Parse(strings.TrimSpace(server)); err != nil || u.User != nil || strings.Contains(server, "@") {
			return usagef("--nats wants a URL without a password, which others could see: --nats-creds names a file, and %s may hold anything", envNATS)
		}
	}
	if o.nats == "" {
		o.nats = os.Getenv(envNATS)
	}
	switch {
	case o.nats != "" && o.journal != "":
		return usagef("--journal is for one machine, --nats for a fleet: name one")
	case o.nats != "" && o.status:
		return usagef("--status reads the journals on this machine")
	}
	return nil
}
