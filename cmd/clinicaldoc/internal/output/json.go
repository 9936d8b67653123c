package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"
)

// Filter is a jq expression. The zero value is none.
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
	plain, err := plainValue(value)
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
	return errors.New("--jq: the expression does not fit the value")
}

// plainValue makes maps, lists, texts and json.Number of a value: gojq takes nothing else, and numbers stay whole.
func plainValue(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return Decode(text)
}

// Decode reads JSON with numbers kept whole.
func Decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	err := decoder.Decode(&plain)
	return plain, err
}

func (s *IO) writeJSON(value any, indent bool) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if indent {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(s.Out, s.Text(text.String()))
	return err
}
