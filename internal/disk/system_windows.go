package disk

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

const sharingViolation = syscall.Errno(32)

// openOnce lets others read the file, and nothing else: they can neither write nor move nor remove it.
func openOnce(name string, _ bool, how int) (File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	disposition := uint32(syscall.OPEN_EXISTING)
	if how&os.O_CREATE != 0 {
		disposition = syscall.CREATE_NEW
	}
	handle, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.FILE_SHARE_READ, nil, disposition, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, sharingViolation):
		return nil, filelock.ErrHeld
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(handle), name)
	if err := filelock.CheckPrivate(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return held{file}, nil
}

type held struct{ *os.File }

func (h held) Write(p []byte) (int, error) {
	if _, err := h.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	return h.File.Write(p)
}

// IsAt looks for a second name alone: nobody can move or remove the file while it is open.
func (h held) IsAt(string) error { return filelock.CheckPrivate(h.File) }

// Replace has to close both files: no open file can be replaced. If another takes the file in between, it is that one's.
func (s system) Replace(made File, from string, old File, to string) (File, error) {
	err := errors.Join(made.Close(), old.Close())
	if err == nil {
		err = os.Rename(from, to)
	}
	file, lost := s.Open(to, false)
	if lost != nil {
		return nil, errors.Join(err, lost)
	}
	return file, err
}
