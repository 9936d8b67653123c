package disk

import (
	"os"
	"runtime"
)

// system is the operating system's file system.
type system struct{}

func (system) Open(name string, unlocked bool) (File, error) { return openPrivate(name, unlocked, 0) }

func (system) Create(name string, unlocked bool) (File, error) {
	return openPrivate(name, unlocked, os.O_CREATE|os.O_EXCL)
}

func openPrivate(name string, unlocked bool, how int) (File, error) {
	keepOut := lock
	if unlocked {
		keepOut = tryLock
	}
	file, err := openNamed(name, os.O_APPEND|how, keepOut)
	if err != nil {
		return nil, err
	}
	if err := CheckPrivate(file); err != nil {
		_ = Close(file)
		return nil, err
	}
	return held{file}, nil
}

func (system) Take(name string) (Record, error) {
	file, err := Take(name)
	if err != nil {
		return nil, err
	}
	return held{file}, nil
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

// held is an open file that this process holds.
type held struct{ *os.File }

func (h held) Close() error        { return Close(h.File) }
func (h held) Remove() error       { return Remove(h.File) }
func (h held) CheckPrivate() error { return CheckPrivate(h.File) }

func (h held) IsAt(name string) error {
	if err := isAt(h.File, name); err != nil {
		return err
	}
	return checkLinks(h.File)
}
