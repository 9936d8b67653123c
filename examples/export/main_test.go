package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func clinic(t *testing.T, notes int, opts ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(opts...)
	t.Cleanup(srv.Close)
	for range notes {
		srv.AddNote(clinicaldoctest.Note{Transcription: "synthetic transcription"})
	}
	return srv
}

// exported runs an export to the path and returns the notes of the file by their id.
func exported(t *testing.T, client *clinicaldoc.Client, path string) map[int64]clinicaldoc.ProgressNote {
	t.Helper()
	require.NoError(t, replace(path, func(w io.Writer) error {
		_, err := export(t.Context(), client, w)
		return err
	}))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	notes := map[int64]clinicaldoc.ProgressNote{}
	for line := range bytes.Lines(content) {
		var note clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(line, &note))
		require.NotContains(t, notes, note.ID, "each once")
		notes[note.ID] = note
	}
	return notes
}

func TestEveryNoteIsExportedWhole(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"as it is": {}, "rows without texts": {ListTexts: clinicaldoctest.ListTextsAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := clinic(t, 250, clinicaldoctest.WithVariant(variant))
			notes := exported(t, srv.Client(), filepath.Join(t.TempDir(), "notes.jsonl"))
			assert.Len(t, notes, 250)
			for _, note := range notes {
				assert.Equal(t, "synthetic transcription", note.Transcription)
				require.NotNil(t, note.Audio)
				assert.Empty(t, note.Audio.FileURL, "a file is no place for signed URLs")
			}
		})
	}
}

func TestADeletedNoteIsNotInTheNextExport(t *testing.T) {
	t.Parallel()
	srv := clinic(t, 3)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	assert.Len(t, exported(t, srv.Client(), path), 3)
	_, err := srv.Client().Notes.Delete(t.Context(), 2)
	require.NoError(t, err)
	assert.NotContains(t, exported(t, srv.Client(), path), int64(2))
}

func TestAFailedRunLeavesTheLastOneAndNothingElse(t *testing.T) {
	t.Parallel()
	srv := clinic(t, 150)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	exported(t, srv.Client(), path)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	killed := filepath.Join(filepath.Dir(path), ".notes.jsonl.part-1")
	require.NoError(t, os.WriteFile(killed, []byte("synthetic transcription"), 0o600))
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(500, "").After(1).Always())

	require.ErrorIs(t, replace(path, func(w io.Writer) error {
		_, err := export(t.Context(), srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})), w)
		return err
	}), clinicaldoc.ErrServer)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing half-written, of a killed run neither")
}
