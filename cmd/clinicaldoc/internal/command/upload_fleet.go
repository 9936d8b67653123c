package command

import (
	"cmp"
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"

	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// openFleet joins the fleet of one user of one service. Close the connection after use.
func (p *journalPlace) openFleet(
	ctx context.Context, baseURL string, userID int64,
) (*jetstream.Fleet, *nats.Conn, error) {
	conn, params, err := p.connect(baseURL, userID)
	if err != nil {
		return nil, nil, err
	}
	oldest := oldestName(baseURL, userID)
	fleet, err := jetstream.Join(ctx, conn, params)
	if errors.Is(err, jetstream.ErrNoFleet) {
		err = cmp.Or(oldestFleet(ctx, conn, oldest), err)
	}
	if p.begin && errors.Is(err, jetstream.ErrNoFleet) {
		fleet, err = beginFleet(ctx, conn, params, oldest)
	}
	if errors.Is(err, jetstream.ErrNoFleet) {
		err = &refusedError{
			"this NATS server has no journal of this service and user: nothing was sent",
			"if there was one, have it restored; if nothing was uploaded yet, add --begin, once",
		}
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return fleet, conn, nil
}

// connect finds the fleet of one user of one service. Close the connection after use.
func (p *journalPlace) connect(baseURL string, userID int64) (*nats.Conn, jetstream.Params, error) {
	params := jetstream.Params{Name: "clinicaldoc-" + journalName(baseURL, userID), Replicas: p.natsReplicas}
	var options []nats.Option
	if p.natsCreds != "" {
		options = append(options, nats.UserCredentials(p.natsCreds))
	}
	conn, err := jetstream.Connect(p.nats, options...)
	if err != nil && !errors.Is(err, jetstream.ErrServerTooOld) {
		err = &fleetError{"the fleet's NATS server cannot be reached, or refuses the connection"}
	}
	return conn, params, err
}

// oldestName returns the name of the account's store in the first format. It was made of the base URL as it was
// written, so it may be another name than today's.
func oldestName(baseURL string, userID int64) string {
	return "clinicaldoc-" + accountName(baseURL, userID)
}

// oldestFleet returns an error if there is a store of the first format.
func oldestFleet(ctx context.Context, conn *nats.Conn, oldest string) error {
	_, err := jetstream.Join(ctx, conn, jetstream.Params{Name: oldest})
	if errors.Is(err, jetstream.ErrNoFleet) {
		return nil
	}
	return err
}

// beginFleet begins a fleet, or joins it if another machine was faster.
func beginFleet(
	ctx context.Context, conn *nats.Conn, params jetstream.Params, oldest string,
) (*jetstream.Fleet, error) {
	if oldest != params.Name {
		if err := blockOldest(ctx, conn, oldest, params.Replicas); err != nil {
			return nil, err
		}
	}
	fleet, err := jetstream.Begin(ctx, conn, params)
	if errors.Is(err, jetstream.ErrFleetExists) {
		return jetstream.Join(ctx, conn, params)
	}
	return fleet, err
}

// blockOldest keeps programs of the first format from making a store of their own, which would not know what the fleet
// has uploaded. They read the number of their buckets first, and end if it is no number.
func blockOldest(ctx context.Context, conn *nats.Conn, name string, replicas int) error {
	js, err := natsjetstream.New(conn)
	if err != nil {
		return err
	}
	bucket, err := js.CreateKeyValue(ctx, natsjetstream.KeyValueConfig{Bucket: name, Replicas: max(replicas, 1)})
	if err == nil {
		_, err = bucket.Create(ctx, "buckets", []byte("this store needs a later version of the program"))
	}
	switch {
	case errors.Is(err, natsjetstream.ErrBucketExists), errors.Is(err, natsjetstream.ErrKeyExists):
		return oldestFleet(ctx, conn, name)
	case err != nil:
		return &fleetError{"the fleet's NATS server cannot store the journal, or refuses to"}
	}
	return nil
}

// fleetError is a NATS server that cannot be used. Its own words may hold its URL, and that a password.
type fleetError struct{ text string }

func (e *fleetError) Error() string { return e.text }
