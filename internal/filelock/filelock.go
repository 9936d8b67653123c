// Package filelock opens a file for one holder at a time, in this process and among processes. The system lets go of it
// when the holder ends, however it ends, so that nothing stays locked.
package filelock

import (
	"errors"
	"fmt"
	"os"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

var (
	// ErrHeld means that somebody else holds the file.
	ErrHeld = errors.New("the file is held by another")
	// ErrNoLocks means that the system or the file system knows no locks.
	ErrNoLocks = redact.New("the file system knows no locks")
)

// maxTries bounds how often a file is opened anew because it was removed just before it was locked.
const maxTries = 10

// Open opens the file for reading and writing, makes it if need be, readable to this user alone, and holds it until
// [Close] or [Remove]. Where the system or the file system knows no locks, it is opened all the same.
func Open(path string) (*os.File, error) { return openNamed(path, open) }

// openNamed opens the file that bears the name when it is locked: one that was removed in between locks out nobody.
func openNamed(path string, open func(string) (*os.File, error)) (*os.File, error) {
	for range maxTries {
		file, err := open(path)
		if err != nil {
			return nil, err
		}
		mine, err := file.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Lstat(path); err == nil && os.SameFile(mine, there) {
				return file, nil
			}
		}
		_ = file.Close()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: it comes and goes", ErrHeld)
}

// ErrNotPrivate means that a file that should be continued may hold what others wrote. All that [CheckPrivate] refuses
// matches it.
var ErrNotPrivate = redact.New("the file is not a private one of this user")

// Why a file is not private.
var (
	ErrOthers     = redact.Fail("it belongs to another user of this machine", ErrNotPrivate)
	ErrLinked     = redact.Fail("it has another name as well (a hard link)", ErrNotPrivate)
	ErrNotRegular = redact.Fail("it is not a regular file", ErrNotPrivate)
	ErrWritable   = redact.Fail("others may write to it: see that it is right, then make it yours alone (chmod 600)", ErrNotPrivate)
)

// private is the mode of files that are for this user alone.
const private = 0o600
