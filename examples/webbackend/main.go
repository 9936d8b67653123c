// Webbackend is a server for clinicians. Each logs in with their own access token, sees the notes that wait for
// review, listens to recordings, and edits and signs in their own name.
//
// It uses the service of CLINICALDOC_BASE_URL. Put it behind a proxy that speaks TLS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8780", "where to listen")
	drain := flag.Duration("drain", 0, "how long to go on after a signal, while /readyz says no")
	traces := flag.Bool("traces", false, "print spans to standard error")
	yes := flag.Bool("yes", false, "let clinicians edit and sign at the service of CLINICALDOC_BASE_URL")
	trail := flag.String("audit", "", "append a line to this file for each record that a clinician sees or changes")
	flag.Parse()
	log.SetFlags(0)
	b, err := newBackend(clinicaldoc.NewClientFromEnv) // needs no token: the clinicians have theirs
	if err != nil {
		log.Fatal(err)
	}
	if !*yes {
		log.Fatalf("whoever logs in can edit and sign notes at %s: start it with -yes to allow that", b.client.BaseURL())
	}
	if *trail != "" {
		b.trail, b.trailIsCut, err = openTrail(*trail)
		if err != nil {
			log.Fatal(err)
		}
	}
	provider := sdktrace.NewTracerProvider()
	if exporter, err := stdouttrace.New(stdouttrace.WithWriter(os.Stderr)); err == nil && *traces { // in production one for OTLP
		provider.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(exporter))
	}
	otel.SetTracerProvider(provider)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("open http://%s/\n", listener.Addr())
	err = b.serve(ctx, listener, *drain)
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := errors.Join(err, provider.Shutdown(last)); err != nil {
		log.Fatal(err) //nolint:gocritic // nothing is left to cancel
	}
}

// serve listens until the context ends. Then it is not ready any more, ends its streams, and lets other requests that
// are under way finish, for 20 seconds at most.
func (b *backend) serve(ctx context.Context, listener net.Listener, drain time.Duration) error {
	streams, end := context.WithCancel(context.WithoutCancel(ctx))
	server := &http.Server{
		Handler: b.handler(ctx), BaseContext: func(net.Listener) context.Context { return streams },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	server.RegisterOnShutdown(end)
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		time.Sleep(drain)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		ended <- server.Shutdown(last)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}
