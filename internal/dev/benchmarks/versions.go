// Package benchmarks holds the SDK beside its peers: see the README. Its test proves that everybody got the same values;
// cmd/report measures.
package benchmarks

import (
	_ "embed"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
)

//go:embed go.mod
var goMod string

// Version returns the version of a module as go.mod requires it; of the empty name, the SDK's own.
func Version(module string) string {
	if module == "" {
		return clinicaldoc.Version
	}
	for line := range strings.Lines(goMod) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == module {
			return fields[1]
		}
	}
	return ""
}
