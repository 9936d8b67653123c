package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// scratch is a clone in which a version is released, and where the go command finds the modules of that release.
type scratch struct {
	repository

	modules []module
	version version
}

// fetching are the variables for go commands that fetch the modules of this repository from a folder with git. They
// use their own module cache, and fetch all other modules as usual.
func (r repository) fetching(ctx context.Context, root, folder, cache string) ([]string, error) {
	proxies, err := r.proxies(ctx)
	return []string{
		"GOPRIVATE=" + root, "GOPROXY=" + proxies, "GOFLAGS=-mod=mod " + flags, "GOMODCACHE=" + cache,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + fileURL(folder) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
	}, err
}

// flags make module caches removable, and what is compiled in one folder good for another.
const flags = "-modcacherw -trimpath"

// proxies is GOPROXY with the modules that this machine has already before it.
func (r repository) proxies(ctx context.Context) (string, error) {
	words, err := r.goLines(ctx, "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return "", err
	}
	return fileURL(filepath.Join(words[0], "cache", "download")) + "," + words[1], nil
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + path
}

// release clones the repository's last commit into a folder and releases it there: requirements, sums, commit and tags.
func (r repository) release(ctx context.Context, v version, folder string) (*scratch, error) {
	clone := filepath.Join(folder, "clone")
	if _, err := r.git(ctx, "clone", "--quiet", "--no-hardlinks", ".", clone); err != nil {
		return nil, err
	}
	s := &scratch{repository: r.in(clone), version: v}
	modules, err := s.repository.modules(ctx)
	if err != nil {
		return nil, err
	}
	env, err := r.fetching(ctx, modules[0].path, clone, filepath.Join(folder, "pinning"))
	if err != nil {
		return nil, err
	}
	s.modules, s.repository = modules, s.with(env...)
	base, err := s.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		if err := s.pin(ctx, m); err != nil {
			return nil, err
		}
	}
	// What a module holds does not depend on the modules below it, so that all tags can name one commit.
	if _, err := s.git(ctx, "reset", "--quiet", "--soft", base); err != nil {
		return nil, err
	}
	if err := s.commit(ctx, "Release "+string(v)); err != nil {
		return nil, err
	}
	for _, m := range modules {
		if err := s.tag(ctx, m); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// pin makes a module require this version of the others, with the sums that it will have, and tags it for those above it.
func (s *scratch) pin(ctx context.Context, m module) error {
	if used := m.ours(s.modules); len(used) > 0 {
		s.say("%s requires %d module(s) of this repository", m.dir, len(used))
		edit := []string{"mod", "edit"}
		for _, other := range used {
			edit = append(edit, "-dropreplace="+other.path, "-require="+other.path+"@"+string(s.version))
		}
		if _, err := s.in(m.dir).goCommand(ctx, edit...); err != nil {
			return err
		}
		if _, err := s.in(m.dir).goCommand(ctx, "mod", "tidy"); err != nil {
			return err
		}
		if err := s.commit(ctx, "Pin "+m.dir); err != nil {
			return err
		}
	}
	pinned, err := s.module(ctx, m.dir)
	if err != nil {
		return err
	}
	if len(pinned.replaces) > 0 {
		return fmt.Errorf("%s still replaces %v: go install would refuse it", m.dir, pinned.replaces)
	}
	return s.tag(ctx, m)
}

func (s *scratch) commit(ctx context.Context, subject string) error {
	_, err := s.git(ctx, "commit", "--quiet", "--allow-empty", "--all", "-m", subject)
	return err
}

func (s *scratch) tag(ctx context.Context, m module) error {
	_, err := s.git(ctx, "tag", "--force", "--annotate", "-m", m.path+" "+string(s.version), m.tag(s.version))
	return err
}
