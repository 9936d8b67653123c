// Observability logs every attempt with slog and counts them with expvar, through the two hooks of the SDK. What they are
// told is an allow-list: no URL, no body, no patient. It only reads.
package main

import (
	"context"
	"expvar"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strconv"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// metrics counts attempts by operation and status; a program with an HTTP server shows it at /debug/vars.
type metrics struct {
	attempts *expvar.Map
	time     *expvar.Map
}

func newMetrics() *metrics { return &metrics{new(expvar.Map), new(expvar.Map)} }

// observe runs in the goroutine of each call, so it must be quick and safe for several at once.
func (m *metrics) observe(_ context.Context, a clinicaldoc.Attempt) {
	m.attempts.Add(a.Operation+" "+strconv.Itoa(a.StatusCode), 1)
	m.time.AddFloat(a.Operation+" seconds", a.Duration.Seconds())
}

func run(ctx context.Context, out io.Writer) error {
	counters := newMetrics()
	logger := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	observed := []clinicaldoc.Option{clinicaldoc.WithLogger(logger), clinicaldoc.WithObserver(counters.observe)}

	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		srv.AddNote(clinicaldoctest.Note{Name: "Synthetic visit", Transcription: "synthetic transcription"})
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(503, "")) // to show a retry
		return look(ctx, srv.Client(observed...), logger, counters, out)
	}
	client, err := clinicaldoc.NewClientFromEnv(observed...)
	if err != nil {
		return err
	}
	return look(ctx, client, logger, counters, out)
}

func look(ctx context.Context, client *clinicaldoc.Client, logger *slog.Logger, counters *metrics, out io.Writer) error {
	if _, err := client.Users.Me(ctx); err != nil {
		return err
	}
	page, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{PerPage: 3})
	if err != nil {
		return err
	}
	for _, note := range page.Items {
		logger.InfoContext(ctx, "found", "note", note) // prints id, stage and flags
	}
	_, err = fmt.Fprintln(out, counters.attempts)
	return err
}
