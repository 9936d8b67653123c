package integration

import (
	"bytes"
	"crypto/sha256"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func testAudio(t *testing.T, tg *target) {
	t.Helper()
	note := tg.create(t)
	address, err := tg.client.Notes.AudioURL(t.Context(), note.ID)
	require.NoError(t, err)
	u, err := url.Parse(address.URL)
	require.NoError(t, err)
	assert.NotEmpty(t, u.Host)
	if !address.ExpiresAt.IsZero() {
		assert.True(t, address.ExpiresAt.After(note.CreatedAt))
	}

	var received bytes.Buffer
	var reported int64
	n, err := tg.client.Notes.DownloadAudio(t.Context(), note.ID, &received, clinicaldoc.DownloadParams{
		OnProgress: func(now, _ int64) { reported = now },
	})
	require.NoError(t, err)
	assert.Equal(t, int64(len(tg.audio)), n)
	assert.Equal(t, n, reported)
	assert.Equal(t, sha256.Sum256(tg.audio), sha256.Sum256(received.Bytes()))

	path := filepath.Join(t.TempDir(), "download.wav")
	n, err = tg.client.Notes.DownloadAudioFile(t.Context(), note.ID, path, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.Equal(t, int64(len(tg.audio)), n)
	saved, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256(tg.audio), sha256.Sum256(saved))
}
