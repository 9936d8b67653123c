package disk_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

func TestFile_WritesAppend_ReadsAnywhere(t *testing.T) {
	t.Parallel()
	d, path := disk.From(t.Context()), filepath.Join(t.TempDir(), "file")
	_, err := d.Open(path, false)
	require.ErrorIs(t, err, fs.ErrNotExist)
	f, err := d.Create(path, false)
	require.NoError(t, err)
	_, err = f.Write([]byte("one two"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(3))
	_, err = f.Write([]byte(" three"))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	_, err = d.Create(path, false)
	require.ErrorIs(t, err, fs.ErrExist)

	require.NoError(t, os.Chmod(path, 0o644))
	f, err = d.Open(path, false)
	require.NoError(t, err)
	content, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	require.NoError(t, err)
	assert.Equal(t, "one three", string(content))
	require.NoError(t, f.Close())
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	}
}

func TestReplace_NewFile_StaysLocked(t *testing.T) {
	t.Parallel()
	d, dir := durable.From(t.Context()), t.TempDir()
	path := filepath.Join(dir, "old")
	old, err := d.Create(path, false)
	require.NoError(t, err)
	made, err := d.Create(path+".new", false)
	require.NoError(t, err)
	_, err = made.Write([]byte("new"))
	require.NoError(t, err)
	there, err := d.Replace(made, path+".new", old, path)
	require.NoError(t, err)
	require.NoError(t, there.IsAt(path))
	_, err = d.Open(path, false)
	require.ErrorIs(t, err, disk.ErrHeld)
	require.NoError(t, d.SyncDir(dir))
	require.NoError(t, there.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "new", string(content))
	require.ErrorIs(t, d.Remove(path+".new"), fs.ErrNotExist)
	if runtime.GOOS != "windows" { // where a folder cannot be synced
		require.Error(t, d.SyncDir(filepath.Join(dir, "missing")))
	}
}

func TestLock_SecondHolder_IsRefused(t *testing.T) {
	t.Parallel()
	d, path := durable.From(t.Context()), filepath.Join(t.TempDir(), "lock")
	lock, err := d.Lock(path)
	require.NoError(t, err)
	_, err = d.Lock(path)
	require.ErrorIs(t, err, disk.ErrHeld)
	require.NoError(t, lock.Close())
	assert.NoFileExists(t, path)
	lock, err = d.Lock(path)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

type another struct{ disk.FS }

func TestFrom_ContextWithFileSystem_ReturnsIt(t *testing.T) {
	t.Parallel()
	other := another{disk.From(t.Context())}
	assert.Equal(t, other, disk.From(disk.With(t.Context(), other)))
	assert.NotEqual(t, disk.FS(other), disk.From(t.Context()))
}
