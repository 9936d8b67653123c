package tolerant

import (
	"bytes"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

const aMomentInTime = "a date-time"

// noTimeYear is the last year whose times stand for an absent time. A program without a time may send the first second
// of Unix's clock, in 1970, or a database's earliest date.
const noTimeYear = 1970

// Time reads a time in any of the forms a PHP service writes. The result is in UTC. It is zero for null, "", a
// database's zero date, and a time up to noTimeYear.
func Time(d *jsonscan.Decoder) time.Time { return readOrComplain(d.Warn, aMomentInTime, d, moment) }

// RequiredTime is Time for a record that is of no use without it.
func RequiredTime(d *jsonscan.Decoder) time.Time {
	return readOrComplain(d.FailExpecting, aMomentInTime, d, moment)
}

// moment reads a time. It returns false if the value is in a form that is not known, and notes a time without a zone.
func moment(d *jsonscan.Decoder) (value time.Time, ok bool) {
	if d.Kind() != jsonscan.String {
		return time.Time{}, d.Null()
	}
	text := d.TextBytes()
	if len(text) == 0 || isZeroDate(text) {
		return time.Time{}, true
	}
	value, zoneless, err := parseTime(text)
	value = value.UTC()
	year := value.Year()
	switch {
	case err != nil, year > 9999: // a zone can move it out of the years of JSON
		return time.Time{}, false
	case year <= noTimeYear:
		return time.Time{}, true
	}
	if zoneless {
		d.Zoneless = true
	}
	return value, true
}

// parseTime parses a time in any known form, and reports whether that form has no zone.
func parseTime(text []byte) (value time.Time, zoneless bool, err error) {
	err = value.UnmarshalText(text) // the usual form: this is fast
	if err == nil {
		return value, false, nil
	}
	upper := strings.ToUpper(string(text)) // RFC 3339 allows t and z
	for _, form := range timeForms {
		value, err = time.Parse(form, upper)
		if err == nil {
			return value, !strings.Contains(form, "Z07"), nil
		}
	}
	return time.Time{}, false, err
}

// isZeroDate reports whether the text is what MySQL stores for no date, or what PHP makes of it.
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
