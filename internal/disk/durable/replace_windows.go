package durable

import (
	"errors"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// Replace has to close both files: no open file can be replaced. If another takes the file in between, it is that
// one's.
func (s system) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	err := errors.Join(made.Close(), old.Close())
	if err == nil {
		err = s.Rename(from, to)
	}
	file, lost := s.Open(to, false)
	if lost != nil {
		return nil, errors.Join(err, lost)
	}
	return file, err
}
