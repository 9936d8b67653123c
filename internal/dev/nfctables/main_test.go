package main

import (
	"math/rand/v2"
	"os"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
)

// needsTheVersion skips a test if the Go version selects tables of another Unicode version than that of internal/nfc.
func needsTheVersion(t *testing.T) {
	t.Helper()
	if norm.Version != "15.0.0" {
		t.Skip("internal/nfc has the tables of Unicode 15.0.0, and this Go version selects those of", norm.Version)
	}
}

func TestGenerate_TablesOfTheRepository_AreUpToDate(t *testing.T) {
	t.Parallel()
	needsTheVersion(t)
	file, err := os.ReadFile("../../nfc/tables.go")
	require.NoError(t, err)
	assert.Equal(t, string(file), string(generate()), "run go run -C internal/dev ./nfctables > internal/nfc/tables.go")
}

// isSame reports whether both forms of a text are those of golang.org/x/text. It reports a failure if they are not.
func isSame(t *testing.T, text string) bool {
	t.Helper()
	composed := nfc.String(text)
	decomposed := nfc.Decompose(text)
	if composed == formOf(norm.NFC, text) && decomposed == formOf(norm.NFD, text) {
		return true
	}
	return assert.Fail(t, "the text has other forms", "%+q: composed %+q, decomposed %+q", text, composed, decomposed)
}

// formOf returns a form of a text. Bytes that are not UTF-8 separate parts that have their own forms: after such a byte,
// golang.org/x/text can leave a character as it is.
func formOf(form norm.Form, text string) (all string) {
	start := 0
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && width == 1 {
			all += form.String(text[start:i]) + text[i:i+1]
			start = i + 1
		}
		i += width
	}
	return all + form.String(text[start:])
}

func TestString_EveryCharacter_IsThatOfText(t *testing.T) {
	t.Parallel()
	needsTheVersion(t)
	for r := rune(0); r <= utf8.MaxRune; r++ {
		text := string(r)
		isEqual := isSame(t, text) && isSame(t, "a"+text+"\u0301") && isSame(t, norm.NFD.String(text))
		if !isEqual {
			return
		}
	}
}

// canonicalPairs returns the characters that NFC composes of two others, each as these two.
func canonicalPairs() (all [][2]rune) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		decomposed := []rune(norm.NFD.String(string(r)))
		if len(decomposed) < 2 || norm.NFC.String(string(r)) != string(r) {
			continue
		}
		last := len(decomposed) - 1
		first := []rune(norm.NFC.String(string(decomposed[:last])))
		all = append(all, [2]rune{first[0], decomposed[last]})
	}
	return all
}

func TestString_EveryCanonicalPair_IsThatOfText(t *testing.T) {
	t.Parallel()
	needsTheVersion(t)
	const syllables = 11172
	all := canonicalPairs()
	require.Greater(t, len(all), syllables+900)
	for _, parts := range all {
		first := string(parts[0])
		second := string(parts[1])
		for _, between := range []string{"", "\u0300", "\u0323", "\u0334", "\u0345", "b", "\xff"} {
			if !isSame(t, first+between+second) {
				return
			}
		}
	}
}

func TestString_RandomSequences_AreThoseOfText(t *testing.T) {
	t.Parallel()
	needsTheVersion(t)
	var parts []string
	for r := rune(0); r <= utf8.MaxRune; r++ {
		isMark := norm.NFC.PropertiesString(string(r)).CCC() != 0
		isDecomposed := norm.NFD.String(string(r)) != string(r)
		if isMark || isDecomposed {
			parts = append(parts, string(r))
		}
	}
	for _, p := range canonicalPairs() {
		parts = append(parts, string(p[0]), string(p[1]))
	}
	const seed1, seed2 = 15, 0
	random := rand.New(rand.NewPCG(seed1, seed2))
	draw := map[int]func() string{
		0: func() string { return string(rune(random.IntN(0x300))) },
		1: func() string { return string(rune(0x300 + random.IntN(0x70))) },
		2: func() string { return string(rune(0x1100 + random.IntN(0x100))) },
		3: func() string { return string(rune(0xac00 + random.IntN(11172))) },
		4: func() string { return string([]byte{byte(random.IntN(256))}) },
	}
	for range 300_000 {
		var text string
		const maxLength = 9 // golang.org/x/text inserts something after 30 marks
		for range 1 + random.IntN(maxLength) {
			if do := draw[random.IntN(2*len(draw))]; do != nil {
				text += do()
				continue
			}
			text += parts[random.IntN(len(parts))]
		}
		if !isSame(t, text) || !isSame(t, nfc.String(text)) {
			return
		}
	}
}
