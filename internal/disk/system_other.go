//go:build !unix && !windows

package disk

import (
	"os"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// openOnce cannot hold a file here.
func openOnce(name string, unlocked bool, how int) (File, error) {
	if !unlocked {
		return nil, filelock.ErrNoLocks
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|how, private)
	return held{file}, err
}

type held struct{ *os.File }

func (h held) IsAt(name string) error {
	is, err := os.Lstat(name)
	mine, failed := h.Stat()
	if err != nil || failed != nil || !os.SameFile(mine, is) {
		return ErrMoved
	}
	return nil
}

func (system) Replace(made File, from string, old File, to string) (File, error) {
	if err := os.Rename(from, to); err != nil {
		_ = made.Close()
		return old, err
	}
	_ = old.Close()
	return made, nil
}
