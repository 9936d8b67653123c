package jsonscan_test

import (
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
