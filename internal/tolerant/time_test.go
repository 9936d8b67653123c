package tolerant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

func TestTime_EveryForm_IsRead(t *testing.T) {
	t.Parallel()
	const noTime = ""
	for document, want := range map[string]string{
		`"2026-03-04T05:06:07Z"`:          "2026-03-04T05:06:07Z",
		`"2026-03-04t05:06:07z"`:          "2026-03-04T05:06:07Z",
		`"2026-03-04T05:06:07.125+02:00"`: "2026-03-04T03:06:07.125Z",
		`"2026-03-04T05:06:07+0200"`:      "2026-03-04T03:06:07Z",
		`"2026-03-04 05:06:07+02:00"`:     "2026-03-04T03:06:07Z",
		`"2026-03-04 05:06:07.5"`:         "2026-03-04T05:06:07.5Z",
		`"2026-03-04T05:06:07"`:           "2026-03-04T05:06:07Z",
		`"2026-03-04 05:06:07+0200"`:      "2026-03-04T03:06:07Z",
		`"2026-03-04 05:06:07+02"`:        "2026-03-04T03:06:07Z",
		`"2026-03-04T05:06:07+02"`:        "2026-03-04T03:06:07Z",
		`"2026-03-04T05:06:07\u002b02"`:   "2026-03-04T03:06:07Z",
		`"2026-03-04"`:                    "2026-03-04T00:00:00Z",
		// The last year that JSON can hold.
		`"9999-12-31T23:59:59Z"`:      "9999-12-31T23:59:59Z",
		`"9999-12-31T23:59:59-01:00"`: unreadable,
		// What programs send for no time.
		`"1970-01-01T00:00:00.000000Z"`: noTime,
		`"1970-01-01 01:00:00"`:         noTime,
		`"1969-12-31T19:00:00"`:         noTime,
		`"1970-12-31T23:59:59Z"`:        noTime,
		`"1971-01-01T00:00:00Z"`:        "1971-01-01T00:00:00Z",
		`"1900-01-01 00:00:00"`:         noTime,
		`"0001-01-01T00:00:00+01:00"`:   noTime,
		`"0000-01-01T00:00:00+01:00"`:   noTime,
		// What databases store for no date.
		`"0000-00-00"`:                   noTime,
		`"0000-00-00 00:00:00"`:          noTime,
		`"-0001-11-29T23:06:32+00:00"`:   noTime,
		`"-0001-11-30T00:00:00.000000Z"`: noTime,
		`null`:                           noTime,
		`""`:                             noTime,
		`"0000-00-00 or so"`:             unreadable,
		`1772600767`:                     unreadable,
	} {
		assert.Equal(t, want, read(t, document, formattedTime), document)
	}
}

// formattedTime reads a time and returns it as text. It returns "" for no time.
func formattedTime(d *jsonscan.Decoder) string {
	value := tolerant.Time(d)
	if value.IsZero() {
		return ""
	}
	return value.Format(time.RFC3339Nano)
}

// A time without a zone counts as UTC, and the decoder notes that there was one.
func TestTime_WithoutZone_IsNoted(t *testing.T) {
	t.Parallel()
	for document, isZoneless := range map[string]bool{
		`"2026-03-04T05:06:07"`:      true,
		`"2026-03-04 05:06:07"`:      true,
		`"2026-03-04"`:               true,
		`"2026-03-04 05:06:07Z"`:     false,
		`"2026-03-04T05:06:07+0200"`: false,
		`"2026-03-04T05:06:07Z"`:     false,
	} {
		d := jsonscan.New([]byte("[" + document + "]"))
		for range d.Elements() {
			tolerant.Time(d)
		}
		assert.Equal(t, isZoneless, d.Zoneless, document)
	}
}

// A float64 holds each whole number up to 2^53, and not each one after it.
func TestInteger_WithExponent_IsReadUpToExactness(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "9007199254740992", read(t, `9007199254740992.0`, tolerant.Integer))
	assert.Equal(t, "-9007199254740992", read(t, `-9007199254740992.0`, tolerant.Integer))
	assert.Equal(t, unreadable, read(t, `9007199254740994.0`, tolerant.Integer))
}

func TestSeconds_LargestNumber_IsRead(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "1.7976931348623157e+308", read(t, `1.7976931348623157e308`, tolerant.Seconds))
}
