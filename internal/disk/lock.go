package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Reasons why a file cannot be locked.
var (
	ErrHeld       = errors.New("another process has locked the file")
	ErrNoLocks    = redact.New("the file system does not support locks")
	ErrMoved      = redact.New("the file was moved or removed, or replaced by another")
	ErrNotPrivate = redact.New("the file is not a private one of this user")
)

// Why a file is not private. An error with which [CheckPrivate] rejects a file matches one of these, and
// [ErrNotPrivate].
var (
	ErrOthers     = redact.Fail("it belongs to another user of this machine", ErrNotPrivate)
	ErrLinked     = redact.Fail("it has another name as well (a hard link)", ErrNotPrivate)
	ErrNotRegular = redact.Fail("it is not a regular file", ErrNotPrivate)
	ErrWritable   = redact.Fail(
		"other users may write to it: check its content, then make it private (chmod 600)", ErrNotPrivate)
)

const (
	private  = 0o600 // the mode of files that are for this user alone
	maxTries = 10    // how often a file is opened again because it was removed just before it was locked
)

// Take opens the file for reading and writing, and locks it until [Close] or [Remove]. It creates a missing file,
// private to this user. The system releases the lock when the process ends, in whatever way. It returns [ErrHeld]
// if another has locked the file. If the system or the file system does not support locks, the file is opened
// anyway.
func Take(name string) (*os.File, error) { return openNamed(name, os.O_CREATE, tryLock) }

// openNamed opens and locks the file with that name. If the file was removed or replaced before it was locked, it tries
// again, because the lock of such a file keeps nobody out.
func openNamed(name string, flags int, lock func(*os.File) error) (*os.File, error) {
	for range maxTries {
		file, err := open(name, flags)
		if err != nil {
			return nil, err
		}
		err = lock(file)
		if err == nil {
			err = checkAt(file, name)
		}
		if err == nil {
			return file, nil
		}
		_ = Close(file)
		wasCreated := flags&os.O_EXCL != 0
		if wasCreated && errors.Is(err, ErrNoLocks) { // nobody can have locked it; after other errors somebody may
			_ = os.Remove(name)
		}
		if !errors.Is(err, ErrMoved) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: the file was replaced repeatedly", ErrHeld)
}

// tryLock locks the file if the file system supports locks.
func tryLock(file *os.File) error {
	err := lock(file)
	if errors.Is(err, ErrNoLocks) {
		return nil
	}
	return err
}

// checkAt returns nil if the name is that of the open file. It returns ErrMoved if there is no such name, or if it is
// another file's or a symbolic link's.
func checkAt(file *os.File, name string) error {
	named, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrMoved
	case err != nil:
		return err
	}
	opened, err := file.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(opened, named) {
		return ErrMoved
	}
	return nil
}

// CheckPrivate checks an open file before its content is trusted. It must be a regular file that belongs to this user,
// that no other user can write to, and that has no second name (a hard link). If other users can read it, CheckPrivate
// makes it private. A file that is not like this is rejected with [ErrNotPrivate] and not changed. On a system where
// files have no owner and mode, these are not checked: the folder must keep other users away.
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
