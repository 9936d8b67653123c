package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestRun_Repeated_MakesOneNoteEach(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	for run, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere, ingest.AlreadyThere} {
		journal := openJournal(t, srv.URL, path)
		begun := time.Now()
		results := upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 8}, recordings(0, 50))
		took := time.Since(begun)
		require.NoError(t, journal.Close())
		assert.Equal(t, counts{want: 50}, statuses(results), "run %d", run)
		for _, r := range results {
			assert.Positive(t, r.NoteID)
			assert.Equal(t, want == ingest.Created, r.Note != nil)
			assert.LessOrEqual(t, r.Took, took)
		}
	}
	names := noteNames(srv)
	assert.Len(t, names, 50)
	assert.Len(t, slices.Compact(names), 50)
}

func TestRun_FilesWithoutKeys_AreKnownByContentNameAndPatient(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	paths := files(t, 3)
	theCopy := paths[0] + "-copy.wav"
	require.NoError(t, os.WriteFile(theCopy, sound(0), 0o600))
	results := upload(t, u, ingest.Files(append(paths, paths[0], theCopy, paths[0]+"-missing.wav"), paramsOf))
	assert.Equal(t, counts{ingest.Created: 4, ingest.AlreadyThere: 1, ingest.Refused: 1}, statuses(results))
	assert.Len(t, srv.Notes(), 4, "another name is another recording, the same file is not")

	results = upload(t, u, ingest.Files(paths[:1], func(path string) clinicaldoc.CreateNoteParams {
		params := paramsOf(path)
		params.PatientID = 8
		return params
	}))
	assert.Equal(t, counts{ingest.Created: 1}, statuses(results), "another patient's is another recording")
}

func TestRun_LostResponse_UploadsOnce(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Every(2))
	var found atomic.Int32
	u.Journal = watched(u.Journal, func(e ingest.Entry) {
		if e.Found {
			found.Add(1)
		}
	})
	u.Workers = 1
	results, err := collect(within(t, 5*time.Minute), u, recordings(0, 80)) // not even one waits for Settle
	require.NoError(t, err)
	assert.Equal(t, counts{ingest.Created: 80}, statuses(results))
	assert.Len(t, srv.Notes(), 80)
	for _, r := range results {
		require.NotNil(t, r.Note)
		assert.Equal(t, r.NoteID, r.Note.ID)
	}
	assert.EqualValues(t, 40, found.Load(), "notes that no response named")
}

func TestRun_ServiceDropsTheUpload_UploadsAgain(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(3))
	u.Journal = watched(u.Journal, func(e ingest.Entry) {
		if e.State == ingest.StateCommitting {
			assert.Equal(t, ingest.Entry{}, ingest.Entry{Until: e.Until, NoteID: e.NoteID, Why: e.Why, Loss: e.Loss},
				"nothing is left of the upload before")
		}
	})
	u.Find.Settle = 100 * time.Millisecond
	results := upload(t, u, recordings(0, 9))
	assert.Equal(t, counts{ingest.Created: 9}, statuses(results))
	assert.Len(t, srv.Notes(), 9)
}

func TestRun_BadRecording_OthersGoOn(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	dir := t.TempDir()
	empty := dir + "/empty.wav"
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	good := clinicaldoc.CreateNoteParams{Name: "a", PatientID: 1, Audio: clinicaldoc.AudioBytes("a.wav", sound(1))}
	withoutAudio, negative, unnamed := good, good, good
	withoutAudio.Audio = nil
	negative.PatientID = -1
	unnamed.Name = ""
	bad := []ingest.Recording{
		{File: dir + "/missing.wav", Params: paramsOf("a")},
		{File: empty, Params: paramsOf("a")},
		{File: dir, Params: paramsOf("a")},
		{Params: good}, // has no key
		{Key: "without audio", Params: withoutAudio},
		{Key: strings.Repeat("k", 1025), Params: good},
		{Key: "negative", Params: negative},
		{Key: "unnamed", Params: unnamed},
		{Key: "no hash", SHA256: strings.Repeat("A", 64), Params: good},
	}
	longest := recording(3)
	longest.Key = strings.Repeat("k", 1024)
	results := upload(t, u, ingest.Recordings(append(bad, recording(0), recording(1), longest)...))
	assert.Equal(t, counts{ingest.Created: 3, ingest.Refused: len(bad)}, statuses(results))
	for _, r := range results {
		if r.Status != ingest.Refused {
			continue
		}
		if r.Recording.Key == "unnamed" {
			require.ErrorIs(t, r.Err, clinicaldoc.ErrValidation)
			continue
		}
		require.ErrorIs(t, r.Err, clinicaldoc.ErrInvalidArgument)
		assert.Equal(t, r.Recording.Key == "no hash", strings.Contains(r.Err.Error(), "SHA256"), r.Err)
		assert.NotContains(t, r.Err.Error(), dir, "a path may hold a name")
		if strings.HasSuffix(r.Recording.File, "missing.wav") {
			require.ErrorIs(t, r.Err, fs.ErrNotExist)
		}
	}
	assert.Len(t, srv.Notes(), 3)
}

func TestRun_Refused_IsTriedInTheNextRun(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"synthetic"}`))
	why := ""
	u.Journal = watched(u.Journal, func(e ingest.Entry) { why = e.Why })
	refused := uploadOne(t, u, recording(0))
	require.ErrorIs(t, refused.Err, clinicaldoc.ErrValidation)
	assert.Equal(t, refused.Err.Error(), why, "the journal says it too")
	assert.Equal(t, ingest.Created, uploadOne(t, u, recording(0)).Status)
}

// A key of the caller's own does not change with the file.
func TestRun_FileChanges_IsRefused(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	path := files(t, 1)[0]
	keyed := ingest.Recording{Key: "one", File: path, Params: paramsOf(path)}
	require.Equal(t, ingest.Created, uploadOne(t, u, keyed).Status)
	require.NoError(t, os.WriteFile(path, sound(6), 0o600))
	changed := uploadOne(t, u, keyed)
	assert.Equal(t, ingest.Refused, changed.Status)
	require.ErrorIs(t, changed.Err, ingest.ErrKeyReused)
	assert.Len(t, srv.Notes(), 1)
}

// beforeUploads does something before each upload.
type beforeUploads func()

func (b beforeUploads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		b()
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (b beforeUploads) option() clinicaldoc.Option {
	return clinicaldoc.WithHTTPClient(&http.Client{Transport: b})
}

// A recorder may still be writing to the file. The bytes from which the key was computed are uploaded, or nothing is.
func TestRun_FileGrows_IsRefused(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	path := files(t, 1)[0]
	var grow sync.Once
	u.Client = srv.Client(beforeUploads(func() {
		grow.Do(func() { assert.NoError(t, os.WriteFile(path, sound(100), 0o600)) })
	}).option())
	for _, want := range []ingest.Status{ingest.Refused, ingest.Created, ingest.AlreadyThere} {
		results := upload(t, u, ingest.Files([]string{path}, paramsOf))
		require.Equal(t, counts{want: 1}, statuses(results), results)
		if want == ingest.Refused {
			require.ErrorContains(t, results[0].Err, "changed")
		}
	}
	assert.Len(t, srv.Notes(), 1)
}

func TestRun_KeyReused_IsRefused(t *testing.T) {
	t.Parallel()
	other := recording(0)
	other.Params.PatientID = 99
	for name, runs := range map[string][][]ingest.Recording{
		"in one run": {{recording(0), other}}, "in the next run": {{recording(0)}, {other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, u := newUploader(t)
			u.Workers = 1 // which begins them in turn
			var results []ingest.Result
			for _, list := range runs {
				results = append(results, upload(t, u, ingest.Recordings(list...))...)
			}
			assert.Equal(t, counts{ingest.Created: 1, ingest.Refused: 1}, statuses(results))
			for _, r := range results {
				isOther := r.Recording.Params.PatientID == 99
				assert.Equal(t, isOther, errors.Is(r.Err, ingest.ErrKeyReused), r)
			}
		})
	}
}

// Two systems may write the letters of one key in two ways, composed and decomposed.
func TestRun_KeyComposedAndDecomposed_IsOneRecording(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	for _, letter := range []string{"\u00fc", "u\u0308"} {
		r := recording(0)
		r.Key = "Z" + letter + "rich 1"
		uploadOne(t, u, r)
	}
	assert.Len(t, srv.Notes(), 1)
}

// A note that is there may have got another name since; the name identifies an unresolved one.
func TestRun_NameChanged_MattersOnlyWhileUnresolved(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	u.AllNew = true
	created, renamed := recording(0), recording(0)
	renamed.Params.Name = "Another visit"
	require.Equal(t, ingest.Created, uploadOne(t, u, created).Status)
	assert.Equal(t, ingest.AlreadyThere, uploadOne(t, u, renamed).Status)

	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(201, `{"id":77,"name":"Visit","created_at":`))
	uploadUntilUnresolved(t, u, recording(1))
	renamed = recording(1)
	renamed.Params.Name = "Another visit"
	unresolved := uploadOne(t, u, renamed)
	require.ErrorIs(t, unresolved.Err, ingest.ErrKeyReused)
	assert.Equal(t, ingest.InDoubt, unresolved.Status, "it may have a note")
	assert.False(t, unresolved.Until.IsZero())
	assert.Equal(t, int64(77), unresolved.NoteID, "which the response named")
}

// Two recordings with the same key come at the same time. The second one is refused, and does not get the first one's
// note.
func TestRun_KeyReusedAtTheSameTime_IsRefused(t *testing.T) {
	t.Parallel()
	patient, size := recording(0), recording(0)
	patient.Params.PatientID = 99
	size.Params.Audio = clinicaldoc.AudioBytes("a.wav", append(sound(0), "more"...))
	for name, other := range map[string]ingest.Recording{"another patient": patient, "another size": size} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			u.Workers = 2
			begun, othersCame := make(chan struct{}), make(chan struct{})
			first := recording(0)
			first.Params.BeforeCommit = func(context.Context) error { close(begun); <-othersCame; return nil }
			withoutAudio := ingest.Recording{Key: "nothing"}
			var results []ingest.Result
			for result, err := range u.Run(t.Context(), func(yield func(ingest.Recording, error) bool) {
				if yield(first, nil) {
					<-begun
					_ = yield(other, nil) && yield(recording(0), nil) && yield(withoutAudio, nil)
				}
			}) {
				require.NoError(t, err)
				results = append(results, result)
				if result.Recording.Key == withoutAudio.Key { // those before it have had their turn
					close(othersCame)
				}
			}
			assert.Equal(t, counts{ingest.Created: 1, ingest.AlreadyThere: 1, ingest.Refused: 2}, statuses(results))
			isReused := func(r ingest.Result) bool { return errors.Is(r.Err, ingest.ErrKeyReused) }
			assert.True(t, slices.ContainsFunc(results, isReused))
			assert.Len(t, srv.Notes(), 1)
		})
	}
}

func TestRun_EqualRecordings_ShareANote(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	u.Workers = 8
	results := upload(t, u, generated(40, func(int) ingest.Recording { return recording(1) }))
	assert.Equal(t, counts{ingest.Created: 1, ingest.AlreadyThere: 39}, statuses(results))
	for _, r := range results {
		assert.Equal(t, srv.Notes()[0].ID, r.NoteID)
	}
	assert.Len(t, srv.Notes(), 1)
}

// At most ten thousand equal recordings wait for the first one. Later ones are unresolved.
func TestRun_TooManyEqualRecordings_AreUnresolved(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		first := recording(1)
		first.Params.BeforeCommit = func(context.Context) error { time.Sleep(time.Minute); return nil }
		u.Workers = 2
		results := upload(t, u, generated(10_002, func(int) ingest.Recording { return first }))
		assert.Equal(t, counts{ingest.InDoubt: 1, ingest.Created: 1, ingest.AlreadyThere: 10_000}, statuses(results))
		require.ErrorIs(t, results[0].Err, ingest.ErrTaken)
	})
}

func TestRun_JournalOfAnotherService_IsRejected(t *testing.T) {
	t.Parallel()
	first, u := newUploader(t)
	second := newBox(t)
	upload(t, u, recordings(0, 2))
	_, err := collect(t.Context(), &ingest.Uploader{Client: second.Client(), Journal: u.Journal}, recordings(0, 2))
	require.ErrorIs(t, err, ingest.ErrOtherService)
	require.ErrorContains(t, err, ingest.ServiceName(first.URL))
	assert.Equal(t, counts{ingest.AlreadyThere: 2}, statuses(upload(t, u, recordings(0, 2))), "nothing has changed")
	assert.Empty(t, second.Notes())
}

func TestRun_InvalidUploader_IsRejected(t *testing.T) {
	t.Parallel()
	srv, valid := newUploader(t)
	client, journal := valid.Client, valid.Journal
	for name, u := range map[string]*ingest.Uploader{
		"no client":       {Journal: journal},
		"no journal":      {Client: client},
		"workers":         {Client: client, Journal: journal, Workers: -1},
		"many workers":    {Client: client, Journal: journal, Workers: 1025},
		"negative settle": {Client: client, Journal: journal, Find: clinicaldoc.FindCreatedParams{Settle: -1}},
		"another service": {
			Client: newBox(t).Client(), Journal: journal, Owner: ingest.Owner{Service: ingest.ServiceName(srv.URL)},
		},
	} {
		_, err := collect(t.Context(), u, recordings(0, 1))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
	}
	assert.Empty(t, srv.Notes())
	valid.Workers = 1024
	upload(t, valid, recordings(0, 1))
}

func TestRun_Break_Ends(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	u.Workers = 4
	for range u.Run(t.Context(), recordings(0, 1_000_000)) {
		break
	}
	made := len(srv.Notes())
	assert.LessOrEqual(t, made, 10)
	results := upload(t, u, recordings(0, 20))
	assert.Len(t, results, 20)
	assert.Len(t, srv.Notes(), 20)
}

// A break ends the uploads under way, and does not wait for them.
func TestRun_Break_EndsUploads(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		slow, begun := recording(1), time.Now()
		slow.Params.BeforeCommit = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for result := range u.Run(t.Context(), ingest.Recordings(slow, recording(0))) {
			assert.Equal(t, recording(0).Key, result.Recording.Key)
			break
		}
		assert.Less(t, time.Since(begun), time.Second)
		assert.Len(t, srv.Notes(), 1)
	})
}

func TestRun_Cancelled_ReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	u.Workers = 4
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("enough")
	taken := 0
	var failure error
	for result, err := range u.Run(ctx, recordings(0, 1_000_000)) {
		if err != nil {
			failure = err
			continue
		}
		taken++
		assert.NotZero(t, result.Status)
		cancel(cause)
	}
	require.ErrorIs(t, failure, context.Canceled)
	require.ErrorIs(t, failure, cause)
	assert.LessOrEqual(t, taken, 10, "only what was under way is still reported")
	_, err := collect(ctx, u, func(func(ingest.Recording, error) bool) { assert.Fail(t, "nothing is begun any more") })
	require.ErrorIs(t, err, cause)
}

// panicking is an audio source of the caller's that panics.
type panicking struct{}

func (panicking) ReadAt([]byte, int64) (int, error) { panic("synthetic") }

func TestRun_SourcePanics_PanicsInTheCaller(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	begun := time.Now()
	assert.PanicsWithValue(t, "synthetic", func() {
		_, _ = collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			bad := recording(0)
			bad.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", panicking{}, 10)
			for n := 1; yield(bad, nil); n++ {
				bad = recording(n)
			}
		})
	})
	assert.PanicsWithValue(t, "synthetic", func() {
		_, _ = collect(t.Context(), u, func(func(ingest.Recording, error) bool) { panic("synthetic") })
	})
	assert.Less(t, time.Since(begun), 15*time.Second, "nothing is waited for")
	result := uploadOne(t, u, recording(0))
	assert.Equal(t, ingest.Created, result.Status)
}

// ending is an audio source that ends the goroutine that reads it, as a failed test does.
type ending struct{}

func (ending) ReadAt([]byte, int64) (int, error) { runtime.Goexit(); return 0, nil }

// A recording whose source ends its goroutine is unresolved. The others are not affected.
func TestRun_SourceEndsItsGoroutine_OthersGoOn(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		// so that it is read to be compared
		addNote(srv, onePatient(0), sound(8))
		bad := onePatient(0)
		bad.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", ending{}, 10)
		u.Workers = 1
		results := upload(t, u, ingest.Recordings(bad, recording(1), recording(2)))
		require.Equal(t, counts{ingest.InDoubt: 1, ingest.Created: 2}, statuses(results))
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrOutcomeUnknown)
		require.ErrorContains(t, results[0].Err, "ended its goroutine")
	})
}

// token is a source of tokens.
type token func() string

func (s token) Token(context.Context) (string, error) { return s(), nil }

// A panic in the caller's code comes out of Run, where the caller can recover, and does not end the process. If
// that code ends its goroutine, Run ends too.
func TestRun_CallbackPanicsAnywhere_PanicsInTheCaller(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"token", "bind", "committing", "created", "release"} {
		run := func(strike func()) error {
			srv := newBox(t)
			client := srv.Client(quick())
			if place == "token" {
				var err error
				client, err = clinicaldoc.NewClient(srv.URL, "",
					clinicaldoc.WithTokenSource(token(func() string { strike(); return "" })))
				require.NoError(t, err)
			}
			strikeAt := func(reached string) {
				if reached == place {
					strike()
				}
			}
			journal := hooked{
				Journal: openJournal(t, srv.URL, journalPath(t)),
				bind:    func() error { strikeAt("bind"); return nil },
				save:    func(_ context.Context, e *ingest.Entry) error { strikeAt(e.State.String()); return nil },
				release: func(ingest.Key) { strikeAt("release") },
			}
			results, err := collect(t.Context(), &ingest.Uploader{Client: client, Journal: journal}, recordings(0, 1))
			for _, r := range results {
				err = errors.Join(err, r.Err)
			}
			return err
		}
		assert.PanicsWithValue(t, "synthetic", func() { _ = run(func() { panic("synthetic") }) }, place)
		require.ErrorContains(t, run(runtime.Goexit), "ended its goroutine", place)
	}
}

// The service made the note for another patient. The recording is unresolved, and is not uploaded once more.
func TestRun_NoteOfAnotherPatient_IsUnresolved(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(201, `{"data":{"id":4711,"name":"Encounter #1.","patient_id":99}}`))
		settled := time.Now().Add(10 * time.Minute)
		for range 2 {
			result := runProcess(t, srv, path, 3*time.Hour, recording(1))
			assert.Equal(t, ingest.InDoubt, result.Status, result)
			assert.Equal(t, int64(4711), result.NoteID)
			assert.WithinDuration(t, settled, result.Until, time.Minute)
			entries := readEntries(t, path)
			var loss map[string]any
			require.NoError(t, json.Unmarshal(entries[0].Loss, &loss))
			assert.Equal(t, entries[0].SHA256, loss["audio_sha256"])
			assert.Equal(t, entries[0].SentAt.UTC().Format(time.RFC3339Nano), loss["sent_at"])
		}
		assert.Equal(t, 1, attempts(srv))
	})
}

func TestRun_BeforeCommitFails_CreatesNoNote(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	r := recording(0)
	r.Params.BeforeCommit = func(context.Context) error { return io.ErrClosedPipe }
	result := uploadOne(t, u, r)
	assert.Equal(t, ingest.Refused, result.Status)
	require.ErrorIs(t, result.Err, io.ErrClosedPipe)
	assert.Empty(t, srv.Notes())
}

// attemptKey is of what a hook says of an attempt.
type attemptKey struct{}

// The caller's BeforeCommit and the journal get the context of the attempt, with the values that the client's hooks
// have added.
func TestRun_BeforeCommit_HasTheAttemptsContext(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	client := srv.Client(clinicaldoc.WithHooks(clinicaldoc.Hooks{
		AttemptStart: func(ctx context.Context, attempt clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
			return context.WithValue(ctx, attemptKey{}, attempt.Operation), clinicaldoc.TraceContext{}
		},
	}))
	seen := map[string]any{}
	journal := failing(openJournal(t, srv.URL, journalPath(t)), func(ctx context.Context, e ingest.Entry) error {
		if e.State == ingest.StateCommitting {
			seen["the journal"] = ctx.Value(attemptKey{})
		}
		return nil
	})
	r := recording(0)
	r.Params.BeforeCommit = func(ctx context.Context) error { seen["the caller"] = ctx.Value(attemptKey{}); return nil }
	upload(t, &ingest.Uploader{Client: client, Journal: journal, AllNew: true}, ingest.Recordings(r))
	assert.Equal(t, map[string]any{"the caller": "Notes.Create", "the journal": "Notes.Create"}, seen)
}

// The iterator may wait for the next recording, for example for a new file in a folder. Results are yielded meanwhile.
func TestRun_IteratorWaits_YieldsResults(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	ended := make(chan struct{})
	taken := 0
	for result, err := range u.Run(t.Context(), func(yield func(ingest.Recording, error) bool) {
		for n := range 3 {
			if !yield(recording(n), nil) {
				return
			}
			<-ended // its result is taken before the next is drawn
		}
	}) {
		require.NoError(t, err)
		assert.Equal(t, ingest.Created, result.Status)
		taken++
		ended <- struct{}{}
	}
	assert.Equal(t, 3, taken)
}

func TestRun_IteratorFails_ReturnsItsError(t *testing.T) {
	t.Parallel()
	errShare := errors.New("the share is gone: /patients/synthetic")
	for name, end := range map[string]func(yield func(ingest.Recording, error) bool){
		"an error": func(yield func(ingest.Recording, error) bool) {
			assert.False(t, yield(ingest.Recording{}, errShare))
		},
		"the end of its goroutine": func(func(ingest.Recording, error) bool) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, u := newUploader(t)
			results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
				_ = yield(recording(0), nil) && yield(recording(1), nil)
				end(yield)
			})
			require.ErrorContains(t, err, "the recordings ended early")
			assert.NotContains(t, err.Error(), "synthetic")
			assert.Equal(t, name == "an error", errors.Is(err, errShare))
			assert.Equal(t, counts{ingest.Created: 2}, statuses(results), "what was begun is finished")
		})
	}
}

func TestRun_TemporaryFailure_IsTriedAgain(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(401, `{"message":"Unauthenticated."}`).After(1).Times(6))
		var last ingest.Progress
		u.OnEvent = func(e ingest.Event) { last = e.Progress }
		u.Workers = 1
		results := upload(t, u, recordings(0, 2))
		assert.Equal(t, counts{ingest.Created: 2}, statuses(results),
			"what fails while nothing succeeds is not given up")
		assert.Equal(t, ingest.Progress{Total: 2, Created: 2, Elapsed: last.Elapsed}, last,
			"it is one recording, however often it is tried")
	})
}

// Two equal recordings come at the same time. The second one gets its result from the first one's upload, at its own
// position, but not the same *Note.
func TestRun_EqualRecordings_OnlyOneResultHasTheNote(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	u.Workers = 2
	u.AllNew = true
	secondWaits := make(chan struct{})
	first := recording(1)
	first.Params.BeforeCommit = func(context.Context) error { <-secondWaits; return nil }
	withoutAudio := ingest.Recording{Key: "nothing"}
	results := upload(t, u, func(yield func(ingest.Recording, error) bool) {
		_ = yield(first, nil) && yield(recording(1), nil) && yield(withoutAudio, nil)
		close(secondWaits) // the third one was drawn, so the worker of the second one is free
	})
	require.Equal(t, counts{ingest.Created: 1, ingest.AlreadyThere: 1, ingest.Refused: 1}, statuses(results), results)
	positions := map[int]string{}
	for _, r := range results {
		assert.Equal(t, r.Status == ingest.Created, r.Note != nil, r)
		positions[r.Position] = r.Recording.Key
	}
	assert.Equal(t, map[int]string{1: first.Key, 2: first.Key, 3: withoutAudio.Key}, positions)
}

func TestRunAll_Uploader_IsNotChanged(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	events := 0
	u.OnEvent = func(e ingest.Event) {
		if e.Result != nil {
			events++
		}
	}
	var report *ingest.Report
	for n := range 3 {
		report = u.RunAll(t.Context(), recordings(0, 1))
		require.True(t, report.OK())
		assert.Equal(t, n+1, events, "one event for each result")
	}
	u.OnEvent(ingest.Event{Pause: &ingest.Pause{Why: io.ErrClosedPipe}})
	assert.Empty(t, report.Pauses, "nothing of an earlier report listens any more")
}
