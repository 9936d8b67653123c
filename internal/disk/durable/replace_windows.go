package durable

import (
	"errors"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// Replace implements [FS]. It has to close both files, because no open file can be replaced. Another process may lock
// the file in between; then Replace returns nil.
func (s system) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	err := errors.Join(made.Close(), old.Close())
	if err == nil {
		err = s.Rename(from, to)
	}
	file, openErr := s.Open(to, false)
	if openErr != nil {
		return nil, errors.Join(err, openErr)
	}
	return file, err
}
