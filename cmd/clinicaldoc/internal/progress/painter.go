package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
)

// frame is the shortest time between two drawings.
const frame = 100 * time.Millisecond

// maxRows keeps the block below the height of any terminal.
const maxRows = 8

// painter redraws a small block of rows in place. It never asks the terminal anything, as not every one answers.
type painter struct {
	mu    sync.Mutex
	to    io.Writer
	width func() int
	rows  []*Row
	total string
	drawn []int // widths of the rows on the screen
	wide  int   // the screen, when they were drawn
	at    time.Time
	dirty bool // something is not drawn yet
	over  bool
	done  chan struct{}
}

func newPainter(to io.Writer, width func() int) *painter {
	p := &painter{to: to, width: width, done: make(chan struct{})}
	go p.catchUp()
	return p
}

// catchUp draws what came too soon after the last drawing: a transfer that stands still is shown where it stands.
func (p *painter) catchUp() {
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.mu.Lock()
			if p.dirty || p.wide != p.width() { // a window that was made narrow has torn rows
				p.draw(true)
			}
			p.mu.Unlock()
		case <-p.done:
			return
		}
	}
}

// Row is one transfer. The zero value shows nothing.
type Row struct {
	painter    *painter
	name       string
	sent, size int64
}

// Set sets how many bytes were transferred, and the total.
func (r *Row) Set(sent, size int64) {
	if r.painter == nil {
		return
	}
	r.painter.mu.Lock()
	defer r.painter.mu.Unlock()
	r.sent, r.size = sent, size
	r.painter.draw(false)
}

// Rename changes what the row is called.
func (r *Row) Rename(name string) {
	if r.painter == nil {
		return
	}
	r.painter.mu.Lock()
	defer r.painter.mu.Unlock()
	r.name = name
	r.painter.draw(false)
}

// End takes the row away.
func (r *Row) End() {
	if r.painter == nil {
		return
	}
	p := r.painter
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rows {
		if p.rows[i] == r {
			p.rows = append(p.rows[:i], p.rows[i+1:]...)
			break
		}
	}
	p.draw(false)
}

func (p *painter) Start(name string, size int64) *Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	row := &Row{painter: p, name: name, size: size}
	p.rows = append(p.rows, row)
	p.draw(false)
	return row
}

func (p *painter) Total(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = text
	p.draw(false)
}

func (p *painter) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.to, p.erased()+text+"\n")
	p.drawn = nil
	p.draw(true)
}

func (p *painter) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over = true
		close(p.done)
		_, _ = io.WriteString(p.to, p.erased())
	}
}

// erased goes to the block's first row and erases from there. The \r also covers a ^C that the terminal echoed.
func (p *painter) erased() string {
	// A row that is wider than a window that was made narrow stands on several lines now.
	lines, width := 0, max(p.width(), 1)
	for _, w := range p.drawn {
		lines += max((w+width-1)/width, 1)
	}
	up := ""
	switch {
	case lines == 0:
		return ""
	case lines > 1:
		up = fmt.Sprintf("\x1b[%dA", lines-1)
	}
	return "\r" + up + "\x1b[J"
}

// draw paints the block anew; the caller holds the lock.
func (p *painter) draw(now bool) {
	p.dirty = true
	if p.over || !now && time.Since(p.at) < frame {
		return
	}
	p.at, p.dirty = time.Now(), false
	width := p.width()
	p.wide = width
	var rows []string
	for _, row := range p.rows[:min(len(p.rows), maxRows)] {
		rows = append(rows, row.text(width))
	}
	if p.total != "" {
		rows = append(rows, p.total)
	}
	for i := range rows {
		rows[i] = runewidth.Truncate(rows[i], width-1, "…")
	}
	_, _ = io.WriteString(p.to, p.erased()+strings.Join(rows, "\n"))
	p.drawn = nil
	for _, row := range rows {
		p.drawn = append(p.drawn, runewidth.StringWidth(row))
	}
}

const barWidth = 20

func (r *Row) text(width int) string {
	bar := Bytes(r.sent)
	if r.size > 0 {
		full := int(min(r.sent, r.size) * barWidth / r.size)
		bar = fmt.Sprintf(
			"[%s%s] %3d %%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
			min(r.sent, r.size)*100/r.size,
		)
	}
	name := runewidth.Truncate(r.name, max(10, width-barWidth-12), "…")
	return runewidth.FillRight(name, max(10, min(36, width-barWidth-12))) + " " + bar
}
