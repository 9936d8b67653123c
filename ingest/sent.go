package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// sentFile is a file that is being uploaded. What is sent is hashed, so that the journal knows what the note was made of, and
// a file that changes between its key and its upload is noticed whatever its size and times say.
type sentFile struct {
	*os.File
	size int64
	was  os.FileInfo

	mu     sync.Mutex // a transport may read on when an attempt has ended
	hashed hash.Hash
	next   int64 // what the hash goes on from; -1: it was not read in order
}

// openSent opens a file of this size.
func openSent(path string, size int64) (*sentFile, error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s := &sentFile{File: file, size: size, hashed: sha256.New()}
	if s.was, err = file.Stat(); err == nil && s.was.Size() != size {
		err = errChanged
	}
	if err != nil {
		_ = file.Close()
		return nil, fail("the file cannot be read: "+redact.Cause(err), clinicaldoc.ErrInvalidArgument, err)
	}
	return s, nil
}

var errChanged = fail("the file changed while it was read; try again when it is complete", clinicaldoc.ErrInvalidArgument)

// audio is the file as a recording.
func (s *sentFile) audio(contentType string) *clinicaldoc.AudioSource {
	a := clinicaldoc.AudioReaderAt(filepath.Base(s.Name()), s, s.size)
	a.ContentType = contentType
	return a
}

// ReadAt implements [io.ReaderAt].
func (s *sentFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.File.ReadAt(p, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == 0 { // an attempt begins
		s.hashed.Reset()
		s.next = 0
	}
	if at != s.next {
		s.next = -1
		return n, err
	}
	_, _ = s.hashed.Write(p[:n])
	s.next += int64(n)
	return n, err
}

// sum is the hash of what was sent, in hexadecimal digits, once all of it was. A file that is another than it was is refused.
func (s *sentFile) sum() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != s.size { // not read in order: as long as the file does not change, it is the same
		s.hashed.Reset()
		if _, err := io.Copy(s.hashed, io.NewSectionReader(s.File, 0, s.size)); err != nil {
			return "", err
		}
	}
	is, err := s.Stat()
	if err != nil || is.Size() != s.was.Size() || !is.ModTime().Equal(s.was.ModTime()) {
		return "", errors.Join(errChanged, err)
	}
	return hex.EncodeToString(s.hashed.Sum(nil)), nil
}
