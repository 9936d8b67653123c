package ingest_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// wav is a complete WAV file with that many bytes of sound.
func wav(sound int) []byte {
	file := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(36+sound))
	file = append(file,
		"WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data"...)
	file = binary.LittleEndian.AppendUint32(file, uint32(sound))
	return append(file, make([]byte, sound)...)
}

var pdf = []byte("%PDF-1.7 synthetic")

func TestCheckRecording(t *testing.T) {
	t.Parallel()
	whole := wav(1000)
	for name, tc := range map[string]struct {
		content []byte
		kind    ingest.AudioKind
		want    error
	}{
		"complete": {whole, "wav", nil},
		"half":     {whole[:500], "wav", ingest.ErrCutShort},
		"document": {pdf, "", ingest.ErrNotARecording},
		"empty":    {nil, "", ingest.ErrNotARecording},
		"unknown":  {[]byte("synthetic"), "", nil},
	} {
		kind, err := ingest.CheckRecording(bytes.NewReader(tc.content), int64(len(tc.content)))
		assert.Equal(t, tc.kind, kind, name)
		require.ErrorIs(t, err, tc.want, name)
		if tc.want != nil {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		}
	}
	assert.Equal(t, "audio/wav", ingest.AudioKind("wav").MediaType())
	assert.Equal(t, "application/octet-stream", ingest.AudioKind("").MediaType())
	_, err := ingest.CheckRecording(nil, 1)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = ingest.CheckRecording(bytes.NewReader(whole), -1)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = ingest.CheckRecording(bytes.NewReader(whole[:100]), 1<<20)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestRun_UnusableRecording_IsRefusedAndOthersGoOn(t *testing.T) {
	t.Parallel()
	srv, uploader := newUploader(t)
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "cut.wav"), filepath.Join(dir, "letter.wav"), filepath.Join(dir, "good.wav")}
	for i, content := range [][]byte{wav(1000)[:600], pdf, wav(1000)} {
		require.NoError(t, os.WriteFile(paths[i], content, 0o600))
	}
	inMemory := recording(1)
	inMemory.Params.Audio = clinicaldoc.AudioBytes("memory.wav", wav(2000)[:600])
	readAt := recording(2)
	half := wav(3000)[:600]
	readAt.Params.Audio = clinicaldoc.AudioReaderAt("reader.wav", bytes.NewReader(half), int64(len(half)))
	stream := recording(3)
	stream.Params.Audio = clinicaldoc.AudioReader("stream.wav", bytes.NewReader(wav(4000)[:600]))
	list := []ingest.Recording{inMemory, readAt, stream}
	for _, path := range paths {
		list = append(list, ingest.Recording{File: path, Params: paramsOf(path)})
	}
	results := upload(t, uploader, ingest.Recordings(list...))
	assert.Equal(t, counts{ingest.Created: 2, ingest.Refused: 4}, statuses(results))
	for _, result := range results {
		assert.NotZero(t, result.JournalKey)
		if result.Status == ingest.Created {
			continue
		}
		want := ingest.ErrCutShort
		if filepath.Base(result.Recording.File) == "letter.wav" {
			want = ingest.ErrNotARecording
		}
		require.ErrorIs(t, result.Err, want)
		assert.False(t, clinicaldoc.Retryable(result.Err))
	}
	assert.Len(t, srv.Notes(), 2)
}

// The file is still being copied in the first run, and complete in the second one.
func TestRun_RecordingThatWasCutShort_IsUploadedOnceItIsComplete(t *testing.T) {
	t.Parallel()
	srv, uploader := newUploader(t)
	path := filepath.Join(t.TempDir(), "visit.wav")
	whole := wav(1000)
	own := ingest.Recording{Key: "encounter 17", File: path, Params: paramsOf(path)}
	for _, tc := range []struct {
		content []byte
		want    ingest.Status
	}{{whole[:700], ingest.Refused}, {whole, ingest.Created}, {whole, ingest.AlreadyThere}} {
		require.NoError(t, os.WriteFile(path, tc.content, 0o600))
		result := uploadOne(t, uploader, own)
		assert.Equal(t, tc.want, result.Status, "%v", result.Err)
	}
	require.NoError(t, srv.CreatedOnce(whole))
}

func TestRun_SkipRecordingCheck_UploadsAnything(t *testing.T) {
	t.Parallel()
	srv, uploader := newUploader(t)
	uploader.SkipRecordingCheck = true
	cut := recording(1)
	half := wav(1000)[:600]
	cut.Params.Audio = clinicaldoc.AudioBytes("cut.wav", half)
	result := uploadOne(t, uploader, cut)
	assert.Equal(t, ingest.Created, result.Status)
	require.NoError(t, srv.CreatedOnce(half))
	// The note exists, so the check has nothing to prevent.
	uploader.SkipRecordingCheck = false
	result = uploadOne(t, uploader, cut)
	assert.Equal(t, ingest.AlreadyThere, result.Status)
}
