package creates

import (
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
)

// Name compares a note's name with the one that was sent.
type Name int

// The results of a comparison.
const (
	NameUnclear Name = iota // one of the names is not known
	NameOther
	NameEqual
)

// CompareNames compares names exactly, except for white space at their ends and for how characters are composed. The
// result is NameUnclear if no name was sent, or if the note came without one.
func CompareNames(sent, got string) Name {
	sent = trimmed(sent)
	got = trimmed(got)
	switch {
	case sent == "", got == "":
		return NameUnclear
	case sent == got:
		return NameEqual
	}
	return NameOther
}

// trimmed returns a name in the form in which names are compared: in NFC, and without white space at its ends.
func trimmed(name string) string { return nfc.String(strings.TrimSpace(name)) }
