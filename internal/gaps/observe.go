package gaps

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

// set is a set of names.
type set map[string]bool

func (s set) add(name string)  { s[name] = true }
func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// observations are what any response may show: how objects look, and which headers come.
type observations struct {
	unknown, missing, otherTypes set  // fields that differ from their description
	tokenFields, errorFields     set  // fields that are not described
	absent, null, array          set  // fields of notes without a value, by how that is written
	patient, user                set  // fields of these objects
	patientNamed                 set  // how notes name their patient, if they were made with one
	rowsNamed                    set  // the same of the list's rows
	numericStrings, largeNumbers set  // fields
	unavailable                  bool // some response was 503
	window                       time.Duration
	windowHeader                 string // the header that reports the window
	errorStates, times           set    // forms of these values
	bare, wrapped                bool   // some single object was that
	rate, version                map[string]string
}

func newObservations() observations {
	return observations{
		unknown: set{}, missing: set{}, otherTypes: set{}, tokenFields: set{}, errorFields: set{},
		absent: set{}, null: set{}, array: set{}, patient: set{}, user: set{}, patientNamed: set{}, rowsNamed: set{},
		numericStrings: set{}, largeNumbers: set{}, errorStates: set{}, times: set{},
		rate: map[string]string{}, version: map[string]string{},
	}
}

// compare records how an object differs from its description. Owner is its name in the report.
func (o *observations) compare(owner string, f fields, described *description.Schema) {
	for name, raw := range f {
		want, known := described.Fields[name]
		if !known {
			o.unknown.add(owner + "." + name)
			continue
		}
		got := kind(raw)
		o.checkNumber(owner+"."+name, raw, want.Kind)
		if got == "string" && isNumber(want.Kind) && numeric(raw) {
			continue // it is recorded as a number in a string
		}
		if !fits(got, want.Kind) {
			o.otherTypes.add(fmt.Sprintf("%s.%s is a %s", owner, name, got))
		}
		if strings.HasSuffix(name, "_at") && got == "string" {
			o.times.add(timeForm(raw))
		}
	}
	for _, name := range described.Required {
		if _, there := f[name]; !there {
			o.missing.add(owner + "." + name)
		}
	}
}

// fits reports whether a value of the JSON type got is acceptable where the description wants that kind. Null always
// is. So is an array in place of an object, because an empty object may be sent as [].
func fits(got string, want description.Kind) bool {
	switch got {
	case "null", want.JSON():
		return true
	case "array":
		return want == description.Object
	}
	return false
}

// wrapping records whether a single object was wrapped in data.
func (o *observations) wrapping(wrapped bool) {
	if wrapped {
		o.wrapped = true
	} else {
		o.bare = true
	}
}

// checkNumber records a number that a reader may fail to read: in a string, or above 2^53.
func (o *observations) checkNumber(name string, raw json.RawMessage, want description.Kind) {
	if !isNumber(want) {
		return
	}
	if kind(raw) == "string" && numeric(raw) {
		o.numericStrings.add(name)
	}
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	if err == nil && n > 1<<53 {
		o.largeNumbers.add(name)
	}
}

// isNumber reports whether values of the kind are numbers.
func isNumber(k description.Kind) bool { return k == description.Integer || k == description.Number }

// numeric reports whether a value, or the text in it, is a number.
func numeric(raw json.RawMessage) bool {
	_, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	return err == nil
}

// noteBody records how a response that is one note looks. The note was made with a patient or without.
func (o *observations) noteBody(body []byte, withPatient bool) {
	f, wrapped := record(body)
	o.wrapping(wrapped)
	o.note(f)
	if f != nil && withPatient {
		o.patientNamed.add(patientForm(f))
	}
}

// row records how a row of the list looks, which is a note that was made with a patient.
func (o *observations) row(f fields) {
	o.note(f)
	o.rowsNamed.add(patientForm(f))
	o.patientNamed.add(patientForm(f))
}

// meta records how the numbers of a page's metadata look.
func (o *observations) meta(owner string, f fields) {
	for _, name := range []string{"current_page", "from", "last_page", "per_page", "to", "total"} {
		if raw, there := f[name]; there {
			o.checkNumber(owner+"."+name, raw, description.Integer)
		}
	}
}

// note records how the fields of a note look.
func (o *observations) note(f fields) {
	if f == nil {
		return
	}
	note := description.Schemas["ProgressNote"]
	o.compare("note", f, note)
	for _, name := range []string{"template", "audio", "has"} {
		if inner := asObject(f[name]); inner != nil {
			o.compare(name, inner, note.Fields[name])
		}
	}
	for name := range note.Fields {
		raw, isThere := f[name]
		got := kind(raw)
		switch {
		case !isThere:
			o.absent.add(name)
		case got == "null" && name != "error_state":
			o.null.add(name)
		case got == "array":
			o.array.add(name)
		}
	}
	for name, into := range map[string]set{"patient": o.patient, "user": o.user} {
		for inner := range asObject(f[name]) {
			into.add(inner)
		}
	}
	o.errorStates.add(errorStateForm(f["error_state"]))
}

const (
	patientInObject = "patient object with an id"
	patientBeside   = "patient_id beside the other fields"
	patientUnnamed  = "not at all"
)

// patientForm returns how a note names its patient.
func patientForm(f fields) string {
	patient := asObject(f["patient"])
	switch {
	case patient["id"] != nil, patient["patient_id"] != nil, kind(f["patient"]) == "number":
		return patientInObject
	case kind(f["patient_id"]) == "number", kind(f["patient_id"]) == "string":
		return patientBeside
	}
	return patientUnnamed
}

var (
	codeLike = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)
	timeLike = regexp.MustCompile(`^[0-9T :.Z+-]{8,40}$`)
	digits   = regexp.MustCompile(`[0-9]`)

	zeroFraction = regexp.MustCompile(`\.0+(Z|[+-]|$)`) // of a second
)

// errorStateForm returns an error state if it is a code. It does not return any other text, which may be about the
// recording.
func errorStateForm(raw json.RawMessage) string {
	var text string
	got := kind(raw)
	switch {
	case got == "nothing":
		return "absent"
	case got == "null":
		return "null"
	case json.Unmarshal(raw, &text) == nil && codeLike.MatchString(text):
		return strconv.Quote(text)
	case got == "string":
		return "a text (not printed)"
	default:
		return "a value of type " + got
	}
}

// timeForm returns the form of a timestamp: the text with every digit replaced by 0, and a remark if its fraction of a
// second is zero. Other values are not described.
func timeForm(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil || !timeLike.MatchString(text) {
		return "another form (not printed)"
	}
	form := digits.ReplaceAllString(text, "0")
	if zeroFraction.MatchString(text) {
		form += " (whole seconds)"
	}
	return form
}

// errorBody records the undescribed fields in the body of a refusal.
func (o *observations) errorBody(body []byte) {
	for name := range asObject(body) {
		if name != "message" && name != "errors" {
			o.errorFields.add(name)
		}
	}
}

var limitHeader = regexp.MustCompile(`(?i)rate-?limit|^retry-after$`)

var versionHeaders = []string{"Deprecation", "Sunset", "Api-Version", "X-Api-Version", "Warning"}

// headers records the headers of a response that report limits or versions. Of a limit it keeps the first number.
func (o *observations) headers(h http.Header) {
	for name, values := range h {
		_, isSeen := o.rate[name]
		if isSeen || !limitHeader.MatchString(name) {
			continue
		}
		o.rate[name] = values[0]
		if _, err := strconv.Atoi(values[0]); err != nil {
			o.rate[name] = "(not a number)"
		}
	}
	o.rateWindow(h)
	for _, name := range versionHeaders {
		if h.Get(name) != "" {
			o.version[name] = "present"
		}
	}
}

// rateWindow keeps the longest time that a header reports until a limit starts again. The window is at least that long.
func (o *observations) rateWindow(h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	for _, name := range []string{"Retry-After", "X-Ratelimit-Reset", "Ratelimit-Reset"} {
		seconds, err := strconv.ParseInt(h.Get(name), 10, 64)
		if err != nil {
			continue
		}
		left := time.Duration(seconds) * time.Second
		if seconds > 1_000_000_000 { // a time, not a duration
			left = time.Unix(seconds, 0).Sub(date)
		}
		if left > o.window && left <= 24*time.Hour {
			o.window = left
			o.windowHeader = name
		}
	}
}

// reportObservations answers the questions that no single request answers.
func (p *prober) reportObservations() {
	o := &p.seen
	r := p.report
	r.set("unknown_fields", "%s", names(o.unknown.sorted()))
	r.set("missing_fields", "%s", names(o.missing.sorted()))
	r.set("other_types", "%s", orNone(o.otherTypes.sorted(), "; "))
	r.set("note.patient_fields", "%s", names(o.patient.sorted()))
	r.set("note.user_fields", "%s", names(o.user.sorted()))
	r.set("note.error_state", "%s", orNone(o.errorStates.sorted(), ", "))
	r.set("note.patient_named", "%s", orNone(o.patientNamed.sorted(), ", "))
	r.set("note.times", "%s", orNone(o.times.sorted(), ", "))
	r.set("note.empty_fields", "absent: %s; null: %s; []: %s",
		names(o.absent.sorted()), names(o.null.sorted()), names(o.array.sorted()))
	r.TrustPatientFilter = o.rowsNamed[patientUnnamed]
	r.set("number.strings", "%s", orNone(o.numericStrings.sorted(), ", "))
	r.set("number.large", "%s", orNone(o.largeNumbers.sorted(), ", "))
	if o.window > 0 {
		r.set("limits.window", "at least %s, as %s tells", o.window, o.windowHeader)
	}
	r.unseen("limits.window", "no request was refused, and no header tells")
	if o.unavailable {
		r.Advice = append(r.Advice, proxyAdvice)
	}
	switch {
	case o.bare && o.wrapped:
		r.set("object.wrapping", "some bare, some in data")
	case o.wrapped:
		r.set("object.wrapping", "in data")
	case o.bare:
		r.set("object.wrapping", "bare")
	}
	r.set("error.codes", "%s", names(o.errorFields.sorted()))
	r.set("limits.rate", "%s", pairs(o.rate))
	r.set("versioning.headers", "%s", pairs(o.version))
	r.unseen("events", "nothing in an answer can show them")
}

// proxyAdvice is what to ask of whoever runs a proxy: the SDK retries a create after a 429, never after a 503.
const proxyAdvice = "A response was 503. If a proxy limits requests, have it respond with 429 instead " +
	"(nginx: limit_req_status 429; limit_req responds with 503 by default): " +
	"after a 429 a note was certainly not created, after a 503 it may have been."

// orNone joins a list, or returns "none" if it is empty.
func orNone(list []string, separator string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, separator)
}

// pairs lists names and values, sorted by name.
func pairs(m map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, name+": "+m[name])
	}
	return orNone(list, ", ")
}
