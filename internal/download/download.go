// Package download downloads a recording from storage in any number of attempts. After an interruption it continues
// where it was. A [Download] makes no requests itself: it is the policy of a call of package exchange. After the call,
// use CheckSize to compare the recording with its size as the service reports it, and then Stop.
package download

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Source is what the caller and the service know about the recording.
type Source struct {
	Address   func(context.Context) (*Address, error) // requests a fresh address
	Size      func(context.Context) int64             // requests the size; below 1 if unknown; nil if irrelevant
	PlainHTTP func(*url.URL) bool                     // whether a recording may be downloaded from there without TLS
	Progress  func(received, total int64)             // may be nil
	// BeforeWrite is called before bytes are written. Its error ends the download. It may be nil.
	BeforeWrite func() error

	MaxRetries int // in a row without a new byte
}

// Address is where the recording can be downloaded for a while.
type Address struct {
	URL       string
	ExpiresAt time.Time // zero if not known
}

// expired reports whether the address is known to have expired.
func (a *Address) expired() bool { return !a.ExpiresAt.IsZero() && !time.Now().Before(a.ExpiresAt) }

// Target is where a download goes: a [Writer] or a [Part].
type Target interface {
	io.Writer
	// begin states to which recording the bytes belong that are written from now on, and its location in storage.
	begin(r recording, location string)
	// rewind discards all that was written. It returns an error if it cannot.
	rewind(written int64) error
	// alreadyHas returns what an earlier call left in the target: of which recording, its location in storage, and how
	// many bytes.
	alreadyHas() (r recording, location string, size int64)
}

// recording identifies a recording.
type recording struct {
	etag  string // strong; if empty, nothing can be appended later
	total int64  // as storage reports it, or unknown
}

// unknown stands for a length or an offset that is not reported.
const unknown = -1

// Download is the download of one recording.
type Download struct {
	source Source
	to     Target
	from   int64 // where a piece begins
	until  int64 // where the next piece would begin; 0 for a whole recording

	recording
	received     int64 // where the next missing byte is: how many bytes of a whole recording the target has
	furthest     int64 // the highest that received ever was
	lastFurthest int64 // furthest when Next was called last
	reported     progress
	size         atomic.Int64       // as the service reports it; 0 if not known
	sizeRequest  *exchange.Guarded  // nil before the size is requested
	cancel       context.CancelFunc // ends that request

	address  *Address // nil if one must be requested
	location string   // of the address
	// leftFrom is the location of what an earlier call left in the target; "" if there is nothing, or if this call has
	// requested more of it.
	leftFrom string
	// isShared is set if the address was requested for another piece. If storage refuses it, it has probably expired,
	// and requesting another one is not a retry.
	isShared   bool
	wasRenewed bool // a refused address was discarded since the last new byte, so another one is requested
	retries    int  // retries with a pause since the last new byte
}

type progress struct{ received, total int64 }

// New begins a download, or continues with what an earlier one left in the target.
func New(source Source, to Target) *Download {
	d := &Download{source: source, to: to}
	d.recording, d.leftFrom, d.received = to.alreadyHas()
	d.furthest = d.received
	d.lastFurthest = d.received
	return d
}

// Received is how many bytes of the recording the target has.
func (d *Download) Received() int64 { return d.received }

// Prepare prepares an attempt: it requests an address if there is none that may work, restarts if the download cannot
// be continued, and sets the request's URL and header. Errors of the service are returned unchanged.
func (d *Download) Prepare(req *http.Request) error {
	if err := d.ensureAddress(req.Context()); err != nil {
		return err
	}
	if d.etag == "" {
		const why = "the download was interrupted, and cannot continue because storage sends no strong ETag"
		if err := d.restart(why); err != nil {
			return err
		}
	}
	address, err := url.Parse(d.address.URL)
	if err != nil || !d.isSafe(address) {
		const text = "the address of the recording is plain http or contains a password, so it is not used"
		return unexpected(text, ErrAddress)
	}
	if err := d.checkLocation(address); err != nil {
		return err
	}
	address.Host = strings.ToLower(address.Host) // net/http would send requests for LOCALHOST through a proxy
	address.Fragment = ""
	req.URL = address
	// Nothing else of the caller's is sent: storage rejects a token beside a signature, and must not see one.
	req.Header = http.Header{"Accept-Encoding": {"identity"}}
	d.setRange(req.Header)
	return nil
}

// ensureAddress requests an address if there is none, or if the one that there is has expired.
func (d *Download) ensureAddress(ctx context.Context) error {
	if d.address != nil && !d.address.expired() {
		return nil
	}
	address, err := d.source.Address(ctx)
	if err != nil {
		return err
	}
	d.address = address
	return nil
}

// checkLocation restarts if what an earlier call left comes from another location, for example because that call was
// made for another tenant. An ETag distinguishes only the recordings at one location.
func (d *Download) checkLocation(address *url.URL) error {
	d.location = locationOf(address)
	isOther := d.leftFrom != "" && d.leftFrom != d.location
	d.leftFrom = ""
	if isOther {
		return d.restart("the part on disk comes from another address")
	}
	return nil
}

// locationOf returns a hash of where a recording is stored: its address without the query, which has the signature.
func locationOf(address *url.URL) string {
	sum := sha256.Sum256([]byte(strings.ToLower(address.Host) + address.EscapedPath()))
	return hex.EncodeToString(sum[:16])
}

// isSafe reports whether a recording may be downloaded from there.
func (d *Download) isSafe(address *url.URL) bool {
	switch {
	case address.User != nil:
		return false
	case address.Scheme == "https":
		return true
	}
	return address.Scheme == "http" && d.source.PlainHTTP(address)
}

// setRange requests what is missing: of a whole recording all bytes from received on, of a piece those before until.
func (d *Download) setRange(header http.Header) {
	if d.received == 0 && d.until == 0 {
		return // the whole recording
	}
	lastByte := "" // the end of the recording
	if d.until > 0 {
		lastByte = strconv.FormatInt(d.until-1, 10)
	}
	header.Set("Range", "bytes="+strconv.FormatInt(d.received, 10)+"-"+lastByte)
	if d.etag != "" {
		header.Set("If-Range", d.etag)
	}
}

// Next decides what may follow a failed attempt, and must be called once after each of them. After a failure that may
// pass, it allows a retry with a pause, up to MaxRetries in a row. If storage refused the address, it allows one
// attempt without a pause, with a fresh address. Both begin anew after an attempt that received new bytes.
func (d *Download) Next(a *exchange.Attempt) exchange.Next {
	if d.furthest > d.lastFurthest {
		d.retries = 0
		d.wasRenewed = false
	}
	d.lastFurthest = d.furthest
	failed, known := errors.AsType[*Error](a.Err)
	switch {
	case !known:
		return exchange.Next{}
	case failed.Then == Renew && d.mayRenew():
		d.wasRenewed = true
		d.address = nil
		return exchange.Next{Retry: true, WithoutPause: true}
	case failed.Then != Retry, d.retries >= d.source.MaxRetries:
		return exchange.Next{}
	}
	d.retries++
	return exchange.Next{Retry: true, Failures: d.retries}
}

// mayRenew reports whether a refused address may be replaced by a fresh one: once until the next new byte, and only if
// retries are allowed or the address is shared.
func (d *Download) mayRenew() bool {
	if d.wasRenewed {
		return false
	}
	return d.source.MaxRetries > 0 || d.isShared
}

// restart discards what the target has, if anything, so the next byte is the first one. It returns an error if that is
// not possible.
func (d *Download) restart(why string) error {
	if d.received == 0 {
		return nil
	}
	if err := d.to.rewind(d.received); err != nil {
		return &Error{Text: why + ", and the writer cannot be rewound", Causes: []error{ErrChanged, err}}
	}
	d.received = 0
	d.recording = recording{total: unknown}
	return nil
}

// CheckSize compares a complete recording with its size as the service reports it.
func (d *Download) CheckSize(ctx context.Context) error {
	size := d.knownSize(ctx)
	if size > 0 && size != d.received {
		return sizeMismatch(
			"the recording is complete according to storage, but its length differs from the service's")
	}
	return nil
}

// length is the length of the recording as storage or the service report it, or unknown.
func (d *Download) length() int64 {
	if d.total == unknown {
		return cmp.Or(d.size.Load(), unknown)
	}
	return d.total
}

// report calls Progress if the numbers have changed.
func (d *Download) report() {
	now := progress{d.received, d.length()}
	if d.source.Progress != nil && now != d.reported {
		d.reported = now
		d.source.Progress(now.received, now.total)
	}
}

// requestSize begins to request the recording's size, once, while the recording is received. Requesting it before or
// afterwards would cost the time of a request.
func (d *Download) requestSize(ctx context.Context) {
	if d.sizeRequest != nil || d.source.Size == nil {
		return
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.sizeRequest = exchange.GoGuarded(func() { d.size.Store(max(d.source.Size(ctx), 0)) })
}

// knownSize waits for the recording's size and returns it as the service reports it; 0 if it does not.
func (d *Download) knownSize(ctx context.Context) int64 {
	d.requestSize(ctx)
	if d.sizeRequest != nil {
		d.sizeRequest.Wait()
	}
	return d.size.Load()
}

// Stop ends the request for the size, if one is running.
func (d *Download) Stop() {
	if d.sizeRequest != nil {
		d.cancel()
		d.sizeRequest.Wait()
	}
}
