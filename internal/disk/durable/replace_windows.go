package durable

import (
	"errors"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// Replace implements [FS]. It has to close both files, because Windows does not rename or replace an open file. If the
// renaming fails, the file that it opens again is the old one. In between another process may lock or move the file.
// Replace then returns no file, and an error.
func (s system) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	err := errors.Join(made.Close(), old.Close())
	if err == nil {
		err = s.Rename(from, to)
	}
	const mayLackLocks = false // Windows has locks
	file, openErr := s.Open(to, mayLackLocks)
	if openErr != nil {
		return nil, errors.Join(err, openErr)
	}
	return file, err
}
