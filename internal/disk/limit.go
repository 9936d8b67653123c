package disk

import (
	"errors"
	"runtime"
	"slices"
	"syscall"
)

// Limited reports whether an operation on a file failed because this machine cannot do it now: open more files, read
// its disk, find space or memory, reach a share.
func Limited(err error) bool { return limitedOn(runtime.GOOS, err) }

// limitedOn is Limited for an operating system.
func limitedOn(system string, err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return false
	}
	if system == "windows" && slices.Contains(limitsOfWindows, number) {
		return true
	}
	return slices.Contains(limits, number)
}

var (
	limits = []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EIO, syscall.ESTALE,
	}
	// limitsOfWindows are the numbers that Windows has instead. Package syscall has the names above on every system,
	// but not with these numbers.
	limitsOfWindows = []syscall.Errno{
		4, 8, 14, 1450, // too many open files; memory; system resources
		39, 112, 1295, // no room; a quota
		21, 23, 1117, // a disk that is not ready, cannot be read, fails
		53, 59, 64, // a share that is not reached, fails, is gone
	}
)
