package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestExportWritesEveryNoteOnce(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	const count = 250
	for range count {
		srv.AddNote(clinicaldoctest.Note{Name: "Synthetic", Transcription: "synthetic transcription"})
	}
	path := filepath.Join(t.TempDir(), "notes.jsonl")

	written, err := export(t.Context(), srv.Client(), path)
	require.NoError(t, err)
	assert.Equal(t, count, written)

	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	seen := map[int64]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var note clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(lines.Bytes(), &note))
		assert.False(t, seen[note.ID], "note %d twice", note.ID)
		assert.Equal(t, "synthetic transcription", note.Transcription)
		seen[note.ID] = true
	}
	assert.Len(t, seen, count)
}
