package guards_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The gap report and the flag of the examples use the root. All else in internal knows nothing of it, in its tests
// neither.
func TestInternalPackagesDoNotKnowTheRoot(t *testing.T) {
	t.Parallel()
	packages := slices.DeleteFunc(goOutput(t, "list", "-f", `{{.ImportPath}}`, "./internal/..."), func(path string) bool {
		return path == thisModule+"/internal/gaps" || path == thisModule+"/internal/boxflag"
	})
	require.NotEmpty(t, packages)
	known := goOutput(t, append([]string{"list", "-deps", "-test"}, packages...)...)
	assert.False(t, slices.Contains(known, thisModule), "one of %v imports the root", packages)
}

// Users run what is outside internal/dev, so it must not depend on what serves maintainers. Their tests must not either,
// because the module internal/dev requires the root.
func TestShippedPackages_DoNotImportMaintainersTools(t *testing.T) {
	t.Parallel()
	var checked []string
	for _, name := range files(t) {
		if strings.HasPrefix(name, "internal/dev/") || !strings.HasSuffix(name, ".go") {
			continue
		}
		checked = append(checked, name)
		for _, imported := range importsOf(t, name) {
			assert.NotContains(t, imported+"/", thisModule+"/internal/dev/", name)
		}
	}
	for _, name := range []string{
		"client.go", "ingest/jetstream/fleet.go", "cmd/clinicaldoc/main.go", "cmd/internal/devproxy/devproxy.go",
		"internal/exchange/exchange.go", "otelclinicaldoc/hooks.go", "snapshot/snapshot.go", "clinicaldoctest/server.go",
	} {
		assert.Contains(t, checked, name, "the walk must reach every kind of package")
	}
}

// The layout in CONTRIBUTING.md names every package, or the folder that contains it, and nothing that is gone.
func TestContributing_LayoutNamesEveryPackage(t *testing.T) {
	t.Parallel()
	named := namedInLayout(t)
	for _, folder := range packageFolders(t) {
		assert.True(t, named[folder], "add %s to the layout in CONTRIBUTING.md", folder)
	}
}

// The layout also names every file of the root package, except those of further services.
func TestContributing_LayoutNamesEveryFileOfTheRoot(t *testing.T) {
	t.Parallel()
	named := namedInLayout(t)
	for name, content := range sources(t) {
		isService := strings.Contains(content, "Service struct{ client *Client }")
		if inRoot(name) && !isTest(name) && !isService {
			assert.True(t, named[name], "add %s to the layout in CONTRIBUTING.md", name)
		}
	}
}

// namedInLayout returns the files and folders that the layout names. They exist.
func namedInLayout(t *testing.T) map[string]bool {
	t.Helper()
	_, layout, found := strings.Cut(documents(t)["CONTRIBUTING.md"], "\n## Layout\n")
	require.True(t, found)
	layout, _, _ = strings.Cut(layout, "\n## ")
	named := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^    (\S+(?:, \S+)*)  `).FindAllStringSubmatch(layout, -1) {
		for name := range strings.SplitSeq(line[1], ", ") {
			named[name] = true
			_, err := os.Stat(filepath.Join(root, name))
			require.NoError(t, err, "the layout names it")
		}
	}
	return named
}

// packageFolders returns the folders that contain Go files, as deep as the layout goes into them.
func packageFolders(t *testing.T) []string {
	t.Helper()
	depths := map[string]int{"cmd": 2, "ingest": 2, "internal": 2, "internal/dev": 3}
	var named []string
	for _, name := range files(t) {
		if inRoot(name) || !strings.HasSuffix(name, ".go") {
			continue
		}
		parts := strings.Split(path.Dir(name), "/")
		depth := max(1, depths[parts[0]])
		if len(parts) > 2 {
			depth = max(depth, depths[parts[0]+"/"+parts[1]])
		}
		named = append(named, strings.Join(parts[:min(depth, len(parts))], "/"))
	}
	slices.Sort(named)
	return slices.Compact(named)
}

func importsOf(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.ImportsOnly)
	require.NoError(t, err)
	var imported []string
	for _, spec := range file.Imports {
		imported = append(imported, strings.Trim(spec.Path.Value, `"`))
	}
	return imported
}
