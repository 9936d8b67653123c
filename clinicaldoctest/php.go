package clinicaldoctest

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// readQuery reads a query or a form as PHP does, which rejects nothing. Only & separates pairs, and invalid escapes
// stay as they are. Dots and spaces in names become underscores, and the last value of a repeated name counts.
func readQuery(text string) url.Values {
	values := url.Values{}
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.TrimLeft(unescape(name), " ")
		name, key, isArray := strings.Cut(name, "[")
		name = plainName.Replace(name)
		if name == "" {
			continue
		}
		if isArray { // of the two the last is there
			delete(values, name)
			name += "[" + key
		} else {
			maps.DeleteFunc(values, func(other string, _ []string) bool { return strings.HasPrefix(other, name+"[") })
		}
		values.Set(name, unescape(value))
	}
	return values
}

var plainName = strings.NewReplacer(".", "_", " ", "_")

// escape is a byte in a query.
var escape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

func unescape(text string) string {
	return escape.ReplaceAllStringFunc(strings.ReplaceAll(text, "+", " "), func(escaped string) string {
		code, _ := strconv.ParseUint(escaped[1:], 16, 8) // two hexadecimal digits
		return string([]byte{byte(code)})
	})
}

// isArray reports whether a name was sent as name[] or name[key].
func isArray(sent url.Values, name string) bool {
	for other := range sent {
		if rest, longer := strings.CutPrefix(other, name); longer && strings.HasPrefix(rest, "[") {
			return true
		}
	}
	return false
}

// integer is what PHP takes for one in a text.
var integer = regexp.MustCompile("^[+-]?(0|[1-9][0-9]*)$")

func parseInteger(text string) (value int64, isInteger bool) {
	value, err := strconv.ParseInt(text, 10, 64)
	return value, err == nil && integer.MatchString(text)
}

// expectsJSON reports whether a client gets JSON errors, by the rules of the framework: it prefers JSON, or it is a
// script that accepts any type.
func expectsJSON(r *http.Request) bool {
	best := "*/*"
	if accepted := r.Header.Values("Accept"); len(accepted) > 0 {
		best = preferred(strings.Join(accepted, ","))
	}
	if strings.Contains(best, "/json") || strings.Contains(best, "+json") {
		return true
	}
	isScript := r.Header.Get("X-Requested-With") == "XMLHttpRequest" && r.Header.Get("X-Pjax") == ""
	return isScript && slices.Contains([]string{"*/*", "*", ""}, best)
}

// preferred returns the first of the values with the highest quality.
func preferred(header string) string {
	values := strings.Split(header, ",")
	slices.SortStableFunc(values, func(a, b string) int {
		_, first := quality(a)
		_, second := quality(b)
		return int((second - first) * 1000)
	})
	best, _ := quality(values[0])
	return best
}

// quality returns one value of a header such as Accept and how welcome it is.
func quality(text string) (value string, q float64) {
	value, parameters, _ := strings.Cut(text, ";")
	q = 1
	for parameter := range strings.SplitSeq(parameters, ";") {
		if text, isQuality := strings.CutPrefix(strings.TrimSpace(parameter), "q="); isQuality {
			q, _ = strconv.ParseFloat(text, 64) // what is no number is not welcome
		}
	}
	return strings.ToLower(strings.TrimSpace(value)), q
}

// overridden returns the request that a POST stands for: a client that can send
// no other method names it in a header, a field or the query. A creation's
// fields are looked at when it is read.
func overridden(r *http.Request, path string) *http.Request {
	if r.Method != http.MethodPost {
		return r
	}
	asked := *r
	method := r.Header.Get("X-Http-Method-Override")
	if method == "" && strings.TrimSuffix(path, "/") != createPath {
		var fields url.Values
		fields, asked.Body, asked.Header = readForm(r)
		method = fields.Get("_method")
	}
	if method == "" {
		method = readQuery(r.URL.RawQuery).Get("_method")
	}
	asked.Method = strings.ToUpper(cmp.Or(method, r.Method))
	return &asked
}

// readForm returns the fields of a form, and a body and header that can be read
// in its place; PHP reads the parts of a POST whatever it stands for.
func readForm(r *http.Request) (url.Values, io.ReadCloser, http.Header) {
	mediaType, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Body == nil || mediaType != formType && mediaType != "multipart/form-data" {
		return nil, r.Body, r.Header
	}
	content, _ := io.ReadAll(io.LimitReader(r.Body, maxJSONSize)) // of a body that breaks off, what came
	if mediaType == formType {
		return readQuery(string(content)), io.NopCloser(bytes.NewReader(content)), r.Header
	}
	fields := url.Values{}
	for parts := multipart.NewReader(bytes.NewReader(content), parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if err != nil {
			break
		}
		text, _ := io.ReadAll(part)
		fields.Set(part.FormName(), string(text))
	}
	header := r.Header.Clone()
	header.Set("Content-Type", formType)
	return fields, io.NopCloser(strings.NewReader(fields.Encode())), header
}

const formType = "application/x-www-form-urlencoded"
