// Package buffers keeps the memory that responses are read into for the next ones.
package buffers

import (
	"bytes"
	"sync"
)

// list keeps a few for good. The collector does not empty it, which in a busy program comes between any two calls: a page's
// buffer would be grown anew for each.
var list = make(chan *bytes.Buffer, 4)

// spare keeps those of many calls at once, until the collector finds that they are not used any more.
var spare = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKept is the size of the largest buffer that is kept.
const maxKept = 2 << 20

// Take returns an empty buffer.
func Take() *bytes.Buffer {
	select {
	case b := <-list:
		return b
	default:
		b, _ := spare.Get().(*bytes.Buffer)
		return b
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
		spare.Put(b)
	}
}
