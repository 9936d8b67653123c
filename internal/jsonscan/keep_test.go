package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// keepTexts reads the texts of a list into fields of their own.
func keepTexts(document string, count int) ([]string, error) {
	texts := make([]string, count)
	d := jsonscan.New([]byte(document))
	for i := range d.Elements() {
		d.Intern(&texts[i%count], d.TextBytes())
	}
	return texts, d.End()
}

func TestIntern_TextsAreStoredAtFlush(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`["plain","caf\u00e9 \/",""]`))
	var texts [3]string
	for i := range d.Elements() {
		d.Intern(&texts[i], d.TextBytes())
		assert.Empty(t, texts[i])
	}
	d.Flush()
	assert.Equal(t, [...]string{"plain", "café /", ""}, texts)
	texts[0] = "changed"
	require.NoError(t, d.End())
	assert.Equal(t, "changed", texts[0], "it is stored once")
}

// A decoder's texts wait in memory of its own, also while another decoder is at work in the same goroutine.
func TestIntern_SecondDecoder_SharesNoMemory(t *testing.T) {
	t.Parallel()
	first := jsonscan.New([]byte(`"first"`))
	second := jsonscan.New([]byte(`"second"`))
	var firstText, secondText string
	first.Intern(&firstText, first.TextBytes())
	second.Intern(&secondText, second.TextBytes())
	require.NoError(t, first.End())
	assert.Equal(t, "first", firstText)
	assert.Empty(t, secondText, "it waits for the end of its own decoder")
	require.NoError(t, second.End())
	assert.Equal(t, "second", secondText)
}

func TestIntern_SameTargetTwice_KeepsTheLater(t *testing.T) {
	t.Parallel()
	texts, err := keepTexts(`["a","b","",""]`, 2)
	require.NoError(t, err)
	assert.Equal(t, []string{"", ""}, texts)
}

func TestIntern_AnyNumberOfTexts_IsKept(t *testing.T) {
	t.Parallel()
	var document strings.Builder
	want := make([]string, 100)
	for i := range want {
		want[i] = fmt.Sprint("text ", i)
		fmt.Fprintf(&document, ",%q", want[i])
	}
	texts, err := keepTexts("["+document.String()[1:]+"]", len(want))
	require.NoError(t, err)
	assert.Equal(t, want, texts)
}

func TestIntern_InvalidText_IsAnError(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`["a",1]`, `["a","b\q"]`, `["a","b`} {
		_, err := keepTexts(document, 2)
		require.Error(t, err)
	}
}

// Canonical returns what json.Marshal makes of a value, and leaves the texts alone that wait for Flush.
func TestCanonical_AnyValue_IsAsMarshalWritesIt(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`1`, `{"a":[1,"b c"]}`, `{ "a" : [ 1 ,	"b c" ] }`, "[\n1,\r\n2]", `"<b>&\" x"`, `"\\"`, `["\\ ", 1]`, `["\"", " "]`,
		`"` + "a\u2028b\u2029" + `"`, `"â é 病歴"`, `[ "<" ]`, `"a\/b"`, `" "`, ``,
	} {
		want, err := json.Marshal(json.RawMessage(value))
		if err != nil { // it is not a value, and stays as it is
			want = []byte(value)
		}
		d := jsonscan.New([]byte(`"waiting"`))
		var waiting, text string
		d.Intern(&waiting, d.TextBytes())
		d.Intern(&text, d.Canonical([]byte(value)))
		require.NoError(t, d.End())
		assert.Equal(t, string(want), text)
		assert.Equal(t, "waiting", waiting)
	}
	d := jsonscan.New(nil)
	assert.Equal(t, "[ 1", string(d.Canonical([]byte("[ 1"))), "it is not valid")
}

// The literal of a value is available before and after the value was consumed. After an error there is none.
func TestConsumed_Value_IsItsLiteral(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`["a\n", [ 1 ], 7, ?]`))
	var got []string
	for index := range d.Elements() {
		if index == 0 {
			_ = d.Text()
		}
		got = append(got, string(d.Consumed()))
	}
	assert.Equal(t, []string{`"a\n"`, `[ 1 ]`, "7"}, got)
	require.Error(t, d.End())
	assert.Nil(t, d.Consumed())
}
