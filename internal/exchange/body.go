package exchange

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Body is the body of a request: bytes, or what Open returns.
type Body struct {
	ContentType string // empty: JSON
	Bytes       []byte
	// Open, if not nil, returns the body from its start, in two parts: all but its last bytes, and its last bytes. A
	// server cannot act on a body without the last bytes, and may act as soon as it has one of them. Reading the head
	// may take long, or block.
	Open  func() (head io.Reader, tail []byte)
	Size  int64        // of what Open returns; -1: not known
	Begun *atomic.Bool // a body that can be read only once was read from; nil: Open can return it again
}

// Stream returns a body that is sent once, in chunks. A server cannot act before its end, so it has no tail.
func Stream(contentType string, r io.Reader) *Body {
	b := &Body{ContentType: contentType, Size: -1, Begun: new(atomic.Bool)}
	b.Open = func() (io.Reader, []byte) { return &OnceReader{From: r, Begun: b.Begun, Otherwise: errBegun}, nil }
	return b
}

// replayable reports whether the body, if any, can be sent again.
func (b *Body) replayable() bool {
	if b == nil || b.Begun == nil { // there is none, or Open can return it again
		return true
	}
	return !b.Begun.Load()
}

// open returns the body in two parts. The tail of Bytes is its last byte, without which no document is complete.
func (b *Body) open() (head io.Reader, tail []byte) {
	if b.Open != nil {
		return b.Open()
	}
	split := max(len(b.Bytes)-1, 0)
	return bytes.NewReader(b.Bytes[:split]), b.Bytes[split:]
}

// reader returns a reader of a type that net/http knows, so the body is sent together with the headers.
func (b *Body) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(b.Bytes)) }

const errBegun = redact.Text("it is a reader that was already read")

// OnceReader reads a stream for the first attempt that reads from it. The OnceReaders of later attempts return
// Otherwise, because the rest of the stream is not complete.
type OnceReader struct {
	From      io.Reader
	Begun     *atomic.Bool // shared by all OnceReaders of the stream; set by the first one that reads
	Otherwise error
	isFirst   bool // this is the first one
}

// Read implements [io.Reader].
func (r *OnceReader) Read(p []byte) (int, error) {
	if !r.isFirst {
		r.isFirst = r.Begun.CompareAndSwap(false, true)
	}
	if !r.isFirst {
		return 0, r.Otherwise
	}
	return r.From.Read(p)
}

// Sizes at which a body is sent in another way.
const (
	SmallSize  = 64 << 10 // up to it, bodies that may be sent twice are not followed: one write sends them
	ExpectSize = 1 << 20  // above it, bodies are announced, so a refusal can arrive before they are sent
)

// Attach sets the body of the request. If mayAnnounce is set, a large body is announced by Expect: 100-continue, but
// only in a request that must not be sent twice. Only a body that may be sent twice gets a GetBody, with which net/http
// repeats requests itself.
func (s *SendState) Attach(out *http.Request, body *Body, mayAnnounce bool) {
	if body == nil {
		return
	}
	size := int64(len(body.Bytes))
	if body.Open != nil {
		size = body.Size
	}
	out.ContentLength = size
	isOneWrite := body.Open == nil && !s.SendOnce && size <= SmallSize
	if isOneWrite {
		s.unfollowedSize = size
		out.Body = body.reader()
		out.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
		return
	}
	isLarge := size < 0 || size > ExpectSize
	announced := isLarge && s.SendOnce && mayAnnounce
	if announced {
		out.Header["Expect"] = []string{"100-continue"}
	}
	out.Body = s.Follow(body, announced)
	if !s.SendOnce {
		out.GetBody = func() (io.ReadCloser, error) { return s.followAgain(body), nil }
	}
}

// followAgain returns another copy of a body that may be sent twice. A copy of Bytes is not followed.
func (s *SendState) followAgain(body *Body) io.ReadCloser {
	if body.Open != nil {
		const announced = false
		return s.Follow(body, announced)
	}
	s.body.Load().mayBeComplete.Store(true) // the copy may be sent, though a transport may only want to inspect it
	return body.reader()
}

// Follow opens the body for net/http to read, and follows how much of it is read. It stops the body that it opened
// before in the same attempt. An announced body was announced by Expect: 100-continue.
func (s *SendState) Follow(body *Body, announced bool) io.ReadCloser {
	b := &followedBody{state: s, announced: announced, readLock: make(chan struct{}, 1), quit: make(chan struct{})}
	isFirstStream := body.Open != nil && s.commitRequests == nil
	if isFirstStream { // SendStreamed listens on these channels, also for a later body
		s.progress = make(chan struct{}, 1)
		s.commitRequests = make(chan chan error)
	}
	b.head, b.tail = body.open()
	if earlier := s.body.Swap(b); earlier != nil {
		earlier.stop()
	}
	// Reads fail as long as the latest connection is a skipped one. A transport that dumps the request reads the new
	// body before it asks for the next connection, and these reads must succeed.
	s.connKind.CompareAndSwap(skipped, pretended)
	return b
}

// ErrUnusable is matched by the errors with which a [Policy] rejects a response.
var ErrUnusable = redact.New("the response is not what was requested")

// ErrUnexpected is the error for a response that the descriptions of service and storage do not allow.
var ErrUnexpected = redact.New("unexpected response")

// The errors of a call that has no policy of its own. All match [ErrUnusable].
var (
	ErrStatus     = redact.Fail("the status does not report success", ErrUnusable)
	ErrTooLong    = redact.Fail("it is longer than the limit of WithMaxResponseSize", ErrUnusable)
	ErrCompressed = redact.Fail(
		"it is compressed although that was not requested; check proxies", ErrUnusable)
)

const (
	maxErrorBody    = 64 << 10 // of a response that is not a success; the rest is cut off
	maxReadTimeouts = 10       // stall timeouts that reading a response may take
)

// buffers are reused for reading responses, because the buffer of a page would have to grow each time. It is not a
// sync.Pool, which the collector would empty between two pages of a busy program. Huge buffers are not kept.
var buffers = make(chan *bytes.Buffer, 8)

const maxKeptBuffer = 2 << 20

// Release releases the memory of the response's body, which must not be used afterwards.
func (r *Result) Release() {
	if r.buffer == nil {
		return
	}
	if r.buffer.Cap() <= maxKeptBuffer {
		select {
		case buffers <- r.buffer:
		default:
		}
	}
	r.buffer = nil
	if r.Last != &noAttempt { // which all calls share
		r.Last.Body = nil
	}
}

// read reads a response's body into memory and returns its length. A body that is longer than the limit is an error.
// For a response that does not report success, ErrStatus comes first, even if its body is cut short or too long.
func (r *Result) read(resp *http.Response, watch Watch, limit int64) (int64, error) {
	succeeded := resp.StatusCode/100 == 2
	if !succeeded {
		limit = min(limit, maxErrorBody)
	}
	if r.buffer == nil {
		select {
		case r.buffer = <-buffers:
		default:
			r.buffer = new(bytes.Buffer)
		}
	}
	r.buffer.Reset()
	watch.Bound(maxReadTimeouts)
	// One byte more than allowed shows that a response is too long; max prevents an overflow.
	r.reader = WatchedReader{Reader: resp.Body, Watch: watch, Left: max(limit, limit+1)}
	read, err := r.buffer.ReadFrom(&r.reader)
	n := min(read, limit)
	r.buffer.Truncate(int(n))
	coding := strings.ToLower(resp.Header.Get("Content-Encoding")) // net/http removes the header if it decompresses
	isCompressed := !slices.Contains([]string{"", "identity"}, coding)
	switch {
	case !succeeded:
		return n, ErrStatus
	case err != nil:
		return n, err
	case read > limit:
		return n, ErrTooLong
	case isCompressed && n > 0:
		return n, ErrCompressed
	}
	return n, nil
}
