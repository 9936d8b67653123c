package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finding is one departure from the description. It names paths and types and
// holds no value of an answer.
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

// checkAnswer holds an answer against the description of its route.
func checkAnswer(route string, status int, contentType string, body []byte) []finding {
	described, known := endpoints[route]
	if !known {
		return []finding{{what: "the description has no such endpoint"}}
	}
	var found findings
	if !described.allows(status) {
		found.add("undescribed status", "", strconv.Itoa(status))
	}
	expected := errorShape
	if status >= 200 && status < 300 {
		expected = described.success
	}
	if len(body) == 0 {
		found.add("empty body", "", "described "+string(expected.kind))
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
	if object, isObject := value.(map[string]any); isObject && describedMessages[status] != "" && object["message"] != describedMessages[status] {
		found.add("another text than described", "message", "")
	}
	return found
}

func (e endpoint) allows(status int) bool {
	switch {
	case status >= 200 && status < 300:
		return e.status == 0 || e.status == status
	case status >= 400 && status < 500 && e.anyRefusal:
		return true
	default:
		return status == http.StatusUnauthorized || slices.Contains(e.errors, status)
	}
}

// unwrap returns the object inside "data" where none is described.
func unwrap(value any, expected shape) (inner any, wrapped bool) {
	object, isObject := value.(map[string]any)
	if _, described := expected.fields["data"]; !isObject || described {
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
func (f *findings) check(path string, value any, expected shape) {
	actual := kindOf(value)
	switch {
	case actual == kindNull && expected.nullable:
		return
	case !expected.accepts(actual):
		f.add("wrong type", path, string(actual)+", described "+string(expected.kind))
		return
	case expected.kind == kindDateTime && !isDateTime(value):
		f.add("wrong format", path, "not an RFC 3339 date-time")
	}
	switch content := value.(type) {
	case []any:
		for _, element := range content {
			f.check(path+"[]", element, *expected.elements)
		}
	case map[string]any:
		f.checkMembers(path, content, expected)
	}
}

func (f *findings) checkMembers(path string, members map[string]any, expected shape) {
	if expected.kind == kindMap {
		for _, member := range members {
			f.check(join(path, "*"), member, *expected.elements)
		}
		return
	}
	if expected.fields == nil {
		return
	}
	for _, name := range expected.required {
		if _, present := members[name]; !present {
			f.add("missing required field", join(path, name), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member, described := expected.fields[name]
		if !described {
			f.add("unknown field", join(path, printable(name)), string(kindOf(members[name])))
			continue
		}
		f.check(join(path, name), members[name], member)
	}
}

func (s shape) accepts(actual kind) bool {
	switch s.kind {
	case kindNumber:
		return actual == kindNumber || actual == kindInteger
	case kindDateTime:
		return actual == kindString
	case kindMap:
		return actual == kindObject
	default:
		return actual == s.kind
	}
}

func kindOf(value any) kind {
	switch v := value.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBoolean
	case string:
		return kindString
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return kindNumber
		}
		return kindInteger
	case []any:
		return kindArray
	default:
		return kindObject
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

var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// printable withholds a name that looks like data used as a name.
func printable(name string) string {
	if fieldName.MatchString(name) {
		return name
	}
	return "(name withheld)"
}
