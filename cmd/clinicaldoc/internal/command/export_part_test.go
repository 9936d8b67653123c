package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

var owner = fileheader.Header{Kind: partKind, Version: 1, Service: "https://service.example", UserID: 1}

func TestPartHoldsOnlyWhatSurelyDidNotChange(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "notes.jsonl")
	part, err := openPart(target, owner)
	require.NoError(t, err)
	changed := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 1, UpdatedAt: changed}, changed.Add(settled+time.Second)))
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 2, UpdatedAt: changed}, changed.Add(time.Second)))
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 3}, changed))
	_, err = openPart(target, owner)
	require.ErrorContains(t, err, "another export", "one at a time")
	part.close()

	part, err = openPart(target, owner)
	require.NoError(t, err)
	assert.False(t, part.has(exportRow{2, changed}), "it was changed just before it was read")
	assert.False(t, part.has(exportRow{3, time.Time{}}), "the service does not tell")
	assert.True(t, part.has(exportRow{1, changed}))
	assert.False(t, part.has(exportRow{1, changed.Add(time.Second)}), "it was changed since")
	part.close()

	other := owner
	other.Service = "https://elsewhere.example"
	_, err = openPart(target, other)
	require.ErrorContains(t, err, "belongs to another account")
	other = owner
	other.UserID = 2
	_, err = openPart(target, other)
	require.ErrorContains(t, err, "another user")
}

func TestPartDropsALineThatACrashCut(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "notes.jsonl")
	part, err := openPart(target, owner)
	require.NoError(t, err)
	changed := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for id := int64(1); id <= 2; id++ {
		require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: id, UpdatedAt: changed}, changed.Add(time.Hour)))
	}
	name, size := part.file.Name(), part.size
	part.close()
	require.NoError(t, os.Truncate(name, size-3))
	part, err = openPart(target, owner)
	require.NoError(t, err)
	assert.True(t, part.has(exportRow{1, changed}))
	assert.False(t, part.has(exportRow{2, changed}))
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 2, UpdatedAt: changed, Name: "x"}, changed.Add(time.Hour)))
	written, err := part.finish([]exportRow{{2, changed}, {1, changed}}, nil)
	require.NoError(t, err)
	assert.Equal(t, 2, written)
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Regexp(t, `^\{.*"id":2,.*\}\n\{.*"id":1,.*\}\n$`, string(text))
	assert.NoFileExists(t, name)
}
