package disk

import (
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// private is the mode of files that are for this user alone.
const private = 0o600

// system is the operating system's file system.
type system struct{}

func (system) Resolve(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

func (system) Open(name string, unlocked bool) (File, error) {
	return openOnce(name, unlocked, 0)
}

func (system) Create(name string, unlocked bool) (File, error) {
	return openOnce(name, unlocked, os.O_CREATE|os.O_EXCL)
}

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

func (system) Lock(name string) (io.Closer, error) {
	file, err := filelock.Open(name)
	if err != nil {
		return nil, err
	}
	return lock{file}, nil
}

type lock struct{ file *os.File }

// Close leaves no file behind.
func (l lock) Close() error { return filelock.Remove(l.file) }
