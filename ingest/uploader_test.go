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
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		u, begun := &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 8}, time.Now()
		results, err := collect(t.Context(), u, recordings(0, 50))
		require.NoError(t, err)
		require.NoError(t, journal.Close())
		took := time.Since(begun)
		assert.Equal(t, map[ingest.Status]int{want: 50}, statuses(results), "run %d", run)
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
	srv, path := newBox(t), journalPath(t)
	paths := files(t, 3)
	paths = append(paths, paths[0], paths[0]+"-copy.wav", paths[0]+"-missing.wav")
	require.NoError(t, os.WriteFile(paths[4], sound(0), 0o600))
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, path), Workers: 2}
	results, err := collect(t.Context(), u, ingest.Files(paths, paramsOf))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 4, ingest.AlreadyThere: 1, ingest.Refused: 1},
		statuses(results))
	assert.Len(t, srv.Notes(), 4, "another name is another recording, the same file is not")

	// Systems spell the same name in different ways.
	composed, err := ingest.FileKey(paths[0], clinicaldoc.CreateNoteParams{Name: "Visite \u00e0 domicile"})
	require.NoError(t, err)
	decomposed, err := ingest.FileKey(paths[0], clinicaldoc.CreateNoteParams{Name: "Visite a\u0300 domicile"})
	require.NoError(t, err)
	assert.Equal(t, composed, decomposed)

	// The same content and name for another patient is another recording.
	results, err = collect(t.Context(), u, ingest.Files(paths[:1], func(path string) clinicaldoc.CreateNoteParams {
		params := paramsOf(path)
		params.PatientID = 8
		return params
	}))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(results))
}

func TestRun_LostResponse_UploadsOnce(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Every(2))
	path := journalPath(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // not even one waits for Settle
	defer cancel()
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, path), Workers: 1}
	results, err := collect(ctx, u, recordings(0, 80))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 80}, statuses(results))
	assert.Len(t, srv.Notes(), 80)
	for _, r := range results {
		require.NotNil(t, r.Note)
		assert.Equal(t, r.NoteID, r.Note.ID)
	}
	_, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	assert.Len(t, slices.DeleteFunc(entries, func(e ingest.Entry) bool { return !e.Found }), 40,
		"no response named these")
}

func TestRun_ServiceDropsTheUpload_UploadsAgain(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(3))
	journal := watched{openJournal(t, srv.URL, journalPath(t)), func(e ingest.Entry) {
		if e.State == ingest.StateCommitting {
			assert.Equal(t, ingest.Entry{}, ingest.Entry{Until: e.Until, NoteID: e.NoteID, Why: e.Why, Loss: e.Loss},
				"nothing is left of the upload before")
		}
	}}
	u := &ingest.Uploader{
		Client: srv.Client(quick()), Journal: journal,
		Find: clinicaldoc.FindCreatedParams{Settle: 100 * time.Millisecond},
	}
	results, err := collect(t.Context(), u, recordings(0, 9))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 9}, statuses(results))
	assert.Len(t, srv.Notes(), 9)
}

func TestRun_BadRecording_OthersGoOn(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	dir := t.TempDir()
	empty := dir + "/empty.wav"
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	audio := clinicaldoc.AudioBytes("a.wav", sound(1))
	bad := []ingest.Recording{
		{File: dir + "/missing.wav", Params: paramsOf("a")},
		{File: empty, Params: paramsOf("a")},
		{File: dir, Params: paramsOf("a")},
		{Params: clinicaldoc.CreateNoteParams{Name: "without a key", PatientID: 1, Audio: audio}},
		{Key: "without audio", Params: clinicaldoc.CreateNoteParams{Name: "a", PatientID: 1}},
		{Key: strings.Repeat("k", 1025), Params: clinicaldoc.CreateNoteParams{Name: "a", PatientID: 1, Audio: audio}},
		{Key: "negative", Params: clinicaldoc.CreateNoteParams{Name: "a", PatientID: -1, Audio: audio}},
		{Key: "unnamed", Params: clinicaldoc.CreateNoteParams{PatientID: 1, Audio: audio}},
		{
			Key: "no hash", SHA256: strings.Repeat("A", 64),
			Params: clinicaldoc.CreateNoteParams{Name: "a", PatientID: 1, Audio: audio},
		},
	}
	longest := recording(3)
	longest.Key = strings.Repeat("k", 1024)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
	results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
		for _, r := range bad {
			if !yield(r, nil) {
				return
			}
		}
		_ = yield(recording(0), nil) && yield(recording(1), nil) && yield(longest, nil)
	})
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 3, ingest.Refused: len(bad)}, statuses(results))
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
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"synthetic"}`))
	why := ""
	journal := watched{openJournal(t, srv.URL, journalPath(t)), func(e ingest.Entry) { why = e.Why }}
	u := &ingest.Uploader{Client: srv.Client(), Journal: journal}
	results, err := collect(t.Context(), u, recordings(0, 1))
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, clinicaldoc.ErrValidation)
	assert.Equal(t, results[0].Err.Error(), why, "the journal says it too")
	results, err = collect(t.Context(), u, recordings(0, 1))
	require.NoError(t, err)
	assert.Equal(t, ingest.Created, results[0].Status)
}

func TestRun_FileChanges_IsRefused(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	path := files(t, 1)[0]
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
	params := paramsOf(path)
	params.BeforeCommit = func(context.Context) error { return nil }
	keyed := ingest.Recording{Key: "one", File: path, Params: params}
	results, err := collect(t.Context(), u, ingest.Recordings(keyed))
	require.NoError(t, err)
	require.Equal(t, ingest.Created, results[0].Status)

	// A key of the caller's own does not change with the file.
	require.NoError(t, os.WriteFile(path, sound(6), 0o600))
	results, err = collect(t.Context(), u, ingest.Recordings(keyed))
	require.NoError(t, err)
	assert.Equal(t, ingest.Refused, results[0].Status)
	require.ErrorIs(t, results[0].Err, ingest.ErrKeyReused)
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

// A recorder may still be writing: what is uploaded is what the key was made of, or nothing is.
func TestRun_FileGrows_IsRefused(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	path := files(t, 1)[0]
	var grow sync.Once
	client := srv.Client(beforeUploads(func() {
		grow.Do(func() { assert.NoError(t, os.WriteFile(path, sound(100), 0o600)) })
	}).option())
	u := &ingest.Uploader{Client: client, Journal: openJournal(t, srv.URL, journalPath(t))}
	for _, want := range []ingest.Status{ingest.Refused, ingest.Created, ingest.AlreadyThere} {
		results, err := collect(t.Context(), u, ingest.Files([]string{path}, paramsOf))
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.Equal(t, want, results[0].Status, results[0])
		if want == ingest.Refused {
			assert.Contains(t, results[0].Err.Error(), "changed")
		}
	}
	assert.Len(t, srv.Notes(), 1)
}

func TestRun_KeyReused_IsRefused(t *testing.T) {
	t.Parallel()
	other := recording(0)
	other.Params.PatientID = 99
	for _, inOneRun := range []bool{true, false} {
		srv := newBox(t)
		// which begins them in turn
		u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 1}
		list := []ingest.Recording{recording(0), other}
		var results []ingest.Result
		for len(list) > 0 {
			n := 1
			if inOneRun {
				n = len(list)
			}
			some, err := collect(t.Context(), u, ingest.Recordings(list[:n]...))
			require.NoError(t, err)
			results, list = append(results, some...), list[n:]
		}
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1, ingest.Refused: 1}, statuses(results))
		for _, r := range results {
			assert.Equal(t, r.Status == ingest.Refused, errors.Is(r.Err, ingest.ErrKeyReused))
			assert.Equal(t, r.Status == ingest.Refused, r.Recording.Params.PatientID == 99)
		}
	}
}

// Two systems may write the letters of one key in two ways, composed and decomposed.
func TestRun_KeyComposedAndDecomposed_IsOneRecording(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
	for _, letter := range []string{"\u00fc", "u\u0308"} {
		r := recording(0)
		r.Key = "Z" + letter + "rich 1"
		_, err := collect(t.Context(), u, ingest.Recordings(r))
		require.NoError(t, err)
	}
	assert.Len(t, srv.Notes(), 1)
}

// A note that is there may have got another name since; the name identifies an unresolved one.
func TestRun_NameChanged_MattersOnlyWhileUnresolved(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), AllNew: true}
	run := func(ctx context.Context, n int, name string) ingest.Result {
		r := recording(n)
		r.Params.Name = name
		results, _ := collect(ctx, u, ingest.Recordings(r))
		require.Len(t, results, 1)
		return results[0]
	}
	require.Equal(t, ingest.Created, run(t.Context(), 0, "Visit").Status)
	assert.Equal(t, ingest.AlreadyThere, run(t.Context(), 0, "Another visit").Status)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(201, `{"id":77,"name":"Visit","created_at":`))
	ctx, cancel := context.WithCancel(t.Context())
	u.OnEvent = func(e ingest.Event) {
		if e.State == ingest.StateInDoubt {
			cancel()
		}
	}
	require.Equal(t, ingest.InDoubt, run(ctx, 1, "Visit").Status)
	renamed := run(t.Context(), 1, "Another visit")
	require.ErrorIs(t, renamed.Err, ingest.ErrKeyReused)
	assert.Equal(t, ingest.InDoubt, renamed.Status, "it may have a note")
	assert.False(t, renamed.Until.IsZero())
	assert.Equal(t, int64(77), renamed.NoteID, "which the response named")
}

// Two recordings with the same key come at the same time. The second one is refused, and does not get the first one's
// note.
func TestRun_KeyReusedAtTheSameTime_IsRefused(t *testing.T) {
	t.Parallel()
	patient, size := recording(0), recording(0)
	patient.Params.PatientID = 99
	size.Params.Audio = clinicaldoc.AudioBytes("a.wav", append(sound(0), "more"...))
	for _, other := range []ingest.Recording{patient, size} {
		srv := newBox(t)
		u := &ingest.Uploader{
			Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 2, AllNew: true,
		}
		first, begun, second := recording(0), make(chan struct{}), make(chan struct{})
		first.Params.BeforeCommit = func(context.Context) error { close(begun); <-second; return nil }
		var results []ingest.Result
		reused := 0
		for result, err := range u.Run(t.Context(), func(yield func(ingest.Recording, error) bool) {
			if yield(first, nil) {
				<-begun
				_ = yield(other, nil) && yield(recording(0), nil) && yield(ingest.Recording{Key: "next"}, nil)
			}
		}) {
			require.NoError(t, err)
			if result.Recording.Key == "next" { // the turn of those before is over
				close(second)
			}
			results = append(results, result)
			if errors.Is(result.Err, ingest.ErrKeyReused) {
				reused++
			}
		}
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1, ingest.AlreadyThere: 1, ingest.Refused: 2},
			statuses(results), results)
		assert.Equal(t, 1, reused)
		assert.Len(t, srv.Notes(), 1)
	}
}

func TestRun_EqualRecordings_ShareANote(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 8}
	results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
		for range 40 {
			if !yield(recording(1), nil) {
				return
			}
		}
	})
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 1, ingest.AlreadyThere: 39}, statuses(results))
	for _, r := range results {
		assert.Equal(t, srv.Notes()[0].ID, r.NoteID)
	}
	assert.Len(t, srv.Notes(), 1)
}

// At most ten thousand equal recordings wait for the first one. Later ones are unresolved.
func TestRun_TooManyEqualRecordings_AreUnresolved(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		first := recording(1)
		first.Params.BeforeCommit = func(context.Context) error { time.Sleep(time.Minute); return nil }
		results, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 2, AllNew: true}, func(yield func(ingest.Recording, error) bool) {
			for range 10_002 {
				if !yield(first, nil) {
					return
				}
			}
		})
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1, ingest.Created: 1, ingest.AlreadyThere: 10_000},
			statuses(results))
		require.ErrorIs(t, results[0].Err, ingest.ErrTaken)
	})
}

func TestRun_JournalOfAnotherService_IsRejected(t *testing.T) {
	t.Parallel()
	first, second, path := newBox(t), newBox(t), journalPath(t)
	journal := openJournal(t, first.URL, path)
	_, err := collect(t.Context(), &ingest.Uploader{Client: first.Client(), Journal: journal}, recordings(0, 2))
	require.NoError(t, err)
	_, err = collect(t.Context(), &ingest.Uploader{Client: second.Client(), Journal: journal}, recordings(0, 2))
	require.ErrorIs(t, err, ingest.ErrOtherService)
	assert.Contains(t, err.Error(), ingest.ServiceName(first.URL))
	results, err := collect(t.Context(), &ingest.Uploader{Client: first.Client(), Journal: journal}, recordings(0, 2))
	require.NoError(t, err, "a refusal changes nothing")
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 2}, statuses(results))
	assert.Empty(t, second.Notes())
}

func TestRun_InvalidUploader_IsRejected(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	journal := openJournal(t, srv.URL, journalPath(t))
	for name, u := range map[string]*ingest.Uploader{
		"no client":       {Journal: journal},
		"no journal":      {Client: srv.Client()},
		"workers":         {Client: srv.Client(), Journal: journal, Workers: -1},
		"many workers":    {Client: srv.Client(), Journal: journal, Workers: 1025},
		"negative settle": {Client: srv.Client(), Journal: journal, Find: clinicaldoc.FindCreatedParams{Settle: -1}},
		"another service": {
			Client: newBox(t).Client(), Journal: journal, Owner: ingest.Owner{Service: ingest.ServiceName(srv.URL)},
		},
	} {
		_, err := collect(t.Context(), u, recordings(0, 1))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
	}
	assert.Empty(t, srv.Notes())
	_, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 1024},
		recordings(0, 1))
	require.NoError(t, err)
}

func TestRun_Break_Ends(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 4}
	for range u.Run(t.Context(), recordings(0, 1_000_000)) {
		break
	}
	made := len(srv.Notes())
	assert.LessOrEqual(t, made, 10)
	results, err := collect(t.Context(), u, recordings(0, 20))
	require.NoError(t, err)
	assert.Len(t, results, 20)
	assert.Len(t, srv.Notes(), 20)
}

// A break ends the uploads under way, and does not wait for them.
func TestRun_Break_EndsUploads(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 2, AllNew: true}
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
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 4}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("enough")
	taken := 0
	var failure error
	for result, err := range u.Run(ctx, recordings(0, 1_000_000)) {
		if failure = err; err == nil {
			taken++
			assert.NotZero(t, result.Status)
			cancel(cause)
		}
	}
	require.ErrorIs(t, failure, context.Canceled)
	require.ErrorIs(t, failure, cause)
	assert.LessOrEqual(t, taken, 10)
	_, err := collect(ctx, u, func(func(ingest.Recording, error) bool) { assert.Fail(t, "nothing is begun any more") })
	require.ErrorIs(t, err, cause)
}

// panicking is an audio source of the caller's that panics.
type panicking struct{}

func (panicking) ReadAt([]byte, int64) (int, error) { panic("synthetic") }

func TestRun_SourcePanics_PanicsInTheCaller(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
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
	results, err := collect(t.Context(), u, recordings(0, 1))
	require.NoError(t, err)
	assert.Equal(t, ingest.Created, results[0].Status)
}

// ending is an audio source that ends the goroutine that reads it, as a failed test does.
type ending struct{}

func (ending) ReadAt([]byte, int64) (int, error) { runtime.Goexit(); return 0, nil }

// A recording whose source ends its goroutine is unresolved. The others are not affected.
func TestRun_SourceEndsItsGoroutine_OthersGoOn(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		// so that it is read to be compared
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(0).Params.Name, Audio: sound(8)})
		bad := onePatient(0)
		bad.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", ending{}, 10)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		results, err := collect(t.Context(), u, ingest.Recordings(bad, recording(1), recording(2)))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1, ingest.Created: 2}, statuses(results))
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrOutcomeUnknown)
		require.ErrorContains(t, results[0].Err, "ended its goroutine")
	})
}

// unruly is a journal of the caller's whose own mistake strikes at one place.
type unruly struct {
	ingest.Journal
	at     string
	strike func()
}

func (j unruly) strikeAt(place string) {
	if j.at == place {
		j.strike()
	}
}

func (j unruly) Bind(ctx context.Context, owner ingest.Owner) (ingest.Binding, error) {
	j.strikeAt("bind")
	return j.Journal.Bind(ctx, owner)
}

func (j unruly) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	return unrulyClaim{claim, j}, err
}

type unrulyClaim struct {
	ingest.Claim
	journal unruly
}

func (c unrulyClaim) Save(ctx context.Context, e ingest.Entry) error {
	c.journal.strikeAt(e.State.String())
	return c.Claim.Save(ctx, e)
}

func (c unrulyClaim) Release() {
	c.journal.strikeAt("release")
	c.Claim.Release()
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
			journal := unruly{openJournal(t, srv.URL, journalPath(t)), place, strike}
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
		for range 2 { // of two processes
			journal, err := openOrBegin(t.Context(), srv.URL, path)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
			results, _ := collect(ctx, &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true},
				ingest.Recordings(recording(1)))
			cancel()
			require.NoError(t, journal.Close())
			require.Len(t, results, 1)
			assert.Equal(t, ingest.InDoubt, results[0].Status, results[0])
			assert.Equal(t, int64(4711), results[0].NoteID)
			assert.WithinDuration(t, settled, results[0].Until, time.Minute)
			_, entries, err := ingest.ReadJournal(t.Context(), path)
			require.NoError(t, err)
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
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
	r := recording(0)
	r.Params.BeforeCommit = func(context.Context) error { return io.ErrClosedPipe }
	results, err := collect(t.Context(), u, ingest.Recordings(r))
	require.NoError(t, err)
	assert.Equal(t, ingest.Refused, results[0].Status)
	require.ErrorIs(t, results[0].Err, io.ErrClosedPipe)
	assert.Empty(t, srv.Notes())
}

// attemptKey is of what a hook says of an attempt.
type attemptKey struct{}

// A commit is a part of its attempt: the caller's BeforeCommit and the journal see what the client's hooks know of
// that.
func TestRun_BeforeCommit_HasTheAttemptsContext(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	client := srv.Client(clinicaldoc.WithHooks(clinicaldoc.Hooks{
		AttemptStart: func(ctx context.Context, attempt clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
			return context.WithValue(ctx, attemptKey{}, attempt.Operation), clinicaldoc.TraceContext{}
		},
	}))
	seen := map[string]any{}
	journal := failing{openJournal(t, srv.URL, journalPath(t)), func(ctx context.Context, e ingest.Entry) error {
		if e.State == ingest.StateCommitting {
			seen["the journal"] = ctx.Value(attemptKey{})
		}
		return nil
	}}
	r := recording(0)
	r.Params.BeforeCommit = func(ctx context.Context) error { seen["the caller"] = ctx.Value(attemptKey{}); return nil }
	_, err := collect(t.Context(), &ingest.Uploader{Client: client, Journal: journal, AllNew: true},
		ingest.Recordings(r))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"the caller": "Notes.Create", "the journal": "Notes.Create"}, seen)
}

// An iterator may wait for what comes next, as for files that appear in a folder.
func TestRun_IteratorWaits_YieldsResults(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
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
			srv := newBox(t)
			u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t))}
			results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
				_ = yield(recording(0), nil) && yield(recording(1), nil)
				end(yield)
			})
			require.ErrorContains(t, err, "the recordings ended early")
			assert.NotContains(t, err.Error(), "synthetic")
			assert.Equal(t, name == "an error", errors.Is(err, errShare))
			assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results), "what was begun is finished")
		})
	}
}

func TestRun_TemporaryFailure_IsTriedAgain(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(401, `{"message":"Unauthenticated."}`).After(1).Times(6))
		var last ingest.Progress
		u := &ingest.Uploader{
			Client: srv.Client(), Journal: journal, Workers: 1, OnEvent: func(e ingest.Event) { last = e.Progress },
		}
		results, err := collect(t.Context(), u, recordings(0, 2))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results),
			"what fails while nothing succeeds is not given up")
		assert.Equal(t, ingest.Progress{Total: 2, Created: 2, Elapsed: last.Elapsed}, last,
			"it is one recording, however often it is tried")
	})
}

// A recording that comes again while the first one is uploaded gets its result from that one, but not the same *Note.
func TestRun_EqualRecordings_OnlyOneResultHasTheNote(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	journal := openJournal(t, srv.URL, journalPath(t))
	u := &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 2, AllNew: true}
	secondWaits := make(chan struct{})
	first := recording(1)
	first.Params.BeforeCommit = func(context.Context) error { <-secondWaits; return nil }
	second := recording(1)
	withoutAudio := ingest.Recording{Key: "nothing"}
	results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
		for _, r := range []ingest.Recording{first, second, withoutAudio} {
			if !yield(r, nil) {
				return
			}
		}
		close(secondWaits) // the third one was drawn, so the worker of the second one is free
	})
	require.NoError(t, err)
	count := map[ingest.Status]int{ingest.Created: 1, ingest.AlreadyThere: 1, ingest.Refused: 1}
	require.Equal(t, count, statuses(results), results)
	for _, r := range results {
		assert.Equal(t, r.Status == ingest.Created, r.Note != nil, r)
	}
}

func TestRunAll_Uploader_IsNotChanged(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	events := 0
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), OnEvent: func(e ingest.Event) {
		if e.Result != nil {
			events++
		}
	}}
	var report *ingest.Report
	for n := range 3 {
		report = u.RunAll(t.Context(), recordings(0, 1))
		require.True(t, report.OK())
		assert.Equal(t, n+1, events, "each is told once, however often it is run")
	}
	u.OnEvent(ingest.Event{Pause: &ingest.Pause{Why: io.ErrClosedPipe}})
	assert.Empty(t, report.Pauses, "nothing of an earlier report listens any more")
}
