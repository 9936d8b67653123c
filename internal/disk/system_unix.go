//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// maxTries bounds how often a file is opened anew because another took its place just before it was held.
const maxTries = 10

// openOnce holds the file itself, so that it is held under every name that leads to it.
func openOnce(name string, unlocked bool, how int) (File, error) {
	for range maxTries {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|how, private)
		if err != nil {
			return nil, err
		}
		h := held{file}
		if err = filelock.Hold(file); unlocked && errors.Is(err, filelock.ErrNoLocks) {
			err = nil
		}
		if err == nil {
			err = filelock.CheckPrivate(file)
		}
		if err == nil {
			err = h.IsAt(name)
		}
		if err == nil {
			return h, nil
		}
		_ = h.Close()
		if !errors.Is(err, ErrMoved) {
			return nil, err
		}
	}
	return nil, ErrMoved
}

type held struct{ *os.File }

// Close lets go at once, also while a program that this process has just started still has the file open.
func (h held) Close() error { return filelock.Close(h.File) }

func (h held) IsAt(name string) error {
	is, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrMoved
	}
	mine, failed := h.Stat()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	stat, ok := mine.Sys().(*syscall.Stat_t)
	switch {
	case !os.SameFile(mine, is):
		return ErrMoved
	case ok && stat.Nlink > 1:
		return filelock.ErrLinked
	}
	return nil
}

// Replace renames over the old file while both are held: who opened the old one finds that the name no longer leads to it.
func (system) Replace(made File, from string, old File, to string) (File, error) {
	if err := os.Rename(from, to); err != nil {
		_ = made.Close()
		return old, err
	}
	_ = old.Close()
	return made, nil
}
