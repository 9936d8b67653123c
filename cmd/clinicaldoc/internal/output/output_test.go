package output_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

func TestHarmless_ControlCharacters_AreReplaced(t *testing.T) {
	t.Parallel()
	text := "a\x1b]0;x\a\u009b31m\u202eb\r\tc\nd"
	assert.Equal(t, "a\ufffd]0;x\ufffd\ufffd31m\ufffdb\ufffd\tc\nd", output.Harmless(text))
	assert.Equal(t, output.Harmless(text), (&output.IO{}).Text(text), "a pipe may lead to a terminal")
	assert.Equal(t, text, (&output.IO{Raw: true}).Text(text))
	assert.Equal(t, "a\nb", output.Harmless("a\r\nb"))
	assert.Equal(t, "a\ufffdb\ufffdc", output.Harmless("a\u2028b\u2029c"))
	assert.Equal(t, "  | a\n  | analysis:\n", output.Marked("a\r\nanalysis:\n\n"))
	assert.Equal(t, "a b c d", output.Cell("a\vb\u0085c\u2028d"))
}

func TestJSON_ControlCharacters_AreEscaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	text := "a\x1b]0;x\a\u009b31m\u202e\u2028b\x7f"
	require.NoError(t, (&output.IO{Out: &out}).JSON(t.Context(), text, &output.Filter{}))
	assert.Equal(t, `"a\u001b]0;x\u0007\u009b31m\u202e\u2028b\u007f"`+"\n", out.String())
	back, err := output.Decode(out.Bytes())
	require.NoError(t, err)
	assert.Equal(t, text, back)
}

// JSON does not escape the characters of markup, so a search of the output finds a text as it was written.
func TestJSON_Markup_StaysAsItIs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, (&output.IO{Out: &out}).JSON(t.Context(), "5 < 6 & <b>", &output.Filter{}))
	assert.Equal(t, `"5 < 6 & <b>"`+"\n", out.String())
}

func TestTable_Pipe_KeepsColumns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, (&output.IO{Out: &out}).Table([]string{"A", "B"}, [][]string{{"x\ty", "two\nlines"}}))
	assert.Equal(t, "x y\ttwo lines\n", out.String())
}

func TestTable_Terminal_FitsTheWidth(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	io := &output.IO{Out: &out, OutTTY: true, Width: 20}
	require.NoError(t, io.Table([]string{"ID", "NAME"}, [][]string{{"1", "患者患者患者患者患者患者"}, {"12", "b"}}))
	assert.Equal(t, "ID  NAME\n1   患者患者患者患…\n12  b\n", out.String())
}

func TestFilter_EachEnd_IsTold(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for expression, one := range map[string]struct {
		ctx  context.Context
		want string
		err  string
	}{
		`.name, "y"`:                   {t.Context(), "x\ny\n", ""},
		`.name, halt, .name`:           {t.Context(), "x\n", ""},
		`.name, ("Canary"|halt_error)`: {t.Context(), "x\n", "--jq: the expression cannot be applied to the value"},
		`last(range(1e9))`:             {canceled, "", "context canceled"},
	} {
		var out bytes.Buffer
		var filter output.Filter
		require.NoError(t, filter.Set(expression))
		err := (&output.IO{Out: &out}).JSON(one.ctx, map[string]any{"name": "x"}, &filter)
		assert.Equal(t, one.want, out.String())
		if one.err == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, one.err)
	}
}

func TestFilter_LargeNumbers_StayExact(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	io := &output.IO{Out: &out}
	var filter output.Filter
	require.Error(t, filter.Set(".["))
	require.NoError(t, filter.Set(".id, .name"))
	require.NoError(t, io.JSON(t.Context(), map[string]any{"id": int64(9007199254740993), "name": "x"}, &filter))
	assert.Equal(t, "9007199254740993\nx\n", out.String())
	require.NoError(t, filter.Set(".name | .first"))
	err := io.JSON(t.Context(), map[string]any{"name": "Canary"}, &filter)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "Canary")
	require.NoError(t, filter.Set("$ENV | length"))
	out.Reset()
	require.NoError(t, io.JSON(t.Context(), 1, &filter))
	assert.Equal(t, "0\n", out.String(), "an expression sees no token of the environment")
}
