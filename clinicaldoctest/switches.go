package clinicaldoctest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Switch is a field of [Variant] as its JSON names it.
type Switch struct {
	Name string // such as "clamp_page_size"
	Kind string // "flag", "number", "duration", "text", "list", "choice" or "object"
	// Values are those of a choice, the default first.
	Values []string
}

// Switches returns every switch of [Variant], in the order of its fields.
func Switches() []Switch {
	var all []Switch
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Variant]()) {
		all = append(all, Switch{Name: switchName(field.Name), Kind: switchKind(field.Type), Values: slices.Clone(choices[field.Type])})
	}
	return all
}

// choices are the names of the values of switches with more than two.
var choices = map[reflect.Type][]string{
	reflect.TypeFor[Pagination]():   {"length-aware", "simple", "cursor", "cursor-in-links", "flat", "bare", "none"},
	reflect.TypeFor[Empty]():        {"absent", "null", "array"},
	reflect.TypeFor[TimeFormat]():   {"microseconds", "whole-seconds", "offset", "no-zone", "local-no-zone"},
	reflect.TypeFor[PatientShape](): {"object", "id", "unnamed"},
	reflect.TypeFor[ListTexts]():    {"whole", "excerpt", "absent"},
	reflect.TypeFor[StoredAudio]():  {"as-sent", "reencoded", "reencoded-untold"},
	reflect.TypeFor[TooLarge]():     {"json", "html", "field"},
}

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

// switchName turns ClampPageSize into clamp_page_size.
func switchName(field string) string {
	letters := []rune(field)
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

// MarshalJSON writes every switch under its name: durations as "1m30s", choices
// by the names of their values.
func (v Variant) MarshalJSON() ([]byte, error) {
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
func (v *Variant) UnmarshalJSON(text []byte) error {
	changed := *v
	if err := setSwitches(reflect.ValueOf(&changed).Elem(), text); err != nil {
		return fmt.Errorf("clinicaldoctest: %w", err)
	}
	for name, status := range map[string]int{
		"create_status": changed.CreateStatus, "delete_status": changed.DeleteStatus,
		"incomplete_sign_status": changed.IncompleteSignStatus, "signed_change_status": changed.SignedChangeStatus,
	} {
		if status != 0 && (status < 200 || status > 599) {
			return fmt.Errorf("clinicaldoctest: %s: %d is no status of a response", name, status)
		}
	}
	*v = changed
	return nil
}

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
		if err := setSwitch(value.FieldByIndex(field.Index), raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
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
		if member.CanInt() && member.Int() < 0 {
			return fmt.Errorf("%d is below 0", member.Int())
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
