package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/itchyny/gojq"
)

// Filter is a jq expression. The zero value does not filter.
type Filter struct {
	text string
	code *gojq.Code
}

// String implements pflag.Value.
func (f *Filter) String() string { return f.text }

// Type implements pflag.Value.
func (f *Filter) Type() string { return "string" }

// Set implements pflag.Value: a wrong expression is refused before anything is asked of the service.
func (f *Filter) Set(text string) error {
	query, err := gojq.Parse(text)
	if err != nil {
		return err
	}
	f.text = text
	f.code, err = gojq.Compile(query)
	return err
}

// IsSet reports whether there is an expression.
func (f *Filter) IsSet() bool { return f.code != nil }

// JSON writes a value as JSON, or what a jq expression makes of it: texts bare, all else as JSON, a line each.
func (s *IO) JSON(ctx context.Context, value any, filter *Filter) error {
	if !filter.IsSet() {
		return s.writeJSON(value, s.OutTTY)
	}
	plain, err := Plain(value)
	if err != nil {
		return err
	}
	values := filter.code.RunWithContext(ctx, plain)
	for {
		v, ok := values.Next()
		if !ok {
			return nil
		}
		if err, failed := v.(error); failed {
			return filterFailed(err)
		}
		if text, ok := v.(string); ok {
			if _, err := fmt.Fprintln(s.Out, s.Text(text)); err != nil {
				return err
			}
			continue
		}
		if err := s.writeJSON(v, false); err != nil {
			return err
		}
	}
}

// filterFailed tells that an expression failed, without the value it failed on: that may be a patient's.
func filterFailed(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
		return nil
	}
	return errors.New("--jq: the expression cannot be applied to the value")
}

// Plain converts a value to maps, lists, texts and json.Number, because gojq accepts nothing else. Numbers stay
// exact.
func Plain(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return Decode(text)
}

// Decode reads JSON. Numbers stay exact.
func Decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text after the JSON value")
	}
	return plain, nil
}

// Template is a text/template that a value is printed by. The zero value is none.
type Template struct {
	text   string
	parsed *template.Template
}

// String implements pflag.Value.
func (t *Template) String() string { return t.text }

// Type implements pflag.Value.
func (t *Template) Type() string { return "string" }

// Set implements pflag.Value.
func (t *Template) Set(text string) (err error) {
	t.text = text
	t.parsed, err = template.New("--template").Funcs(template.FuncMap{"json": func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}}).Parse(text)
	return err
}

// IsSet reports whether there is a template.
func (t *Template) IsSet() bool { return t.parsed != nil }

// Template writes what a template makes of a value.
func (s *IO) Template(value any, by *Template) error {
	plain, err := Plain(value)
	if err != nil {
		return err
	}
	var text strings.Builder
	if by.parsed.Execute(&text, plain) != nil {
		return errors.New("--template: it cannot be applied to the value") // the error's own words may hold the value
	}
	_, err = io.WriteString(s.Out, s.Text(text.String()))
	return err
}

func (s *IO) writeJSON(value any, indent bool) error {
	text, err := encode(value, indent)
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.Out, text+"\n")
	return err
}

// HarmlessJSON is a value as JSON in one line, in which no character can control a terminal.
func HarmlessJSON(value any) ([]byte, error) {
	text, err := encode(value, false)
	return []byte(text), err
}

func encode(value any, indent bool) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if indent {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return harmlessJSON(strings.TrimSuffix(text.String(), "\n")), nil
}
