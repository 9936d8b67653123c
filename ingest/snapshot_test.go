package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
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

func TestFilesOfAllSizesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	srv, dir := newBox(t), t.TempDir()
	var paths []string
	contents := map[string][]byte{}
	for _, size := range []int{1, 2, 100 << 10, ingest.MaxSnapshot - 1, ingest.MaxSnapshot, ingest.MaxSnapshot + 1, 3} {
		path := filepath.Join(dir, time.Duration(size).String()+".wav")
		contents[path] = bytes.Repeat([]byte{byte(size)}, size)
		require.NoError(t, os.WriteFile(path, contents[path], 0o600))
		paths = append(paths, path)
	}
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 2}
	results, err := collect(t.Context(), u, ingest.Files(paths, paramsOf))
	require.NoError(t, err)
	require.Len(t, results, len(paths))
	for _, r := range results {
		require.Equal(t, ingest.Created, r.Status, r)
		assert.True(t, bytes.Equal(contents[r.Recording.File], uploaded(t, srv, r.NoteID)), len(contents[r.Recording.File]))
		key, err := ingest.FileKey(r.Recording.File, paramsOf(r.Recording.File))
		require.NoError(t, err)
		assert.Equal(t, key, r.Recording.Key)
	}
}

// Not even a change that leaves size and time as they were puts another recording under a key.
func TestWhatIsUploadedIsWhatTheKeyWasMadeOf(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	path := files(t, 1)[0]
	info, err := os.Stat(path)
	require.NoError(t, err)
	other := bytes.Repeat([]byte{'x'}, int(info.Size()))
	client := srv.Client(beforeUploads(func() {
		assert.NoError(t, os.WriteFile(path, other, 0o600))
		assert.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	}).option())
	u := &ingest.Uploader{Client: client, Journal: openJournal(t, srv.URL, journalPath(t))}
	results, err := collect(t.Context(), u, ingest.Files([]string{path}, paramsOf))
	require.NoError(t, err)
	require.Equal(t, ingest.Created, results[0].Status, results[0])
	assert.Equal(t, sound(0), uploaded(t, srv, results[0].NoteID))
}

// undoubting is a journal that cannot write a doubt down.
type undoubting struct{ ingest.Journal }

type undoubtingClaim struct{ ingest.Claim }

func (j undoubting) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	return undoubtingClaim{claim}, err
}

func (c undoubtingClaim) Save(ctx context.Context, e ingest.Entry) error {
	if e.State == ingest.StateInDoubt {
		return errors.New("synthetic")
	}
	return c.Claim.Save(ctx, e)
}

// The content that was read is let go when the upload ends: what the error of a lost response holds is the file.
func TestADoubtKeepsNoContent(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: undoubting{openJournal(t, srv.URL, journalPath(t))}}
	results, err := collect(t.Context(), u, ingest.Files(files(t, 1), paramsOf))
	require.Error(t, err)
	require.Equal(t, ingest.InDoubt, results[0].Status)
	unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](results[0].Err)
	require.True(t, ok)
	note, err := srv.Client().Notes.Create(t.Context(), unknown.Params)
	require.NoError(t, err)
	assert.Equal(t, sound(0), uploaded(t, srv, note.ID))
}

// A transport may still read when its upload has ended: it must not get the next recording's bytes.
func TestAReleasedSnapshotGivesNothing(t *testing.T) {
	t.Parallel()
	paths := files(t, 2)
	first := ingest.NewSnapshot(t, paths[0], int64(len(sound(0))))
	p := make([]byte, 4)
	n, err := first.ReadAt(p, 0)
	require.NoError(t, err)
	assert.Equal(t, sound(0)[:4], p[:n])
	_, err = first.ReadAt(p, int64(len(sound(0))))
	require.ErrorIs(t, err, io.EOF)
	var reading sync.WaitGroup
	reading.Go(func() {
		for err := error(nil); err == nil; {
			_, err = first.ReadAt(make([]byte, 4), 0)
		}
	})
	first.Release()
	first.Release()
	reading.Wait()
	second := ingest.NewSnapshot(t, paths[1], int64(len(sound(1))))
	defer second.Release()
	_, err = first.ReadAt(p, 0)
	require.ErrorIs(t, err, os.ErrClosed)
}
