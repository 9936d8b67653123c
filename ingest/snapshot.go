package ingest

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// snapshot is a small file's content, read once for its key and its first upload. The file stays open, so that a change is
// noticed as long as its end has not been sent.
type snapshot struct {
	file *os.File
	was  os.FileInfo

	mu     sync.RWMutex // a transport may read on when the upload has ended
	buffer *[]byte      // nil: it was released
}

// maxSnapshot bounds what a worker keeps in memory.
const maxSnapshot = 256 << 10

// snapshots are buffers for one file each.
var snapshots = sync.Pool{New: func() any { return new([]byte) }}

// newSnapshot reads a file of this size. Release it after use.
func newSnapshot(path string, size int64) (*snapshot, error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s := &snapshot{file: file, buffer: snapshots.Get().(*[]byte)} //nolint:errcheck,forcetypeassert // nothing else is put there
	if err := s.read(size); err != nil {
		s.release()
		return nil, fail("the file cannot be read: "+redact.Cause(err), clinicaldoc.ErrInvalidArgument, err)
	}
	return s, nil
}

func (s *snapshot) read(size int64) (err error) {
	if s.was, err = s.file.Stat(); err != nil {
		return err
	}
	if s.was.Size() != size {
		return errChanged
	}
	*s.buffer = slices.Grow((*s.buffer)[:0], int(size))[:size]
	_, err = io.ReadFull(s.file, *s.buffer)
	return err
}

var errChanged = redact.New("the file changed while it was read; try again when it is complete")

func (s *snapshot) sum() []byte {
	sum := sha256.Sum256(*s.buffer)
	return sum[:]
}

// audio is the content as a recording that is otherwise like the file.
func (s *snapshot) audio(file *clinicaldoc.AudioSource) *clinicaldoc.AudioSource {
	a := clinicaldoc.AudioReaderAt(filepath.Base(s.file.Name()), s, file.Size())
	a.ContentType = file.ContentType
	return a
}

// ReadAt implements [io.ReaderAt]. Its end is read only of a file that is as it was.
func (s *snapshot) ReadAt(p []byte, at int64) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.buffer == nil {
		return 0, os.ErrClosed
	}
	content := *s.buffer
	if at < 0 || at >= int64(len(content)) {
		return 0, io.EOF
	}
	n := copy(p, content[at:])
	if at+int64(n) < int64(len(content)) {
		return n, nil
	}
	is, err := s.file.Stat()
	if err != nil || is.Size() != s.was.Size() || !is.ModTime().Equal(s.was.ModTime()) {
		return 0, errChanged
	}
	return n, nil
}

// release gives the buffer to the next file. It may be called more than once, and of nil.
func (s *snapshot) release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buffer != nil {
		snapshots.Put(s.buffer)
		s.buffer = nil
		_ = s.file.Close()
	}
}
