package download

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Receive writes the response to the target if it is the recording or the missing rest of it. It returns how many bytes
// of the body it read. A nil error means that the recording is complete. The body stays open.
func (d *Download) Receive(ctx context.Context, resp *http.Response, watch exchange.Watch) (int64, error) {
	if err := checkStatus(resp); err != nil {
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
	d.requestSize(ctx)
	return d.receive(resp, skip, watch)
}

// acceptWhole checks a response with the whole recording. It returns how many bytes to skip: if the target has a part
// of the same recording, that part. Some storages do not support ranges.
func (d *Download) acceptWhole(ctx context.Context, resp *http.Response, watch exchange.Watch) (skip int64, err error) {
	now := recording{strongTag(resp.Header.Get("ETag")), max(resp.ContentLength, unknown)}
	if now.total == 0 {
		return 0, unexpected(textEmpty)
	}
	if now.total == unknown {
		watch.Pause() // a slow service is not a stalled storage
		size := d.knownSize(ctx)
		watch.Progress()
		if size == 0 && !marksEnd(resp) {
			return 0, unexpected(
				"neither storage nor the service reports the recording's length; a cut would go unnoticed")
		}
	}
	isSame := now == d.recording && now.etag != ""
	if isSame {
		return d.received, nil
	}
	if err := d.restart("storage responded with the complete recording instead of the rest"); err != nil {
		return 0, err
	}
	d.recording = now
	d.to.begin(now, d.location)
	return 0, nil
}

// marksEnd reports whether the end of the response's body can be told from an interruption, although its length is not
// known.
func marksEnd(resp *http.Response) bool {
	return resp.ProtoMajor >= 2 || len(resp.TransferEncoding) > 0
}

// acceptRest checks a response with the rest of the recording. If that does not fit, the next attempt starts again.
func (d *Download) acceptRest(resp *http.Response) error {
	if d.received == 0 {
		return unexpected("storage responded with a part of the recording to a request for all of it")
	}
	start, total := contentRange(resp.Header)
	isSame := resp.Header.Get("ETag") == d.etag && d.mayHaveTotal(total)
	if start != d.received || !isSame {
		return d.restartNext("storage responded with a part that does not fit")
	}
	d.total = total
	return nil
}

// acceptEnd checks a response which states that nothing follows what was received.
func (d *Download) acceptEnd(resp *http.Response) error {
	if d.received == 0 {
		return unexpected("storage rejected the range of a request that had no range")
	}
	_, total := contentRange(resp.Header)
	tag := cmp.Or(resp.Header.Get("ETag"), d.etag)
	isSame := tag == d.etag && d.mayHaveTotal(total)
	if total != d.received || !isSame {
		return d.restartNext("storage has less of the recording than was already received")
	}
	d.total = total
	d.report()
	return nil
}

// mayHaveTotal reports whether the recording can have this length, by what storage reported before.
func (d *Download) mayHaveTotal(total int64) bool {
	if d.total == unknown {
		return total != unknown
	}
	return total == d.total
}

// restartNext makes the next attempt begin with the first byte, because storage has another recording by now. It
// returns the error of this attempt.
func (d *Download) restartNext(why string) error {
	if err := d.restart(why); err != nil {
		return err
	}
	return &Error{Text: why, Causes: []error{exchange.ErrUnexpected}, Then: Retry}
}

// checkStatus returns an error unless the response may be a recording, a part of it, or its end (416). The body of any
// other response may repeat the address, so it is not kept.
func checkStatus(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return checkForm(resp.Header, resp.Uncompressed)
	case http.StatusRequestedRangeNotSatisfiable:
		return nil
	}
	status := redact.Status(resp.StatusCode)
	if resp.StatusCode/100 == 2 {
		return unexpected("storage responded " + status + " instead of a recording")
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
	then, advice := whatHelps(resp.StatusCode)
	text := "storage responded " + status + advice
	return &Error{Text: text, Then: then, Status: resp.StatusCode, Header: resp.Header}
}

// whatHelps returns what could help after a response with this status, and the advice for the caller.
func whatHelps(status int) (Then, string) {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return Renew, " to the recording's temporary address; " +
			"it has expired, the recording is gone, or access is not allowed from here"
	case http.StatusNotModified:
		return Stop, ""
	}
	switch {
	case status/100 == 3:
		return Stop, "; redirects of storage are not followed"
	case exchange.Reads.MayRetry(exchange.Outcome{Status: status}):
		return Retry, "; try again later"
	}
	return Stop, ""
}

// receive writes the response's body to the target, except for the first skip bytes. It returns how many bytes it read,
// with the skipped ones, and an error if the recording is not complete afterwards. The first bytes of a recording are
// held back until they are enough to see whether they are one.
func (d *Download) receive(resp *http.Response, skip int64, watch exchange.Watch) (count int64, err error) {
	d.report()
	body := &exchange.WatchedReader{Reader: resp.Body, Watch: watch, Left: math.MaxInt64}
	count, err = io.CopyN(io.Discard, body, skip)
	if err != nil {
		return count, interrupted(err)
	}
	buffer := make([]byte, 64<<10)
	held := 0 // bytes of the buffer that are not written yet
	for {
		n, err := body.Read(buffer[held:])
		count += int64(n)
		held += n
		atEnd := err == io.EOF //nolint:errorlint // any other EOF is an interruption
		isComplete := d.isComplete(resp, int64(held), atEnd)
		if !isComplete && d.needsMore(buffer[:held]) {
			if err != nil {
				return count, interrupted(err)
			}
			continue
		}
		watch.Pause() // a slow writer is not a stalled storage
		if err := d.write(buffer[:held], mediaType(resp.Header)); err != nil {
			return count, err
		}
		watch.Progress()
		held = 0
		switch {
		case isComplete:
			return count, nil
		case err != nil:
			return count, interrupted(err)
		}
	}
}

// needsMore reports whether these first bytes are too few to see whether they are a recording.
func (d *Download) needsMore(head []byte) bool {
	if d.received > 0 {
		return false
	}
	return len(head) < headSize && media.IsText(head)
}

// isComplete reports whether the recording ends with the held bytes, which follow what was received. If storage has not
// reported the length, it also needs to know whether the body is at its end.
func (d *Download) isComplete(resp *http.Response, held int64, atEnd bool) bool {
	if d.total != unknown {
		return d.received+held == d.total
	}
	if !atEnd {
		return false
	}
	return marksEnd(resp) || d.received+held == d.size.Load()
}

// interrupted returns the error of a body that ended too early: io.ErrUnexpectedEOF instead of io.EOF.
func interrupted(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// write writes the bytes to the target if they may belong to a recording.
func (d *Download) write(p []byte, mediaType string) error {
	if err := d.checkBytes(p, mediaType); err != nil {
		return err
	}
	if len(p) == 0 {
		return nil
	}
	if d.source.BeforeWrite != nil {
		if err := d.source.BeforeWrite(); err != nil {
			return failed("the recording is withheld", err)
		}
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

// checkBytes returns an error if the bytes cannot follow what was received: if there are none at all, if they begin a
// document, or if they are more than the recording has.
func (d *Download) checkBytes(p []byte, mediaType string) error {
	isFirst := d.received == 0
	after := d.received + int64(len(p))
	length := d.length()
	isTooLong := length != unknown && after > length && len(p) > 0
	switch {
	case after == 0:
		return unexpected(textEmpty)
	case isFirst && !isRecording(mediaType, p[:min(headSize, len(p))]):
		return unexpected(textDocument)
	case !isTooLong:
		return nil
	case d.total == unknown: // storage announced no length
		return sizeMismatch("the recording is longer than the service reports")
	}
	return unexpected("the recording is longer than storage announced")
}
