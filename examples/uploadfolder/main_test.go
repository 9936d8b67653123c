package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func folder(t *testing.T, count int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range count {
		recording := demo.WAV(time.Duration(i+1) * 10 * time.Millisecond)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("recording-%d.wav", i)), recording, 0o600))
	}
	return dir
}

func names(srv *clinicaldoctest.Server) []string {
	var names []string
	for _, note := range srv.Notes() {
		names = append(names, note.Name)
	}
	slices.Sort(names)
	return names
}

func TestASecondRunUploadsNothing(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	j := job{client: srv.Client(), folder: folder(t, 5), patient: 7, prompt: 1, workers: 3}

	var first, second bytes.Buffer
	require.NoError(t, j.run(t.Context(), &first))
	require.NoError(t, j.run(t.Context(), &second))
	assert.Equal(t, []string{"recording-0.wav", "recording-1.wav", "recording-2.wav", "recording-3.wav", "recording-4.wav"}, names(srv))
}

func TestALostAnswerIsResolvedWithoutASecondUpload(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	j := job{client: srv.Client(), folder: folder(t, 1), patient: 7, prompt: 1, workers: 1}

	require.NoError(t, j.run(t.Context(), &bytes.Buffer{}))
	assert.Equal(t, []string{"recording-0.wav"}, names(srv))
}

func TestACrashBetweenUploadAndJournalIsResolvedByTheNextRun(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	dir := folder(t, 1)
	j := job{client: srv.Client(), folder: dir, patient: 7, prompt: 1, workers: 1}
	require.NoError(t, j.run(t.Context(), &bytes.Buffer{}))

	// What a crash leaves: the line that the upload began, and a piece of the one that it ended.
	path := filepath.Join(dir, "uploads.journal")
	lines, err := os.ReadFile(path)
	require.NoError(t, err)
	begun := bytes.IndexByte(lines, '\n') + 1
	require.NoError(t, os.WriteFile(path, lines[:begun+5], 0o600))
	j.client = srv.Client() // the next process knows nothing of what this one was told

	require.NoError(t, j.run(t.Context(), &bytes.Buffer{}))
	assert.Equal(t, []string{"recording-0.wav"}, names(srv))
}

func TestADamagedJournalStopsEverything(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	dir := folder(t, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uploads.journal"), []byte("not a journal\n"), 0o600))

	err := job{client: srv.Client(), folder: dir, patient: 7, prompt: 1, workers: 1}.run(t.Context(), &bytes.Buffer{})
	require.ErrorContains(t, err, "damaged")
	assert.Empty(t, srv.Notes())
}
