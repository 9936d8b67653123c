package otelclinicaldoc

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const scope = "github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"

// Attributes in addition to those of the semantic conventions.
const (
	operationKey = attribute.Key("clinicaldoc.operation") // method of the SDK, such as "Notes.Create"
	attemptsKey  = attribute.Key("clinicaldoc.attempts")  // how many a call made itself
	// outcomeUnknownKey is true if the call failed, but the service may have carried it out.
	outcomeUnknownKey = attribute.Key("clinicaldoc.outcome_unknown")
	// rateLimitWaitKey is how many seconds the client waits for the limit that refused the attempt.
	rateLimitWaitKey = attribute.Key("clinicaldoc.ratelimit.wait")
)

// Option configures [Hooks] and [OnEvent].
type Option func(*config)

type config struct {
	tracers   trace.TracerProvider
	meters    metric.MeterProvider
	propagate bool
}

// WithTracerProvider sets the provider of spans. The default is the global one.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.tracers = provider }
}

// WithMeterProvider sets the provider of metrics. The default is the global one.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(c *config) { c.meters = provider }
}

// WithoutPropagation sends no trace headers to the service.
func WithoutPropagation() Option {
	return func(c *config) { c.propagate = false }
}

// Hooks returns hooks for [clinicaldoc.WithHooks] that record spans and metrics. Any number of clients can share them.
//
// Every call is an internal span, and every attempt in it an HTTP client span. An attempt that sent no request is an
// internal span with error.type, and does not count in the metrics of HTTP requests.
//
// The trace is sent to the base URL's origin by the headers of W3C Trace Context. Neither the global propagator nor
// baggage is used, because baggage may contain patient data. If an instrument cannot be created, Hooks reports that to
// OpenTelemetry's error handler and does not record it.
func Hooks(opts ...Option) clinicaldoc.Hooks {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), propagate: true}
	for _, opt := range opts {
		opt(&c)
	}
	version := trace.WithInstrumentationVersion(clinicaldoc.Version)
	r := &recorder{
		tracer:      c.tracers.Tracer(scope, version, trace.WithSchemaURL(semconv.SchemaURL)),
		instruments: newInstruments(c.meters),
		propagate:   c.propagate,
	}
	return clinicaldoc.Hooks{
		CallStart: r.callStart, AttemptStart: r.attemptStart, AttemptEnd: r.attemptEnd, CallEnd: r.callEnd,
	}
}

// recorder has no state of its own: the span of a call or an attempt is in its context.
type recorder struct {
	tracer      trace.Tracer
	instruments instruments
	propagate   bool
}

// callStart starts the span of a call.
func (r *recorder) callStart(ctx context.Context, call clinicaldoc.Call) context.Context {
	operation := trace.WithAttributes(operationKey.String(call.Operation))
	ctx, _ = r.tracer.Start(ctx, "clinicaldoc."+call.Operation, operation)
	return ctx
}

// attemptStart starts the span of an attempt, and returns the headers by which the service learns of it.
func (r *recorder) attemptStart(
	ctx context.Context, a clinicaldoc.Attempt,
) (context.Context, clinicaldoc.TraceContext) {
	if a.Number > 1 {
		r.instruments.retries.Add(ctx, 1, metric.WithAttributes(operationKey.String(a.Operation)))
	}
	name, method := requestMethod(a.Method)
	attributes := append(make([]attribute.KeyValue, 0, 5), method, semconv.URLTemplate(a.Route))
	if a.ServerAddress != "" {
		attributes = append(attributes, semconv.ServerAddress(a.ServerAddress), semconv.ServerPort(a.ServerPort))
	}
	if a.Number > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(a.Number-1))
	}
	kind := trace.SpanKindClient
	if a.Number == 0 {
		kind = trace.SpanKindInternal // no request is sent, so the service does not take part
	}
	ctx, _ = r.tracer.Start(ctx, name+" "+a.Route, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	var headers traceContext
	if r.propagate {
		propagation.TraceContext{}.Inject(ctx, &headers)
	}
	return ctx, clinicaldoc.TraceContext(headers)
}

// attemptEnd ends the span of an attempt. An attempt that sent no request has no sizes, and no metrics.
func (r *recorder) attemptEnd(ctx context.Context, a clinicaldoc.Attempt) {
	if a.Number > 0 {
		r.instruments.attempt(ctx, a)
	}
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if a.Number > 0 {
		sent := semconv.HTTPRequestBodySizeKey.Int64(a.BytesSent)
		received := semconv.HTTPResponseBodySizeKey.Int64(a.BytesReceived)
		span.SetAttributes(sent, received)
	}
	if a.StatusCode != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(a.StatusCode))
	}
	if a.RateLimitWait > 0 {
		span.SetAttributes(rateLimitWaitKey.Float64(a.RateLimitWait.Seconds()))
	}
	markFailed(span, a.ErrorType, a.OutcomeUnknown)
}

// callEnd ends the span of a call, and measures the call.
func (r *recorder) callEnd(ctx context.Context, call clinicaldoc.Call) {
	r.instruments.call(ctx, call)
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if call.Attempts > 0 {
		span.SetAttributes(attemptsKey.Int(call.Attempts))
	}
	markFailed(span, call.ErrorType, call.OutcomeUnknown)
}

// markFailed marks a span as failed, unless the error type is empty. It sets no description, which would be an error's
// text.
func markFailed(span trace.Span, errorType string, unknown bool) {
	if errorType == "" {
		return
	}
	span.SetStatus(codes.Error, "")
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
	if unknown {
		span.SetAttributes(outcomeUnknownKey.Bool(true))
	}
}

// requestMethod returns the method for a span's name, and as an attribute. A method that the conventions do not list is
// not shown: the caller chose it, so it could be anything.
func requestMethod(method string) (name string, attr attribute.KeyValue) {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY":
		return method, semconv.HTTPRequestMethodKey.String(method)
	}
	return "HTTP", semconv.HTTPRequestMethodOther
}

// traceContext implements [propagation.TextMapCarrier]. It keeps only the two headers of W3C Trace Context.
type traceContext clinicaldoc.TraceContext

// Set keeps the value if the key is one of the two headers.
func (t *traceContext) Set(key, value string) {
	switch key {
	case "traceparent":
		t.Traceparent = value
	case "tracestate":
		t.Tracestate = value
	}
}

func (*traceContext) Get(string) string { return "" }

func (*traceContext) Keys() []string { return nil }
