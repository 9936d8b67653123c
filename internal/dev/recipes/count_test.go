package recipes

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// countCalls returns hooks that count calls in a registry, without OpenTelemetry. The labels have
// few values, so the number of series stays small.
func countCalls(registry prometheus.Registerer) clinicaldoc.Hooks {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "clinicaldoc_call_seconds", Help: "How long calls took, by their end.",
	}, []string{"operation", "error"})
	unknown := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clinicaldoc_outcomes_unknown_total", Help: "Calls that may have acted.",
	}, []string{"operation"})
	registry.MustRegister(seconds, unknown)
	end := func(_ context.Context, call clinicaldoc.Call) {
		ended := seconds.WithLabelValues(call.Operation, call.ErrorType)
		ended.Observe(call.Duration.Seconds())
		if call.OutcomeUnknown {
			unknown.WithLabelValues(call.Operation).Inc()
		}
	}
	return clinicaldoc.Hooks{CallEnd: end}
}
