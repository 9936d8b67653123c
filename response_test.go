package clinicaldoc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestRateLimitResetIsJudgedByItsMagnitude(t *testing.T) {
	t.Parallel()
	// The clock of synctest starts at midnight UTC, 1 January 2000: 946684800.
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Time{
		"946684840":            start.Add(40 * time.Second), // in seconds
		"946684840000":         start.Add(40 * time.Second),
		"946684840000000":      start.Add(40 * time.Second),
		"946684840000000000":   start.Add(40 * time.Second),
		"40":                   start.Add(40 * time.Second),
		"1":                    start.Add(time.Second),
		"86400":                start.Add(24 * time.Hour),
		"2678400":              start.Add(31 * 24 * time.Hour), // the longest that is believed
		"2678401":              {},
		"949363200":            start.Add(31 * 24 * time.Hour),
		"949363201":            {},
		"949363201000":         {},
		"99999999":             {},
		"100000000":            time.Unix(1e8, 0).UTC(), // passed long ago
		"99999999999":          {},
		"100000000000":         time.UnixMilli(1e11).UTC(),
		"100000000000000":      time.UnixMicro(1e14).UTC(),
		"100000000000000000":   time.Unix(0, 1e17).UTC(),
		"946684700":            start.Add(-100 * time.Second),
		"9223372036854775807":  {},
		"9223372036854775808":  {},
		"-5":                   {},
		"0":                    {},
		"":                     {},
		"soon":                 {},
		"40.5":                 {},
		"2000-01-01T00:00:40Z": {},
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1), "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", value))
				var response clinicaldoc.Response
				_, err := client.Notes.Get(t.Context(), 7, clinicaldoc.WithResponse(&response))
				require.NoError(t, err)
				assert.Equal(t, clinicaldoc.RateLimit{Limit: 60, Remaining: 3, Reset: want}, response.RateLimit)
			})
		})
	}
}

func TestRateLimitResetGoesByTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1), "X-RateLimit-Reset", "40", "Date", "Sat, 01 Jan 2000 10:00:00 GMT"))
		var response clinicaldoc.Response
		_, err := client.Notes.Get(t.Context(), 7, clinicaldoc.WithResponse(&response))
		require.NoError(t, err)
		assert.Equal(t, time.Date(2000, 1, 1, 10, 0, 40, 0, time.UTC), response.RateLimit.Reset)
	})
}
