package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const sharingViolation = syscall.Errno(32)

// open opens a file for reading and writing. Until it is closed, others can read it, but not write, move or remove it.
func open(name string, flags int) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	disposition := uint32(syscall.OPEN_EXISTING)
	switch {
	case flags&os.O_EXCL != 0:
		disposition = syscall.CREATE_NEW
	case flags&os.O_CREATE != 0:
		disposition = syscall.OPEN_ALWAYS
	}
	const access = syscall.GENERIC_READ | syscall.GENERIC_WRITE
	handle, err := syscall.CreateFile(
		path, access, syscall.FILE_SHARE_READ, nil, disposition, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, sharingViolation):
		return nil, ErrHeld
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(handle), name), nil
}

// lock does nothing: open has locked the file.
func lock(*os.File) error { return nil }

// Close closes the file, which unlocks it.
func Close(file *os.File) error { return file.Close() }

// Remove closes the file and removes it. If another process locks it in between, it is not removed.
func Remove(file *os.File) error {
	if err := file.Close(); err != nil {
		return err
	}
	err := os.Remove(file.Name())
	if errors.Is(err, sharingViolation) {
		return nil
	}
	return err
}

// Write writes at the end of the file, as O_APPEND does on other systems.
func (f locked) Write(p []byte) (int, error) {
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// checkLinks returns ErrLinked if the file has more than one name.
func checkLinks(file *os.File) error {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(file.Fd()), &info); err != nil {
		return err
	}
	if info.NumberOfLinks > 1 {
		return ErrLinked
	}
	return nil
}

// checkOwner does nothing: a file's information has no mode and owner here.
func checkOwner(*os.File, fs.FileInfo) error { return nil }
