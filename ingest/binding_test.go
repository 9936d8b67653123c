package ingest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestBinding_Describe_IsWhatARunSaves(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	journal := openJournal(t, srv.URL, journalPath(t))
	u := &ingest.Uploader{Client: srv.Client(), Journal: journal}
	recording := ingest.Recording{Key: "synthetic encounter", Params: clinicaldoc.CreateNoteParams{
		Name: "Encounter", PatientID: 7, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", []byte("RIFF synthetic")),
	}}
	result := uploadOne(t, u, recording)
	owner, err := ingest.OwnerOf(t.Context(), u.Client)
	require.NoError(t, err)
	binding, err := journal.Bind(t.Context(), owner)
	require.NoError(t, err)
	assert.Equal(t, result.JournalKey, binding.Key(recording.Key))

	claim, err := journal.Claim(t.Context(), binding.Key(recording.Key))
	require.NoError(t, err)
	defer claim.Release()
	known := claim.Entry()
	want := ingest.Entry{Key: known.Key, Patient: known.Patient, Name: known.Name, Size: known.Size}
	assert.Equal(t, want, binding.Describe(recording))

	recording.Params.Audio = nil
	recording.File = filepath.Join(t.TempDir(), "elsewhere.wav")
	assert.Equal(t, int64(-1), binding.Describe(recording).Size)
}

// The recording is the file, even if Params.Audio names its content type.
func TestBinding_DescribeFileWithContentType_HasTheFilesSize(t *testing.T) {
	t.Parallel()
	content := []byte("RIFF synthetic")
	path := filepath.Join(t.TempDir(), "visit.wav")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	recording := ingest.Recording{Key: "synthetic encounter", File: path, Params: clinicaldoc.CreateNoteParams{
		PatientID: 7, PromptID: 1, Audio: &clinicaldoc.AudioSource{ContentType: "audio/wav"},
	}}
	described := ingest.Binding{Origin: "https://service.example.test"}.Describe(recording)
	assert.Equal(t, int64(len(content)), described.Size)
}
