package devproxy

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// entry is what the log says of a request: nothing a caller or patient could
// be known by.
type entry struct {
	method, route  string
	status         int
	duration       time.Duration
	received, sent int64
	fault          string
	findings       []finding
}

// requestLog writes whole entries, one after the other.
type requestLog struct {
	mu sync.Mutex
	w  io.Writer
}

func newRequestLog(w io.Writer) *requestLog { return &requestLog{w: w} }

func (l *requestLog) write(e entry) {
	_, path, _ := strings.Cut(e.route, " ")
	status := "no response"
	if e.status != 0 {
		status = strconv.Itoa(e.status)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%s  %-6s %-33s %s  %s  in %s  out %s",
		time.Now().Format(time.TimeOnly), method(e.method), cmp.Or(path, "(unknown path)"), status,
		e.duration.Round(10*time.Microsecond), size(e.received), size(e.sent))
	if e.fault != "" {
		line.WriteString("  fault: " + e.fault)
	}
	for _, f := range e.findings {
		line.WriteString("\n          ! " + f.String())
	}
	line.WriteString("\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, line.String()) // a log that cannot be written must not stop the service
}

// method keeps a made-up method out of the log.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return m
	default:
		return "other"
	}
}

func size(bytes int64) string {
	switch {
	case bytes < 1_000:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
}
