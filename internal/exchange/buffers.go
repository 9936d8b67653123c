package exchange

import (
	"bytes"
	"sync"
)

// keptBuffers keeps a few for good. The collector does not empty it, which in a busy program comes between any two calls: a page's
// buffer would be grown anew for each.
var keptBuffers = make(chan *bytes.Buffer, 4)

// spareBuffers keeps those of many calls at once, until the collector finds that they are not used any more.
var spareBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKeptBuffer is the size of the largest buffer that is kept.
const maxKeptBuffer = 2 << 20

// getBuffer returns an empty buffer.
func getBuffer() *bytes.Buffer {
	select {
	case b := <-keptBuffers:
		return b
	default:
		b, _ := spareBuffers.Get().(*bytes.Buffer)
		return b
	}
}

// putBuffer keeps the buffer, to which nothing may refer any more, for the next caller.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() > maxKeptBuffer {
		return
	}
	b.Reset()
	select {
	case keptBuffers <- b:
	default:
		spareBuffers.Put(b)
	}
}
