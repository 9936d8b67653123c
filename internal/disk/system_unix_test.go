//go:build unix

package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openNames are the files of a folder that this process has open, and the folder itself.
func openNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	const open = "/proc/self/fd"
	entries, err := os.ReadDir(open)
	if err != nil {
		t.Skip("needs /proc")
	}
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(open, entry.Name())); err == nil && strings.HasPrefix(target, dir) {
			names = append(names, filepath.Base(target))
		}
	}
	return names
}

// A caller that is refused a file again and again, or syncs a folder, does not run out of file descriptors.
func TestOpen_Refused_LeavesNoFileOpen(t *testing.T) {
	t.Parallel()
	lockable(t)
	dir := t.TempDir()
	taken, shared := filepath.Join(dir, "taken"), filepath.Join(dir, "shared")
	hold(t, taken)
	_, err := Take(taken)
	require.ErrorIs(t, err, ErrHeld)
	require.NoError(t, os.WriteFile(shared, nil, 0o600))
	require.NoError(t, os.Chmod(shared, 0o666))
	_, err = system{}.Open(shared, false)
	require.ErrorIs(t, err, ErrNotPrivate)
	removed, err := Take(filepath.Join(dir, "removed"))
	require.NoError(t, err)
	require.NoError(t, Remove(removed))
	require.NoError(t, system{}.SyncDir(dir))
	assert.Equal(t, []string{"taken"}, openNames(t, dir))
}

// A folder that cannot be synced is an error.
func TestSyncDir_Fails_ReturnsTheError(t *testing.T) {
	t.Parallel()
	const unsyncable = "/proc"
	dir, err := os.Open(unsyncable)
	if err != nil {
		t.Skip("needs /proc")
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err == nil {
		t.Skip("it can be synced here")
	}
	require.Error(t, system{}.SyncDir(unsyncable))
}
