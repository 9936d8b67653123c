package clinicaldoc

import "bytes"

// bufferList keeps the memory that answers are read into for the next ones. Unlike a sync.Pool it is not emptied by the
// collector, which in a busy program comes between any two calls: a page's buffer would be grown anew for each.
type bufferList chan *bytes.Buffer

// buffers is bounded twice, so that neither many calls at once nor a huge answer hold their memory for ever. Nothing that
// is handed to the caller refers to it.
var buffers = make(bufferList, 4)

const maxKeptBuffer = 2 << 20

func (l bufferList) take() *bytes.Buffer {
	select {
	case b := <-l:
		return b
	default:
		return new(bytes.Buffer)
	}
}

func (l bufferList) giveBack(b *bytes.Buffer) {
	if b.Cap() > maxKeptBuffer {
		return
	}
	b.Reset()
	select {
	case l <- b:
	default:
	}
}
