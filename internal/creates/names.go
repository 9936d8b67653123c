package creates

import (
	"html"
	"strings"
	"unicode"
)

// minCut is the shortest name that a service may have cut a longer one to.
const minCut = 16

// CompareNames holds a note's name against the one that was sent. A service that shows names longer than this one, of so many
// bytes, has not cut it.
func CompareNames(sent, got string, longest int) Name {
	sent, got = Compose(strings.TrimSpace(sent)), Compose(strings.TrimSpace(got))
	composed := (mayDecompose(sent) || mayDecompose(got)) && skeleton(sent, plainASCII) == skeleton(got, plainASCII)
	switch {
	case sent == "":
		return NameUnsent
	case sent == got:
		return NameEqual
	case composed, len(got) >= max(minCut, longest) && strings.HasPrefix(sent, strings.TrimRight(got, ".… ")):
		return NameCut
	case alike(sent, got):
		return NameSimilar
	}
	return NameOther
}

// composed has, for each mark, the letters that carry it and what they are in one piece: those of Latin languages. Other
// letters are compared as far as ASCII goes.
var composed = map[rune]string{
	'\u0300': "AÀEÈIÌOÒUÙaàeèiìoòuù", '\u0301': "AÁCĆEÉIÍNŃOÓSŚUÚYÝZŹaácćeéiínńoósśuúyýzź", '\u0302': "AÂEÊIÎOÔUÛaâeêiîoôuû",
	'\u0303': "AÃNÑOÕaãnñoõ", '\u0307': "ZŻzż", '\u0308': "AÄEËIÏOÖUÜaäeëiïoöuüyÿ", '\u030a': "AÅUŮaåuů", '\u0327': "CÇSŞcçsş",
	'\u0328': "AĄEĘaąeę", '\u030b': "OŐUŰoőuű", '\u030c': "CČDĎEĚNŇRŘSŠTŤZŽcčdďeěnňrřsštťzž", '\u0306': "AĂGĞaăgğ",
}

// Compose puts letters and the marks behind them into one piece, as NFC does.
func Compose(s string) string {
	runes := []rune(s)
	kept := runes[:0]
	for _, r := range runes {
		pairs, whole := []rune(composed[r]), rune(0)
		for i := 0; i+1 < len(pairs) && len(kept) > 0; i += 2 {
			if pairs[i] == kept[len(kept)-1] {
				whole = pairs[i+1]
			}
		}
		if whole == 0 {
			kept = append(kept, r)
			continue
		}
		kept[len(kept)-1] = whole
	}
	return string(kept)
}

// alike is generous: it ignores case, spaces and punctuation, what HTML escapes, and whether letters with marks are composed
// or not, and one name may be the beginning of the other. Two names that differ only in such letters are alike too.
func alike(a, b string) bool {
	a, b = html.UnescapeString(a), html.UnescapeString(b)
	keep := letterOrDigit
	if mayDecompose(a) || mayDecompose(b) {
		keep = plainASCII
	}
	a, b = skeleton(a, keep), skeleton(b, keep)
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// mayDecompose reports whether a name holds parts of letters, or letters that normalising replaces by others. Without any,
// names are comparable letter by letter.
func mayDecompose(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsMark(r) || unicode.In(r, replaced) })
}

// replaced holds the blocks of Hangul's parts and of the letters that stand for another single letter.
var replaced = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0340, Hi: 0x0387, Stride: 1}, {Lo: 0x0958, Hi: 0x0a5e, Stride: 1}, {Lo: 0x0f43, Hi: 0x0fb9, Stride: 1}, {Lo: 0x1100, Hi: 0x11ff, Stride: 1},
		{Lo: 0x1f00, Hi: 0x1fff, Stride: 1}, {Lo: 0x2126, Hi: 0x212b, Stride: 1}, {Lo: 0xf900, Hi: 0xfb4f, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x2f800, Hi: 0x2fa1f, Stride: 1}},
}

func letterOrDigit(r, _ rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// plainASCII passes over a letter with a mark behind it as over the same letter in one piece, which is not ASCII.
func plainASCII(r, next rune) bool {
	return r <= unicode.MaxASCII && letterOrDigit(r, next) && !unicode.IsMark(next)
}

func skeleton(s string, keep func(r, next rune) bool) string {
	runes := []rune(s)
	var kept strings.Builder
	for i, r := range runes {
		next := rune(-1)
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		if keep(r, next) {
			kept.WriteRune(foldCase(r))
		}
	}
	return kept.String()
}

// foldCase returns the same letter for all cases of it.
func foldCase(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}
