package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repository is a checkout. Its commands run in dir, with env beside what the program was started with.
type repository struct {
	dir     string
	env     []string
	out     io.Writer
	apidiff string // "": built as it is pinned here
}

// in is the same repository seen from a folder below it, or from anywhere else.
func (r repository) in(dir string) repository {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(r.dir, dir)
	}
	r.dir = dir
	return r
}

// with is the same repository with more variables for its commands.
func (r repository) with(env ...string) repository {
	r.env = append(append([]string{}, r.env...), env...)
	return r
}

func (r repository) say(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format+"\n", args...) }

// command returns what a command prints, and with its error what it complains of.
func (r repository) command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git, go and what it built
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Env = append(cmd.Env, r.env...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, &complaints)
	}
	return strings.TrimSpace(string(out)), nil
}

func (r repository) git(ctx context.Context, args ...string) (string, error) {
	return r.command(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
}

func (r repository) goCommand(ctx context.Context, args ...string) (string, error) {
	return r.command(ctx, "go", args...)
}

// goLines is goCommand for output of one word a line.
func (r repository) goLines(ctx context.Context, args ...string) ([]string, error) {
	out, err := r.goCommand(ctx, args...)
	return strings.Fields(out), err
}

// releases returns the versions that the module at the root has tags of.
func (r repository) releases(ctx context.Context) ([]version, error) {
	out, err := r.git(ctx, "tag", "--list", "v*")
	if err != nil {
		return nil, err
	}
	var found []version
	for tag := range strings.FieldsSeq(out) {
		if v, err := parseVersion(tag); err == nil {
			found = append(found, v)
		}
	}
	return found, nil
}

// temporary returns a new folder and what removes it. Modules unpacked there must be writable to be removable.
func temporary() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "release-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
