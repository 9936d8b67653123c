package guards_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every promise of SECURITY.md names the tests that hold it, and these exist.
func TestEveryPromiseIsHeldByATest(t *testing.T) {
	t.Parallel()
	_, promised, found := strings.Cut(read(t, "SECURITY.md"), "## What is certain")
	require.True(t, found)
	promised, _, found = strings.Cut(promised, "## What nobody can know")
	require.True(t, found)

	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, file := range files(t) {
		if isTest(file) {
			for _, match := range function.FindAllStringSubmatch(read(t, file), -1) {
				tests[match[1]] = true
			}
		}
	}
	name := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	var promises []string
	for _, promise := range regexp.MustCompile(`\n- |\n\| |\n\n`).Split(promised, -1) {
		held := name.FindAllStringSubmatch(promise, -1)
		for _, match := range held {
			assert.True(t, tests[match[1]], "there is no %s", match[1])
		}
		promise = strings.TrimSpace(promise)
		if promise == "" || strings.HasPrefix(promise, "**") || strings.HasPrefix(promise, "## ") || strings.HasPrefix(promise, "| what |") {
			continue
		}
		promises = append(promises, promise)
		assert.NotEmpty(t, held, "no test holds: %s", promise)
	}
	assert.NotEmpty(t, promises)
}
