package devproxy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// variant is a variant of the box as pages and programs see it, in JSON.
type variant clinicaldoctest.Variant

// switchable is a field of a variant as its JSON names it.
type switchable struct {
	Name   string   `json:"name"`             // such as "clamp_page_size"
	Kind   string   `json:"kind"`             // "flag", "number", "duration", "text", "list", "choice" or "object"
	Values []string `json:"values,omitempty"` // of a choice, the default first
}

// switches returns every switch of a variant, in the order of its fields.
func switches() []switchable {
	var all []switchable
	for _, field := range reflect.VisibleFields(reflect.TypeFor[variant]()) {
		all = append(all, switchable{
			Name: switchName(field.Name), Kind: switchKind(field.Type), Values: slices.Clone(choices[field.Type]),
		})
	}
	return all
}

// choices are the names of the values of switches with more than two.
var choices = map[reflect.Type][]string{
	reflect.TypeFor[clinicaldoctest.Pagination](): {
		"length-aware", "simple", "cursor", "cursor-in-links", "flat", "bare", "none",
	},
	reflect.TypeFor[clinicaldoctest.Empty](): {"absent", "null", "array"},
	reflect.TypeFor[clinicaldoctest.TimeFormat](): {
		"microseconds", "whole-seconds", "offset", "no-zone", "local-no-zone",
	},
	reflect.TypeFor[clinicaldoctest.PatientShape](): {"object", "id", "unnamed"},
	reflect.TypeFor[clinicaldoctest.ListTexts]():    {"whole", "excerpt", "absent"},
	reflect.TypeFor[clinicaldoctest.StoredAudio]():  {"as-sent", "reencoded", "reencoded-untold"},
	reflect.TypeFor[clinicaldoctest.TooLarge]():     {"json", "html", "field"},
}

// switchKind returns the kind of control that the page shows for a switch of a Go type.
func switchKind(t reflect.Type) string {
	switch {
	case choices[t] != nil:
		return "choice"
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "flag"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "list"
	case reflect.Struct:
		return "object"
	default:
		return "number"
	}
}

// switchName turns ClampPageSize into clamp_page_size, and ReuseIDs into reuse_ids.
func switchName(field string) string {
	letters := []rune(pluralAbbreviation.ReplaceAllString(field, "${1}S$2"))
	var name strings.Builder
	for i, letter := range letters {
		startsWord := unicode.IsUpper(letter) && i > 0 &&
			(unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if startsWord {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(letter))
	}
	return name.String()
}

// pluralAbbreviation matches several of what has an abbreviation, such as IDs, and what follows it.
var pluralAbbreviation = regexp.MustCompile(`([A-Z]{2,})s([A-Z]|$)`)

// MarshalJSON writes every switch under its name: durations as "1m30s", choices
// by the names of their values.
func (v variant) MarshalJSON() ([]byte, error) {
	return json.Marshal(switchesOf(reflect.ValueOf(v)))
}

func switchesOf(value reflect.Value) map[string]any {
	members := map[string]any{}
	for _, field := range reflect.VisibleFields(value.Type()) {
		member := value.FieldByIndex(field.Index)
		name := switchName(field.Name)
		switch names := choices[field.Type]; {
		case names != nil:
			members[name] = names[member.Int()]
		case field.Type == reflect.TypeFor[time.Duration]():
			members[name] = time.Duration(member.Int()).String()
		case field.Type.Kind() == reflect.Struct:
			members[name] = switchesOf(member)
		default:
			members[name] = member.Interface()
		}
	}
	return members
}

// UnmarshalJSON sets the switches that are named and leaves the others as they
// are. It refuses names and values that do not exist.
func (v *variant) UnmarshalJSON(text []byte) error {
	changed := *v
	if err := setSwitches(reflect.ValueOf(&changed).Elem(), text); err != nil {
		return err
	}
	for name, status := range map[string]int{
		"create_status": changed.CreateStatus, "delete_status": changed.DeleteStatus,
		"incomplete_sign_status": changed.IncompleteSignStatus, "signed_change_status": changed.SignedChangeStatus,
	} {
		if status != 0 && (status < 200 || status > 599) {
			return fmt.Errorf("%s: %d is not a status of a response", name, status)
		}
	}
	*v = changed
	return nil
}

// offsets are the switches that may be below 0: a clock may be slow.
var offsets = map[string]bool{"clock_offset": true, "date_offset": true}

func setSwitches(value reflect.Value, text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("switches are a JSON object: %w", err)
	}
	for _, field := range reflect.VisibleFields(value.Type()) {
		name := switchName(field.Name)
		raw, named := members[name]
		if !named {
			continue
		}
		delete(members, name)
		member := value.FieldByIndex(field.Index)
		if err := setSwitch(member, raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if member.CanInt() && member.Int() < 0 && !offsets[name] {
			return fmt.Errorf("%s: %v is below 0", name, member.Interface())
		}
	}
	for name := range members {
		return fmt.Errorf("no switch %q", name)
	}
	return nil
}

func setSwitch(member reflect.Value, raw json.RawMessage) error {
	names, isDuration := choices[member.Type()], member.Type() == reflect.TypeFor[time.Duration]()
	if names == nil && !isDuration {
		if member.Kind() == reflect.Struct {
			return setSwitches(member, raw)
		}
		if err := json.Unmarshal(raw, member.Addr().Interface()); err != nil {
			return fmt.Errorf("want a %s", switchKind(member.Type()))
		}
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("want a %s as text", switchKind(member.Type()))
	}
	if isDuration {
		d, err := time.ParseDuration(text)
		member.SetInt(int64(d))
		return err
	}
	chosen := slices.Index(names, text)
	if chosen < 0 {
		return fmt.Errorf("want one of %s", strings.Join(names, ", "))
	}
	member.SetInt(int64(chosen))
	return nil
}
