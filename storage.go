package clinicaldoc

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/sending"
	"github.com/clinicaldoc/clinicaldoc-go/internal/stall"
)

// attempt sends one request to storage and takes in what comes. A nil error means that the recording is complete.
func (d *download) attempt(ctx context.Context) (next, error) {
	if d.received > 0 && d.etag == "" {
		if err := d.restart("the download was cut and storage gives no strong ETag to go on by"); err != nil {
			return giveUp, err
		}
	}
	d.attempts++
	d.tried = true
	d.asked = 0
	client := d.service.client
	guarded, watchdog := stall.Guard(ctx, client.config.stallTimeout)
	defer watchdog.Stop()
	told := Attempt{Operation: downloadAudio.name, Method: downloadAudio.method, Route: downloadAudio.route, Number: d.attempts}
	started := time.Now()
	then, err := d.exchange(ctx, guarded, watchdog, &told)
	told.Duration, told.Err = time.Since(started), err
	client.tell(ctx, told)
	return then, err
}

// exchange sends the request and judges the answer by its status. The guarded context is the caller's under the watchdog.
func (d *download) exchange(ctx, guarded context.Context, watchdog *stall.Watchdog, told *Attempt) (next, error) {
	req, err := d.request(guarded, watchdog)
	if err != nil {
		return giveUp, err
	}
	resp, err := d.service.client.config.httpClient.Transport.RoundTrip(req)
	if err != nil {
		return d.lost(ctx, guarded, err)
	}
	defer func() { _ = resp.Body.Close() }()
	told.StatusCode, told.RequestID = resp.StatusCode, requestID(resp.Header)
	var then next
	switch resp.StatusCode {
	case http.StatusOK:
		err = d.acceptWhole(ctx, resp)
	case http.StatusPartialContent:
		then, err = d.acceptRest(resp)
	case http.StatusRequestedRangeNotSatisfiable:
		return d.acceptEnd(resp)
	default:
		return d.refused(resp)
	}
	if err != nil {
		return then, err
	}
	return d.take(ctx, guarded, watchdog, resp.Body, &told.BytesReceived)
}

// request builds the request for what is missing. It carries nothing of the caller's but the address: storage refuses a
// token beside a signature, and has no business with one.
func (d *download) request(ctx context.Context, watchdog *stall.Watchdog) (*http.Request, error) {
	u, err := url.Parse(d.address.URL)
	if err != nil || u.User != nil || u.Scheme != "https" && !d.plainAllowed(u) {
		return nil, d.fail("the address of the recording is plain http to another machine or carries a password; it is not used", ErrUnexpectedResponse)
	}
	u.Fragment = ""
	req := (&http.Request{
		Method: downloadAudio.method, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {d.service.client.config.userAgent}},
	}).WithContext(httptrace.WithClientTrace(ctx, (&sending.State{Watchdog: watchdog}).Trace())) // ends retries of net/http's own
	if d.received > 0 {
		req.Header["Range"] = []string{"bytes=" + strconv.FormatInt(d.received, 10) + "-"}
		req.Header["If-Range"] = []string{d.etag}
	}
	return req, nil
}

// plainAllowed reports whether a recording may come over plain http from there.
func (d *download) plainAllowed(u *url.URL) bool {
	c := d.service.client
	return u.Scheme == "http" && (c.config.insecureHTTP || c.baseURL.Scheme == "http" && origin.Loopback(u))
}

// acceptWhole judges an answer with the recording from its first byte on.
func (d *download) acceptWhole(ctx context.Context, resp *http.Response) error {
	if err := d.checkForm(resp); err != nil {
		return err
	}
	total := resp.ContentLength
	if total == 0 {
		return d.fail("storage answered with an empty recording", ErrUnexpectedResponse)
	}
	if total < 0 {
		total = d.noteSize(ctx)
	}
	chunked := resp.ProtoMajor >= 2 || len(resp.TransferEncoding) > 0
	if total < 0 && !chunked {
		return d.fail("neither storage nor the note tells the recording's length, so that a cut would not be noticed", ErrUnexpectedResponse)
	}
	return d.start(recording{strongTag(resp.Header), total})
}

// acceptRest judges an answer that goes on where the download was. It must be of the same recording to a byte.
func (d *download) acceptRest(resp *http.Response) (next, error) {
	if d.received == 0 {
		return giveUp, d.fail("storage answered with a part of the recording to a request for all of it", ErrUnexpectedResponse)
	}
	if err := d.checkForm(resp); err != nil {
		return giveUp, err
	}
	start, total := contentRange(resp.Header)
	if start != d.received || total < 0 || d.total >= 0 && total != d.total || strongTag(resp.Header) != d.etag {
		return d.again("storage answered with a part that does not fit")
	}
	d.total = total
	return giveUp, nil
}

// acceptEnd judges the answer that there is nothing beyond what was received.
func (d *download) acceptEnd(resp *http.Response) (next, error) {
	_, total := contentRange(resp.Header)
	tag := resp.Header.Get("ETag")
	switch {
	case d.received == 0:
		return giveUp, d.fail("storage refused a request without a range as one with an unsatisfiable range", ErrUnexpectedResponse)
	case total == d.received && (d.total < 0 || d.total == total) && (tag == "" || tag == d.etag):
		d.total = total
		d.report()
		return giveUp, nil
	}
	return d.again("storage has less of the recording than was received already")
}

// again starts the download anew with the next attempt, because what storage has is not what it began with.
func (d *download) again(why string) (next, error) {
	if err := d.restart(why); err != nil {
		return giveUp, err
	}
	return repeat, d.fail(why, ErrUnexpectedResponse)
}

// refused judges any other status. What storage says in the body may repeat the address and is not kept.
func (d *download) refused(resp *http.Response) (next, error) {
	status := resp.StatusCode
	if status >= 200 && status <= 299 {
		return giveUp, d.fail("storage answered "+statusText(status)+" instead of a recording", ErrUnexpectedResponse)
	}
	answered := &Error{
		StatusCode: status, RequestID: requestID(resp.Header), RetryAfter: retry.After(resp.Header.Get("Retry-After"), time.Now()),
		Operation: downloadAudio.name, Method: downloadAudio.method, Route: downloadAudio.route,
	}
	d.asked = answered.RetryAfter
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
	err := d.fail("storage answered "+statusText(status), answered)
	switch {
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return newAddress, err
	case retry.Reads.MayRepeat(retry.Outcome{Status: status}):
		return repeat, err
	}
	return giveUp, err
}

// lost judges a request or an answer that broke off.
func (d *download) lost(ctx, guarded context.Context, err error) (next, error) {
	switch cause := context.Cause(guarded); {
	case ctx.Err() != nil:
		return giveUp, d.fail("the download broke off: "+redact.Cause(ctx.Err()), ctx.Err())
	case cause != nil:
		err = cause
	case retry.Permanent(err):
		return giveUp, d.fail("no answer: "+redact.Cause(err), err)
	}
	return repeat, d.fail("the download broke off: "+redact.Cause(err), err)
}

// checkForm refuses what is surely no recording: compressed bytes and documents.
func (d *download) checkForm(resp *http.Response) error {
	encoding := resp.Header.Get("Content-Encoding")
	if resp.Uncompressed || encoding != "" && !strings.EqualFold(encoding, "identity") {
		return d.fail("storage answered with compressed bytes although that was ruled out", ErrUnexpectedResponse)
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	for _, document := range []string{"/html", "/xhtml+xml", "/xml", "+xml", "/json", "+json"} {
		if strings.HasSuffix(kind, document) {
			return d.fail("storage answered with a document instead of a recording", ErrUnexpectedResponse)
		}
	}
	return nil
}

// pieces are the buffers of downloads.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// take writes the answer's body to the target.
func (d *download) take(ctx, guarded context.Context, watchdog *stall.Watchdog, body io.Reader, count *int64) (next, error) {
	d.report()
	piece, _ := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(piece)
	for {
		n, err := body.Read(piece[:])
		if n > 0 {
			*count += int64(n)
			if d.received == 0 && isDocument(piece[:n]) {
				return giveUp, d.fail("storage answered with a document instead of a recording", ErrUnexpectedResponse)
			}
			watchdog.Pause() // a slow writer is not a stalled storage
			if err := d.write(piece[:n]); err != nil {
				return giveUp, err
			}
			watchdog.Progress()
		}
		switch {
		case d.received == d.total:
			return giveUp, nil
		case err == io.EOF && d.total < 0: // the bare one: only that ends a body well
			return giveUp, nil
		case err != nil:
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return d.lost(ctx, guarded, err)
		}
	}
}

// isDocument recognises a page or an error that comes under a recording's content type, or none.
func isDocument(beginning []byte) bool {
	kind := http.DetectContentType(beginning)
	return strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "text/xml")
}

func (d *download) write(p []byte) error {
	if d.total >= 0 && d.received+int64(len(p)) > d.total {
		return d.fail("the recording is longer than storage or the note said", ErrUnexpectedResponse)
	}
	n, err := d.to.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	d.received += int64(max(n, 0))
	d.furthest = max(d.furthest, d.received)
	d.report()
	if err != nil {
		return d.fail("the recording could not be written: "+redact.Cause(err), err)
	}
	return nil
}

// strongTag returns the ETag if it promises the same bytes, not just the same meaning.
func strongTag(h http.Header) string {
	tag := h.Get("ETag")
	if !isStrongTag(tag) {
		return ""
	}
	return tag
}

func isStrongTag(tag string) bool {
	return len(tag) > 2 && strings.HasPrefix(tag, `"`) && strings.HasSuffix(tag, `"`) && isHeaderValue(tag)
}

// contentRange reads "bytes 5-9/10"; what it does not tell is -1.
func contentRange(h http.Header) (start, total int64) {
	span, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	if !ok {
		return -1, -1
	}
	span, size, _ := strings.Cut(span, "/")
	from, _, _ := strings.Cut(span, "-")
	return countOrNone(from), countOrNone(size)
}

func countOrNone(digits string) int64 {
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}
