// Package fetch brings one recording from storage, over any number of attempts: a download that is cut goes on where it
// was. It knows nothing of notes, and makes no attempts by itself. Whoever drives a [Download] calls, for each attempt,
// Prepare, Request, the transport, and Take with what comes back; after a failed one it asks Next what may follow, and
// after the one that completed the recording CheckSize.
package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

// Source is what a download is told of the recording by others than storage.
type Source struct {
	Address   func(context.Context) (Address, error) // asks for a fresh address
	Size      func(context.Context) int64            // asks for the recording's size; below 1: nobody tells
	PlainHTTP func(*url.URL) bool                    // whether a recording may come from there without TLS
	UserAgent string
	Progress  func(received, total int64) // nil: nobody wants to know
}

// Address is where the recording can be fetched for a while.
type Address struct {
	URL       string
	ExpiresAt time.Time // zero: not known
}

// Target is where a download goes: a [Writer] or a [Part].
type Target interface {
	Write(p []byte) (int, error)
	// begin is told what recording the bytes from the first on belong to.
	begin(recording) error
	// rewind drops all that was written. An error means that it cannot.
	rewind() error
	// left is what an earlier call left in the target.
	left() (recording, int64)
}

// recording is what tells one recording from another.
type recording struct {
	etag  string // strong, or empty: then nothing can be appended later
	total int64  // -1: not known
}

// Download is one recording on its way from storage.
type Download struct {
	source Source
	to     Target

	recording
	received int64 // bytes that the target has
	furthest int64 // the most it ever had
	counted  int64 // furthest when Next was asked last
	reported progress
	size     int64 // as Source tells it, once it was asked: -1 when nobody does

	address  Address // zero: to be asked for
	tried    bool    // the address was used
	renewed  bool    // a refused address was replaced since the last new byte
	failures int     // attempts since the last new byte
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

// Prepare gets ready for an attempt: an address that may still be good, and a target that can be gone on with. It may
// take calls to the service; what those fail with is returned as it is.
func (d *Download) Prepare(ctx context.Context) error {
	if err := d.findAddress(ctx); err != nil {
		return err
	}
	if d.received > 0 && d.etag == "" {
		return d.restart("the download was cut and storage gives no strong ETag to go on by")
	}
	return nil
}

// findAddress asks for an address when there is none or the one there is has expired. One that was not tried yet is not
// judged by this machine's clock.
func (d *Download) findAddress(ctx context.Context) error {
	if d.address.URL != "" {
		expires := d.address.ExpiresAt
		if !d.tried || expires.IsZero() || time.Now().Before(expires) {
			return nil
		}
	}
	address, err := d.source.Address(ctx)
	d.address, d.tried = address, false
	return err
}

// Request builds the request for what is missing. It carries nothing of the caller's but the address: storage refuses a
// token beside a signature, and has no business with one.
func (d *Download) Request(ctx context.Context) (*http.Request, error) {
	d.tried = true
	u, err := url.Parse(d.address.URL)
	if err != nil || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !d.source.PlainHTTP(u)) {
		return nil, unexpected("the address of the recording is plain http to another machine or carries a password; it is not used")
	}
	u.Fragment = ""
	req := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {d.source.UserAgent}},
	}).WithContext(ctx)
	if d.received > 0 {
		req.Header["Range"] = []string{"bytes=" + strconv.FormatInt(d.received, 10) + "-"}
		req.Header["If-Range"] = []string{d.etag}
	}
	return req, nil
}

// Next is what may follow a failed attempt.
type Next struct {
	Retry      bool          // another attempt may be made
	AtOnce     bool          // without a pause: with a fresh address
	Failures   int           // attempts since the last new byte, for the length of the pause
	RetryAfter time.Duration // what storage asked for
}

// Next decides what may follow the attempt that failed with err. It must be asked once after each. Attempts count anew
// with every new byte, and so does the one fresh address.
func (d *Download) Next(err error, maxRetries int) Next {
	if d.furthest > d.counted {
		d.failures, d.renewed = 0, false
	}
	d.counted = d.furthest
	failed, known := errors.AsType[*Error](err)
	switch {
	case known && failed.Then == Renew && !d.renewed && maxRetries > 0:
		d.renewed, d.address = true, Address{}
		return Next{Retry: true, AtOnce: true}
	case !known || failed.Then != Retry || d.failures >= maxRetries:
		return Next{}
	}
	d.failures++
	return Next{Retry: true, Failures: d.failures, RetryAfter: failed.RetryAfter}
}

// start is called with the first byte of a recording at hand. What the target has of another one is dropped.
func (d *Download) start(r recording) error {
	if err := d.restart("storage answered with the whole recording instead of the rest"); err != nil {
		return err
	}
	d.recording = r
	if err := d.to.begin(r); err != nil {
		return failed("the target failed: "+redact.Cause(err), err)
	}
	return nil
}

// restart drops what the target has.
func (d *Download) restart(why string) error {
	if d.received == 0 {
		return nil
	}
	if err := d.to.rewind(); err != nil {
		return &Error{Kind: Changed, Text: why + ", and the writer cannot be rewound", Causes: []error{err}}
	}
	d.received, d.recording = 0, recording{total: -1}
	return nil
}

// CheckSize holds a complete recording against what is known of it elsewhere.
func (d *Download) CheckSize(ctx context.Context) error {
	if size := d.knownSize(ctx); size > 0 && size != d.received {
		return unexpected("the recording is complete by what storage tells, but its length is not the note's audio.size")
	}
	return nil
}

// knownSize is the recording's size as others than storage tell it, -1 when they do not. It is asked for once.
func (d *Download) knownSize(ctx context.Context) int64 {
	if d.size == 0 {
		d.size = -1
		if size := d.source.Size(ctx); size > 0 {
			d.size = size
		}
	}
	return d.size
}

func (d *Download) report() {
	now := progress{d.received, d.total}
	if d.source.Progress != nil && now != d.reported {
		d.reported = now
		d.source.Progress(now.received, now.total)
	}
}

// Writer is a caller's writer as a target.
type Writer struct {
	io.Writer
	rewinder rewinder // nil when the writer cannot be rewound
	base     int64    // where the recording begins
}

type rewinder interface {
	io.Seeker
	Truncate(size int64) error
}

// NewWriter makes a target of w. It can be rewound if w has Seek and Truncate.
func NewWriter(w io.Writer) *Writer {
	t := &Writer{Writer: w}
	if r, ok := w.(rewinder); ok {
		if base, err := r.Seek(0, io.SeekCurrent); err == nil { // a pipe is an *os.File too
			t.rewinder, t.base = r, base
		}
	}
	return t
}

func (t *Writer) left() (recording, int64) { return recording{total: -1}, 0 }

func (t *Writer) begin(recording) error { return nil }

const errNoRewind = safeError("it has no Seek and Truncate")

func (t *Writer) rewind() error {
	if t.rewinder == nil {
		return errNoRewind
	}
	if err := t.rewinder.Truncate(t.base); err != nil {
		return err
	}
	_, err := t.rewinder.Seek(t.base, io.SeekStart)
	return err
}

// Loop drives a download: it makes the attempts, with pauses between them.
type Loop struct {
	Transport        http.RoundTripper
	StallTimeout     time.Duration
	Trace            func(context.Context, *stall.Watchdog) context.Context // watches the transport
	MaxRetries       int
	MinWait, MaxWait time.Duration
	Report           func(context.Context, Attempt)
}

// Attempt is what is told of an attempt.
type Attempt struct {
	Number     int
	StatusCode int         // 0: no response
	Header     http.Header // nil: no response
	Received   int64
	Duration   time.Duration
	Err        error
}

// Run makes attempts until the recording is complete or none may follow.
func (l Loop) Run(ctx context.Context, d *Download) error {
	for number := 1; ; number++ {
		if err := d.Prepare(ctx); err != nil {
			return err
		}
		told := Attempt{Number: number}
		started := time.Now()
		err := l.attempt(ctx, d, &told)
		told.Duration, told.Err = time.Since(started), err
		l.Report(ctx, told)
		if err == nil {
			return d.CheckSize(ctx)
		}
		next := d.Next(err, l.MaxRetries)
		if !next.Retry {
			return err
		}
		if next.AtOnce || l.pause(ctx, next) {
			continue
		}
		if over := ctx.Err(); over != nil {
			err = failed("gave up waiting to repeat: "+redact.Cause(over), over, err)
		}
		return err
	}
}

// attempt sends one request to storage and takes in what comes. A nil error means that the recording is complete.
func (l Loop) attempt(ctx context.Context, d *Download, told *Attempt) error {
	guarded, watchdog := stall.Guard(ctx, l.StallTimeout)
	defer watchdog.Stop()
	req, err := d.Request(l.Trace(guarded, watchdog))
	if err != nil {
		return err
	}
	resp, err := l.Transport.RoundTrip(req)
	if err != nil {
		return explain(ctx, guarded, Break(err))
	}
	defer func() { _ = resp.Body.Close() }()
	told.StatusCode, told.Header = resp.StatusCode, resp.Header
	told.Received, err = d.Take(ctx, resp, watchdog)
	return explain(ctx, guarded, err)
}

// explain finds out why a request or a response broke off. The guarded context is the caller's under the watchdog.
func explain(ctx, guarded context.Context, err error) error {
	broken, ok := errors.AsType[*Error](err)
	if !ok || broken.Kind != Broken {
		return err
	}
	switch cause := context.Cause(guarded); {
	case ctx.Err() != nil:
		return failed("the download broke off: "+redact.Cause(ctx.Err()), ctx.Err())
	case cause != nil:
		return Break(cause)
	case retry.Permanent(err):
		return failed("no answer: "+redact.Cause(broken.Causes[0]), broken.Causes...)
	}
	return broken
}

// pause waits before the next attempt, or reports that the wait does not fit.
func (l Loop) pause(ctx context.Context, next Next) bool {
	wait := retry.Backoff(next.Failures-1, l.MinWait, l.MaxWait, next.RetryAfter)
	if deadline, limited := ctx.Deadline(); next.RetryAfter > l.MaxWait || limited && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Error is why an attempt or the whole download failed.
type Error struct {
	Kind   Kind
	Text   string  // safe to print
	Causes []error // for errors.Is and errors.As
	Then   Then    // what could help

	// Of a response that was Refused.
	Status     int
	Header     http.Header
	RetryAfter time.Duration
}

// Kind says where a failure belongs.
type Kind int

// The kinds of failures.
const (
	Failed     Kind = iota // at this end: the target, the context
	Broken                 // no response, or none that was whole
	Refused                // storage's status says no
	Unexpected             // what storage sent is not what was asked for
	Changed                // the target has a part of another recording and cannot be rewound
)

// Then says what could help after a failure.
type Then int

// What could help.
const (
	Stop  Then = iota // nothing: it would be the same
	Retry             // waiting: the failure may pass
	Renew             // a fresh address: storage refuses the one it was asked with, as it does when that has expired
)

func (e *Error) Error() string { return e.Text }

// SafeText is the error's text: it holds no data.
func (e *Error) SafeText() string { return e.Text }

func (e *Error) Unwrap() []error { return e.Causes }

// Break is a request or a response that broke off. Who drives the download may know better why, and that it is in vain.
func Break(err error) *Error {
	return &Error{Kind: Broken, Text: "the download broke off: " + redact.Cause(err), Causes: []error{err}, Then: Retry}
}

func failed(text string, causes ...error) error { return &Error{Text: text, Causes: causes} }

func unexpected(text string) error { return &Error{Kind: Unexpected, Text: text} }

// safeError is a constant text without data.
type safeError string

func (e safeError) Error() string    { return string(e) }
func (e safeError) SafeText() string { return string(e) }

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}
