package otelclinicaldoc_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// ingest uploads recordings that end in every way. It also reports events that a run sends rarely.
func (d *tracedBox) ingest(t *testing.T) {
	t.Helper()
	d.Unfreeze() // a search takes a list whose date stands still for one of a cache
	defer d.Freeze()
	path := filepath.Join(t.TempDir(), "uploads.journal")
	journal, err := ingest.BeginJournal(t.Context(), path, ingest.Owner{Service: ingest.ServiceName(d.URL)})
	require.NoError(t, err)
	defer func() { assert.NoError(t, journal.Close()) }()
	onEvent := otelclinicaldoc.OnEvent(otelclinicaldoc.WithMeterProvider(d.meters))
	u := &ingest.Uploader{
		Client: d.client, Journal: journal, Workers: 1, OnEvent: onEvent,
		Find: clinicaldoc.FindCreatedParams{Settle: time.Millisecond},
	}
	run := func(names ...string) {
		var recordings []ingest.Recording
		for _, name := range names {
			params := clinicaldoc.CreateNoteParams{
				Name: canary + name, PatientID: canaryPatient, PromptID: 1,
				Audio: clinicaldoc.AudioBytes(canary+".wav", recording(5000)),
			}
			recordings = append(recordings, ingest.Recording{Key: canary + name, Params: params})
		}
		for _, err := range u.Run(t.Context(), ingest.Recordings(recordings...)) {
			assert.NoError(t, err)
		}
	}
	run("a", "b")
	run("a", "b")
	d.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, canary))
	run("c")
	d.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	run("d")
	// A run that pauses and continues, an unresolved recording, and a status of a later version.
	onEvent(ingest.Event{Pause: &ingest.Pause{Why: errors.New(canary), Next: time.Now()}})
	onEvent(ingest.Event{Pause: &ingest.Pause{}})
	onEvent(ingest.Event{Result: &ingest.Result{Status: ingest.InDoubt, Took: 15 * time.Minute}})
	onEvent(ingest.Event{Result: &ingest.Result{Status: 99}})
}

func TestOnEvent_CountsHowRecordingsEnd(t *testing.T) {
	t.Parallel()
	d := newTracedBox(t)
	d.ingest(t)
	counted := d.metrics(t)
	assert.Equal(t, []string{
		"clinicaldoc.ingest.status=already_there 2",
		"clinicaldoc.ingest.status=created 3",
		"clinicaldoc.ingest.status=in_doubt 1",
		"clinicaldoc.ingest.status=other 1",
		"clinicaldoc.ingest.status=refused 1",
	}, lines(counted["clinicaldoc.ingest.recording.duration"]))
	assert.Equal(t, []string{"1"}, lines(counted["clinicaldoc.ingest.doubts"]))
	assert.Equal(t, []string{"1"}, lines(counted["clinicaldoc.ingest.pauses"]))
	took, ok := counted["clinicaldoc.ingest.recording.duration"].Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	var sum float64
	for _, p := range took.DataPoints {
		sum += p.Sum
	}
	assert.Greater(t, sum, 900.0)
	for name, m := range counted {
		for _, line := range lines(m) {
			assertNoCanary(t, name+line)
		}
	}
}
