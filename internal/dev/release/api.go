package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// apidiff is the program that compares the public names of two versions; internal/dev/tools/release pins it.
const apidiff = "golang.org/x/exp/cmd/apidiff"

// checkAPI compares the modules of a release with those of the last one and lets pass what its version allows.
func (s *scratch) checkAPI(ctx context.Context, folder string, last version, changes string) error {
	old := s.in(filepath.Join(folder, "last"))
	if _, err := s.git(ctx, "clone", "--quiet", "--branch", string(last), ".", old.dir); err != nil {
		return err
	}
	before, err := old.modules(ctx)
	if err != nil {
		return err
	}
	worst := same
	now := map[string]module{}
	for _, m := range s.modules {
		now[m.path] = m
	}
	for _, m := range before {
		current, there := now[m.path]
		if !there {
			s.say("%s: not released any more", m.path)
			worst = incompatible
			continue
		}
		kind, text, err := s.compare(ctx, folder, old.in(m.dir), s.in(current.dir), m.path)
		if err != nil {
			return err
		}
		if kind != same {
			s.say("%s since %s:\n%s", m.path, last, text)
		}
		worst = max(worst, kind)
	}
	if err := s.version.allows(last, worst); err != nil {
		return err
	}
	if worst == incompatible && !tellsOfBreaking(changes) {
		return fmt.Errorf("CHANGELOG.md tells of nothing changed or removed in %s, but names are", s.version)
	}
	return nil
}

// compare returns what apidiff says. Its exit status tells nothing of changes, so its words are read.
func (s *scratch) compare(ctx context.Context, folder string, before, after repository, path string) (change, string, error) {
	files := []string{filepath.Join(folder, "before.api"), filepath.Join(folder, "after.api")}
	for i, r := range []repository{before, after} {
		if err := os.Remove(files[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return same, "", err
		}
		if _, err := r.command(ctx, s.apidiff, "-m", "-w", files[i], path); err != nil {
			return same, "", err
		}
		if _, err := os.Stat(files[i]); err != nil {
			return same, "", err // it would be taken for a module's name
		}
	}
	text, err := s.command(ctx, s.apidiff, append([]string{"-m"}, files...)...)
	switch {
	case err != nil:
		return same, "", err
	case strings.Contains(text, "Incompatible changes:"):
		return incompatible, text, nil
	case text != "":
		return additions, text, nil
	}
	return same, "", nil
}

// buildAPIDiff compiles apidiff as it is pinned here.
func (r repository) buildAPIDiff(ctx context.Context, folder string) (string, error) {
	tool := filepath.Join(folder, "apidiff.exe") // the suffix does no harm elsewhere
	_, err := r.with("GOFLAGS=-buildvcs=false").goCommand(ctx, "build", "-modfile=internal/dev/tools/release/go.mod", "-o", tool, apidiff)
	return tool, err
}
