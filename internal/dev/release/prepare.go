package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// check is what must be true of a commit that becomes, or is, a release.
func (r repository) check(ctx context.Context, v version) error {
	folder, remove, err := temporary()
	if err != nil {
		return err
	}
	defer remove()
	modules, err := r.modules(ctx)
	if err != nil {
		return err
	}
	tags, err := r.git(ctx, "tag", "--list", string(v))
	if err != nil {
		return err
	}
	if tags != "" {
		if err := r.isTagged(ctx, v, modules); err != nil {
			return err
		}
	}
	// A tagged commit is its own release; any other is released in a clone, to be compared with the last one.
	s, err := r.checked(ctx, v, folder, tags != "")
	if err != nil {
		return err
	}
	s.say("%s may be released: %d modules", v, len(s.modules))
	return nil
}

// checked returns the release after all that can be said against it has been looked at.
func (r repository) checked(ctx context.Context, v version, folder string, tagged bool) (*scratch, error) {
	changes, err := r.section(v)
	if err != nil {
		return nil, err
	}
	modules, err := r.modules(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkLicences(modules); err != nil {
		return nil, err
	}
	var s *scratch
	if tagged {
		env, err := r.fetching(ctx, modules[0].path, r.dir, filepath.Join(folder, "modules"))
		if err != nil {
			return nil, err
		}
		s = &scratch{repository: r.with(env...), modules: modules, version: v}
	} else if s, err = r.release(ctx, v, folder); err != nil {
		return nil, err
	}
	releases, err := r.releases(ctx)
	if err != nil {
		return nil, err
	}
	last := v.before(releases)
	if last == "" {
		s.say("%s is the first release: there is nothing to compare it with", v)
		return s, nil
	}
	if s.apidiff == "" {
		if s.apidiff, err = r.buildAPIDiff(ctx, folder); err != nil {
			return nil, err
		}
	}
	if err := s.checkAPI(ctx, folder, last, changes); err != nil {
		return nil, err
	}
	return s, nil
}

// isTagged makes sure that all modules have their tag on this commit and require each other in this version.
func (r repository) isTagged(ctx context.Context, v version, modules []module) error {
	here, err := r.git(ctx, "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	for _, m := range modules {
		if !slices.Contains(strings.Fields(here), m.tag(v)) {
			return fmt.Errorf("the commit has no tag %s", m.tag(v))
		}
		if len(m.replaces) > 0 {
			return fmt.Errorf("%s replaces %v: prepare the release with this program", m.dir, m.replaces)
		}
		for _, used := range m.ours(modules) {
			if m.versions[used.path] != string(v) {
				return fmt.Errorf("%s requires %s %s", m.dir, used.path, m.versions[used.path])
			}
		}
	}
	return nil
}

// prepare makes a branch with two commits: the release, which has the tags, and one that goes back to the modules of the
// checkout. It pushes nothing.
func (r repository) prepare(ctx context.Context, v version) error {
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return errors.New("the checkout has changes that are not committed:\n" + changes)
	}
	folder, remove, err := temporary()
	if err != nil {
		return err
	}
	defer remove()
	releases, err := r.releases(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(releases, v) {
		return fmt.Errorf("%s is released already", v)
	}
	s, err := r.checked(ctx, v, folder, false)
	if err != nil {
		return err
	}
	if err := s.loads(ctx); err != nil {
		return err
	}
	branch := "release-" + string(v)
	if _, err := s.git(ctx, "revert", "--no-edit", "HEAD"); err != nil {
		return err
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", s.dir, "HEAD:refs/heads/" + branch}
	push := []string{"git push origin " + branch}
	for _, m := range s.modules {
		ref := "refs/tags/" + m.tag(v)
		fetch = append(fetch, ref+":"+ref)
		push = append(push, "git push origin "+m.tag(v))
	}
	if _, err := r.git(ctx, fetch...); err != nil {
		return err
	}
	// The root's tag starts the release, and needs all others.
	slices.Reverse(push[1:])
	r.say("Prepared. Merge %s without squashing, then push the tags one after the other:\n\n%s", branch, strings.Join(push, "\n"))
	return nil
}
