package otelclinicaldoc_test

import (
	"context"
	"errors"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// newTracedClient returns a client that sends its spans and metrics to the exporter and the reader.
// Call shutdown before the program ends, or the last of them are lost.
func newTracedClient(exporter sdktrace.SpanExporter, reader sdkmetric.Reader) (
	client *clinicaldoc.Client, shutdown func(context.Context) error, err error,
) {
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	client, err = clinicaldoc.NewClientFromEnv(clinicaldoc.WithHooks(otelclinicaldoc.Hooks(
		otelclinicaldoc.WithTracerProvider(traces),
		otelclinicaldoc.WithMeterProvider(metrics),
	)))
	return client, func(ctx context.Context) error {
		return errors.Join(traces.Shutdown(ctx), metrics.Shutdown(ctx))
	}, err
}
