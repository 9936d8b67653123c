package guards_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

// What go doc shows first is the way of a note, and it compiles: each "..." stands for the handling of an error.
func TestTheOverviewOpensWithTheWayOfANote(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile(`(?:\n//\t[^\n]*)+`).FindString(sources(t)["doc.go"])
	code := strings.ReplaceAll(block, "\n//\t", "\n")[1:] + "\n"
	at := -1
	for _, step := range []string{"NewClient", ".CreateOnce(", ".Wait(", ".Sign("} {
		next := strings.Index(code, step)
		assert.Greater(t, next, at, step)
		at = next
	}
	program := strings.ReplaceAll(code, "\n...\n", "\nif err != nil {\nreturn err\n}\n")
	require.NoError(t, outside.Go(t.Context(), root, outside.Programs("```go\n"+program+"```"), "build", "./..."))
}
