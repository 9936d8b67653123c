package tolerant

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Errors of documents that are not a record.
const (
	ErrEmpty = redact.Text("it is empty")
	ErrNoID  = redact.Text("it contains no id")
)

// Decode reads a document, bare or wrapped in "data". A document with the member own is bare. It returns warnings about
// values that were passed over.
func Decode(document []byte, own string, read func(*jsonscan.Decoder)) ([]string, error) {
	if len(document) == 0 {
		return nil, ErrEmpty
	}
	d := jsonscan.New(Unwrap(document, own))
	read(d)
	return d.Warnings, d.End()
}

// Record decodes a document that is one record.
func Record[T any](document []byte, fill func(*T, *jsonscan.Decoder), id func(*T) int64) (*T, []string, error) {
	value := new(T)
	warnings, err := Decode(document, "id", func(d *jsonscan.Decoder) { fill(value, d) })
	if err == nil && id(value) < 1 {
		err = ErrNoID
	}
	return value, warnings, err
}

// FindID returns the id of a record, bare or wrapped in "data", in a document that does not decode as one and may be
// cut. It returns 0 if there is none. It also reports whether the record has a value for at least one of the members.
func FindID(document []byte, members ...string) (id int64, hasMember bool) {
	complete := bytes.TrimRight(document, "0123456789+-.eE") // a number that ends it may have been cut
	return findID(jsonscan.New(complete), members)
}

// findID is FindID for the next value of a decoder. The id of the record itself precedes that of a record in its
// "data".
func findID(d *jsonscan.Decoder, members []string) (own int64, hasMember bool) {
	if d.Kind() != jsonscan.Object {
		return 0, false
	}
	var inner int64
	var innerHasMember bool
	for key := range d.Fields() {
		switch name := string(key); {
		case name == "id":
			own, _ = id(d)
		case name == "data":
			inner, innerHasMember = findID(d, members)
		case slices.Contains(members, name) && !isEmptyValue(d):
			hasMember = true
		}
	}
	if own != 0 {
		return own, hasMember
	}
	return inner, innerHasMember
}

// Unwrap returns the object in the member "data" of a document. It returns the document itself if that has a value in
// recordMember, which every record has: a bare record may have a member "data" too.
func Unwrap(document []byte, recordMember string) []byte {
	d := jsonscan.New(document)
	if d.Kind() != jsonscan.Object {
		return document
	}
	var inner []byte
	for key := range d.Fields() {
		switch {
		case string(key) == recordMember && !isEmptyValue(d):
			d.Stop() // it is bare: End returns an error
		case string(key) == "data" && d.Kind() == jsonscan.Object:
			inner = d.Raw()
		}
	}
	if d.End() != nil || inner == nil {
		return document
	}
	return inner
}

// isEmptyValue reports whether the next value is null, zero, false or an empty text. It consumes any value except
// lists and objects.
func isEmptyValue(d *jsonscan.Decoder) bool {
	switch d.Kind() {
	case jsonscan.Array, jsonscan.Object:
		return false
	default:
	}
	switch string(d.Raw()) {
	case "null", "0", `"0"`, `""`, "false":
		return true
	}
	return false
}

// Unmarshal is the UnmarshalJSON of the models. It reads a value in the same way as the service's responses. Null
// leaves *v unchanged.
func Unmarshal[T any](data []byte, v *T, fill func(*T, *jsonscan.Decoder)) error {
	d := jsonscan.New(data)
	if d.Null() {
		return d.End()
	}
	*v = *new(T)
	fill(v, d)
	return d.End()
}

const anObject = "object"

// Object calls member for each member of a record. Null and [] have none. Any other value fails the document.
func Object(d *jsonscan.Decoder, member func(key []byte)) {
	switch nextObject(d) {
	case notAnObject:
		d.FailExpecting(anObject)
	case emptyObject:
	case objectFollows:
		for key := range d.Fields() {
			member(key)
		}
	}
}

// Fields reads the described members of a record by their names.
type Fields[T any] map[string]func(*T, *jsonscan.Decoder)

// Fill reads a record. All other members are kept in extra, as one object; it is "" if there are none.
func (f Fields[T]) Fill(to *T, extra *string, d *jsonscan.Decoder) {
	var room [256]byte // enough for the other members of most records
	others := room[:0]
	Object(d, func(key []byte) {
		if read := f[string(key)]; read != nil {
			read(to, d)
			return
		}
		others = append(append(others, ','), d.RawMember()...)
	})
	KeepMembers(d, extra, others)
}

// Describes reports whether a member has a reader.
func (f Fields[T]) Describes(member string) bool { return f[member] != nil }

// Optional reads an object into the value that room returns, also if the object is {}. It returns nil, without calling
// room, for null and for [], which PHP writes for an empty object. It skips any other value with a warning.
func Optional[T any](d *jsonscan.Decoder, room func() *T, fill func(*T, *jsonscan.Decoder)) *T {
	switch nextObject(d) {
	case notAnObject:
		d.Warn(anObject)
		return nil
	case emptyObject:
		return nil
	case objectFollows:
	}
	value := room()
	fill(value, d)
	return value
}

// Empty consumes null or [], which stand for an empty object, and reports whether one was there.
func Empty(d *jsonscan.Decoder) bool {
	if d.Kind() == jsonscan.Object {
		return false
	}
	return nextObject(d) == emptyObject
}

// comingObject is what comes next where an object is expected.
type comingObject int

const (
	notAnObject   comingObject = iota
	emptyObject                // null or [], which PHP writes for an empty object
	objectFollows              // also {}
)

// nextObject returns what comes next. It consumes null and [], and returns emptyObject for them. A list with elements
// is consumed too, but is notAnObject. Any other value is not consumed.
func nextObject(d *jsonscan.Decoder) comingObject {
	switch d.Kind() {
	case jsonscan.Object:
		return objectFollows
	case jsonscan.Array:
		coming := emptyObject
		for range d.Elements() {
			coming = notAnObject // the list has an element
		}
		return coming
	default:
		if d.Null() {
			return emptyObject
		}
		return notAnObject
	}
}

// maxRows bounds the memory that a hostile list takes: a row of a few bytes becomes a record of several hundred.
const maxRows = 100_000

// Rows appends the records of the next value, a list or null, to rows, and returns all. If rows is nil, the first
// record allocates room for the expected number. A record without an ID fails the document, and ends the loop; so does
// a row beyond maxRows.
func Rows[T any](d *jsonscan.Decoder, rows []T, expected int, fill func(*T, *jsonscan.Decoder), id func(*T) int64) []T {
	if d.Null() {
		return rows
	}
	for range d.Elements() {
		if len(rows) == maxRows {
			d.FailExpecting("the end of the list, of at most " + strconv.Itoa(maxRows) + " rows")
			break
		}
		if rows == nil {
			rows = make([]T, 0, expected)
		}
		rows = append(rows, *new(T))
		row := &rows[len(rows)-1]
		fill(row, d)
		if id(row) < 1 {
			d.FailExpecting("a record with an id and its other required members")
		}
		d.Flush() // before the row may move
	}
	return rows
}
