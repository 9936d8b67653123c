// Package otelclinicaldoc records OpenTelemetry traces and metrics of calls of package clinicaldoc:
//
//	client, err := clinicaldoc.NewClient(baseURL, token, clinicaldoc.WithHooks(otelclinicaldoc.Hooks()))
//
// Runs of package ingest and workers of a fleet have their own metrics:
//
//	uploader := &ingest.Uploader{Client: client, Journal: journal, OnEvent: otelclinicaldoc.OnEvent()}
//
// Every call is a span. Each attempt is an HTTP client span inside it, as in the semantic conventions. Spans and
// metrics contain only methods, route templates, statuses and numbers. They never contain a URL, an ID, a header or a
// body. For that reason they lack the attribute url.full, which the conventions require.
package otelclinicaldoc
