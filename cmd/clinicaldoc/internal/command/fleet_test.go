package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// natsServer starts a server for a fleet and returns its URL.
func natsServer(t *testing.T) string {
	t.Helper()
	queue, err := nats.NewServer(&nats.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	queue.Start()
	t.Cleanup(queue.Shutdown)
	require.True(t, queue.ReadyForConnections(20*time.Second))
	return "nats://" + queue.Addr().String()
}

// newFleetRun is a run of one machine in a new fleet, with recordings that have their keys.
func newFleetRun(t *testing.T, srv *clinicaldoctest.Server, names ...string) (*fleetRun, *console) {
	t.Helper()
	folder := t.TempDir()
	recordings := make([]ingest.Recording, len(names))
	for i, name := range names {
		file := filepath.Join(folder, name+".wav")
		require.NoError(t, os.WriteFile(file, []byte("RIFF "+name), 0o600))
		params := clinicaldoc.CreateNoteParams{Name: name, PatientID: 7, PromptID: 1}
		recording, err := ingest.Recording{File: file, Params: params}.WithKey()
		require.NoError(t, err)
		recordings[i] = recording
	}
	run, shown := newRun(t, recordings...)
	run.nats = natsServer(t)
	run.begin = true
	fleet, conn, err := run.openFleet(t.Context(), srv.URL, 1)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &fleetRun{
		uploadRun: run, fleet: fleet, published: recordings, drainedAt: -1,
		uploader: &ingest.Uploader{Client: srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})), Workers: 1},
		ended:    map[string]ingest.Status{}, awaited: map[string]bool{},
	}, shown
}

// publishAll puts recordings into the queue.
func publishAll(t *testing.T, fleet *jetstream.Fleet, recordings []ingest.Recording) {
	t.Helper()
	for _, recording := range recordings {
		recording.Params.Audio, recording.Params.OnProgress = nil, nil
		require.NoError(t, fleet.Publish(t.Context(), recording))
	}
}

func TestDrain_RecordingIsTriedLater_OthersGoOn(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(time.Second))
	r, shown := newFleetRun(t, srv, "first", "second")
	publishAll(t, r.fleet, r.published)
	require.NoError(t, r.drain(t.Context()))
	assert.Len(t, srv.Notes(), 2)
	assert.Regexp(t, ` [0-9a-f]{12}: .*; trying again in \d+s\n`, shown.err.String())
}

func TestFleetStatus_UnresolvedRecording_IsListed(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	r, _ := newFleetRun(t, srv)
	journal := r.fleet.Journal()
	_, err := journal.Bind(t.Context(), ingest.Owner{Service: ingest.ServiceName(srv.URL), UserID: 1})
	require.NoError(t, err)
	claim, err := journal.Claim(t.Context(), ingest.Key{1})
	require.NoError(t, err)
	entry := claim.Entry()
	entry.State = ingest.StateInDoubt
	entry.Why = "no response"
	require.NoError(t, claim.Save(t.Context(), entry))
	s, err := (&fleetOptions{Env: r.Env}).read(t.Context(), r.fleet)
	require.NoError(t, err)
	require.Len(t, s.Doubts, 1)
	assert.Equal(t, "010000000000", s.Doubts[0].Key)
	assert.Equal(t, "no response", s.Doubts[0].Why)
}

func TestCount_EachStatus_HasItsCounts(t *testing.T) {
	t.Parallel()
	for status, want := range map[ingest.Status]ingest.Progress{
		ingest.Created:      {Created: 1},
		ingest.Refused:      {Refused: 1},
		ingest.InDoubt:      {InDoubt: 1},
		ingest.AlreadyThere: {AlreadyThere: 1},
		ingest.Complete:     {AlreadyThere: 1, Complete: 1},
		ingest.Processing:   {AlreadyThere: 1, Processing: 1},
		ingest.Failed:       {AlreadyThere: 1, Failed: 1},
	} {
		var p ingest.Progress
		count(&p, status)
		assert.Equal(t, want, p, status)
	}
}

// A recording that has no result yet hides none of those after it.
func TestVerdict_RecordingIsOpen_OthersAreCounted(t *testing.T) {
	t.Parallel()
	r, shown := newFleetRun(t, newServer(t), "open", "done", "more")
	publishAll(t, r.fleet, r.published[1:])
	left := len(r.published) - 1
	for _, err := range r.fleet.Drain(t.Context(), r.uploader) { // on another machine
		require.NoError(t, err)
		if left--; left == 0 {
			break
		}
	}
	err := r.verdict(t.Context())
	require.EqualError(t, err, "1 of 3 recordings has no note yet; another machine has to finish")
	assert.Equal(t, codePending, exitCode(t.Context(), err))
	assert.Contains(t, shown.err.String(), "2 recordings ended on other machines; all recordings of this command: "+
		"2 with a note, 0 refused, 0 unresolved; notes: 2 complete, 0 processing, 0 failed\n")
}
