package ingest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
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

func TestRun_FilesOfAllSizes_ArriveUnchanged(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	dir := t.TempDir()
	sums := map[ingest.Key]string{}
	u.Journal = watched(u.Journal, func(e ingest.Entry) { sums[e.Key] = e.SHA256 })
	u.Workers = 1
	for _, size := range []int{1, 2, 3, 100 << 10, 3 << 20} {
		path := filepath.Join(dir, strconv.Itoa(size)+".wav")
		content := bytes.Repeat([]byte{byte(size)}, size)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		result := uploadOne(t, u, ingest.Recording{File: path, Params: paramsOf(path)})
		require.Equal(t, ingest.Created, result.Status, result)
		assert.True(t, bytes.Equal(content, uploaded(t, srv, result.NoteID)), size)
		sum := sha256.Sum256(content)
		assert.Equal(t, hex.EncodeToString(sum[:]), sums[result.JournalKey])
		key, err := ingest.FileKey(path, paramsOf(path))
		require.NoError(t, err)
		assert.Equal(t, key, result.Recording.Key)
	}
}

func TestFileKey_DependsOnContentAndName(t *testing.T) {
	t.Parallel()
	path := files(t, 1)[0]
	moved := filepath.Join(t.TempDir(), filepath.Base(path))
	renamed := moved + ".wav"
	for _, to := range []string{moved, renamed} {
		require.NoError(t, os.WriteFile(to, sound(0), 0o600))
	}
	key := func(path, name string, patient int64) string {
		key, err := ingest.FileKey(path, clinicaldoc.CreateNoteParams{Name: name, PatientID: patient})
		require.NoError(t, err)
		return key
	}
	assert.Equal(t, key(path, "Visit", 7), key(renamed, "Visit", 7))
	assert.NotEqual(t, key(path, "Visit", 7), key(path, "Another visit", 7))
	assert.Equal(t, key(path, "", 7), key(moved, "", 7))
	assert.NotEqual(t, key(path, "", 7), key(renamed, "", 7))
	assert.NotEqual(t, key(path, "23", 1), key(path, "3", 12), "none of its parts can be taken for another's")
	assert.Equal(t, key(path, "Visite \u00e0", 7), key(path, "Visite a\u0300", 7), "one name in two spellings")
}

// A recording that got its key is as it was otherwise: its file is opened when its turn comes.
func TestWithKey_ChangesNothingElse(t *testing.T) {
	t.Parallel()
	path := files(t, 1)[0]
	named := &clinicaldoc.AudioSource{ContentType: "audio/x-synthetic"}
	for _, audio := range []*clinicaldoc.AudioSource{nil, named} {
		r := ingest.Recording{File: path, Params: paramsOf(path)}
		r.Params.Audio = audio
		keyed, err := r.WithKey()
		require.NoError(t, err)
		assert.NotEmpty(t, keyed.Key)
		assert.Equal(t, sumOf(ingest.Recording{Params: clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioBytes("a.wav", sound(0))}}), keyed.SHA256)
		assert.Same(t, audio, keyed.Params.Audio)
	}

	elsewhere := ingest.Recording{Key: "encounter 1", File: filepath.Join(t.TempDir(), "on another machine.wav")}
	keyed, err := elsewhere.WithKey()
	require.NoError(t, err)
	assert.Equal(t, elsewhere, keyed)
	elsewhere.SHA256 = "a sum"
	_, err = elsewhere.WithKey()
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
}

// The hash is saved before the last bytes are sent, so it is known to the next process if this one is killed. It does
// not matter where the recording comes from.
func TestRun_Commit_SavesTheHashFirst(t *testing.T) {
	t.Parallel()
	path, sent := files(t, 1)[0], sound(0)
	file, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		path, key string
		audio     *clinicaldoc.AudioSource
	}{
		"a file":            {path, "", nil},
		"a file with a key": {path, "encounter 1", nil},
		"a file's audio":    {"", "encounter 1", file},
		"bytes":             {"", "encounter 1", clinicaldoc.AudioBytes("a.wav", sent)},
		"any place": {
			"", "encounter 1", clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader(sent), int64(len(sent))),
		},
		"a stream": {"", "encounter 1", clinicaldoc.AudioReader("a.wav", bytes.NewReader(sent))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0)) // what can be sent twice is
			var sums []string
			u.Journal = watched(u.Journal, func(e ingest.Entry) {
				if e.State == ingest.StateCommitting {
					assert.Empty(t, srv.Notes())
					sums = append(sums, e.SHA256)
				}
			})
			u.MaxPause = -1
			r := ingest.Recording{File: c.path, Key: c.key, Params: paramsOf("Encounter")}
			r.Params.Audio = c.audio
			uploadOne(t, u, r)
			want := sha256.Sum256(sent)
			require.NotEmpty(t, sums)
			for _, sum := range sums {
				assert.Equal(t, hex.EncodeToString(want[:]), sum)
			}
		})
	}
}

// A file that changes after its key was made is not uploaded under that key, even if its size and time stay the same.
func TestRun_FileChangedAfterItsKey_IsRefused(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 1 << 20} {
		srv, u := newUploader(t)
		path := files(t, 1)[0]
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{'a'}, size), 0o600))
		info, err := os.Stat(path)
		require.NoError(t, err)
		other := bytes.Repeat([]byte{'x'}, size)
		u.Client = srv.Client(beforeUploads(func() {
			assert.NoError(t, os.WriteFile(path, other, 0o600))
			assert.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
		}).option())
		r := ingest.Recording{File: path, Params: paramsOf(path)}
		refused := uploadOne(t, u, r)
		require.Equal(t, ingest.Refused, refused.Status, refused)
		require.ErrorContains(t, refused.Err, "changed")
		created := uploadOne(t, u, r)
		require.Equal(t, ingest.Created, created.Status, created)
		assert.True(t, bytes.Equal(other, uploaded(t, srv, created.NoteID)))
		assert.Len(t, srv.Notes(), 1)
	}
}

// The media type that the caller sets is sent with the file.
func TestRun_FileWithContentType_SendsIt(t *testing.T) {
	t.Parallel()
	var sent []byte
	_, u := newUploader(t, handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		if r.Method == http.MethodPost {
			sent, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		service.ServeHTTP(w, r)
	}))
	r := ingest.Recording{File: files(t, 1)[0], Params: paramsOf("Visit")}
	r.Params.Audio = &clinicaldoc.AudioSource{ContentType: "audio/x-synthetic"}
	uploadOne(t, u, r)
	assert.Contains(t, string(sent), "Content-Type: audio/x-synthetic")
}

// A file may be moved once its note exists, and a share may be gone. The result then shows the note that the journal
// knows, and not that there is none.
func TestRun_FileGone_ReportsWhatTheJournalKnows(t *testing.T) {
	t.Parallel()
	type runs func(*testing.T, *clinicaldoctest.Server, *ingest.Uploader, ingest.Recording)
	lose := func(fault clinicaldoctest.Fault) runs {
		return func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader, r ingest.Recording) {
			t.Helper()
			srv.Inject(clinicaldoctest.RouteCreateNote, fault)
			uploadUntilUnresolved(t, u, r)
		}
	}
	for name, c := range map[string]struct {
		before runs // nil: nothing
		want   ingest.Status
		notes  int
	}{
		"nothing": {nil, ingest.Refused, 0},
		"created": {func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader, r ingest.Recording) {
			uploadOne(t, u, r)
		}, ingest.AlreadyThere, 1},
		"lost":                       {lose(clinicaldoctest.ResetAfterCommit()), ingest.Created, 1},
		"lost, and there is no note": {lose(clinicaldoctest.ResetAfterRequest()), ingest.Refused, 0},
		"a namesake": {func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader, r ingest.Recording) {
			addNote(srv, r, sound(9))
			uploadOne(t, u, r)
		}, ingest.InDoubt, 1},
	} {
		path := files(t, 2)[0] // another one is beside it: the share is there
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			r := ingest.Recording{Key: "encounter 1", File: path, Params: paramsOf(path)}
			if c.before != nil {
				c.before(t, srv, u, r)
			}
			require.NoError(t, os.Remove(path))
			result := uploadOne(t, u, r)
			assert.Equal(t, c.want, result.Status, name)
			if c.want == ingest.Refused || c.want == ingest.InDoubt {
				require.ErrorIs(t, result.Err, fs.ErrNotExist, name)
			} else {
				assert.Positive(t, result.NoteID)
			}
			assert.Len(t, srv.Notes(), c.notes)
		})
	}
}

// A key that is made of a file's content belongs to that content. A file that is replaced between two tries, or
// before its recording is passed again, is not uploaded under it. Under its own key it would become a second note.
func TestRun_FileReplaced_IsNotUploadedUnderItsOldKey(t *testing.T) {
	t.Parallel()
	path := files(t, 1)[0]
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		replace := func(_ context.Context, attempt clinicaldoc.Attempt) {
			if attempt.StatusCode == http.StatusTooManyRequests {
				assert.NoError(t, os.WriteFile(path+".new", sound(7), 0o600)) // of the same size
				assert.NoError(t, os.Rename(path+".new", path))
			}
		}
		u.Client = srv.Client(quick(), clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: replace}))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(time.Minute).Times(2))
		unkeyed := ingest.Recording{File: path, Params: paramsOf(path)}
		first := uploadOne(t, u, unkeyed)
		second := uploadOne(t, u, first.Recording) // which has the key of the first content
		for _, refused := range []ingest.Result{first, second} {
			require.Equal(t, ingest.Refused, refused.Status, refused)
			require.ErrorContains(t, refused.Err, "changed")
		}
		assert.Equal(t, ingest.Created, uploadOne(t, u, unkeyed).Status)
		assert.Len(t, srv.Notes(), 1)
	})
}
