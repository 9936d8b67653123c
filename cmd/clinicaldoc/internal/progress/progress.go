// Package progress shows how far transfers have come: rows that are redrawn on a terminal, lines elsewhere. Both go
// to standard error, separate from results.
package progress

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// Reporter shows transfers.
type Reporter interface {
	// Start adds a transfer of so many bytes; -1: not known.
	Start(name string, size int64) *Row
	// Line prints a line above the rows.
	Line(text string)
	// Total sets the last row.
	Total(text string)
	// Close takes the rows away. It can be called more than once.
	Close()
}

// New returns what fits the terminal.
func New(io *output.IO) Reporter {
	if io.ErrTTY && !io.Plain && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == "" && io.ErrWidth() >= 40 {
		return newPainter(io.Err, io.ErrWidth)
	}
	return &lines{to: io, told: time.Now()}
}

// totalPause is how often lines tell the total.
const totalPause = 30 * time.Second

// lines is for pipes, logs and screen readers.
type lines struct {
	to   *output.IO
	mu   sync.Mutex
	told time.Time
}

func (l *lines) Start(string, int64) *Row { return &Row{} }
func (l *lines) Line(text string)         { l.to.Note("%s", text) }
func (l *lines) Close()                   {}

func (l *lines) Total(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.told) >= totalPause {
		l.told = now
		l.to.Note("%s", text)
	}
}

// Bytes is a size for people.
func Bytes(n int64) string {
	switch {
	case n < 0:
		return "? MB"
	case n < 1<<20:
		return fmt.Sprintf("%d kB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
