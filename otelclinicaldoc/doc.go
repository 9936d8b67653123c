// Package otelclinicaldoc makes OpenTelemetry traces and metrics of the calls of package clinicaldoc:
//
//	client, err := clinicaldoc.NewClient(baseURL, token, clinicaldoc.WithHooks(otelclinicaldoc.Hooks()))
//
// A run of package ingest, or a fleet's worker, has metrics of its own:
//
//	uploader := &ingest.Uploader{Client: client, Journal: journal, OnEvent: otelclinicaldoc.OnEvent()}
//
// Every call is a span, and in it each attempt is an HTTP client span, by the semantic conventions. What they and the
// metrics say is an allow-list of methods, route templates, statuses and numbers: never a URL, an id, a header or a body.
// The attribute url.full, which the conventions require, is left out for that reason.
package otelclinicaldoc
