package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
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
	recordings := folder(t, 5)

	for _, want := range []string{"created", "already there"} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out, srv.Client(), recordings, clinicaldoc.CreateNoteParams{PatientID: 7, PromptID: 1}))
		assert.Equal(t, 5, strings.Count(out.String(), "status="+want))
		assert.NotContains(t, out.String(), "recording-", "a file's name may be a patient's")
	}
	assert.Equal(t, []string{"recording-0.wav", "recording-1.wav", "recording-2.wav", "recording-3.wav", "recording-4.wav"}, names(srv))
}

func TestALostResponseIsResolvedWithoutASecondUpload(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())

	require.NoError(t, run(t.Context(), &bytes.Buffer{}, srv.Client(), folder(t, 1), clinicaldoc.CreateNoteParams{PatientID: 7, PromptID: 1}))
	assert.Equal(t, []string{"recording-0.wav"}, names(srv))
}

func TestAFileThatIsNoJournalStopsEverything(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	dir := folder(t, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uploads.journal"), []byte("not a journal\n"), 0o600))

	err := run(t.Context(), &bytes.Buffer{}, srv.Client(), dir, clinicaldoc.CreateNoteParams{PatientID: 7, PromptID: 1})
	require.ErrorIs(t, err, ingest.ErrJournalVersion)
	assert.Empty(t, srv.Notes())
}
