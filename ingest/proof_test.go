package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// letterOf is the same recording, wanted as a second note.
func letterOf(r ingest.Recording) ingest.Recording {
	r.Key += ", letter"
	r.Params.Name = "Letter to " + r.Params.Name
	return r
}

// checkOwnNotes checks that each recording has exactly one note, which has its name and its content.
func checkOwnNotes(t *testing.T, srv *clinicaldoctest.Server, results []ingest.Result) {
	t.Helper()
	for _, result := range results {
		note := noteOf(srv, result.NoteID)
		assert.Equal(t, result.Recording.Params.Name, note.Name, result)
		assert.Equal(t, sumOf(result.Recording), note.AudioSHA256, result)
	}
	names := noteNames(srv)
	for i := 1; i < len(names); i++ {
		assert.NotEqual(t, names[i-1], names[i], "made twice")
	}
}

func TestRun_RecordingWantedTwice_MakesBothNotes(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 8}
	results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
		for n := range 30 {
			if !yield(onePatient(n), nil) || !yield(letterOf(onePatient(n)), nil) {
				return
			}
		}
	})
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 60}, statuses(results))
	assert.Len(t, srv.Notes(), 60)
	checkOwnNotes(t, srv, results)
}

// A lost journal finds both notes again, whichever recording comes first.
func TestLook_RecordingWantedTwice_FindsEachByItsOwnName(t *testing.T) {
	t.Parallel()
	note := onePatient(1)
	letter := letterOf(note)
	for _, order := range [][]ingest.Recording{{note, letter}, {letter, note}} {
		srv := newBox(t)
		for range 2 {
			u := &ingest.Uploader{
				Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 1,
			}
			results, err := collect(t.Context(), u, ingest.Recordings(order...))
			require.NoError(t, err)
			require.Len(t, results, 2)
			checkOwnNotes(t, srv, results)
		}
		assert.Len(t, srv.Notes(), 2)
	}
}

// Each recording gets its own note, and none is made twice, whichever responses are lost.
func TestRun_RecordingWantedTwiceAndLost_MakesBothNotes(t *testing.T) {
	t.Parallel()
	lost := map[string]clinicaldoctest.Fault{
		"made": clinicaldoctest.ResetAfterCommit(), "not made": clinicaldoctest.ResetAfterRequest(),
	}
	for first, firstFault := range lost {
		for second, secondFault := range lost {
			for _, allNew := range []bool{false, true} {
				t.Run(fmt.Sprint(first, ", ", second, ", all new: ", allNew), func(t *testing.T) {
					t.Parallel()
					withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
						srv.Inject(clinicaldoctest.RouteCreateNote, firstFault)
						srv.Inject(clinicaldoctest.RouteCreateNote, secondFault)
						u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: allNew}
						list := ingest.Recordings(onePatient(1), letterOf(onePatient(1)))
						results, err := collect(t.Context(), u, list)
						require.NoError(t, err)
						assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results), results)
						assert.Len(t, srv.Notes(), 2)
						checkOwnNotes(t, srv, results)
					})
				})
			}
		}
	}
}

// A process is killed while it commits the first of the two. The other one waits until it is known what became of the
// first.
func TestRun_KilledBetweenTwoNotesOfARecording_MakesBoth(t *testing.T) {
	t.Parallel()
	note := onePatient(1)
	letter := letterOf(note)
	for name, made := range map[string]bool{"made": true, "not made": false} {
		for _, order := range [][]ingest.Recording{{note, letter}, {letter, note}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
					journal, err := openOrBegin(t.Context(), srv.URL, path)
					require.NoError(t, err)
					u := &ingest.Uploader{Client: srv.Client(quick()), Journal: dying{journal}, Workers: 1}
					_, err = collect(t.Context(), u, ingest.Recordings(note))
					require.Error(t, err)
					if made {
						srv.AddNote(clinicaldoctest.Note{
							PatientID: 7, Name: note.Params.Name, Audio: sound(1), CreatedAt: time.Now(),
						})
					}

					u = &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
					before := len(srv.Notes())
					results, err := collect(t.Context(), u, ingest.Recordings(letter))
					require.NoError(t, err)
					require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results), results)
					require.ErrorIs(t, results[0].Err, ingest.ErrTaken)
					assert.Len(t, srv.Notes(), before, "nothing is sent meanwhile")

					results, err = collect(t.Context(), u, ingest.Recordings(order...))
					require.NoError(t, err)
					assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results), results)
					assert.Len(t, srv.Notes(), 2)
					checkOwnNotes(t, srv, results)
					require.NoError(t, journal.Close())
				})
			})
		}
	}
}

// Two notes are wanted of one recording. The first one's response is lost, and nobody can read which recording its note
// has. The second one is not sent until a person has decided which note is the first one's.
func TestRun_FirstOfTwoNotesUnresolved_SecondWaitsForADecision(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		note := onePatient(1)
		letter := letterOf(note)
		results, err := collect(t.Context(), u, ingest.Recordings(note, letter))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 2}, statuses(results), results)
		require.Len(t, srv.Notes(), 1, "the letter was not sent")
		ofNote, ofLetter := results[0], results[1]
		assert.Equal(t, []int64{srv.Notes()[0].ID}, ofNote.Candidates)
		require.ErrorContains(t, ofLetter.Err, "resolve recording "+ofNote.JournalKey.String()+" first")

		decision := ingest.Resolution{NoteID: ofNote.Candidates[0], By: "a person"}
		require.NoError(t, u.Resolve(t.Context(), ofNote.JournalKey, decision))
		results, err = collect(t.Context(), u, ingest.Recordings(letter))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
	})
}

// lookCase is a note of the patient that the journal does not know.
type lookCase struct {
	name       string // of the note
	audio      []byte
	unreadable bool
	assume     clinicaldoc.Assumptions
	want       ingest.Status
}

// What a note shows of a recording that the journal does not know.
func TestLook_DecidesByProofAlone(t *testing.T) {
	t.Parallel()
	const own, other = "Encounter #9.", "Somebody's"
	unchanged := clinicaldoc.Assumptions{RecordingsUnchanged: true}
	longer := append(sound(9), "longer"...)
	for name, c := range map[string]lookCase{
		"equal": {
			own, sound(9), false, clinicaldoc.Assumptions{}, ingest.AlreadyThere,
		},
		"equal, other name": {
			other, sound(9), false, clinicaldoc.Assumptions{}, ingest.AlreadyThere,
		},
		"equal, other name, unchanged": {other, sound(9), false, unchanged, ingest.AlreadyThere},
		"other bytes":                  {own, sound(2), false, clinicaldoc.Assumptions{}, ingest.InDoubt},
		"other size":                   {own, longer, false, clinicaldoc.Assumptions{}, ingest.InDoubt},
		"other bytes, unchanged":       {own, sound(2), false, unchanged, ingest.Created},
		"other size, unchanged":        {own, longer, false, unchanged, ingest.Created},
		"other bytes, name in another spelling": {
			" encounter  #9. ", sound(2), false, clinicaldoc.Assumptions{}, ingest.InDoubt,
		},
		"unreadable":                        {own, sound(9), true, clinicaldoc.Assumptions{}, ingest.InDoubt},
		"unreadable, unchanged":             {own, sound(9), true, unchanged, ingest.InDoubt},
		"unreadable, other size, unchanged": {own, longer, true, unchanged, ingest.Created},
		"other bytes, other name":           {other, sound(2), false, clinicaldoc.Assumptions{}, ingest.Created},
		"unreadable, other name":            {other, sound(9), true, clinicaldoc.Assumptions{}, ingest.Created},
		"other bytes, names are said to be kept": {
			own, sound(2), false, clinicaldoc.Assumptions{NamesUnchanged: true}, ingest.InDoubt,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
				id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: c.name, Audio: c.audio})
				if c.unreadable {
					srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
				}
				client := srv.Client(quick(), clinicaldoc.WithAssumptions(c.assume))
				u := &ingest.Uploader{Client: client, Journal: journal}
				results, err := collect(t.Context(), u, ingest.Recordings(onePatient(9)))
				require.NoError(t, err)
				require.Equal(t, map[ingest.Status]int{c.want: 1}, statuses(results), results)
				switch c.want {
				case ingest.InDoubt:
					assert.Equal(t, []int64{id}, results[0].Candidates)
					require.ErrorContains(t, results[0].Err,
						fmt.Sprintf("compare it with note %d of 2000-01-01T00:00:00Z", id))
				case ingest.AlreadyThere:
					assert.Equal(t, id, results[0].NoteID)
				default:
					assert.Len(t, srv.Notes(), 2)
				}
			})
		})
	}
}

// One recording that comes back as it was sent says nothing about another one.
func TestLook_ServiceThatChangesSomeRecordings_DoublesNothing(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	got, _ := afresh(t, ingest.Uploader{}, srv, 1)
	require.Equal(t, map[ingest.Status]int{ingest.Created: 1}, got)
	srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
	got, _ = afresh(t, ingest.Uploader{}, srv, 7)
	require.Equal(t, 6, got[ingest.Created], got)
	for range 2 {
		got, results := afresh(t, ingest.Uploader{Workers: 1}, srv, 7)
		assert.Zero(t, got[ingest.Created], results)
		assert.Len(t, srv.Notes(), 7)
	}
}

// Two recordings take one note each, also if both are looked for at the same moment.
func TestLook_TwoRecordingsOfOneNote_TakeItOnce(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Renamed", Audio: sound(1)})
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Delay(time.Second).Always())
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(1), letterOf(onePatient(1))))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 1, ingest.Created: 1}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
	})
}

// keyed is a recording whose name contains its key.
func keyed(n int) ingest.Recording {
	r := onePatient(n)
	r.Key = fmt.Sprintf("ENC-2026-%04d", n)
	r.Params.Name = "Visit (" + r.Key + ")"
	return r
}

// A name that contains the key identifies the note, whatever the service does with recordings.
func TestRun_NameContainsKey_IsResolvedWithoutRecordings(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*clinicaldoctest.Server){
		"re-encoded": func(srv *clinicaldoctest.Server) {
			srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
		},
		"unreadable": func(srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := []string{journalPath(t), journalPath(t)}
			synctest.Test(t, func(t *testing.T) {
				srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
				defer srv.Close()
				prepare(srv)
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				// the second journal is empty
				for i, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere} {
					journal, err := openOrBegin(t.Context(), srv.URL, paths[i])
					require.NoError(t, err)
					u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
					results, err := collect(t.Context(), u, ingest.Recordings(keyed(1), keyed(2), keyed(3)))
					require.NoError(t, err)
					assert.Equal(t, map[ingest.Status]int{want: 3}, statuses(results), results)
					checkOwnNames(t, srv, results)
					require.NoError(t, journal.Close())
				}
				assert.Len(t, srv.Notes(), 3)
			})
		})
	}
}

func checkOwnNames(t *testing.T, srv *clinicaldoctest.Server, results []ingest.Result) {
	t.Helper()
	for _, result := range results {
		assert.Equal(t, result.Recording.Params.Name, noteOf(srv, result.NoteID).Name, result)
	}
}

// That no note has the name is not enough: somebody may have changed it. Nothing is sent again while a note may be it.
func TestRun_NameContainsKeyAndNoteIsRenamed_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	for name, readable := range map[string]bool{"readable": true, "re-encoded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
				if !readable {
					srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
				}
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				time.AfterFunc(time.Minute, func() {
					srv.AddNote(clinicaldoctest.Note{
						PatientID: 7, Name: "Renamed", Audio: sound(1), CreatedAt: time.Now(),
					})
				})
				u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
				results, err := collect(t.Context(), u, ingest.Recordings(keyed(1)))
				require.NoError(t, err)
				want := ingest.InDoubt
				if readable {
					want = ingest.Created
				}
				assert.Equal(t, map[ingest.Status]int{want: 1}, statuses(results), results)
				assert.Len(t, srv.Notes(), 1)
			})
		})
	}
}

// A key that is a part of another one, or of its name, does not make the other's note its own.
func TestRun_KeyIsPartOfAnother_NotesAreNotMixedUp(t *testing.T) {
	t.Parallel()
	short := keyed(1)
	longer := keyed(1)
	longer.Key = short.Key + "0"
	longer.Params.Name = "Visit (" + longer.Key + ")"
	addition := keyed(1)
	addition.Key = short.Key + "-2"
	addition.Params.Name = "Visit (" + addition.Key + ")"
	sameName := short
	sameName.Key = "Visit (" + short.Key + ")"
	for name, other := range map[string]ingest.Recording{
		"longer": longer, "addition": addition, "same name": sameName,
	} {
		other.Params.Audio = clinicaldoc.AudioBytes("a.wav", sound(2))
		for _, pair := range [][]ingest.Recording{{short, other}, {other, short}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
					srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
					u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
					results, err := collect(t.Context(), u, ingest.Recordings(pair[0]))
					require.NoError(t, err)
					first := results[0].NoteID
					srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
					results, err = collect(t.Context(), u, ingest.Recordings(pair[1]))
					require.NoError(t, err)
					require.Len(t, results, 1)
					assert.Equal(t, ingest.Created, results[0].Status, results[0])
					assert.NotEqual(t, first, results[0].NoteID)
					assert.Len(t, srv.Notes(), 2)
				})
			})
		}
	}
}

// Only a key that stands for itself in the name makes it unique.
func TestContainsKey_PartOfAWord_DoesNotCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key string
		want      bool
	}{
		{"ENC-2026-0001", "ENC-2026-0001", true},
		{"Visit ENC-2026-0001, letter", "ENC-2026-0001", true},
		{"Visit ENC-2026-00010", "ENC-2026-0001", false},
		{"Visit XENC-2026-0001", "ENC-2026-0001", false},
		{"ENC-2026-00010 ENC-2026-0001", "ENC-2026-0001", true},
		{"aaaaaaaaa aaaaaaaa", "aaaaaaaa", true},
		{"Visit 1234567", "1234567", false},
		{"Visit 12345678", "12345678", true},
		{"Visit 12345678é", "12345678", false},
		{"Visit 12345678\u0301", "12345678", false},
		{"Caf\u00e9-2026", "Cafe\u0301-2026", true},
		{"Visit --------", "--------", false},
		{"Visit", "", false},
		{"", "ENC-2026-0001", false},
	} {
		assert.Equal(t, c.want, ingest.ContainsKey(c.name, c.key), c)
	}
}

// With a unique name another recording is a reason to wonder, if the service is said to keep recordings.
func TestLook_UniqueNameWithAnotherRecording_IsUnresolved(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		unchanged := clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{RecordingsUnchanged: true})
		u := &ingest.Uploader{Client: srv.Client(quick(), unchanged), Journal: journal, Workers: 1}
		u.Find.UniqueName = true
		for n, audio := range map[int][]byte{2: sound(9), 3: append(sound(3), "longer"...)} {
			id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(n).Params.Name, Audio: audio})
			results, err := collect(t.Context(), u, ingest.Recordings(onePatient(n)))
			require.NoError(t, err)
			require.Equal(t, ingest.InDoubt, results[0].Status, results[0])
			assert.Equal(t, []int64{id}, results[0].Candidates)
		}
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(4).Params.Name, Audio: sound(4)})
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(4).Params.Name, Audio: sound(5)})
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(4)))
		require.NoError(t, err)
		require.Equal(t, ingest.InDoubt, results[0].Status, "two notes have it")
		assert.Len(t, results[0].Candidates, 2)
	})
}

// A person finds the candidates in the journal, in another process too.
func TestJournal_UnresolvedEntry_KeepsCandidates(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		earlier := srv.AddNote(clinicaldoctest.Note{
			PatientID: 7, Name: onePatient(1).Params.Name, CreatedAt: time.Now().Add(-48 * time.Hour),
		})
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(1), onePatient(2)))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 2}, statuses(results), results)
		require.NoError(t, journal.Close())
		_, entries, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		for _, e := range entries {
			assert.NotEmpty(t, e.Why)
			switch e.SentAt.IsZero() {
			case true:
				assert.Equal(t, []int64{earlier}, e.Candidates(), "it was not sent")
			case false:
				assert.Equal(t, []int64{earlier + 1}, e.Candidates(), "it was sent")
			}
		}
		assert.Nil(t, ingest.Entry{State: ingest.StateCreated}.Candidates())
		checkEntries(t, path)
	})
}

// Where recordings must not be read, nothing but a unique name decides.
func TestRun_WithoutAudio_ReadsNoRecording(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		u.Find.WithoutAudio = true
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(9).Params.Name, Audio: sound(9)})
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Times(2))
		results, err := collect(t.Context(), u, ingest.Recordings(keyed(5), onePatient(1), onePatient(9)))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1, ingest.InDoubt: 2}, statuses(results), results)
		for _, r := range srv.Requests() {
			assert.NotEqual(t, clinicaldoctest.RouteAudioURL, r.Route)
		}
	})
}

// A recording that only one reader can read is not sent while a note has its name.
func TestLook_StreamWithANamesake_IsUnresolved(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		stream := onePatient(1)
		stream.Params.Audio = clinicaldoc.AudioReader("a.wav", nil)
		id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: stream.Params.Name, Audio: sound(1)})
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		results, err := collect(t.Context(), u, ingest.Recordings(stream))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results), results)
		assert.Equal(t, []int64{id}, results[0].Candidates)
	})
}

// AllNew skips the search among the patient's notes, but not the wait for an unresolved recording with the same
// content.
func TestRun_AllNew_WaitsForUnresolvedRecordingOfItsContent(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		note := onePatient(1)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: dying{journal}, AllNew: true}
		_, err := collect(t.Context(), u, ingest.Recordings(note))
		require.Error(t, err)
		u = &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true}
		results, err := collect(t.Context(), u, ingest.Recordings(letterOf(note)))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results), results)
		results, err = collect(t.Context(), u, ingest.Recordings(letterOf(note), note))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
	})
}

// Recordings of one patient share a list of notes, from which none of them takes anything away.
func TestLook_SharedList_StaysWhole(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		for n := range 4 {
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: onePatient(n).Params.Name, Audio: sound(n)})
		}
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		list := ingest.Recordings(onePatient(0), onePatient(1), onePatient(2), onePatient(3))
		results, err := collect(t.Context(), u, list)
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 4}, statuses(results), results)
		checkOwnNotes(t, srv, results)
	})
}

// Two recordings whose names are equal, and contain both keys, are not identified by their name.
func TestRun_NameOfTwoRecordings_IsNotUnique(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		first := keyed(1)
		second := keyed(1)
		second.Key = first.Params.Name
		second.Params.Audio = clinicaldoc.AudioBytes("a.wav", sound(2))
		srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: dying{journal}, Workers: 1}
		_, err := collect(t.Context(), u, ingest.Recordings(first))
		require.Error(t, err)
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: first.Params.Name, Audio: sound(1), CreatedAt: time.Now()})
		u = &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		results, err := collect(t.Context(), u, ingest.Recordings(second))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results), "the note is the first one's")
		assert.Len(t, srv.Notes(), 1)
	})
}

// growing is a journal in which another process begins to send the same recording while this one is asked about.
type growing struct {
	ingest.Journal
	rival func(ingest.Entry) ingest.Entry
	calls *int
}

func (j growing) EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	entries, err := j.Journal.EntriesForPatient(ctx, patient, since)
	if since.IsZero() || len(entries) == 0 {
		return entries, err
	}
	*j.calls++
	if *j.calls > 1 {
		entries = append(entries, j.rival(entries[0]))
	}
	return entries, err
}

func TestResolve_RivalAppearsDuringSearch_TakesNothing(t *testing.T) {
	t.Parallel()
	for name, sameContent := range map[string]bool{"same content": true, "other content": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				rival := func(e ingest.Entry) ingest.Entry {
					e.Key[0]++
					e.State = ingest.StateCommitting
					e.Loss = nil
					if !sameContent {
						e.SHA256 = sumOf(onePatient(8))
					}
					return e
				}
				u := &ingest.Uploader{Client: srv.Client(quick()), Journal: growing{file, rival, new(int)}}
				results, err := collect(t.Context(), u, ingest.Recordings(onePatient(1)))
				require.NoError(t, err)
				want := ingest.Created
				if sameContent {
					want = ingest.InDoubt
				}
				assert.Equal(t, map[ingest.Status]int{want: 1}, statuses(results), results)
			})
		})
	}
}
