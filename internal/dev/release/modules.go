package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is one that others can require.
type module struct {
	path string
	dir  string // from the root, with slashes; "." is the root itself
	// replaces are the modules that are taken from the checkout instead of a release.
	replaces []string
	versions map[string]string // of what it requires
}

// tag is how git names a version of the module.
func (m module) tag(v version) string {
	if m.dir == "." {
		return string(v)
	}
	return m.dir + "/" + string(v)
}

// isPublished tells the modules for others from those for maintainers and readers.
func isPublished(dir string) bool {
	return !slices.Contains(strings.Split(dir, "/"), "internal") && !strings.HasPrefix(dir, "examples/")
}

// modules returns the published modules, each after those that it requires.
func (r repository) modules(ctx context.Context) ([]module, error) {
	files, err := r.git(ctx, "ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	var all []module
	for file := range strings.FieldsSeq(files) {
		if dir := path.Dir(file); isPublished(dir) {
			m, err := r.module(ctx, dir)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return inOrder(all)
}

func (r repository) module(ctx context.Context, dir string) (module, error) {
	text, err := r.in(dir).goCommand(ctx, "mod", "edit", "-json")
	if err != nil {
		return module{}, err
	}
	var file struct {
		Module  struct{ Path string }
		Require []struct{ Path, Version string }
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return module{}, err
	}
	m := module{path: file.Module.Path, dir: dir, versions: map[string]string{}}
	for _, required := range file.Require {
		m.versions[required.Path] = required.Version
	}
	for _, replaced := range file.Replace {
		m.replaces = append(m.replaces, replaced.Old.Path)
	}
	return m, nil
}

// inOrder sorts modules so that each comes after those that it uses.
func inOrder(all []module) ([]module, error) {
	var sorted []module
	done := map[string]bool{}
	for len(sorted) < len(all) {
		next := slices.IndexFunc(all, func(m module) bool {
			waits := slices.ContainsFunc(m.ours(all), func(used module) bool { return !done[used.path] })
			return !done[m.path] && !waits
		})
		if next < 0 {
			return nil, errors.New("modules require each other in a circle")
		}
		sorted = append(sorted, all[next])
		done[all[next].path] = true
	}
	return sorted, nil
}

// ours returns which of the modules this one requires.
func (m module) ours(all []module) []module {
	return slices.DeleteFunc(slices.Clone(all), func(other module) bool { return m.versions[other.path] == "" })
}

// checkLicences: the go command puts the root's licence into a module that has none, and then the sums of a checkout are
// others than those of a release.
func (r repository) checkLicences(all []module) error {
	for _, m := range all {
		if _, err := os.Stat(filepath.Join(r.dir, filepath.FromSlash(m.dir), "LICENSE")); err != nil {
			return fmt.Errorf("the module in %s needs a LICENSE of its own", m.dir)
		}
	}
	return nil
}
