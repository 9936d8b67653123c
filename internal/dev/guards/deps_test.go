package guards_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const thisModule = "github.com/clinicaldoc/clinicaldoc-go"

// goOutput returns the words that a go command prints.
func goOutput(t *testing.T, args ...string) []string {
	t.Helper()
	return strings.Fields(goText(t, args...))
}

func goText(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	require.NoError(t, err, "%v", args)
	return string(out)
}

// What the package links is what every program that imports it has to trust.
func TestDependenciesAreFew(t *testing.T) {
	t.Parallel()
	foreign := slices.DeleteFunc(goOutput(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "."), func(path string) bool {
		return path == thisModule || strings.HasPrefix(path, thisModule+"/internal/")
	})
	assert.ElementsMatch(t, []string{
		"github.com/google/go-querystring/query",
		"github.com/hashicorp/go-cleanhttp",
		"github.com/hashicorp/go-retryablehttp",
	}, foreign)

	// The box, for the tests of such programs, brings nothing more, nor do ingest and snapshot.
	for _, path := range []string{"./clinicaldoctest", "./ingest", "./snapshot"} {
		modules := goOutput(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", path)
		slices.Sort(modules)
		assert.ElementsMatch(t, []string{
			thisModule, "github.com/google/go-querystring", "github.com/hashicorp/go-cleanhttp", "github.com/hashicorp/go-retryablehttp",
		}, slices.Compact(modules), path)
	}
}

// What go.mod requires comes into the module graph of every importer, also what only tests use; what that requires in turn
// is listed too. The versions are go.mod's and go.sum's matter.
func TestRequiredModulesAreFew(t *testing.T) {
	t.Parallel()
	required := goOutput(t, "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	assert.ElementsMatch(t, []string{
		"github.com/google/go-querystring",
		"github.com/hashicorp/go-cleanhttp",
		"github.com/hashicorp/go-retryablehttp",
		"github.com/jarcoal/httpmock",
		"github.com/stretchr/testify",
		"go.uber.org/goleak",
	}, required)

	var graph []string
	for _, module := range goOutput(t, "mod", "graph") {
		if name, _, _ := strings.Cut(module, "@"); name != thisModule && name != "go" && name != "toolchain" {
			graph = append(graph, name)
		}
	}
	slices.Sort(graph)
	assert.ElementsMatch(t, []string{
		"github.com/google/go-querystring", "github.com/google/go-cmp",
		"github.com/hashicorp/go-cleanhttp",
		"github.com/hashicorp/go-retryablehttp", "github.com/fatih/color", "github.com/hashicorp/go-hclog", "github.com/mattn/go-colorable",
		"github.com/mattn/go-isatty", "golang.org/x/sys",
		"github.com/jarcoal/httpmock", "github.com/maxatome/go-testdeep", "github.com/davecgh/go-spew",
		"github.com/stretchr/testify", "github.com/stretchr/objx", "go.yaml.in/yaml/v3",
		"go.uber.org/goleak", "github.com/kr/pretty", "github.com/pmezard/go-difflib", "gopkg.in/check.v1", "gopkg.in/yaml.v3",
	}, slices.Compact(graph))
}
