package command

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestAuditTrail_FileOfOthers_IsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	path := filepath.Join(t.TempDir(), "trail.jsonl")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o666))
	_, err := openAuditTrail(path)
	require.ErrorContains(t, err, "--audit cannot be used")
}

// What cannot be written into the file is not shown.
func TestAuditTrail_FileFails_WithholdsTheNote(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{})
	path := filepath.Join(t.TempDir(), "trail.jsonl")
	trail, err := openAuditTrail(path)
	require.NoError(t, err)
	require.NoError(t, trail.file.Close())
	note, err := srv.Client(trail.option(srv.URL)).Notes.Get(t.Context(), id)
	assert.Nil(t, note)
	require.ErrorIs(t, err, clinicaldoc.ErrNotAudited)
	assert.Equal(t, codeRefused, exitCode(t.Context(), err))
	assert.Contains(t, kindOf(err).do, "--audit")

	// do: make room on the disk for the file of --audit; run the command again only if no change was made
	trail, err = openAuditTrail(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, trail.file.Close()) })
	_, err = srv.Client(trail.option(srv.URL)).Notes.Get(t.Context(), id)
	require.NoError(t, err)
}
