//go:build unix

package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckPrivate_AcceptsOnlyPrivateFiles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(t *testing.T, path string)
		want   error
	}{
		"one's own": {func(*testing.T, string) {}, nil},
		"others can read it": {
			func(t *testing.T, path string) { t.Helper(); require.NoError(t, os.Chmod(path, 0o640)) }, nil,
		},
		"others can write it": {
			func(t *testing.T, path string) { t.Helper(); require.NoError(t, os.Chmod(path, 0o602)) }, ErrNotPrivate,
		},
		"it has a second name": {
			func(t *testing.T, path string) { t.Helper(); require.NoError(t, os.Link(path, path+"2")) }, ErrNotPrivate,
		},
		"it is another's": {func(t *testing.T, path string) {
			t.Helper()
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			require.NoError(t, os.Chown(path, 12345, -1))
		}, ErrNotPrivate},
		"it is not a regular file": {func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Remove(path))
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		}, ErrNotPrivate},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "part")
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			test.change(t, path)
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			defer func() { _ = file.Close() }()
			before, err := file.Stat()
			require.NoError(t, err)
			require.ErrorIs(t, CheckPrivate(file), test.want)
			after, err := file.Stat()
			require.NoError(t, err)
			if test.want == nil {
				assert.EqualValues(t, 0o600, after.Mode(), "it is now, if it was not")
			} else {
				assert.Equal(t, before.Mode(), after.Mode(), "what is refused is left alone")
			}
		})
	}
}
