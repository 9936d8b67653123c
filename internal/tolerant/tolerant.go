// Package tolerant reads JSON in the forms that services use, so each model reads its members in one line each:
//
//   - null stands for an absent value of any kind; [] for an empty object;
//   - a number may come as a string, a whole number that is not an ID with a fraction of zeros, a flag as 0 or 1, a
//     duration as 00:03:10;
//   - a time may lack its zone (then it is UTC), its T, or be empty, a database's zero date or of 1970 and before;
//   - a single record may be wrapped in "data".
//
// A value of any other form is read as zero and recorded in Decoder.Warnings, with its path and kind but never the
// value. The functions named Required fail the document instead.
package tolerant

import (
	"bytes"
	"math"
	"regexp"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// readOrComplain reads a value, and reports one in a form that its reader does not know. Such a value counts as absent
// (Decoder.Warn), or makes the record unusable (Decoder.Fail).
func readOrComplain[T any](
	complain func(want string), want string, d *jsonscan.Decoder, read func(*jsonscan.Decoder) (T, bool),
) T {
	value, ok := read(d)
	if !ok {
		complain(want)
	}
	return value
}

// Text reads a text, "" for null. It is stored by the decoder's Flush, those of a record in one piece of memory.
func Text(d *jsonscan.Decoder, to *string) { text(d.Warn, d, to) }

// RequiredText is Text for a record that is of no use without it.
func RequiredText(d *jsonscan.Decoder, to *string) { text(d.FailExpecting, d, to) }

// text reads a text into *to, and complains about any value except a string and null.
func text(complain func(want string), d *jsonscan.Decoder, to *string) {
	var value []byte // nil replaces one that came before under the same key
	if d.Kind() == jsonscan.String {
		value = d.TextBytes()
	} else if !d.Null() {
		complain("string")
	}
	d.Intern(to, value)
}

const aWholeNumber = "a whole number"

// Integer reads a whole number; 0 for null and "".
func Integer(d *jsonscan.Decoder) int64 { return readOrComplain(d.Warn, aWholeNumber, d, integer) }

// IntegerIn reads a whole number where other values may occur, which count as 0. It reports whether it could be
// read.
func IntegerIn(d *jsonscan.Decoder) (int64, bool) { return integer(d) }

// ID reads an id, which is decimal digits and nothing else: what a fraction or an exponent writes may be another id's.
// 0 for null and "".
func ID(d *jsonscan.Decoder) int64 { return readOrComplain(d.Warn, aWholeNumber, d, id) }

// RequiredID is ID for a record that is of no use without it.
func RequiredID(d *jsonscan.Decoder) int64 {
	return readOrComplain(d.FailExpecting, aWholeNumber, d, id)
}

func integer(d *jsonscan.Decoder) (int64, bool) { return number(d, wholeNumber) }
func id(d *jsonscan.Decoder) (int64, bool)      { return number(d, exactID) }

// number reads a number, also in a string, and parses its digits. It returns 0 for null and an empty string. It returns
// false if the value has another form.
func number(d *jsonscan.Decoder, parse func([]byte) (int64, bool)) (value int64, ok bool) {
	digits, ok := literal(d)
	if len(digits) == 0 {
		return 0, ok
	}
	return parse(digits)
}

// exactID parses an id: digits and nothing else.
func exactID(digits []byte) (value int64, ok bool) {
	n, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil {
		return 0, false // n may be the largest number
	}
	return int64(n), true
}

// wholeNumber parses a number without a fraction, also one that is written with zeros after the point or with an
// exponent.
func wholeNumber(digits []byte) (value int64, ok bool) {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(digits), 64)
	if err != nil || f != math.Trunc(f) {
		return 0, false
	}
	if math.Abs(f) > 1<<53 { // a float64 is not exact above that
		return 0, false
	}
	return int64(f), true
}

// literal returns the text of a number or a string. It returns none for null and an empty string, and false for a
// value of any other kind.
func literal(d *jsonscan.Decoder) (digits []byte, ok bool) {
	switch d.Kind() {
	case jsonscan.String:
		return bytes.TrimSpace(d.TextBytes()), true
	case jsonscan.Number:
		return d.Raw(), true
	default:
		return nil, d.Null()
	}
}

// Seconds reads a number of seconds, also as hours, minutes and seconds; 0 for null and "".
func Seconds(d *jsonscan.Decoder) float64 { return readOrComplain(d.Warn, "a number", d, seconds) }

// clock matches a duration such as 00:03:10. Two parts could be hours or minutes, so they are not read.
var clock = regexp.MustCompile(`^(\d{1,4}):([0-5]\d):([0-5]\d(?:\.\d*)?)$`)

// seconds reads a number of seconds or a duration. It returns false if the value has another form.
func seconds(d *jsonscan.Decoder) (value float64, ok bool) {
	digits, ok := literal(d)
	if len(digits) == 0 {
		return 0, ok
	}
	value, err := strconv.ParseFloat(string(digits), 64)
	if err == nil && math.Abs(value) <= math.MaxFloat64 { // neither NaN nor infinite
		return value, true
	}
	value = 0
	parts := clock.FindSubmatch(digits)
	for i := 1; i < len(parts); i++ {
		part, _ := strconv.ParseFloat(string(parts[i]), 64)
		value = value*60 + part
	}
	return value, parts != nil
}

// Bool reads a flag; false for null and "".
func Bool(d *jsonscan.Decoder) bool {
	if d.Kind() == jsonscan.Bool {
		return d.Bool()
	}
	digits, ok := literal(d)
	switch string(digits) {
	case "1", "true":
		return true
	case "", "0", "false":
		if ok {
			return false
		}
	}
	d.Warn("a boolean")
	return false
}
