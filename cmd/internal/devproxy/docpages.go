package devproxy

import (
	"html"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go/docs"
)

const (
	docsTop = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../docs.css">
<title>`
	codeFence = "```"
)

// serveDocs serves a page of the documentation as the text that it is, with anchors at its headings.
func serveDocs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	page, err := fs.ReadFile(docs.Pages(), name)
	if err != nil {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	var out strings.Builder
	out.WriteString(docsTop + html.EscapeString(name) + "</title>\n<pre>")
	inCode := false
	for line := range strings.Lines(string(page)) {
		text := html.EscapeString(line)
		inCode = inCode != strings.HasPrefix(line, codeFence)
		if strings.HasPrefix(line, "#") && !inCode {
			text = `<b id="` + anchorOf(line) + `">` + text + "</b>"
		}
		out.WriteString(text)
	}
	out.WriteString("</pre>\n</html>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, out.String())
}

// errorRows are the rows of the table of errors in docs/errors.md: what happened, how to test for it, what to do.
var errorRows = sync.OnceValue(func() (rows [][]string) {
	page, _ := fs.ReadFile(docs.Pages(), "errors.md")
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 3 {
			rows = append(rows, cells)
		}
	}
	return rows
})

// advice returns what the errors page says about an error: what happened, and what to do.
func advice(name string) (happened, do string) {
	for _, cells := range errorRows() {
		if strings.Contains(cells[1], "`"+name+"`") {
			return withoutMarkup(cells[0]), withoutMarkup(cells[2])
		}
	}
	return "", ""
}

var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// withoutMarkup is a text of a page without its markup.
func withoutMarkup(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(markdownLink.ReplaceAllString(text, "$1")), "`", "")
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 -]`)

// anchorOf is the anchor of a heading, as the links of the pages have it.
func anchorOf(heading string) string {
	title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(title, ""), " ", "-")
}
