package download

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Stored is a recording in storage that is read in pieces, several at the same time.
type Stored struct {
	Size        int64
	ETag        string // strong; empty if the recording has not been opened
	ContentType string

	asking  chan struct{} // a lock for address, which can be waited for with a context: full while it is held
	address *Address      // the one in use
}

// NewStored returns a recording that its first piece opens.
func NewStored() *Stored { return &Stored{asking: make(chan struct{}, 1), address: new(Address)} }

// Piece is the download of a piece of a stored recording into memory. Like a [Download] it is the policy of a call.
type Piece struct {
	Download

	stored      *Stored
	into        []byte
	lastAddress string // that it has used
}

// Piece returns the download of the bytes at from that fill into. The piece that opens the recording may be shorter.
func (s *Stored) Piece(source Source, into []byte, from int64) *Piece {
	p := &Piece{stored: s, into: into, Download: Download{
		source: source, recording: recording{s.ETag, s.Size}, from: from, until: from + int64(len(into)),
		received: from, furthest: from, lastFurthest: from,
	}}
	p.source.Address = func(ctx context.Context) (*Address, error) { return s.share(ctx, p, source.Address) }
	return p
}

// share returns the address in use. It requests a fresh one if the address has expired, or if the piece has tried it
// already. Only one piece at a time requests an address; others wait and share the result.
func (s *Stored) share(
	ctx context.Context, p *Piece, request func(context.Context) (*Address, error),
) (*Address, error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.isShared = s.address.URL != p.lastAddress && !s.address.expired()
	if !p.isShared {
		address, err := request(ctx)
		if err != nil {
			return nil, err
		}
		s.address = address
	}
	p.lastAddress = s.address.URL
	return s.address, nil
}

// Receive reads the piece, or what is missing of it. The first piece that is complete opens the recording.
func (p *Piece) Receive(_ context.Context, resp *http.Response, watch exchange.Watch) (count int64, _ error) {
	if err := p.accept(resp); err != nil {
		return 0, err
	}
	end := min(p.until, p.total)
	body := &exchange.WatchedReader{Reader: resp.Body, Watch: watch, Left: math.MaxInt64}
	n, err := io.ReadFull(body, p.into[p.received-p.from:end-p.from])
	count = int64(n)
	p.received += count
	p.furthest = p.received
	if err != nil {
		return count, interrupted(err)
	}
	isOpen := p.stored.ETag != ""
	if isOpen {
		return count, nil
	}
	if !isRecording(mediaType(resp.Header), p.into[:min(p.received, headSize)]) {
		return count, unexpected(textDocument)
	}
	p.stored.Size = p.total
	p.stored.ETag = p.etag
	p.stored.ContentType = resp.Header.Get("Content-Type")
	return count, nil
}

// accept checks a response before its body is read: it must be the requested part of the recording that was opened. The
// first piece opens the recording, so there is nothing yet to compare it with.
func (p *Piece) accept(resp *http.Response) error {
	if err := checkStatus(resp); err != nil {
		return err
	}
	start, total := contentRange(resp.Header)
	current := recording{strongTag(resp.Header.Get("ETag")), total}
	isOpen := p.etag != ""
	isComplete := resp.StatusCode == http.StatusOK
	if isComplete {
		current.total = p.total // without a Content-Range, only the ETag is compared
	}
	switch {
	case !isOpen && total == 0:
		return unexpected(textEmpty)
	case isOpen && current != p.recording:
		const text = "the recording in storage has changed since it was opened; open it again"
		return &Error{Text: text, Causes: []error{ErrChanged}}
	case isComplete:
		return unexpected("storage does not support requests for a part of the recording; download it instead",
			errors.ErrUnsupported)
	case start != p.received, total <= start:
		return unexpected("storage responded with a part that was not requested")
	case current.etag == "":
		return unexpected("storage sends no strong ETag, so parts could come from two recordings; download it instead",
			errors.ErrUnsupported)
	}
	p.recording = current
	return nil
}
