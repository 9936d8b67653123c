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

	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

// set is a set of names.
type set map[string]bool

func (s set) add(name string)  { s[name] = true }
func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// observations gather what any answer may tell: how objects look, which headers come.
type observations struct {
	unknown, missing, otherTypes set
	tokenFields, errorFields     set
	absent, null, array          set // optional fields of notes without a value
	patient, user                set
	patientNamed                 set
	errorStates, times           set
	bare, wrapped                bool
	notes                        int
	rate, version                map[string]string
}

func newObservations() observations {
	return observations{
		unknown: set{}, missing: set{}, otherTypes: set{}, tokenFields: set{}, errorFields: set{}, absent: set{}, null: set{}, array: set{},
		patient: set{}, user: set{}, patientNamed: set{}, errorStates: set{}, times: set{}, rate: map[string]string{}, version: map[string]string{},
	}
}

// compare holds an object against its description.
func (o *observations) compare(owner string, f fields, described *description.Schema) {
	for name, raw := range f {
		want, known := described.Fields[name]
		if !known {
			o.unknown.add(owner + "." + name)
			continue
		}
		got := kind(raw)
		if got != want.Kind.JSON() && got != "null" && (got != "array" || want.Kind != description.Object) {
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

// single looks at an answer that is one note.
func (o *observations) single(body []byte) {
	f, wrapped := record(body)
	o.bare, o.wrapped = o.bare || !wrapped, o.wrapped || wrapped
	o.note(f)
}

func (o *observations) note(f fields) {
	if f == nil {
		return
	}
	o.notes++
	note := description.Schemas["ProgressNote"]
	o.compare("note", f, note)
	for _, name := range []string{"template", "audio", "has"} {
		if inner := asObject(f[name]); inner != nil {
			o.compare(name, inner, note.Fields[name])
		}
	}
	for name := range note.Fields {
		raw, there := f[name]
		switch got := kind(raw); {
		case !there:
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
	o.patientNamed.add(patientForm(f))
}

const (
	patientInObject = "patient object with an id"
	patientBeside   = "patient_id beside the other fields"
	patientUnnamed  = "not at all"
)

func patientForm(f fields) string {
	patient := asObject(f["patient"])
	switch {
	case patient["id"] != nil || patient["patient_id"] != nil, kind(f["patient"]) == "number":
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
	noFrac   = regexp.MustCompile(`\.0+(Z|[+-]|$)`)
)

// errorStateForm tells a code as it is and of any other text only that it is one: it may speak of the recording.
func errorStateForm(raw json.RawMessage) string {
	var text string
	switch got := kind(raw); {
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

// timeForm is a timestamp with every digit made 0.
func timeForm(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil || !timeLike.MatchString(text) {
		return "another form (not printed)"
	}
	form := digits.ReplaceAllString(text, "0")
	if noFrac.MatchString(text) {
		form += " (whole seconds)"
	}
	return form
}

// errorBody looks at the Error body of a refusal.
func (o *observations) errorBody(body []byte) {
	for name := range asObject(body) {
		if name != "message" && name != "errors" {
			o.errorFields.add(name)
		}
	}
}

var versionHeaders = []string{"Deprecation", "Sunset", "Api-Version", "X-Api-Version", "Warning"}

func (o *observations) headers(h http.Header) {
	for name, values := range h {
		lower := strings.ToLower(name)
		if strings.Contains(lower, "ratelimit") || strings.Contains(lower, "rate-limit") || name == "Retry-After" {
			if _, err := strconv.Atoi(values[0]); err != nil {
				values = []string{"(not a number)"}
			}
			if _, seen := o.rate[name]; !seen {
				o.rate[name] = values[0]
			}
		}
	}
	for _, name := range versionHeaders {
		if h.Get(name) != "" {
			o.version[name] = "present"
		}
	}
}

// tellObservations answers the questions that no single request answers.
func (p *prober) tellObservations() {
	o, r := &p.seen, p.report
	r.set("unknown_fields", "%s", names(o.unknown.sorted()))
	r.set("missing_fields", "%s", names(o.missing.sorted()))
	r.set("other_types", "%s", orNone(o.otherTypes.sorted(), "; "))
	r.set("note.patient_fields", "%s", names(o.patient.sorted()))
	r.set("note.user_fields", "%s", names(o.user.sorted()))
	r.set("note.error_state", "%s", orNone(o.errorStates.sorted(), ", "))
	r.set("note.patient_named", "%s", orNone(o.patientNamed.sorted(), ", "))
	r.set("note.times", "%s", orNone(o.times.sorted(), ", "))
	r.set("note.empty_fields", "absent: %s; null: %s; []: %s", names(o.absent.sorted()), names(o.null.sorted()), names(o.array.sorted()))
	r.TrustPatientFilter = o.patientNamed[patientUnnamed]
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
	r.unseen("limits.upload", "not tried; %d bytes were accepted", len(p.Audio))
	r.unseen("events", "nothing in an answer can show them")
}

func orNone(list []string, separator string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, separator)
}

func pairs(m map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, name+": "+m[name])
	}
	return orNone(list, ", ")
}
