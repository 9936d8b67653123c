package exchange

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersion_BuildInfo_NamesTheModule(t *testing.T) {
	t.Parallel()
	const module = "example.test/module"
	other := debug.Module{Path: "example.test/program", Version: "v9.9.9"}
	tests := map[string]struct {
		main, dependency debug.Module
		want             string
	}{
		"a dependency": {other, debug.Module{Path: module, Version: "v0.2.0"}, "0.2.0"},
		"a commit between releases": {
			other, debug.Module{Path: module, Version: "v0.2.1-0.20260301120000-0123456789ab"},
			"0.2.1-0.20260301120000-0123456789ab",
		},
		"a dependency in a folder": {
			other, debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "../module", Version: "(devel)"}},
			Devel,
		},
		"a folder without a word": {
			other, debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "../module"}}, Devel,
		},
		"a fork": {
			other,
			debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "example.test/fork", Version: "v0.2.7"}},
			"0.2.7",
		},
		"the program itself":               {debug.Module{Path: module, Version: "v0.2.0"}, other, "0.2.0"},
		"the program itself, changed":      {debug.Module{Path: module, Version: "v0.2.0+dirty"}, other, "0.2.0+dirty"},
		"the program itself, not released": {debug.Module{Path: module, Version: "(devel)"}, other, Devel},
		"another program":                  {other, debug.Module{}, Devel},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t,
				test.want, version(&debug.BuildInfo{Main: test.main, Deps: []*debug.Module{&test.dependency}}, module),
			)
		})
	}
}

// The tests of a module do not know its version.
func TestVersion_OwnTests_IsDevel(t *testing.T) {
	t.Parallel()
	assert.Equal(t, Devel, Version("github.com/clinicaldoc/clinicaldoc-go"))
	assert.Equal(t, Devel, Version("example.test/not-there"))
}
