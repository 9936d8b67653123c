package download

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Stored is a recording that stays in storage and is read in pieces, several at once.
type Stored struct {
	Size        int64
	ETag        string // strong; empty: not opened
	ContentType string

	asking  chan struct{} // holds a value while a piece looks at the address, or asks for one: who waits for it can be cancelled
	address *Address      // the one in use
}

// NewStored is a recording of which nothing is known yet: its first piece opens it.
func NewStored() *Stored { return &Stored{asking: make(chan struct{}, 1), address: new(Address)} }

// Piece is a part of a stored recording on its way into memory. As a [Download] it is the policy of a call.
type Piece struct {
	Download

	stored *Stored
	into   []byte
	used   string // the address that it was given last
}

// Piece reads what stands at from, and fills into with it, or with all that there is if it opens the recording.
func (s *Stored) Piece(source Source, into []byte, from int64) *Piece {
	p := &Piece{stored: s, into: into, Download: Download{
		source: source, recording: recording{s.ETag, s.Size}, from: from, until: from + int64(len(into)),
		received: from, furthest: from, counted: from,
	}}
	p.source.Address = func(ctx context.Context) (*Address, error) { return s.share(ctx, p, source.Address) }
	return p
}

// share gives one piece after the other the same address, and asks for a fresh one when that has expired or the piece comes
// back from it. Pieces that come back together wait for the first of them.
func (s *Stored) share(ctx context.Context, p *Piece, fresh func(context.Context) (*Address, error)) (*Address, error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.handedOn = s.address.URL != p.used && !s.address.expired()
	if !p.handedOn {
		address, err := fresh(ctx)
		if err != nil {
			return nil, err
		}
		s.address = address
	}
	p.used = s.address.URL
	return s.address, nil
}

// Receive takes in the piece, or what is missing of it.
func (p *Piece) Receive(_ context.Context, resp *http.Response, watch exchange.Watch) (count int64, _ error) {
	if err := p.accept(resp); err != nil {
		return 0, err
	}
	end := min(p.until, p.total)
	n, err := io.ReadFull(&exchange.WatchedReader{Reader: resp.Body, Watch: watch, Left: math.MaxInt64}, p.into[p.received-p.from:end-p.from])
	count = int64(n)
	p.received += count
	p.furthest = p.received
	if err != nil {
		return count, cut(err)
	}
	if p.stored.ETag != "" {
		return count, nil
	}
	if !isRecording(mediaType(resp.Header), p.into[:min(p.received, headSize)]) {
		return count, unexpected(textDocument)
	}
	p.stored.Size, p.stored.ETag, p.stored.ContentType = p.total, p.etag, resp.Header.Get("Content-Type")
	return count, nil
}

// accept judges a response by what goes before its body.
func (p *Piece) accept(resp *http.Response) error {
	if err := judge(resp); err != nil {
		return err
	}
	start, total := contentRange(resp.Header)
	now, known, whole := recording{strongTag(resp.Header.Get("ETag")), total}, p.etag != "", resp.StatusCode == http.StatusOK
	if whole {
		now.total = p.total // it has no range that tells it
	}
	switch {
	case !known && total == 0:
		return unexpected(textEmpty)
	case known && now != p.recording:
		return &Error{Text: "storage has another recording than when it was opened; open it again", Causes: []error{ErrChanged}}
	case whole:
		return unexpected("storage responds with the whole recording to a request for a part; download it instead", errors.ErrUnsupported)
	case start != p.received || total <= start:
		return unexpected("storage responded with another part than the requested one")
	case now.etag == "":
		return unexpected("storage gives no strong ETag, so that parts could be of two recordings; download it instead", errors.ErrUnsupported)
	}
	p.recording = now
	return nil
}
