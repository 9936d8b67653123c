package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, v clinicaldoctest.Variant) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(v))
	t.Cleanup(srv.Close)
	return srv
}

func client(srv *clinicaldoctest.Server) *clinicaldoc.Client {
	return srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
}

func open(
	t *testing.T, srv *clinicaldoctest.Server, path string, params clinicaldoc.ListNotesParams,
) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Open(t.Context(), client(srv), path, params)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// runOnce returns the changes as words, and the error that ended the run.
func runOnce(ctx context.Context, s *snapshot.Snapshot) (changes []string, failed error) {
	for change, err := range s.Changes(ctx) {
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		changes = append(changes, fmt.Sprint(change.Event, " ", change.ID, " ", change.Stage))
		noteFits := change.Note != nil && change.Note.ID == change.ID
		if change.Event == snapshot.Gone {
			noteFits = change.Note == nil
		}
		if !noteFits {
			failed = errors.New("the note does not fit the event")
		}
	}
	return changes, failed
}

func requireChanges(t *testing.T, s *snapshot.Snapshot, want ...string) {
	t.Helper()
	changes, err := runOnce(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, want, changes)
}

func TestChanges_NotesChanged_YieldsNewChangedAndGone(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 5 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7})
	}
	s := open(t, srv, "", clinicaldoc.ListNotesParams{PerPage: 2, Sort: clinicaldoc.SortOldest})
	assert.False(t, s.Begun())
	requireChanges(t, s, "new 1 complete", "new 2 complete", "new 3 complete", "new 4 complete", "new 5 complete")
	assert.True(t, s.Begun())
	requireChanges(t, s)
	require.NoError(t, s.Save(), "in memory")

	_, err := client(srv).Notes.Update(t.Context(), 2, clinicaldoc.UpdateNoteParams{Analysis: new("another")})
	require.NoError(t, err)
	_, err = client(srv).Notes.Sign(t.Context(), 4)
	require.NoError(t, err)
	_, err = client(srv).Notes.Delete(t.Context(), 3)
	require.NoError(t, err)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageTranscribing, Stuck: true})
	requireChanges(t, s, "changed 2 complete", "changed 4 signed", "new 6 transcribing", "gone 3 complete")
	requireChanges(t, s)
}

func TestChanges_LoopBreaks_NextRunYieldsTheRest(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{})
	}
	s := open(t, srv, "", clinicaldoc.ListNotesParams{Sort: clinicaldoc.SortOldest})
	for change := range s.Changes(t.Context()) {
		if change.ID == 2 {
			break
		}
	}
	requireChanges(t, s, "new 2 complete", "new 3 complete")
	for _, id := range []int64{1, 2} {
		_, err := client(srv).Notes.Delete(t.Context(), id)
		require.NoError(t, err)
	}
	for range s.Changes(t.Context()) {
		break
	}
	requireChanges(t, s, "gone 1 complete", "gone 2 complete")
}

func TestChanges_IncompleteList_NothingIsGone(t *testing.T) {
	t.Parallel()
	t.Run("it fails", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t, clinicaldoctest.Variant{})
		for range 6 {
			srv.AddNote(clinicaldoctest.Note{})
		}
		s := open(t, srv, "", clinicaldoc.ListNotesParams{PerPage: 2, Sort: clinicaldoc.SortOldest})
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(503, "").After(1))
		changes, err := runOnce(t.Context(), s)
		require.ErrorIs(t, err, clinicaldoc.ErrServer)
		assert.Equal(t, []string{"new 1 complete", "new 2 complete"}, changes)
		requireChanges(t, s, "new 3 complete", "new 4 complete", "new 5 complete", "new 6 complete")
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(503, "").After(1))
		changes, err = runOnce(t.Context(), s)
		require.ErrorIs(t, err, clinicaldoc.ErrServer)
		assert.Empty(t, changes)
	})
	t.Run("it lacks a note that exists, and nothing shows it", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t, clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare})
		for range 6 {
			srv.AddNote(clinicaldoctest.Note{})
		}
		s := open(t, srv, "", clinicaldoc.ListNotesParams{PerPage: 2, Sort: clinicaldoc.SortOldest})
		_, err := runOnce(t.Context(), s)
		require.NoError(t, err)
		_, err = client(srv).Notes.Delete(t.Context(), 6)
		require.NoError(t, err)
		// Note 1 is deleted before the second page, which therefore begins one row too late.
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(1).After(1))
		requireChanges(t, s, "gone 6 complete")
		requireChanges(t, s, "gone 1 complete")
	})
	t.Run("the missing note cannot be read", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t, clinicaldoctest.Variant{})
		srv.AddNote(clinicaldoctest.Note{})
		s := open(t, srv, "", clinicaldoc.ListNotesParams{})
		requireChanges(t, s, "new 1 complete")
		_, err := client(srv).Notes.Delete(t.Context(), 1)
		require.NoError(t, err)
		srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(503, ""))
		changes, err := runOnce(t.Context(), s)
		require.ErrorIs(t, err, clinicaldoc.ErrServer)
		assert.Empty(t, changes)
		requireChanges(t, s, "gone 1 complete")
	})
}

func TestOpen_SavedFile_LaterProcessContinues(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 12 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "CANARY"})
	}
	path := filepath.Join(t.TempDir(), "notes.snapshot")
	params := clinicaldoc.ListNotesParams{PatientID: 7, Sort: clinicaldoc.SortOldest}
	s := open(t, srv, path, params)
	_, err := snapshot.Open(t.Context(), client(srv), path, params)
	require.ErrorIs(t, err, snapshot.ErrInUse)
	require.ErrorIs(t, err, clinicaldoc.ErrInUse)
	require.EqualError(t, err, "snapshot: the file is already open, in this process or in another one; "+
		"close it there, or try again later")
	assert.True(t, clinicaldoc.Retryable(err))
	changes, err := runOnce(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, changes, 12)
	for range 2 {
		require.NoError(t, s.Save())
	}
	_, err = snapshot.Open(t.Context(), client(srv), path, params)
	require.ErrorIs(t, err, snapshot.ErrInUse, "it is held through Save")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Save(), os.ErrClosed)
	_, err = client(srv).Notes.Delete(t.Context(), 5)
	require.NoError(t, err)

	s = open(t, srv, path, params)
	assert.True(t, s.Begun())
	requireChanges(t, s, "gone 5 complete")
	require.NoError(t, s.Close())
	s = open(t, srv, path, params)
	requireChanges(t, s, "gone 5 complete") // it was not saved
	require.NoError(t, s.Save())
	require.NoError(t, s.Close())
	requireChanges(t, open(t, srv, path, params))

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "CANARY")
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, names, 1, "nothing else is left behind")
}

func TestOpen_OtherOrDamagedFile_IsRejected(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 12 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7})
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "notes.snapshot")
	params := clinicaldoc.ListNotesParams{PatientID: 7}
	s := open(t, srv, path, params)
	_, err := runOnce(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, s.Save())
	require.NoError(t, s.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)

	other := newServer(t, clinicaldoctest.Variant{})
	asColleague := []clinicaldoc.CallOption{clinicaldoc.WithToken(srv.AddUser(clinicaldoctest.User{}).Token)}
	for name, test := range map[string]struct {
		srv    *clinicaldoctest.Server
		params clinicaldoc.ListNotesParams
		opts   []clinicaldoc.CallOption
		want   error
	}{
		"another patient": {srv, clinicaldoc.ListNotesParams{PatientID: 8}, nil, snapshot.ErrDamaged},
		"all patients":    {srv, clinicaldoc.ListNotesParams{}, nil, snapshot.ErrDamaged},
		"another user":    {srv, params, asColleague, snapshot.ErrOtherUser},
		"another service": {other, params, nil, snapshot.ErrOtherService},
	} {
		_, err := snapshot.Open(t.Context(), client(test.srv), path, test.params, test.opts...)
		require.ErrorIs(t, err, test.want, name)
	}
	part := filepath.Join(folder, "part")
	for size := 1; size < len(text)-1; size++ {
		require.NoError(t, os.WriteFile(part, text[:size], 0o600))
		_, err := snapshot.Open(t.Context(), client(srv), part, params)
		require.Error(t, err, "%d bytes of it", size)
		left, err := os.ReadFile(part)
		require.NoError(t, err)
		require.Len(t, left, size, "it is left as it is")
	}
	for name, content := range map[string]string{
		"another file":     "dear diary\n",
		"a later version":  strings.Replace(string(text), "snapshot 1", "snapshot 2", 1),
		"one line more":    strings.Replace(string(text), "\nend", "\n99 x complete\nend", 1),
		"a broken line":    strings.Replace(string(text), "\nend", "\n99 x\nend", 1),
		"an unknown stage": strings.Replace(string(text), "complete", "finished", 1),
		"a negative id":    strings.Replace(string(text), "\n1 ", "\n-1 ", 1),
	} {
		require.NoError(t, os.WriteFile(part, []byte(content), 0o600))
		_, err := snapshot.Open(t.Context(), client(srv), part, params)
		require.ErrorIs(t, err, snapshot.ErrDamaged, name)
	}
	require.NoError(t, os.Link(path, path+"2"))
	_, err = snapshot.Open(t.Context(), client(srv), path, params)
	require.Error(t, err, "it has a second name")
	require.NoError(t, os.Remove(path+"2"))
	if runtime.GOOS == "windows" {
		return // links need rights there
	}
	require.NoError(t, os.Symlink(path, path+"3"))
	_, err = snapshot.Open(t.Context(), client(srv), path+"3", params)
	require.Error(t, err, "a link")
}

func TestSave_FileWasMoved_Fails(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved there")
	}
	srv := newServer(t, clinicaldoctest.Variant{})
	path := filepath.Join(t.TempDir(), "notes.snapshot")
	s := open(t, srv, path, clinicaldoc.ListNotesParams{})
	require.NoError(t, os.Rename(path, path+".kept"))
	require.NoError(t, os.WriteFile(path, []byte("another's"), 0o600))
	require.Error(t, s.Save())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "another's", string(text))
}

// A folder's name may be a patient's, so no error of a file contains it.
func TestOpenAndSave_Failing_ErrorsContainNoPath(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	folder := filepath.Join(t.TempDir(), "CANARY")
	path := filepath.Join(folder, "notes.snapshot")
	_, err := snapshot.Open(t.Context(), client(srv), path, clinicaldoc.ListNotesParams{})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotContains(t, err.Error(), "CANARY")
	require.NoError(t, os.Mkdir(folder, 0o700))
	s := open(t, srv, path, clinicaldoc.ListNotesParams{})
	require.NoError(t, s.Save())
	next := filepath.Join(folder, ".notes.snapshot.clinicaldoc-snapshot")
	require.NoError(t, os.Mkdir(next, 0o700)) // in the way of the next file
	require.NoError(t, os.WriteFile(filepath.Join(next, "file"), nil, 0o600))
	err = s.Save()
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "CANARY")
}

// A service may set error_state without touching updated_at, and move a note to another patient.
func TestChanges_OnlyStageOrPatientChanges_YieldsIt(t *testing.T) {
	t.Parallel()
	const base = "https://api.clinic.test/v1/progress-notes"
	row := func(id int, patient, errorState string) string {
		return fmt.Sprintf(`{"id":%d,"name":"Visit",%s"error_state":%s,`+
			`"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`, id, patient, errorState)
	}
	const patient7, patient8, noPatient = `"patient":{"id":7},`, `"patient":{"id":8},`, ""
	transport := httpmock.NewMockTransport()
	list := func(rows ...string) {
		page := `{"data":[` + strings.Join(rows, ",") + `],"meta":{"current_page":1,"last_page":1}}`
		transport.RegisterResponder("GET", base+"?patient_id=7", httpmock.NewStringResponder(200, page))
	}
	get := func(path, note string) {
		transport.RegisterResponder("GET", base+path, httpmock.NewStringResponder(200, note))
	}
	c, err := clinicaldoc.NewClient("https://api.clinic.test", "synthetic-token",
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}))
	require.NoError(t, err)
	s, err := snapshot.Open(t.Context(), c, "", clinicaldoc.ListNotesParams{PatientID: 7})
	require.NoError(t, err)
	list(row(1, patient7, "null"), row(2, patient7, "null"))
	requireChanges(t, s, "new 1 uploaded", "new 2 uploaded")
	list(row(2, patient7, `"synthetic failure"`))
	get("/1", row(1, patient8, "null"))
	requireChanges(t, s, "changed 2 failed", "gone 1 uploaded")
	list()
	get("/2", row(2, noPatient, "null"))
	requireChanges(t, s) // it does not name another patient
}

func TestChanges_ContextEnded_Fails(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	srv.AddNote(clinicaldoctest.Note{})
	s := open(t, srv, "", clinicaldoc.ListNotesParams{})
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	_, err := runOnce(ctx, s)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = snapshot.Open(ctx, client(srv), filepath.Join(t.TempDir(), "s"), clinicaldoc.ListNotesParams{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A header that selects a tenant is sent with every call, even if the caller has changed its slice of options since.
func TestOpen_CallOptions_ApplyToEveryCall(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	srv.AddNote(clinicaldoctest.Note{})
	opts := []clinicaldoc.CallOption{clinicaldoc.WithHeader("X-Tenant", "synthetic")}
	path := filepath.Join(t.TempDir(), "notes.snapshot")
	s, err := snapshot.Open(t.Context(), client(srv), path, clinicaldoc.ListNotesParams{}, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	opts[0] = clinicaldoc.WithHeader("X-Tenant", "another")
	requireChanges(t, s, "new 1 complete")
	before := len(srv.Requests())
	_, err = client(srv).Notes.Delete(t.Context(), 1)
	require.NoError(t, err)
	requireChanges(t, s, "gone 1 complete")
	routes := map[string]bool{}
	for n, request := range srv.Requests() {
		if n == before {
			continue // the delete
		}
		routes[request.Route] = true
		assert.Equal(t, "synthetic", request.Header.Get("X-Tenant"), request.Route)
	}
	assert.Equal(t, map[string]bool{
		clinicaldoctest.RouteMe: true, clinicaldoctest.RouteListNotes: true, clinicaldoctest.RouteGetNote: true,
	}, routes)
}

// A run that did not reach its end does not count, because it may not have yielded all notes.
func TestBegun_RunNotFinished_IsFalse(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 2 {
		srv.AddNote(clinicaldoctest.Note{})
	}
	s := open(t, srv, "", clinicaldoc.ListNotesParams{})
	for range s.Changes(t.Context()) {
		break
	}
	assert.False(t, s.Begun())
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(503, ""))
	_, err := runOnce(t.Context(), s)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	assert.False(t, s.Begun())
}

// The next process continues after the notes that were seen.
func TestBegun_IncompleteRunSaved_IsTrueForTheNextProcess(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{})
	}
	path := filepath.Join(t.TempDir(), "notes.snapshot")
	first, err := snapshot.Open(t.Context(), client(srv), path, clinicaldoc.ListNotesParams{})
	require.NoError(t, err)
	seen := 0
	for range first.Changes(t.Context()) {
		if seen++; seen == 2 {
			break
		}
	}
	require.NoError(t, first.Save())
	assert.False(t, first.Begun())
	require.NoError(t, first.Close())
	second := open(t, srv, path, clinicaldoc.ListNotesParams{})
	assert.True(t, second.Begun())
	changes, err := runOnce(t.Context(), second)
	require.NoError(t, err)
	assert.Len(t, changes, 2)
}

// A service is the same one however its base URL is written.
func TestOpen_BaseURLSpelledDifferently_Continues(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	srv.AddNote(clinicaldoctest.Note{})
	path := filepath.Join(t.TempDir(), "notes.snapshot")
	for i, url := range []string{srv.URL, srv.URL + "/", strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)} {
		c, err := clinicaldoc.NewClient(url, srv.Token)
		require.NoError(t, err)
		s, err := snapshot.Open(t.Context(), c, path, clinicaldoc.ListNotesParams{})
		require.NoError(t, err, url)
		changes, err := runOnce(t.Context(), s)
		require.NoError(t, err)
		assert.Equal(t, i == 0, len(changes) == 1, url)
		require.NoError(t, s.Save())
		require.NoError(t, s.Close())
	}
}

// If the audit function fails, the run ends. The next run yields the notes that were withheld.
func TestChanges_AuditFails_NextRunYieldsTheRest(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.Variant{})
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{Stuck: true})
	}
	reports := 0
	audited := srv.Client(clinicaldoc.WithAudit(func(context.Context, clinicaldoc.Access) error {
		reports++
		if reports == 2 {
			return errors.New("synthetic failure of the audit")
		}
		return nil
	}))
	s, err := snapshot.Open(t.Context(), audited, "", clinicaldoc.ListNotesParams{})
	require.NoError(t, err)
	changes, err := runOnce(t.Context(), s)
	require.ErrorIs(t, err, clinicaldoc.ErrNotAudited)
	assert.Len(t, changes, 1)
	assert.False(t, s.Begun())
	changes, err = runOnce(t.Context(), s)
	require.NoError(t, err)
	assert.Len(t, changes, 2)
}

// A file of an earlier version does not contain a fingerprint of the client's headers.
func TestOpen_FileWithoutHeaders_Continues(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{})
	path := filepath.Join(t.TempDir(), "seen")
	countChanges := func() (changes int) {
		seen, err := snapshot.Open(t.Context(), srv.Client(), path, clinicaldoc.ListNotesParams{})
		require.NoError(t, err)
		for _, err := range seen.Changes(t.Context()) {
			require.NoError(t, err)
			changes++
		}
		require.NoError(t, seen.Save())
		require.NoError(t, seen.Close())
		return changes
	}
	require.Equal(t, 1, countChanges(), id)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before := strings.Replace(string(text), " headers=none", "", 1)
	require.NotEqual(t, string(text), before)
	require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
	assert.Zero(t, countChanges())
}
