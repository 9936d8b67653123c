package download

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func failedWith(err error) *exchange.Attempt { return &exchange.Attempt{Err: err} }

// prepare has the download make its next request.
func prepare(t *testing.T, d *Download) (*http.Request, error) {
	t.Helper()
	req := (&http.Request{}).WithContext(t.Context())
	return req, d.Prepare(req)
}

func TestNext_NewByte_ResetsTheFailures(t *testing.T) {
	t.Parallel()
	d := newTest(io.Discard)
	broken := Explain(&exchange.Attempt{Step: exchange.Network, Cause: io.ErrUnexpectedEOF})
	for n := 1; n <= 3; n++ {
		assert.Equal(t, exchange.Next{Retry: true, Failures: n}, d.Next(failedWith(broken)))
	}
	assert.Equal(t, exchange.Next{}, d.Next(failedWith(broken)))
	d.furthest++
	assert.Equal(t, exchange.Next{Retry: true, Failures: 1}, d.Next(failedWith(broken)))
	assert.Equal(t, exchange.Next{Retry: true, Failures: 2}, d.Next(failedWith(broken)), "the byte counts once")
}

// If storage refuses the address, a fresh one is used at once. If it refuses that one too, the download ends, unless a
// new byte came in between. Without retries no fresh address is used.
func TestNext_AddressRefused_AsksForOneFreshAddressPerNewByte(t *testing.T) {
	t.Parallel()
	refusal := &Error{Status: 403, Then: Renew}
	freshAtOnce, giveUp := exchange.Next{Retry: true, WithoutPause: true}, exchange.Next{}
	d := newTest(io.Discard)
	addresses := 0
	d.source.Address = func(context.Context) (*Address, error) {
		addresses++
		return &Address{URL: "https://storage.clinic.test/7"}, nil
	}
	d.source.MaxRetries = 1
	_, err := prepare(t, d)
	require.NoError(t, err)
	assert.Equal(t, freshAtOnce, d.Next(failedWith(refusal)))
	_, err = prepare(t, d)
	require.NoError(t, err)
	assert.Equal(t, 2, addresses)
	assert.Equal(t, giveUp, d.Next(failedWith(refusal)), "the fresh address is refused too")
	d.furthest++ // a new byte came
	assert.Equal(t, freshAtOnce, d.Next(failedWith(refusal)))

	withoutRetries := newTest(io.Discard)
	withoutRetries.source.MaxRetries = 0
	assert.Equal(t, giveUp, withoutRetries.Next(failedWith(refusal)))
}

func TestNext_PermanentFailure_Stops(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		errors.New("synthetic: of the service"), &Error{}, &Error{Causes: []error{ErrChanged}}, unexpected(textDocument),
	} {
		assert.Equal(t, exchange.Next{}, newTest(io.Discard).Next(failedWith(err)))
	}
	after := &Error{Status: 503, Then: Retry}
	d := newTest(io.Discard)
	assert.Equal(t, exchange.Next{Retry: true, Failures: 1}, d.Next(failedWith(after)))
	d.source.MaxRetries = 0
	assert.Equal(t, exchange.Next{}, d.Next(failedWith(after)))
}

func TestReceive_RefusalStatus_DecidesWhatHelps(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]Then{
		301: Stop, 304: Stop, 307: Stop, 400: Renew, 401: Renew, 403: Renew, 404: Renew, 405: Stop, 408: Retry, 410: Stop,
		412: Stop, 425: Retry, 429: Retry,
		500: Retry, 501: Stop, 502: Retry, 503: Retry, 504: Retry, 505: Stop,
	} {
		body := strings.NewReader("https://storage.clinic.test/7?X-Amz-Signature=SYNTHETIC")
		resp := respond(status, body, -1, "Retry-After", "7", "X-Request-Id", "1")
		_, err := take(t, newTest(io.Discard), resp)
		var failure *Error
		require.ErrorAs(t, err, &failure)
		require.NotErrorIs(t, err, exchange.ErrUnexpected, status)
		assert.Equal(t, want, failure.Then, status)
		assert.Equal(t, status, failure.Status)
		assert.Equal(t, "7", failure.Header.Get("Retry-After"))
		assert.Equal(t, "1", failure.Header.Get("X-Request-Id"))
		assert.NotContains(t, failure.Error(), "SYNTHETIC")
		assert.Zero(t, body.Len(), "it is read, so that the connection can be used again")
		redirects := status == 301 || status == 307
		assert.Equal(t,
			redirects || want != Stop, strings.Contains(failure.Error(), ";"), "it says what it may mean: %d", status,
		)
	}
	long := strings.NewReader(strings.Repeat("synthetic", 1<<20))
	_, err := take(t, newTest(io.Discard), respond(503, long, -1))
	require.Error(t, err)
	assert.Greater(t, long.Len(), 1<<20, "a long body is not read to its end")
	for _, status := range []int{201, 202, 204, 299} {
		_, err := take(t, newTest(io.Discard), respond(status, http.NoBody, 0))
		var failure *Error
		require.ErrorAs(t, err, &failure)
		assert.Zero(t, failure.Status)
		assert.ErrorIs(t, err, exchange.ErrUnexpected, status)
	}
}

// The first request is for the complete recording. After a response that was cut, the next one is for the rest, on the
// condition that the recording is the same.
func TestDownload_RequestsWhatIsMissing(t *testing.T) {
	t.Parallel()
	const total = 1000
	d := newTest(io.Discard)
	d.source.Address = func(context.Context) (*Address, error) {
		return &Address{URL: "https://storage.clinic.test/7?a=b#fragment"}, nil
	}
	requireRequest := func(want http.Header) {
		t.Helper()
		req, err := prepare(t, d)
		require.NoError(t, err)
		assert.Equal(t, "https://storage.clinic.test/7?a=b", req.URL.String())
		assert.Equal(t, want, req.Header)
	}

	requireRequest(http.Header{"Accept-Encoding": {"identity"}})
	complete := audio(total)
	_, err := take(t, d, respond(http.StatusOK, cutAfter(complete, 100), total, "ETag", `"1"`))
	require.Error(t, err, "cut after 100 bytes")

	requireRequest(http.Header{"Accept-Encoding": {"identity"}, "Range": {"bytes=100-"}, "If-Range": {`"1"`}})
	rest := complete[100:]
	_, err = take(t, d, respond(http.StatusPartialContent, cutAfter(rest, 200), total-100,
		"ETag", `"1"`, "Content-Range", "bytes 100-999/1000"))
	require.Error(t, err, "cut after 200 more bytes")

	requireRequest(http.Header{"Accept-Encoding": {"identity"}, "Range": {"bytes=300-"}, "If-Range": {`"1"`}})
}

func TestPrepare_UnsafeAddress_IsNotUsed(t *testing.T) {
	t.Parallel()
	for address, used := range map[string]bool{
		"https://storage.clinic.test/7": true, "http://allowed.clinic.test/7": true, "http://storage.clinic.test/7": false,
		"https://user:secret@storage.clinic.test/7": false, "ftp://allowed.clinic.test/7": false, "https://%zz": false,
	} {
		d := newTest(io.Discard)
		d.source.PlainHTTP = func(u *url.URL) bool { return u.Host == "allowed.clinic.test" }
		d.source.Address = func(context.Context) (*Address, error) { return &Address{URL: address}, nil }
		_, err := prepare(t, d)
		assert.Equal(t, used, err == nil, address)
		if err != nil {
			assert.NotContains(t, err.Error(), "secret")
		}
	}
}

func TestPrepare_ExpiredAddress_IsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newTest(io.Discard)
		var expiry time.Time // unknown at first
		requested := 0
		d.source.Address = func(context.Context) (*Address, error) {
			requested++
			return &Address{URL: "https://storage.clinic.test/7", ExpiresAt: expiry}, nil
		}
		requireRequested := func(want int, why string) {
			t.Helper()
			_, err := prepare(t, d)
			require.NoError(t, err)
			require.Equal(t, want, requested, why)
		}
		requireRequested(1, "there is none")
		requireRequested(1, "it may never expire")
		expiry = time.Now().Add(time.Hour)
		d.address = nil
		requireRequested(2, "there is none")
		time.Sleep(time.Hour - time.Nanosecond)
		requireRequested(2, "it has not expired")
		time.Sleep(time.Nanosecond)
		requireRequested(3, "it has expired")
	})
}

func TestPrepare_CannotContinueOrRewind_ReturnsErrChanged(t *testing.T) {
	t.Parallel()
	d := newTest(new(bytes.Buffer))
	_, err := take(t, d, respond(200, cutAfter(audio(1000), 100), 1000))
	require.Error(t, err)
	_, err = prepare(t, d)
	require.ErrorIs(t, err, ErrChanged)
	assert.Equal(t, int64(100), d.Received())
}

// What an earlier call left is continued only if it comes from the same location, whose signature may be another one.
// An ETag of another location, such as another tenant's, may belong to another patient's recording.
func TestPrepare_PartOfAnotherLocation_IsDiscarded(t *testing.T) {
	t.Parallel()
	data := audio(1000)
	for address, want := range map[string]string{
		"https://storage.clinic.test/7?signature=2": "bytes=700-",
		"https://STORAGE.clinic.test/7#fragment":    "bytes=700-",
		"https://storage.clinic.test/8?signature=1": "",
		"https://storage.other.test/7?signature=1":  "",
	} {
		path := filepath.Join(t.TempDir(), "visit.wav")
		source := newTest(io.Discard).source
		at := "https://storage.clinic.test/7?signature=1"
		source.Address = func(context.Context) (*Address, error) { return &Address{URL: at}, nil }
		part, err := OpenPart(t.Context(), path, of)
		require.NoError(t, err)
		d := New(source, part)
		_, err = prepare(t, d)
		require.NoError(t, err)
		_, err = take(t, d, respond(200, endsEarly(data[:700]), 1000, "ETag", `"1"`))
		require.Error(t, err)
		part.Leave()

		at = address
		part, err = OpenPart(t.Context(), path, of)
		require.NoError(t, err)
		d = New(source, part)
		assert.EqualValues(t, 700, d.Received())
		req, err := prepare(t, d)
		require.NoError(t, err)
		assert.Equal(t, want, req.Header.Get("Range"), address)
		assert.Empty(t, req.URL.Fragment)
		part.Leave()
	}
}
