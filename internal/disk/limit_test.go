package disk

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLimited_Windows_HasItsOwnNumbers(t *testing.T) {
	t.Parallel()
	const full, notFound = syscall.Errno(112), syscall.Errno(2) // of Windows
	failed := func(number syscall.Errno) error { return &fs.PathError{Op: "write", Path: "synthetic", Err: number} }
	assert.True(t, limitedOn("windows", failed(full)))
	assert.False(t, limitedOn("linux", failed(full)), "there it is another number")
	assert.False(t, limitedOn("windows", failed(notFound)))
	for _, system := range []string{"windows", "linux", "darwin"} {
		assert.True(t, limitedOn(system, failed(syscall.ENOSPC)))
		assert.False(t, limitedOn(system, errors.New("synthetic")))
		assert.False(t, limitedOn(system, nil))
	}
	assert.True(t, Limited(failed(syscall.EMFILE)))
	assert.False(t, Limited(failed(syscall.EACCES)))
}
