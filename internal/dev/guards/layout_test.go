package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxFiles         = 17 // of the root package, tests apart
	maxEntries       = 56 // of the top level: a visitor should not have to scroll to the README
	maxFunctionLines = 50
)

// rootFiles are the files of the root package, tests apart. A new subject is a decision.
var rootFiles = []string{
	"audio.go", "client.go", "doc.go", "edits.go", "errors.go", "findcreated.go", "hooks.go", "multipart.go", "note.go", "notes.go",
	"options.go", "pagination.go", "request.go", "response.go", "tokens.go", "users.go", "wait.go",
}

// wholeSubjects are subjects of tests that are about the whole root package, not about one file of it.
var wholeSubjects = []string{"example", "helpers"}

// topLevel is what else may stand where a visitor looks first.
var topLevel = []string{
	".ci", ".editorconfig", ".gitattributes", ".github", ".gitignore", ".golangci.yml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
	"README.md", "SECURITY.md", "clinicaldoctest", "cmd", "docs", "examples", "go.mod", "go.sum", "ingest", "internal", "otelclinicaldoc", "snapshot",
}

func TestTheRootShowsWhatTheSDKOffers(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, len(rootFiles), maxFiles)
	var surplus, stray []string
	files := sources(t)
	for _, name := range rootFiles {
		assert.Contains(t, files, name, "the list names what is there")
	}
	for name := range files {
		subject, _, _ := strings.Cut(strings.TrimSuffix(name, ".go"), "_")
		switch {
		case !inRoot(name) || slices.Contains(rootFiles, name):
		case !isTest(name):
			surplus = append(surplus, name)
		case !slices.Contains(rootFiles, subject+".go") && !slices.Contains(wholeSubjects, subject):
			stray = append(stray, name)
		}
	}
	assert.Empty(t, surplus, "the root package has no file but the listed ones")
	assert.Empty(t, stray, "a test is named after the file that it tests")
}

func TestNothingElseStandsAtTheTop(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("only git knows which files belong to the repository")
	}
	list := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	entries := map[string]bool{}
	for path := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		name, _, _ := strings.Cut(path, "/")
		entries[name] = true
		if name != path || !strings.HasSuffix(name, ".go") {
			assert.Contains(t, topLevel, name, path)
		}
	}
	assert.LessOrEqual(t, len(entries), maxEntries)
}

func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	var functions []string
	for name, source := range sources(t) {
		if isTest(name) || !inRoot(name) && !strings.HasPrefix(name, "internal/") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && set.Position(function.End()).Line-set.Position(function.Pos()).Line >= maxFunctionLines {
				functions = append(functions, name+": "+function.Name.Name)
			}
		}
	}
	assert.Empty(t, functions, "no function has more than %d lines", maxFunctionLines)
}

// What serves maintainers may use the root, and so does the gap report, which asks a service through a client. All else in
// internal knows nothing of it, in its tests neither.
func TestInternalPackagesDoNotKnowTheRoot(t *testing.T) {
	t.Parallel()
	packages := slices.DeleteFunc(goOutput(t, "list", "-f", `{{.ImportPath}}`, "./internal/..."), func(path string) bool {
		return path == thisModule+"/internal/gaps" || strings.HasPrefix(path, thisModule+"/internal/dev/")
	})
	require.NotEmpty(t, packages)
	known := goOutput(t, append([]string{"list", "-deps", "-test"}, packages...)...)
	assert.False(t, slices.Contains(known, thisModule), "one of %v imports the root", packages)
}

// Users run what is outside internal/dev, so it must not depend on what serves maintainers. Tests may use it. Nested modules
// are read too, which is why this reads files instead of asking the go command.
func TestShippedPackages_DoNotImportMaintainersTools(t *testing.T) {
	t.Parallel()
	maintainers := filepath.Join(root, "internal", "dev")
	var checked []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path == maintainers || entry.Name() == ".git" || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || isTest(path) {
			return nil
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		checked = append(checked, filepath.ToSlash(name))
		for _, imported := range importsOf(t, path) {
			assert.NotContains(t, imported+"/", thisModule+"/internal/dev/", name)
		}
		return nil
	}))
	for _, name := range []string{
		"client.go", "ingest/jetstream/fleet.go", "cmd/clinicaldoc/main.go", "cmd/internal/devproxy/devproxy.go",
		"internal/exchange/exchange.go", "otelclinicaldoc/hooks.go", "snapshot/snapshot.go", "clinicaldoctest/server.go",
	} {
		assert.Contains(t, checked, name, "the walk must reach every kind of package")
	}
}

func importsOf(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	require.NoError(t, err)
	var imported []string
	for _, spec := range file.Imports {
		imported = append(imported, strings.Trim(spec.Path.Value, `"`))
	}
	return imported
}
