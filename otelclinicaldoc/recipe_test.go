package otelclinicaldoc_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// These tests verify the recipes of docs/telemetry.md.

// inBox starts a fake server, to which clients from the environment connect.
func inBox(t *testing.T) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	return srv
}

//nolint:paralleltest // it sets the environment
func TestRecipe_Setup_ShutdownLosesNoSpan(t *testing.T) {
	inBox(t)
	exporter := new(keepingExporter)
	client, shutdown, err := newTracedClient(exporter, sdkmetric.NewManualReader())
	require.NoError(t, err)
	_, err = client.Users.Me(t.Context())
	require.NoError(t, err)
	require.NoError(t, shutdown(t.Context()))
	assert.Len(t, exporter.spans, 2, "none is lost")
}

// keepingExporter keeps its spans when it is shut down, unlike the exporter of package tracetest.
type keepingExporter struct{ spans []sdktrace.ReadOnlySpan }

func (k *keepingExporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.spans = append(k.spans, spans...)
	return nil
}

func (k *keepingExporter) Shutdown(context.Context) error { return nil }

//nolint:paralleltest // it sets the environment
func TestRecipe_Prometheus_ServesTheMetrics(t *testing.T) {
	srv := inBox(t)
	registry := prometheus.NewRegistry()
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	client, shutdown, err := newTracedClient(tracetest.NewInMemoryExporter(), reader)
	require.NoError(t, err)
	defer func() { require.NoError(t, shutdown(t.Context())) }()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusServiceUnavailable, ""))
	_, err = client.Users.Me(t.Context(), clinicaldoc.WithoutRetry())
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	scraped := httptest.NewRecorder()
	handler.ServeHTTP(scraped, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	assert.Regexp(t, `(?m)^http_client_request_duration_seconds_count\{error_type="503",http_request_method="GET",`+
		`http_response_status_code="503",.*url_template="/user"\} 1$`, scraped.Body.String())
	assert.Regexp(t, `(?m)^clinicaldoc_client_call_duration_seconds_count\{clinicaldoc_operation="Users.Me",`+
		`error_type="503",.*\} 1$`, scraped.Body.String())
}

func TestRecipe_Slog_LinesHaveTheIDsOfTheSpan(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	var log bytes.Buffer
	logger := slog.New(tracedHandler{slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})})
	spans := tracetest.NewInMemoryExporter()
	hooks := otelclinicaldoc.Hooks(
		otelclinicaldoc.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))
	client := srv.Client(clinicaldoc.WithLogger(logger.With("a", 1).WithGroup("g")), clinicaldoc.WithHooks(hooks))
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
	attempt := spans.GetSpans()[0].SpanContext
	assert.Contains(t, log.String(), "g.request_id=req-1 ")
	ids := fmt.Sprintf("g.trace_id=%s g.span_id=%s\n", attempt.TraceID(), attempt.SpanID())
	assert.Contains(t, log.String(), ids, "the line leads to the attempt's span")
}
