package clinicaldoc_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the package links is what every program that imports it has to trust.
func TestDependenciesAreFew(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	out, err := list.Output()
	require.NoError(t, err)
	const module = "github.com/clinicaldoc/clinicaldoc-go"
	foreign := slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool {
		return path == module || strings.HasPrefix(path, module+"/internal/")
	})
	assert.ElementsMatch(t, []string{
		"github.com/google/go-querystring/query",
		"github.com/hashicorp/go-cleanhttp",
		"github.com/hashicorp/go-retryablehttp",
	}, foreign)
}
