package ingest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestReadJournal_OpenElsewhere_ReturnsOwnerAndEntries(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "uploads.journal")
	journal, err := openOrBegin(t.Context(), "https://service.example", path)
	require.NoError(t, err)
	defer func() { _ = journal.Close() }()
	bind(t, journal, "https://service.example")
	claim, err := journal.Claim(t.Context(), ingest.Key{1})
	require.NoError(t, err)
	require.NoError(t, claim.Save(t.Context(), ingest.Entry{State: ingest.StateCreated, NoteID: 42, Size: 7}))

	owner, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, ingest.Owner{Service: "https://service.example"}, owner)
	require.Len(t, entries, 1)
	assert.Equal(t, ingest.Key{1}, entries[0].Key)
	assert.Equal(t, ingest.StateCreated, entries[0].State)
	assert.EqualValues(t, 42, entries[0].NoteID)
}

func TestReadJournal_AnyFile_ChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "uploads.journal")
	_, _, err := ingest.ReadJournal(t.Context(), path)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NoFileExists(t, path)

	journal, err := openOrBegin(t.Context(), "https://service.example", path)
	require.NoError(t, err)
	bind(t, journal, "https://service.example")
	require.NoError(t, journal.Close())
	whole := read(t, path)
	torn := append(bytes.Clone(whole), "0123"...)
	require.NoError(t, os.WriteFile(path, torn, 0o600))
	_, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err, "a line that is being written is no damage")
	assert.Empty(t, entries)
	after := read(t, path)
	assert.Equal(t, torn, after)

	whole[len(whole)/2] ^= 1
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	_, _, err = ingest.ReadJournal(t.Context(), path)
	assert.ErrorIs(t, err, ingest.ErrJournalDamaged)
}
