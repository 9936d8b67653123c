package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
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

// A journal that was lost, or begun in another place, doubles nothing where recordings can be read.
func TestRun_JournalLost_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	srv, first := newUploader(t)
	require.Equal(t, counts{ingest.Created: 12}, statuses(upload(t, first, recordings(0, 12))))
	srv.ForgetRequests()
	results := upload(t, uploaderOn(t, srv), recordings(0, 15))
	assert.Equal(t, counts{ingest.AlreadyThere: 12, ingest.Created: 3}, statuses(results), results)
	assert.Len(t, srv.Notes(), 15)
	assert.Equal(t, 3, requestsTo(srv, clinicaldoctest.RouteListNotes), "one list for each patient")
	assert.LessOrEqual(t, requestsTo(srv, clinicaldoctest.RouteAudioURL), 40)
	for _, r := range results {
		assert.Equal(t, sumOf(r.Recording), noteOf(srv, r.NoteID).AudioSHA256)
	}
}

// A restored older copy of the journal lacks later uploads, and has outdated states of earlier ones.
func TestRun_OlderJournal_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	run := func(count int) counts {
		journal := openJournal(t, srv.URL, path)
		results := upload(t, &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}, recordings(0, count))
		require.NoError(t, journal.Close())
		return statuses(results)
	}
	require.Equal(t, counts{ingest.Created: 4}, run(4))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic").Times(2))
	require.Equal(t, 2, run(6)[ingest.Refused])
	backup := read(t, path)
	require.Equal(t, 6, run(10)[ingest.Created])
	require.NoError(t, os.WriteFile(path, backup, 0o600))
	assert.Equal(t, counts{ingest.AlreadyThere: 10}, run(10))
	assert.Len(t, srv.Notes(), 10)
}

// The same service under another spelling is the same service, in one journal or in two.
func TestRun_OtherSpellingOfTheService_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	for i, spelling := range []string{
		srv.URL, strings.ToUpper(srv.URL[:4]) + srv.URL[4:] + "/",
		strings.Replace(srv.URL, "127.0.0.1", "localhost", 1),
	} {
		client, err := clinicaldoc.NewClient(spelling, srv.Token)
		require.NoError(t, err)
		for _, place := range []string{path, journalPath(t)} {
			journal := openJournal(t, spelling, place)
			results := upload(t, &ingest.Uploader{Client: client, Journal: journal}, recordings(0, 5))
			want := ingest.AlreadyThere
			if i == 0 && place == path {
				want = ingest.Created
			}
			assert.Equal(t, counts{want: 5}, statuses(results))
			require.NoError(t, journal.Close())
		}
	}
	assert.Len(t, srv.Notes(), 5)
}

// If recordings cannot be read, or are not stored as they were sent, a recording is unresolved instead of becoming a
// second note.
func TestRun_JournalLostAndNotesUnreadable_LeavesUnresolved(t *testing.T) {
	t.Parallel()
	reencoded := clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded}
	for name, c := range map[string]struct {
		variant    clinicaldoctest.Variant
		route      string // that fails in the second run
		status     int
		uniqueName bool
		want       ingest.Status
		matches    error
	}{
		"storage fails": {
			route: clinicaldoctest.RouteAudio, status: 403, want: ingest.InDoubt,
		},
		"no URLs": {
			route: clinicaldoctest.RouteAudioURL, status: 404, want: ingest.InDoubt, matches: clinicaldoc.ErrNotFound,
		},
		"no URLs, unique names": {
			route: clinicaldoctest.RouteAudioURL, status: 404, uniqueName: true, want: ingest.AlreadyThere,
		},
		"lists fail":       {route: clinicaldoctest.RouteListNotes, status: 403, want: ingest.InDoubt},
		"re-encoded":       {variant: reencoded, want: ingest.InDoubt},
		"nothing is wrong": {want: ingest.AlreadyThere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, first := newUploader(t, clinicaldoctest.WithVariant(c.variant))
			require.Equal(t, counts{ingest.Created: 3}, statuses(upload(t, first, recordings(0, 3))))
			if c.route != "" {
				srv.Inject(c.route, clinicaldoctest.Answer(c.status, "synthetic").Always())
			}
			u := uploaderOn(t, srv)
			u.Find.UniqueName = c.uniqueName
			results := upload(t, u, recordings(0, 3))
			assert.Equal(t, counts{c.want: 3}, statuses(results), results)
			if c.route == clinicaldoctest.RouteAudio || c.matches != nil {
				require.ErrorContains(t, results[0].Err, "cannot be read")
			}
			if c.matches != nil {
				require.ErrorIs(t, results[0].Err, c.matches)
			}
			assert.Len(t, srv.Notes(), 3)
		})
	}
}

// A note without a size in the list may be the recording's, even if other notes have the same name.
func TestRun_JournalLostAndSizeUnknown_FindsTheNote(t *testing.T) {
	t.Parallel()
	const size = 12345
	hidesSizes := handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		if !r.URL.Query().Has("patient_id") {
			service.ServeHTTP(w, r)
			return
		}
		replaced(w, r, service, func(list []byte) []byte {
			return bytes.ReplaceAll(list, []byte(strconv.Itoa(size)), []byte("0"))
		})
	})
	srv, u := newUploader(t, hidesSizes)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Audio: sound(100)})
	// A name may come back in another spelling, or cut off, or somebody may have changed it.
	for n, c := range []struct{ sent, stored string }{
		{"Visit", "Visit"},
		{"Visit OF the Day", " visit of  the day"},
		{"Caf\u00e9", "Cafe\u0301"},
		{"A very long name of a visit", "A very long name"},
		{"Long", "Longer than it was sent"},
		{"Another long name", "Another long na"},
	} {
		content := bytes.Repeat([]byte{byte('a' + n)}, size)
		id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: c.stored, Audio: content})
		visit := onePatient(n)
		visit.Params.Name = c.sent
		visit.Params.Audio = clinicaldoc.AudioBytes("a.wav", content)
		result := uploadOne(t, u, visit)
		assert.Equal(t, ingest.AlreadyThere, result.Status, c)
		assert.Equal(t, id, result.NoteID, c)
	}
}

// Many notes have the recording's name. Those of its size are read first, so the right one is found.
func TestRun_JournalLostAndManyOfTheName_FindsTheNote(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	for n := range 40 {
		addNote(srv, onePatient(1), sound(100+n))
	}
	id := addNote(srv, onePatient(1), sound(1))
	result := uploadOne(t, u, onePatient(1))
	require.Equal(t, ingest.AlreadyThere, result.Status, result)
	assert.Equal(t, id, result.NoteID)
}

// A run is cancelled while it searches for a recording's note. The recording was not begun: it has no result and is not
// unresolved.
func TestRun_CancelledDuringTheSearch_HasNoResult(t *testing.T) {
	t.Parallel()
	const journal = ""
	for _, silent := range []string{clinicaldoctest.RouteListNotes, clinicaldoctest.RouteAudioURL, journal} {
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			addNote(srv, onePatient(9), sound(8))
			if silent != journal {
				srv.Inject(silent, clinicaldoctest.Silent().Always())
			} else {
				waits := func(ctx context.Context, _ uint32, _ time.Time) ([]ingest.Entry, error) {
					<-ctx.Done()
					return nil, errors.New("synthetic")
				}
				u.Journal = hooked{Journal: u.Journal, entries: waits}
			}
			results, err := collect(within(t, time.Second), u, ingest.Recordings(onePatient(9)))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Empty(t, results, silent)
		})
	}
}

// A journal that has lost a record still lets content tell notes apart.
func TestRun_DamagedRecord_FindsNotesByContent(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		id := addNote(srv, onePatient(9), sound(9))
		u.Journal = unreadable(u.Journal, ingest.ErrJournalDamaged)
		result := uploadOne(t, u, onePatient(9))
		require.Equal(t, ingest.AlreadyThere, result.Status, result)
		assert.Equal(t, id, result.NoteID)
	})
}

// Recordings that come later also see notes that somebody else created during the run. If one request for the list
// failed, the next one is made anyway.
func TestRun_PatientsList_IsReadAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(403, "synthetic"))
		var saved ingest.Entry
		u.Journal = watched(u.Journal, func(e ingest.Entry) { saved = e })
		u.Workers = 1
		results := upload(t, u, func(yield func(ingest.Recording, error) bool) {
			if yield(onePatient(0), nil) && yield(onePatient(1), nil) {
				time.Sleep(10 * time.Second)
				addNote(srv, onePatient(9), sound(9))
				time.Sleep(2 * time.Minute)
				yield(onePatient(9), nil)
			}
		})
		require.Equal(t, counts{ingest.InDoubt: 1, ingest.Created: 1, ingest.AlreadyThere: 1}, statuses(results))
		assert.True(t, saved.Found, "no response named it")
	})
}

// Recordings of one patient that come while the list is being read wait for it.
func TestRun_RecordingsOfOnePatient_ShareOneList(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Delay(time.Second).Always())
		results := upload(t, u, generated(3, onePatient))
		assert.Equal(t, counts{ingest.Created: 3}, statuses(results))
		assert.Equal(t, 1, requestsTo(srv, clinicaldoctest.RouteListNotes))
	})
}

// A run keeps the lists of at most 256 patients in memory.
func TestRun_ManyPatients_KeepsFewLists(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		const patients = 257
		u.Workers = 1
		upload(t, u, generated(patients+1, func(n int) ingest.Recording {
			r := recording(n)
			r.Params.PatientID = int64(1 + n%patients)
			return r
		}))
		assert.Equal(t, patients+1, requestsTo(srv, clinicaldoctest.RouteListNotes))
	})
}

// A recording without a patient is not searched for among the notes of patients, whatever the list of all notes
// contains.
func TestRun_RecordingWithoutPatient_TakesNoPatientsNote(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	addNote(srv, recording(1), sound(1))
	r := recording(1)
	r.Params.PatientID = 0
	require.ErrorIs(t, uploadOne(t, u, r).Err, clinicaldoc.ErrValidation,
		"it is sent, and this service wants a patient")
}

// A note that the journal knows is another recording's is not this one's, for all that both were made of the same
// sound.
func TestRun_NoteOfAnotherKey_IsNotTaken(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	other := recording(1)
	other.Key = "another"
	for _, r := range []ingest.Recording{recording(1), other} {
		assert.Equal(t, ingest.Created, uploadOne(t, u, r).Status)
	}
	assert.Len(t, srv.Notes(), 2)
}

// Notes of a lost journal are found even if the rows of lists do not name a patient. The journal then knows them with a
// time, so later searches find them too.
func TestRun_JournalLostAndPatientMissing_FindsTheNote(t *testing.T) {
	t.Parallel()
	srv := newBox(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed}))
	var saved ingest.Entry
	for _, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere} {
		u := uploaderOn(t, srv)
		u.Journal = watched(u.Journal, func(e ingest.Entry) { saved = e })
		assert.Equal(t, want, uploadOne(t, u, recording(0)).Status)
		assert.False(t, saved.SentAt.IsZero())
	}
}

// If the service reports no times, a later note with the same ID looks the same. So its recording is read again.
func TestRun_NoteWithoutATime_IsReadForEachRecording(t *testing.T) {
	t.Parallel()
	times := regexp.MustCompile(`"created_at":"[^"]*"`)
	srv, u := newUploader(t, handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		if !r.URL.Query().Has("patient_id") {
			service.ServeHTTP(w, r)
			return
		}
		replaced(w, r, service, func(list []byte) []byte { return times.ReplaceAll(list, []byte(`"created_at":null`)) })
	}))
	u.Workers = 1
	visits := []ingest.Recording{onePatient(11), onePatient(18)}
	for i := range visits {
		visits[i].Params.Name = "Visit"
	}
	id := addNote(srv, visits[0], sound(25)) // of the same size as both
	var got []ingest.Status
	for result, err := range u.Run(t.Context(), ingest.Recordings(visits...)) {
		require.NoError(t, err)
		got = append(got, result.Status)
		if len(got) == 1 { // another note gets the ID before the second recording is begun
			srv.Reset()
			srv.AddNote(clinicaldoctest.Note{ID: id, PatientID: 7, Name: "Visit", Audio: sound(18)})
		}
	}
	assert.Equal(t, []ingest.Status{ingest.InDoubt, ingest.AlreadyThere}, got)
}

// The journal knows that a note is another recording's, so its recording is not read.
func TestRun_NoteOfAnotherRecording_IsNotRead(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
	for n := range 3 {
		visit := onePatient(n)
		visit.Params.Name = "Visit"
		result := uploadOne(t, u, visit)
		require.Equal(t, ingest.Created, result.Status, result)
	}
}

// If the recording of a note is longer than the one that is searched for, it is not read to its end.
func TestRun_LongerRecording_IsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	const long = 64 << 20
	srv, u := newUploader(t)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(1).Params.Name, AudioSize: long})
	var received atomic.Int64
	u.Client = srv.Client(quick(), clinicaldoc.WithHooks(clinicaldoc.Hooks{
		AttemptEnd: func(_ context.Context, attempt clinicaldoc.Attempt) { received.Add(attempt.BytesReceived) },
	}))
	visit := onePatient(1)
	visit.Params.Audio = clinicaldoc.AudioBytes("a.wav", make([]byte, 100<<10))
	assert.Equal(t, ingest.InDoubt, uploadOne(t, u, visit).Status)
	assert.Positive(t, received.Load())
	assert.Less(t, received.Load(), int64(long/2))
}

// With AllNew the patient's notes are not listed.
func TestRun_AllNew_ListsNothing(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	u.AllNew = true
	require.Equal(t, counts{ingest.Created: 6}, statuses(upload(t, u, recordings(0, 6))))
	assert.Zero(t, requestsTo(srv, clinicaldoctest.RouteListNotes))
}

// anotherAddress returns a new base URL that leads to the same service.
func anotherAddress(t *testing.T, baseURL string) string {
	t.Helper()
	target, err := url.Parse(baseURL)
	require.NoError(t, err)
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// Each remedy that an error names is done, and notes are counted.
func TestRun_EachRemedy_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	salvage := func(t *testing.T, path string, owner ingest.Owner) {
		t.Helper()
		_, err := ingest.OpenJournal(t.Context(), path)
		require.ErrorContains(t, err, "SalvageJournal")
		_, err = ingest.SalvageJournal(t.Context(), path, owner)
		require.NoError(t, err)
	}
	type remedyFunc func(t *testing.T, srv *clinicaldoctest.Server, path string, owner ingest.Owner)
	for name, remedy := range map[string]remedyFunc{
		"damaged: SalvageJournal": func(t *testing.T, _ *clinicaldoctest.Server, path string, owner ingest.Owner) {
			damage(t, path, len(read(t, path))/2)
			salvage(t, path, owner)
		},
		"emptied: SalvageJournal": func(t *testing.T, _ *clinicaldoctest.Server, path string, owner ingest.Owner) {
			require.NoError(t, os.Truncate(path, 0))
			salvage(t, path, owner)
		},
		"missing: BeginJournal": func(t *testing.T, _ *clinicaldoctest.Server, path string, owner ingest.Owner) {
			require.NoError(t, os.Remove(path))
			_, err := ingest.OpenJournal(t.Context(), path)
			require.ErrorContains(t, err, "BeginJournal")
			journal, err := ingest.BeginJournal(t.Context(), path, owner)
			require.NoError(t, err)
			require.NoError(t, journal.Close())
		},
		"other address: Rename": func(t *testing.T, srv *clinicaldoctest.Server, path string, _ ingest.Owner) {
			journal := openJournal(t, srv.URL, path)
			srv.URL = anotherAddress(t, srv.URL)
			_, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 10))
			require.ErrorContains(t, err, "Rename")
			require.NoError(t, journal.Rename(t.Context(), srv.Client()))
			require.NoError(t, journal.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, path := newBox(t), journalPath(t)
			owner, err := ingest.OwnerOf(t.Context(), srv.Client())
			require.NoError(t, err)
			run := func() counts {
				journal := openJournal(t, srv.URL, path)
				results := upload(t, &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}, recordings(0, 10))
				require.NoError(t, journal.Close())
				return statuses(results)
			}
			for range 2 {
				run()
				remedy(t, srv, path, owner)
			}
			got := run()
			// Created is what FindCreated found.
			assert.Equal(t, 10, got[ingest.AlreadyThere]+got[ingest.Created], "found, at the latest by FindCreated")
			assert.Len(t, srv.Notes(), 10)
		})
	}
}

// Rename checks twenty of the newest notes, so the oldest ones may be gone.
func TestRename_OldestNotesGone_Succeeds(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	journal := openJournal(t, srv.URL, journalPath(t))
	u := &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 1, AllNew: true}
	results := upload(t, u, recordings(0, 25))
	srv.ForgetRequests()
	require.NoError(t, journal.Rename(t.Context(), srv.Client()))
	require.Equal(t, 20, requestsTo(srv, clinicaldoctest.RouteGetNote))
	isRead := func(r clinicaldoctest.Request) bool { return r.Route == clinicaldoctest.RouteGetNote }
	first := srv.Requests()[slices.IndexFunc(srv.Requests(), isRead)]
	assert.Contains(t, first.Path, fmt.Sprint(results[24].NoteID))
}

// A journal can be renamed to another address only if its notes exist there.
func TestRename_OtherAddress_NeedsTheSameNotes(t *testing.T) {
	t.Parallel()
	srv, other, path := newBox(t), newBox(t), journalPath(t)
	journal := openJournal(t, srv.URL, path)
	upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 5))
	require.ErrorIs(t, journal.Rename(t.Context(), other.Client()), ingest.ErrOtherService,
		"none of its notes is there")
	for n := range 5 {
		other.AddNote(clinicaldoctest.Note{PatientID: 99, Name: "Somebody's", Audio: sound(n)})
	}
	require.ErrorIs(t, journal.Rename(t.Context(), other.Client()), ingest.ErrOtherService, "they are other patients'")

	unused, err := ingest.BeginJournal(t.Context(), journalPath(t), ingest.Owner{Service: ingest.ServiceName(srv.URL)})
	require.NoError(t, err)
	require.NoError(t, unused.Rename(t.Context(), other.Client()), "it knows of none")
	require.NoError(t, unused.Close())

	moved := newBox(t)
	for _, note := range srv.Notes() {
		moved.AddNote(clinicaldoctest.Note{
			ID: note.ID, PatientID: note.PatientID, Name: note.Name, Audio: []byte("was lost on the way"),
		})
	}
	require.NoError(t, journal.Rename(t.Context(), moved.Client()))
	require.NoError(t, journal.Close())
	journal = openJournal(t, moved.URL, path)
	results := upload(t, &ingest.Uploader{Client: moved.Client(), Journal: journal}, recordings(0, 5))
	assert.Equal(t, counts{ingest.AlreadyThere: 5}, statuses(results))
	u := &ingest.Uploader{Client: moved.Client(), Journal: journal}
	note := moved.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(9).Params.Name, Audio: sound(5)})
	result := uploadOne(t, u, onePatient(9))
	require.NoError(t, u.Resolve(t.Context(), result.JournalKey, ingest.Resolution{NoteID: note, By: "a person"}),
		"its patient is known by the first name")
	_, err = collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 5))
	require.ErrorIs(t, err, ingest.ErrOtherService)
}

// A journal cannot be renamed to a colleague, not even to one who can read the notes that Rename checks: the colleague
// may not see all the others.
func TestRename_OtherUser_IsRejected(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	journal := openJournal(t, srv.URL, path)
	upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 2))
	colleague, err := clinicaldoc.NewClient(srv.URL, srv.AddUser(clinicaldoctest.User{}).Token)
	require.NoError(t, err)
	require.ErrorIs(t, journal.Rename(t.Context(), colleague), ingest.ErrOtherUser)
	_, err = collect(t.Context(), &ingest.Uploader{Client: colleague, Journal: journal}, recordings(0, 3))
	require.ErrorIs(t, err, ingest.ErrOtherUser, "it is still the first one's")
	results := upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 2))
	assert.Equal(t, counts{ingest.AlreadyThere: 2}, statuses(results))
}

// The owner renames the journal while the service does not report whose the token is. The journal stays the owner's.
func TestRename_UserNotReported_KeepsTheOwner(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	journal := openJournal(t, srv.URL, path)
	upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 2))
	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(404, "synthetic"))
	require.NoError(t, journal.Rename(t.Context(), srv.Client()))

	colleague, err := clinicaldoc.NewClient(srv.URL, srv.AddUser(clinicaldoctest.User{}).Token)
	require.NoError(t, err)
	_, err = collect(t.Context(), &ingest.Uploader{Client: colleague, Journal: journal}, recordings(0, 3))
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	results := upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 2))
	assert.Equal(t, counts{ingest.AlreadyThere: 2}, statuses(results))
}

// tenants returns a function that makes clients of one service, which has a tenant for each of the servers and knows it
// by a header.
func tenants(servers map[string]*clinicaldoctest.Server) func(t *testing.T, tenant string) *clinicaldoc.Client {
	transport := transportFunc(func(r *http.Request) (*http.Response, error) {
		return servers[r.Header.Get("X-Tenant")].Transport().RoundTrip(r)
	})
	return func(t *testing.T, tenant string) *clinicaldoc.Client {
		t.Helper()
		options := []clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}), quick()}
		if tenant != "" {
			options = append(options, clinicaldoc.WithHeaders(http.Header{"X-Tenant": {tenant}}))
		}
		client, err := clinicaldoc.NewClient("https://api.clinicaldoc.test", servers[tenant].Token, options...)
		require.NoError(t, err)
		return client
	}
}

// Two tenants of one service, each with its own user 1, get each their own notes: a journal belongs to one of them.
func TestFileJournal_OtherTenantsHeaders_AreRejected(t *testing.T) {
	t.Parallel()
	servers, client := threeTenants(t)
	for tenant := range servers {
		owner, err := ingest.OwnerOf(t.Context(), client(t, tenant))
		require.NoError(t, err)
		path := journalPath(t)
		journal, err := ingest.BeginJournal(t.Context(), path, owner)
		require.NoError(t, err)
		results := upload(t, &ingest.Uploader{Client: client(t, tenant), Journal: journal}, recordings(0, 6))
		assert.Equal(t, counts{ingest.Created: 6}, statuses(results), "tenant %q", tenant)
		require.NoError(t, journal.Close())
		kept, _, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, owner, kept)
		for other := range servers {
			journal, err := ingest.OpenJournal(t.Context(), path)
			require.NoError(t, err)
			u := &ingest.Uploader{Client: client(t, other), Journal: journal}
			results, err := collect(t.Context(), u, recordings(0, 6))
			if other == tenant {
				require.NoError(t, err)
				assert.Equal(t, counts{ingest.AlreadyThere: 6}, statuses(results))
			} else {
				require.ErrorIs(t, err, ingest.ErrOtherService)
				require.ErrorContains(t, err, "different headers")
				assert.Empty(t, results)
			}
			require.NoError(t, journal.Close())
		}
	}
	for tenant, srv := range servers {
		assert.Len(t, srv.Notes(), 6, "tenant %q", tenant)
	}
}

// A journal of the version before does not contain the headers of its client. It gets the first ones that it is used
// with.
func TestJournal_HeadersUnknown_BindsOnFirstUse(t *testing.T) {
	t.Parallel()
	servers, client := threeTenants(t)
	path := journalPath(t)
	before := ingest.Owner{Service: "https://api.clinicaldoc.test", UserID: 1}
	journal, err := ingest.BeginJournal(t.Context(), path, before)
	require.NoError(t, err)
	bind := func(tenant string) error {
		u := &ingest.Uploader{Client: client(t, tenant), Journal: journal, Owner: before}
		_, err := collect(t.Context(), u, recordings(0, 1))
		return err
	}
	require.NoError(t, bind(""))
	assert.Len(t, servers[""].Notes(), 1)
	require.NoError(t, bind("north"))
	require.ErrorIs(t, bind("south"), ingest.ErrOtherService)
	require.ErrorIs(t, bind(""), ingest.ErrOtherService)
	require.NoError(t, journal.Close())
	journal, err = ingest.OpenJournal(t.Context(), path)
	require.NoError(t, err)
	require.ErrorIs(t, bind("south"), ingest.ErrOtherService, "the file says so too")
	require.NoError(t, bind("north"))
	require.NoError(t, journal.Close())
}

// If headers change that do not select a tenant, Rename finds the journal's notes and saves the new headers.
func TestRename_OtherHeaders_AreTaken(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
	defer srv.Close()
	other := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
	defer other.Close()
	client := tenants(map[string]*clinicaldoctest.Server{"north": srv, "North": srv, "south": other})
	owner, err := ingest.OwnerOf(t.Context(), client(t, "north"))
	require.NoError(t, err)
	journal, err := ingest.BeginJournal(t.Context(), journalPath(t), owner)
	require.NoError(t, err)
	upload := func(tenant string) ([]ingest.Result, error) {
		return collect(t.Context(), &ingest.Uploader{Client: client(t, tenant), Journal: journal}, recordings(0, 3))
	}
	_, err = upload("north")
	require.NoError(t, err)
	_, err = upload("North")
	require.ErrorIs(t, err, ingest.ErrOtherService)
	require.ErrorIs(t, journal.Rename(t.Context(), client(t, "south")), ingest.ErrOtherService,
		"its notes are not there")
	require.NoError(t, journal.Rename(t.Context(), client(t, "North")))
	results, err := upload("North")
	require.NoError(t, err)
	assert.Equal(t, counts{ingest.AlreadyThere: 3}, statuses(results))
	require.NoError(t, journal.Close())
}

// Up to 30 recordings are read for one. If more notes may be it, it is unresolved.
func TestRun_JournalLostAndTooManyToRead_IsUnresolved(t *testing.T) {
	t.Parallel()
	for notes, want := range map[int]ingest.Status{30: ingest.Created, 31: ingest.InDoubt} {
		srv, u := newUploader(t)
		u.Client = srv.Client(clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{RecordingsUnchanged: true}))
		audio := sound(99)
		for n := range notes {
			addNote(srv, onePatient(99), slices.Concat(audio[:len(audio)-3], fmt.Appendf(nil, "%3d", n)))
		}
		result := uploadOne(t, u, onePatient(99))
		assert.Equal(t, want, result.Status, notes)
	}
}

// A journal with gaps is not believed, even with AllNew: the patient's notes are listed.
func TestRun_AllNewAndSalvagedJournal_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	srv, first := newUploader(t)
	upload(t, first, recordings(0, 6))
	path := journalPath(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	_, err = ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, path), AllNew: true}
	assert.Equal(t, counts{ingest.AlreadyThere: 6}, statuses(upload(t, u, recordings(0, 6))))
	assert.Len(t, srv.Notes(), 6)
}

// threeTenants returns a client for each of three tenants of one service, one of which is chosen by no header.
func threeTenants(t *testing.T) (map[string]*clinicaldoctest.Server, func(*testing.T, string) *clinicaldoc.Client) {
	t.Helper()
	servers := map[string]*clinicaldoctest.Server{}
	for _, tenant := range []string{"", "north", "south"} {
		servers[tenant] = newBox(t, clinicaldoctest.InProcess())
	}
	return servers, tenants(servers)
}

// Two runs share a journal, as the workers of a fleet do. They find the same note for two recordings with the same
// content at the same time: one of them takes it, and the other recording gets its own note.
func TestLook_TwoRunsFindOneNote_OneTakesIt(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		note := addNote(srv, onePatient(1), sound(1))
		bothSearch := make(chan struct{})
		var searching atomic.Int32
		var results [2][]ingest.Result
		var runs sync.WaitGroup
		for i, key := range []string{"note", "letter"} {
			wanted := onePatient(1)
			wanted.Key = key
			wanted.Params.Name = "Renamed " + key
			reads := 0
			shared := hooked{Journal: journal}
			shared.entries = func(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
				reads++
				entries, err := journal.EntriesForPatient(ctx, patient, since)
				isBeforeTaking := reads == 2
				if isBeforeTaking && searching.Add(1) == 2 {
					close(bothSearch)
				}
				if isBeforeTaking {
					<-bothSearch
				}
				return entries, err
			}
			u := &ingest.Uploader{Client: srv.Client(quick()), Journal: shared}
			runs.Go(func() {
				var err error
				results[i], err = collect(t.Context(), u, ingest.Recordings(wanted))
				assert.NoError(t, err)
			})
		}
		runs.Wait()
		both := slices.Concat(results[0], results[1])
		require.Len(t, both, 2)
		assert.Equal(t, counts{ingest.AlreadyThere: 1, ingest.Created: 1}, statuses(both), both)
		assert.NotEqual(t, both[0].NoteID, both[1].NoteID)
		assert.Contains(t, []int64{both[0].NoteID, both[1].NoteID}, note)
		assert.Len(t, srv.Notes(), 2)
	})
}
