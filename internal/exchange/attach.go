package exchange

import (
	"io"
	"net/http"
)

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
