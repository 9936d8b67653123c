//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// open follows no link, and does not wait for a pipe's other end.
func open(name string, how int) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|how, private)
}

// Remove removes the file and lets go of it.
func Remove(file *os.File) error { return errors.Join(os.Remove(file.Name()), file.Close()) }

func checkLinks(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return ErrLinked
	}
	return nil
}

// checkOwner does not trust what others could write to, unless the file system knows no modes: then its folder has to
// keep them out.
func checkOwner(file *os.File, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int64(stat.Uid) != int64(os.Geteuid()) {
		return ErrOthers
	}
	was := info.Mode().Perm()
	if was == private {
		return nil
	}
	_ = file.Chmod(private)
	const othersWrite = 0o022
	if was&othersWrite == 0 {
		return nil
	}
	if is, err := file.Stat(); err != nil || is.Mode().Perm() != was {
		_ = file.Chmod(was)
		return ErrWritable
	}
	return nil
}
