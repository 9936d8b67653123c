// Ratelimit shares one rate limiter among goroutines, so that together they stay below what the service allows. It is a
// module of its own because the limiter comes from golang.org/x/time/rate. It only reads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/time/rate"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	// 20 requests a second with bursts of 5. Retries wait for the limiter too.
	limited := clinicaldoc.WithLimiter(rate.NewLimiter(rate.Every(50*time.Millisecond), 5))
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		return read(ctx, srv.Client(limited), out)
	}
	client, err := clinicaldoc.NewClientFromEnv(limited)
	if err != nil {
		return err
	}
	return read(ctx, client, out)
}

func read(ctx context.Context, client *clinicaldoc.Client, out io.Writer) error {
	started := time.Now()
	failures := make([]error, 25)
	var readers sync.WaitGroup
	for i := range failures {
		readers.Go(func() { _, failures[i] = client.Users.Me(ctx) })
	}
	readers.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d requests took %.1f s\n", len(failures), time.Since(started).Seconds())
	return err
}
