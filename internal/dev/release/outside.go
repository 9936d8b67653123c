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
func (r repository) rehearse(ctx context.Context, v version, importer string) error {
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
	return s.worksOutside(ctx, folder, importer)
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

// worksOutside serves the release from a file proxy and uses it from other modules, each time with an empty module cache.
func (s *scratch) worksOutside(ctx context.Context, folder, importer string) error {
	proxy, err := s.serve(ctx, folder)
	if err != nil {
		return err
	}
	proxies, err := s.proxiesOfUser(ctx)
	if err != nil {
		return err
	}
	user := repository{out: s.out, env: []string{"GOPROXY=" + proxy + "," + proxies, "GONOSUMDB=" + s.modules[0].path, "GOFLAGS=" + flags}}
	if err := s.isImported(ctx, user, importer); err != nil {
		return err
	}
	for _, m := range s.modules {
		if err := s.isUsed(ctx, user, m); err != nil {
			return err
		}
	}
	return nil
}

// serve fetches the tagged modules with git, as a proxy does, and returns the address of the folder that then holds them.
func (s *scratch) serve(ctx context.Context, folder string) (string, error) {
	cache := filepath.Join(folder, "proxy")
	for _, m := range s.modules {
		if _, err := s.with("GOMODCACHE="+cache).in(folder).goCommand(ctx, "mod", "download", m.path+"@"+s.version.String()); err != nil {
			return "", err
		}
	}
	return fileURL(filepath.Join(cache, "cache", "download")), nil
}

// proxiesOfUser is GOPROXY without what the clone's commands are told.
func (s *scratch) proxiesOfUser(ctx context.Context) (string, error) {
	return repository{dir: s.dir, out: s.out}.proxies(ctx)
}

// elsewhere runs with a folder and a module cache of its own, both empty before and gone after.
func elsewhere(user repository, use func(user repository) error) error {
	folder, remove, err := temporary()
	if err != nil {
		return err
	}
	defer remove()
	work := filepath.Join(folder, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	return use(user.in(work).with("GOMODCACHE="+filepath.Join(folder, "modules"), "GOBIN="+filepath.Join(folder, "bin")))
}

// isImported runs a program that uses the module at the root and prints its version.
func (s *scratch) isImported(ctx context.Context, user repository, importer string) error {
	return elsewhere(user, func(user repository) error {
		if err := user.program(ctx, importer, s.modules[0].path, s.version); err != nil {
			return err
		}
		printed, err := user.goCommand(ctx, "run", ".")
		if err != nil {
			return err
		}
		if want := strings.TrimPrefix(s.version.String(), "v"); printed != want {
			return fmt.Errorf("the importing program prints %q, not %q", printed, want)
		}
		s.say("an importing program works, and knows its version: %s", printed)
		return nil
	})
}

// program writes a module with one file and gets what it uses.
func (r repository) program(ctx context.Context, source, modulePath string, v version) error {
	if err := os.WriteFile(filepath.Join(r.dir, "main.go"), []byte(source), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.test/user"}, {"get", modulePath + "@" + v.String()}, {"mod", "tidy"}} {
		if _, err := r.goCommand(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// isUsed installs the module's commands and imports its packages.
func (s *scratch) isUsed(ctx context.Context, user repository, m module) error {
	commands, packages, err := s.offers(ctx, m)
	if err != nil {
		return err
	}
	if len(commands)+len(packages) == 0 {
		return errors.New(m.path + " offers nothing")
	}
	for _, command := range commands {
		if err := elsewhere(user, func(user repository) error { return s.isInstalled(ctx, user, command) }); err != nil {
			return err
		}
	}
	if len(packages) == 0 {
		return nil
	}
	return elsewhere(user, func(user repository) error {
		source := "package main\n\nimport (\n\t_ \"" + strings.Join(packages, "\"\n\t_ \"") + "\"\n)\n\nfunc main() {}\n"
		if err := user.program(ctx, source, m.path, s.version); err != nil {
			return err
		}
		if _, err := user.goCommand(ctx, "vet", "."); err != nil {
			return err
		}
		s.say("go get %s@%s: %d package(s)", m.path, s.version, len(packages))
		return nil
	})
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
	if _, err := user.goCommand(ctx, "install", command+"@"+s.version.String()); err != nil {
		return err
	}
	binaries, err := filepath.Glob(filepath.Join(user.dir, "..", "bin", "*"))
	if err != nil || len(binaries) != 1 {
		return fmt.Errorf("%s installs %d binaries: %w", command, len(binaries), err)
	}
	info, err := user.goCommand(ctx, "version", "-m", binaries[0])
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "mod" && fields[2] == s.version.String() {
			s.say("go install %s@%s", command, s.version)
			return nil
		}
	}
	return fmt.Errorf("%s does not know its version:\n%s", command, info)
}
