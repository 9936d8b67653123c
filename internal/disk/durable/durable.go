// Package durable contains the file operations for files that stay for years, such as a journal or a snapshot. They
// are found under any name, and can be rewritten while they are locked.
package durable

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// FS is a file system.
type FS interface {
	disk.FS
	// Resolve follows links to the name of the file itself. It returns [fs.ErrNotExist] if there is none.
	Resolve(name string) (string, error)
	// Replace puts a file that Create made as from in the place of the open file to. It returns the file that then
	// exists, locked all the time if the system supports that. After an error it returns the old file, or nil if
	// the caller has lost it.
	Replace(made disk.File, from string, old disk.File, to string) (disk.File, error)
	// Lock locks a separate file until it is closed or the process ends. It returns [disk.ErrHeld] if another has
	// locked it.
	Lock(name string) (io.Closer, error)
}

// From returns the file system of a context: the system's own unless [disk.With] set another.
func From(ctx context.Context) FS {
	set := disk.From(ctx)
	if set == disk.From(context.Background()) { //nolint:contextcheck // which has the system's own
		return system{set}
	}
	return set.(FS) //nolint:errcheck,forcetypeassert // a test that brings half a file system should know
}

type slackKey struct{}

// WithSlack returns a context in which a journal drops its outdated lines if it has more than this number. Tests
// then do not need to write thousands.
func WithSlack(ctx context.Context, lines uint32) context.Context {
	return context.WithValue(ctx, slackKey{}, lines)
}

// Slack returns what [WithSlack] set, or else the usual number.
func Slack(ctx context.Context, usual uint32) uint32 {
	if lines, ok := ctx.Value(slackKey{}).(uint32); ok {
		return lines
	}
	return usual
}

// system is the operating system's file system.
type system struct{ disk.FS }

// Resolve implements [FS].
func (system) Resolve(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	name, err = filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	exists := func(name string) bool {
		_, err := os.Lstat(name)
		return err == nil
	}
	list := func(folder string) []string {
		entries, _ := os.ReadDir(folder)
		names := make([]string, len(entries))
		for n, entry := range entries {
			names[n] = entry.Name()
		}
		return names
	}
	return spelled(name, exists, list), nil
}

// spelled returns a path in the spelling of the names in its folders, if case does not matter there. A file system in
// user space may treat each spelling as a different file, with its own lock.
func spelled(path string, exists func(string) bool, list func(folder string) []string) string {
	folder := filepath.Dir(path)
	base := filepath.Base(path)
	if folder == path { // it is the root
		return path
	}
	folder = spelled(folder, exists, list)
	otherCase := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, base)
	mayIgnoreCase := otherCase != base && exists(filepath.Join(folder, otherCase))
	if mayIgnoreCase {
		base = spelledLike(base, list(folder))
	}
	return filepath.Join(folder, base)
}

// spelledLike returns base if it is among the names, or else the first of the names that differs from base only in
// case. If there is none, it returns base too.
func spelledLike(base string, names []string) string {
	if slices.Contains(names, base) {
		return base
	}
	for _, name := range names {
		if strings.EqualFold(name, base) {
			return name
		}
	}
	return base
}

// Lock implements [FS].
func (system) Lock(name string) (io.Closer, error) {
	file, err := disk.Take(name)
	if err != nil {
		return nil, err
	}
	return lock{file}, nil
}

type lock struct{ file *os.File }

// Close releases the lock and removes its file.
func (l lock) Close() error { return disk.Remove(l.file) }
