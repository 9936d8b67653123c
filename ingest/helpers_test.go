package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestMain(m *testing.M) {
	runIfLife()
	// the heap is small, so that the collector would run without end
	debug.SetGCPercent(400)
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait for disks, processes and time
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func newBox(t *testing.T, opts ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(opts...)
	t.Cleanup(srv.Close)
	return srv
}

// quick waits little between attempts.
func quick() clinicaldoc.Option {
	return clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: 1, MaxWait: 1})
}

// newUploader returns an uploader with a new journal, and its fake server.
func newUploader(t *testing.T, opts ...clinicaldoctest.Option) (*clinicaldoctest.Server, *ingest.Uploader) {
	t.Helper()
	srv := newBox(t, opts...)
	return srv, uploaderOn(t, srv)
}

// uploaderOn returns an uploader with a new journal.
func uploaderOn(t *testing.T, srv *clinicaldoctest.Server) *ingest.Uploader {
	t.Helper()
	return &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t))}
}

// openJournal opens the service's journal and begins it if there is none.
func openJournal(t *testing.T, baseURL, path string) *ingest.FileJournal {
	t.Helper()
	j, err := openOrBegin(t.Context(), baseURL, path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func openOrBegin(ctx context.Context, baseURL, path string) (*ingest.FileJournal, error) {
	j, err := ingest.OpenJournal(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return ingest.BeginJournal(ctx, path, ingest.Owner{Service: ingest.ServiceName(baseURL)})
	}
	return j, err
}

// inVirtualTime runs a test in virtual time, with a fake server and the path of a journal that does not exist yet.
func inVirtualTime(
	t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, path string), opts ...clinicaldoctest.Option,
) {
	t.Helper()
	path := journalPath(t)
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(append(opts, clinicaldoctest.InProcess())...)
		defer srv.Close()
		test(t, srv, path)
	})
}

// withJournal runs a test in virtual time, with a fake server and a new journal. It checks the entries of the journal
// afterwards.
func withJournal(
	t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal),
	opts ...clinicaldoctest.Option,
) {
	t.Helper()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		test(t, srv, journal)
		require.NoError(t, journal.Close())
		checkEntries(t, path)
	}, opts...)
}

// withUploader runs a test in virtual time, with a fake server and an uploader whose journal is new. It checks the
// entries of the journal afterwards.
func withUploader(
	t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader),
	opts ...clinicaldoctest.Option,
) {
	t.Helper()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		test(t, srv, &ingest.Uploader{Client: srv.Client(quick()), Journal: journal})
	}, opts...)
}

// handledBy lets a function handle each request. The function may pass it on to the service.
func handledBy(handle func(w http.ResponseWriter, r *http.Request, service http.Handler)) clinicaldoctest.Option {
	return clinicaldoctest.WithMiddleware(func(service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, service) })
	})
}

// replaced lets the service respond, and changes the body of the response.
func replaced(w http.ResponseWriter, r *http.Request, service http.Handler, change func(body []byte) []byte) {
	recorder := httptest.NewRecorder()
	service.ServeHTTP(recorder, r)
	maps.Copy(w.Header(), recorder.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(change(recorder.Body.Bytes()))
}

// checkEntries looks whether what a journal says of each recording fits together: nothing is left of the states before.
func checkEntries(t *testing.T, path string) {
	t.Helper()
	for _, e := range readEntries(t, path) {
		assert.WithinRange(t, e.At, e.SentAt, time.Now(), e)
		if e.State == ingest.StateCommitting && len(e.Loss) > 0 {
			assert.JSONEq(t, `{"user_unknown":true}`, string(e.Loss), e)
			continue
		}
		if e.State != ingest.StateInDoubt {
			assert.Empty(t, e.Loss, e)
			assert.Zero(t, e.Until, e)
		}
		assert.Equal(t, e.State == ingest.StateCreated, !e.NoteCreatedAt.IsZero(), e)
		isOpen := e.State == ingest.StateRefused || e.State == ingest.StateInDoubt
		assert.Equal(t, isOpen && e.By == "" || e.Stage == clinicaldoc.StageFailed, e.Why != "", e)
		if e.State == ingest.StateClaimed {
			continue
		}
		switch sent := !e.SentAt.IsZero(); e.State {
		case ingest.StateCreated:
			assert.Positive(t, e.NoteID, e)
			assert.True(t, e.SHA256 != "" || e.Found, "what was sent is known: %v", e)
			assert.True(t, sent, e)
			assert.True(t, e.Found || e.By == "", "no response named what a person found: %v", e)
		case ingest.StateInDoubt:
			assert.Equal(t, sent, !e.Until.IsZero(), e)
			assert.True(t, !sent || len(e.Loss) > 0, e)
		default:
			assert.Zero(t, e.NoteID, e)
		}
		if e.SentAt.IsZero() && len(e.Loss) > 0 { // it was not sent, but there are notes that it may have
			assert.NotEmpty(t, e.Candidates(), e)
			continue
		}
		for name, value := range lossOf(t, e) {
			assert.NotContains(t, []string{"params", "error"}, name, value)
			if name == "candidates" {
				assert.NotEmpty(t, value)
				continue
			}
			mayBeZero := slices.Contains([]string{"note_id", "user_id", "service"}, name)
			assert.True(t, value != 0.0 && value != "" || mayBeZero, "what is not known is left out: %s", name)
		}
	}
}

// lossOf is what an entry tells of a lost create.
func lossOf(t *testing.T, e ingest.Entry) (members map[string]any) {
	t.Helper()
	if len(e.Loss) > 0 {
		require.NoError(t, json.Unmarshal(e.Loss, &members))
		assert.NotEmpty(t, members["id"], "by which the client knows it")
		assert.Equal(t, e.SentAt.UTC().Format(time.RFC3339Nano), members["sent_at"])
	}
	if len(e.Loss) > 0 && e.SHA256 != "" {
		assert.Equal(t, e.SHA256, members["audio_sha256"])
	}
	return members
}

// openBound opens a journal, or begins it if there is none, and binds it to the synthetic service.
func openBound(t *testing.T, path string) *ingest.FileJournal {
	t.Helper()
	j := openJournal(t, service, path)
	bind(t, j, service)
	return j
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// readEntries returns the latest entry of each recording in a journal's file.
func readEntries(t *testing.T, path string) []ingest.Entry {
	t.Helper()
	_, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	return entries
}

func bind(t *testing.T, j *ingest.FileJournal, service string) {
	t.Helper()
	_, err := j.Bind(t.Context(), ingest.Owner{Service: service})
	assert.NoError(t, err)
}

func journalPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "uploads.journal")
}

// sound is a synthetic recording of its own content.
func sound(n int) []byte {
	return fmt.Appendf(nil, "RIFF synthetic recording %d %s", n, make([]byte, n%7))
}

// recordings are synthetic ones in memory, from the first number to before the last.
func recordings(first, last int) iter.Seq2[ingest.Recording, error] {
	return generated(last-first, func(n int) ingest.Recording { return recording(first + n) })
}

// generated yields that many recordings. Each one is made when it is asked for.
func generated(count int, recording func(n int) ingest.Recording) iter.Seq2[ingest.Recording, error] {
	return func(yield func(ingest.Recording, error) bool) {
		for n := range count {
			if !yield(recording(n), nil) {
				return
			}
		}
	}
}

func recording(n int) ingest.Recording {
	return ingest.Recording{
		Key: fmt.Sprintf("recording %d", n),
		Params: clinicaldoc.CreateNoteParams{
			Name: fmt.Sprintf("Encounter #%d.", n), PatientID: int64(1 + n%3), PromptID: 1,
			Audio: clinicaldoc.AudioBytes("a.wav", sound(n)),
		},
	}
}

// files writes recordings into a new folder.
func files(t *testing.T, count int) []string {
	t.Helper()
	dir := t.TempDir()
	paths := make([]string, count)
	for n := range paths {
		paths[n] = filepath.Join(dir, fmt.Sprintf("recording-%d.wav", n))
		require.NoError(t, os.WriteFile(paths[n], sound(n), 0o600))
	}
	return paths
}

func paramsOf(path string) clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{Name: filepath.Base(path), PatientID: 7, PromptID: 1}
}

// collect runs the uploader to its end. It returns all results, and the error of the run.
func collect(
	ctx context.Context, u *ingest.Uploader, recordings iter.Seq2[ingest.Recording, error],
) (results []ingest.Result, failure error) {
	for result, err := range u.Run(ctx, recordings) {
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// upload runs the uploader to its end, which must succeed.
func upload(t *testing.T, u *ingest.Uploader, recordings iter.Seq2[ingest.Recording, error]) []ingest.Result {
	t.Helper()
	results, err := collect(t.Context(), u, recordings)
	require.NoError(t, err)
	return results
}

func uploadOne(t *testing.T, u *ingest.Uploader, r ingest.Recording) ingest.Result {
	t.Helper()
	results := upload(t, u, ingest.Recordings(r))
	require.Len(t, results, 1)
	return results[0]
}

// uploadUntilUnresolved ends the run as soon as a recording is unresolved, before its note is searched for.
func uploadUntilUnresolved(t *testing.T, u *ingest.Uploader, r ingest.Recording) ingest.Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	journal := u.Journal
	u.Journal = hooked{Journal: journal, save: func(_ context.Context, e *ingest.Entry) error {
		if e.State == ingest.StateInDoubt {
			cancel()
		}
		return nil
	}}
	results, err := collect(ctx, u, ingest.Recordings(r))
	u.Journal = journal
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, results, 1)
	require.Equal(t, ingest.InDoubt, results[0].Status)
	return results[0]
}

// within returns a context that ends after a while, or with the test.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// counts is how many results have each status.
type counts = map[ingest.Status]int

func statuses(results []ingest.Result) counts {
	of := counts{}
	for _, r := range results {
		of[r.Status]++
	}
	return of
}

// requestsTo counts the requests to a route.
func requestsTo(srv *clinicaldoctest.Server, route string) (count int) {
	for _, r := range srv.Requests() {
		if r.Route == route {
			count++
		}
	}
	return count
}

func noteNames(srv *clinicaldoctest.Server) []string {
	var names []string
	for _, note := range srv.Notes() {
		names = append(names, note.Name)
	}
	slices.Sort(names)
	return names
}

// addNote adds a note with the recording's patient and name, and with this audio.
func addNote(srv *clinicaldoctest.Server, r ingest.Recording, audio []byte) int64 {
	return srv.AddNote(clinicaldoctest.Note{PatientID: r.Params.PatientID, Name: r.Params.Name, Audio: audio})
}

// hooked is a journal with hooks of a test. Nil hooks are skipped. An error of a hook replaces the journal's answer.
type hooked struct {
	ingest.Journal
	bind    func() error
	claim   func(context.Context, ingest.Key) error
	claimed func(ingest.Key)                                                                   // after Claim
	entries func(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) // in its place
	save    func(context.Context, *ingest.Entry) error
	release func(ingest.Key)
}

type hookedClaim struct {
	ingest.Claim
	journal hooked
	key     ingest.Key
}

func (j hooked) Bind(ctx context.Context, owner ingest.Owner) (ingest.Binding, error) {
	if j.bind != nil {
		if err := j.bind(); err != nil {
			return ingest.Binding{}, err
		}
	}
	return j.Journal.Bind(ctx, owner)
}

func (j hooked) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	if j.claim != nil {
		if err := j.claim(ctx, key); err != nil {
			return nil, err
		}
	}
	claim, err := j.Journal.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	if j.claimed != nil {
		j.claimed(key)
	}
	return hookedClaim{claim, j, key}, nil
}

func (j hooked) EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	if j.entries != nil {
		return j.entries(ctx, patient, since)
	}
	return j.Journal.EntriesForPatient(ctx, patient, since)
}

func (c hookedClaim) Save(ctx context.Context, e ingest.Entry) error {
	if c.journal.save != nil {
		if err := c.journal.save(ctx, &e); err != nil {
			return err
		}
	}
	return c.Claim.Save(ctx, e)
}

func (c hookedClaim) Release() {
	if c.journal.release != nil {
		c.journal.release(c.key)
	}
	c.Claim.Release()
}

// failing is a journal that does not save an entry if the function returns an error.
func failing(j ingest.Journal, fails func(context.Context, ingest.Entry) error) ingest.Journal {
	return hooked{Journal: j, save: func(ctx context.Context, e *ingest.Entry) error { return fails(ctx, *e) }}
}

// watched is a journal that passes each entry to the function before it is saved.
func watched(j ingest.Journal, saves func(ingest.Entry)) ingest.Journal {
	return failing(j, func(_ context.Context, e ingest.Entry) error { saves(e); return nil })
}

// unreadable is a journal that cannot return the entries of a patient.
func unreadable(j ingest.Journal, err error) ingest.Journal {
	return hooked{Journal: j, entries: func(context.Context, uint32, time.Time) ([]ingest.Entry, error) {
		return nil, err
	}}
}
