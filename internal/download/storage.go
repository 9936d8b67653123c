package download

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Receive judges the response by its status and writes what it brings to the target. It returns how many bytes the body
// gave. A nil error means that the recording is complete. The body stays open.
func (d *Download) Receive(ctx context.Context, resp *http.Response, watch exchange.Watch) (int64, error) {
	if err := judge(resp); err != nil {
		return 0, err
	}
	var skip int64
	var err error
	switch resp.StatusCode {
	case http.StatusOK:
		skip, err = d.acceptWhole(ctx, resp, watch)
	case http.StatusPartialContent:
		err = d.acceptRest(resp)
	default:
		return 0, d.acceptEnd(resp)
	}
	if err != nil {
		return 0, err
	}
	d.askSize(ctx)
	return d.receive(resp, skip, watch)
}

// acceptWhole judges a response with the recording from its first byte on. What the target has of the same recording is
// skipped: some storages know no ranges.
func (d *Download) acceptWhole(ctx context.Context, resp *http.Response, watch exchange.Watch) (skip int64, err error) {
	now := recording{strongTag(resp.Header.Get("ETag")), resp.ContentLength}
	if now.total == 0 {
		return 0, unexpected(textEmpty)
	}
	if now.total < 0 {
		watch.Pause() // a slow service is not a stalled storage
		size := d.knownSize(ctx)
		watch.Progress()
		if size == 0 && !marksEnd(resp) {
			return 0, unexpected("neither storage nor the service tells the recording's length, so that a cut would not be noticed")
		}
	}
	if now == d.recording && now.etag != "" {
		return d.received, nil
	}
	if err := d.restart("storage responded with the whole recording instead of the rest"); err != nil {
		return 0, err
	}
	d.recording = now
	d.to.begin(now)
	return 0, nil
}

// marksEnd reports whether the response's body has an end that differs from a cut.
func marksEnd(resp *http.Response) bool {
	return resp.ProtoMajor >= 2 || len(resp.TransferEncoding) > 0
}

// acceptRest judges a response that goes on where the download was. It must be of the same recording to a byte.
func (d *Download) acceptRest(resp *http.Response) error {
	if d.received == 0 {
		return unexpected("storage responded with a part of the recording to a request for all of it")
	}
	start, total := contentRange(resp.Header)
	if start != d.received || total < 0 || d.total >= 0 && total != d.total || resp.Header.Get("ETag") != d.etag {
		return d.restartNext("storage responded with a part that does not fit")
	}
	d.total = total
	return nil
}

// acceptEnd judges the response that there is nothing beyond what was received.
func (d *Download) acceptEnd(resp *http.Response) error {
	_, total := contentRange(resp.Header)
	tag := resp.Header.Get("ETag")
	switch {
	case d.received == 0:
		return unexpected("storage refused a request without a range as one with an unsatisfiable range")
	case total == d.received && (d.total < 0 || d.total == total) && (tag == "" || tag == d.etag):
		d.total = total
		d.report()
		return nil
	}
	return d.restartNext("storage has less of the recording than was received already")
}

// restartNext makes the next attempt begin with the first byte, because what storage has is not what it began with.
func (d *Download) restartNext(why string) error {
	if err := d.restart(why); err != nil {
		return err
	}
	return &Error{Text: why, Causes: []error{exchange.ErrUnexpected}, Then: Retry}
}

// judge lets pass what may be a recording, a part of it, or its end (416). What storage says in the body of another response may
// repeat the address and is not kept.
func judge(resp *http.Response) error {
	status := resp.StatusCode
	switch {
	case status == http.StatusOK, status == http.StatusPartialContent:
		return checkForm(resp.Header, resp.Uncompressed)
	case status == http.StatusRequestedRangeNotSatisfiable:
		return nil
	case status >= 200 && status <= 299:
		return unexpected("storage responded " + redact.Status(status) + " instead of a recording")
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
	err := &Error{Status: status, Header: resp.Header}
	advice := ""
	switch {
	case status >= 300 && status <= 399 && status != http.StatusNotModified:
		advice = "; redirects of storage are not followed"
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		err.Then = Renew
		advice = " to the recording's temporary address; it has expired, or the recording is gone, or is not to be had from here"
	case exchange.Reads.MayRetry(exchange.Outcome{Status: status}):
		err.Then, advice = Retry, "; trying later may help"
	}
	err.Text = "storage responded " + redact.Status(status) + advice
	return err
}

// receive writes the response's body to the target, but for its first bytes if those are to be skipped.
func (d *Download) receive(resp *http.Response, skip int64, watch exchange.Watch) (count int64, err error) {
	d.report()
	body := &exchange.WatchedReader{Reader: resp.Body, Watch: watch, Left: math.MaxInt64}
	if count, err = io.CopyN(io.Discard, body, skip); err != nil {
		return count, cut(err)
	}
	piece := make([]byte, 64<<10)
	held := 0 // bytes of the piece that are not written yet
	for {
		n, err := body.Read(piece[held:])
		count, held = count+int64(n), held+n
		complete := d.complete(resp, int64(held), err == io.EOF)                     //nolint:errorlint // the bare one: only that ends a body well
		if d.received == 0 && !complete && held < headSize && isText(piece[:held]) { // too little to judge it by
			if err != nil {
				return count, cut(err)
			}
			continue
		}
		watch.Pause() // a slow writer is not a stalled storage
		if err := d.put(piece[:held], mediaType(resp.Header)); err != nil {
			return count, err
		}
		watch.Progress()
		held = 0
		switch {
		case complete:
			return count, nil
		case err != nil:
			return count, cut(err)
		}
	}
}

// complete reports whether the recording ends with what was received and the bytes at hand.
func (d *Download) complete(resp *http.Response, held int64, ended bool) bool {
	if d.total >= 0 {
		return d.received+held == d.total
	}
	return ended && (marksEnd(resp) || d.received+held == d.size.Load())
}

// cut is a body that ended too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// put judges the recording by its beginning, and writes the bytes to the target.
func (d *Download) put(p []byte, mediaType string) error {
	after := d.received + int64(len(p))
	switch tooLong := d.length() >= 0 && after > d.length(); {
	case after == 0:
		return unexpected(textEmpty)
	case d.received == 0 && !isRecording(mediaType, p[:min(headSize, len(p))]):
		return unexpected(textDocument)
	case len(p) == 0:
		return nil
	case tooLong && d.total < 0:
		return sizeMismatch("the recording is longer than the service says")
	case tooLong:
		return unexpected("the recording is longer than storage said")
	}
	n, err := d.to.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	d.received += int64(max(n, 0))
	d.furthest = max(d.furthest, d.received)
	d.report()
	return failed("the recording could not be written", err)
}
