package otelclinicaldoc_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// tracedBox is a fake server, a client with hooks, and the spans and metrics that these recorded.
type tracedBox struct {
	*clinicaldoctest.Server

	client  *clinicaldoc.Client
	tracer  trace.Tracer
	tracers *sdktrace.TracerProvider
	spans   *tracetest.InMemoryExporter
	reader  *sdkmetric.ManualReader
	meters  *sdkmetric.MeterProvider
}

// quickRetries keeps tests from waiting.
var quickRetries = clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{
	MaxRetries: 3, MinWait: time.Millisecond, MaxWait: 2 * time.Second,
})

func newTracedBox(tb testing.TB, opts ...clinicaldoctest.Option) *tracedBox {
	tb.Helper()
	d := &tracedBox{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	clock := clinicaldoctest.WithFrozenClock(time.Now().Add(-time.Hour))
	d.Server = clinicaldoctest.NewServer(append([]clinicaldoctest.Option{clock}, opts...)...)
	tb.Cleanup(d.Close)
	d.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(d.spans))
	d.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(d.reader))
	d.tracer = d.tracers.Tracer("test")
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	httpClient := clinicaldoc.WithHTTPClient(&http.Client{Transport: transport})
	d.client = d.Client(quickRetries, httpClient, clinicaldoc.WithHooks(d.hooks()))
	return d
}

// hooks returns hooks that record in the box.
func (d *tracedBox) hooks() clinicaldoc.Hooks {
	return otelclinicaldoc.Hooks(
		otelclinicaldoc.WithTracerProvider(d.tracers), otelclinicaldoc.WithMeterProvider(d.meters))
}

// encounter creates a note, waits for it and signs it, while each of the three meets a fault.
func (d *tracedBox) encounter(ctx context.Context, params clinicaldoc.CreateNoteParams) error {
	d.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0))
	d.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusBadGateway, "<html>Bad Gateway").After(1))
	d.Inject(clinicaldoctest.RouteSignNote, clinicaldoctest.Answer(http.StatusServiceUnavailable, ""))
	note, err := d.client.Notes.Create(ctx, params)
	if err != nil {
		return err
	}
	wait := clinicaldoc.WaitParams{
		Interval: 50 * time.Millisecond,
		OnUpdate: func(*clinicaldoc.ProgressNote) { d.Advance(time.Minute) },
	}
	if _, err := d.client.Notes.Wait(ctx, note.ID, wait); err != nil {
		return err
	}
	_, err = d.client.Notes.Sign(ctx, note.ID)
	return err
}

// download gets the recording, in two parts.
func (d *tracedBox) download(ctx context.Context, id int64) error {
	d.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.Truncate(1000))
	_, err := d.client.Notes.DownloadAudio(ctx, id, io.Discard, clinicaldoc.DownloadParams{})
	return err
}

// recording returns the beginning of a WAV file, with this number of further bytes.
func recording(size int) []byte {
	return append([]byte("RIFF\x24\x00\x00\x00WAVEfmt "), make([]byte, size)...)
}

// shortened leaves out the prefixes that are the same everywhere.
var shortened = strings.NewReplacer("http.response.", "", "http.request.", "", "clinicaldoc.", "")

// treeAttributes are the attributes that tree prints.
var treeAttributes = []attribute.Key{
	"http.response.status_code", "http.request.resend_count", "error.type", "clinicaldoc.attempts",
	"clinicaldoc.outcome_unknown",
}

// tree prints the spans as a tree, each with its kind, its treeAttributes and whether it failed.
func (d *tracedBox) tree() string {
	spans := d.spans.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	var write func(parent trace.SpanID, indent string)
	write = func(parent trace.SpanID, indent string) {
		for _, span := range spans {
			if span.Parent.SpanID() != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s [%s]", indent, span.Name, span.SpanKind)
			for _, key := range treeAttributes {
				if value, ok := attributes(span)[key]; ok {
					fmt.Fprintf(&b, " %s=%s", shortened.Replace(string(key)), value.String())
				}
			}
			if span.Status.Code == codes.Error {
				b.WriteString(" ERROR")
			}
			b.WriteString("\n")
			write(span.SpanContext.SpanID(), indent+"  ")
		}
	}
	write(trace.SpanID{}, "")
	return b.String()
}

func attributes(span tracetest.SpanStub) map[attribute.Key]attribute.Value {
	all := map[attribute.Key]attribute.Value{}
	for _, kv := range span.Attributes {
		all[kv.Key] = kv.Value
	}
	return all
}

// metrics collects the metrics and returns them by name.
func (d *tracedBox) metrics(tb testing.TB) map[string]metricdata.Metrics {
	tb.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(tb, d.reader.Collect(context.WithoutCancel(tb.Context()), &collected))
	all := map[string]metricdata.Metrics{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// series returns the values of a metric by their attributes: of sums and gauges the value, of histograms the count.
func series(m metricdata.Metrics) map[attribute.Distinct]point {
	points := map[attribute.Distinct]point{}
	add := func(set attribute.Set, value int64) { points[set.Equivalent()] = point{set, value} }
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, int64(p.Count))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, int64(p.Count))
		}
	}
	return points
}

type point struct {
	set   attribute.Set
	value int64
}

// lines prints the series of a metric in a fixed order, without the server's port.
func lines(m metricdata.Metrics) []string {
	var all []string
	for _, p := range series(m) {
		text := ""
		for _, kv := range p.set.ToSlice() {
			if kv.Key != "server.port" {
				text += fmt.Sprintf("%s=%s ", kv.Key, kv.Value.String())
			}
		}
		all = append(all, text+fmt.Sprint(p.value))
	}
	slices.SortFunc(all, cmp.Compare[string])
	return all
}
