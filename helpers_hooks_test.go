package clinicaldoc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// hookLog is what hooks were told, as a tree: what the context of one led to stands below it.
type hookLog struct {
	mu       sync.Mutex
	all      hookEntry
	calls    []clinicaldoc.CallResult
	attempts []clinicaldoc.AttemptResult
	infos    []clinicaldoc.AttemptInfo
}

type hookEntry struct {
	text  string
	ends  int // how often its end was told
	below []*hookEntry
}

type hookKey struct{}

// traceparent is the same for all attempts, so that requests can be compared whole.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func (l *hookLog) begin(ctx context.Context, text string) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := &hookEntry{text: text}
	parent, ok := ctx.Value(hookKey{}).(*hookEntry)
	if !ok {
		parent = &l.all
	}
	parent.below = append(parent.below, entry)
	return context.WithValue(ctx, hookKey{}, entry)
}

func (l *hookLog) end(ctx context.Context, text string) *hookEntry {
	entry, ok := ctx.Value(hookKey{}).(*hookEntry)
	if !ok {
		entry = &hookEntry{}
		l.all.below = append(l.all.below, entry)
	}
	entry.text += text
	entry.ends++
	return entry
}

func (l *hookLog) hooks() clinicaldoc.Hooks {
	return clinicaldoc.Hooks{
		CallStart: func(ctx context.Context, call clinicaldoc.CallInfo) context.Context {
			return l.begin(ctx, call.Operation)
		},
		AttemptStart: func(ctx context.Context, a clinicaldoc.AttemptInfo) (context.Context, clinicaldoc.TraceContext) {
			return l.begin(ctx, fmt.Sprintf("%d: %s %s", a.Number, a.Method, a.Route)), clinicaldoc.TraceContext{Traceparent: traceparent}
		},
		AttemptEnd: func(ctx context.Context, a clinicaldoc.AttemptInfo, r clinicaldoc.AttemptResult) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(ctx, hookText(r.StatusCode, r.ErrorType, r.OutcomeUnknown))
			l.attempts, l.infos = append(l.attempts, r), append(l.infos, a)
		},
		CallEnd: func(ctx context.Context, call clinicaldoc.CallInfo, r clinicaldoc.CallResult) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(ctx, hookText(0, r.ErrorType, r.OutcomeUnknown))
			l.calls = append(l.calls, r)
		},
	}
}

func (l *hookLog) option() clinicaldoc.Option { return clinicaldoc.WithHooks(l.hooks()) }

func hookText(status int, errorType string, unknown bool) string {
	text := ""
	if status != 0 {
		text += fmt.Sprint(" ", status)
	}
	if errorType != "" {
		text += " (" + errorType + ")"
	}
	if unknown {
		text += " unknown"
	}
	return text
}

// String is the tree, and empties the log.
func (l *hookLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	var write func(entries []*hookEntry, indent string)
	write = func(entries []*hookEntry, indent string) {
		for _, entry := range entries {
			fmt.Fprintf(&b, "\n%s%s", indent, entry.text)
			if entry.ends != 1 {
				fmt.Fprintf(&b, " ENDED %d TIMES", entry.ends)
			}
			write(entry.below, indent+"\t")
		}
	}
	write(l.all.below, "\t\t")
	l.all, l.calls, l.attempts, l.infos = hookEntry{}, nil, nil, nil
	return b.String() + "\n"
}
