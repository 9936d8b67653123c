// Worker uploads the recordings of a fleet's queue until it is interrupted. Start it on as many machines as you like.
//
//	CLINICALDOC_NATS=nats://host:4222 CLINICALDOC_BASE_URL=... CLINICALDOC_TOKEN=... go run ./examples/worker -yes
package main

import (
	"context"
	"flag"
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
	yes := flag.Bool("yes", false, "upload to the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	client, err := clinicaldoc.NewClientFromEnv()
	check(err)
	if !*yes {
		log.Fatal("start it with -yes to upload the queue to ", client.BaseURL())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	conn, err := jetstream.Connect(os.Getenv("CLINICALDOC_NATS"))
	check(err)
	logger := slog.Default()
	fleet, err := jetstream.Join(ctx, conn, jetstream.Params{Logger: logger})
	check(err)
	limiter, err := fleet.Limiter(20) // requests a second of all workers
	check(err)
	client, err = clinicaldoc.NewClientFromEnv(clinicaldoc.WithLimiter(limiter))
	check(err)
	for result, err := range fleet.Work(ctx, &ingest.Uploader{Client: client, Workers: 8}) {
		check(err)
		logger.InfoContext(ctx, "a recording", "result", result) // without patients' data
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
