package tolerant

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// Reference names the record to which a value refers. The zero value names none.
type Reference struct {
	id       int64 // of the record; 0: no number names one
	opaque   bool  // something that is not a number names it: another sort of id, or a person's name
	conflict bool  // two records are named, or one by a number that cannot be an id
}

// ID returns the record's id, and whether one and only one is named.
func (r Reference) ID() (int64, bool) {
	if r.conflict || r.id == 0 {
		return 0, false
	}
	return r.id, true
}

// IsZero reports whether nothing names a record, not even in a way that cannot be read.
func (r Reference) IsZero() bool { return r == Reference{} }

// And combines the references of two values to the same record. Two different numbers are a conflict. A number and
// another sort of id are not.
func (r Reference) And(other Reference) Reference {
	joined := Reference{
		id:       max(r.id, other.id),
		opaque:   r.opaque || other.opaque,
		conflict: r.conflict || other.conflict,
	}
	bothNamed := r.id != 0 && other.id != 0
	if bothNamed && r.id != other.id {
		joined.conflict = true
	}
	return joined
}

// ReferenceOf returns the record that a value refers to. An absent value refers to none. The value may be
//   - the ID itself
//   - an object with the ID as its member "id", or as the member that other names
//   - an object with one of these as its member "data"
//   - a list of these
//
// Two different IDs are a conflict. So is a value that is not JSON, because it may name another record.
func ReferenceOf(raw, other string) Reference {
	if raw == "" {
		return Reference{}
	}
	d := jsonscan.New([]byte(raw))
	r, _ := reference(d, other)
	if d.End() != nil {
		r.conflict = true
	}
	return r
}

// ReferenceBy returns the record whose id is in that member of an object.
func ReferenceBy(member, object string) Reference {
	var r Reference
	if object == "" {
		return r
	}
	d := jsonscan.New([]byte(object))
	for key := range d.Fields() {
		if string(key) == member {
			r = r.And(idReference(d, member))
		}
	}
	if d.End() != nil { // it is not JSON, so it may name another record
		r.conflict = true
	}
	return r
}

// TextOf returns the text of that member of an object, or "" if it is absent. If the object has the member several
// times, the texts are joined.
func TextOf(member, object string) string {
	if object == "" {
		return ""
	}
	var texts []byte
	d := jsonscan.New([]byte(object))
	for key := range d.Fields() {
		if string(key) == member {
			texts = append(append(texts, d.Raw()...), ' ')
		}
	}
	return string(bytes.TrimSpace(texts))
}

// Naming returns a record with the ID that was next to it. An empty record takes it as its own ID, and any other
// object as a further member. A record with its own ID, or two, is not changed.
func Naming(raw, member string, beside Reference) string {
	id, isNamed := beside.ID()
	if !isNamed {
		return raw
	}
	own := ReferenceOf(raw, member)
	if own.id != 0 || own.conflict {
		return raw
	}
	digits := strconv.FormatInt(id, 10)
	switch {
	case raw == "", raw == "[]", raw == "{}":
		return `{"id":` + digits + `}`
	case raw[0] == '{':
		return string(Join([]byte(raw), `{"`+member+`":`+digits+`}`))
	}
	return raw
}

// reference returns the record that the next value refers to, in one of the forms of [ReferenceOf]. It also reports
// whether the value is empty: an object without members, a list of empty values, or a literal that names nothing.
func reference(d *jsonscan.Decoder, other string) (r Reference, empty bool) {
	empty = true
	switch d.Kind() {
	case jsonscan.Object:
		for key := range d.Fields() {
			empty = false
			switch string(key) {
			case "id", other:
				r = r.And(idReference(d, other))
			case "data":
				inner, _ := reference(d, other)
				r = r.And(inner)
			}
		}
		return r, empty
	case jsonscan.Array:
		for range d.Elements() {
			element, isEmpty := reference(d, other)
			r = r.And(element)
			if !isEmpty {
				empty = false
			}
		}
		return r, empty
	case jsonscan.Bool:
		r.opaque = d.Bool()
	default:
		r = literalReference(d)
	}
	return r, r.IsZero()
}

// idReference reads the value of an id. If that names no record but is not empty, it is an id that cannot be read. A
// record, in contrast, may have members without naming one.
func idReference(d *jsonscan.Decoder, other string) Reference {
	r, empty := reference(d, other)
	if r.IsZero() && !empty {
		r.opaque = true
	}
	return r
}

// literalReference reads a number, a text or null. Null and an empty text name nothing. A text that is not a number
// may be another sort of id. A number that cannot be an id is a conflict.
func literalReference(d *jsonscan.Decoder) Reference {
	text, _ := literal(d)
	if len(text) == 0 {
		return Reference{}
	}
	if len(bytes.Trim(text, "0123456789+-.eE")) > 0 {
		return Reference{opaque: true}
	}
	if _, err := strconv.ParseFloat(string(text), 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return Reference{opaque: true}
	}
	id, ok := exactID(text)
	return Reference{id: id, conflict: !ok}
}
