//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filelock

import (
	"errors"
	"os"
)

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

// Hold cannot keep others out here.
func Hold(*os.File) error { return ErrNoLocks }

// Close lets go of the file and closes it.
func Close(file *os.File) error { return file.Close() }

// Remove removes the file and closes it.
func Remove(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}
