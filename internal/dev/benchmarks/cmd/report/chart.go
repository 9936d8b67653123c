package main

import (
	"fmt"
	"html"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
)

// panel is one group of bars, one bar per contender that has a value.
type panel struct {
	title  string
	format string
	value  func(row) (float64, bool)
}

const (
	chartWidth  = 760
	labelWidth  = 210
	barWidth    = 440
	lineHeight  = 20
	panelMargin = 44
)

// style has a palette for a light and one for a dark surrounding.
const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 } .note { fill: #59636e }
.peer { fill: #9aa4af } .own { fill: #0b7a75 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .note { fill: #9198a1 } .peer { fill: #5a6470 } .own { fill: #2fb5ad }
}
</style>
`

// chart draws the results as SVG.
func (r *report) chart() string {
	floor := r.row(contender.Floor)
	panels := []panel{
		{"GET one note: time, x floor", "%.2f", func(g row) (float64, bool) { return g.get.time.Median, g.contender != rawPost }},
		{"Page of 100 notes: time, x floor", "%.2f", func(g row) (float64, bool) { return g.page.time.Median, g.contender != rawPost }},
		{"Page of 100 notes: bytes allocated, x floor", "%.2f", func(g row) (float64, bool) {
			return g.page.over(floor.page).Bytes, g.contender != rawPost
		}},
		{"Upload of 256 MiB: memory at the peak, MiB", "%.1f", func(g row) (float64, bool) {
			if g.upload == nil {
				return 0, false
			}
			return g.upload.largeRSS.Median / mebibyte, true
		}},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<text class=\"title\" x=\"12\" y=\"26\">clinicaldoc-go beside its peers: less is better</text>\n")
	fmt.Fprintf(&b, "<text class=\"note\" x=\"12\" y=\"44\">%s; the same work against one local server</text>\n", html.EscapeString(r.conditions()))
	y := 44
	for _, p := range panels {
		y = p.draw(&b, r.rows, y+panelMargin-10)
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n%s%s</svg>\n",
		chartWidth, y+16, chartWidth, y+16, style, b.String())
}

// draw adds the panel below y and returns where it ends.
func (p panel) draw(b *strings.Builder, rows []row, y int) int {
	most := 0.0
	for _, row := range rows {
		if value, ok := p.value(row); ok {
			most = max(most, value)
		}
	}
	fmt.Fprintf(b, "<text class=\"head\" x=\"12\" y=\"%d\">%s</text>\n", y, html.EscapeString(p.title))
	y += 8
	for _, row := range rows {
		value, ok := p.value(row)
		if !ok {
			continue
		}
		class := "peer"
		if row.contender == contender.SDK {
			class = "own"
		}
		label := strings.ReplaceAll(row.title(), "**", "")
		label, _, _ = strings.Cut(label, ", ")
		fmt.Fprintf(b, "<text x=\"12\" y=\"%d\">%s</text>", y+14, html.EscapeString(label))
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" rx=\"2\"/>", class, labelWidth, y+4, max(2, value/most*barWidth))
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">"+p.format+"</text>\n", labelWidth+max(2, value/most*barWidth)+6, y+14, value)
		y += lineHeight
	}
	return y
}
