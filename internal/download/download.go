// Package download brings one recording from storage, over any number of attempts: a download that is cut goes on where it
// was. It knows nothing of notes, and makes no attempts by itself: a [Download] is the policy of a call of
// package exchange. After that CheckSize compares a complete recording with what the service says; in the end comes Stop.
package download

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Source is what a download is told of the recording by others than storage.
type Source struct {
	Address   func(context.Context) (*Address, error) // asks for a fresh address
	Size      func(context.Context) int64             // asks for the recording's size; below 1: not told; nil: it does not matter
	PlainHTTP func(*url.URL) bool                     // whether a recording may come from there without TLS
	Progress  func(received, total int64)             // nil: nobody wants to know

	MaxRetries int // since the last new byte
}

// Address is where the recording can be fetched for a while.
type Address struct {
	URL       string
	ExpiresAt time.Time // zero: not known
}

func (a *Address) expired() bool { return !a.ExpiresAt.IsZero() && !time.Now().Before(a.ExpiresAt) }

// Target is where a download goes: a [Writer] or a [Part].
type Target interface {
	io.Writer
	// begin is told what recording the bytes from the first on belong to.
	begin(recording)
	// rewind drops all that was written, which is so much. An error means that it cannot.
	rewind(written int64) error
	// left is what an earlier call left in the target: of what recording, and how much.
	left() (recording, int64)
}

// recording is what tells one recording from another.
type recording struct {
	etag  string // strong, or empty: then nothing can be appended later
	total int64  // as storage tells it; -1: it does not
}

// Download is one recording on its way from storage.
type Download struct {
	source      Source
	to          Target
	from, until int64 // where a piece begins, and where the next one would; 0: it is the whole recording

	recording
	received int64 // bytes that the target has
	furthest int64 // the most it ever had
	counted  int64 // furthest when Next was asked last
	reported progress
	size     atomic.Int64      // as others than storage tell it; 0: not known
	asked    *exchange.Guarded // asks for it; nil before
	cancel   context.CancelFunc

	address  *Address // nil: to be asked for
	handedOn bool     // the address is an earlier call's: if it is refused it has expired, and to ask for another is no retry
	renewed  bool     // a refused address was replaced since the last new byte
	failures int      // attempts since the last new byte
}

type progress struct{ received, total int64 }

// New begins a download, or goes on with what an earlier one left in the target.
func New(source Source, to Target) *Download {
	d := &Download{source: source, to: to, reported: progress{received: -1}}
	d.recording, d.received = to.left()
	d.furthest, d.counted = d.received, d.received
	return d
}

// Received is how many bytes of the recording the target has.
func (d *Download) Received() int64 { return d.received }

// Prepare gets ready for an attempt: an address that may still be good, a target that can be gone on with, and a request
// for what is missing. It may take calls to the service; what those fail with is returned as it is.
func (d *Download) Prepare(req *http.Request) error {
	if d.address == nil || d.address.expired() {
		var err error
		if d.address, err = d.source.Address(req.Context()); err != nil {
			return err
		}
	}
	if d.received > 0 && d.etag == "" {
		if err := d.restart("the download was cut and storage gives no strong ETag to go on by"); err != nil {
			return err
		}
	}
	u, err := url.Parse(d.address.URL)
	if err != nil || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !d.source.PlainHTTP(u)) {
		return unexpected("the address of the recording is plain http, or carries a password; it is not used", ErrAddress)
	}
	u.Fragment = ""
	// The address is all that the request carries of the caller's: storage refuses a token beside a signature, and has no business
	// with one.
	req.URL, req.Header = u, http.Header{"Accept-Encoding": {"identity"}}
	if d.received > 0 || d.until > 0 {
		last := ""
		if d.until > 0 {
			last = strconv.FormatInt(d.until-1, 10)
		}
		req.Header.Set("Range", "bytes="+strconv.FormatInt(d.received, 10)+"-"+last)
		if d.etag != "" {
			req.Header.Set("If-Range", d.etag)
		}
	}
	return nil
}

// Next decides what may follow a failed attempt. It must be asked once after each. Failures count anew with every new
// byte, and so does the one fresh address, with which the next attempt is made at once.
func (d *Download) Next(a *exchange.Attempt) exchange.Next {
	if d.furthest > d.counted {
		d.failures, d.renewed = 0, false
	}
	d.counted = d.furthest
	failed, known := errors.AsType[*Error](a.Err)
	switch {
	case known && failed.Then == Renew && !d.renewed && (d.source.MaxRetries > 0 || d.handedOn):
		d.renewed, d.address = true, nil
		return exchange.Next{Retry: true, AtOnce: true}
	case !known || failed.Then != Retry || d.failures >= d.source.MaxRetries:
		return exchange.Next{}
	}
	d.failures++
	return exchange.Next{Retry: true, Failures: d.failures}
}

// restart drops what the target has.
func (d *Download) restart(why string) error {
	if d.received == 0 {
		return nil
	}
	if err := d.to.rewind(d.received); err != nil {
		return &Error{Text: why + ", and the writer cannot be rewound", Causes: []error{ErrChanged, err}}
	}
	d.received, d.recording = 0, recording{total: -1}
	return nil
}

// CheckSize holds a complete recording against what is known of it elsewhere.
func (d *Download) CheckSize(ctx context.Context) error {
	if size := d.knownSize(ctx); size > 0 && size != d.received {
		return sizeMismatch("the recording is complete by what storage tells, but its length is not what the service says")
	}
	return nil
}

// length is the recording's: as storage tells it, else as others did by now, else -1.
func (d *Download) length() int64 {
	if d.total < 0 {
		return cmp.Or(d.size.Load(), -1)
	}
	return d.total
}

func (d *Download) report() {
	now := progress{d.received, d.length()}
	if d.source.Progress != nil && now != d.reported {
		d.reported = now
		d.source.Progress(now.received, now.total)
	}
}

// askSize asks for the recording's size, once, while the recording flows: waiting for it before or afterwards would cost the time
// of a request.
func (d *Download) askSize(ctx context.Context) {
	if d.asked != nil || d.source.Size == nil {
		return
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.asked = exchange.GoGuarded(func() { d.size.Store(max(d.source.Size(ctx), 0)) })
}

// knownSize is the recording's size as others than storage tell it, 0 when they do not.
func (d *Download) knownSize(ctx context.Context) int64 {
	d.askSize(ctx)
	if d.asked != nil {
		d.asked.Wait()
	}
	return d.size.Load()
}

// Stop ends what the download has begun and does not need any more.
func (d *Download) Stop() {
	if d.asked != nil {
		d.cancel()
		d.asked.Wait()
	}
}
