// Package nfc composes characters: it returns texts in Unicode's normalization form C (NFC). Systems spell names in
// different forms: "é" is one character or two, and macOS decomposes the names of files.
//
// The tables are those of Unicode 15.0.0, which golang.org/x/text/unicode/norm has with Go 1.26. Keys of recordings are
// hashes of composed texts. Tables of another version change only the keys of texts with characters that Unicode 15.0.0
// does not know.
//
// Unlike golang.org/x/text, the package does not limit the number of marks after a letter, and inserts nothing.
package nfc

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// String returns a text in NFC. Bytes that are not UTF-8 stay as they are.
func String(s string) string {
	if isUnaffected(s) {
		return s
	}
	chars := decompose(s)
	chars = compose(chars)
	return textOf(chars)
}

// Decompose returns a text in normalization form D (NFD). Bytes that are not UTF-8 stay as they are.
func Decompose(s string) string {
	if isASCII(s) {
		return s
	}
	return textOf(decompose(s))
}

// isUnaffected reports whether a text has only characters below U+0300, which NFC never changes. Their UTF-8 has no
// byte from 0xCC on.
func isUnaffected(s string) bool {
	for i := range len(s) {
		if s[i] >= 0xcc {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// char is a character of a text, with its canonical combining class. A byte b that is not UTF-8 is the rune
// firstByte+b.
type char struct {
	rune  rune
	class uint8
}

const firstByte = utf8.MaxRune + 1

// Hangul syllables are composed and decomposed by rule: see chapter 3.12 of the Unicode standard.
const (
	firstSyllable = 0xac00
	firstLead     = 0x1100
	firstVowel    = 0x1161
	beforeTrail   = 0x11a7 // a syllable without a trailing consonant counts as one with this
	leadCount     = 19
	vowelCount    = 21
	trailCount    = 28
	syllableCount = leadCount * vowelCount * trailCount
)

// decompose returns the characters of a text, decomposed and in canonical order.
func decompose(s string) []char {
	t := loadTables()
	chars := make([]char, 0, len(s))
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		isBadByte := r == utf8.RuneError && width == 1
		if isBadByte {
			chars = append(chars, char{rune: firstByte + rune(s[i])})
		} else {
			chars = t.appendDecomposed(chars, r)
		}
		i += width
	}
	order(chars)
	return chars
}

// appendDecomposed appends the canonical decomposition of a character.
func (t *tables) appendDecomposed(chars []char, r rune) []char {
	if syllable := r - firstSyllable; syllable >= 0 && syllable < syllableCount {
		lead := firstLead + syllable/(vowelCount*trailCount)
		vowel := firstVowel + syllable/trailCount%vowelCount
		chars = append(chars, char{rune: lead}, char{rune: vowel})
		if trail := syllable % trailCount; trail != 0 {
			chars = append(chars, char{rune: beforeTrail + trail})
		}
		return chars
	}
	parts, isComposed := t.decomposed[r]
	if !isComposed {
		return append(chars, char{r, t.classes[r]})
	}
	for _, part := range parts {
		chars = t.appendDecomposed(chars, part)
	}
	return chars
}

// order sorts each sequence of marks by their classes. Marks of the same class keep their order.
func order(chars []char) {
	for i := 0; i < len(chars); i++ {
		start := i
		for i < len(chars) && chars[i].class != 0 {
			i++
		}
		slices.SortStableFunc(chars[start:i], func(a, b char) int { return int(a.class) - int(b.class) })
	}
}

// compose replaces each letter and the marks that it can be composed with. The characters are in canonical order.
func compose(chars []char) []char {
	t := loadTables()
	out := chars[:0]
	letter := -1 // the latest character of class 0
	for _, c := range chars {
		if letter >= 0 {
			last := len(out) - 1
			isBlocked := last > letter && out[last].class >= c.class
			composed, isPair := t.composed(out[letter].rune, c.rune)
			if isPair && !isBlocked {
				out[letter].rune = composed
				continue
			}
		}
		if c.class == 0 {
			letter = len(out)
		}
		out = append(out, c)
	}
	return out
}

// composed returns the character that two characters are composed to, if there is one.
func (t *tables) composed(first, second rune) (composed rune, exists bool) {
	lead := first - firstLead
	vowel := second - firstVowel
	if lead >= 0 && lead < leadCount && vowel >= 0 && vowel < vowelCount {
		return firstSyllable + (lead*vowelCount+vowel)*trailCount, true
	}
	syllable := first - firstSyllable
	trail := second - beforeTrail
	isOpen := syllable >= 0 && syllable < syllableCount && syllable%trailCount == 0
	if isOpen && trail > 0 && trail < trailCount {
		return first + trail, true
	}
	composed, exists = t.compositions[pair{first, second}]
	return composed, exists
}

func textOf(chars []char) string {
	var text strings.Builder
	for _, c := range chars {
		if c.rune >= firstByte {
			text.WriteByte(byte(c.rune - firstByte)) //nolint:gosec // it was made of a byte
		} else {
			text.WriteRune(c.rune)
		}
	}
	return text.String()
}

type pair struct{ first, second rune }

// tables are the generated tables in a form that can be searched.
type tables struct {
	classes      map[rune]uint8 // without those of class 0
	decomposed   map[rune][]rune
	compositions map[pair]rune
}

// loadTables returns the tables. They are built when the first text needs them.
var loadTables = sync.OnceValue(func() *tables {
	t := &tables{classes: map[rune]uint8{}, decomposed: map[rune][]rune{}, compositions: map[pair]rune{}}
	for entry := range slices.Chunk([]rune(classes), 3) {
		for r := entry[0]; r <= entry[1]; r++ {
			t.classes[r] = uint8(entry[2])
		}
	}
	for entry := range slices.Chunk([]rune(pairs), 3) {
		t.decomposed[entry[0]] = entry[1:]
		t.compositions[pair{entry[1], entry[2]}] = entry[0]
	}
	for entry := range strings.SplitSeq(others, " ") {
		runes := []rune(entry)
		t.decomposed[runes[0]] = runes[1:]
	}
	return t
})
