package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Text returns a text of the service in a form that may be printed, on a terminal or to a pipe. Characters that
// control a terminal or change the direction of text are removed, unless raw texts were requested.
func (s *IO) Text(text string) string {
	if s.Raw {
		return text
	}
	return Harmless(text)
}

// Harmless replaces what could control a terminal.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

func controls(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// harmlessJSON escapes what could control a terminal, and nothing is lost by that: such characters stand in texts
// alone.
func harmlessJSON(text string) string {
	var safe strings.Builder
	for _, r := range text {
		if controls(r) && r != '\n' && r != '\t' && r != '\r' {
			fmt.Fprintf(&safe, `\u%04x`, r)
			continue
		}
		safe.WriteRune(r)
	}
	return safe.String()
}

// Marked is a text of several lines, each with a mark before it: none of them can pose as a line of this program.
func Marked(text string) string {
	return "  | " + strings.ReplaceAll(
		strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n", "\n  | ",
	) + "\n"
}

// Cell is a text that stays in its cell.
func Cell(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\t', '\n', '\v', '\f', '\r', '\u0085', '\u2028', '\u2029':
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

// Count is a number with the word for it: "1 note", "2 notes".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
