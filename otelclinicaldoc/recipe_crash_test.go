package otelclinicaldoc_test

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// crashReport is all that leaves the machine about a failure.
type crashReport struct {
	Type    string            // by which the reporter groups
	Message string            // an error's text, which holds no data
	Tags    map[string]string // to find the trace and, with the service's support, the request
}

func newCrashReport(ctx context.Context, err error) crashReport {
	report := crashReport{Type: fmt.Sprintf("%T", err), Tags: map[string]string{}}
	var refused *clinicaldoc.Error
	var unknown *clinicaldoc.OutcomeUnknownError
	var waited *clinicaldoc.WaitError
	switch { // their texts are safe; of any other error only the type is reported
	case errors.As(err, &unknown):
		report.Type, report.Message = "outcome unknown", unknown.Error()
	case errors.As(err, &waited):
		report.Type, report.Message = "wait", waited.Error()
	case errors.As(err, &refused):
		report.Type, report.Message = refused.Operation, refused.Error()
		report.Tags["request_id"] = refused.RequestID
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		report.Tags["trace_id"] = span.TraceID().String()
	}
	return report
}
