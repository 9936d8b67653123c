package disk

import (
	"io"
	"os"
	"runtime"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// private is the mode of files that are for this user alone.
const private = 0o600

// system is the operating system's file system.
type system struct{}

func (system) Open(name string) (File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, private)
	if err != nil {
		return nil, err
	}
	// A file that was copied here may be readable to all.
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm() != private && runtime.GOOS != "windows" {
		_ = file.Chmod(private)
	}
	return file, nil
}

func (system) Create(name string) (File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, private)
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
