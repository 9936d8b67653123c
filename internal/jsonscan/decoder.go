// Package jsonscan is a validating pull decoder for one JSON document held in memory. It accepts the documents
// encoding/json accepts, nested up to 1000 levels, and allocates only the strings its caller asks for.
package jsonscan

import (
	"encoding/json"
	"iter"
	"strings"
)

// maxDepth bounds the recursion a hostile document can cause.
const maxDepth = 1000

// Kind is the type of a JSON value.
type Kind byte

// The kinds of JSON values; Invalid stands for the absence of a value.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// String returns the name JSON gives to the kind.
func (k Kind) String() string {
	return [...]string{"invalid", "null", "boolean", "number", "string", "array", "object"}[k]
}

// kinds maps the first byte of a value to its kind.
var kinds = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// Decoder reads a document value by value; New makes one. The first error is kept: from then on every method returns a
// zero value and every loop ends.
type Decoder struct {
	data    []byte
	pos     int      // the next byte to read
	value   int      // where the current value starts; it is unread while pos is the same
	member  int      // where the key before it starts, while it is unread
	depth   int      // how many loops are open
	scratch *scratch // nil before it is needed
	err     error
	path    [pathDepth]int // per open loop: the offset of its key, or ^index of its element

	Warnings   []string // about the first values that Warn passed over
	PassedOver int      // how many values Warn passed over
	Zoneless   bool     // set by the reader of times: one came without a zone
	TextUnread bool     // set by the reader of a note's texts: one could not be read
}

// New returns a Decoder positioned at the value of the document data, which must not change while the Decoder is in
// use.
func New(data []byte) *Decoder {
	d := &Decoder{data: data}
	d.skipSpace()
	d.value = d.pos
	return d
}

// Kind returns the kind of the next value without consuming it. It is Invalid if there is no value, for example
// because the loop body has consumed it.
func (d *Decoder) Kind() Kind {
	if d.pos != d.value {
		return Invalid
	}
	return kinds[d.byteAt(d.pos)]
}

// Fields loops over the keys of the next value, which must be an object. A key is valid until the next call. The loop
// body consumes the key's value or leaves it to be skipped; leaving the loop early skips the rest of the object.
func (d *Decoder) Fields() iter.Seq[[]byte] {
	// This wrapper is small enough to be inlined, which keeps the closure and the loop body off the heap.
	return func(yield func([]byte) bool) {
		d.members(Object, '}', func(key []byte, _ int) bool { return yield(key) })
	}
}

// Elements loops over the indexes of the next value, which must be an array, under the rules of Fields.
func (d *Decoder) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		d.members(Array, ']', func(_ []byte, index int) bool { return yield(index) })
	}
}

// members is the loop of Fields and Elements. It consumes the next value, which must be of that kind, and calls yield
// for each member of an object or element of an array. A value that yield does not consume is skipped. If yield is
// nil, and after it has returned false, the values are only validated.
func (d *Decoder) members(kind Kind, closer byte, yield func(key []byte, index int) bool) {
	if !d.expect(kind) {
		return
	}
	if d.depth == maxDepth {
		d.failSyntax(d.pos, tooDeep)
		return
	}
	start := d.pos
	d.depth++
	d.pos++
	for index := 0; d.next(index == 0, closer); index++ {
		var key []byte
		if kind == Object {
			d.track(d.pos)
			d.member = d.pos
			key = d.key(yield != nil)
		} else {
			d.track(^index)
		}
		d.value = d.pos
		hasValue := d.Kind() != Invalid // otherwise skipUnread fails
		if yield != nil && hasValue && !yield(key, index) {
			yield = nil
		}
		d.skipUnread()
	}
	if d.err == nil { // the container is the current, consumed value
		d.depth--
		d.value = start
	}
}

// next moves to the next member and reports whether there is one. If not, it moves past the closer. A comma precedes
// each member except the first.
func (d *Decoder) next(first bool, closer byte) bool {
	d.skipSpace()
	switch char := d.byteAt(d.pos); {
	case char == closer:
		d.pos++
		return false
	case first:
		return true
	case char == ',':
		d.pos++
		d.skipSpace()
		return true
	}
	d.failSyntax(d.pos, unexpected)
	return false
}

// key consumes a key and its colon. It returns the key if keep is set.
func (d *Decoder) key(keep bool) []byte {
	if d.byteAt(d.pos) != '"' {
		d.failSyntax(d.pos, unexpected)
		return nil
	}
	key := d.scanString(keep)
	d.skipSpace()
	if d.byteAt(d.pos) != ':' {
		d.failSyntax(d.pos, unexpected)
		return nil
	}
	d.pos++
	d.skipSpace()
	return key
}

// skipUnread consumes the current value unless that was done.
func (d *Decoder) skipUnread() {
	if d.pos == d.value {
		d.Skip()
	}
}

// Text consumes the next value, which must be a string, and returns a copy.
func (d *Decoder) Text() string { return string(d.TextBytes()) }

// TextBytes consumes the next value, which must be a string. The result is valid until the next call and must not be
// changed.
func (d *Decoder) TextBytes() []byte {
	if !d.expect(String) {
		return nil
	}
	return d.scanString(keepText)
}

// Bool consumes the next value, which must be a boolean.
func (d *Decoder) Bool() bool { return d.expect(Bool) && string(d.Raw()) == "true" }

// Null consumes the next value if it is null and reports whether it did.
func (d *Decoder) Null() bool { return d.Kind() == Null && string(d.Raw()) == "null" }

// Skip consumes and validates the next value, whatever its kind.
func (d *Decoder) Skip() {
	switch d.Kind() {
	case Null, Bool, Number:
		d.scanWord()
	case String:
		d.scanString(discardText)
	case Array:
		d.members(Array, ']', nil) // validates only
	case Object:
		d.members(Object, '}', nil)
	default:
		d.failSyntax(d.pos, unexpected)
	}
}

// Raw consumes and validates the next value and returns its literal, without surrounding white space, as a view of the
// document.
func (d *Decoder) Raw() []byte { return d.skipFrom(d.pos) }

// Consumed returns the literal of the current value as Raw does, also after it has been consumed.
func (d *Decoder) Consumed() []byte {
	d.skipUnread()
	if d.err != nil {
		return nil
	}
	return d.data[d.value:d.pos:d.pos]
}

// RawMember is Raw for the value of a member of an object, with the key before it.
func (d *Decoder) RawMember() []byte { return d.skipFrom(d.member) }

// skipFrom consumes the next value and returns what was consumed from start on.
func (d *Decoder) skipFrom(start int) []byte {
	d.Skip()
	if d.err != nil {
		return nil
	}
	return d.data[start:d.pos:d.pos]
}

func (d *Decoder) skipSpace() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\n', '\r', '\t':
			d.pos++
		default:
			return
		}
	}
}

// byteAt returns the byte at offset, or 0, which is no JSON token, past the end.
func (d *Decoder) byteAt(offset int) byte {
	if offset < len(d.data) {
		return d.data[offset]
	}
	return 0
}

// scanWord consumes a number, null, true or false: all bytes from here on that can be in one. Usual words are
// recognized without json.Valid, which is slower: positive integers and the three literals.
func (d *Decoder) scanWord() {
	endOfDigits := d.pos
	for d.byteAt(endOfDigits)-'0' <= 9 { // a byte below '0' wraps around to a large number
		endOfDigits++
	}
	end := endOfDigits
	for strings.IndexByte("0123456789+-.eEaflnrstu", d.byteAt(end)) >= 0 {
		end++
	}
	word := d.data[d.pos:end]
	hasOnlyDigits := end == endOfDigits
	isPositiveInteger := hasOnlyDigits && d.byteAt(d.pos) != '0' // JSON allows no leading zero
	if !isPositiveInteger && !isLiteral(word) && !json.Valid(word) {
		d.failSyntax(d.pos, unexpected)
		return
	}
	d.pos = end
}

// isLiteral reports whether the word is null, true or false.
func isLiteral(word []byte) bool {
	switch string(word) {
	case "null", "true", "false":
		return true
	}
	return false
}
