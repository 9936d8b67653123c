package otelclinicaldoc

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// statusKey is how a recording ended, such as created or refused; see status.
const statusKey = attribute.Key("clinicaldoc.ingest.status")

// recordingBuckets reach beyond the ten minutes after which an unresolved recording is decided.
var recordingBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 900, 3600}

// OnEvent returns a function for [ingest.Uploader].OnEvent, also in a fleet. It records how recordings end and how
// long they take, and counts unresolved recordings and pauses. Only the option [WithMeterProvider] has an effect. The
// function is safe for concurrent use, and any number of runs can share it. The client's own hooks report the requests
// of a run.
func OnEvent(opts ...Option) func(ingest.Event) {
	c := config{meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt(&c)
	}
	m := meter(c.meters)
	duration := orHandle(m.Float64Histogram("clinicaldoc.ingest.recording.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the beginning of a recording to its end in a run."),
		metric.WithExplicitBucketBoundaries(recordingBuckets...)))
	doubts := orHandle(m.Int64Counter("clinicaldoc.ingest.doubts", metric.WithUnit("{recording}"),
		metric.WithDescription("Times that it was unknown whether a recording had a note, and the service was searched.")))
	pauses := orHandle(m.Int64Counter("clinicaldoc.ingest.pauses", metric.WithUnit("{pause}"),
		metric.WithDescription("Times that uploads paused because everything failed in the same way.")))
	return func(e ingest.Event) {
		ctx := context.Background()
		switch {
		case e.Result != nil:
			ended := metric.WithAttributes(statusKey.String(status(e.Result.Status)))
			duration.Record(ctx, e.Result.Took.Seconds(), ended)
		case e.Pause != nil && e.Pause.Why != nil:
			pauses.Add(ctx, 1)
		case e.State == ingest.StateInDoubt:
			doubts.Add(ctx, 1)
		}
	}
}

// status returns the word for a status. It is "other" for one that this version does not know.
func status(s ingest.Status) string {
	switch s {
	case ingest.Created:
		return "created"
	case ingest.AlreadyThere:
		return "already_there"
	case ingest.Refused:
		return "refused"
	case ingest.InDoubt:
		return "in_doubt"
	case ingest.Complete:
		return "complete"
	case ingest.Processing:
		return "processing"
	case ingest.Failed:
		return "failed"
	}
	return "other"
}
