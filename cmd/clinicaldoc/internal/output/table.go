package output

import (
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table writes rows: with a heading and aligned on a terminal, with tabs and without a heading in a pipe. Cells are
// made harmless.
func (s *IO) Table(heading []string, rows [][]string) error {
	var text strings.Builder
	if !s.OutTTY || s.Plain {
		for _, row := range rows {
			for i, cell := range row {
				if i > 0 {
					text.WriteByte('\t')
				}
				text.WriteString(s.Text(Cell(cell)))
			}
			text.WriteByte('\n')
		}
		_, err := io.WriteString(s.Out, text.String())
		return err
	}
	widths := make([]int, len(heading))
	for _, row := range append([][]string{heading}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(Harmless(Cell(cell))))
		}
	}
	s.fit(widths)
	s.line(&text, heading, widths, s.Color)
	for _, row := range rows {
		s.line(&text, row, widths, false)
	}
	_, err := io.WriteString(s.Out, text.String())
	return err
}

const gap = 2

// fit takes from the widest column until the table fits.
func (s *IO) fit(widths []int) {
	for {
		sum, widest := -gap, 0
		for i, w := range widths {
			sum += w + gap
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= s.Width || widths[widest] <= 4 {
			return
		}
		widths[widest] = max(4, widths[widest]-(sum-s.Width))
	}
}

// line appends a row to the text. Each cell is cut or padded to its column's width.
func (s *IO) line(text *strings.Builder, cells []string, widths []int, bold bool) {
	var line strings.Builder
	for i, cell := range cells {
		cell = runewidth.Truncate(Harmless(Cell(cell)), widths[i], "…")
		line.WriteString(runewidth.FillRight(cell, widths[i]+gap))
	}
	row := strings.TrimRight(line.String(), " ")
	if bold {
		row = "\x1b[1m" + row + "\x1b[0m"
	}
	text.WriteString(row + "\n")
}
