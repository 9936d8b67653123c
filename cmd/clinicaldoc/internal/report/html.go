package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"time":     Clock,
	"capital":  capital,
	"sentence": Sentence,
	"size": func(n int64) string {
		if n < 1<<20 {
			return fmt.Sprintf("%d kB", (n+1023)>>10)
		}
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	},
}).Parse(page))

// HTML writes runs as one page that needs nothing else: it can be mailed.
func HTML(w io.Writer, runs []Run) error {
	return pageTemplate.Execute(w, runs)
}

// Clock is a time for people, by this machine's clock and with its zone.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 -07:00")
}

// Sentence is a text that begins with a capital and ends with a full stop.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	text = capital(text)
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// capital is a text that begins with a capital.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

const classGood = "good"

// Class is how a run is marked: good, some or bad.
func (r Run) Class() string {
	switch {
	case r.Code == 0 && !r.CutOff():
		return classGood
	case r.withNote() > 0:
		return "some"
	}
	return "bad"
}

// Open are the recordings that need somebody's attention.
func (r Run) Open() (list []Recording) {
	for _, x := range slices.Concat(r.Recordings, r.Followed) {
		if !x.hasNote() {
			list = append(list, x)
		}
	}
	return list
}

// Done are the recordings that have a note, which is complete as far as the upload was to wait for it.
func (r Run) Done() (list []Recording) {
	for _, x := range r.Recordings {
		if x.hasNote() {
			list = append(list, x)
		}
	}
	return list
}

// LeftOutBy counts what was left out, by reason.
func (r Run) LeftOutBy() map[string]int {
	counts := map[string]int{}
	for _, l := range r.LeftOut {
		counts[l.Reason]++
	}
	return counts
}
