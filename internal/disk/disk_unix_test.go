//go:build unix

package disk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

func TestOpen_OtherNameOfALockedFile_IsHeld(t *testing.T) {
	t.Parallel()
	d, dir := durable.From(t.Context()), t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	f, err := d.Create(path, false)
	require.NoError(t, err)
	resolved, err := d.Resolve(link)
	require.NoError(t, err)
	// A lock that another has counts, even if the file system need not support locks.
	for _, unlocked := range []bool{false, true} {
		_, err = d.Open(resolved, unlocked)
		require.ErrorIs(t, err, disk.ErrHeld)
	}
	_, err = d.Open(link, false)
	require.ErrorIs(t, err, syscall.ELOOP, "a link that was put there since is not followed")

	second := filepath.Join(dir, "second")
	require.NoError(t, os.Link(path, second))
	require.ErrorContains(t, f.IsAt(path), "hard link")
	require.NoError(t, f.Close())
	_, err = d.Open(second, false)
	require.ErrorContains(t, err, "hard link")
	require.NoError(t, os.Remove(second))

	f, err = d.Open(path, false)
	require.NoError(t, err)
	require.NoError(t, f.IsAt(path))
	require.NoError(t, os.Rename(path, second))
	require.ErrorIs(t, f.IsAt(path), disk.ErrMoved)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorIs(t, f.IsAt(path), disk.ErrMoved, "another file stands there")
	require.NoError(t, f.Close())
}

func TestOpen_FileOfOthers_IsRefused(t *testing.T) {
	t.Parallel()
	d, dir := disk.From(t.Context()), t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o666))
	for range 2 { // it stays so
		_, err := d.Open(path, false)
		require.ErrorContains(t, err, "other users may write to it")
	}
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := d.Open(pipe, false)
	require.ErrorContains(t, err, "not a regular file")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.Chown(path, 4711, -1))
		_, err := d.Open(path, false)
		require.ErrorContains(t, err, "another user")
	}
}
