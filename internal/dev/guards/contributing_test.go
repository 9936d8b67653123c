package guards_test

import (
	"encoding/json"
	"go/format"
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
	changed := map[string][]byte{}
	for name := range files {
		if inRoot(name) && isTest(name) && name != "helpers_test.go" {
			changed[name] = nil // to compile less
		}
	}
	tests := ""
	for _, block := range codeBlock.FindAllStringSubmatch(section, -1) {
		words, code := strings.TrimSpace(block[1]), regexp.MustCompile(`(?m)^   `).ReplaceAllString(block[2], "")+"\n"
		if !strings.HasPrefix(code, "package ") {
			place := insertion.FindStringSubmatch(words)
			require.NotNil(t, place, "where does this go: %s", code)
			files[place[1]] = insertAfter(t, files[place[1]], place[2], code)
			changed[place[1]] = files[place[1]]
			continue
		}
		names := fileName.FindAllStringSubmatch(words, -1)
		require.NotEmpty(t, names, "what is this file called: %s", code)
		name := names[len(names)-1][1]
		formatted, err := format.Source([]byte(code))
		require.NoError(t, err, name)
		assert.Equal(t, string(formatted), code, name)
		require.NotContains(t, files, name, "a new file")
		changed[name] = formatted
		if isTest(name) {
			tests = regexp.MustCompile(`func (Test\w+)`).FindStringSubmatch(code)[1]
		}
	}
	require.NotEmpty(t, tests, "the endpoint has a test")
	assert.Contains(t, runTests(t, changed, tests), "--- PASS: "+tests)
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

// runTests runs tests of the root package as it is with these files, or without those that are nil, and returns what is
// printed. The go command is told of the changes instead of given a copy, which it would have to compile as a whole.
func runTests(t *testing.T, files map[string][]byte, pattern string) string {
	t.Helper()
	folder, err := filepath.Abs(root)
	require.NoError(t, err)
	changes := t.TempDir()
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, content := range files {
		place := filepath.Join(changes, name)
		if content == nil {
			place = ""
		} else {
			require.NoError(t, os.WriteFile(place, content, 0o600))
		}
		overlay.Replace[filepath.Join(folder, name)] = place
	}
	list, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(changes, "overlay.json"), list, 0o600))
	test := exec.CommandContext(t.Context(), "go", "test", "-overlay", filepath.Join(changes, "overlay.json"), "-vet=off", "-ldflags=-s -w", "-run", "^"+pattern+"$", "-v", ".")
	test.Dir = folder
	test.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=off")
	out, err := test.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}
