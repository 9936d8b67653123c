package guards_test

import (
	"encoding/json"
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeBlock   = regexp.MustCompile("(?s)(.*?)\n *```(?:go|json|markdown)\n(.*?)\n *```\n")
	fileName    = regexp.MustCompile("`([a-z_/]+\\.go)`")
	insertion   = regexp.MustCompile("in `([A-Za-z_/]+\\.(?:go|json|md))`, after `([^`]+)`:$")
	indentation = regexp.MustCompile(`(?m)^   `)
	testName    = regexp.MustCompile(`func (Test\w+)`)
)

// Code that follows the first recipe of CONTRIBUTING.md compiles, and its test passes.
func TestContributing_RecipeForAnEndpoint_Works(t *testing.T) {
	t.Parallel()
	r := readRecipe(t, "Add an endpoint")
	r.passes(t, ".", r.test)
}

// The second recipe works too, in at most eight files: in the SDK and the fake server. Tests of packages that it does
// not touch pass without a further file. What it adds agrees with the description, which the module
// internal/dev/contract tests, with modules that this one does not require.
func TestContributing_RecipeForAList_WorksInEightFiles(t *testing.T) {
	t.Parallel()
	r := readRecipe(t, "Add a list in pages")
	assert.LessOrEqual(t, len(r.files), 8, "%v", slices.Sorted(maps.Keys(r.files)))
	r.passes(t, ".", r.test)
	r.passes(t, "internal/description", "TestDescription_Document_IsRead")
	if *complete {
		r.passes(t, "cmd/internal/devproxy", "TestCopiedGo_EveryRoute_Compiles")
		r.passes(t, "internal/dev/contract", "TestDefaultVariant_KeepsTheContract")
	}
	assert.True(t, json.Valid(r.files["docs/openapi.json"]))
}

// recipe is what a section of CONTRIBUTING.md makes of the repository's files.
type recipe struct {
	files map[string][]byte // new and changed ones, by their path
	test  string            // the test that it adds
}

// readRecipe does what a reader does: a complete file is written under the name before it, other code goes after the
// line that is named.
func readRecipe(t *testing.T, title string) recipe {
	t.Helper()
	_, section, found := strings.Cut(documents(t)["CONTRIBUTING.md"], "\n## "+title+"\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	r := recipe{files: map[string][]byte{}}
	for _, block := range codeBlock.FindAllStringSubmatch(section, -1) {
		words := strings.TrimSpace(block[1])
		code := indentation.ReplaceAllString(block[2], "") + "\n"
		if strings.HasPrefix(code, "package ") {
			r.create(t, words, code)
			continue
		}
		place := insertion.FindStringSubmatch(words)
		require.NotNil(t, place, "where does this go: %s", code)
		name := place[1]
		if r.files[name] == nil {
			content, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			r.files[name] = content
		}
		r.files[name] = insertAfter(t, r.files[name], place[2], code)
	}
	require.NotEmpty(t, r.test, "the recipe has a test")
	return r
}

// create adds a new file, whose name is the last one before the code.
func (r *recipe) create(t *testing.T, words, code string) {
	t.Helper()
	names := fileName.FindAllStringSubmatch(words, -1)
	require.NotEmpty(t, names, "what is this file called: %s", code)
	name := names[len(names)-1][1]
	require.NoFileExists(t, filepath.Join(root, name))
	formatted, err := format.Source([]byte(code))
	require.NoError(t, err, name)
	assert.Equal(t, string(formatted), code, name)
	r.files[name] = formatted
	if isTest(name) {
		r.test = testName.FindStringSubmatch(code)[1]
	}
}

// insertAfter puts code after the one line that has the words, whatever white space is between them.
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

// passes runs a test of a package as it is with the recipe's files. The go command is told of the changes instead of
// given a copy, which it would have to compile completely.
func (r *recipe) passes(t *testing.T, folder, test string) {
	t.Helper()
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	changes := t.TempDir()
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name := range sources(t) {
		if inRoot(name) && isTest(name) && name != "helpers_test.go" {
			overlay.Replace[filepath.Join(top, name)] = "" // to compile less
		}
	}
	for name, content := range r.files {
		place := filepath.Join(changes, strings.ReplaceAll(name, "/", "-"))
		require.NoError(t, os.WriteFile(place, content, 0o600))
		overlay.Replace[filepath.Join(top, name)] = place
	}
	list, err := json.Marshal(overlay)
	require.NoError(t, err)
	overlayFile := filepath.Join(changes, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, list, 0o600))
	args := []string{"test", "-overlay", overlayFile, "-vet=off", "-ldflags=-s -w", "-run", "^" + test + "$", "-v", "."}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = path.Join(top, folder)
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "--- PASS: "+test)
}
