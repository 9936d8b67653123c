// Operator is what a person does with a fleet, from any machine:
//
//	go run ./examples/operator begin                    once
//	go run ./examples/operator publish 4711 visit.wav   encounter and recording
//	go run ./examples/operator status
//	go run ./examples/operator redrive                  all dead letters, once what they died of is repaired
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

func main() {
	if err := run(context.Background(), os.Args[1:]...); err != nil {
		log.Fatal(err)
	}
}

var errUsage = errors.New("begin, publish ENCOUNTER FILE, status or redrive")

func run(ctx context.Context, args ...string) error {
	conn, err := jetstream.Connect(os.Getenv("CLINICALDOC_NATS"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if len(args) == 1 && args[0] == "begin" {
		return begin(ctx, conn)
	}
	fleet, err := jetstream.Join(ctx, conn, jetstream.Params{})
	switch {
	case err != nil:
		return err
	case len(args) == 3 && args[0] == "publish":
		return publish(ctx, fleet, args[1], args[2])
	case len(args) == 1 && args[0] == "status":
		return status(ctx, fleet)
	case len(args) == 1 && args[0] == "redrive":
		return redrive(ctx, fleet)
	}
	return errUsage
}

func begin(ctx context.Context, conn *nats.Conn) error {
	_, err := jetstream.Begin(ctx, conn, jetstream.Params{}) // Replicas: 3 in a cluster
	return err
}

func publish(ctx context.Context, fleet *jetstream.Fleet, encounter, file string) error {
	path, err := filepath.Abs(file) // by which all workers reach it
	if err != nil {
		return err
	}
	params := clinicaldoc.CreateNoteParams{Name: encounter, PatientID: 7, PromptID: 1}
	return fleet.Publish(ctx, ingest.Recording{Key: encounter, File: path, Params: params})
}

func status(ctx context.Context, fleet *jetstream.Fleet) error {
	status, err := fleet.Status(ctx)
	if err != nil {
		return err
	}
	fmt.Println(status) // 12 waiting, 8 uploading, 3 later, 1 unresolved, 2 processing, 0 dead letters ...
	for letter, err := range fleet.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(letter.Recording.Key, letter.Reason)
	}
	return nil
}

func redrive(ctx context.Context, fleet *jetstream.Fleet) error {
	for letter, err := range fleet.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if err := fleet.Redrive(ctx, letter); err != nil {
			return err
		}
	}
	return nil
}
