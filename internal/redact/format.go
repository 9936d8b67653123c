// Package redact is the one place that decides how values and errors which may hold secrets or patients' data are
// printed: by an allow-list, never by leaving things out.
package redact

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Format prints v as name{key=value ...}, made of nothing but the attributes its LogValue gives, whatever the verb.
// A type whose Format method calls it prints the same in fmt and in slog.
func Format(s fmt.State, name string, v slog.LogValuer) {
	_, _ = io.WriteString(s, name+group(v.LogValue()))
}

func group(v slog.Value) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, attr := range v.Group() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(attr.Key)
		b.WriteByte('=')
		if value := attr.Value.Resolve(); value.Kind() == slog.KindGroup {
			b.WriteString(group(value))
		} else {
			b.WriteString(value.String())
		}
	}
	b.WriteByte('}')
	return b.String()
}
