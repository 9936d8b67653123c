// Package outside builds programs of another module that use this one, as its users do.
package outside

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const thisModule = "github.com/clinicaldoc/clinicaldoc-go"

// Build builds the files in an empty folder as a module of their own that uses the one at root. The files are named by
// their path, with slashes. The error holds what the compiler says.
func Build(ctx context.Context, root, folder string, files map[string]string) error {
	return run(ctx, root, folder, files, []string{"build", "./..."})
}

// Vet is Build that also looks at the tests among the files, and links nothing. Of a go.mod among the files, only the name
// and the place of this module are changed.
func Vet(ctx context.Context, root, folder string, files map[string]string) error {
	return run(ctx, root, folder, files, vet)
}

// Test is Vet that also runs the tests.
func Test(ctx context.Context, root, folder string, files map[string]string) error {
	test := []string{"test", "-vet=off", "-ldflags=-s -w"} // they were just vetted, and nobody debugs them
	for name := range files {
		if place := "./" + path.Dir(name); strings.HasSuffix(name, "_test.go") && !slices.Contains(test, place) {
			test = append(test, place)
		}
	}
	return run(ctx, root, folder, files, vet, test)
}

var vet = []string{"vet", "./..."} // links nothing

func run(ctx context.Context, root, folder string, files map[string]string, commands ...[]string) error {
	if err := write(root, folder, files); err != nil {
		return err
	}
	for _, words := range commands {
		command := exec.CommandContext(ctx, "go", words...) //nolint:gosec // build, vet or test
		command.Dir = folder
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w:\n%s", err, out)
		}
	}
	return nil
}

func write(root, folder string, files map[string]string) error {
	module, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	// The same requirements as here, so that nothing has to be looked up.
	requirements, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return err
	}
	place := strings.ReplaceAll(module, `\`, "/")
	own := fmt.Sprintf("%s\nrequire %s v0.0.0\n\nreplace %s => .\n", requirements, thisModule, thisModule)
	all := map[string]string{"go.mod": own, "go.sum": string(sums)}
	maps.Copy(all, files)
	own = regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(all["go.mod"], "module outside.test/user")
	all["go.mod"] = regexp.MustCompile(`(?m)^(replace `+regexp.QuoteMeta(thisModule)+`(/\S+)? =>) \S+$`).ReplaceAllString(own, "${1} "+place+"${2}")
	for name, content := range all {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
