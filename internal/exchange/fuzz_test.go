package exchange_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func FuzzAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "5", "-1", "+5", "1.5", "9223372036", "9223372037", "18446744073709551616", "1e9", "0x10", "1_000", "١٢",
		"5 ", "00005",
		"Fri, 02 Jan 2026 03:04:05 GMT", "Friday, 02-Jan-26 03:04:05 GMT", "Fri Jan  2 03:04:05 2026",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 02 Jan 0000 03:04:05 GMT",
	} {
		f.Add(seed, int64(1767323045))
		f.Add(seed, int64(math.MinInt64))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix, 0)
		wait := exchange.RetryAfter(http.Header{"Retry-After": {value}}, now)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		switch at, err := http.ParseTime(value); {
		case err == nil:
			require.False(t, wait > 0 && !at.After(now), "the past asks for nothing")
		case value != "" && strings.Trim(value, "0123456789") == "":
			seconds, err := strconv.ParseUint(value, 10, 64)
			if err != nil || seconds > math.MaxInt64/uint64(time.Second) {
				require.Equal(t, time.Duration(math.MaxInt64), wait, "too large is the largest")
				return
			}
			require.Equal(t, time.Duration(seconds)*time.Second, wait)
		default:
			require.Zero(t, wait, "what is not understood asks for nothing")
		}
		for n := range 3 {
			require.GreaterOrEqual(t,
				exchange.Backoff(n, time.Millisecond, time.Second, wait, exchange.Jitter(t.Context())), wait,
				"never sooner than asked",
			)
		}
	})
}
