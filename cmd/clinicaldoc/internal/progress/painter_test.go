package progress

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// window is a terminal that breaks its lines anew when it is made narrow or wide, as most do.
type window struct {
	mu     sync.Mutex
	width  int
	writes int
	lines  []string // as they were written, each of which may stand on several rows
}

func (w *window) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	rest := string(text)
	if after, erases := strings.CutPrefix(rest, "\r"); erases {
		up := 0
		if code, behind, ok := strings.Cut(after, "A"); ok && strings.HasPrefix(code, "\x1b[") {
			for _, digit := range strings.TrimPrefix(code, "\x1b[") {
				up = up*10 + int(digit-'0')
			}
			up = max(up, 1) // terminals read 0 as 1
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

// seen returns what the window shows, and how often something was written to it.
func (w *window) seen() (text string, writes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n"), w.writes
}

func (w *window) resize(width int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.width = width
}

// After the window is resized while nothing moves, each row is drawn completely and once, and the lines above do not
// change.
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
			for range 2 {
				time.Sleep(2 * frame)
				synctest.Wait()
				checkRows(t, w, width)
				rows[0].Set(int64(width), 1000) // the same rows, drawn once more
			}
		}
		rows[0].End()
		p.Line("another result")
		time.Sleep(2 * frame)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(t, []string{"a result", "another result"}, w.lines[:2])
		require.Len(t, w.lines, 4)
		assert.Contains(t, w.lines[2], "recording 2 of 3", "the row that ended is gone")
	})
}

// checkRows checks that a window shows a line, two recordings and the total, each on one row.
func checkRows(t *testing.T, w *window, width int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := strings.Join(w.lines, "\n")
	require.Len(t, w.lines, 4, seen)
	assert.Equal(t, "a result", w.lines[0], width)
	for i, want := range []string{"recording 1", "recording 2", "0/3 done"} {
		assert.Contains(t, w.lines[i+1], want)
		assert.Less(t, runewidth.StringWidth(w.lines[i+1]), width)
	}
}

// Many small steps of a transfer cost few writes, and none is needed while nothing moves.
func TestPainter_ManySteps_AreDrawnOncePerFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &window{width: 100, lines: []string{""}}
		p := newPainter(w, w.columns)
		row := p.Start("recording", 1000)
		time.Sleep(frame + frame/2)
		row.Set(1, 1000)
		_, before := w.seen()
		for sent := range int64(500) {
			row.Set(sent+1, 1000)
		}
		text, writes := w.seen()
		assert.Equal(t, before, writes)
		assert.Contains(t, text, "  0 %")
		row.Rename("a new name")
		time.Sleep(frame)
		synctest.Wait()
		text, writes = w.seen()
		assert.Equal(t, before+1, writes)
		assert.Contains(t, text, "a new name")
		assert.Contains(t, text, " 50 %")

		p.Line("a result")
		text, before = w.seen()
		assert.Regexp(t, "^a result\na new name .* 50 %$", text, "rows are below a line immediately")
		time.Sleep(10 * frame)
		synctest.Wait()
		_, writes = w.seen()
		assert.Equal(t, before, writes)

		p.Close()
		p.Close()
		_, before = w.seen()
		time.Sleep(frame)
		row.Set(1000, 1000)
		row.End()
		text, writes = w.seen()
		assert.Equal(t, before, writes)
		assert.Equal(t, "a result\n", text)
	})
}

func TestPainter_ManyRows_ShowsTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &window{width: 100, lines: []string{""}}
		p := newPainter(w, w.columns)
		defer p.Close()
		for i := range maxRows + 1 {
			p.Start(fmt.Sprintf("recording %d", i+1), 1000)
		}
		p.Total("the total")
		time.Sleep(2 * frame)
		synctest.Wait()
		text, _ := w.seen()
		assert.Contains(t, text, "recording 8 ")
		assert.NotContains(t, text, "recording 9 ")
		assert.Equal(t, maxRows, strings.Count(text, "\n"))
		assert.True(t, strings.HasSuffix(text, "\nthe total"))
	})
}

func TestRow_EachWidth_KeepsItsColumns(t *testing.T) {
	t.Parallel()
	const long = "recording of a very long name that no window shows complete, and more of it"
	for _, one := range []struct {
		name       string
		sent, size int64
		width      int
		want       string
	}{
		{"a", 0, 1000, 100, "a" + strings.Repeat(" ", 35) + " [....................]   0 %"},
		{"a", 500, 1000, 100, "a" + strings.Repeat(" ", 35) + " [##########..........]  50 %"},
		{"a", 1000, 1000, 50, "a" + strings.Repeat(" ", 17) + " [####################] 100 %"},
		{"more than its size", 1500, 1000, 50, "more than its size [####################] 100 %"},
		{long, 1, 4, 50, "recording of a ve… [#####...............]  25 %"},
		{long, 1, 4, 30, "recording… [#####...............]  25 %"},
		{long, 1, 4, 90, long[:57] + "… [#####...............]  25 %"},
		{"of unknown size", 3 << 19, -1, 50, "of unknown size    1.5 MB"},
		{"empty", 0, 0, 50, "empty              0 kB"},
	} {
		row := Row{name: one.name, sent: one.sent, size: one.size}
		assert.Equal(t, one.want, row.text(one.width))
	}
}

func TestBytes_EachSize_IsForPeople(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]string{
		-1: "? MB", 0: "0 kB", 1: "1 kB", 1024: "1 kB", 1025: "2 kB", 1<<20 - 1: "1024 kB", 1 << 20: "1.0 MB",
		3 << 19: "1.5 MB",
	} {
		assert.Equal(t, want, Bytes(size), size)
	}
}

func TestNew_EachTerminal_ShowsWhatFits(t *testing.T) {
	for name, one := range map[string]struct {
		tty, plain bool
		term, ci   string
		width      int
		rows       bool
	}{
		"a terminal":     {true, false, "xterm", "", 40, true},
		"a narrow one":   {true, false, "xterm", "", 39, false},
		"no terminal":    {false, false, "xterm", "", 80, false},
		"plain texts":    {true, true, "xterm", "", 80, false},
		"a dumb one":     {true, false, "dumb", "", 80, false},
		"a build server": {true, false, "xterm", "true", 80, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", one.term)
			t.Setenv("CI", one.ci)
			var out strings.Builder
			shown := New(&output.IO{
				Err: &out, ErrTTY: one.tty, Plain: one.plain, ErrWidth: func() int { return one.width },
			})
			shown.Start("recording", 1000)
			shown.Close()
			assert.Equal(t, one.rows, strings.Contains(out.String(), "recording"))
		})
	}
}

func TestLines_Total_IsPrintedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := New(&output.IO{Err: &out})
		defer l.Close()
		row := l.Start("recording", 1000)
		row.Set(500, 1000)
		row.Rename("another")
		row.End()
		l.Line("a result")
		time.Sleep(totalPause - time.Nanosecond)
		l.Total("too soon")
		time.Sleep(time.Nanosecond)
		l.Total("1/3 done")
		l.Total("2/3 done")
		assert.Equal(t, "a result\n1/3 done\n", out.String())
	})
}
