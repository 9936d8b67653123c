package exchange

import (
	"bytes"
	"net/http"
	"strings"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// ErrUnusable is matched by the errors with which a [Receiver] judges a response that came.
var ErrUnusable = redact.New("the response is not what was asked for")

// The judgements of a call that has no receiver of its own. All match [ErrUnusable].
var (
	ErrStatus     = redact.Fail("the status is no success", ErrUnusable)
	ErrTooLong    = redact.Fail("it is longer than the limit of WithMaxResponseSize", ErrUnusable)
	ErrCompressed = redact.Fail("it is compressed although that was not asked for; does a proxy in between do that?", ErrUnusable)
)

const (
	maxErrorBody = 64 << 10 // of a response that is no success; what is beyond is cut off
	maxReadTime  = 10       // stall timeouts that reading a response may take
)

// A few buffers are kept for good: a pool hides from one processor what another put there, and the collector empties it, so
// that a busy program would grow a page's buffer anew for every second call. The pool is for many calls at once.
var (
	keptBuffers  = make(chan *bytes.Buffer, 4)
	spareBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

const maxKeptBuffer = 2 << 20

func getBuffer() *bytes.Buffer {
	select {
	case b := <-keptBuffers:
		return b
	default:
		b, _ := spareBuffers.Get().(*bytes.Buffer)
		return b
	}
}

// putBuffer keeps the buffer, to which nothing may refer any more, for the next caller, if it is not huge.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() > maxKeptBuffer {
		return
	}
	select {
	case keptBuffers <- b:
	default:
		spareBuffers.Put(b)
	}
}

// memory takes the responses of a call that has no receiver.
type memory struct {
	buffer *bytes.Buffer
	reader WatchedReader
}

// receive keeps the body, up to a limit. A refusal that breaks off or is too long is a refusal all the same.
func (m *memory) receive(resp *http.Response, watch Watch, limit int64) (int64, error) {
	succeeded := success(resp.StatusCode)
	if !succeeded {
		limit = min(limit, maxErrorBody)
	}
	if m.buffer == nil {
		m.buffer = getBuffer()
	}
	m.buffer.Reset()
	watch.Bound(maxReadTime)
	// One byte more than allowed tells a response that is too long; max keeps the sum from wrapping.
	m.reader = WatchedReader{Reader: resp.Body, Watch: watch, Left: max(limit, limit+1)}
	read, err := m.buffer.ReadFrom(&m.reader)
	n := min(read, limit)
	m.buffer.Truncate(int(n))
	switch coding := resp.Header.Get("Content-Encoding"); {
	case !succeeded:
		return n, ErrStatus
	case err != nil:
		return n, err
	case read > limit:
		return n, ErrTooLong
	case coding != "" && !strings.EqualFold(coding, "identity") && n > 0: // net/http undoes what it asks for, and takes the header away
		return n, ErrCompressed
	}
	return n, nil
}

func (m *memory) bytes() []byte {
	if m.buffer == nil {
		return nil
	}
	return m.buffer.Bytes()
}

func (m *memory) release() {
	if m.buffer != nil {
		putBuffer(m.buffer)
	}
	m.buffer = nil
}
