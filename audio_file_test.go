package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

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
	requirePrivate(t, path)
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
	left := fileNames(t, dir)
	require.Len(t, left, 3)
	require.Regexp(t, `^\.visit\.wav\.clinicaldoc-part-[0-9a-f]{16}$`, left[0])
	assert.Equal(t, []string{".visit.wav.clinicaldoc-part.json", "visit.wav"}, left[1:])
	assert.Equal(t, "older recording", string(fileContent(t, path)), "nothing half-written under the final name")
	assert.Equal(t, a.data[:40_000], fileContent(t, filepath.Join(dir, left[0])))

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

const (
	companionName = ".visit.wav.clinicaldoc-part.json"
	partName      = ".visit.wav.clinicaldoc-part-0123456789abcdef"
)

// leftBehind lays a part and its companion into a directory as a call that died would leave them.
func leftBehind(t *testing.T, dir string, part []byte, companion string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, partName), part, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, companionName), []byte(companion), 0o600))
}

// companion is what stands beside a part; the URL is the service's.
func companion(url string, note int, etag string, total, size int) string {
	return fmt.Sprintf(`{"format":"clinicaldoc-part","part":"0123456789abcdef","of":"note %d of %s","etag":%q,"total":%d,"size":%d}`, note, url, etag, total, size)
}

func TestWhatAPartMayBeContinuedFrom(t *testing.T) {
	t.Parallel()
	const size = 1000
	data := syntheticAudio(size).bytes()
	garbage := make([]byte, 700)
	const etag = `"synthetic-1"`
	tests := map[string]struct {
		part      []byte
		companion func(service string) string
		first     string // Range and If-Range of the first request
	}{
		"whole companion":               {data[:600], func(s string) string { return companion(s, 7, etag, size, 600) }, `bytes=600- "synthetic-1"`},
		"length not known":              {data[:600], func(s string) string { return companion(s, 7, etag, -1, 600) }, `bytes=600- "synthetic-1"`},
		"bytes that may not be on disk": {append(data[:500:500], garbage...), func(s string) string { return companion(s, 7, etag, size, 500) }, `bytes=500- "synthetic-1"`},
		"complete, but not renamed":     {data, func(s string) string { return companion(s, 7, etag, size, size) }, `bytes=999- "synthetic-1"`},
		"end of an older companion":     {data[:600], func(s string) string { return companion(s, 7, etag, size, 600) + `e":500}` }, `bytes=600- "synthetic-1"`},
		"another recording now":         {garbage, func(s string) string { return companion(s, 7, `"synthetic-0"`, size, 700) }, `bytes=700- "synthetic-0"`},
		"shorter than it says":          {data[:100], func(s string) string { return companion(s, 7, etag, size, 600) }, ""},
		"longer than the total":         {data, func(s string) string { return companion(s, 7, etag, 500, 600) }, ""},
		"another note":                  {garbage, func(s string) string { return companion(s, 8, etag, size, 700) }, ""},
		"another service":               {garbage, func(string) string { return companion("https://other.test", 7, etag, size, 700) }, ""},
		"weak ETag":                     {garbage, func(s string) string { return companion(s, 7, `W/"synthetic-1"`, size, 700) }, ""},
		"ETag with a line break":        {garbage, func(s string) string { return companion(s, 7, "\"synthetic-1\r\n\"", size, 700) }, ""},
		"negative size":                 {garbage, func(s string) string { return companion(s, 7, etag, size, -1) }, ""},
		"torn companion":                {garbage, func(s string) string { return companion(s, 7, etag, size, 700)[:100] }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t, size)
			dir := t.TempDir()
			leftBehind(t, dir, tt.part, tt.companion(a.api.URL))
			path := filepath.Join(dir, "visit.wav")
			n, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
			require.NoError(t, err)
			assert.Equal(t, int64(size), n)
			assert.Equal(t, a.data, fileContent(t, path))
			assert.Equal(t, tt.first, a.ranges()[0])
			assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
			requirePrivate(t, path)
		})
	}
}

// requirePrivate demands that nobody else can read the file.
func requirePrivate(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "a patient's recording is for nobody else")
}

func TestAPartIsContinuedWithoutRanges(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 1000)
	a.answer = func(_ int, w http.ResponseWriter, r *http.Request) bool { a.serveWhole(w, r); return true }
	dir := t.TempDir()
	leftBehind(t, dir, a.data[:600], companion(a.api.URL, 7, a.etag, 1000, 600))
	path := filepath.Join(dir, "visit.wav")
	var received []int64
	_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{OnProgress: func(n, _ int64) { received = append(received, n) }})
	require.NoError(t, err)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []int64{600, 1000}, received)
}

func TestAPartThatIsATextIsNotKept(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 0)
	a.data = []byte("Request has expired")
	a.answer = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		w.Header()["Content-Type"] = nil
		w.Header().Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
		return true
	}
	dir := t.TempDir()
	leftBehind(t, dir, a.data[:10], companion(a.api.URL, 7, a.etag, len(a.data), 10))
	_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.Equal(t, []string{"bytes=10- " + a.etag}, a.ranges(), "the beginning is known from the file")
	assert.Empty(t, fileNames(t, dir))
}

func TestFilesOfOthersAreNeverTouched(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"visit.wav.part": "mine", "visit.wav.part.json": "{}", ".visit.wav.part": "mine",
		partName: "named like a part", ".visit.wav.clinicaldoc-part": "mine", ".other.wav.clinicaldoc-part.json": "mine",
	}
	cutOnce := func(a *archive, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			a.cut(w, r, 600)
		}
		a.cut(w, r, 0)
	}
	refuse := func(_ *archive, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}
	for name, tt := range map[string]struct {
		companion *string // beside the others
		answer    func(a *archive, w http.ResponseWriter, r *http.Request)
		err       error
	}{
		"success":                    {answer: (*archive).serve},
		"refusal":                    {answer: refuse, err: clinicaldoc.ErrServer},
		"cut":                        {answer: cutOnce, err: io.ErrUnexpectedEOF},
		"a text as companion":        {companion: new("my notes"), err: fs.ErrExist},
		"another JSON as companion":  {companion: new(`{"part":"0123456789abcdef"}`), err: fs.ErrExist},
		"a companion of no part":     {companion: new(`{"format":"clinicaldoc-part","part":"../../../visit"}`), err: fs.ErrExist},
		"a companion without digits": {companion: new(`{"format":"clinicaldoc-part","part":"0123456789abcdeg"}`), err: fs.ErrExist},
		"a short companion":          {companion: new(`{"format":"clinicaldoc-part","part":"0123456789abcdef`), err: fs.ErrExist},
		"an empty companion":         {companion: new(""), answer: (*archive).serve},
		"zeros as companion":         {companion: new("\x00\x00"), answer: (*archive).serve},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t, 1000)
			a.answer = func(_ int, w http.ResponseWriter, r *http.Request) bool { tt.answer(a, w, r); return true }
			dir := t.TempDir()
			files := maps.Clone(others)
			if errors.Is(tt.err, fs.ErrExist) {
				files[companionName] = *tt.companion
			}
			for name, content := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
			}
			if tt.companion != nil {
				require.NoError(t, os.WriteFile(filepath.Join(dir, companionName), []byte(*tt.companion), 0o640))
			}
			path := filepath.Join(dir, "visit.wav")
			_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
			require.ErrorIs(t, err, tt.err)
			if tt.err == nil {
				assert.Equal(t, a.data, fileContent(t, path))
			}
			for name, content := range files {
				assert.Equal(t, content, string(fileContent(t, filepath.Join(dir, name))), name)
				if info, err := os.Stat(filepath.Join(dir, name)); assert.NoError(t, err) && runtime.GOOS != "windows" {
					assert.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), name)
				}
			}
			if errors.Is(tt.err, fs.ErrExist) {
				assert.Len(t, fileNames(t, dir), len(files), "nothing is added")
				assert.Zero(t, a.addresses, "and nothing is asked for")
				assert.NotContains(t, err.Error(), "visit", "a file's name may tell a patient's")
			}
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

func TestACallbackThatPanicsLeavesThePathFree(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 100_000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	client := a.client(t)
	assert.PanicsWithValue(t, "synthetic", func() {
		_, _ = client.Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{OnProgress: func(received, _ int64) {
			if received > 0 {
				panic("synthetic")
			}
		}})
	})
	assert.NoFileExists(t, path)
	_, err := client.Notes.DownloadAudioFile(socketContext(t), 7, path, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.Equal(t, a.data, fileContent(t, path))
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
	require.NoError(t, os.Mkdir(filepath.Join(dir, companionName), 0o700))
	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
	require.Error(t, err)
	assert.Equal(t, []string{companionName}, fileNames(t, dir))
	assert.Zero(t, a.addresses)
}

func TestAnotherThingThanAFileIsNoPart(t *testing.T) {
	t.Parallel()
	for name, lay := range map[string]func(t *testing.T, dir, part string){
		"directory": func(t *testing.T, _, part string) { require.NoError(t, os.Mkdir(part, 0o700)) },
		"link to a file": func(t *testing.T, dir, part string) {
			if err := os.Symlink(filepath.Join(dir, "letter"), part); err != nil {
				t.Skip("no links here")
			}
		},
		"link to nothing": func(t *testing.T, dir, part string) {
			if err := os.Symlink(filepath.Join(dir, "nothing"), part); err != nil {
				t.Skip("no links here")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t, 1000)
			dir := t.TempDir()
			letter := filepath.Join(dir, "letter")
			require.NoError(t, os.WriteFile(letter, make([]byte, 1000), 0o600))
			lay(t, dir, filepath.Join(dir, partName))
			require.NoError(t, os.WriteFile(filepath.Join(dir, companionName), []byte(companion(a.api.URL, 7, a.etag, 1000, 600)), 0o600))
			before := fileNames(t, dir)
			_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), clinicaldoc.DownloadParams{})
			require.Error(t, err)
			assert.Equal(t, before, fileNames(t, dir))
			assert.Equal(t, make([]byte, 1000), fileContent(t, letter))
			assert.Zero(t, a.addresses)
		})
	}
}
