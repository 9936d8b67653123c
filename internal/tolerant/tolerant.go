// Package tolerant reads JSON as a service may well write it, so that each model reads its fields by one-liners:
//
//   - null stands for an absent value of any kind; [] for an empty object;
//   - a number may come as a string, a whole number with a fraction of zeros, a flag as 0 or 1;
//   - a time may lack its zone (then it is UTC), its T, or be empty;
//   - a single object may be wrapped in "data"; fields nobody described are skipped.
//
// Everything else that differs from the description is an error that tells the path and the kinds, never the value.
package tolerant

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// fixedError is a constant text without data.
type fixedError string

func (e fixedError) Error() string    { return string(e) }
func (e fixedError) SafeText() string { return string(e) }

// Errors of documents that are no record. Their texts hold no data.
const (
	ErrEmpty = fixedError("it is empty")
	ErrNoID  = fixedError("it holds no id")
)

// Object loops over the fields of an object, of which there are none in null and [].
func Object(d *jsonscan.Decoder, field func(key []byte)) {
	switch d.Kind() {
	case jsonscan.Null:
		d.Skip()
	case jsonscan.Array:
		for range d.Elements() {
			d.Fail("an object")
		}
	default:
		for key := range d.Fields() {
			field(key)
		}
	}
}

// List loops over the elements of an array, of which there are none in null.
func List(d *jsonscan.Decoder, element func()) {
	if d.Null() {
		return
	}
	for range d.Elements() {
		element()
	}
}

func Text(d *jsonscan.Decoder) string {
	if d.Null() {
		return ""
	}
	return d.Text()
}

// literal returns a number's digits, also of a number in a string; nil for null and the empty string.
func literal(d *jsonscan.Decoder) []byte {
	switch d.Kind() {
	case jsonscan.Null:
		d.Skip()
		return nil
	case jsonscan.String:
		return d.TextBytes()
	default:
		return d.NumberBytes()
	}
}

func Integer(d *jsonscan.Decoder) int64 {
	digits := literal(d)
	if len(digits) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(digits), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		d.Fail("a whole number")
		return 0
	}
	return int64(f)
}

// IntegerOrZero reads a number where anything else may stand as well, which then counts as none.
func IntegerOrZero(d *jsonscan.Decoder) int64 {
	n, err := strconv.ParseInt(string(numberOrNil(d)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func numberOrNil(d *jsonscan.Decoder) []byte {
	if kind := d.Kind(); kind == jsonscan.Number || kind == jsonscan.String {
		return literal(d)
	}
	d.Skip()
	return nil
}

func Number(d *jsonscan.Decoder) float64 {
	digits := literal(d)
	if len(digits) == 0 {
		return 0
	}
	f, err := strconv.ParseFloat(string(digits), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		d.Fail("a number")
		return 0
	}
	return f
}

func Bool(d *jsonscan.Decoder) bool {
	if d.Kind() == jsonscan.Bool {
		return d.Bool()
	}
	switch string(literal(d)) {
	case "", "0", "false":
		return false
	case "1", "true":
		return true
	}
	d.Fail("a boolean")
	return false
}

// Time reads a time in any of the forms a PHP service writes; the result is in UTC.
func Time(d *jsonscan.Decoder) time.Time {
	if d.Null() {
		return time.Time{}
	}
	text := d.TextBytes()
	if len(text) == 0 {
		return time.Time{}
	}
	t, err := parseTime(text)
	if year := t.Year(); err != nil || year < 0 || year > 9999 { // a zone can lead out of the years that JSON's times have
		d.Fail("a date-time")
		return time.Time{}
	}
	return t
}

// looseTimes are the forms of a time beside RFC 3339. Each also reads a fraction of a second.
var looseTimes = []string{
	"2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700",
	"2006-01-02",
}

func parseTime(text []byte) (time.Time, error) {
	var t time.Time
	if err := t.UnmarshalText(text); err == nil {
		return t.UTC(), nil
	}
	for _, layout := range looseTimes {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("not a date-time")
}

// Optional reads an object that may be absent.
func Optional[T any](d *jsonscan.Decoder, fill func(*T, *jsonscan.Decoder)) *T {
	if kind := d.Kind(); kind == jsonscan.Null || kind == jsonscan.Array {
		Object(d, nil)
		return nil
	}
	value := new(T)
	fill(value, d)
	return value
}

// Record decodes a document that is one record, bare or wrapped in "data". The record's own id tells which: a bare record
// may well have a field of that name.
func Record[T any](answer []byte, fill func(*T, *jsonscan.Decoder), id func(*T) int64) (*T, error) {
	value := new(T)
	d := jsonscan.New(answer)
	if len(answer) == 0 {
		return nil, ErrEmpty
	}
	fill(value, d)
	if err := d.End(); err != nil {
		return nil, err
	}
	if id(value) > 0 {
		return value, nil
	}
	inner := Inner(answer)
	if inner == nil {
		return nil, ErrNoID
	}
	*value = *new(T)
	d = jsonscan.New(inner)
	fill(value, d)
	if err := d.End(); err != nil {
		return nil, err
	}
	if id(value) < 1 {
		return nil, ErrNoID
	}
	return value, nil
}

// Inner returns the object in the field "data" of a valid document, or nil.
func Inner(answer []byte) []byte {
	d := jsonscan.New(answer)
	if d.Kind() != jsonscan.Object {
		return nil
	}
	var inner []byte
	for key := range d.Fields() {
		if string(key) == "data" && d.Kind() == jsonscan.Object {
			inner = d.Raw()
		}
	}
	return inner
}

// Unmarshal is the UnmarshalJSON of the models: the same reading as of the service's answers.
func Unmarshal[T any](data []byte, v *T, fill func(*T, *jsonscan.Decoder)) error {
	d := jsonscan.New(data)
	if d.Null() {
		return d.End()
	}
	*v = *new(T)
	fill(v, d)
	return d.End()
}
