package clinicaldoctest_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxflag"
)

func TestInMemory_RecordingsLeaveNoFolder(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("TMP", temporary) // on Windows
	srv := clinicaldoctest.NewServer(boxflag.InMemory())
	t.Cleanup(srv.Close)
	client := srv.Client()
	recording := []byte("a synthetic recording")
	note, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("visit.wav", recording),
	})
	require.NoError(t, err)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
	var kept bytes.Buffer
	_, err = client.Notes.DownloadAudio(t.Context(), note.ID, &kept, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.Equal(t, recording, kept.Bytes())
}
