package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lockable skips a test where the system knows no locks.
func lockable(t *testing.T) {
	t.Helper()
	switch runtime.GOOS {
	case "darwin", "dragonfly", "freebsd", "linux", "netbsd", "openbsd", "windows":
	default:
		t.Skip("no locks on this system")
	}
}

func hold(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := Take(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = Close(file) })
	return file
}

func TestTake_NewFile_IsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	file := hold(t, path)
	_, err := file.WriteString("content")
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		info, err := file.Stat()
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, Close(file))
	content, err := io.ReadAll(hold(t, path))
	require.NoError(t, err)
	assert.Equal(t, "content", string(content), "a file that is there stays as it is")
}

func TestTake_LockedFile_IsRefusedUntilClose(t *testing.T) {
	t.Parallel()
	lockable(t)
	path := filepath.Join(t.TempDir(), "file")
	first := hold(t, path)
	for range 2 {
		_, err := Take(path)
		require.ErrorIs(t, err, ErrHeld)
	}
	require.NoError(t, Close(first))
	second := hold(t, path)
	_, err := Take(path)
	require.ErrorIs(t, err, ErrHeld)
	require.NoError(t, Remove(second))
	assert.NoFileExists(t, path)
	hold(t, path)
}

const pathVariable = "FILELOCK_TEST_PATH"

// TestAnotherProcess is the other process of the tests below. It prints the result of Take and keeps the file locked
// until its input ends.
func TestAnotherProcess(t *testing.T) {
	t.Parallel()
	path := os.Getenv(pathVariable)
	if path == "" {
		t.Skip("runs only in another process")
	}
	file, err := Take(path)
	switch {
	case err == nil:
		defer func() { _ = Close(file) }()
		fmt.Println("\nheld")
	case errors.Is(err, ErrHeld):
		fmt.Println("\nrefused")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// process is another process that opened a file, or was refused.
type process struct {
	*exec.Cmd
	in      io.Closer
	outcome string
}

func startProcess(t *testing.T, path string) *process {
	t.Helper()
	lockable(t)
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAnotherProcess$", "-test.v")}
	p.Env = append(os.Environ(), pathVariable+"="+path)
	in, err := p.StdinPipe()
	require.NoError(t, err)
	p.in = in
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _, _ = in.Close(), p.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text := lines.Text(); text == "held" || text == "refused" {
			p.outcome = text
			return p
		}
	}
	t.Fatal("the other process ended without a word")
	return nil
}

func TestTake_LockedByAnotherProcess_IsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	other := startProcess(t, path)
	require.Equal(t, "held", other.outcome)
	_, err := Take(path)
	require.ErrorIs(t, err, ErrHeld)
	require.Equal(t, "refused", startProcess(t, path).outcome)
	require.NoError(t, other.in.Close())
	require.NoError(t, other.Wait())
	hold(t, path)
	require.Equal(t, "refused", startProcess(t, path).outcome)
}

func TestTake_HolderDies_LockIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	other := startProcess(t, path)
	require.Equal(t, "held", other.outcome)
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
	hold(t, path)
}

func TestTake_SymbolicLink_IsNotFollowed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("content"), 0o600))
	for name, to := range map[string]string{"to a file": target, "to nothing": filepath.Join(dir, "nothing")} {
		link := filepath.Join(dir, name)
		require.NoError(t, os.Symlink(to, link))
		_, err := Take(link)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrHeld)
	}
	assert.NoFileExists(t, filepath.Join(dir, "nothing"))
	hold(t, target)
}

func TestTake_OpenFails_IsNotErrHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Take(filepath.Join(dir, "missing", "file"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, ErrHeld)
	_, err = Take(dir)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrHeld)
}

func TestTake_FileRemovedWhileLocked_CreatesANewOne(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a held file cannot be removed there")
	}
	path := filepath.Join(t.TempDir(), "file")
	first := hold(t, path)
	require.NoError(t, os.Remove(path))
	second := hold(t, path)
	a, err := first.Stat()
	require.NoError(t, err)
	b, err := second.Stat()
	require.NoError(t, err)
	assert.False(t, os.SameFile(a, b))
	_, err = Take(path)
	require.ErrorIs(t, err, ErrHeld, "the new one is held as well")
}

func TestOpenNamed_FileRemovedBeforeLock_TriesAgain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed there")
	}
	path := filepath.Join(t.TempDir(), "file")
	opened := 0
	removed := func(times int) func(*os.File) error {
		return func(file *os.File) error {
			if opened++; opened <= times {
				require.NoError(t, os.Remove(path))
			}
			return tryLock(file)
		}
	}
	for _, replaced := range []bool{false, true} {
		opened = 0
		file, err := openNamed(path, os.O_CREATE, func(file *os.File) error {
			err := removed(1)(file)
			if replaced && opened == 1 {
				require.NoError(t, os.WriteFile(path, []byte("another"), 0o600))
			}
			return err
		})
		require.NoError(t, err)
		assert.Equal(t, 2, opened)
		_, err = Take(path)
		require.ErrorIs(t, err, ErrHeld, "what is held bears the name")
		require.NoError(t, Close(file))
	}
	opened = 0
	_, err := openNamed(path, os.O_CREATE, removed(1000))
	require.ErrorIs(t, err, ErrHeld, "it is not tried for ever")
	assert.Equal(t, maxTries, opened)
}

func TestOpenNamed_CreatedFileWithoutLocks_IsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	refuse := func(err error) func(*os.File) error { return func(*os.File) error { return err } }
	_, err := openNamed(path, os.O_CREATE|os.O_EXCL, refuse(ErrNoLocks))
	require.ErrorIs(t, err, ErrNoLocks)
	assert.NoFileExists(t, path)
	_, err = openNamed(path, os.O_CREATE|os.O_EXCL, refuse(ErrHeld))
	require.ErrorIs(t, err, ErrHeld)
	assert.FileExists(t, path, "it is another's by now")
	_, err = openNamed(path, 0, refuse(ErrNoLocks))
	require.ErrorIs(t, err, ErrNoLocks)
	assert.FileExists(t, path, "it was there before")
}

func TestTake_HoldersRemoveTheFile_NeverOverlap(t *testing.T) {
	t.Parallel()
	lockable(t)
	path := filepath.Join(t.TempDir(), "file")
	var inside, turns atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				file, err := Take(path)
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				assert.Equal(t, int32(1), inside.Add(1), "one at a time")
				runtime.Gosched()
				turns.Add(1)
				inside.Add(-1)
				assert.NoError(t, Remove(file))
			}
		})
	}
	all.Wait()
	assert.Positive(t, turns.Load())
	assert.NoFileExists(t, path)
}
