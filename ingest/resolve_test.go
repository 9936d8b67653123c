package ingest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// doubtful is a recording whose response was lost, with another note of the same patient, on a service that changes
// recordings. No run can decide it.
func doubtful(t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, run func() ingest.Result, resolve func(ingest.Key, ingest.Resolution) error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(),
			clinicaldoctest.WithVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded}))
		defer srv.Close()
		uploader := func() (*ingest.Uploader, func()) {
			journal, err := openOrBegin(t.Context(), srv.URL, path)
			require.NoError(t, err)
			return &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}, func() {
				require.NoError(t, journal.Close())
			}
		}
		run := func() ingest.Result {
			u, closeJournal := uploader()
			defer closeJournal()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
			defer cancel()
			results, _ := collect(ctx, u, ingest.Recordings(onePatient(1)))
			require.Len(t, results, 1)
			return results[0]
		}
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		time.AfterFunc(time.Millisecond, func() {
			srv.AddNote(clinicaldoctest.Note{
				PatientID: 7, Name: onePatient(1).Params.Name, Audio: sound(1), CreatedAt: time.Now(),
			})
		})
		test(t, srv, run, func(key ingest.Key, word ingest.Resolution) error {
			u, closeJournal := uploader()
			defer checkEntries(t, path)
			defer closeJournal()
			return u.Resolve(t.Context(), key, word)
		})
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(content), " by=a+person")
	})
}

func TestResolve_NamesANote_ChecksAndSavesIt(t *testing.T) {
	t.Parallel()
	doubtful(t, func(t *testing.T, srv *clinicaldoctest.Server, run func() ingest.Result, resolve func(ingest.Key, ingest.Resolution) error) {
		first := run()
		require.Equal(t, ingest.InDoubt, first.Status, first)
		require.Equal(t, ingest.InDoubt, run().Status, "and so it would be for ever")
		other := srv.AddNote(clinicaldoctest.Note{PatientID: 8, Name: "Somebody's", Audio: sound(3)})
		require.ErrorIs(t, resolve(first.JournalKey, ingest.Resolution{NoteID: other, By: "a person"}),
			clinicaldoc.ErrPatientMismatch)
		require.ErrorIs(t, resolve(first.JournalKey, ingest.Resolution{NoteID: 4711, By: "a person"}),
			clinicaldoc.ErrNotFound)
		require.ErrorIs(t, resolve(first.JournalKey, ingest.Resolution{NoteID: 1, By: " "}),
			clinicaldoc.ErrInvalidArgument, "nobody says so")
		require.ErrorContains(t, resolve(first.JournalKey, ingest.Resolution{NoteID: -1, By: "a person"}),
			"must not be negative")
		require.ErrorIs(t, resolve(ingest.Key{1}, ingest.Resolution{NoteID: 1, By: "a person"}),
			clinicaldoc.ErrInvalidArgument)
		word := ingest.Resolution{By: "a person"}
		for _, note := range srv.Notes() {
			if note.PatientID == 7 {
				word.NoteID = note.ID
			}
		}
		require.NoError(t, resolve(first.JournalKey, word))
		require.NoError(t, resolve(first.JournalKey, word), "saying it twice changes nothing")
		require.ErrorIs(t, resolve(first.JournalKey, ingest.Resolution{By: "a person"}), clinicaldoc.ErrInvalidArgument,
			"it is decided")
		again := run()
		assert.Equal(t, ingest.AlreadyThere, again.Status)
		assert.Equal(t, word.NoteID, again.NoteID)
		assert.Len(t, srv.Notes(), 3)
	})
}

// A person can also decide about a recording that was never sent, or that a killed process left. The named note is
// stored with a time, by which others find it.
func TestResolve_NeverSentOrKilled_SavesTheNote(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		var saved ingest.Entry
		note := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(1).Params.Name, Audio: sound(5)})
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: watched{journal, func(e ingest.Entry) { saved = e }},
		}
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(1)))
		require.NoError(t, err)
		require.Equal(t, ingest.InDoubt, results[0].Status)
		require.NoError(t,
			u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{NoteID: note, By: "a person"}))
		assert.Equal(t, ingest.StateCreated, saved.State)
		assert.Equal(t, time.Now().Unix(), saved.SentAt.Unix())

		u.Journal, u.AllNew = dying{watched{journal, func(e ingest.Entry) { saved = e }}}, true
		_, err = collect(t.Context(), u, ingest.Recordings(onePatient(2)))
		require.Error(t, err)
		require.Equal(t, ingest.StateCommitting, saved.State)
		u.Journal = journal
		require.NoError(t, u.Resolve(t.Context(), saved.Key, ingest.Resolution{By: "a person", Force: true}))
	})
}

func TestResolve_NoNote_NextRunUploads(t *testing.T) {
	t.Parallel()
	doubtful(t, func(t *testing.T, srv *clinicaldoctest.Server, run func() ingest.Result, resolve func(ingest.Key, ingest.Resolution) error) {
		first := run()
		require.Equal(t, ingest.InDoubt, first.Status, first)
		require.NoError(t, resolve(first.JournalKey, ingest.Resolution{By: "a person"}))
		assert.Equal(t, ingest.Created, run().Status)
		assert.Equal(t, ingest.AlreadyThere, run().Status)
		assert.Len(t, srv.Notes(), 3)
	})
}

// A person decides about a recording that was not sent because of the search. A crash before the upload does not lose
// the decision.
func TestResolve_CrashBeforeTheUpload_KeepsTheDecision(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(1).Params.Name, Audio: sound(5)})
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, path)}
	results, err := collect(t.Context(), u, ingest.Recordings(onePatient(1)))
	require.NoError(t, err)
	require.Equal(t, ingest.InDoubt, results[0].Status)
	require.NoError(t, u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{By: "a person"}))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := onePatient(1)
	stopped.Params.BeforeCommit = func(context.Context) error { cancel(); return ctx.Err() }
	_, err = collect(ctx, u, ingest.Recordings(stopped))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, u.Journal.(*ingest.FileJournal).Close())
	u.Journal = openJournal(t, srv.URL, path)
	results, err = collect(t.Context(), u, ingest.Recordings(onePatient(1)))
	require.NoError(t, err)
	assert.Equal(t, ingest.Created, results[0].Status)
}

func TestResolve_NoteOfAnotherRecording_IsRejected(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.SetVariant(clinicaldoctest.Variant{ReuseIDs: true})
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(1).Params.Name, Audio: sound(5)})
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		run := func(r ingest.Recording) ingest.Result {
			report := u.RunAll(t.Context(), ingest.Recordings(r))
			require.NoError(t, report.Err)
			return report.Results[0]
		}
		doubt, other := run(onePatient(1)), run(onePatient(2))
		require.Equal(t, ingest.InDoubt, doubt.Status)
		require.Equal(t, ingest.Complete, other.Status)
		word := ingest.Resolution{NoteID: other.NoteID, By: "a person"}
		require.ErrorIs(t, u.Resolve(t.Context(), doubt.JournalKey, word), ingest.ErrKeyReused)
		time.Sleep(time.Minute)
		_, err := u.Client.Notes.Delete(t.Context(), other.NoteID)
		require.NoError(t, err)
		next, err := u.Client.Notes.Create(t.Context(), onePatient(3).Params)
		require.NoError(t, err)
		require.Equal(t, other.NoteID, next.ID)
		u.Journal = refusing{
			failing{journal, func(context.Context, ingest.Entry) error { return nil }}, nil, io.ErrClosedPipe,
		}
		require.ErrorIs(t, u.Resolve(t.Context(), doubt.JournalKey, word), io.ErrClosedPipe,
			"whose it is cannot be told")
		u.Journal = refusing{
			failing{journal, func(context.Context, ingest.Entry) error { return nil }}, nil, ingest.ErrJournalDamaged,
		}
		require.NoError(t, u.Resolve(t.Context(), doubt.JournalKey, word),
			"the id was given to another note; and a record that is damaged stops nobody")
	})
}

// The note that the response named is the recording's own, not another's.
func TestResolve_NoteThatTheResponseNamed_IsSaved(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit"})
	named := func() { // and nothing is found out before the run is ended
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(201, fmt.Sprintf(`{"id":%d,"name":"Encounter","created_at":`, id)))
		srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(503, "synthetic").Always())
	}
	named()
	ctx, cancel := context.WithCancel(t.Context())
	path := journalPath(t)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, path), AllNew: true}
	u.OnEvent = func(e ingest.Event) {
		if e.State == ingest.StateInDoubt {
			cancel()
		}
	}
	results, err := collect(ctx, u, ingest.Recordings(onePatient(1)))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, ingest.InDoubt, results[0].Status)
	require.Equal(t, id, results[0].NoteID)
	srv.ClearFaults()
	require.NoError(t, u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{By: "a person", Force: true}),
		"or says that it is none")
	checkEntries(t, path)
	named()
	for _, fault := range srv.Faults() {
		if fault.Route == clinicaldoctest.RouteListNotes { // which is looked at before the upload
			srv.RemoveFault(fault.ID)
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	results, err = collect(ctx, u, ingest.Recordings(onePatient(1)))
	require.ErrorIs(t, err, context.Canceled)
	srv.ClearFaults()
	require.NoError(t, u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{NoteID: id, By: "a person"}))
}
