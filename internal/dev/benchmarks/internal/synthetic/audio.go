package synthetic

import (
	"hash/crc32"
	"io"
)

// Audio that is uploaded comes from a pattern, so that neither a disk nor a large buffer is part of the measurement.

// pattern is what the recording repeats; its length is no power of two, so that a shifted copy is noticed.
var pattern = func() []byte {
	p := make([]byte, 64<<10-1)
	for i := range p {
		p[i] = byte(i * 7 >> 3)
	}
	return p
}()

// Recording is a recording of any size.
type Recording struct{ Size int64 }

// ReadAt implements io.ReaderAt.
func (r Recording) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > r.Size-off
	if short {
		p = p[:r.Size-off]
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], pattern[(off+int64(n))%int64(len(pattern)):])
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// Reader returns a reader of the whole recording.
func (r Recording) Reader() io.Reader { return io.NewSectionReader(r, 0, r.Size) }

// Checksum is what tells that a recording arrived unchanged.
func Checksum(r io.Reader) (sum uint32, size int64, err error) {
	hash := crc32.NewIEEE()
	size, err = io.Copy(hash, r)
	return hash.Sum32(), size, err
}
