package gaps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// fields are a JSON object's members. Their values are examined but never reported.
type fields map[string]json.RawMessage

// printableName matches what a programmer calls a field. Any other name may be data that a service uses as a key.
var printableName = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

// names returns a list of the names of fields. Of those that may be data it contains only how many there are.
func names(all []string) string {
	slices.Sort(all)
	all = slices.Compact(all)
	var printable []string
	for _, name := range all {
		if printableName.MatchString(strings.ReplaceAll(name, ".", "_")) {
			printable = append(printable, name)
		}
	}
	text := strings.Join(printable, ", ")
	withheld := len(all) - len(printable)
	switch {
	case len(all) == 0:
		return "none"
	case withheld > 0:
		return strings.TrimPrefix(fmt.Sprintf("%s, and %d that may be data", text, withheld), ", and ")
	}
	return text
}

// names returns a list of the fields' names.
func (f fields) names() string { return names(slices.Collect(maps.Keys(f))) }

// asObject returns the members of a JSON object, or nil if it is not one.
func asObject(raw []byte) fields {
	var f fields
	if json.Unmarshal(raw, &f) != nil {
		return nil
	}
	return f
}

// record returns the single object of a response, and whether it was wrapped in data.
func record(body []byte) (f fields, wrapped bool) {
	f = asObject(body)
	if _, isBare := f["id"]; isBare {
		return f, false
	}
	if inner := asObject(f["data"]); inner != nil {
		return inner, true
	}
	return f, false
}

// kind returns the JSON type of a value, or "nothing" if there is none.
func kind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '{':
		return "object"
	case raw[0] == '[':
		return "array"
	case raw[0] == '"':
		return "string"
	case raw[0] == 't', raw[0] == 'f':
		return "boolean"
	case raw[0] == 'n':
		return "null"
	}
	return "number"
}
