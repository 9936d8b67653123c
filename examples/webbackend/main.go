// Webbackend is the server behind a review page: clinicians see the notes that wait for them, edit and sign, each in their
// own name. It serves the service in a box, or with -yes the service that CLINICALDOC_BASE_URL names, where it can edit and
// sign in the name of CLINICALDOC_TOKEN.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8780", "where to listen")
	yes := flag.Bool("yes", false, "let the page edit and sign at the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *addr, *yes, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr string, yes bool, out io.Writer) error {
	baseURL, token := os.Getenv(clinicaldoc.EnvBaseURL), os.Getenv(clinicaldoc.EnvToken)
	if baseURL == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		srv.AddNote(clinicaldoctest.Note{PatientID: 1, Analysis: "A synthetic analysis."})
		baseURL, token, yes = srv.URL, srv.Token, true
	}
	client, err := newClient(baseURL)
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("whoever uses this server edits and signs notes at %s: start it with -yes to allow that", client.BaseURL())
	}
	// A real server makes a session when a clinician logs in, and keeps that clinician's token with it.
	session := rand.Text()
	b := &backend{client: client, sessions: map[string]string{session: token}, timeout: 20 * time.Second, logger: slog.New(slog.NewTextHandler(out, nil))}
	return serve(ctx, addr, b.handler(), func(address string) {
		_, _ = fmt.Fprintf(out, "try: curl -b session=%s http://%s/patients/1/queue\n", session, address)
	})
}

// serve listens until the context ends, and lets requests that are under way finish.
func serve(ctx context.Context, addr string, handler http.Handler, started func(address string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	started(listener.Addr().String())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
