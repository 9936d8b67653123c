package tolerant

import (
	"bytes"
	"encoding/json"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// KeepRaw stores any value in *to, in the form of json.Marshal, so that a stored one reads back equal. It stores "" for
// null.
func KeepRaw(d *jsonscan.Decoder, to *string) {
	raw := d.Raw()
	if string(raw) == "null" {
		raw = nil
	}
	d.Intern(to, d.Canonical(raw))
}

// KeepMembers stores members as an object in *to, in the form of json.Marshal. Each member must follow a comma. It
// stores "" if there are none.
func KeepMembers(d *jsonscan.Decoder, to *string, members []byte) {
	if len(members) == 0 {
		d.Intern(to, nil) // replaces what was stored before
		return
	}
	members[0] = '{' // instead of the comma
	d.Intern(to, d.Canonical(append(members, '}')))
}

// AppendMember appends a comma and the current member of an object, as KeepMembers needs them. The value may have been
// consumed already. A member that is cut is not appended.
func AppendMember(members []byte, d *jsonscan.Decoder, key string) []byte {
	const usual = 512 // the other members of a page
	if members == nil {
		members = make([]byte, 0, usual)
	}
	isUnread := d.Kind() != jsonscan.Invalid
	if isUnread {
		raw := d.RawMember()
		if raw == nil {
			return members
		}
		return append(append(members, ','), raw...)
	}
	value := d.Consumed()
	if value == nil {
		return members
	}
	name, _ := json.Marshal(key) // a text: it cannot fail
	members = append(append(members, ','), name...)
	return append(append(members, ':'), value...)
}

// Without returns an object without some of its members; "" if none is left. An empty object may be written as [].
func Without(object string, unwanted func(member string) bool) (string, error) {
	if object == "" {
		return "", nil
	}
	var rest string
	var members []byte
	d := jsonscan.New([]byte(object))
	Object(d, func(key []byte) {
		if !unwanted(string(key)) {
			members = append(append(members, ','), d.RawMember()...)
		}
	})
	KeepMembers(d, &rest, members)
	err := d.End()
	return rest, err
}

// Marshal encodes a value, which must become an object, and appends the members of the JSON object others, which may be
// empty. It is for methods named MarshalJSON. It does not escape HTML, because the encoder that calls the method does
// that if it is set to.
func Marshal(v any, others string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return Join(bytes.TrimSpace(b.Bytes()), others), nil
}

// Join returns the object with the members of the object others appended, which may be "" or "{}". It may change the
// bytes of object.
func Join(object []byte, others string) []byte {
	if len(others) <= len("{}") {
		return object
	}
	object = object[:len(object)-1] // without its last brace
	if len(object) > len("{") {
		object = append(object, ',')
	}
	return append(object, others[1:]...)
}
