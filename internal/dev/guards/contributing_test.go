package guards_test

import (
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeBlock = regexp.MustCompile("(?s)(.*?)\n *```go\n(.*?)\n *```\n")
	fileName  = regexp.MustCompile("`([a-z_]+\\.go)`")
	insertion = regexp.MustCompile("in `([a-z_]+\\.go)`, after `([^`]+)`:$")
)

// Who adds an endpoint as CONTRIBUTING.md says gets code that compiles and a test that passes. This does what a reader does,
// in a copy: a whole file is written under the name before it, other code goes behind the line that is named.
func TestAddAnEndpointWorksToTheLetter(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(strings.ReplaceAll(string(document), "\r\n", "\n"), "\n## Add an endpoint\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")

	files := sources(t)
	maps.DeleteFunc(files, func(name string, _ []byte) bool { return isTest(name) && name != "helpers_test.go" }) // to compile less
	tests := ""
	for _, block := range codeBlock.FindAllStringSubmatch(section, -1) {
		words, code := strings.TrimSpace(block[1]), regexp.MustCompile(`(?m)^   `).ReplaceAllString(block[2], "")+"\n"
		if !strings.HasPrefix(code, "package ") {
			place := insertion.FindStringSubmatch(words)
			require.NotNil(t, place, "where does this go: %s", code)
			files[place[1]] = insertAfter(t, files[place[1]], place[2], code)
			continue
		}
		names := fileName.FindAllStringSubmatch(words, -1)
		require.NotEmpty(t, names, "what is this file called: %s", code)
		name := names[len(names)-1][1]
		formatted, err := format.Source([]byte(code))
		require.NoError(t, err, name)
		assert.Equal(t, string(formatted), code, name)
		require.NotContains(t, files, name, "a new file")
		files[name] = formatted
		if isTest(name) {
			tests = regexp.MustCompile(`func (Test\w+)`).FindStringSubmatch(code)[1]
		}
	}
	require.NotEmpty(t, tests, "the endpoint has a test")
	assert.Contains(t, runTests(t, files, tests), "--- PASS: "+tests)
}

// insertAfter puts code behind the one line that holds the words, whatever white space is between them.
func insertAfter(t *testing.T, file []byte, words, code string) []byte {
	t.Helper()
	lines := strings.SplitAfter(string(file), "\n")
	holds := func(line string) bool {
		return strings.Contains(strings.Join(strings.Fields(line), " "), strings.Join(strings.Fields(words), " "))
	}
	at := slices.IndexFunc(lines, holds)
	require.NotEqual(t, -1, at, "no line holds %s", words)
	require.False(t, slices.ContainsFunc(lines[at+1:], holds), "several lines hold %s", words)
	return []byte(strings.Join(slices.Insert(lines, at+1, code), ""))
}

// runTests runs tests of the root package in a copy of the repository that has these files, and returns what is printed.
func runTests(t *testing.T, files map[string][]byte, pattern string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		files[name] = content
	}
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-run", "^"+pattern+"$", "-v", ".")
	test.Dir = folder
	test.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := test.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}
