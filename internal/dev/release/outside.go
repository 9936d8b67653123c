package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rehearse releases a version in a scratch clone and uses it as others would.
func (r repository) rehearse(ctx context.Context, v version) error {
	folder, remove, err := temporary()
	if err != nil {
		return err
	}
	defer remove()
	// The rehearsal's commits are nobody's, and nobody signs them.
	r = r.with("GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=rehearsal", "GIT_AUTHOR_EMAIL=rehearsal@example.test", "GIT_COMMITTER_NAME=rehearsal", "GIT_COMMITTER_EMAIL=rehearsal@example.test")
	s, err := r.release(ctx, v, folder)
	if err != nil {
		return err
	}
	if err := s.loads(ctx); err != nil {
		return err
	}
	return s.worksOutside(ctx, folder)
}

// loads reads every module of the release as it stands in the clone, with all that it requires: go.mod must be whole, and
// the sums those of what was tagged.
func (s *scratch) loads(ctx context.Context) error {
	fresh := s.with("GOFLAGS=-mod=readonly "+flags, "GOMODCACHE="+filepath.Join(s.dir, "..", "loading"))
	for _, m := range s.modules {
		if _, err := fresh.in(m.dir).goCommand(ctx, "list", "-deps", "-test", "./..."); err != nil {
			return err
		}
	}
	s.say("%d modules require each other in %s, with their sums", len(s.modules), s.version)
	return nil
}

// worksOutside serves the release from a file proxy and uses each module from another one, with an empty module cache.
func (s *scratch) worksOutside(ctx context.Context, folder string) error {
	proxy, err := s.serve(ctx, folder)
	if err != nil {
		return err
	}
	// The user's GOPROXY is not what the clone's commands are told.
	proxies, err := repository{dir: s.dir, out: s.out}.proxies(ctx)
	if err != nil {
		return err
	}
	for _, m := range s.modules {
		used := repository{out: s.out, env: []string{
			"GOPROXY=" + proxy + "," + proxies, "GONOSUMDB=" + s.modules[0].path, "GOFLAGS=" + flags,
		}}
		if err := s.isUsed(ctx, used, m); err != nil {
			return err
		}
	}
	return nil
}

// serve fetches the tagged modules with git, as a proxy does, and returns the address of the folder that then holds them.
func (s *scratch) serve(ctx context.Context, folder string) (string, error) {
	cache := filepath.Join(folder, "proxy")
	for _, m := range s.modules {
		if _, err := s.with("GOMODCACHE="+cache).in(folder).goCommand(ctx, "mod", "download", m.path+"@"+string(s.version)); err != nil {
			return "", err
		}
	}
	return fileURL(filepath.Join(cache, "cache", "download")), nil
}

// isUsed imports the module's packages and installs its commands, which then know their version.
func (s *scratch) isUsed(ctx context.Context, user repository, m module) error {
	commands, packages, err := s.offers(ctx, m)
	if err != nil {
		return err
	}
	if len(commands)+len(packages) == 0 {
		return errors.New(m.path + " offers nothing")
	}
	folder, remove, err := temporary()
	if err != nil {
		return err
	}
	defer remove()
	work := filepath.Join(folder, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	user = user.in(work).with("GOMODCACHE="+filepath.Join(folder, "modules"), "GOBIN="+filepath.Join(folder, "bin"))
	if len(packages) > 0 {
		if err := s.isImported(ctx, user, m, packages); err != nil {
			return err
		}
	}
	for _, command := range commands {
		if err := s.isInstalled(ctx, user, command); err != nil {
			return err
		}
	}
	return nil
}

// isImported vets a program that imports the packages, in a module of its own.
func (s *scratch) isImported(ctx context.Context, user repository, m module, packages []string) error {
	source := "package main\n\nimport (\n\t_ \"" + strings.Join(packages, "\"\n\t_ \"") + "\"\n)\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(user.dir, "main.go"), []byte(source), 0o600); err != nil {
		return err
	}
	released := m.path + "@" + string(s.version)
	for _, args := range [][]string{{"mod", "init", "example.test/user"}, {"get", released}, {"mod", "tidy"}, {"vet", "."}} {
		if _, err := user.goCommand(ctx, args...); err != nil {
			return err
		}
	}
	s.say("go get %s: %d package(s)", released, len(packages))
	return nil
}

// offers lists what others can install and import of a module.
func (s *scratch) offers(ctx context.Context, m module) (commands, packages []string, err error) {
	lines, err := s.in(m.dir).goLines(ctx, "list", "-f", "{{.Name}},{{.ImportPath}}", "./...")
	for _, line := range lines {
		name, importPath, _ := strings.Cut(line, ",")
		below := strings.TrimPrefix(strings.TrimPrefix(importPath, s.modules[0].path), "/")
		switch parts := strings.Split(below, "/"); {
		case slices.Contains(parts, "internal") || parts[0] == "examples":
		case name == "main":
			commands = append(commands, importPath)
		default:
			packages = append(packages, importPath)
		}
	}
	return commands, packages, err
}

func (s *scratch) isInstalled(ctx context.Context, user repository, command string) error {
	if _, err := user.goCommand(ctx, "install", command+"@"+string(s.version)); err != nil {
		return err
	}
	info, err := user.goCommand(ctx, "version", "-m", filepath.Join(user.dir, "..", "bin"))
	if err != nil {
		return err
	}
	_, own, found := strings.Cut(info, "\tpath\t"+command+"\n")
	fields := strings.Fields(own)
	knowsItsVersion := found && len(fields) > 2 && fields[0] == "mod" && fields[2] == string(s.version)
	if !knowsItsVersion {
		return fmt.Errorf("%s does not know its version:\n%s", command, info)
	}
	s.say("go install %s@%s", command, s.version)
	return nil
}
