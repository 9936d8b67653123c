package exchange

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Body is what a request carries: bytes, or what Open gives.
type Body struct {
	ContentType string // empty: JSON
	Bytes       []byte
	// Open, when not nil, gives the body from its start: all but its last bytes, and those. Nobody can act on a body that lacks
	// them, and somebody may once they have begun to leave. Reading it may take long, or block.
	Open  func() (head io.Reader, tail []byte)
	Size  int64        // of what Open gives; -1: not known
	Begun *atomic.Bool // what can be read only once was read from; nil: Open can give all of it again
}

// Stream is a body that is sent once, in chunks: only its end makes it whole, so that it needs no last bytes.
func Stream(contentType string, r io.Reader) *Body {
	b := &Body{ContentType: contentType, Size: -1, Begun: new(atomic.Bool)}
	b.Open = func() (io.Reader, []byte) { return &OnceReader{From: r, Begun: b.Begun, Otherwise: errBegun}, nil }
	return b
}

func (b *Body) replayable() bool { return b == nil || b.Begun == nil || !b.Begun.Load() }

// open holds back the last of the bytes, without which no document is whole.
func (b *Body) open() (head io.Reader, tail []byte) {
	if b.Open != nil {
		return b.Open()
	}
	split := max(len(b.Bytes)-1, 0)
	return bytes.NewReader(b.Bytes[:split]), b.Bytes[split:]
}

// reader is of a type that net/http knows: what it gives leaves together with the headers.
func (b *Body) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(b.Bytes)) }

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
func (s *SendState) Attach(out *http.Request, body *Body, mayAnnounce bool) {
	if body == nil {
		return
	}
	size := int64(len(body.Bytes))
	if body.Open != nil {
		size = body.Size
	}
	out.ContentLength = size
	if body.Open == nil && !s.Once && size <= SmallSize {
		s.unfollowed = size
		out.Body = body.reader()
		out.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
		return
	}
	announced := s.Once && (size < 0 || size > ExpectSize) && mayAnnounce
	if announced {
		out.Header["Expect"] = []string{"100-continue"}
	}
	out.Body = s.Follow(body, announced)
	if !s.Once {
		out.GetBody = func() (io.ReadCloser, error) {
			if body.Open != nil {
				return s.Follow(body, false), nil
			}
			s.body.Load().whole.Store(true) // perhaps by the copy, which a transport may also want to look at only
			return body.reader(), nil
		}
	}
}

// Follow opens the body for net/http to read. An earlier one of the same attempt is read no more.
func (s *SendState) Follow(body *Body, announced bool) io.ReadCloser {
	b := &followedBody{state: s, announced: announced, reading: make(chan struct{}, 1), quit: make(chan struct{})}
	if s.commits == nil && body.Open != nil {
		s.progress, s.commits = make(chan struct{}, 1), make(chan chan error)
	}
	b.head, b.tail = body.open()
	if earlier := s.body.Swap(b); earlier != nil {
		earlier.stop()
	}
	s.ignored.CompareAndSwap(skipped, pretended) // a transport may read this one before it asks for the next connection
	return b
}

// ErrUnusable is matched by the errors with which a [Policy] judges a response that came.
var ErrUnusable = redact.New("the response is not what was asked for")

// ErrUnexpected is a response that is not what the service or storage describes.
var ErrUnexpected = redact.New("unexpected response")

// The judgements of a call that has no policy of its own. All match [ErrUnusable].
var (
	ErrStatus     = redact.Fail("the status is no success", ErrUnusable)
	ErrTooLong    = redact.Fail("it is longer than the limit of WithMaxResponseSize", ErrUnusable)
	ErrCompressed = redact.Fail("it is compressed although that was not asked for; does a proxy in between do that?", ErrUnusable)
)

const (
	maxErrorBody = 64 << 10 // of a response that is no success; what is beyond is cut off
	maxReadTime  = 10       // stall timeouts that reading a response may take
)

// buffers are what responses are read into, for the next ones: a page's would have to grow anew each time. The collector would
// empty a pool between two pages of a busy program. A huge one is not kept.
var buffers = make(chan *bytes.Buffer, 8)

const maxKeptBuffer = 2 << 20

// Release gives back the memory of the response's body, which must not be used any more.
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
	r.Last.Body = nil
}

// read keeps a response's body, up to a limit. A refusal that breaks off or is too long is a refusal all the same.
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
