// Package disk is the little of a file system that a journal needs. It stands behind an interface, so that a simulation can
// put a disk in its place that loses what was not synced.
package disk

import (
	"context"
	"io"
)

// FS is a file system. What is written is there for other processes at once; it survives a power cut only after Sync, and a
// new name only after SyncDir.
type FS interface {
	// Open opens a file for reading from its start and for appending, and makes it, for this user alone, if need be.
	Open(name string) (File, error)
	// Create makes an empty file for this user alone, in the place of one that is there.
	Create(name string) (File, error)
	// Rename gives a closed file another name, in the place of what bears it.
	Rename(from, to string) error
	// Remove removes a file; one that is not there is [fs.ErrNotExist].
	Remove(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
	// Lock keeps others out until it is closed or the process ends. While another has it, it is [filelock.ErrHeld].
	Lock(name string) (io.Closer, error)
}

// File is an open file. One goroutine at a time uses it.
type File interface {
	io.Reader // from the start on
	io.Writer // at the end
	io.Closer
	Truncate(size int64) error
	Sync() error
}

type fsKey struct{}

// With returns a context in which another file system takes the place of the system's own.
func With(ctx context.Context, fs FS) context.Context { return context.WithValue(ctx, fsKey{}, fs) }

// From returns the file system of a context: the system's own unless [With] set another.
func From(ctx context.Context) FS {
	if fs, ok := ctx.Value(fsKey{}).(FS); ok {
		return fs
	}
	return system{}
}
