package otelclinicaldoc_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

func TestMetrics_CountCallsAttemptsAndOutcomes(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{RateLimit: 100, RateWindow: time.Hour}))
	d.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, "").Times(2))
	for range 2 {
		_, err := d.client.Users.Me(t.Context())
		require.NoError(t, err)
	}
	d.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusGatewayTimeout, ""))
	_, err := d.client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", recording(5000)),
	})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	counted := d.metrics(t)
	attempts := []string{
		"error.type=502 http.request.method=GET http.response.status_code=502 server.address=127.0.0.1 url.template=/user 2",
		"error.type=504 http.request.method=POST http.response.status_code=504 server.address=127.0.0.1 " +
			"url.template=/v1/progress-notes 1",
		"http.request.method=GET http.response.status_code=200 server.address=127.0.0.1 url.template=/user 2",
	}
	assert.Equal(t, attempts, lines(counted["http.client.request.duration"]))
	assert.Equal(t, attempts, lines(counted["http.client.request.body.size"]))
	assert.Equal(t, attempts, lines(counted["http.client.response.body.size"]))
	assert.Equal(t, []string{
		"clinicaldoc.operation=Notes.Create error.type=504 1",
		"clinicaldoc.operation=Users.Me 2",
	}, lines(counted["clinicaldoc.client.call.duration"]))
	assert.Equal(t, []string{"clinicaldoc.operation=Users.Me 2"}, lines(counted["clinicaldoc.client.retries"]))
	unknown := lines(counted["clinicaldoc.client.outcomes_unknown"])
	assert.Equal(t, []string{"clinicaldoc.operation=Notes.Create 1"}, unknown)
	assert.Equal(t, []string{"server.address=127.0.0.1 98"}, lines(counted["clinicaldoc.client.ratelimit.remaining"]))

	sent, ok := counted["http.client.request.body.size"].Data.(metricdata.Histogram[int64])
	require.True(t, ok)
	assert.Contains(t, sent.DataPoints[0].Bounds, float64(1<<30), "recordings are large")
	var bytes int64
	for _, p := range sent.DataPoints {
		bytes += p.Sum
	}
	assert.Greater(t, bytes, int64(5000))
}

// A limit that is used up is what an alert waits for. An attempt that was not refused has no wait, and one whose
// response reports no limit has nothing that remains.
func TestMetrics_RateLimit_RecordsOnlyWhatWasReported(t *testing.T) {
	t.Parallel()
	const remaining, wait = "clinicaldoc.client.ratelimit.remaining", "clinicaldoc.client.ratelimit.wait"
	for _, tt := range []struct {
		remaining int
		wait      time.Duration
		want      map[string][]string
	}{
		{-1, 0, map[string][]string{remaining: nil, wait: nil}},
		{0, 0, map[string][]string{remaining: {"server.address=api.example.test 0"}, wait: nil}},
		{7, 0, map[string][]string{remaining: {"server.address=api.example.test 7"}, wait: nil}},
		{-1, time.Second, map[string][]string{remaining: nil, wait: {"server.address=api.example.test 1"}}},
		{0, time.Second, map[string][]string{
			remaining: {"server.address=api.example.test 0"}, wait: {"server.address=api.example.test 1"},
		}},
	} {
		d := newTracedBox(t)
		d.hooks().AttemptEnd(t.Context(), clinicaldoc.Attempt{
			Operation: "Users.Me", Method: "GET", Route: "/user", Number: 1, StatusCode: 200,
			ServerAddress: "api.example.test", ServerPort: 8443,
			RateLimitRemaining: tt.remaining, RateLimitWait: tt.wait,
		})
		counted := d.metrics(t)
		for name, want := range tt.want {
			assert.Equal(t, want, lines(counted[name]), "%s of %+v", name, tt)
		}
	}
}

// failingMeters is a provider whose instruments cannot be created.
type failingMeters struct{ metricnoop.MeterProvider }

func (failingMeters) Meter(string, ...metric.MeterOption) metric.Meter { return failingMeter{} }

type failingMeter struct{ metricnoop.Meter }

var errNoInstrument = errors.New("synthetic")

func (failingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return metricnoop.Float64Histogram{}, errNoInstrument
}

func (failingMeter) Int64Histogram(string, ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return metricnoop.Int64Histogram{}, errNoInstrument
}

func (failingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return metricnoop.Int64Counter{}, errNoInstrument
}

func (failingMeter) Int64Gauge(string, ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return metricnoop.Int64Gauge{}, errNoInstrument
}

// An instrument that cannot be created is reported to OpenTelemetry's error handler, and calls work without it. Nothing
// is reported if all of them were created.
//
//nolint:paralleltest // replaces the error handler of the process
func TestHooks_InstrumentsCannotBeCreated_ReportsIt(t *testing.T) {
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	var reported []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err) }))
	d := newTracedBox(t)
	otelclinicaldoc.OnEvent(otelclinicaldoc.WithMeterProvider(d.meters))
	assert.Empty(t, reported)

	failing := otelclinicaldoc.WithMeterProvider(failingMeters{})
	hooks := otelclinicaldoc.Hooks(otelclinicaldoc.WithTracerProvider(noop.NewTracerProvider()), failing)
	assert.Len(t, reported, 8)
	onEvent := otelclinicaldoc.OnEvent(failing)
	assert.Len(t, reported, 8+3)
	for _, err := range reported {
		require.ErrorIs(t, err, errNoInstrument)
	}
	client := d.Client(clinicaldoc.WithHooks(hooks))
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
	onEvent(ingest.Event{Result: &ingest.Result{Status: ingest.Created}})
}

// The number of series does not grow with the number of patients, notes and recordings.
func TestMetrics_ManyPatients_AddNoSeries(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	requireNotFound := func(path string, opts ...clinicaldoc.CallOption) {
		err := d.client.Do(t.Context(), http.MethodGet, path, nil, nil, opts...)
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	}
	callAndCountSeries := func() (n int) {
		for patient := range int64(5) {
			name := fmt.Sprint("Visit ", patient)
			id := d.AddNote(clinicaldoctest.Note{PatientID: 1000 + patient, Name: name, AudioSize: 5000})
			_, err := d.client.Notes.Get(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, d.download(t.Context(), id))
			ofPatient := clinicaldoc.ListNotesParams{PatientID: 1000 + patient}
			_, err = clinicaldoc.Collect(d.client.Notes.All(t.Context(), ofPatient))
			require.NoError(t, err)
			requireNotFound(fmt.Sprint("/v1/prompts/", id))
			segment := "synthetic" + strings.Repeat("x", int(id)) // of lower-case letters, as an endpoint's may be
			requireNotFound("/search/" + segment)
			requireNotFound("/v1/patients/"+segment+"/"+segment, clinicaldoc.WithRoute("/v1/patients/{name}/{file}"))
		}
		for _, m := range d.metrics(t) {
			n += len(series(m))
		}
		return n
	}
	first := callAndCountSeries()
	assert.Equal(t, first, callAndCountSeries())
}

// Each metric is recorded in the unit that it names, in buckets that fit it, and with the version of the SDK.
func TestMetrics_HaveUnitsBucketsAndVersion(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	meters := otelclinicaldoc.WithMeterProvider(d.meters)
	hooks := otelclinicaldoc.Hooks(otelclinicaldoc.WithTracerProvider(noop.NewTracerProvider()), meters)
	hooks.AttemptEnd(t.Context(), clinicaldoc.Attempt{
		Operation: "Notes.Get", Method: "GET", Route: "/synthetic", Number: 1,
		ServerAddress: "api.example.test", ServerPort: 8443,
		StatusCode: 200, Duration: 1500 * time.Millisecond, BytesSent: 300, BytesReceived: 70_000, RateLimitRemaining: -1,
	})
	for _, errorType := range []string{"", "503"} {
		hooks.CallEnd(t.Context(), clinicaldoc.Call{
			Operation: "Notes.Get", Attempts: 1, Duration: 90 * time.Second, ErrorType: errorType,
		})
	}
	onEvent := otelclinicaldoc.OnEvent(meters)
	onEvent(ingest.Event{Result: &ingest.Result{Status: ingest.Created, Took: 15 * time.Minute}})
	var collected metricdata.ResourceMetrics
	require.NoError(t, d.reader.Collect(t.Context(), &collected))
	for _, scope := range collected.ScopeMetrics {
		assert.Equal(t, clinicaldoc.Version, scope.Scope.Version)
		assert.Contains(t, scope.Scope.SchemaURL, "/schemas/")
	}
	for name, want := range map[string]struct{ sum, lastBound float64 }{
		"http.client.request.duration":          {1.5, 10},
		"http.client.request.body.size":         {300, 1 << 30},
		"http.client.response.body.size":        {70_000, 1 << 30},
		"clinicaldoc.client.call.duration":      {90, 3600},
		"clinicaldoc.ingest.recording.duration": {900, 3600},
	} {
		switch data := d.metrics(t)[name].Data.(type) {
		case metricdata.Histogram[float64]:
			require.NotEmpty(t, data.DataPoints, name)
			for _, p := range data.DataPoints {
				assert.InDelta(t, want.sum, p.Sum, 0.001, name)
				assert.InDelta(t, want.lastBound, p.Bounds[len(p.Bounds)-1], 0.001, name)
			}
		case metricdata.Histogram[int64]:
			require.NotEmpty(t, data.DataPoints, name)
			assert.InDelta(t, want.sum, float64(data.DataPoints[0].Sum), 0.001, name)
			assert.InDelta(t, want.lastBound, data.DataPoints[0].Bounds[len(data.DataPoints[0].Bounds)-1], 0.001, name)
		default:
			assert.Fail(t, "it is not there", name)
		}
	}
}
