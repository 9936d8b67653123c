// Package buffers keeps the memory that responses are read into for the next ones.
package buffers

import "bytes"

// list is bounded, so that many calls at once do not hold their memory for ever. Unlike a sync.Pool it is not emptied by the
// collector, which in a busy program comes between any two calls: a page's buffer would be grown anew for each.
var list = make(chan *bytes.Buffer, 4)

// maxKept is the size of the largest buffer that is kept.
const maxKept = 2 << 20

// Take returns an empty buffer.
func Take() *bytes.Buffer {
	select {
	case b := <-list:
		return b
	default:
		return new(bytes.Buffer)
	}
}

// GiveBack keeps the buffer, to which nothing may refer any more, for the next caller.
func GiveBack(b *bytes.Buffer) {
	if b.Cap() > maxKept {
		return
	}
	b.Reset()
	select {
	case list <- b:
	default:
	}
}
