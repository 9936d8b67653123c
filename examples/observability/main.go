// Observability logs every attempt with slog and counts them with expvar, through the two hooks of the SDK. What they are
// told is an allow-list: no URL, no body, no patient.
package main

import (
	"context"
	"expvar"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() { demo.Main(run) }

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
	client, stop, err := demo.Connect(out, clinicaldoc.WithLogger(logger), clinicaldoc.WithObserver(counters.observe))
	if err != nil {
		return err
	}
	defer stop()

	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Observability", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("tone.wav", demo.WAV(time.Second)),
	})
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "created", "note", note) // prints id, stage and flags
	if _, err := client.Notes.Delete(ctx, note.ID); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, counters.attempts)
	return err
}
