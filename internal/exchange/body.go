package exchange

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
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

// Payload is a body of bytes, or of a reader, which is sent once, in chunks.
type Payload struct {
	Type   string // empty: JSON
	Bytes  []byte
	Stream io.Reader // instead of the bytes; nil: none

	begun atomic.Bool // to read the stream
}

// ContentType implements [Body].
func (p *Payload) ContentType() string { return cmp.Or(p.Type, "application/json") }

// Replayable implements [Body].
func (p *Payload) Replayable() bool { return !p.begun.Load() }

// Streamed implements [Body].
func (p *Payload) Streamed() bool { return p.Stream != nil }

// Size implements [Body].
func (p *Payload) Size() int64 {
	if p.Stream != nil {
		return -1
	}
	return int64(len(p.Bytes))
}

// Open holds back the last byte, without which no document is whole. A stream needs none: only its end makes it whole.
func (p *Payload) Open() (head io.Reader, tail []byte) {
	if p.Stream != nil {
		return &OnceReader{From: p.Stream, Begun: &p.begun, Otherwise: errBegun}, nil
	}
	split := max(len(p.Bytes)-1, 0)
	return bytes.NewReader(p.Bytes[:split]), p.Bytes[split:]
}

// reader is of a type that net/http knows: what it gives leaves together with the headers.
func (p *Payload) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(p.Bytes)) }

const errBegun = redact.Text("it is a reader that was read from already")

// OnceReader gives a stream to the first attempt that reads from it: what is left of it then is not the whole.
type OnceReader struct {
	From      io.Reader
	Begun     *atomic.Bool
	Otherwise error
	mine      bool
}

func (r *OnceReader) Read(p []byte) (int, error) {
	if r.mine = r.mine || r.Begun.CompareAndSwap(false, true); !r.mine {
		return 0, r.Otherwise
	}
	return r.From.Read(p)
}

// Sizes at which a body is sent in another way.
const (
	SmallSize  = 64 << 10 // bodies up to it are not followed if they may be sent twice: a connection takes them at once
	ExpectSize = 1 << 20  // bodies above it are announced, so that a refusal comes before they are sent
)

// Attach gives the request its body, announced by Expect: 100-continue where that pays and may be. Only a body that may be
// sent twice gets a GetBody, with which net/http repeats requests by itself.
func (s *SendState) Attach(out *http.Request, body Body, mayAnnounce bool) {
	if body == nil {
		return
	}
	size := body.Size()
	out.ContentLength = size
	if held, ok := body.(*Payload); ok && held.Stream == nil && !s.Once && size <= SmallSize {
		s.unfollowed = size
		out.Body = held.reader()
		out.GetBody = func() (io.ReadCloser, error) { return held.reader(), nil }
		return
	}
	announced := s.Once && (size < 0 || size > ExpectSize) && mayAnnounce
	if announced {
		out.Header["Expect"] = []string{"100-continue"}
	}
	out.Body = s.Follow(body, announced)
	if !s.Once {
		out.GetBody = func() (io.ReadCloser, error) { return s.Follow(body, false), nil }
	}
}

// Follow opens the body for net/http to read. An earlier one of the same attempt is read no more.
func (s *SendState) Follow(body Body, announced bool) io.ReadCloser {
	b := &followedBody{state: s, announced: announced, streamed: body.Streamed(), reading: make(chan struct{}, 1), quit: make(chan struct{})}
	if s.upload == nil {
		s.upload = new(UploadState)
	}
	if s.upload.commits == nil && b.streamed {
		s.upload.progress, s.upload.commits = make(chan struct{}, 1), make(chan chan error)
	}
	b.head, b.tail = body.Open()
	if earlier := s.body.Swap(b); earlier != nil {
		earlier.stop()
	}
	return b
}

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

// buffers are what responses are read into: a page's would take long to grow for each. A huge one is not kept.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxKeptBuffer = 2 << 20

// Release gives back the memory of the response's body, which must not be used any more.
func (r *Result) Release() {
	if r.buffer != nil && r.buffer.Cap() <= maxKeptBuffer {
		buffers.Put(r.buffer)
	}
	r.buffer = nil
	if r.Last != nil {
		r.Last.Body = nil
	}
}

// read keeps a response's body, up to a limit. A refusal that breaks off or is too long is a refusal all the same.
func (r *Result) read(resp *http.Response, watch Watch, limit int64) (int64, error) {
	succeeded := success(resp.StatusCode)
	if !succeeded {
		limit = min(limit, maxErrorBody)
	}
	if r.buffer == nil {
		r.buffer, _ = buffers.Get().(*bytes.Buffer)
	}
	r.buffer.Reset()
	watch.Bound(maxReadTime)
	// One byte more than allowed tells a response that is too long; max keeps the sum from wrapping.
	r.reader = WatchedReader{Reader: resp.Body, Watch: watch, Left: max(limit, limit+1)}
	read, err := r.buffer.ReadFrom(&r.reader)
	n := min(read, limit)
	r.buffer.Truncate(int(n))
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
