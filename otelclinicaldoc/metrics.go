package otelclinicaldoc

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// instruments are the metrics. Their attributes have few values, however many patients and notes there are.
type instruments struct {
	requestDuration httpconv.ClientRequestDuration
	requestSize     httpconv.ClientRequestBodySize
	responseSize    httpconv.ClientResponseBodySize

	callDuration metric.Float64Histogram
	retries      metric.Int64Counter
	unknown      metric.Int64Counter
	remaining    metric.Int64Gauge
	limitWait    metric.Float64Histogram
}

// callBuckets are longer than those of a request, because waits and downloads take minutes.
var callBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// sizeBuckets reach from an empty body to a long recording.
var sizeBuckets = []float64{
	0, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30,
}

func meter(provider metric.MeterProvider) metric.Meter {
	version := metric.WithInstrumentationVersion(clinicaldoc.Version)
	return provider.Meter(scope, version, metric.WithSchemaURL(semconv.SchemaURL))
}

// newInstruments creates all instruments of a recorder.
func newInstruments(provider metric.MeterProvider) instruments {
	m := meter(provider)
	return instruments{
		requestDuration: orHandle(httpconv.NewClientRequestDuration(m)),
		requestSize:     orHandle(httpconv.NewClientRequestBodySize(m, metric.WithExplicitBucketBoundaries(sizeBuckets...))),
		responseSize:    orHandle(httpconv.NewClientResponseBodySize(m, metric.WithExplicitBucketBoundaries(sizeBuckets...))),
		callDuration: orHandle(m.Float64Histogram("clinicaldoc.client.call.duration", metric.WithUnit("s"),
			metric.WithDescription("Duration of calls of the SDK, with all their attempts and waits."),
			metric.WithExplicitBucketBoundaries(callBuckets...))),
		retries: orHandle(m.Int64Counter("clinicaldoc.client.retries", metric.WithUnit("{retry}"),
			metric.WithDescription("Attempts after the first of a call."))),
		unknown: orHandle(m.Int64Counter("clinicaldoc.client.outcomes_unknown", metric.WithUnit("{call}"),
			metric.WithDescription("Calls that failed although the service may have carried them out."))),
		remaining: orHandle(m.Int64Gauge("clinicaldoc.client.ratelimit.remaining", metric.WithUnit("{request}"),
			metric.WithDescription("Requests that the service still allows, by its latest response."))),
		limitWait: orHandle(m.Float64Histogram("clinicaldoc.client.ratelimit.wait", metric.WithUnit("s"),
			metric.WithDescription("Time that the client waits after the service's rate limit refused an attempt."),
			metric.WithExplicitBucketBoundaries(callBuckets...))),
	}
}

// orHandle returns the instrument. It passes an error to OpenTelemetry's error handler. The instrument then does
// nothing.
func orHandle[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

// attempt measures an attempt that sent a request.
func (i *instruments) attempt(ctx context.Context, a clinicaldoc.Attempt) {
	_, method := requestMethod(a.Method)
	attributes := append(make([]attribute.KeyValue, 0, 6), method, semconv.URLTemplate(a.Route))
	if a.ServerAddress != "" {
		attributes = append(attributes, semconv.ServerAddress(a.ServerAddress), semconv.ServerPort(a.ServerPort))
	}
	i.rateLimit(ctx, a)
	if a.StatusCode != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(a.StatusCode))
	}
	if a.ErrorType != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(a.ErrorType))
	}
	shared := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
	i.requestDuration.Inst().Record(ctx, a.Duration.Seconds(), shared...)
	i.requestSize.Inst().Record(ctx, a.BytesSent, shared...)
	i.responseSize.Inst().Record(ctx, a.BytesReceived, shared...)
}

// rateLimit records what is left of the service's rate limit, and how long the client waits for it.
func (i *instruments) rateLimit(ctx context.Context, a clinicaldoc.Attempt) {
	isReported := a.RateLimitRemaining >= 0
	isRefused := a.RateLimitWait > 0
	if !isReported && !isRefused {
		return
	}
	server := metric.WithAttributes(semconv.ServerAddress(a.ServerAddress), semconv.ServerPort(a.ServerPort))
	if isReported {
		i.remaining.Record(ctx, int64(a.RateLimitRemaining), server)
	}
	if isRefused {
		i.limitWait.Record(ctx, a.RateLimitWait.Seconds(), server)
	}
}

// call measures a call.
func (i *instruments) call(ctx context.Context, call clinicaldoc.Call) {
	operation := operationKey.String(call.Operation)
	if call.OutcomeUnknown {
		i.unknown.Add(ctx, 1, metric.WithAttributes(operation))
	}
	attributes := metric.WithAttributes(operation)
	if call.ErrorType != "" {
		attributes = metric.WithAttributes(operation, semconv.ErrorTypeKey.String(call.ErrorType))
	}
	i.callDuration.Record(ctx, call.Duration.Seconds(), attributes)
}
