package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test of the package notices one change of an operator and does not notice the other. No test executes the third
// function, and the fourth does not compile with a minus.
func TestTry_OnePackage_TellsWhatItsTestsNotice(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module synthetic\n\ngo 1.26\n",
		"synthetic.go": `package synthetic

func sum(a, b int) int { return a + b }

func isLess(a, b int) bool { return a < b }

func difference(a, b int) int { return a - b }

func join(a, b string) string { return a + b }
`,
		"synthetic_test.go": `package synthetic

import "testing"

func TestAll(t *testing.T) {
	if sum(2, 3) != 5 || !isLess(1, 2) || join("a", "b") != "ab" {
		t.Fail()
	}
}
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	scratch := t.TempDir()
	tests, err := coveredBy(t.Context(), folder, scratch)
	require.NoError(t, err)
	changes, err := find(folder)
	require.NoError(t, err)
	assert.Len(t, changes, 5)
	binary, changes, err := build(t.Context(), folder, scratch, choose(changes, tests))
	require.NoError(t, err)

	results := map[string]result{}
	for i, r := range try(t.Context(), folder, binary, changes, tests) {
		results[changes[i].name()] = r
	}
	assert.Equal(t, map[string]result{
		"synthetic.go:3:35: + -> -":  noticed,
		"synthetic.go:5:39: < -> <=": survived,
		"synthetic.go:5:39: < -> >=": noticed,
	}, results)
}
