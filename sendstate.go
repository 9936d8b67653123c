package clinicaldoc

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

// payload is a request body.
type payload interface {
	contentType() string
	size() int64         // -1: not known
	open() io.ReadCloser // from the start, for each attempt
	replayable() bool    // open can give the whole body again
}

// jsonBody is an encoded body, small enough to be held.
type jsonBody []byte

func (b jsonBody) contentType() string { return "application/json" }
func (b jsonBody) size() int64         { return int64(len(b)) }
func (b jsonBody) open() io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
func (b jsonBody) replayable() bool    { return true }

// sendState finds out how much of an attempt's request the server can have. net/http's error alone does not tell.
type sendState struct {
	watchdog     *stall.Watchdog
	traced       atomic.Bool  // the transport reports its steps
	wroteHeaders atomic.Bool  // at least into a buffer
	connections  atomic.Int32 // tried by net/http on its own
	small        int64        // size of a body that is not followed
	body         atomic.Pointer[followedBody]
}

func (s *sendState) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			s.traced.Store(true)
			if s.connections.Add(1) > maxSilentRepeats {
				s.watchdog.Cancel(errSilentRepeats) // some HTTP/2 failures are repeated without pause or end
			}
		},
		WroteHeaders: func() { s.wroteHeaders.Store(true) },
	}
}

// settle ends a failed attempt and tells what the server can have of it. Where the transport reports nothing, the body
// alone is evidence; it gives nothing more, so that what is told stays true.
func (s *sendState) settle() retry.Sent {
	body := s.body.Load()
	if body != nil {
		body.ended.Store(true)
	}
	switch {
	case body != nil && body.complete.Load():
		return retry.Wholly
	case s.traced.Load() && !s.wroteHeaders.Load():
		return retry.Never
	case body != nil:
		return retry.Partly
	}
	return retry.Wholly
}

func (s *sendState) taken() int64 {
	if body := s.body.Load(); body != nil {
		return body.taken.Load()
	}
	if s.traced.Load() && !s.wroteHeaders.Load() {
		return 0
	}
	return s.small
}

// sourceError returns the failure to read the body at our end, if there was one.
func (s *sendState) sourceError() error {
	if body := s.body.Load(); body != nil {
		if err := body.failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// follow counts what net/http takes of a body. An earlier body of the same attempt counts no more.
func (s *sendState) follow(r io.ReadCloser, size int64) io.ReadCloser {
	body := &followedBody{ReadCloser: r, size: size, watchdog: s.watchdog}
	if earlier := s.body.Swap(body); earlier != nil {
		// What a repeat of net/http's own takes again is no progress.
		body.furthest = max(earlier.furthest, earlier.taken.Load())
	}
	return body
}

type followedBody struct {
	io.ReadCloser
	size     int64
	watchdog *stall.Watchdog
	furthest int64 // how far an earlier body of the attempt had come

	taken    atomic.Int64
	complete atomic.Bool
	ended    atomic.Bool
	failed   atomic.Pointer[error]
}

func (b *followedBody) Read(p []byte) (int, error) {
	if b.ended.Load() {
		return 0, errCallOver
	}
	n, err := b.ReadCloser.Read(p)
	taken := b.taken.Add(int64(n))
	if n > 0 && taken > b.furthest {
		b.watchdog.Progress()
	}
	switch {
	case errors.Is(err, io.EOF), b.size >= 0 && taken >= b.size:
		b.complete.Store(true)
	case err != nil:
		b.failed.CompareAndSwap(nil, &err)
	}
	if b.ended.Load() {
		return 0, errCallOver // asked only after complete is set: settle sees that, or these bytes go nowhere
	}
	return n, err
}
