package nfc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
)

// The tests of internal/dev/nfctables compare every character with golang.org/x/text.
func TestString_Spellings_AreComposed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, composed, decomposed string }{
		"empty":                  {"", "", ""},
		"ASCII":                  {"Visit 1", "Visit 1", "Visit 1"},
		"Latin":                  {"Gro\u0308ße", "Größe", "Gro\u0308ße"},
		"katakana":               {"カ\u3099", "ガ", "カ\u3099"},
		"Cyrillic":               {"И\u0306од", "Йод", "И\u0306од"},
		"two marks":              {"e\u0302\u0303", "ễ", "e\u0302\u0303"},
		"marks out of order":     {"a\u0302\u0323", "ậ", "a\u0323\u0302"},
		"a mark of the same":     {"a\u0300\u0301", "à\u0301", "a\u0300\u0301"},
		"a mark after another":   {"a\u0315\u0300", "à\u0315", "a\u0300\u0315"},
		"a mark that blocks":     {"a\u0346\u0300", "a\u0346\u0300", "a\u0346\u0300"},
		"a letter between":       {"ab\u0300", "ab\u0300", "ab\u0300"},
		"Hangul":                 {"\u1112\u1161\u11ab", "한", "\u1112\u1161\u11ab"},
		"Hangul without a trail": {"\u1100\u1161\u11a7", "가\u11a7", "\u1100\u1161\u11a7"},
		"a singleton":            {"10 \u212b", "10 Å", "10 A\u030a"},
		"never composed":         {"\u0958", "\u0915\u093c", "\u0915\u093c"},
		"only marks":             {"\u0301\u0323", "\u0323\u0301", "\u0323\u0301"},
		"bytes that are no text": {"\xff\u0301e\xcc", "\xff\u0301e\xcc", "\xff\u0301e\xcc"},
		"half a surrogate pair":  {"\xed\xa0\x80\u0301", "\xed\xa0\x80\u0301", "\xed\xa0\x80\u0301"},
		"a replaced character":   {"\ufffd\u0301", "\ufffd\u0301", "\ufffd\u0301"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.composed, nfc.String(c.text))
			assert.Equal(t, c.composed, nfc.String(c.decomposed))
			assert.Equal(t, c.decomposed, nfc.Decompose(c.text))
			assert.Equal(t, c.decomposed, nfc.Decompose(c.composed))
		})
	}
}

// The marks of a text are not limited, and nothing is inserted between them.
func TestString_ManyMarks_AreKept(t *testing.T) {
	t.Parallel()
	marks := strings.Repeat("\u0301", 100)
	assert.Equal(t, "é"+marks, nfc.String("e\u0301"+marks))
}

//nolint:paralleltest // it counts allocations
func TestString_PlainText_IsReturnedUnchanged(t *testing.T) {
	for _, text := range []string{"Visit 1", "Größe é ÿ", "\x80\xbf"} {
		var got string
		allocated := testing.AllocsPerRun(10, func() { got = nfc.String(text) })
		assert.Equal(t, text, got)
		assert.Zero(t, allocated)
	}
}

func FuzzString(f *testing.F) {
	for _, text := range []string{"", "a\u0302\u0323", "\u1112\u1161\u11ab", "\u0344\xff", "\u0958\u093c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		composed := nfc.String(text)
		assert.Equal(t, composed, nfc.String(composed), "composed twice")
		decomposed := nfc.Decompose(text)
		assert.Equal(t, decomposed, nfc.Decompose(decomposed), "decomposed twice")
		assert.Equal(t, composed, nfc.String(decomposed))
		assert.Equal(t, decomposed, nfc.Decompose(composed))
	})
}
