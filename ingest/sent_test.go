package ingest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func uploaded(t *testing.T, srv *clinicaldoctest.Server, id int64) []byte {
	t.Helper()
	var audio bytes.Buffer
	_, err := srv.Client().Notes.DownloadAudio(t.Context(), id, &audio, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	return audio.Bytes()
}

func TestFilesOfAllSizesArriveAsTheyAreAndTheJournalKnowsWhatWasSent(t *testing.T) {
	t.Parallel()
	srv, dir, path := newBox(t), t.TempDir(), journalPath(t)
	var paths []string
	contents := map[string][]byte{}
	for _, size := range []int{1, 2, 3, 100 << 10, 3 << 20} {
		file := filepath.Join(dir, strconv.Itoa(size)+".wav")
		contents[file] = bytes.Repeat([]byte{byte(size)}, size)
		require.NoError(t, os.WriteFile(file, contents[file], 0o600))
		paths = append(paths, file)
	}
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, path), Workers: 2}
	results, err := collect(t.Context(), u, ingest.Files(paths, paramsOf))
	require.NoError(t, err)
	require.Len(t, results, len(paths))
	_, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	sums := map[ingest.Key]string{}
	for _, e := range entries {
		sums[e.Key] = e.SHA256
	}
	for _, r := range results {
		require.Equal(t, ingest.Created, r.Status, r)
		content := contents[r.Recording.File]
		assert.True(t, bytes.Equal(content, uploaded(t, srv, r.NoteID)), len(content))
		sum := sha256.Sum256(content)
		assert.Equal(t, hex.EncodeToString(sum[:]), sums[r.JournalKey])
		key, err := ingest.FileKey(r.Recording.File, paramsOf(r.Recording.File))
		require.NoError(t, err)
		assert.Equal(t, key, r.Recording.Key)
	}
}

// Not even a change that leaves size and time as they were puts another recording under a key, whatever the size.
func TestWhatIsUploadedIsWhatTheKeyWasMadeOf(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 1 << 20} {
		srv := newBox(t)
		path := files(t, 1)[0]
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{'a'}, size), 0o600))
		info, err := os.Stat(path)
		require.NoError(t, err)
		other := bytes.Repeat([]byte{'x'}, size)
		client := srv.Client(beforeUploads(func() {
			assert.NoError(t, os.WriteFile(path, other, 0o600))
			assert.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
		}).option())
		u := &ingest.Uploader{Client: client, Journal: openJournal(t, srv.URL, journalPath(t))}
		results, err := collect(t.Context(), u, ingest.Files([]string{path}, paramsOf))
		require.NoError(t, err)
		require.Equal(t, ingest.Refused, results[0].Status, results[0])
		require.ErrorContains(t, results[0].Err, "changed")
		results, err = collect(t.Context(), u, ingest.Files([]string{path}, paramsOf))
		require.NoError(t, err)
		require.Equal(t, ingest.Created, results[0].Status, results[0])
		assert.True(t, bytes.Equal(other, uploaded(t, srv, results[0].NoteID)))
		assert.Len(t, srv.Notes(), 1)
	}
}
