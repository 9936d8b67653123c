package otelclinicaldoc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

func TestHooks_RetriedCall_SpansFollowTheConventions(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	d.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusServiceUnavailable, ""))
	_, err := d.client.Users.Me(t.Context())
	require.NoError(t, err)
	spans := d.spans.GetSpans()
	require.Len(t, spans, 3)
	first, second, call := spans[0], spans[1], spans[2]
	assert.Equal(t, trace.SpanKindInternal, call.SpanKind)
	assert.Equal(t, "clinicaldoc.Users.Me", call.Name)
	assert.Equal(t, []attribute.KeyValue{
		attribute.String("clinicaldoc.operation", "Users.Me"), attribute.Int("clinicaldoc.attempts", 2),
	}, call.Attributes)
	assert.Equal(t, codes.Unset, call.Status.Code)
	assert.Equal(t, "github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc", call.InstrumentationScope.Name)
	assert.NotEmpty(t, call.InstrumentationScope.Version)
	assert.Contains(t, call.InstrumentationScope.SchemaURL, "/schemas/")
	port := attributes(first)["server.port"]
	assert.Positive(t, port.AsInt64())
	for i, span := range spans[:2] {
		assert.Equal(t, trace.SpanKindClient, span.SpanKind)
		assert.Equal(t, "GET /user", span.Name)
		assert.Equal(t, call.SpanContext.SpanID(), span.Parent.SpanID())
		got := attributes(span)
		assert.Equal(t, "GET", got["http.request.method"].AsString())
		assert.Equal(t, "/user", got["url.template"].AsString())
		assert.Equal(t, "127.0.0.1", got["server.address"].AsString())
		assert.EqualValues(t, i, got["http.request.resend_count"].AsInt64())
		assert.NotContains(t, got, attribute.Key("url.full"))
	}
	assert.Equal(t, codes.Error, first.Status.Code)
	assert.Empty(t, first.Status.Description)
	assert.Equal(t, "503", attributes(first)["error.type"].AsString())
	assert.EqualValues(t, 503, attributes(first)["http.response.status_code"].AsInt64())
	assert.Equal(t, codes.Unset, second.Status.Code)
	assert.Positive(t, attributes(second)["http.response.body.size"].AsInt64())
}

func TestHooks_UnknownMethod_IsNotShown(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	require.Error(t, d.client.Do(t.Context(), "CANARY", "/v1/other", nil, nil))
	span := d.spans.GetSpans()[0]
	assert.Equal(t, "HTTP /v1/other", span.Name)
	assert.Equal(t, "_OTHER", attributes(span)["http.request.method"].AsString())
}

// The span of an attempt has the method, if the conventions list it, and the sizes of both bodies.
func TestHooks_KnownMethod_SpanHasMethodAndSizes(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	hooks := d.hooks()
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"}
	for _, method := range methods {
		attempt := clinicaldoc.Attempt{Operation: "Do", Method: method, Route: "/synthetic", Number: 1}
		ctx, _ := hooks.AttemptStart(t.Context(), attempt)
		attempt.StatusCode = 200
		attempt.BytesSent = 300
		attempt.BytesReceived = 7
		hooks.AttemptEnd(ctx, attempt)
		spans := d.spans.GetSpans()
		span := spans[len(spans)-1]
		assert.Equal(t, method+" /synthetic", span.Name)
		assert.Equal(t, method, attributes(span)["http.request.method"].AsString())
		assert.EqualValues(t, 300, attributes(span)["http.request.body.size"].AsInt64())
		assert.EqualValues(t, 7, attributes(span)["http.response.body.size"].AsInt64())
	}
}

// An attempt that sent no request has a span, and counts neither as a request nor as a retry.
func TestHooks_AttemptNotSent_IsASpanButNotARequest(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.client.Users.Me(ended)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, `clinicaldoc.Users.Me [internal] error.type=canceled ERROR
  GET /user [internal] error.type=canceled ERROR
`, d.tree())
	refused := attributes(d.spans.GetSpans()[0])
	assert.NotContains(t, refused, attribute.Key("http.request.body.size"))
	assert.NotContains(t, refused, attribute.Key("http.response.body.size"))
	counted := d.metrics(t)
	calls := lines(counted["clinicaldoc.client.call.duration"])
	assert.Equal(t, []string{"clinicaldoc.operation=Users.Me error.type=canceled 1"}, calls)
	for _, name := range []string{
		"http.client.request.duration", "http.client.request.body.size", "http.client.response.body.size",
		"clinicaldoc.client.retries", "clinicaldoc.client.ratelimit.remaining",
	} {
		assert.NotContains(t, counted, name)
	}
}

// The span of an attempt that a rate limit refuses has the time that the client waits. A metric records it too.
func TestHooks_RateLimited_RecordsTheWait(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	d.Inject(clinicaldoctest.RouteMe, clinicaldoctest.TooManyRequests(0))
	_, err := d.client.Users.Me(t.Context())
	require.NoError(t, err)
	spans := d.spans.GetSpans()
	require.Len(t, spans, 3)
	wait := attributes(spans[0])["clinicaldoc.ratelimit.wait"].AsFloat64()
	assert.Positive(t, wait)
	assert.NotContains(t, attributes(spans[1]), attribute.Key("clinicaldoc.ratelimit.wait"))
	counted := d.metrics(t)["clinicaldoc.client.ratelimit.wait"]
	assert.Equal(t, []string{"server.address=127.0.0.1 1"}, lines(counted))
	seconds, ok := counted.Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	assert.InDelta(t, wait, seconds.DataPoints[0].Sum, 1e-9)
}

func TestHooks_LostCreate_SpansHaveOutcomeUnknown(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	d.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	_, err := d.client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", recording(10)),
	})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Equal(t, `clinicaldoc.Notes.Create [internal] error.type=no_response attempts=1 outcome_unknown=true ERROR
  POST /v1/progress-notes [client] error.type=no_response outcome_unknown=true ERROR
`, d.tree())
}

// The trace is sent to the base URL's origin, but not to storage. Baggage is sent to neither, whatever the global
// propagator is.
func TestHooks_Propagation_SendsTheTraceToTheServiceOnly(t *testing.T) {
	t.Parallel()
	otel.SetTextMapPropagator(propagation.Baggage{}) // the program's own, for services that it trusts
	d := newTracedBox(t)
	id := d.AddNote(clinicaldoctest.Note{PatientID: 4, AudioSize: 5000})
	member, err := baggage.NewMember("patient", "CANARY")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	ctx, span := d.tracer.Start(baggage.ContextWithBaggage(t.Context(), bag), "test")
	require.NoError(t, d.download(ctx, id))
	span.End()
	parents := map[string]bool{}
	storage := 0
	for _, r := range d.Requests() {
		assert.NotContains(t, r.Header, "Baggage")
		if r.Storage {
			storage++
			assert.NotContains(t, r.Header, "Traceparent")
			continue
		}
		parent := strings.Split(r.Header.Get("Traceparent"), "-")
		require.Len(t, parent, 4)
		assert.Equal(t, span.SpanContext().TraceID().String(), parent[1])
		parents[parent[2]] = true
	}
	clients := 0
	for _, s := range d.spans.GetSpans() {
		if s.SpanKind == trace.SpanKindClient && attributes(s)["url.template"].AsString() != "storage" {
			clients++
			assert.True(t, parents[s.SpanContext.SpanID().String()], "the attempt's own span is the parent")
		}
	}
	assert.Len(t, parents, clients)
	assert.Equal(t, 2, storage)
}

func TestWithoutPropagation_SendsNoTrace(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	d := newTracedBox(t)
	client := srv.Client(clinicaldoc.WithHooks(otelclinicaldoc.Hooks(otelclinicaldoc.WithoutPropagation())))
	ctx, span := d.tracer.Start(t.Context(), "test")
	defer span.End()
	_, err := client.Users.Me(ctx)
	require.NoError(t, err)
	assert.NotContains(t, srv.Requests()[0].Header, "Traceparent")
}

// Without an SDK the hooks record nothing, but they pass on the trace that the program is part of.
func TestHooks_WithoutSDK_PassOnTheTrace(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	hooks := otelclinicaldoc.Hooks(otelclinicaldoc.WithTracerProvider(noop.NewTracerProvider()))
	client := srv.Client(clinicaldoc.WithHooks(hooks))
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
	state, err := trace.ParseTraceState("synthetic=1")
	require.NoError(t, err)
	remote := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	_, err = client.Users.Me(trace.ContextWithRemoteSpanContext(t.Context(), remote))
	require.NoError(t, err)
	assert.NotContains(t, srv.Requests()[0].Header, "Traceparent")
	traced := srv.Requests()[1].Header
	assert.Equal(t, "00-01000000000000000000000000000000-0200000000000000-01", traced.Get("Traceparent"))
	assert.Equal(t, "synthetic=1", traced.Get("Tracestate"))
}

const (
	canary        = "CANARY"
	canaryPatient = int64(7700770077)
	canaryNote    = int64(8800880088)
)

// callWithCanaries makes every kind of call with data that must not be recorded, and lets calls fail in every way.
func callWithCanaries(t *testing.T, d *tracedBox) {
	t.Helper()
	ctx, span := d.tracer.Start(t.Context(), "test")
	defer span.End()
	params := clinicaldoc.CreateNoteParams{
		Name: canary, PatientID: canaryPatient, PromptID: 1,
		Audio: clinicaldoc.AudioBytes(canary+".wav", append(recording(5000), canary...)),
	}
	require.NoError(t, d.encounter(ctx, params))
	id := d.Notes()[0].ID
	require.NoError(t, d.download(ctx, id))
	_, err := d.client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Analysis: new(canary)},
		clinicaldoc.WithHeader("X-Patient", canary), clinicaldoc.WithQuery("q", canary))
	require.NoError(t, err)
	listed := clinicaldoc.ListNotesParams{PatientID: canaryPatient, Sort: clinicaldoc.SortLatest}
	_, err = clinicaldoc.Collect(d.client.Notes.All(ctx, listed))
	require.NoError(t, err)
	const refusal = `{"message":"` + canary + `","errors":{"` + canary + `":["` + canary + `"]}}`
	d.Inject("", clinicaldoctest.Answer(http.StatusUnprocessableEntity, refusal).
		WithHeader("X-Request-Id", canary).WithHeader("X-RateLimit-Remaining", canary).Times(2))
	_, err = d.client.Notes.Get(ctx, canaryNote)
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	require.Error(t, d.client.Do(ctx, http.MethodGet, "/v1/"+canary+"/"+canary, nil, nil))
	d.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	_, err = d.client.Notes.Create(ctx, params)
	var lost *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, err, &lost)
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errors.New(canary))
	_, err = d.client.Notes.FindCreated(ended, lost, clinicaldoc.FindCreatedParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	_, err = d.client.Notes.Get(ctx, canaryNote, clinicaldoc.WithToken(canary))
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	_, err = d.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader(canary, failing{})})
	require.Error(t, err)
	_, err = d.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: canary, BeforeCommit: func(context.Context) error { return errors.New(canary) },
	})
	require.Error(t, err)
	_, err = d.client.Notes.DownloadAudioFile(ctx, id, "/"+canary+"/"+canary, clinicaldoc.DownloadParams{})
	require.Error(t, err)
	_, err = d.client.Notes.DownloadAudio(ctx, id, failing{}, clinicaldoc.DownloadParams{})
	require.Error(t, err)
	assert.Panics(t, func() {
		panicking := clinicaldoc.DownloadParams{OnProgress: func(int64, int64) { panic(canary) }}
		_, _ = d.client.Notes.DownloadAudio(ctx, id, io.Discard, panicking)
	})
	d.Close()
	_, err = d.client.Users.Me(ctx)
	require.Error(t, err)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New(canary) }

func (failing) Write([]byte) (int, error) { return 0, errors.New(canary) }

func TestHooks_PatientData_IsNotInSpansOrMetrics(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t, clinicaldoctest.WithToken(canary+"token"),
		clinicaldoctest.WithVariant(clinicaldoctest.Variant{RateLimit: 1000, RateWindow: time.Hour}))
	callWithCanaries(t, d)
	spans := d.spans.GetSpans()
	assert.Greater(t, len(spans), 30)
	for _, span := range spans {
		everything, err := json.Marshal(span)
		require.NoError(t, err)
		assertNoCanary(t, string(everything)+fmt.Sprintf("%+v", span))
		assert.Empty(t, span.Status.Description, span.Name)
		assert.Empty(t, span.Events, span.Name)
	}
	counted := d.metrics(t)
	assert.NotEmpty(t, counted)
	for _, m := range counted {
		everything, err := json.Marshal(m)
		require.NoError(t, err)
		assertNoCanary(t, string(everything)+fmt.Sprintf("%+v", m)+strings.Join(lines(m), "\n"))
	}
	keys := map[attribute.Key]bool{}
	for _, span := range spans {
		for key := range attributes(span) {
			keys[key] = true
		}
	}
	for key := range keys {
		assert.True(t, slices.Contains(allowed, key), key)
	}
}

// allowed are all attributes that spans may have.
var allowed = []attribute.Key{
	"http.request.method", "http.request.resend_count", "http.request.body.size", "http.response.status_code",
	"http.response.body.size", "server.address", "server.port", "url.template", "error.type",
	"clinicaldoc.operation", "clinicaldoc.attempts", "clinicaldoc.outcome_unknown", "clinicaldoc.ratelimit.wait",
}

func assertNoCanary(t *testing.T, text string) {
	t.Helper()
	secrets := []string{canary, fmt.Sprint(canaryPatient), fmt.Sprint(canaryNote), "X-Amz", "http://", "Bearer"}
	for _, secret := range secrets {
		assert.NotContains(t, text, secret)
	}
}
