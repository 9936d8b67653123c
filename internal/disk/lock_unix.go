//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps others from an open file, under whatever name they open it, until [Close]. A file system that has no locks
// to give just now (ENOLCK) fails: others may have some.
func lock(file *os.File) error {
	return lockError(flock(file, syscall.LOCK_EX|syscall.LOCK_NB))
}

func lockError(err error) error {
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrHeld
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return ErrNoLocks
	default:
		return err
	}
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Close lets go of the file and closes it. Closing it alone would not be enough while this process starts another:
// until that has its own program, it has the file open as well.
func Close(file *os.File) error {
	_ = flock(file, syscall.LOCK_UN)
	return file.Close()
}
