package output

import (
	"strings"
	"time"
	"unicode"
)

// Text returns a text that the service sent as it may be printed: on a terminal without characters that control it or turn
// its direction, in a pipe as it is.
func (s *IO) Text(text string) string {
	if !s.OutTTY {
		return text
	}
	return Harmless(text)
}

// Harmless replaces what could control a terminal.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			return '\ufffd'
		}
		return r
	}, text)
}

// Cell is a text that stays in its cell.
func Cell(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
}

// Time is a time in UTC for programs, in local time for people.
func (s *IO) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case s.OutTTY:
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return t.UTC().Format(time.RFC3339Nano)
}
