package guards_test

import (
	"os"
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
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly")
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
