//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// open opens a file for reading and writing. It does not follow a symbolic link, or wait for the other end of a pipe.
func open(name string, flags int) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flags, private)
}

// Remove removes the file, and closes it afterwards, so it stays locked as long as it has its name.
func Remove(file *os.File) error { return errors.Join(os.Remove(file.Name()), file.Close()) }

// checkLinks returns ErrLinked if the file has more than one name.
func checkLinks(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Nlink > 1 {
		return ErrLinked
	}
	return nil
}

// checkOwner returns an error if another user owns the file or can write to it. It makes a file private that others can
// only read. On a file system without modes, where Chmod has no effect, the directory has to keep other users out.
func checkOwner(file *os.File, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && int64(stat.Uid) != int64(os.Geteuid()) {
		return ErrOthers
	}
	before := info.Mode().Perm()
	if before == private {
		return nil
	}
	_ = file.Chmod(private)
	const othersWrite = 0o022
	if before&othersWrite == 0 {
		return nil
	}
	after, err := file.Stat()
	hasNoModes := err == nil && after.Mode().Perm() == before
	if hasNoModes {
		return nil
	}
	_ = file.Chmod(before) // a rejected file is left as it was
	return ErrWritable
}
