package filelock

import (
	"errors"
	"os"
)

// ErrNotPrivate means that a file that should be continued may hold what others wrote, or show them what is written.
var ErrNotPrivate = errors.New("the file is not a private one of this user")

// CheckPrivate returns [ErrNotPrivate] unless the open file is regular, belongs to this user, has no other name (a hard link)
// and, where the system knows modes, can neither be read nor written by others. Files that are continued are checked with it
// before the first byte is believed.
func CheckPrivate(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || !ownAlone(info) {
		return ErrNotPrivate
	}
	return nil
}
