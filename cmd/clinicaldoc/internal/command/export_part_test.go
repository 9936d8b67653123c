package command

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

var owner = fileheader.Header{Kind: partKind, Version: 1, Service: "https://service.example", UserID: 1}

// changed is when the notes of exports were changed.
var changed = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// partOf opens the part of an export with these notes, which were read a week after they were changed.
func partOf(t *testing.T, target string, ids ...int64) *exportPart {
	t.Helper()
	part, err := openPart(target, owner)
	require.NoError(t, err)
	for _, id := range ids {
		require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: id, UpdatedAt: changed}, changed.Add(7*24*time.Hour)))
	}
	return part
}

func TestPart_RecentChange_IsReadAgain(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "notes.jsonl")
	part := partOf(t, target)
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 1, UpdatedAt: changed}, changed.Add(settled+time.Second)))
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 2, UpdatedAt: changed}, changed.Add(36*time.Hour)))
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 3}, changed))
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 4, UpdatedAt: changed}, changed.Add(7*24*time.Hour)))
	_, err := openPart(target, owner)
	require.ErrorContains(t, err, "another export", "one at a time")
	part.close()

	part = partOf(t, target)
	assert.False(t, part.has(exportRow{2, changed}), "a date alone is up to 36 hours before the change")
	assert.False(t, part.has(exportRow{3, time.Time{}}), "the service does not tell")
	assert.True(t, part.has(exportRow{1, changed}))
	assert.False(t, part.has(exportRow{1, changed.Add(time.Second)}), "it was changed since")
	assert.False(t, part.has(exportRow{4, changed.Add(-time.Second)}), "an earlier version was restored")
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

func TestPart_CutLine_IsDropped(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "notes.jsonl")
	part := partOf(t, target, 1, 2)
	name := part.file.Name()
	size := part.size
	part.close()
	require.NoError(t, os.Truncate(name, size-3))
	part = partOf(t, target)
	assert.True(t, part.has(exportRow{1, changed}))
	assert.False(t, part.has(exportRow{2, changed}))
	note := &clinicaldoc.ProgressNote{ID: 2, UpdatedAt: changed, Name: "x"}
	require.NoError(t, part.add(note, changed.Add(7*24*time.Hour)))
	written, err := part.finish([]exportRow{{2, changed}, {1, changed}}, nil)
	require.NoError(t, err)
	assert.Equal(t, 2, written)
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Regexp(t, `^\{.*"id":2,.*\}\n\{.*"id":1,.*\}\n$`, string(text))
	assert.NoFileExists(t, name)
}

// What cannot be read is not overwritten: it may be most of an export.
func TestPart_CannotBeRead_IsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "part")
	require.NoError(t, os.WriteFile(path, []byte(owner.String()+"\n"), 0o600))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	require.Error(t, (&exportPart{file: file, target: path}).load(owner))
}

func TestPart_ChangedThenDeletedNote_IsNotWritten(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "notes.jsonl")
	partOf(t, target, 1, 2).close()
	part := partOf(t, target)
	later := changed.Add(time.Minute)
	require.True(t, part.has(exportRow{1, changed}))
	require.False(t, part.has(exportRow{2, later}), "and then it cannot be read: it was deleted")
	written, err := part.finish([]exportRow{{1, changed}, {2, later}}, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, written)
}

func TestPart_OfOthers_IsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	folder := t.TempDir()
	shared := filepath.Join(folder, "shared.jsonl")
	part, err := openPart(shared, owner)
	require.NoError(t, err)
	path := part.file.Name()
	part.close()
	require.NoError(t, os.Chmod(path, 0o666))
	_, err = openPart(shared, owner)
	require.ErrorContains(t, err, "can be read or written by others")

	linked := filepath.Join(folder, "linked.jsonl")
	elsewhere := filepath.Join(folder, "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, nil, 0o600))
	require.NoError(t, os.Symlink(elsewhere, partPath(linked)))
	_, err = openPart(linked, owner)
	require.ErrorContains(t, err, "can be read or written by others")
	require.ErrorContains(t, new(Env).checkTarget(partPath(linked)), "this is a link")
}

func TestPart_CannotBeFinished_LeavesNoNotesBehind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := filepath.Join(folder, "notes.jsonl")
	part := partOf(t, target, 1)
	t.Cleanup(part.close)
	require.NoError(t, os.MkdirAll(filepath.Join(target, "in the way"), 0o700))
	_, err := part.finish([]exportRow{{id: 1}}, nil)
	require.Error(t, err)
	assert.NoFileExists(t, part.file.Name()+"-new")
}

func TestPart_ToAPipe_HasNoName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed there")
	}
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	t.Cleanup(partOf(t, "-", 1).close)
	left, err := os.ReadDir(filepath.Join(state, "exports"))
	require.NoError(t, err)
	assert.Empty(t, left, "a killed export leaves nothing")
}
