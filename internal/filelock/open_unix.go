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
	switch err := flock(int(file.Fd())); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		_ = file.Close()
		return nil, ErrHeld
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK), err == nil:
		return file, nil
	default:
		_ = file.Close()
		return nil, err
	}
}

func flock(descriptor int) error {
	for {
		if err := syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Remove removes the file and lets go of it.
func Remove(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}
