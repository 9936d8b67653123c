package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// folder returns settings for a folder with so many recordings.
func folder(t *testing.T, count int) settings {
	t.Helper()
	dir := t.TempDir()
	s := settings{folder: dir, journal: filepath.Join(dir, "uploads.journal"), patient: 7, prompt: 1, begin: true}
	for i := range count {
		s.files = append(s.files, filepath.Join(dir, fmt.Sprintf("recording-%d.wav", i)))
		require.NoError(t, os.WriteFile(s.files[i], fmt.Appendf(nil, "synthetic audio %d", i), 0o600))
	}
	return s
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
		require.NoError(t, upload(t.Context(), srv.Client(), recordings, &out))
		assert.Equal(t, 5, strings.Count(out.String(), "status="+want))
		recordings.begin = false
		assert.NotContains(t, out.String(), "recording-", "a file's name may be a patient's")
	}
	assert.Equal(t, []string{"recording-0.wav", "recording-1.wav", "recording-2.wav", "recording-3.wav", "recording-4.wav"}, names(srv))
}

func TestALostResponseIsResolvedWithoutASecondUpload(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())

	require.NoError(t, upload(t.Context(), srv.Client(), folder(t, 1), &bytes.Buffer{}))
	assert.Equal(t, []string{"recording-0.wav"}, names(srv))
}

func TestAFileThatIsNoJournalStopsEverything(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	recordings := folder(t, 1)
	recordings.begin = false
	require.NoError(t, os.WriteFile(recordings.journal, []byte("not a journal\n"), 0o600))

	err := upload(t.Context(), srv.Client(), recordings, &bytes.Buffer{})
	require.ErrorIs(t, err, ingest.ErrJournalVersion)
	assert.Empty(t, srv.Notes())
}

// What was rehearsed on the box is uploaded to the service all the same, and for another patient too.
func TestARehearsalLeavesNothing(t *testing.T) {
	recordings := folder(t, 2)
	t.Setenv(clinicaldoc.EnvBaseURL, "")
	var rehearsed bytes.Buffer
	require.NoError(t, run(t.Context(), recordings, &rehearsed))
	assert.Equal(t, 2, strings.Count(rehearsed.String(), "status=created"), rehearsed.String())
	assert.NoFileExists(t, recordings.journal)

	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	recordings.yes, recordings.patient = true, 8
	require.NoError(t, run(t.Context(), recordings, &bytes.Buffer{}))
	assert.Len(t, srv.Notes(), 2)
}

func TestARefusedRecordingIsAnError(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	recordings := folder(t, 2)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"refused"}`))
	var out bytes.Buffer
	require.ErrorIs(t, upload(t.Context(), srv.Client(), recordings, &out), clinicaldoc.ErrValidation)
	assert.Equal(t, 1, strings.Count(out.String(), "status=refused"))
	assert.Equal(t, 1, strings.Count(out.String(), "status=created"), "the other goes on")
}
