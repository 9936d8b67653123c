// Package disk is the little of a file system that a journal or the part of a download needs. It stands behind an interface, so
// that tests can put a disk in its place that loses what was not synced: package disktest.
package disk

import (
	"context"
	"io"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// FS is a file system. What is written is there for other processes at once; it survives a power cut only after Sync, and a
// new name only after SyncDir.
type FS interface {
	// Resolve follows links to the name of the file itself. One that is not there is [fs.ErrNotExist].
	Resolve(name string) (string, error)
	// Open opens a file that is there and is this user's alone, and holds it until it is closed or the process ends. While
	// another holds it, under whatever name, it is [filelock.ErrHeld]; where there are no locks, [filelock.ErrNoLocks], unless
	// unlocked says that the caller knows.
	Open(name string, unlocked bool) (File, error)
	// Create makes a file that is not there, for this user alone, and holds it as Open does.
	Create(name string, unlocked bool) (File, error)
	// Replace puts a file that Create made as from in the place of the open file to. It returns the one that is there then, held
	// all the time where the system can do that; after an error that is the old one, or nil if it is lost to the caller.
	Replace(made File, from string, old File, to string) (File, error)
	// Take opens a small file for reading and writing, makes it if need be, for this user alone, and holds it where there are
	// locks. While another holds it, it is [filelock.ErrHeld].
	Take(name string) (Record, error)
	// Rename gives a closed file another name, in the place of the file that had it.
	Rename(from, to string) error
	// Remove removes a file; one that is not there is [fs.ErrNotExist].
	Remove(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
	// Lock keeps others out by a file of its own, until it is closed or the process ends. While another has it, it is
	// [filelock.ErrHeld].
	Lock(name string) (io.Closer, error)
}

// File is an open file. One goroutine at a time uses it.
type File interface {
	io.ReaderAt
	io.Writer // at the end
	io.Closer
	Truncate(size int64) error
	Sync() error
	// IsAt reports nil while the name leads to this file and to no other, else [ErrMoved].
	IsAt(name string) error
}

// Record is a small file that is written again and again. It may be anybody's until CheckPrivate says otherwise.
type Record interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	// CheckPrivate is that of package filelock.
	CheckPrivate() error
	// Remove removes the file and closes it.
	Remove() error
}

// ErrMoved means that the name does not lead to the open file any more.
var ErrMoved = redact.New("the file was moved or removed, or another stands in its place")

type (
	fsKey    struct{}
	slackKey struct{}
)

// With returns a context in which another file system takes the place of the system's own.
func With(ctx context.Context, fs FS) context.Context { return context.WithValue(ctx, fsKey{}, fs) }

// From returns the file system of a context: the system's own unless [With] set another.
func From(ctx context.Context) FS {
	if fs, ok := ctx.Value(fsKey{}).(FS); ok {
		return fs
	}
	return system{}
}

// WithSlack returns a context in which a journal that is opened drops outdated lines when there are more of them than this, so
// that tests need not write thousands.
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
