package ingest_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestResolve_NamesANote_ChecksAndSavesIt(t *testing.T) {
	t.Parallel()
	unresolvable(t, func(t *testing.T, n *night) {
		first := n.runOne(1)
		require.Equal(t, ingest.InDoubt, first.Status, first)
		require.Equal(t, ingest.InDoubt, n.runOne(1).Status, "and so it would be for ever")
		right := n.srv.Notes()[0].ID
		others := n.srv.AddNote(clinicaldoctest.Note{PatientID: 8, Name: "Somebody's", Audio: sound(3)})
		for name, c := range map[string]struct {
			note int64
			by   string
			want error
		}{
			"another patient's note": {others, person, clinicaldoc.ErrPatientMismatch},
			"no such note":           {4711, person, clinicaldoc.ErrNotFound},
			"nobody decided":         {1, " ", clinicaldoc.ErrInvalidArgument},
			"a negative id":          {-1, person, clinicaldoc.ErrInvalidArgument},
		} {
			require.ErrorIs(t, n.resolve(first.JournalKey, ingest.Resolution{NoteID: c.note, By: c.by}), c.want, name)
		}
		unknown := ingest.Key{1}
		require.ErrorIs(t, n.resolve(unknown, ingest.Resolution{NoteID: 1, By: person}), clinicaldoc.ErrInvalidArgument)
		decision := ingest.Resolution{NoteID: right, By: person}
		require.NoError(t, n.resolve(first.JournalKey, decision))
		require.NoError(t, n.resolve(first.JournalKey, decision), "saying it twice changes nothing")
		require.ErrorIs(t, n.resolve(first.JournalKey, none()), clinicaldoc.ErrInvalidArgument, "it is decided")
		again := n.runOne(1)
		assert.Equal(t, ingest.Complete, again.Status)
		assert.Equal(t, right, again.NoteID)
		assert.Len(t, n.srv.Notes(), 3, "nothing was uploaded again")
	})
}

// A person can also decide about a recording that was never sent, or that a killed process left. The named note is
// stored with a time, by which others find it.
func TestResolve_NeverSentOrKilled_SavesTheNote(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		var saved ingest.Entry
		u.Journal = watched(u.Journal, func(e ingest.Entry) { saved = e })
		note := addNote(srv, onePatient(1), sound(5))
		unresolved := uploadOne(t, u, onePatient(1))
		require.Equal(t, ingest.InDoubt, unresolved.Status)
		require.NoError(t, u.Resolve(t.Context(), unresolved.JournalKey, ingest.Resolution{NoteID: note, By: person}))
		assert.Equal(t, ingest.StateCreated, saved.State)
		assert.Equal(t, time.Now().Unix(), saved.SentAt.Unix())

		killed(t, u, onePatient(2))
		require.Equal(t, ingest.StateCommitting, saved.State)
		require.NoError(t, u.Resolve(t.Context(), saved.Key, ingest.Resolution{By: person, Force: true}))
	})
}

func TestResolve_NoNote_NextRunUploads(t *testing.T) {
	t.Parallel()
	unresolvable(t, func(t *testing.T, n *night) {
		first := n.runOne(1)
		require.Equal(t, ingest.InDoubt, first.Status, first)
		require.NoError(t, n.resolve(first.JournalKey, none()))
		require.NoError(t, n.resolve(first.JournalKey, none()), "saying it twice changes nothing")
		created := n.runOne(1)
		assert.Equal(t, ingest.Complete, created.Status)
		require.ErrorIs(t, n.resolve(first.JournalKey, none()), clinicaldoc.ErrInvalidArgument, "it has a note")
		assert.Equal(t, created.NoteID, n.runOne(1).NoteID)
		assert.Len(t, n.srv.Notes(), 3, "the two that made it unresolved, and one more")
	})
}

// A person decides about a recording that was not sent because of the search. A crash before the upload does not lose
// the decision.
func TestResolve_CrashBeforeTheUpload_KeepsTheDecision(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	addNote(srv, onePatient(1), sound(5))
	journal := openJournal(t, srv.URL, path)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
	unresolved := uploadOne(t, u, onePatient(1))
	require.Equal(t, ingest.InDoubt, unresolved.Status)
	require.NoError(t, u.Resolve(t.Context(), unresolved.JournalKey, none()))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := onePatient(1)
	stopped.Params.BeforeCommit = func(context.Context) error { cancel(); return ctx.Err() }
	_, err := collect(ctx, u, ingest.Recordings(stopped))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, journal.Close())
	u.Journal = openJournal(t, srv.URL, path)
	assert.Equal(t, ingest.Created, uploadOne(t, u, onePatient(1)).Status)
}

// unresolvedAndCreated uploads two recordings of a patient: the first is unresolved, the other has a note.
func unresolvedAndCreated(
	t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader,
) (unresolved, created ingest.Result) {
	t.Helper()
	addNote(srv, onePatient(1), sound(5)) // the same name and another sound, so the upload is in doubt
	unresolved = uploadOne(t, u, onePatient(1))
	require.Equal(t, ingest.InDoubt, unresolved.Status)
	created = uploadOne(t, u, onePatient(2))
	require.Equal(t, ingest.Created, created.Status)
	return unresolved, created
}

// A person cannot give a recording the note of another recording.
func TestResolve_NoteOfAnotherRecording_IsRejected(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		unresolved, other := unresolvedAndCreated(t, srv, u)
		decision := ingest.Resolution{NoteID: other.NoteID, By: person}
		require.ErrorIs(t, u.Resolve(t.Context(), unresolved.JournalKey, decision), ingest.ErrKeyReused)
	})
}

// If the note of another recording was deleted and its ID used again, the ID names another note, which a person may
// choose.
func TestResolve_IDUsedAgain_IsAnotherNote(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.SetVariant(clinicaldoctest.Variant{ReuseIDs: true})
		unresolved, other := unresolvedAndCreated(t, srv, u)
		decision := ingest.Resolution{NoteID: other.NoteID, By: person}
		time.Sleep(time.Minute)
		_, err := u.Client.Notes.Delete(t.Context(), other.NoteID)
		require.NoError(t, err)
		next, err := u.Client.Notes.Create(t.Context(), onePatient(3).Params)
		require.NoError(t, err)
		require.Equal(t, other.NoteID, next.ID)
		journal := u.Journal
		u.Journal = unreadable(journal, io.ErrClosedPipe)
		require.ErrorIs(t, u.Resolve(t.Context(), unresolved.JournalKey, decision), io.ErrClosedPipe,
			"whose it is cannot be told")
		u.Journal = unreadable(journal, ingest.ErrJournalDamaged)
		require.NoError(t, u.Resolve(t.Context(), unresolved.JournalKey, decision),
			"a record that is damaged stops nobody")
	})
}

// The note that a response named is certainly the recording's. A person may choose it, also after deciding that there
// is none.
func TestResolve_NoteThatTheResponseNamed_IsSaved(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit"})
		response := fmt.Sprintf(`{"id":%d,"name":"Encounter","created_at":`, id)
		u.AllNew = true
		for _, decision := range []ingest.Resolution{{By: person, Force: true}, {NoteID: id, By: person}} {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(201, response))
			srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(503, "synthetic").Always())
			lost := uploadUntilUnresolved(t, u, onePatient(1))
			require.Equal(t, id, lost.NoteID)
			srv.ClearFaults()
			require.NoError(t, u.Resolve(t.Context(), lost.JournalKey, decision))
		}
	})
}

// unresolvable runs a test in which no run can decide whether recording 1 has a note. The response of its create is
// lost, the service changes recordings, and another note has the same patient and name. So there are two notes after
// the first run. The test must let a person decide.
func unresolvable(t *testing.T, test func(t *testing.T, n *night)) {
	t.Helper()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
		n.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		time.AfterFunc(time.Millisecond, func() { addNote(n.srv, recording(1), sound(1)) })
		test(t, n)
		assert.Contains(t, string(n.content()), " by=a+person")
	})
}
