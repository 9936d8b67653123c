package ingest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"iter"
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
	results := upload(t, u, ingest.Files(paths, paramsOf))
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

func TestFileKey_DependsOnContentAndName(t *testing.T) {
	t.Parallel()
	path := files(t, 1)[0]
	moved := filepath.Join(t.TempDir(), filepath.Base(path))
	renamed := moved + ".wav"
	for _, to := range []string{moved, renamed} {
		require.NoError(t, os.WriteFile(to, sound(0), 0o600))
	}
	key := func(path, name string) string {
		key, err := ingest.FileKey(path, clinicaldoc.CreateNoteParams{Name: name, PatientID: 7})
		require.NoError(t, err)
		return key
	}
	assert.Equal(t, key(path, "Visit"), key(renamed, "Visit"))
	assert.NotEqual(t, key(path, "Visit"), key(path, "Another visit"))
	assert.Equal(t, key(path, ""), key(moved, ""))
	assert.NotEqual(t, key(path, ""), key(renamed, ""))
	assert.Equal(t, key(path, "Visite \u00e0 domicile"), key(path, "Visite a\u0300 domicile"), "one name in two spellings")
	first, err := ingest.FileKey(path, clinicaldoc.CreateNoteParams{Name: "23", PatientID: 1})
	require.NoError(t, err)
	second, err := ingest.FileKey(path, clinicaldoc.CreateNoteParams{Name: "3", PatientID: 12})
	require.NoError(t, err)
	assert.NotEqual(t, first, second, "none of its parts can be taken for another's")
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

// A process that is killed then leaves the hash to the next one, whatever the recording came from.
func TestRun_Commit_SavesTheHashFirst(t *testing.T) {
	t.Parallel()
	path, sent := files(t, 1)[0], sound(0)
	file, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	for name, r := range map[string]ingest.Recording{
		"a file":            {File: path},
		"a file with a key": {File: path, Key: "encounter 1"},
		"a file's audio":    {Key: "encounter 1", Params: clinicaldoc.CreateNoteParams{Audio: file}},
		"bytes": {
			Key: "encounter 1", Params: clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioBytes("a.wav", sent)},
		},
		"any place": {
			Key: "encounter 1",
			Params: clinicaldoc.CreateNoteParams{
				Audio: clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader(sent), int64(len(sent))),
			},
		},
		"a stream": {
			Key:    "encounter 1",
			Params: clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader("a.wav", bytes.NewReader(sent))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newBox(t)
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0)) // what can be sent twice is
			var sums []string
			journal := watched(openJournal(t, srv.URL, journalPath(t)), func(e ingest.Entry) {
				if e.State == ingest.StateCommitting {
					assert.Empty(t, srv.Notes())
					sums = append(sums, e.SHA256)
				}
			})
			r.Params.PatientID, r.Params.Name, r.Params.PromptID = 7, "Encounter", 1
			u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, MaxPause: -1}
			upload(t, u, ingest.Recordings(r))
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
		results := upload(t, u, ingest.Files([]string{path}, paramsOf))
		require.Equal(t, ingest.Refused, results[0].Status, results[0])
		require.ErrorContains(t, results[0].Err, "changed")
		results = upload(t, u, ingest.Files([]string{path}, paramsOf))
		require.Equal(t, ingest.Created, results[0].Status, results[0])
		assert.True(t, bytes.Equal(other, uploaded(t, srv, results[0].NoteID)))
		assert.Len(t, srv.Notes(), 1)
	}
}

// A file is sent as what the caller says that it is.
func TestRun_FileWithContentType_SendsIt(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	var sent []byte
	client := srv.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			sent, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		return http.DefaultTransport.RoundTrip(r)
	})}))
	r := ingest.Recording{File: files(t, 1)[0], Params: paramsOf("Visit")}
	r.Params.Audio = &clinicaldoc.AudioSource{ContentType: "audio/x-synthetic"}
	u := &ingest.Uploader{Client: client, Journal: openJournal(t, srv.URL, journalPath(t)), AllNew: true}
	upload(t, u, ingest.Recordings(r))
	assert.Contains(t, string(sent), "Content-Type: audio/x-synthetic")
}

// A file may be put away once its note exists, and a share may be gone: what the journal knows of a key does not depend
// on that. To say that there is no note would be wrong.
func TestRun_FileGone_ReportsWhatTheJournalKnows(t *testing.T) {
	t.Parallel()
	const lookAlike = "a note that looks like it"
	for _, test := range []struct {
		before string
		faults []clinicaldoctest.Fault
		want   ingest.Status
		notes  int
	}{
		{"nothing", nil, ingest.Refused, 0},
		{"created", nil, ingest.AlreadyThere, 1},
		{"lost", []clinicaldoctest.Fault{clinicaldoctest.ResetAfterCommit()}, ingest.Created, 1},
		{"lost, and there is no note", []clinicaldoctest.Fault{clinicaldoctest.ResetAfterRequest()}, ingest.Refused, 0},
		{lookAlike, nil, ingest.InDoubt, 1},
	} {
		path := files(t, 2)[0] // another one is beside it: the share is there
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, uploader *ingest.Uploader) {
			recording := ingest.Recording{Key: "encounter 1", File: path, Params: paramsOf(path)}
			if test.before == lookAlike {
				addNote(srv, recording, sound(9))
			}
			if test.before != "nothing" {
				ctx, cancel := context.WithCancel(t.Context())
				for _, fault := range test.faults {
					srv.Inject(clinicaldoctest.RouteCreateNote, fault)
					uploader.OnEvent = func(e ingest.Event) {
						if e.State == ingest.StateInDoubt {
							cancel()
						}
					}
				}
				_, _ = collect(ctx, uploader, ingest.Recordings(recording))
				cancel()
			}
			require.NoError(t, os.Remove(path))
			uploader.OnEvent = nil
			result := uploadOne(t, uploader, recording)
			assert.Equal(t, test.want, result.Status, test.before)
			if test.want == ingest.Refused || test.want == ingest.InDoubt {
				require.ErrorIs(t, result.Err, fs.ErrNotExist, test.before)
			} else {
				assert.Positive(t, result.NoteID)
			}
			assert.Len(t, srv.Notes(), test.notes)
		})
	}
}

// A key that is made of a file's content belongs to that content. A file that is replaced between two tries, or
// before its recording is passed again, is not uploaded under it. Under its own key it would become a second note.
func TestRun_FileReplaced_IsNotUploadedUnderItsOldKey(t *testing.T) {
	t.Parallel()
	path := files(t, 1)[0]
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		client := srv.Client(quick(), clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: func(_ context.Context, r clinicaldoc.Attempt) {
			if r.StatusCode == http.StatusTooManyRequests {
				assert.NoError(t, os.WriteFile(path+".new", sound(7), 0o600)) // of the same size
				assert.NoError(t, os.Rename(path+".new", path))
			}
		}}))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(time.Minute).Times(2))
		u := &ingest.Uploader{Client: client, Journal: journal}
		run := func(recordings iter.Seq2[ingest.Recording, error], want ingest.Status) ingest.Result {
			results := upload(t, u, recordings)
			require.Equal(t, want, results[0].Status, results[0])
			return results[0]
		}
		refused := run(ingest.Files([]string{path}, paramsOf), ingest.Refused)
		require.ErrorContains(t, refused.Err, "changed")
		refused = run(ingest.Recordings(refused.Recording), ingest.Refused)
		require.ErrorContains(t, refused.Err, "changed")
		run(ingest.Files([]string{path}, paramsOf), ingest.Created)
		assert.Len(t, srv.Notes(), 1)
	})
}
