package filelock

import (
	"os"
	"syscall"
)

// CheckPrivate sees to it that an open file can be continued: it is a regular file, and no other name leads to it. Modes and
// owners are not in a file's information here; the folder's rights keep others away.
func CheckPrivate(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	var handle syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(file.Fd()), &handle); err != nil {
		return err
	}
	if handle.NumberOfLinks > 1 {
		return ErrLinked
	}
	return nil
}
