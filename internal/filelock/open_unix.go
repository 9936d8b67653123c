//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"
	"syscall"
)

func open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Hold(file); err != nil && !errors.Is(err, ErrNoLocks) {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// Hold keeps others from an open file, under whatever name they open it, until [Close]. While another has it, it is
// [ErrHeld]. A file system that has no locks to give just now (ENOLCK) fails: others may have some.
func Hold(file *os.File) error {
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

// Close lets go of the file and closes it. Closing it alone would not be enough while this process starts another: until
// that has its own program, it has the file open as well.
func Close(file *os.File) error {
	_ = flock(file, syscall.LOCK_UN)
	return file.Close()
}

// Remove removes the file and lets go of it.
func Remove(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}
