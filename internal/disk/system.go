package disk

import (
	"os"
	"runtime"
)

// system is the operating system's file system.
type system struct{}

func (system) Open(name string, mayLackLocks bool) (File, error) {
	const existing = 0
	return openPrivate(name, mayLackLocks, existing)
}

func (system) Create(name string, mayLackLocks bool) (File, error) {
	return openPrivate(name, mayLackLocks, os.O_CREATE|os.O_EXCL)
}

// openPrivate opens a file and locks it. The flags say whether it creates the file. It returns an error that matches
// ErrNotPrivate if the file is not private to this user, and ErrHeld if another process has locked it. If the file
// system does not support locks, it returns ErrNoLocks, or the file without a lock if mayLackLocks is set.
func openPrivate(name string, mayLackLocks bool, flags int) (File, error) {
	lockFile := lock
	if mayLackLocks {
		lockFile = tryLock
	}
	file, err := openNamed(name, os.O_APPEND|flags, lockFile)
	if err != nil {
		return nil, err
	}
	if err := CheckPrivate(file); err != nil {
		_ = Close(file)
		return nil, err
	}
	return locked{file}, nil
}

func (system) Take(name string) (Record, error) {
	file, err := Take(name)
	if err != nil {
		return nil, err
	}
	return locked{file}, nil
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }

func (system) Remove(name string) error { return os.Remove(name) }

// SyncDir does nothing on Windows, where folders cannot be synced.
func (system) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}

// locked is an open file that this process has locked, unless the file system lacks locks.
type locked struct{ *os.File }

func (f locked) Close() error        { return Close(f.File) }
func (f locked) Remove() error       { return Remove(f.File) }
func (f locked) CheckPrivate() error { return CheckPrivate(f.File) }

// IsAt implements [File].
func (f locked) IsAt(name string) error {
	if err := checkAt(f.File, name); err != nil {
		return err
	}
	return checkLinks(f.File)
}
