package guards_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every promise of SECURITY.md names the tests that hold it, and these exist.
func TestEveryPromiseIsHeldByATest(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	require.NoError(t, err)
	_, promised, found := strings.Cut(string(document), "## What is certain")
	require.True(t, found)
	promised, _, found = strings.Cut(promised, "## What nobody can know")
	require.True(t, found)

	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
		return err
	}))
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
