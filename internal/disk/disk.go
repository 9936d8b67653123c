// Package disk contains the file operations that downloads and journals need (the latter with package durable).
// Only one holder at a time has a file open, in this process and among processes. It is an interface, so tests can
// replace it with a disk that loses what was not synced: package disktest.
package disk

import (
	"context"
	"io"
)

// FS is a file system. Other processes see a write immediately. It survives a power cut only after Sync, and a new
// name only after SyncDir.
type FS interface {
	// Open opens an existing private file, and locks it until it is closed or the process ends. It returns
	// [ErrHeld] if another has locked it, under any name. Without locks it returns [ErrNoLocks], unless
	// mayLackLocks is set.
	Open(name string, mayLackLocks bool) (File, error)
	// Create creates a file that does not exist, private to this user, and locks it as Open does.
	Create(name string, mayLackLocks bool) (File, error)
	// Take is the function Take, for a small file.
	Take(name string) (Record, error)
	// Rename gives a closed file another name, and replaces the file that had it.
	Rename(from, to string) error
	// Remove removes a file. It returns [fs.ErrNotExist] if there is none.
	Remove(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
}

// File is an open file. One goroutine at a time uses it.
type File interface {
	io.ReaderAt
	io.Writer // at the end
	io.Closer
	Truncate(size int64) error
	Sync() error
	// IsAt returns nil if this file has that name and no other, or else an error such as [ErrMoved].
	IsAt(name string) error
}

// Record is a small file that is written again and again. Any user may have made it, unless CheckPrivate returns nil.
type Record interface {
	File
	io.WriterAt
	CheckPrivate() error
	// Remove removes the file and closes it.
	Remove() error
}

type fsKey struct{}

// With returns a context in which another file system replaces that of the operating system.
func With(ctx context.Context, fs FS) context.Context { return context.WithValue(ctx, fsKey{}, fs) }

// From returns the file system of a context: the system's own unless [With] set another.
func From(ctx context.Context) FS {
	if fs, ok := ctx.Value(fsKey{}).(FS); ok {
		return fs
	}
	return system{}
}
