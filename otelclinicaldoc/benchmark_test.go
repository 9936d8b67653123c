package otelclinicaldoc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

const userDocument = `{"id":2,"name":"Test User","email":"user@clinic.test"}`

// canned responds within the process, so that only the client's own work is measured.
type canned struct{}

func (canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(userDocument)),
	}, nil
}

// BenchmarkCall measures what hooks cost a call: without a network, where that is most of it, and over loopback.
func BenchmarkCall(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, userDocument)
	}))
	defer srv.Close()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	processor := sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(tracetest.NewNoopExporter()))
	hooks := func(tracers *sdktrace.TracerProvider) clinicaldoc.Option {
		return clinicaldoc.WithHooks(otelclinicaldoc.Hooks(
			otelclinicaldoc.WithTracerProvider(tracers), otelclinicaldoc.WithMeterProvider(meters)))
	}
	for _, transport := range []struct {
		name string
		http.RoundTripper
	}{{"canned", canned{}}, {"loopback", srv.Client().Transport}} {
		for _, test := range []struct {
			name string
			opts []clinicaldoc.Option
		}{
			{"none", nil},
			{"noop", []clinicaldoc.Option{clinicaldoc.WithHooks(otelclinicaldoc.Hooks(
				otelclinicaldoc.WithTracerProvider(tracenoop.NewTracerProvider()),
				otelclinicaldoc.WithMeterProvider(metricnoop.NewMeterProvider())))}},
			{"metrics", []clinicaldoc.Option{hooks(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))}},
			{"sampled", []clinicaldoc.Option{hooks(sdktrace.NewTracerProvider(processor))}},
		} {
			httpClient := clinicaldoc.WithHTTPClient(&http.Client{Transport: transport})
			client, err := clinicaldoc.NewClient(srv.URL, "1|synthetic", append(test.opts, httpClient)...)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(transport.name+"/"+test.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := client.Users.Me(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
