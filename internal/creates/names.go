package creates

import (
	"html"
	"regexp"
	"slices"
	"strings"
)

// minCut is the shortest name that a service may have cut a longer one to.
const minCut = 16

// CompareNames holds a note's name against the one that was sent. A service that shows names longer than this one, of so many
// bytes, has not cut it.
func CompareNames(sent, got string, longest int) Name {
	sent, got = Compose(strings.TrimSpace(sent)), Compose(strings.TrimSpace(got))
	switch {
	case sent == "":
		return NameUnsent
	case sent == got:
		return NameEqual
	case len(got) >= max(minCut, longest) && strings.HasPrefix(sent, strings.TrimRight(got, ".… ")):
		return NameCut
	}
	a, b, ignored := html.UnescapeString(sent), html.UnescapeString(got), punctuation
	composed := composition.MatchString(a + b)
	if composed {
		ignored = allButASCII
	}
	// Generous: case, spaces, punctuation and whether letters are composed do not count, and one may be the beginning of the other.
	a, b = skeleton(a, ignored), skeleton(b, ignored)
	switch {
	case composed && a == b:
		return NameCut
	case strings.HasPrefix(a, b) || strings.HasPrefix(b, a):
		return NameSimilar
	}
	return NameOther
}

// Compose puts Latin letters and the marks behind them into one piece, as NFC does. Other letters are compared as far as ASCII goes.
var Compose = func() func(string) string {
	var pairs []string
	// By the mark, each letter before its composed form.
	for mark, letters := range map[string]string{
		"\u0300": "AÀEÈIÌOÒUÙaàeèiìoòuù", "\u0301": "AÁCĆEÉIÍNŃOÓSŚUÚYÝZŹaácćeéiínńoósśuúyýzź", "\u0302": "AÂEÊIÎOÔUÛaâeêiîoôuû",
		"\u0303": "AÃNÑOÕaãnñoõ", "\u0307": "ZŻzż", "\u0308": "AÄEËIÏOÖUÜaäeëiïoöuüyÿ", "\u030a": "AÅUŮaåuů", "\u0327": "CÇSŞcçsş",
		"\u0328": "AĄEĘaąeę", "\u030b": "OŐUŰoőuű", "\u030c": "CČDĎEĚNŇRŘSŠTŤZŽcčdďeěnňrřsštťzž", "\u0306": "AĂGĞaăgğ",
	} {
		for pair := range slices.Chunk([]rune(letters), 2) {
			pairs = append(pairs, string(pair[0])+mark, string(pair[1]))
		}
	}
	return strings.NewReplacer(pairs...).Replace
}()

var (
	// composition matches parts of letters (marks, Hangul's), and blocks of letters that normalising replaces by others.
	composition = regexp.MustCompile(`[\p{M}\x{340}-\x{387}\x{958}-\x{a5e}\x{f43}-\x{fb9}\x{1100}-\x{11ff}\x{1f00}-\x{1fff}` +
		`\x{2126}-\x{212b}\x{f900}-\x{fb4f}\x{2f800}-\x{2fa1f}]`)
	punctuation = regexp.MustCompile(`[^\p{L}\p{Nd}]`)
	allButASCII = regexp.MustCompile(`[^0-9A-Za-z]|.\p{M}`) // a letter with a mark behind it is none of ASCII
)

func skeleton(s string, ignored *regexp.Regexp) string {
	return strings.ToLower(strings.ToUpper(ignored.ReplaceAllString(s, ""))) // some letters have two small forms
}
