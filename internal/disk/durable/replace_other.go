//go:build !windows

package durable

import "github.com/clinicaldoc/clinicaldoc-go/internal/disk"

// Replace implements [FS]. It renames the new file while both are locked. Another process that has opened the old one
// finds that the name no longer leads to it.
func (s system) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	if err := s.Rename(from, to); err != nil {
		_ = made.Close()
		return old, err
	}
	_ = old.Close()
	return made, nil
}
