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

// fields are a JSON object's members. Their values are looked at and never told.
type fields map[string]json.RawMessage

// printableName is what a programmer calls a field. Anything else may be data that a service uses as a key.
var printableName = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

// names lists the names of fields, and counts those that may be data.
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
	switch withheld := len(all) - len(printable); {
	case len(all) == 0:
		return "none"
	case withheld > 0:
		return strings.TrimPrefix(fmt.Sprintf("%s, and %d that may be data", text, withheld), ", and ")
	}
	return text
}

func (f fields) names() string { return names(slices.Collect(maps.Keys(f))) }

// asObject reads a JSON object; anything else has no fields.
func asObject(raw []byte) fields {
	var f fields
	if json.Unmarshal(raw, &f) != nil {
		return nil
	}
	return f
}

// record returns the single object of an answer, and whether it was wrapped in data.
func record(body []byte) (f fields, wrapped bool) {
	f = asObject(body)
	if _, bare := f["id"]; bare {
		return f, false
	}
	if inner := asObject(f["data"]); inner != nil {
		return inner, true
	}
	return f, false
}

// kind names the JSON type of a value.
func kind(raw json.RawMessage) string {
	switch raw = bytes.TrimSpace(raw); {
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
