package integration

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// testCreateSources uploads from every kind of source and compares what storage gives back.
func testCreateSources(t *testing.T, tg *target) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "synthetic.wav")
	require.NoError(t, os.WriteFile(path, tg.audio, 0o600))
	file, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	for name, source := range map[string]*clinicaldoc.AudioSource{
		"file":      file,
		"bytes":     clinicaldoc.AudioBytes("synthetic.wav", tg.audio),
		"reader at": clinicaldoc.AudioReaderAt("synthetic.wav", bytes.NewReader(tg.audio), int64(len(tg.audio))),
		"reader":    clinicaldoc.AudioReader("synthetic.wav", bytes.NewReader(tg.audio)),
	} {
		t.Run(name, func(t *testing.T) {
			total := int64(len(tg.audio))
			if name == "reader" {
				total = -1
			}
			params := tg.params()
			params.Audio = source
			var sent int64
			params.OnProgress = func(now, of int64) {
				assert.LessOrEqual(t, now, int64(len(tg.audio)))
				assert.Equal(t, total, of)
				sent = now
			}
			note, err := tg.client.Notes.Create(t.Context(), params)
			tg.deleteLater(t, note, err)
			if refusal := (*clinicaldoc.Error)(nil); name == "reader" && errors.As(err, &refusal) {
				t.Skipf("the service takes no upload without a Content-Length: %v", err)
			}
			require.NoError(t, err)
			assert.Equal(t, int64(len(tg.audio)), sent)
			assert.Equal(t, params.Name, note.Name)
			tg.assertCreated(t, note)

			var received bytes.Buffer
			_, err = tg.client.Notes.DownloadAudio(t.Context(), note.ID, &received, clinicaldoc.DownloadParams{})
			require.NoError(t, err)
			tg.assertRecording(t, note, received.Bytes())
		})
	}
}

// assertCreated holds a new note against what was sent and what the description requires.
func (tg *target) assertCreated(t *testing.T, note *clinicaldoc.ProgressNote) {
	t.Helper()
	assert.Positive(t, note.ID)
	assert.Positive(t, note.UserID)
	assert.True(t, strings.HasPrefix(note.Name, tg.namePrefix))
	assert.False(t, note.CreatedAt.IsZero())
	assert.False(t, note.UpdatedAt.IsZero())
	assert.False(t, note.Has.Signed)
	if id, named := note.Patient.ID(); named {
		assert.Equal(t, tg.patientID, id)
	}
}
