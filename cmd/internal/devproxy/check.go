package devproxy

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

// finding is one departure from the description. It names paths and types and
// holds no value of a response.
type finding struct{ what, path, detail string }

func (f finding) String() string {
	line := f.what
	if f.path != "" {
		line += " " + f.path
	}
	if f.detail != "" {
		line += ": " + f.detail
	}
	return line
}

// checkResponse holds a response against the description of its route.
func checkResponse(route string, status int, contentType string, body []byte) []finding {
	described, known := description.Endpoints[route]
	if !known {
		return []finding{{what: "the description has no such endpoint"}}
	}
	var found findings
	if !allows(described, status) {
		found.add("undescribed status", "", strconv.Itoa(status))
	}
	expected := description.Schemas["Error"]
	if status >= 200 && status < 300 {
		expected = described.Success
	}
	if len(body) == 0 {
		found.add("empty body", "", "described "+string(expected.Kind))
		return found
	}
	if mediaType, _, _ := mime.ParseMediaType(contentType); mediaType != "application/json" {
		found.add("not sent as application/json", "", "")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // tells an integer from a number
	var value any
	if err := decoder.Decode(&value); err != nil {
		found.add("not JSON", "", "")
		return found
	}
	path := ""
	if inner, wrapped := unwrap(value, expected); wrapped {
		found.add("wrapped in", "data", "")
		value, path = inner, "data"
	}
	found.check(path, value, expected)
	if object, isObject := value.(map[string]any); isObject && !asWorded(status, object["message"]) {
		found.add("another text than described", "message", "")
	}
	return found
}

// asWorded reports whether an error's message is the described one, where one is described. A final dot says nothing.
func asWorded(status int, message any) bool {
	described := description.Messages[status]
	text, _ := message.(string)
	return described == "" || strings.TrimSuffix(text, ".") == strings.TrimSuffix(described, ".")
}

func allows(e description.Endpoint, status int) bool {
	switch {
	case status >= 200 && status < 300:
		return e.Status == 0 || e.Status == status
	case status >= 400 && status < 500 && e.AnyRefusal:
		return true
	default:
		return slices.Contains(e.Errors, status)
	}
}

// unwrap returns the object inside "data" where none is described.
func unwrap(value any, expected *description.Schema) (inner any, wrapped bool) {
	object, isObject := value.(map[string]any)
	if _, described := expected.Fields["data"]; !isObject || described {
		return nil, false
	}
	inner, wrapped = object["data"]
	_, isObject = inner.(map[string]any)
	return inner, wrapped && isObject
}

type findings []finding

// add notes a finding once: a list repeats its rows' findings.
func (f *findings) add(what, path, detail string) {
	if n := (finding{what, path, detail}); !slices.Contains(*f, n) {
		*f = append(*f, n)
	}
}

// check compares a value with its shape. What the description does not show is
// not looked into: its names could be anything.
func (f *findings) check(path string, value any, expected *description.Schema) {
	actual := kindOf(value)
	switch {
	case actual == description.Null && expected.Nullable:
		return
	case !accepts(expected.Kind, actual):
		f.add("wrong type", path, string(actual)+", described "+string(expected.Kind))
		return
	case expected.Kind == description.DateTime && !isDateTime(value):
		f.add("wrong format", path, "not an RFC 3339 date-time")
	}
	switch content := value.(type) {
	case []any:
		for _, element := range content {
			f.check(path+"[]", element, expected.Elements)
		}
	case map[string]any:
		f.checkMembers(path, content, expected)
	}
}

func (f *findings) checkMembers(path string, members map[string]any, expected *description.Schema) {
	if expected.Kind == description.Map {
		for _, member := range members {
			f.check(join(path, "*"), member, expected.Elements)
		}
		return
	}
	if expected.Fields == nil {
		return
	}
	for _, name := range expected.Required {
		if _, present := members[name]; !present {
			f.add("missing required field", join(path, name), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member, described := expected.Fields[name]
		if !described {
			f.add("unknown field", join(path, printable(name)), string(kindOf(members[name])))
			continue
		}
		f.check(join(path, name), members[name], member)
	}
}

// accepts is strict about integers only: a service that describes a number may send 1 for 1.0.
func accepts(described, actual description.Kind) bool {
	return described == actual || described != description.Integer && described.JSON() == actual.JSON()
}

func kindOf(value any) description.Kind {
	switch v := value.(type) {
	case nil:
		return description.Null
	case bool:
		return description.Boolean
	case string:
		return description.String
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return description.Number
		}
		return description.Integer
	case []any:
		return description.Array
	default:
		return description.Object
	}
}

func isDateTime(value any) bool {
	text, _ := value.(string)
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fieldName is what a programmer calls a field. Anything else may be data that a service uses as a key.
var fieldName = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

// printable withholds a name that may be data.
func printable(name string) string {
	if fieldName.MatchString(name) {
		return name
	}
	return "(name withheld)"
}
