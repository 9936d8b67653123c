package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// What may be in the way of holding a file.
var (
	ErrHeld       = errors.New("the file is held by another")
	ErrNoLocks    = redact.New("the file system knows no locks")
	ErrMoved      = redact.New("the file was moved or removed, or another stands in its place")
	ErrNotPrivate = redact.New("the file is not a private one of this user")
)

// Why a file is not private: all that [CheckPrivate] refuses matches one of these, and [ErrNotPrivate].
var (
	ErrOthers     = redact.Fail("it belongs to another user of this machine", ErrNotPrivate)
	ErrLinked     = redact.Fail("it has another name as well (a hard link)", ErrNotPrivate)
	ErrNotRegular = redact.Fail("it is not a regular file", ErrNotPrivate)
	ErrWritable   = redact.Fail(
		"others may write to it: see that it is right, then make it yours alone (chmod 600)", ErrNotPrivate)
)

const (
	private  = 0o600 // the mode of files that are for this user alone
	maxTries = 10    // bounds how often a file is opened anew because it was removed just before it was held
)

// Take opens the file for reading and writing, makes it if need be, readable to this user alone, and holds it until
// [Close] or [Remove]; the system lets go of it when the process ends, however it ends. While another holds it, it is
// [ErrHeld]. Where the system or the file system knows no locks, it is opened all the same.
func Take(name string) (*os.File, error) { return openNamed(name, os.O_CREATE, tryLock) }

// openNamed opens the file that bears the name when it is locked: one that was removed in between locks out nobody.
func openNamed(name string, how int, lock func(*os.File) error) (*os.File, error) {
	for range maxTries {
		file, err := open(name, how)
		if err != nil {
			return nil, err
		}
		if err = lock(file); err == nil {
			if err = isAt(file, name); err == nil {
				return file, nil
			}
		}
		_ = Close(file)
		if how&os.O_EXCL != 0 && errors.Is(err, ErrNoLocks) {
			_ = os.Remove(name) // it was made in vain
		}
		if !errors.Is(err, ErrMoved) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: it comes and goes", ErrHeld)
}

// tryLock is for whom no lock is one too.
func tryLock(file *os.File) error {
	if err := lock(file); !errors.Is(err, ErrNoLocks) {
		return err
	}
	return nil
}

func isAt(file *os.File, name string) error {
	is, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrMoved
	}
	mine, failed := file.Stat()
	if err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if !os.SameFile(mine, is) {
		return ErrMoved
	}
	return nil
}

// CheckPrivate sees to it that an open file can be continued, before the first byte is believed: it is a regular file
// of this user's, nobody else can write to it, and no other name leads to it. A copy that others could only read is
// made private; any other is refused with [ErrNotPrivate] and left as it is. Where a file tells no owner and no mode,
// its folder keeps others away.
func CheckPrivate(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	if err := checkLinks(file); err != nil {
		return err
	}
	return checkOwner(file, info)
}
