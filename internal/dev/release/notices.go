package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A notice is a file that the licence of a linked module asks to be passed on.
type notice struct{ title, path string }

// noticeFile matches the names of such files.
var noticeFile = regexp.MustCompile(`(?i)^(licen[cs]e|unlicense|copying|copyright|notice|patents)([._-].*)?$`)

const (
	noticesIntro = "The licences and notices of the modules that are compiled into this program. The source code of each module\n" +
		"is available at its path, in the version that is named here.\n"
	noticeLine = "\n================================================================================\n"
)

// notices returns the licences and notices of all packages that are linked into the command in the folder, for the
// platform of GOOS and GOARCH, and of the standard library. It leaves out the modules of this repository, whose path
// is ours. A linked module without a licence is an error.
func (r repository) notices(ctx context.Context, ours string) ([]byte, error) {
	found, err := r.noticesOfGo(ctx)
	if err != nil {
		return nil, err
	}
	linked, err := r.linkedPackages(ctx, ours)
	if err != nil {
		return nil, err
	}
	for _, module := range slices.Sorted(maps.Keys(linked)) {
		own, err := noticesOf(module, linked[module])
		if err != nil {
			return nil, err
		}
		found = append(found, own...)
	}
	var text bytes.Buffer
	text.WriteString(noticesIntro)
	for _, n := range found {
		content, err := os.ReadFile(n.path)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(&text, "%s%s%s\n%s\n", noticeLine, n.title, noticeLine, bytes.TrimSpace(content))
	}
	return text.Bytes(), nil
}

// noticesOfGo returns the notices of the standard library and the runtime.
func (r repository) noticesOfGo(ctx context.Context) ([]notice, error) {
	root, err := r.goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	release, err := r.goCommand(ctx, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	return noticesOf("std "+release, linkedModule{folder: root})
}

// A linkedModule is a module of others in a program: its folder, and those of the packages that are used.
type linkedModule struct {
	folder   string
	packages []string
}

// linkedPackages returns the modules of others that the command uses, by path and version.
func (r repository) linkedPackages(ctx context.Context, ours string) (map[string]linkedModule, error) {
	const format = "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}"
	out, err := r.goCommand(ctx, "list", "-deps", "-f", format, ".")
	if err != nil {
		return nil, err
	}
	linked := map[string]linkedModule{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("go list prints %q", line)
		}
		if fields[0] == ours || strings.HasPrefix(fields[0], ours+"/") {
			continue
		}
		name := fields[0] + " " + fields[1]
		module := linked[name]
		module.folder = fields[2]
		module.packages = append(module.packages, fields[3])
		linked[name] = module
	}
	return linked, nil
}

// noticesOf returns the notices in a module's folder, and in those of its packages and between.
func noticesOf(name string, module linkedModule) ([]notice, error) {
	folders := map[string]bool{module.folder: true}
	for _, folder := range module.packages {
		for ; !folders[folder] && len(folder) > len(module.folder); folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	var found []notice
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			path := filepath.Join(folder, entry.Name())
			isNotice := noticeFile.MatchString(entry.Name()) && filepath.Ext(path) != ".go"
			if isNotice && !entry.IsDir() {
				below := strings.TrimPrefix(filepath.ToSlash(path[len(module.folder):]), "/")
				found = append(found, notice{name + ": " + below, path})
			}
		}
	}
	if len(found) == 0 {
		path, _, _ := strings.Cut(name, " ")
		return nil, errors.New("the module " + path + " has no licence file; find out its terms before a release")
	}
	return found, nil
}
