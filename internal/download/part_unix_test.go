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

func TestAPipeIsNoPart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(700))
	p.Leave()
	require.NoError(t, os.Remove(p.partPath()))
	require.NoError(t, syscall.Mkfifo(p.partPath(), 0o600))
	_, err := OpenPart(t.Context(), path, of)
	require.ErrorIs(t, err, disk.ErrNotRegular)
}
