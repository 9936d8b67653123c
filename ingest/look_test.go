package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// afresh is a run with a new journal in another place: as after the old one was lost.
func afresh(t *testing.T, u ingest.Uploader, srv *clinicaldoctest.Server, count int) (map[ingest.Status]int, []ingest.Result) {
	t.Helper()
	u.Client, u.Journal = srv.Client(quick()), openJournal(t, srv.URL, journalPath(t))
	results, err := collect(t.Context(), &u, recordings(0, count))
	require.NoError(t, err)
	return statuses(results), results
}

// A journal that was lost, or begun in another place, doubles nothing where recordings can be read.
func TestRun_JournalLost_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	got, _ := afresh(t, ingest.Uploader{}, srv, 12)
	require.Equal(t, map[ingest.Status]int{ingest.Created: 12}, got)
	srv.ForgetRequests()
	got, results := afresh(t, ingest.Uploader{}, srv, 15)
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 12, ingest.Created: 3}, got, results)
	assert.Len(t, srv.Notes(), 15)
	lists, reads := 0, 0
	for _, r := range srv.Requests() {
		switch r.Route {
		case clinicaldoctest.RouteListNotes:
			lists++
		case clinicaldoctest.RouteAudioURL:
			reads++
		}
	}
	assert.Equal(t, 3, lists, "one list for each patient")
	for n := range 40 { // as many as nobody reads
		srv.AddNote(clinicaldoctest.Note{
			PatientID: 7, Name: onePatient(99).Params.Name,
			Audio: slices.Concat(sound(99)[:len(sound(99))-3], fmt.Appendf(nil, "%3d", n)),
		})
	}
	many, err := collect(t.Context(),
		&ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t))},
		ingest.Recordings(recording(1), onePatient(99)))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 1, ingest.InDoubt: 1}, statuses(many), many)
	t.Logf("%d recordings of 3 patients with a lost journal: %d lists, %d recordings read", 15, lists, reads)
	assert.LessOrEqual(t, reads, 40)
	for _, r := range results {
		if r.Status == ingest.AlreadyThere {
			assert.Equal(t, sound(atoi(t, strings.TrimPrefix(r.Recording.Key, "recording "))),
				uploaded(t, srv, r.NoteID))
		}
	}
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}

// An older copy of the journal does not know what was uploaded since, nor what became of what it knows.
func TestRun_OlderJournal_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	run := func(count int) map[ingest.Status]int {
		journal := openJournal(t, srv.URL, path)
		results, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(quick()), Journal: journal},
			recordings(0, count))
		require.NoError(t, err)
		require.NoError(t, journal.Close())
		return statuses(results)
	}
	require.Equal(t, map[ingest.Status]int{ingest.Created: 4}, run(4))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic").Times(2))
	require.Equal(t, 2, run(6)[ingest.Refused])
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 6, run(10)[ingest.Created])
	require.NoError(t, os.WriteFile(path, backup, 0o600))
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 10}, run(10))
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
			results, err := collect(t.Context(), &ingest.Uploader{Client: client, Journal: journal}, recordings(0, 5))
			require.NoError(t, err)
			want := ingest.AlreadyThere
			if i == 0 && place == path {
				want = ingest.Created
			}
			assert.Equal(t, map[ingest.Status]int{want: 5}, statuses(results))
			require.NoError(t, journal.Close())
		}
	}
	assert.Len(t, srv.Notes(), 5)
}

// If recordings cannot be read, or are not stored as they were sent, a recording is unresolved instead of becoming a
// second note.
func TestRun_JournalLostAndNotesUnreadable_LeavesUnresolved(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*clinicaldoctest.Server){
		"storage fails": func(srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.Answer(403, "synthetic").Always())
		},
		"no URLs": func(srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(404, "synthetic").Always())
		},
		"lists fail": func(srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(403, "synthetic").Always())
		},
		"others' content": func(*clinicaldoctest.Server) {},
		"unique, no URLs": func(srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(404, "synthetic").Always())
		},
		"nothing is wrong": func(*clinicaldoctest.Server) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []clinicaldoctest.Option
			if name == "others' content" {
				opts = append(opts,
					clinicaldoctest.WithVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded}))
			}
			srv := newBox(t, opts...)
			got, _ := afresh(t, ingest.Uploader{}, srv, 3)
			require.Equal(t, map[ingest.Status]int{ingest.Created: 3}, got)
			prepare(srv)
			u := ingest.Uploader{}
			u.Find.UniqueName = strings.HasPrefix(name, "unique")
			got, results := afresh(t, u, srv, 3)
			if u.Find.UniqueName || name == "nothing is wrong" {
				assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 3}, got, "the name alone decides")
			} else {
				assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 3}, got, results)
				if name == "no URLs" || name == "storage fails" {
					require.ErrorContains(t, results[0].Err, "cannot be read", "and not that it is not known yet")
				}
				if name == "no URLs" {
					require.ErrorIs(t, results[0].Err, clinicaldoc.ErrNotFound, "it says why")
				}
			}
			assert.Len(t, srv.Notes(), 3)
		})
	}
}

// A note whose size the list does not tell may be it, whatever others of its name there are.
func TestRun_JournalLostAndSizeUnknown_FindsTheNote(t *testing.T) {
	t.Parallel()
	const size = 12345
	srv := newBox(t, clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("patient_id") {
				next.ServeHTTP(w, r)
				return
			}
			list := httptest.NewRecorder()
			next.ServeHTTP(list, r)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(bytes.ReplaceAll(list.Body.Bytes(), []byte(strconv.Itoa(size)), []byte("0")))
		})
	}))
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 1}
	run := func(r ingest.Recording) ingest.Result {
		results, err := collect(t.Context(), u, ingest.Recordings(r))
		require.NoError(t, err)
		return results[0]
	}
	content := bytes.Repeat([]byte{'a'}, size)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Audio: sound(100)})
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Audio: content})
	visit := onePatient(1)
	visit.Params.Name, visit.Params.Audio = "Visit", clinicaldoc.AudioBytes("a.wav", content)
	result := run(visit)
	assert.Equal(t, ingest.AlreadyThere, result.Status, result)
	assert.Equal(t, id, result.NoteID)

	// A name may come back in another spelling, or cut off, or somebody may have changed it.
	for n, names := range [][2]string{
		{"Visit OF the Day", " visit of  the day"}, {"Caf\u00e9", "Cafe\u0301"},
		{"A very long name of a visit", "A very long name"}, {"Long", "Longer than it was sent"},
		{"Another long name", "Another long na"},
	} {
		content := bytes.Repeat([]byte{byte('b' + n)}, size)
		srv.AddNote(clinicaldoctest.Note{PatientID: 8, Name: names[1], Audio: content})
		visit.Key, visit.Params.PatientID, visit.Params.Name, visit.Params.Audio = names[0], 8, names[0], clinicaldoc.AudioBytes("a.wav", content)
		assert.Equal(t, ingest.AlreadyThere, run(visit).Status, names)
	}
}

// Many notes have the recording's name. Those of its size are read first, so the right one is found.
func TestRun_JournalLostAndManyOfTheName_FindsTheNote(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	for n := range 40 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Audio: sound(100 + n)})
	}
	visit := onePatient(1)
	visit.Params.Name = "Visit"
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Audio: sound(1)})
	results, err := collect(t.Context(),
		&ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t))},
		ingest.Recordings(visit))
	require.NoError(t, err)
	require.Equal(t, ingest.AlreadyThere, results[0].Status, results[0])
	assert.Equal(t, id, results[0].NoteID)
}

// A run is cancelled while it searches for a recording's note. The recording was not begun: it has no result and is not
// unresolved.
func TestRun_CancelledDuringTheSearch_HasNoResult(t *testing.T) {
	t.Parallel()
	for _, route := range []string{clinicaldoctest.RouteListNotes, clinicaldoctest.RouteAudioURL, ""} {
		withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(9).Params.Name, Audio: sound(8)})
			u := &ingest.Uploader{Client: srv.Client(quick()), Journal: file}
			if route != "" {
				srv.Inject(route, clinicaldoctest.Silent().Always())
			} else {
				u.Journal = asking{file, make(chan time.Time, 1), false}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			results, err := collect(ctx, u, ingest.Recordings(onePatient(9)))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Empty(t, results, route)
		})
	}
}

// A journal that has lost a record still lets content tell notes apart.
func TestRun_DamagedRecord_FindsNotesByContent(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(9).Params.Name, Audio: sound(9)})
		never := func(context.Context, ingest.Entry) error { return nil }
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: refusing{failing{file, never}, nil, ingest.ErrJournalDamaged},
		}
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(9)))
		require.NoError(t, err)
		require.Equal(t, ingest.AlreadyThere, results[0].Status, results[0])
		assert.Equal(t, id, results[0].NoteID)
	})
}

// A note that somebody made while the run went on is found by what comes later. A list that failed says nothing of the
// next one.
func TestRun_PatientsList_IsReadAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(403, "synthetic"))
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			if yield(onePatient(0), nil) && yield(onePatient(1), nil) {
				time.Sleep(10 * time.Second)
				srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(9).Params.Name, Audio: sound(9)})
				time.Sleep(2 * time.Minute)
				yield(onePatient(9), nil)
			}
		})
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1, ingest.Created: 1, ingest.AlreadyThere: 1},
			statuses(results), results)
		claim, err := journal.Claim(t.Context(), results[2].JournalKey)
		require.NoError(t, err)
		assert.True(t, claim.Entry().Found, "no response named it")
		claim.Release()
	})
}

// Recordings of one patient that come while the list is being read wait for it.
func TestRun_RecordingsOfOnePatient_ShareOneList(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Delay(time.Second).Always())
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(1), onePatient(2), onePatient(3)))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 3}, statuses(results))
		lists := 0
		for _, r := range srv.Requests() {
			if r.Route == clinicaldoctest.RouteListNotes {
				lists++
			}
		}
		assert.Equal(t, 1, lists)
	})
}

// The lists of 256 patients are kept, and not of all that a run comes across.
func TestRun_ManyPatients_KeepsFewLists(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		const count = 257
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		_, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			for n := range count + 1 {
				r := recording(n)
				r.Params.PatientID = int64(1 + n%count)
				if !yield(r, nil) {
					return
				}
			}
		})
		require.NoError(t, err)
		lists := 0
		for _, r := range srv.Requests() {
			if r.Route == clinicaldoctest.RouteListNotes {
				lists++
			}
		}
		assert.Equal(t, count+1, lists)
	})
}

// A recording without a patient is not looked for among the patients' notes, whatever the list of all notes shows.
func TestRun_RecordingWithoutPatient_TakesNoPatientsNote(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: recording(1).Params.Name, Audio: sound(1)})
	r := recording(1)
	r.Params.PatientID = 0
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t))}
	results, err := collect(t.Context(), u, ingest.Recordings(r))
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, clinicaldoc.ErrValidation, "it is sent, and this service wants a patient")
}

// A note that the journal knows is another recording's is not this one's, for all that both were made of the same
// sound.
func TestRun_NoteOfAnotherKey_IsNotTaken(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t))}
	other := recording(1)
	other.Key = "another"
	for _, r := range []ingest.Recording{recording(1), other} {
		results, err := collect(t.Context(), u, ingest.Recordings(r))
		require.NoError(t, err)
		assert.Equal(t, ingest.Created, results[0].Status, results[0])
	}
	assert.Len(t, srv.Notes(), 2)
}

// Notes that a lost journal knew are found also where lists name no patient, and known from then on with a time, by
// which others find them.
func TestRun_JournalLostAndPatientMissing_FindsTheNote(t *testing.T) {
	t.Parallel()
	srv := newBox(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed}))
	var saved ingest.Entry
	for _, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere} {
		journal := watched{openJournal(t, srv.URL, journalPath(t)), func(e ingest.Entry) { saved = e }}
		results, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(quick()), Journal: journal},
			recordings(0, 1))
		require.NoError(t, err)
		assert.Equal(t, want, results[0].Status, results[0])
		assert.False(t, saved.SentAt.IsZero())
	}
}

// The journal knows that a note is another recording's, so its recording is not read.
func TestRun_NoteOfAnotherRecording_IsNotRead(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 1}
	for n := range 3 {
		visit := onePatient(n)
		visit.Params.Name = "Visit"
		results, err := collect(t.Context(), u, ingest.Recordings(visit))
		require.NoError(t, err)
		require.Equal(t, ingest.Created, results[0].Status, results[0])
	}
}

// counted counts the bytes of responses.
type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// A note's recording that is longer than the one that is looked for is not read to its end.
func TestRun_LongerRecording_IsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	srv := newBox(t, clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(counted{w, &sent}, r) })
	}))
	const long = 64 << 20
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", AudioSize: long})
	visit := onePatient(1)
	visit.Params.Name, visit.Params.Audio = "Visit", clinicaldoc.AudioBytes("a.wav", make([]byte, 100<<10))
	results, err := collect(t.Context(),
		&ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t))},
		ingest.Recordings(visit))
	require.NoError(t, err)
	assert.Equal(t, ingest.InDoubt, results[0].Status)
	assert.Less(t, sent.Load(), int64(long/2))
}

// With AllNew the patient's notes are not listed.
func TestRun_AllNew_ListsNothing(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	got, _ := afresh(t, ingest.Uploader{AllNew: true}, srv, 6)
	require.Equal(t, map[ingest.Status]int{ingest.Created: 6}, got)
	for _, r := range srv.Requests() {
		assert.NotEqual(t, clinicaldoctest.RouteListNotes, r.Route)
	}
	// Not even then is a journal with gaps believed.
	path := journalPath(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	_, err = ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
	results, err := collect(t.Context(),
		&ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, path), AllNew: true}, recordings(0, 6))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 6}, statuses(results))
	assert.Len(t, srv.Notes(), 6)
}

// Each remedy that an error names is done, and notes are counted.
func TestRun_EachRemedy_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	for name, remedy := range map[string]func(t *testing.T, srv *clinicaldoctest.Server, path string, owner ingest.Owner) string{
		"damaged: SalvageJournal": func(t *testing.T, _ *clinicaldoctest.Server, path string, owner ingest.Owner) string {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			content[len(content)/2] ^= 1
			require.NoError(t, os.WriteFile(path, content, 0o600))
			_, err = ingest.OpenJournal(t.Context(), path)
			require.ErrorContains(t, err, "SalvageJournal")
			_, err = ingest.SalvageJournal(t.Context(), path, owner)
			require.NoError(t, err)
			return path
		},
		"emptied: SalvageJournal": func(t *testing.T, _ *clinicaldoctest.Server, path string, owner ingest.Owner) string {
			require.NoError(t, os.Truncate(path, 0))
			_, err := ingest.OpenJournal(t.Context(), path)
			require.ErrorContains(t, err, "SalvageJournal")
			_, err = ingest.SalvageJournal(t.Context(), path, owner)
			require.NoError(t, err)
			return path
		},
		"missing: BeginJournal": func(t *testing.T, _ *clinicaldoctest.Server, path string, owner ingest.Owner) string {
			require.NoError(t, os.Remove(path))
			_, err := ingest.OpenJournal(t.Context(), path)
			require.ErrorContains(t, err, "BeginJournal")
			journal, err := ingest.BeginJournal(t.Context(), path, owner)
			require.NoError(t, err)
			require.NoError(t, journal.Close())
			return path
		},
		"moved: put it back": func(t *testing.T, _ *clinicaldoctest.Server, path string, _ ingest.Owner) string {
			require.NoError(t, os.Rename(path, path+".moved"))
			require.NoError(t, os.Rename(path+".moved", path))
			return path
		},
		"another name of the service: Rename": func(t *testing.T, srv *clinicaldoctest.Server, path string, _ ingest.Owner) string {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			// As if it had been begun under a name that the service no longer has.
			_, entries, err := ingest.ReadJournal(t.Context(), path)
			require.NoError(t, err)
			require.NotEmpty(t, entries)
			require.NotEmpty(t, content)
			journal := openJournal(t, srv.URL, path)
			require.NoError(t, journal.Rename(t.Context(), srv.Client()))
			require.NoError(t, journal.Close())
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, path := newBox(t), journalPath(t)
			owner, err := ingest.OwnerOf(t.Context(), srv.Client())
			require.NoError(t, err)
			for range 2 {
				journal := openJournal(t, srv.URL, path)
				_, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(quick()), Journal: journal},
					recordings(0, 10))
				require.NoError(t, err)
				require.NoError(t, journal.Close())
				path = remedy(t, srv, path, owner)
			}
			journal := openJournal(t, srv.URL, path)
			results, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(quick()), Journal: journal},
				recordings(0, 10))
			require.NoError(t, err)
			got := statuses(results)
			assert.Equal(t, 10, got[ingest.AlreadyThere]+got[ingest.Created], "found, at the latest by FindCreated: %v",
				results)
			assert.Len(t, srv.Notes(), 10)
		})
	}
}

// Twenty of the newest notes say whether it is the same service: the oldest may be gone.
func TestRename_OldestNotesGone_Succeeds(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	journal := openJournal(t, srv.URL, journalPath(t))
	u := &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 1, AllNew: true}
	results, err := collect(t.Context(), u, recordings(0, 25))
	require.NoError(t, err)
	srv.ForgetRequests()
	require.NoError(t, journal.Rename(t.Context(), srv.Client()))
	var read []string
	for _, r := range srv.Requests() {
		if r.Route == clinicaldoctest.RouteGetNote {
			read = append(read, r.Path)
		}
	}
	require.Len(t, read, 20)
	assert.Contains(t, read[0], fmt.Sprint(results[24].NoteID))
}

// A journal goes along when its service gets another name, and only then.
func TestRename_OtherAddress_NeedsTheSameNotes(t *testing.T) {
	t.Parallel()
	srv, other, path := newBox(t), newBox(t), journalPath(t)
	journal := openJournal(t, srv.URL, path)
	_, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 5))
	require.NoError(t, err)
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
	results, err := collect(t.Context(), &ingest.Uploader{Client: moved.Client(), Journal: journal}, recordings(0, 5))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 5}, statuses(results))
	u := &ingest.Uploader{Client: moved.Client(), Journal: journal}
	note := moved.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(9).Params.Name, Audio: sound(5)})
	results, err = collect(t.Context(), u, ingest.Recordings(onePatient(9)))
	require.NoError(t, err)
	require.NoError(t, u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{NoteID: note, By: "a person"}),
		"its patient is known by the first name")
	_, err = collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 5))
	require.ErrorIs(t, err, ingest.ErrOtherService)
}

// A journal can be renamed to another address of its service, but never to another user, who may not see all of its
// notes. A colleague can read those that are checked. A client whose user is not known does not change the journal's
// user.
func TestRename_OtherUser_IsRejected(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	journal := openJournal(t, srv.URL, path)
	_, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 2))
	require.NoError(t, err)
	colleague, err := clinicaldoc.NewClient(srv.URL, srv.AddUser(clinicaldoctest.User{}).Token)
	require.NoError(t, err)
	require.ErrorIs(t, journal.Rename(t.Context(), colleague), ingest.ErrOtherUser)
	_, err = collect(t.Context(), &ingest.Uploader{Client: colleague, Journal: journal}, recordings(0, 3))
	require.ErrorIs(t, err, ingest.ErrOtherUser)

	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(404, "synthetic"))
	require.NoError(t, journal.Rename(t.Context(), srv.Client()))
	_, err = collect(t.Context(), &ingest.Uploader{Client: colleague, Journal: journal}, recordings(0, 3))
	require.ErrorIs(t, err, ingest.ErrOtherUser, "it is still the first one's")
	results, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 2))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 2}, statuses(results))
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
func TestJournal_TenantsByHeader(t *testing.T) {
	t.Parallel()
	servers := map[string]*clinicaldoctest.Server{}
	for _, tenant := range []string{"", "north", "south"} {
		servers[tenant] = clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		t.Cleanup(servers[tenant].Close)
	}
	client := tenants(servers)
	for _, tenant := range []string{"north", "south", ""} {
		owner, err := ingest.OwnerOf(t.Context(), client(t, tenant))
		require.NoError(t, err)
		path := journalPath(t)
		journal, err := ingest.BeginJournal(t.Context(), path, owner)
		require.NoError(t, err)
		results, err := collect(t.Context(), &ingest.Uploader{Client: client(t, tenant), Journal: journal},
			recordings(0, 6))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 6}, statuses(results), "tenant %q", tenant)
		require.NoError(t, journal.Close())
		kept, _, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, owner, kept)
		for other := range servers {
			journal, err := ingest.OpenJournal(t.Context(), path)
			require.NoError(t, err)
			results, err := collect(t.Context(), &ingest.Uploader{Client: client(t, other), Journal: journal},
				recordings(0, 6))
			if other == tenant {
				require.NoError(t, err)
				assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 6}, statuses(results))
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

// A journal of the version before does not say which headers it was begun with: it belongs to the first ones that it is
// used with.
func TestJournal_HeadersUnknown_BindsOnFirstUse(t *testing.T) {
	t.Parallel()
	servers := map[string]*clinicaldoctest.Server{}
	for _, tenant := range []string{"", "north", "south"} {
		servers[tenant] = clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		t.Cleanup(servers[tenant].Close)
	}
	client := tenants(servers)
	path := journalPath(t)
	before := ingest.Owner{Service: "https://api.clinicaldoc.test", UserID: 1}
	journal, err := ingest.BeginJournal(t.Context(), path, before)
	require.NoError(t, err)
	bind := func(tenant string) error {
		_, err := collect(t.Context(), &ingest.Uploader{Client: client(t, tenant), Journal: journal, Owner: before},
			recordings(0, 1))
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

// Headers that change without another tenant lock nobody out: Rename checks the journal's notes and takes the new
// headers.
func TestRename_TakesOtherHeaders(t *testing.T) {
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
	assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 3}, statuses(results))
	require.NoError(t, journal.Close())
}
