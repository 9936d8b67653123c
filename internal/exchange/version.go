package exchange

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Devel is the version if the build does not record one: in a workspace, with a replaced module, or in a module's
// own tests.
const Devel = "devel"

// Version returns the version of a module in this program, without its v.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	return version(cmp.Or(info, new(debug.BuildInfo)), module)
}

// version returns the version of a module according to the build info.
func version(info *debug.BuildInfo, module string) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace // what is required is not what was built
		}
		if number, ok := strings.CutPrefix(m.Version, "v"); ok {
			return number
		}
	}
	return Devel
}
