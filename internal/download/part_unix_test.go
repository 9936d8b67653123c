//go:build unix

package download

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// A user who can write to a companion could make the next download continue with the bytes of another recording.
func TestOpenPart_EmptyCompanionOthersCanWrite_IsRejected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	require.NoError(t, os.WriteFile(partFile(path, ".json"), nil, 0o600))
	require.NoError(t, os.Chmod(partFile(path, ".json"), 0o666)) // whatever the umask
	_, err := OpenPart(t.Context(), path, of)
	require.ErrorIs(t, err, disk.ErrNotPrivate)
}

func TestOpenPart_Pipe_IsRejected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(700))
	p.Leave()
	require.NoError(t, os.Remove(p.partPath()))
	require.NoError(t, syscall.Mkfifo(p.partPath(), 0o600))
	_, err := OpenPart(t.Context(), path, of)
	require.ErrorIs(t, err, disk.ErrNotRegular)
}
