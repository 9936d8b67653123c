package ingest_test

import (
	"context"
	"fmt"
	"testing"
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
	srv, u := newUploader(t)
	u.Workers = 8
	results := upload(t, u, generated(60, func(n int) ingest.Recording {
		if n%2 == 1 {
			return letterOf(onePatient(n / 2))
		}
		return onePatient(n / 2)
	}))
	assert.Equal(t, counts{ingest.Created: 60}, statuses(results))
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
			u := uploaderOn(t, srv)
			u.Workers = 1
			results := upload(t, u, ingest.Recordings(order...))
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
					withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
						srv.Inject(clinicaldoctest.RouteCreateNote, firstFault)
						srv.Inject(clinicaldoctest.RouteCreateNote, secondFault)
						u.AllNew = allNew
						list := ingest.Recordings(onePatient(1), letterOf(onePatient(1)))
						results := upload(t, u, list)
						assert.Equal(t, counts{ingest.Created: 2}, statuses(results), results)
						assert.Len(t, srv.Notes(), 2)
						checkOwnNotes(t, srv, results)
					})
				})
			}
		}
	}
}

// A recording is wanted as two notes. A process is killed while it commits the first. The second one waits until the
// first is resolved.
func TestRun_KilledBetweenTwoNotesOfARecording_MakesBoth(t *testing.T) {
	t.Parallel()
	note := onePatient(1)
	letter := letterOf(note)
	for name, made := range map[string]bool{"made": true, "not made": false} {
		for _, order := range [][]ingest.Recording{{note, letter}, {letter, note}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
					killed(t, u, note)
					if made {
						addNote(srv, note, sound(1))
					}

					u.Client = srv.Client(quick())
					u.Workers = 1
					before := len(srv.Notes())
					waits := uploadOne(t, u, letter)
					require.Equal(t, ingest.InDoubt, waits.Status, waits)
					require.ErrorIs(t, waits.Err, ingest.ErrTaken)
					assert.Len(t, srv.Notes(), before, "nothing is sent meanwhile")

					results := upload(t, u, ingest.Recordings(order...))
					assert.Equal(t, counts{ingest.Created: 2}, statuses(results), results)
					assert.Len(t, srv.Notes(), 2)
					checkOwnNotes(t, srv, results)
				})
			})
		}
	}
}

// Two notes are wanted of one recording. The first one's response is lost, and nobody can read which recording its note
// has. The second one is not sent until a person has decided which note is the first one's.
func TestRun_FirstOfTwoNotesUnresolved_SecondWaitsForADecision(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		u.Workers = 1
		note := onePatient(1)
		letter := letterOf(note)
		results := upload(t, u, ingest.Recordings(note, letter))
		require.Equal(t, counts{ingest.InDoubt: 2}, statuses(results), results)
		require.Len(t, srv.Notes(), 1, "the letter was not sent")
		ofNote, ofLetter := results[0], results[1]
		assert.Equal(t, []int64{srv.Notes()[0].ID}, ofNote.Candidates)
		require.ErrorContains(t, ofLetter.Err, "resolve recording "+ofNote.JournalKey.String()+" first")

		decision := ingest.Resolution{NoteID: ofNote.Candidates[0], By: "a person"}
		require.NoError(t, u.Resolve(t.Context(), ofNote.JournalKey, decision))
		result := uploadOne(t, u, letter)
		assert.Equal(t, ingest.Created, result.Status, result)
		assert.Len(t, srv.Notes(), 2)
	})
}

// Each case is a note of the patient, and whether a recording that the journal does not know is already there,
// unresolved or uploaded.
func TestLook_DecidesByProofAlone(t *testing.T) {
	t.Parallel()
	const own, other = "Encounter #9.", "Somebody's"
	longer := append(sound(9), "longer"...)
	type note struct {
		name       string
		audio      []byte
		unreadable bool
	}
	equal, bytesDiffer, sizeDiffers := note{own, sound(9), false}, note{own, sound(2), false}, note{own, longer, false}
	nothing, unchanged := clinicaldoc.Assumptions{}, clinicaldoc.Assumptions{RecordingsUnchanged: true}
	namesUnchanged := clinicaldoc.Assumptions{NamesUnchanged: true}
	for name, c := range map[string]struct {
		note   note
		assume clinicaldoc.Assumptions
		want   ingest.Status
	}{
		"equal":                             {equal, nothing, ingest.AlreadyThere},
		"equal, other name":                 {note{other, sound(9), false}, nothing, ingest.AlreadyThere},
		"equal, other name, unchanged":      {note{other, sound(9), false}, unchanged, ingest.AlreadyThere},
		"other bytes":                       {bytesDiffer, nothing, ingest.InDoubt},
		"other bytes, names unchanged":      {bytesDiffer, namesUnchanged, ingest.InDoubt},
		"other bytes, unchanged":            {bytesDiffer, unchanged, ingest.Created},
		"other bytes, other name":           {note{other, sound(2), false}, nothing, ingest.Created},
		"other bytes, other spelling":       {note{" encounter  #9. ", sound(2), false}, nothing, ingest.InDoubt},
		"other size":                        {sizeDiffers, nothing, ingest.InDoubt},
		"other size, unchanged":             {sizeDiffers, unchanged, ingest.Created},
		"unreadable":                        {note{own, sound(9), true}, nothing, ingest.InDoubt},
		"unreadable, unchanged":             {note{own, sound(9), true}, unchanged, ingest.InDoubt},
		"unreadable, other size, unchanged": {note{own, longer, true}, unchanged, ingest.Created},
		"unreadable, other name":            {note{other, sound(9), true}, nothing, ingest.Created},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: c.note.name, Audio: c.note.audio})
				if c.note.unreadable {
					srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
				}
				u.Client = srv.Client(quick(), clinicaldoc.WithAssumptions(c.assume))
				result := uploadOne(t, u, onePatient(9))
				require.Equal(t, c.want, result.Status, result)
				switch c.want {
				case ingest.InDoubt:
					assert.Equal(t, []int64{id}, result.Candidates)
					require.ErrorContains(t, result.Err,
						fmt.Sprintf("compare it with note %d of 2000-01-01T00:00:00Z", id))
				case ingest.AlreadyThere:
					assert.Equal(t, id, result.NoteID)
				default:
					assert.Len(t, srv.Notes(), 2)
				}
			})
		})
	}
}

// A service may return one recording unchanged and still change another one.
func TestLook_ServiceThatChangesSomeRecordings_DoublesNothing(t *testing.T) {
	t.Parallel()
	srv, first := newUploader(t)
	upload(t, first, recordings(0, 1))
	srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
	upload(t, uploaderOn(t, srv), recordings(0, 7))
	require.Len(t, srv.Notes(), 7)
	for range 2 {
		u := uploaderOn(t, srv)
		u.Workers = 1
		results := upload(t, u, recordings(0, 7))
		assert.Zero(t, statuses(results)[ingest.Created], results)
		assert.Len(t, srv.Notes(), 7)
	}
}

// Two recordings take one note each, also if both are looked for at the same moment.
func TestLook_TwoRecordingsOfOneNote_TakeItOnce(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Renamed", Audio: sound(1)})
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Delay(time.Second).Always())
		results := upload(t, u, ingest.Recordings(onePatient(1), letterOf(onePatient(1))))
		assert.Equal(t, counts{ingest.AlreadyThere: 1, ingest.Created: 1}, statuses(results), results)
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
		"unreadable": always(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			emptyJournal := journalPath(t)
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				prepare(srv)
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				second := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, emptyJournal)}
				for i, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere} {
					u := []*ingest.Uploader{u, second}[i]
					results := upload(t, u, ingest.Recordings(keyed(1), keyed(2), keyed(3)))
					assert.Equal(t, counts{want: 3}, statuses(results), results)
					for _, result := range results {
						assert.Equal(t, result.Recording.Params.Name, noteOf(srv, result.NoteID).Name, result)
					}
				}
				assert.Len(t, srv.Notes(), 3)
			})
		})
	}
}

// If no note has the name, somebody may have renamed the note. So nothing is uploaded again while a note may be the
// recording's.
func TestRun_NameContainsKeyAndNoteIsRenamed_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	for stored, want := range map[clinicaldoctest.StoredAudio]ingest.Status{
		clinicaldoctest.AudioAsSent: ingest.Created, clinicaldoctest.AudioReencoded: ingest.InDoubt,
	} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			t.Parallel()
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				srv.SetVariant(clinicaldoctest.Variant{Audio: stored})
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				time.AfterFunc(time.Minute, func() {
					srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Renamed", Audio: sound(1)})
				})
				result := uploadOne(t, u, keyed(1))
				assert.Equal(t, want, result.Status, result)
				assert.Len(t, srv.Notes(), 1)
			})
		})
	}
}

// A key that is a part of another one, or of its name, does not make the other's note its own.
func TestRun_KeyIsPartOfAnother_NotesAreNotMixedUp(t *testing.T) {
	t.Parallel()
	withKey := func(key, name string) ingest.Recording {
		r := onePatient(2)
		r.Key = key
		r.Params.Name = name
		return r
	}
	short := keyed(1)
	for name, other := range map[string]ingest.Recording{
		"longer":    withKey(short.Key+"0", "Visit ("+short.Key+"0)"),
		"addition":  withKey(short.Key+"-2", "Visit ("+short.Key+"-2)"),
		"same name": withKey(short.Params.Name, short.Params.Name),
	} {
		for _, pair := range [][]ingest.Recording{{short, other}, {other, short}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
					srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
					first := uploadOne(t, u, pair[0])
					srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
					second := uploadOne(t, u, pair[1])
					assert.Equal(t, ingest.Created, second.Status, second)
					assert.NotEqual(t, first.NoteID, second.NoteID)
					assert.Len(t, srv.Notes(), 2)
				})
			})
		}
	}
}

// A key makes the name unique only if no letter or digit continues it.
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

// A note has the unique name but another recording, although the caller states that the service keeps recordings. One
// of these must be wrong, so a person decides.
func TestLook_UniqueNameWithAnotherRecording_IsUnresolved(t *testing.T) {
	t.Parallel()
	for name, audios := range map[string][][]byte{
		"other bytes": {sound(9)}, "another size": {append(sound(2), "longer"...)}, "two notes": {sound(2), sound(5)},
	} {
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			unchanged := clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{RecordingsUnchanged: true})
			u.Client = srv.Client(quick(), unchanged)
			u.Find.UniqueName = true
			var candidates []int64
			for _, audio := range audios {
				candidates = append(candidates, addNote(srv, onePatient(2), audio))
			}
			result := uploadOne(t, u, onePatient(2))
			require.Equal(t, ingest.InDoubt, result.Status, name)
			assert.ElementsMatch(t, candidates, result.Candidates, name)
		})
	}
}

// A person finds the candidates in the journal, in another process too.
func TestJournal_UnresolvedEntry_KeepsCandidates(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		earlier := srv.AddNote(clinicaldoctest.Note{
			PatientID: 7, Name: onePatient(1).Params.Name, CreatedAt: time.Now().Add(-48 * time.Hour),
		})
		for n := 1; n <= 2; n++ {
			require.Equal(t, ingest.InDoubt, runProcess(t, srv, path, time.Hour, onePatient(n)).Status)
		}
		entries := readEntries(t, path)
		require.Len(t, entries, 2)
		for _, e := range entries {
			assert.NotEmpty(t, e.Why)
			want := earlier + 1
			if e.SentAt.IsZero() { // because of the earlier note
				want = earlier
			}
			assert.Equal(t, []int64{want}, e.Candidates())
		}
		assert.Nil(t, ingest.Entry{State: ingest.StateCreated}.Candidates())
		checkEntries(t, path)
	})
}

// With WithoutAudio only a name decides: of two creates whose responses are lost, the one whose note's name contains
// the key is found. The other is unresolved. So is a recording whose name an existing note already has.
func TestRun_WithoutAudio_ReadsNoRecording(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		u.Workers = 1
		u.Find.WithoutAudio = true
		addNote(srv, onePatient(9), sound(9))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Times(2))
		results := upload(t, u, ingest.Recordings(keyed(5), onePatient(1), onePatient(9)))
		assert.Equal(t, counts{ingest.Created: 1, ingest.InDoubt: 2}, statuses(results), results)
		for _, result := range results {
			nameHasKey := result.Recording.Key == keyed(5).Key
			assert.Equal(t, nameHasKey, result.Status == ingest.Created, result)
		}
		assert.Zero(t, requestsTo(srv, clinicaldoctest.RouteAudioURL))
	})
}

// A recording that only one reader can read is not sent while a note has its name.
func TestLook_StreamWithANamesake_IsUnresolved(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		stream := onePatient(1)
		stream.Params.Audio = clinicaldoc.AudioReader("a.wav", nil)
		id := addNote(srv, stream, sound(1))
		result := uploadOne(t, u, stream)
		require.Equal(t, ingest.InDoubt, result.Status, result)
		assert.Equal(t, []int64{id}, result.Candidates)
	})
}

// AllNew skips the search among the patient's notes, but not the wait for an unresolved recording with the same
// content.
func TestRun_AllNew_WaitsForUnresolvedRecordingOfItsContent(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		u.AllNew = true
		note := onePatient(1)
		killed(t, u, note)
		u.Client = srv.Client(quick())
		waits := uploadOne(t, u, letterOf(note))
		assert.Equal(t, ingest.InDoubt, waits.Status, waits)
		results := upload(t, u, ingest.Recordings(letterOf(note), note))
		assert.Equal(t, counts{ingest.Created: 2}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
	})
}

// The recordings of one patient share a list of notes in memory. None of them changes it.
func TestLook_SharedList_StaysWhole(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		for n := range 4 {
			addNote(srv, onePatient(n), sound(n))
		}
		u.Workers = 1
		list := ingest.Recordings(onePatient(0), onePatient(1), onePatient(2), onePatient(3))
		results := upload(t, u, list)
		assert.Equal(t, counts{ingest.AlreadyThere: 4}, statuses(results), results)
		checkOwnNotes(t, srv, results)
	})
}

// Two recordings whose names are equal, and contain both keys, are not identified by their name.
func TestRun_NameOfTwoRecordings_IsNotUnique(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		first := keyed(1)
		second := keyed(1)
		second.Key = first.Params.Name
		second.Params.Audio = clinicaldoc.AudioBytes("a.wav", sound(2))
		srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
		killed(t, u, first)
		addNote(srv, first, sound(1))
		u.Client = srv.Client(quick())
		assert.Equal(t, ingest.InDoubt, uploadOne(t, u, second).Status, "the note is the first one's")
		assert.Len(t, srv.Notes(), 1)
	})
}

// Another process takes the note that was found, before this one does. The error does not say that anything is sent.
func TestRun_FoundNoteTakenByAnother_IsUnresolved(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		addNote(srv, onePatient(1), sound(1))
		note := srv.Notes()[0]
		journal, reads := u.Journal, 0
		withTaker := func(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
			entries, err := journal.EntriesForPatient(ctx, patient, since)
			reads++
			if reads > 1 { // the first one is before the search
				entries = append(entries, ingest.Entry{
					Key: ingest.Key{1}, State: ingest.StateCreated, Patient: patient,
					NoteID: note.ID, NoteCreatedAt: note.CreatedAt,
				})
			}
			return entries, err
		}
		u.Journal = hooked{Journal: journal, entries: withTaker}
		u.MaxPause = -1
		result := uploadOne(t, u, onePatient(1))
		require.Equal(t, ingest.InDoubt, result.Status, result)
		require.ErrorIs(t, result.Err, ingest.ErrTaken)
		require.ErrorContains(t, result.Err, "the note that was found for it belongs to another recording")
		u.MaxPause = 0
		assert.Equal(t, ingest.Created, uploadOne(t, u, onePatient(1)).Status)
		assert.Len(t, srv.Notes(), 2)
	})
}

// While an unresolved recording is searched for, another process begins to send a recording of the same patient. If
// both have the same content, the note that is found may be the other's, so the recording stays unresolved.
func TestRun_SameContentSentDuringSearch_TakesNothing(t *testing.T) {
	t.Parallel()
	for rivalContent, want := range map[string]ingest.Status{
		sumOf(onePatient(1)): ingest.InDoubt, sumOf(onePatient(8)): ingest.Created,
	} {
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			journal, reads := u.Journal, 0
			withRival := func(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
				entries, err := journal.EntriesForPatient(ctx, patient, since)
				isBeforeUpload := since.IsZero()
				if isBeforeUpload || len(entries) == 0 {
					return entries, err
				}
				reads++
				if reads > 1 { // the first is before FindCreated, the second after it has found the note
					rival := entries[0]
					rival.Key[0]++ // another recording's
					rival.State = ingest.StateCommitting
					rival.Loss = nil
					rival.SHA256 = rivalContent
					entries = append(entries, rival)
				}
				return entries, err
			}
			u.Journal = hooked{Journal: journal, entries: withRival}
			result := uploadOne(t, u, onePatient(1))
			assert.Equal(t, want, result.Status, result)
		})
	}
}
