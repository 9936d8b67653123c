package exchange

import (
	"bytes"
	"io"
	"net/http"
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
	if held, ok := body.(interface{ Reader() io.ReadCloser }); ok && !body.Streamed() && !s.Once && size <= SmallSize {
		s.unfollowed = size
		out.Body = held.Reader()
		out.GetBody = func() (io.ReadCloser, error) { return held.Reader(), nil }
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
