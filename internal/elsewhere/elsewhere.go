// Package elsewhere builds programs of another module that use this one, as its users do.
package elsewhere

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const thisModule = "github.com/clinicaldoc/clinicaldoc-go"

// Build builds the files in an empty folder as a module of their own that uses the one at root, and runs the tests among
// them. The files are named by their path, with slashes. The error holds what the go command says.
func Build(ctx context.Context, root, folder string, files map[string]string) error {
	if err := write(root, folder, files); err != nil {
		return err
	}
	if err := run(ctx, folder, "build", "./..."); err != nil {
		return err
	}
	for name := range files {
		if strings.HasSuffix(name, "_test.go") {
			return run(ctx, folder, "test", "./...")
		}
	}
	return nil
}

func run(ctx context.Context, folder string, args ...string) error {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
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
	own := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(requirements), "module elsewhere.test/user")
	own += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", thisModule, thisModule, strings.ReplaceAll(module, `\`, "/"))
	all := map[string]string{"go.mod": own, "go.sum": string(sums)}
	maps.Copy(all, files)
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
