package tolerant

import (
	"bytes"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

const aMomentInTime = "a date-time"

// Time reads a time in any of the forms a PHP service writes; the result is in UTC, and zero for null, "" and a
// database's zero date.
func Time(d *jsonscan.Decoder) time.Time { return orElse(d.Warn, aMomentInTime, d, moment) }

// RequiredTime is Time for a record that is of no use without it.
func RequiredTime(d *jsonscan.Decoder) time.Time { return orElse(d.Fail, aMomentInTime, d, moment) }

func moment(d *jsonscan.Decoder) (value time.Time, ok bool) {
	if d.Kind() != jsonscan.String {
		return time.Time{}, d.Null()
	}
	text := d.TextBytes()
	if len(text) == 0 || isZeroDate(text) {
		return time.Time{}, true
	}
	err := value.UnmarshalText(text) // the usual form, in little time
	zoneless := false
	for i := 0; err != nil && i < len(timeForms); i++ {
		value, err = time.Parse(timeForms[i], strings.ToUpper(string(text))) // RFC 3339 allows t and z
		zoneless = !strings.Contains(timeForms[i], "Z07")
	}
	value = value.UTC()
	if year := value.Year(); err != nil || year < 0 || year > 9999 { // a zone can move it out of the years of JSON
		return time.Time{}, false
	}
	if zoneless {
		d.Zoneless = true
	}
	return value, true
}

// isZeroDate recognises what MySQL stores for no date, and what PHP makes of it.
func isZeroDate(text []byte) bool {
	if len(bytes.Trim(text, "0123456789-:. TZ+")) > 0 {
		return false
	}
	return bytes.HasPrefix(text, []byte("0000-00-00")) || bytes.HasPrefix(text, []byte("-0001-11-"))
}

// timeForms are the forms of a time, the usual one first. Each also reads a fraction of a second.
var timeForms = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700",
	"2006-01-02T15:04:05Z07", "2006-01-02 15:04:05Z07",
	"2006-01-02",
}
