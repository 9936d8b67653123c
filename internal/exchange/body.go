package exchange

import (
	"bytes"
	"io"
)

// Body is what a request carries.
type Body interface {
	ContentType() string
	Size() int64 // -1: not known
	// Open gives the body from its start: all but its last bytes, and those. Nobody can act on a body that lacks them, and
	// somebody may once they have begun to leave.
	Open() (head io.Reader, tail []byte)
	Replayable() bool // Open can give all of it once more
	Streamed() bool   // reading it may take long, or block
}

// JSON is an encoded document, small enough to be held.
type JSON []byte

// ContentType is that of JSON.
func (b JSON) ContentType() string { return "application/json" }

// Size is known.
func (b JSON) Size() int64 { return int64(len(b)) }

// Replayable is true.
func (b JSON) Replayable() bool { return true }

// Streamed is false.
func (b JSON) Streamed() bool { return false }

// Reader is of a type that net/http knows: what it gives leaves together with the headers.
func (b JSON) Reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// Open holds back the last byte, without which no document is whole.
func (b JSON) Open() (head io.Reader, tail []byte) {
	split := max(len(b)-1, 0)
	return bytes.NewReader(b[:split]), b[split:]
}
