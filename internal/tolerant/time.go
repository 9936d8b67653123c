package tolerant

import (
	"bytes"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// Time reads a time in any of the forms a PHP service writes; the result is in UTC, and zero for null, "" and a
// database's zero date.
func Time(d *jsonscan.Decoder) time.Time { return optional(d, aMomentInTime, moment) }

// RequiredTime is Time for a record that is of no use without it.
func RequiredTime(d *jsonscan.Decoder) time.Time { return required(d, aMomentInTime, moment) }

func moment(d *jsonscan.Decoder) (value time.Time, ok bool) {
	if d.Null() {
		return time.Time{}, true
	}
	if d.Kind() != jsonscan.String {
		return time.Time{}, false
	}
	text := d.TextBytes()
	if len(text) == 0 || isZeroDate(text) {
		return time.Time{}, true
	}
	t, ok := parseTime(text)
	if ok && !hasZone(text) {
		d.Zoneless = true
	}
	if year := t.Year(); !ok || year < 0 || year > 9999 { // a zone can lead out of the years that JSON's times have
		return time.Time{}, false
	}
	return t, true
}

// isZeroDate recognises what MySQL stores for no date, and what PHP makes of it.
func isZeroDate(text []byte) bool {
	return (bytes.HasPrefix(text, []byte("0000-00-00")) || bytes.HasPrefix(text, []byte("-0001-11-"))) &&
		len(bytes.Trim(text, "0123456789-:. TZ+")) == 0
}

// looseTimes are the forms of a time beside RFC 3339. Each also reads a fraction of a second.
var looseTimes = []string{
	"2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700",
	"2006-01-02T15:04:05Z07", "2006-01-02 15:04:05Z07",
	"2006-01-02",
}

// hasZone reports whether a time says of which place it is.
func hasZone(text []byte) bool {
	const date = len("2006-01-02")
	return len(text) > date && bytes.ContainsAny(text[date:], "Zz+-")
}

func parseTime(text []byte) (value time.Time, ok bool) {
	var t time.Time
	if err := t.UnmarshalText(text); err == nil {
		return t.UTC(), true
	}
	text = bytes.ToUpper(text) // RFC 3339 allows t and z
	if err := t.UnmarshalText(text); err == nil {
		return t.UTC(), true
	}
	for _, layout := range looseTimes {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
