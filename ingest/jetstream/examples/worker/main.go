// Worker uploads the recordings of a fleet's queue until it is interrupted. Start it on as many machines as you like.
//
//	CLINICALDOC_NATS=nats://host:4222 CLINICALDOC_BASE_URL=... CLINICALDOC_TOKEN=... go run ./examples/worker
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := work(ctx); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context) error {
	conn, err := jetstream.Connect(os.Getenv("CLINICALDOC_NATS"))
	if err != nil {
		return err
	}
	defer conn.Close()
	fleet, err := jetstream.Join(ctx, conn, jetstream.Params{Logger: slog.Default()})
	if err != nil {
		return err
	}
	limiter, err := fleet.Limiter(20) // requests a second of all workers
	if err != nil {
		return err
	}
	client, err := clinicaldoc.NewClientFromEnv(clinicaldoc.WithLimiter(limiter))
	if err != nil {
		return err
	}
	for result, err := range fleet.Work(ctx, &ingest.Uploader{Client: client, Workers: 8}) {
		if err != nil {
			return err
		}
		slog.Info("a recording", "result", result) // without patients' data
	}
	return nil
}
