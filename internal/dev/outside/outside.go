// Package outside builds programs of another module that use this one, as its users do. Tests use it to compile
// the examples and the Go blocks of the documentation. Nothing is fetched: without a go.mod of their own, the programs
// have the requirements of the module at the root.
package outside

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const thisModule = "github.com/clinicaldoc/clinicaldoc-go"

// Go runs a go command, such as "build ./...", in a module of the files that uses the one at root. The files are named
// by their path, with slashes. Of a go.mod among them, only the name and the place of the used module are changed. The
// error holds what the command prints.
func Go(ctx context.Context, root string, files map[string]string, args ...string) error {
	all, err := module(root, files)
	if err != nil {
		return err
	}
	folder, err := place(all)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := write(folder, all); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // build, list, vet or test
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	return nil
}

// place makes the folder for the files, the same for the same ones: the go command then finds in its cache what it has
// compiled, vetted and tested before. While another process is there, or after one that was killed, it is a new
// folder.
func place(files map[string]string) (string, error) {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(hash, "%q %q\n", name, files[name])
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("clinicaldoc-outside-%x", hash.Sum(nil)[:12]))
	if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > time.Hour {
		_ = os.RemoveAll(folder)
	}
	err := os.Mkdir(folder, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirTemp("", "clinicaldoc-outside-")
	}
	return folder, err
}

// module returns the files with what makes a module of them.
func module(root string, files map[string]string) (map[string]string, error) {
	module, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	// The same requirements as here, so that nothing has to be looked up.
	requirements, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return nil, err
	}
	place := strings.ReplaceAll(module, `\`, "/")
	own := fmt.Sprintf("%s\nrequire %s v0.0.0\n\nreplace %s => .\n", requirements, thisModule, thisModule)
	all := map[string]string{"go.mod": own, "go.sum": string(sums)}
	maps.Copy(all, files)
	own = regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(all["go.mod"], "module outside.test/user")
	all["go.mod"] = regexp.MustCompile(`(?m)^(replace `+regexp.QuoteMeta(thisModule)+`(/\S+)? =>) \S+$`).ReplaceAllString(own, "${1} "+place+"${2}")
	return all, nil
}

var written = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func write(folder string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
		// The go command keeps no result of a test that read a file of this very second, or of another time than before.
		if err := os.Chtimes(path, written, written); err != nil {
			return err
		}
	}
	return nil
}
