package command

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The help, the page and the code name the same exit codes.
func TestExitCodes_EachOne_IsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/command-line.md")
	require.NoError(t, err)
	var help, table []string
	for _, m := range regexp.MustCompile(`(?m)^  (\d+) `).FindAllStringSubmatch(exitCodesText, -1) {
		help = append(help, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+)[ ,]`).FindAllStringSubmatch(string(page), -1) {
		table = append(table, m[1])
	}
	assert.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "130"}, help)
	assert.Equal(t, help, table)

	// Each is made in a test.
	script, err := os.ReadFile("../../testdata/once/exitcodes.txtar")
	require.NoError(t, err)
	terminal, err := os.ReadFile("../../terminal_test.go")
	require.NoError(t, err)
	for _, code := range append(help, "143") {
		assert.Regexp(t, `(?m)^exits `+code+` |assert\.Equal\(t, `+code+`, x\.ends\(\)`, string(script)+string(terminal), code)
	}
}
