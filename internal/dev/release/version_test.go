package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersionAllows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		last, next version
		change     change
		ok         bool
	}{
		{"v0.2.0", "v0.2.1", same, true},
		{"v0.2.0", "v0.2.1", additions, true},
		{"v0.2.0", "v0.2.1", incompatible, false},
		{"v0.2.0", "v0.3.0", incompatible, true},
		{"v0.2.0", "v1.0.0", incompatible, true},
		{"v1.2.0", "v1.2.1", same, true},
		{"v1.2.0", "v1.2.1", additions, false},
		{"v1.2.0", "v1.3.0", additions, true},
		{"v1.2.0", "v1.3.0", incompatible, false},
		{"v1.2.0", "v2.0.0", incompatible, true},
		{"v0.2.0", "v0.2.0", same, false},
		{"v0.10.0", "v0.9.0", same, false},
	}
	for _, test := range tests {
		assert.Equal(t, test.ok, test.next.allows(test.last, test.change) == nil, "%v", test)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0.2.0", "v0.2", "v0.2.0-rc.1", "v0.2.0+dirty", "v01.2.0", "v1.2.9999999", "v0.2.0\n"} {
		_, err := parseVersion(text)
		require.Error(t, err, "%q", text)
	}
}

func TestVersionBefore(t *testing.T) {
	t.Parallel()
	all := []version{"v0.2.0", "v0.10.0", "v0.9.3", "v1.0.0"}
	assert.Equal(t, version("v0.10.0"), version("v0.10.1").before(all))
	assert.Empty(t, version("v0.2.0").before(all), "the first one")
}

func TestInOrder(t *testing.T) {
	t.Parallel()
	uses := func(paths ...string) map[string]string {
		versions := map[string]string{}
		for _, path := range paths {
			versions[path] = "v0.0.0"
		}
		return versions
	}
	sorted, err := inOrder([]module{{path: "c", versions: uses("b", "a")}, {path: "b", versions: uses("a", "foreign")}, {path: "a"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, []string{sorted[0].path, sorted[1].path, sorted[2].path})
	_, err = inOrder([]module{{path: "a", versions: uses("b")}, {path: "b", versions: uses("a")}})
	require.ErrorContains(t, err, "circle")
}
