// Ratelimit shares one rate limiter among goroutines, so that together they stay below what the service allows. It is a
// module of its own because the limiter comes from golang.org/x/time/rate.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	// 20 requests a second with bursts of 5. Retries wait for the limiter too.
	limiter := rate.NewLimiter(rate.Every(50*time.Millisecond), 5)
	client, stop, err := demo.Connect(out, clinicaldoc.WithLimiter(limiter))
	if err != nil {
		return err
	}
	defer stop()

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
	_, err = fmt.Fprintf(out, "%d requests took %.1f s\n", len(failures), time.Since(started).Seconds())
	return err
}
