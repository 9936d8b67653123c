package integration

import (
	"bytes"
	"crypto/sha256"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

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
		const zones = 26 * time.Hour // a service may date its notes by the clock on its wall
		assert.True(t, address.ExpiresAt.After(note.CreatedAt.Add(-zones)))
	}

	var received bytes.Buffer
	var reported int64
	n, err := tg.client.Notes.DownloadAudio(t.Context(), note.ID, &received, clinicaldoc.DownloadParams{
		OnProgress: func(now, _ int64) { reported = now },
	})
	require.NoError(t, err)
	assert.Equal(t, int64(received.Len()), n)
	assert.Equal(t, n, reported)
	tg.assertRecording(t, note, received.Bytes())

	path := filepath.Join(t.TempDir(), "download.wav")
	n, err = tg.client.Notes.DownloadAudioFile(t.Context(), note.ID, path, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	saved, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, int64(len(saved)), n)
	tg.assertRecording(t, note, saved)
}

// assertRecording finds what was sent, or what the service says that it has made of it: some store recordings otherwise.
func (tg *target) assertRecording(t *testing.T, note *clinicaldoc.ProgressNote, received []byte) {
	t.Helper()
	if note.Audio != nil && note.Audio.Size != 0 && note.Audio.Size != int64(len(tg.audio)) {
		t.Log("the service stores another recording than was sent")
		assert.Len(t, received, int(note.Audio.Size))
		return
	}
	assert.Equal(t, sha256.Sum256(tg.audio), sha256.Sum256(received))
}
