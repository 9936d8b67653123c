package otelclinicaldoc_test

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// newScrapedClient returns a client and the handler that Prometheus scrapes. Serve it on an address
// that the outside cannot reach.
func newScrapedClient() (*clinicaldoc.Client, http.Handler, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	client, err := clinicaldoc.NewClientFromEnv(clinicaldoc.WithHooks(otelclinicaldoc.Hooks(
		otelclinicaldoc.WithMeterProvider(metrics),
	)))
	return client, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}
