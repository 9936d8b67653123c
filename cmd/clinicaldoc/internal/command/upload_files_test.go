package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A folder that cannot be read is left out by name, and what is beside it is taken.
func TestAFolderThatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "shut"), 0o700))
	info, err := os.Stat(filepath.Join(folder, "shut"))
	require.NoError(t, err)
	o := &uploadOptions{}
	taken, skip := o.visit(filepath.Join(folder, "shut"), fs.FileInfoToDirEntry(info), &fs.PathError{Op: "open", Path: "shut", Err: syscall.EACCES})
	assert.False(t, taken)
	require.ErrorIs(t, skip, fs.SkipDir)
	assert.Equal(t, []leftOut{{Reason: "it cannot be read: permission denied", File: filepath.Join(folder, "shut")}}, o.left)
}
