//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClose_WhileAProcessStarts_FreesTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	file, err := Take(path)
	require.NoError(t, err)
	copied, err := syscall.Dup(int(file.Fd())) // as a process has one between its fork and its exec
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(copied) })
	require.NoError(t, Close(file))
	hold(t, path)
}

func TestLockError_SystemErrors_AreMapped(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{
		nil: nil, syscall.EWOULDBLOCK: ErrHeld, syscall.ENOTSUP: ErrNoLocks, syscall.ENOSYS: ErrNoLocks,
		syscall.ENOLCK: syscall.ENOLCK, // a share whose lock service is gone: others may have a lock
		syscall.EIO:    syscall.EIO,
	} {
		require.Equal(t, want, lockError(err), err)
	}
}
