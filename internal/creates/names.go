package creates

import (
	"regexp"
	"slices"
	"strings"
)

// Name compares a note's name with the one that was sent.
type Name int

// The results of a comparison.
const (
	NameUnclear Name = iota // no name was sent, or the names may be two spellings of the same characters
	NameOther
	NameEqual
)

// CompareNames compares names exactly, except for white space at their ends and for how accented letters are composed.
// The result is NameUnclear if no name was sent, or if the names may be two spellings of the same characters.
func CompareNames(sent, got string) Name {
	sent = ComposeLetters(strings.TrimSpace(sent))
	got = ComposeLetters(strings.TrimSpace(got))
	switch {
	case sent == "":
		return NameUnclear
	case sent == got:
		return NameEqual
	case mayBeSpellings(sent, got):
		return NameUnclear
	}
	return NameOther
}

// mayBeSpellings reports whether two composed names may be spellings of the same characters, which ComposeLetters does
// not know. Then one of them has such characters, and the plain letters of both are equal. Two different names without
// plain letters, such as names in Devanagari, count as spellings too.
func mayBeSpellings(a, b string) bool {
	return composition.MatchString(a+b) && plainLetters(a) == plainLetters(b)
}

// plainLetters returns the ASCII characters of a name, except those with a mark behind them.
func plainLetters(name string) string { return notPlain.ReplaceAllString(name, "") }

// ComposeLetters replaces Latin letters followed by a combining mark with the composed letter, as NFC does. It leaves
// other scripts alone.
var ComposeLetters = func() func(string) string {
	var pairs []string
	// By the mark, each letter before its composed form.
	for mark, letters := range map[string]string{
		"\u0300": "AÀEÈIÌOÒUÙaàeèiìoòuù",
		"\u0301": "AÁCĆEÉIÍNŃOÓSŚUÚYÝZŹaácćeéiínńoósśuúyýzź",
		"\u0302": "AÂEÊIÎOÔUÛaâeêiîoôuû",
		"\u0303": "AÃNÑOÕaãnñoõ",
		"\u0306": "AĂGĞaăgğ",
		"\u0307": "ZŻzż",
		"\u0308": "AÄEËIÏOÖUÜaäeëiïoöuüyÿ",
		"\u030a": "AÅUŮaåuů",
		"\u030b": "OŐUŰoőuű",
		"\u030c": "CČDĎEĚNŇRŘSŠTŤZŽcčdďeěnňrřsštťzž",
		"\u0327": "CÇSŞcçsş",
		"\u0328": "AĄEĘaąeę",
	} {
		for pair := range slices.Chunk([]rune(letters), 2) {
			pairs = append(pairs, string(pair[0])+mark, string(pair[1]))
		}
	}
	return strings.NewReplacer(pairs...).Replace
}()

var (
	// composition matches parts of letters (marks, Hangul), and blocks of letters that have another, canonical form.
	composition = regexp.MustCompile(`[\p{M}\x{340}-\x{387}\x{958}-\x{a5e}\x{f43}-\x{fb9}\x{1100}-\x{11ff}` +
		`\x{1f00}-\x{1fff}\x{2126}-\x{212b}\x{f900}-\x{fb4f}\x{2f800}-\x{2fa1f}]`)
	// notPlain matches all but ASCII, and ASCII letters with a mark behind them.
	notPlain = regexp.MustCompile(`[^\x00-\x7f]|.\p{M}`)
)
