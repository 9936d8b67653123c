package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// A link to a recording is no second recording: under another name it would become a second note. A folder may be named by a link.
func TestARecordingWithTwoNamesIsTakenOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, "visits", name) }
	require.NoError(t, os.Mkdir(filepath.Join(folder, "visits"), 0o700))
	for _, name := range []string{"b.wav", "c.wav"} {
		require.NoError(t, os.WriteFile(in(name), []byte("synthetic"), 0o600))
		require.NoError(t, os.Chtimes(in(name), time.Time{}, time.Unix(1, 0)))
	}
	if err := os.Symlink("b.wav", in("a.wav")); err != nil {
		t.Skip("there are no links here:", err)
	}
	require.NoError(t, os.Link(in("c.wav"), in("d.wav")))
	require.NoError(t, os.Symlink("visits", filepath.Join(folder, "tonight")))
	o := &uploadOptions{paths: []string{in(""), in("b.wav")}, patient: 7, prompt: 1, workers: 1}
	list, err := o.recordings(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, []string{in("b.wav"), in("c.wav")}, []string{list[0].File, list[1].File})
	const why = "it is another name of a file that this upload already contains"
	assert.Equal(t, []leftOut{{Reason: why, File: in("d.wav")}, {Reason: why, File: in("a.wav")}}, o.left)

	o = &uploadOptions{paths: []string{filepath.Join(folder, "tonight")}, patient: 7, prompt: 1, workers: 1}
	list, err = o.recordings(t.Context())
	require.NoError(t, err)
	assert.Len(t, list, 2)
}
