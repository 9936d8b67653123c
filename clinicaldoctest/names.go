package clinicaldoctest

import (
	"strings"
	"unicode/utf8"
)

// storedName is what the service makes of a name.
func (v *Variant) storedName(name string) string {
	name = v.trimmed(name)
	if letters := []rune(name); v.NameLength > 0 && len(letters) > v.NameLength {
		name = v.trimmed(string(letters[:v.NameLength]))
	}
	if v.DecomposeNames {
		name = decomposed(name)
	}
	return name
}

// nameTooLong reports whether a name is refused for its length.
func (v *Variant) nameTooLong(name string) bool {
	return v.NameLength == 0 && utf8.RuneCountInString(name) > maxNameLength
}

// decompositions are the letters with a mark of European languages, each
// followed by the letter alone, by their mark.
var decompositions = map[rune]string{
	0x0300: "ÀAÈEÌIÒOÙUàaèeìiòoùu",
	0x0301: "ÁAÉEÍIÓOÚUÝYáaéeíióoúuýyĆCćcĹLĺlŃNńnŔRŕrŚSśsŹZźz",
	0x0302: "ÂAÊEÎIÔOÛUâaêeîiôoûuĈCĉcĜGĝgĤHĥhĴJĵjŜSŝsŴWŵwŶYŷy",
	0x0303: "ÃAÑNÕOãañnõoĨIĩiŨUũu",
	0x0304: "ĀAāaĒEēeĪIīiŌOōoŪUūu",
	0x0306: "ĂAăaĔEĕeĞGğgĬIĭiŎOŏoŬUŭu",
	0x0307: "ĊCċcĖEėeĠGġgİIŻZżz",
	0x0308: "ÄAËEÏIÖOÜUäaëeïiöoüuÿyŸY",
	0x030a: "ÅAåaŮUůu",
	0x030b: "ŐOőoŰUűu",
	0x030c: "ČCčcĎDďdĚEěeĽLľlŇNňnŘRřrŠSšsŤTťtŽZžz",
	0x0327: "ÇCçcĢGģgĶKķkĻLļlŅNņnŖRŗrŞSşsŢTţt",
	0x0328: "ĄAąaĘEęeĮIįiŲUųu",
}

// decomposed is the text with letters and marks apart, as Unicode's form NFD
// has them.
func decomposed(text string) string {
	var pairs []string
	for mark, letters := range decompositions {
		runes := []rune(letters)
		for i := 0; i < len(runes); i += 2 {
			pairs = append(pairs, string(runes[i]), string([]rune{runes[i+1], mark}))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
