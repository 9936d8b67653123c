package disk

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

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
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return "", err
	}
	exists := func(name string) bool { _, err := os.Lstat(name); return err == nil }
	list := func(folder string) []string {
		entries, _ := os.ReadDir(folder)
		names := make([]string, len(entries))
		for n, entry := range entries {
			names[n] = entry.Name()
		}
		return names
	}
	return spelled(name, exists, list), nil
}

// spelled is a path as its folders write it. Where names have no case, a file system in user space may take each spelling for a
// file of its own, with a lock of its own.
func spelled(path string, exists func(string) bool, list func(folder string) []string) string {
	folder, base := filepath.Dir(path), filepath.Base(path)
	if folder == path {
		return path
	}
	folder = spelled(folder, exists, list)
	other := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, base)
	if other != base && exists(filepath.Join(folder, other)) {
		names := list(folder)
		like := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, base) })
		if like >= 0 && !slices.Contains(names, base) {
			base = names[like]
		}
	}
	return filepath.Join(folder, base)
}

func (system) Open(name string, unlocked bool) (File, error) {
	return openOnce(name, unlocked, 0)
}

func (system) Create(name string, unlocked bool) (File, error) {
	return openOnce(name, unlocked, os.O_CREATE|os.O_EXCL)
}

func (system) Take(name string) (Record, error) {
	file, err := filelock.Open(name)
	if err != nil {
		return nil, err
	}
	return record{file}, nil
}

type record struct{ *os.File }

func (r record) Close() error        { return filelock.Close(r.File) }
func (r record) CheckPrivate() error { return filelock.CheckPrivate(r.File) }
func (r record) Remove() error       { return filelock.Remove(r.File) }

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
