package clinicaldoc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// fileNames lists a directory.
func fileNames(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	list := []string{}
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

// cutting makes every request but those from the n-th on break off after so many bytes, the second one at once.
func cutting(a *archive, n, bytes int) func(int, http.ResponseWriter, *http.Request) bool {
	return func(number int, w http.ResponseWriter, r *http.Request) bool {
		if number >= n {
			return false
		}
		if number > 1 {
			bytes = 0
		}
		a.cut(w, r, bytes)
		return true
	}
}

func TestDownloadAudioFileWritesTheWholeFile(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 100_000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	n, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.Equal(t, int64(100_000), n)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir), "nothing is left beside it")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "a patient's recording is for nobody else")
	}
}

func TestDownloadAudioFileIsContinuedByTheNextCall(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 100_000)
	a.answer = cutting(a, 5, 40_000) // one attempt with 40,000 bytes, three with none
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	require.NoError(t, os.WriteFile(path, []byte("older recording"), 0o600))
	n, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
	require.Error(t, err)
	assert.Equal(t, int64(40_000), n)
	assert.Equal(t, []string{"visit.wav", "visit.wav.part", "visit.wav.part.json"}, fileNames(t, dir))
	assert.Equal(t, "older recording", string(fileContent(t, path)), "nothing half-written under the final name")
	assert.Equal(t, a.data[:40_000], fileContent(t, path+".part"))

	var received []int64
	n, err = a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{OnProgress: func(n, total int64) {
		received = append(received, n)
		assert.Equal(t, int64(100_000), total)
	}})
	require.NoError(t, err)
	assert.Equal(t, int64(100_000), n)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
	ranges := a.ranges()
	assert.Equal(t, `bytes=40000- "synthetic-1"`, ranges[len(ranges)-1])
	assert.Equal(t, int64(40_000), received[0])
}

// leftBehind lays a part beside path as a call that died would leave it.
func leftBehind(t *testing.T, path string, part []byte, about any) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".part", part, 0o600))
	text, ok := about.(string)
	if !ok {
		encoded, err := json.Marshal(about)
		require.NoError(t, err)
		text = string(encoded)
	}
	require.NoError(t, os.WriteFile(path+".part.json", []byte(text), 0o600))
}

func TestWhatAPartMayBeContinuedFrom(t *testing.T) {
	t.Parallel()
	type about map[string]any
	const size = 1000
	data := syntheticAudio(size).bytes()
	garbage := make([]byte, 700)
	tests := map[string]struct {
		part  []byte
		about func(service string) any
		first string // Range and If-Range of the first request
		etag  string // of the recording now
	}{
		"whole companion": {part: data[:600], about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": size, "size": 600}
		}, first: `bytes=600- "synthetic-1"`},
		"length not known": {part: data[:600], about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": -1, "size": 600}
		}, first: `bytes=600- "synthetic-1"`},
		"bytes that may not be on disk": {part: append(data[:500:500], garbage...), about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": size, "size": 500}
		}, first: `bytes=500- "synthetic-1"`},
		"complete, but not renamed": {part: data, about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": size, "size": size}
		}, first: `bytes=999- "synthetic-1"`},
		"another recording now": {part: garbage, about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-0"`, "total": size, "size": 700}
		}, first: `bytes=700- "synthetic-0"`},
		"shorter than it says": {part: data[:100], about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": size, "size": 600}
		}},
		"longer than the total": {part: data, about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": 500, "size": 600}
		}},
		"another note": {part: garbage, about: func(s string) any {
			return about{"service": s, "note": 8, "etag": `"synthetic-1"`, "total": size, "size": 700}
		}},
		"another service": {part: garbage, about: func(string) any {
			return about{"service": "https://other.test", "note": 7, "etag": `"synthetic-1"`, "total": size, "size": 700}
		}},
		"weak ETag": {part: garbage, about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `W/"synthetic-1"`, "total": size, "size": 700}
		}},
		"ETag with a line break": {part: garbage, about: func(s string) any {
			return about{"service": s, "note": 7, "etag": "\"synthetic-1\r\n\"", "total": size, "size": 700}
		}},
		"negative size": {part: garbage, about: func(s string) any {
			return about{"service": s, "note": 7, "etag": `"synthetic-1"`, "total": size, "size": -1}
		}},
		"no companion":     {part: garbage, about: func(string) any { return "" }},
		"broken companion": {part: garbage, about: func(string) any { return `{"note":7,"et` }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t, size)
			path := filepath.Join(t.TempDir(), "visit.wav")
			leftBehind(t, path, tt.part, tt.about(a.api.URL))
			n, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
			require.NoError(t, err)
			assert.Equal(t, int64(size), n)
			assert.Equal(t, a.data, fileContent(t, path))
			assert.Equal(t, tt.first, a.ranges()[0])
			assert.Equal(t, []string{"visit.wav"}, fileNames(t, filepath.Dir(path)))
		})
	}
}

func TestAChangedRecordingRestartsThePart(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 1000)
	a.answer = cutting(a, 5, 400)
	path := filepath.Join(t.TempDir(), "visit.wav")
	client := a.client(t)
	_, err := client.Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
	require.Error(t, err)
	a.data, a.etag = syntheticAudio(3000).bytes()[1000:], `"synthetic-2"`
	a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n < 9 { // and that one breaks off too: the part must be of the new one
			a.cut(w, r, 100)
			return true
		}
		return false
	}
	for range 3 {
		if _, err = client.Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{}); err == nil {
			break
		}
	}
	require.NoError(t, err)
	assert.Equal(t, a.data, fileContent(t, path))
}

func TestAFailureBeforeTheFirstByteLeavesNothing(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 1000)
	a.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	dir := t.TempDir()
	_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	assert.Empty(t, fileNames(t, dir))
}

func TestAPartThatCannotBeContinuedIsNotKept(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 1000)
	a.etag = ""
	a.answer = func(_ int, w http.ResponseWriter, r *http.Request) bool { a.cut(w, r, 400); return true }
	dir := t.TempDir()
	_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
	require.Error(t, err)
	assert.Empty(t, fileNames(t, dir))
}

func TestOneDownloadToAPathAtATime(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 1000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	client := a.client(t)
	var second atomic.Bool
	_, err := client.Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{OnProgress: func(int64, int64) {
		if second.Swap(true) {
			return
		}
		_, err := client.Notes.DownloadAudioFile(context.WithoutCancel(t.Context()), 7, path, clinicaldoc.DownloadParams{})
		assert.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}})
	require.NoError(t, err)
	assert.True(t, second.Load())
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Len(t, a.seen(), 1)
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
}

func TestManyDownloadsToAPathDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 200_000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	client := a.client(t)
	ctx := socketContext(t)
	results := make(chan error, 8*5)
	for range 8 {
		go func() {
			for range 5 {
				_, err := client.Notes.DownloadAudioFile(ctx, 7, path, clinicaldoc.DownloadParams{})
				results <- err
			}
		}()
	}
	done := 0
	for range 8 * 5 {
		err := <-results
		if err == nil {
			done++
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	assert.Positive(t, done)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
}

func TestDownloadAudioFileRefusesUnusablePaths(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 1000)
	dir := t.TempDir()
	client := a.client(t)
	for _, path := range []string{"", dir} {
		_, err := client.Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	_, err := client.Notes.DownloadAudioFile(socketContext(t), 0, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "patient", "visit.wav"), clinicaldoc.DownloadParams{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.NotContains(t, fmt.Sprintf("%+v", err), "patient", "a file's name may tell a patient's")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "visit.wav.part"), 0o700))
	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
	require.Error(t, err)
	assert.Equal(t, []string{"visit.wav.part"}, fileNames(t, dir))
	assert.Empty(t, a.seen())
}
