//go:build unix

package filelock

import (
	"io/fs"
	"os"
	"syscall"
)

// CheckPrivate sees to it that an open file can be continued, before the first byte is believed: it is a regular file of this
// user's, nobody else can write to it, and no other name leads to it. A copy that others could only read is made private; any
// other is refused with [ErrNotPrivate] and left as it is.
func CheckPrivate(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return ErrNotRegular
	case ok && int64(stat.Uid) != int64(os.Geteuid()):
		return ErrOthers
	case ok && stat.Nlink > 1:
		return ErrLinked
	case info.Mode().Perm() == private:
		return nil
	}
	return makePrivate(file, info.Mode().Perm())
}

// makePrivate does not trust what others could write to, unless the file system knows no modes: then its folder has to
// keep them out.
func makePrivate(file *os.File, was fs.FileMode) error {
	_ = file.Chmod(private)
	const othersWrite = 0o022
	if is, err := file.Stat(); was&othersWrite != 0 && (err != nil || is.Mode().Perm() != was) {
		_ = file.Chmod(was)
		return ErrWritable
	}
	return nil
}
