//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"os"
	"syscall"
)

// lock locks an open file, under whatever name others open it, until [Close]. It fails if the system has no free locks
// (ENOLCK), because other processes may have got some.
func lock(file *os.File) error {
	return lockError(flock(file, syscall.LOCK_EX|syscall.LOCK_NB))
}

// lockError returns the error of this package for one of flock.
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

// flock calls the system until no signal interrupts the call.
func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Close unlocks the file and closes it. Closing it alone is not enough while this process starts another one: until
// that runs its own program, it also has the file open.
func Close(file *os.File) error {
	_ = flock(file, syscall.LOCK_UN)
	return file.Close()
}
