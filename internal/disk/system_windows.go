package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const sharingViolation = syscall.Errno(32)

// open lets others read the file, and nothing else: they can neither write nor move nor remove it, until it is closed.
func open(name string, how int) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	disposition := uint32(syscall.OPEN_EXISTING)
	switch {
	case how&os.O_EXCL != 0:
		disposition = syscall.CREATE_NEW
	case how&os.O_CREATE != 0:
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

// lock has nothing to do: open has held the file.
func lock(*os.File) error { return nil }

// Close lets go of the file and closes it.
func Close(file *os.File) error { return file.Close() }

// Remove lets go of the file and removes it. Another holder may come in between; then the file stays with that one.
func Remove(file *os.File) error {
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Remove(file.Name()); !errors.Is(err, sharingViolation) {
		return err
	}
	return nil
}

func (h held) Write(p []byte) (int, error) {
	if _, err := h.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	return h.File.Write(p)
}

func checkLinks(file *os.File) error {
	var handle syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(file.Fd()), &handle); err != nil {
		return err
	}
	if handle.NumberOfLinks > 1 {
		return ErrLinked
	}
	return nil
}

// checkOwner knows nothing: modes and owners are not in a file's information here.
func checkOwner(*os.File, fs.FileInfo) error { return nil }
