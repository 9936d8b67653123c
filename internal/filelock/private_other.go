//go:build !unix && !windows

package filelock

import "os"

// CheckPrivate sees to it that an open file can be continued: that it is a regular file. Modes and owners are not in a file's
// information here; the folder's rights keep others away.
func CheckPrivate(file *os.File) error {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return ErrNotRegular
	}
	return err
}
