//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package disk

import "os"

// lock returns ErrNoLocks: this system has none.
func lock(*os.File) error { return ErrNoLocks }

// Close closes the file.
func Close(file *os.File) error { return file.Close() }
