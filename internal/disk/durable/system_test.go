package durable

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSpelled_OtherCase_BecomesThatOfTheFolder(t *testing.T) {
	t.Parallel()
	folders := map[string][]string{
		"/":             {"Clinic", "plain"},
		"/Clinic":       {"Uploads.journal"},
		"/plain":        {"a.journal", "A.journal"},
		"/Clinic/empty": nil,
		"/both":         {"aB", "Ab"},
	}
	list := func(folder string) []string { return folders[filepath.ToSlash(folder)] }
	noCase := func(name string) bool {
		for folder, names := range folders {
			for _, n := range names {
				if strings.EqualFold(strings.TrimSuffix(folder, "/")+"/"+n, filepath.ToSlash(name)) {
					return true
				}
			}
		}
		return false
	}
	hasCase := func(name string) bool {
		return slices.Contains(list(filepath.Dir(name)), filepath.Base(name))
	}
	for _, c := range []struct {
		path, want string
		exists     func(string) bool
	}{
		{"/Clinic/Uploads.journal", "/Clinic/Uploads.journal", noCase},
		{"/clinic/uploads.JOURNAL", "/Clinic/Uploads.journal", noCase},
		{"/clinic/uploads.JOURNAL", "/clinic/uploads.JOURNAL", hasCase},
		{"/plain/a.journal", "/plain/a.journal", hasCase},
		{"/plain/A.journal", "/plain/A.journal", hasCase},
		{"/Clinic/12", "/Clinic/12", noCase},
		{"/both/Ab", "/both/Ab", hasCase},
	} {
		assert.Equal(t, filepath.FromSlash(c.want), spelled(filepath.FromSlash(c.path), c.exists, list), c.path)
	}
}

// The name of a file stays right when the process goes to another folder.
func TestResolve_RelativeName_StaysRightInAnotherFolder(t *testing.T) {
	t.Parallel()
	name, err := From(t.Context()).Resolve("system_test.go")
	require.NoError(t, err)
	assert.True(t, filepath.IsAbs(name), name)
	assert.Equal(t, "system_test.go", filepath.Base(name))
}

// After Replace, only the file that has the name is open.
func TestReplace_LeavesOneFileOpen(t *testing.T) {
	t.Parallel()
	disk, dir := From(t.Context()), t.TempDir()
	path, next := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	old, err := disk.Create(path, false)
	require.NoError(t, err)
	made, err := disk.Create(next, false)
	require.NoError(t, err)
	there, err := disk.Replace(made, filepath.Join(dir, "none"), old, path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = there.Write([]byte("a"))
	require.NoError(t, err, "the old file is open; on Windows it was opened again")
	require.ErrorIs(t, made.Sync(), fs.ErrClosed)
	require.NoError(t, disk.Remove(next))

	made, err = disk.Create(next, false)
	require.NoError(t, err)
	now, err := disk.Replace(made, next, there, path)
	require.NoError(t, err)
	require.NoError(t, now.IsAt(path))
	require.ErrorIs(t, there.Sync(), fs.ErrClosed)
	require.NoError(t, now.Close())
}
