package progress

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"
)

// window is a terminal that breaks its lines anew when it is made narrow or wide, as most do.
type window struct {
	mu    sync.Mutex
	width int
	lines []string // as they were written, each of which may stand on several rows
}

func (w *window) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := string(text)
	if after, erases := strings.CutPrefix(rest, "\r"); erases {
		up := 0
		if code, behind, ok := strings.Cut(after, "A"); ok && strings.HasPrefix(code, "\x1b[") {
			for _, digit := range strings.TrimPrefix(code, "\x1b[") {
				up = up*10 + int(digit-'0')
			}
			after = behind
		}
		rest = strings.TrimPrefix(after, "\x1b[J")
		for up++; up > 0; w.lines = w.lines[:len(w.lines)-1] {
			up -= w.rows(w.lines[len(w.lines)-1])
		}
		w.lines = append(w.lines, "")
	}
	for i, line := range strings.Split(rest, "\n") {
		if i == 0 {
			w.lines[len(w.lines)-1] += line
			continue
		}
		w.lines = append(w.lines, line)
	}
	return len(text), nil
}

func (w *window) rows(line string) int {
	return max((runewidth.StringWidth(line)+w.width-1)/w.width, 1)
}

func (w *window) columns() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.width
}

func (w *window) resize(width int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.width = width
}

// A window that is resized while nothing moves shows the rows whole again, once each, and leaves the lines above them alone.
func TestPainter_WindowResized_RowsStayComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &window{width: 100, lines: []string{""}}
		p := newPainter(w, w.columns)
		defer p.Close()
		p.Line("a result")
		rows := []*Row{p.Start("recording 1 of 3, 12.0 MB 患者", 1000), p.Start("recording 2 of 3", 1000)}
		rows[0].Set(500, 1000)
		p.Total("0/3 done, and a text that is longer than a narrow window")
		for _, width := range []int{100, 55, 70, 48, 120} {
			w.resize(width)
			time.Sleep(2 * frame)
			synctest.Wait()
			w.mu.Lock()
			seen := strings.Join(w.lines, "\n")
			assert.Len(t, w.lines, 4, seen)
			assert.Equal(t, "a result", w.lines[0], width)
			for i, want := range []string{"recording 1", "recording 2", "0/3 done"} {
				assert.Contains(t, w.lines[i+1], want)
				assert.Less(t, runewidth.StringWidth(w.lines[i+1]), width)
			}
			w.mu.Unlock()
		}
		rows[0].End()
		p.Line("another result")
		time.Sleep(2 * frame)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(t, []string{"a result", "another result"}, w.lines[:2])
		assert.Len(t, w.lines, 4)
	})
}
