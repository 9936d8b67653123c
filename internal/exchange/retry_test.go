package exchange_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestMayRetry_EffectAndOutcome_Decide(t *testing.T) {
	t.Parallel()
	type outcome = exchange.Outcome
	for _, tc := range []struct {
		outcome                    outcome
		reads, repeatable, creates bool
		unknown                    bool
	}{
		{outcome{Sent: exchange.Never}, true, true, true, false},
		{outcome{Sent: exchange.Partly}, true, true, true, false},
		{outcome{Sent: exchange.Wholly}, true, true, false, true},
		{outcome{Sent: exchange.Never, Permanent: true}, false, false, false, false},
		{outcome{Sent: exchange.Wholly, Permanent: true}, false, false, false, true},
		{outcome{Status: 101, Sent: exchange.Wholly}, false, false, false, true},
		{outcome{Status: 200, Sent: exchange.Wholly}, false, false, false, true},
		{outcome{Status: 301}, false, false, false, false},
		{outcome{Status: 302}, false, false, false, true},
		{outcome{Status: 303}, false, false, false, true},
		{outcome{Status: 304}, false, false, false, true},
		{outcome{Status: 307}, false, false, false, false},
		{outcome{Status: 308}, false, false, false, false},
		{outcome{Status: 400}, false, false, false, false},
		{outcome{Status: 404}, false, false, false, false},
		{outcome{Status: 408, Sent: exchange.Partly}, true, true, false, false},
		{outcome{Status: 408, Sent: exchange.Wholly}, true, true, false, true},
		{outcome{Status: 425}, true, true, false, false},
		{outcome{Status: 429}, true, true, true, false},
		{outcome{Status: 429, Permanent: true}, false, false, false, false},
		{outcome{Status: 500}, true, true, false, true},
		{outcome{Status: 501}, false, false, false, true},
		{outcome{Status: 502}, true, true, false, true},
		{outcome{Status: 503}, true, true, false, true},
		{outcome{Status: 505}, false, false, false, true},
		{outcome{Status: 599}, true, true, false, true},
	} {
		name := fmt.Sprintf("%+v", tc.outcome)
		assert.Equal(t, tc.reads, exchange.Reads.MayRetry(tc.outcome), name)
		assert.Equal(t, tc.repeatable, exchange.Repeatable.MayRetry(tc.outcome), name)
		assert.Equal(t, tc.creates, exchange.Creates.MayRetry(tc.outcome), name)
		assert.Equal(t, tc.unknown, tc.outcome.Unknown(), name)
	}
}

func TestMayRetry_CreateThatMayBeProcessed_IsNotRetried(t *testing.T) {
	t.Parallel()
	for status := range 600 {
		for _, sent := range []exchange.Sent{exchange.Never, exchange.Partly, exchange.Wholly} {
			o := exchange.Outcome{Status: status, Sent: sent}
			if exchange.Creates.MayRetry(o) {
				assert.False(t, o.Unknown(), "%+v", o)
			}
		}
	}
}

// The longest pause is one and a half times the least, doubled for each retry up to the most. Jitter takes away up to a
// third.
func TestBackoff_EachRetry_IsWithinItsRange(t *testing.T) {
	t.Parallel()
	const least, most = 500 * time.Millisecond, 30 * time.Second
	for n, longest := range []time.Duration{
		least * 3 / 2, 3 * least, 6 * least, 12 * least, 24 * least, 48 * least, most, most,
	} {
		for range 200 {
			wait := exchange.Backoff(n, least, most, 0, exchange.Jitter(t.Context()))
			assert.GreaterOrEqual(t, wait, longest-longest/3)
			assert.LessOrEqual(t, wait, longest)
		}
	}
	for _, n := range []int{61, 62, 63, 64, 1000, math.MaxInt} {
		wait := exchange.Backoff(n, least, most, 0, exchange.Jitter(t.Context()))
		assert.GreaterOrEqual(t, wait, most-most/3, "no overflow at %d", n)
		assert.LessOrEqual(t, wait, most)
	}
}

func TestBackoff_AnyBounds_AreKept(t *testing.T) {
	t.Parallel()
	const least, most = 500 * time.Millisecond, 30 * time.Second
	assert.Equal(t, time.Minute, exchange.Backoff(0, least, most, time.Minute, 0.5), "never less than asked for")
	assert.Zero(t, exchange.Backoff(3, 0, 0, 0, exchange.Jitter(t.Context())), "no pause at all")
	assert.EqualValues(t, 3, exchange.Backoff(0, 2, 5, 0, 1), "half more than the least, with full jitter")
	assert.EqualValues(t, 5, exchange.Backoff(1, 2, 5, 0, 1), "doubled as long as that is not too much")
	assert.EqualValues(t, 12, exchange.Backoff(3, 1, 15, 0, 1), "also if no further doubling would fit")
	assert.Equal(t, least, exchange.Backoff(0, least, most, 0, 0), "never less than the least")
	assert.Equal(t, most, exchange.Backoff(0, most+1, most, 0, 0.5), "never more than the most")
	assert.EqualValues(t, 1, exchange.Backoff(0, 1, 1, 0, exchange.Jitter(t.Context())), "no rounding below the least")
	const longest = time.Duration(math.MaxInt64)
	assert.Equal(t, longest, exchange.Backoff(5, longest, longest, 0, 1), "no overflow")
}

func TestRetryAfter_Date_IsByTheServersClock(t *testing.T) {
	t.Parallel()
	theirs := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	header := http.Header{
		"Date": {theirs.Format(http.TimeFormat)}, "Retry-After": {theirs.Add(7 * time.Second).Format(http.TimeFormat)},
	}
	for _, ours := range []time.Duration{-time.Hour, 0, time.Hour} {
		assert.Equal(t, 7*time.Second, exchange.RetryAfter(header, theirs.Add(ours)))
	}
}

func TestRetryAfter_EveryForm_IsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, "-1": 0, "1.5": 0, "+5": 0, " 5": 0, "5s": 0, "soon": 0,
		"9223372036":           9223372036 * time.Second,
		"9223372037":           math.MaxInt64,
		"9300000000":           math.MaxInt64,
		"18446744073709551616": math.MaxInt64,
		now.Add(90 * time.Second).Format(http.TimeFormat):   90 * time.Second,
		now.Add(90 * time.Second).Format(time.ANSIC):        90 * time.Second,
		"Friday, 02-Jan-26 03:04:15 GMT":                    10 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):         0,
		now.AddDate(5000, 0, 0).Format(http.TimeFormat):     math.MaxInt64,
		now.AddDate(0, 0, 1).Format("2006-01-02T15:04:05Z"): 0,
	} {
		assert.Equal(t, want, exchange.RetryAfter(http.Header{"Retry-After": {value}}, now), value)
	}
}

func TestPermanent_Configuration_IsNotRetried(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		x509.UnknownAuthorityError{},
		x509.HostnameError{Certificate: new(x509.Certificate)},
		x509.CertificateInvalidError{Reason: x509.Expired},
		tls.RecordHeaderError{},
		http.ErrSchemeMismatch,
		&net.DNSError{IsNotFound: true},
		&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}},
		fmt.Errorf("wrapped: %w", x509.UnknownAuthorityError{}),
	} {
		assert.True(t, exchange.Permanent(err), "%T", err)
	}
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET, errors.New("synthetic"),
		&net.DNSError{IsTimeout: true}, &net.DNSError{IsTemporary: true}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	} {
		assert.False(t, exchange.Permanent(err), "%T", err)
	}
}

func TestBackoff_GrowsUpToTheMost(t *testing.T) {
	t.Parallel()
	const least, most = time.Second, 10 * time.Second
	for _, tc := range []struct {
		n      int
		asked  time.Duration
		spread float64
		want   time.Duration
	}{
		{0, 0, 0, time.Second},
		{0, 0, 1, 1500 * time.Millisecond},
		{1, 0, 0.5, 2500 * time.Millisecond},
		{2, 0, 1, 6 * time.Second},
		{3, 0, 1, most},
		{4, 0, 1, most},
		{61, 0, 1, most},
		{62, 0, 1, most},
		{1000, 0, 0, most - most/3},
		{0, 3 * time.Second, 0, 3 * time.Second},
		{5, time.Second, 1, most},
		{0, math.MaxInt64, 1, math.MaxInt64},
	} {
		assert.Equal(t, tc.want, exchange.Backoff(tc.n, least, most, tc.asked, tc.spread), "%+v", tc)
	}
	for n := 3; n < 100; n++ {
		assert.Equal(t, most, exchange.Backoff(n, least, most, 0, 1), "no overflow at %d", n)
	}
}

func TestRefused_OnlyUnprocessedHTTP2Requests(t *testing.T) {
	t.Parallel()
	refused := []string{
		"http2: Transport received Server's graceful shutdown GOAWAY",
		"stream error: stream ID 3; REFUSED_STREAM",
		"stream error: stream ID 3; REFUSED_STREAM; received from peer",
		"http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body",
		"http2: Transport: cannot retry err [stream error: stream ID 7; REFUSED_STREAM; received from peer] after Request",
	}
	otherErrors := []string{
		"stream error: stream ID 3; PROTOCOL_ERROR; received from peer",
		"stream error: stream ID 3; INTERNAL_ERROR",
		"stream error: stream ID ; REFUSED_STREAM",
		"http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR",
		"malformed HTTP response \"stream error: stream ID 3; REFUSED_STREAM\"",
		" stream error: stream ID 3; REFUSED_STREAM",
		"synthetic\nstream error: stream ID 3; REFUSED_STREAM",
		"",
	}
	for _, text := range refused {
		assert.True(t, exchange.Refused(errors.New(text)), text)
	}
	for _, text := range otherErrors {
		assert.False(t, exchange.Refused(errors.New(text)), text)
	}
	assert.False(t, exchange.Refused(nil))
}

func TestJitter_RandomUnlessTheContextHasASource(t *testing.T) {
	t.Parallel()
	seen := map[float64]bool{}
	for range 100 {
		x := exchange.Jitter(t.Context())
		assert.GreaterOrEqual(t, x, 0.0)
		assert.Less(t, x, 1.0)
		seen[x] = true
	}
	assert.Greater(t, len(seen), 90, "random where nobody says otherwise")

	own := exchange.WithJitter(t.Context(), func() float64 { return 0.25 })
	assert.InDelta(t, 0.25, exchange.Jitter(own), 0)
}

// The service's clock dates another user's edit. Setting our clock does not change the result.
func TestServerTimeThen_OurClockIsSet_StaysRight(t *testing.T) {
	t.Parallel()
	then := time.Now()
	for name, now := range map[string]time.Time{
		"no step":                  then.Add(7 * time.Second),
		"set back":                 setClock(then.Add(7*time.Second), -time.Hour),
		"slept, or set forward":    setClock(then.Add(7*time.Second), time.Hour),
		"without a monotonic time": then.Add(7 * time.Second).Round(0),
	} {
		date := then.Add(7*time.Second - 10*time.Minute) // the server's clock is behind
		want := then.Add(-10 * time.Minute)
		if name == "slept, or set forward" {
			want = want.Add(-time.Hour) // as if it had slept: rather too early
		}
		header := http.Header{"Date": {date.UTC().Format(http.TimeFormat)}}
		assert.WithinDuration(t,
			want.Round(0), exchange.ServerTimeThen(header, then, now).Round(0), 1500*time.Millisecond, name,
		)
	}
	assert.True(t, then.Equal(exchange.ServerTimeThen(nil, then, then.Add(7*time.Second))), "without a Date, ours")
}

// setClock is a time as it is read after the clock was set, which the monotonic one does not follow.
func setClock(at time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&at)) // seconds since 1885 above thirty bits of nanoseconds
	*wall += uint64(by/time.Second) << 30
	return at
}
