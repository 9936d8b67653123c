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
