package main

import (
	"hash/crc32"
	"io"
)

// pattern is what a recording repeats. Its length is not a power of two, so a shifted copy is noticed.
var pattern = func() []byte {
	p := make([]byte, 64<<10-1)
	for i := range p {
		p[i] = byte(i * 7 >> 3)
	}
	return p
}()

// recording is a recording of any size. It comes from a pattern, so neither a disk nor a large buffer is measured.
type recording struct{ size int64 }

// ReadAt implements io.ReaderAt.
func (r recording) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > r.size-off
	if short {
		p = p[:r.size-off]
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

func (r recording) reader() io.Reader { return io.NewSectionReader(r, 0, r.size) }

// checksum tells whether a recording arrived unchanged.
func checksum(r io.Reader) (sum uint32, size int64, err error) {
	hash := crc32.NewIEEE()
	size, err = io.Copy(hash, r)
	return hash.Sum32(), size, err
}
