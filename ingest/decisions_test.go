package ingest_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// The decisions of these tests are made by this person.
const person = "a person"

func sendAgain() ingest.Resolution { return ingest.Resolution{SendAgain: true, By: person} }

func none() ingest.Resolution { return ingest.Resolution{By: person} }

// runOne is a run over the recording with this number.
func (n *night) runOne(number int) ingest.Result {
	n.t.Helper()
	report := n.run(number, number+1)
	require.Len(n.t, report.Results, 1)
	return report.Results[0]
}

// content returns the journal as it is now, to be restored later.
func (n *night) content() []byte {
	n.t.Helper()
	content := read(n.t, n.path)
	return content
}

func (n *night) restore(content []byte) {
	n.t.Helper()
	require.NoError(n.t, os.WriteFile(n.path, content, 0o600))
}

// damageAfter makes all lines after the first ones unreadable, or the last line if there are no others, and salvages
// the rest.
func (n *night) damageAfter(whole []byte) {
	n.t.Helper()
	lines := bytes.SplitAfter(bytes.TrimSuffix(n.content(), []byte("\n")), []byte("\n"))
	damaged := min(bytes.Count(whole, []byte("\n")), len(lines)-1)
	for _, line := range lines[damaged:] {
		line[0] ^= 1
	}
	n.restore(append(bytes.Join(lines, nil), '\n'))
	owner, err := ingest.OwnerOf(n.t.Context(), n.srv.Client())
	require.NoError(n.t, err)
	lost, err := ingest.SalvageJournal(n.t.Context(), n.path, owner)
	require.NoError(n.t, err)
	assert.Positive(n.t, lost)
}

func (n *night) rename() {
	n.t.Helper()
	n.uploader(func(u *ingest.Uploader) {
		require.NoError(n.t, u.Journal.(*ingest.FileJournal).Rename(n.t.Context(), u.Client))
	})
}

func TestResolve_SendAgain_UploadsOnce(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		nights(t, func(t *testing.T, n *night) {
			failed := n.runFailing()
			if deleted {
				_, err := n.srv.Client().Notes.Delete(t.Context(), failed.NoteID)
				require.NoError(t, err)
			}
			require.NoError(t, n.resolve(failed.JournalKey, sendAgain()))
			require.NoError(t, n.resolve(failed.JournalKey, sendAgain()), "saying it twice changes nothing")
			var progress ingest.Progress
			again := n.runWith(func(u *ingest.Uploader) {
				u.OnEvent = func(e ingest.Event) { progress = e.Progress }
			}, recordings(0, 2))
			assert.Equal(t, 2, again.Count(ingest.Complete), again)
			assert.Equal(t, 1, progress.SentAgain, "it is counted apart")
			done := n.runOne(0)
			assert.Equal(t, ingest.Complete, done.Status)
			assert.NotEqual(t, failed.NoteID, done.NoteID)
			assert.Equal(t, []int64{failed.NoteID}, done.Replaced, "the old note's id is kept")
			assert.Equal(t, 3, n.creates(), "two for the one that failed, and one for the other")
			require.ErrorIs(t, n.resolve(done.JournalKey, sendAgain()), clinicaldoc.ErrInvalidArgument,
				"its note is complete")
			assert.Equal(t, ingest.Complete, n.runOne(0).Status)
			assert.Equal(t, 3, n.creates())
		})
	}
}

func TestResolve_SendAgainTwice_KeepsBothNotes(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		old := []int64{n.sentAgain().NoteID, n.sentAgain().NoteID}
		done := n.runOne(0)
		assert.Equal(t, ingest.Complete, done.Status)
		assert.Equal(t, old, done.Replaced)
		assert.Equal(t, 3, n.creates())
	})
}

// The service refuses the second upload. The journal keeps the decision, and the failed note is not taken for the new
// one.
func TestResolve_SendAgainAndRefused_StaysDecided(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		failed := n.sentAgain()
		n.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"synthetic"}`).Times(2))
		assert.Equal(t, ingest.Refused, n.runOne(0).Status)
		assert.Equal(t, ingest.Refused, n.runOne(0).Status)
		done := n.runOne(0)
		assert.Equal(t, ingest.Complete, done.Status)
		assert.Equal(t, []int64{failed.NoteID}, done.Replaced)
		assert.Equal(t, 2, n.creates())
	})
}

// The response to the second upload is lost: it is found, and the failed note with the same recording is not.
func TestResolve_SendAgainAndLost_FindsTheNewNote(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"committed": clinicaldoctest.ResetAfterCommit(), "not committed": clinicaldoctest.ResetAfterRequest(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nights(t, func(t *testing.T, n *night) {
				failed := n.sentAgain()
				n.srv.Inject(clinicaldoctest.RouteCreateNote, fault)
				done := n.runOne(0)
				assert.Equal(t, ingest.Complete, done.Status, done.Err)
				assert.NotEqual(t, failed.NoteID, done.NoteID)
				assert.Equal(t, 2, n.creates())
			})
		})
	}
}

// One recording is wanted as a progress note and a letter. The letter never takes the failed note of the progress note.
func TestResolve_SendAgain_OldNoteIsNotTakenByAnother(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.sentAgain()
		report := n.runWith(nil, ingest.Recordings(letterOf(recording(0))))
		assert.Equal(t, 1, report.Count(ingest.Complete), report)
		assert.Equal(t, ingest.Complete, n.runOne(0).Status)
		assert.Equal(t, 3, n.creates())
	})
}

// A person may name another note for a recording whose note failed. The next run reports that one, and creates none.
func TestResolve_NoteInsteadOfAFailedOne_IsSaved(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		failed := n.runFailing()
		note := n.srv.AddNote(clinicaldoctest.Note{
			PatientID: 1, Name: "Written by hand", Stage: clinicaldoctest.StageComplete,
		})
		require.NoError(t, n.resolve(failed.JournalKey, ingest.Resolution{NoteID: note, By: person}))
		done := n.runOne(0)
		assert.Equal(t, ingest.Complete, done.Status)
		assert.Equal(t, note, done.NoteID)
		assert.Equal(t, []int64{failed.NoteID}, done.Replaced)
		assert.Equal(t, 1, n.creates())
		require.ErrorIs(t, n.resolve(done.JournalKey, ingest.Resolution{NoteID: failed.NoteID, By: person}),
			clinicaldoc.ErrInvalidArgument, "a replaced note is not taken back")
	})
}

func TestResolve_NoteInProcessing_IsRejected(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetDelays(transcribingFor(10 * time.Hour))
		working := n.runOne(0)
		require.Equal(t, ingest.Processing, working.Status)
		err := n.resolve(working.JournalKey, sendAgain())
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.ErrorContains(t, err, "is transcribing")
		require.ErrorIs(t, n.resolve(working.JournalKey, none()), clinicaldoc.ErrInvalidArgument)
		require.ErrorIs(t, n.resolve(ingest.Key{1}, sendAgain()), clinicaldoc.ErrInvalidArgument)
		require.ErrorIs(t, n.resolve(working.JournalKey, ingest.Resolution{NoteID: 1, SendAgain: true, By: person}),
			clinicaldoc.ErrInvalidArgument)
		n.srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(503, "synthetic").Always())
		require.ErrorIs(t, n.resolve(working.JournalKey, sendAgain()), clinicaldoc.ErrServer,
			"whether it failed is not known")
		n.srv.ClearFaults()
		assert.Equal(t, ingest.Processing, n.runOne(0).Status)
		assert.Equal(t, 1, n.creates())
	})
}

// lose runs until the response of the recording's upload is lost, and ends the run then.
func (n *night) lose(number int, fault clinicaldoctest.Fault) (lost ingest.Result) {
	n.t.Helper()
	n.srv.Inject(clinicaldoctest.RouteCreateNote, fault)
	n.uploader(func(u *ingest.Uploader) { lost = uploadUntilUnresolved(n.t, u, recording(number)) })
	return lost
}

// The service commits late. A person who decides seconds after the loss that there is no note would cause a second one.
func TestResolve_NoneTooEarly_IsRejected(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		lost := n.lose(0, clinicaldoctest.ResetAfterRequest().CommitAfter(2*time.Minute))
		time.Sleep(5 * time.Second)
		err := n.resolve(lost.JournalKey, none())
		require.ErrorIs(t, err, ingest.ErrTooEarly)
		require.ErrorContains(t, err, lost.Until.UTC().Format(time.RFC3339), "the text names the time")
		time.Sleep(time.Until(lost.Until))
		require.NoError(t, n.resolve(lost.JournalKey, none()))
		assert.Equal(t, ingest.Complete, n.runOne(0).Status)
		assert.Equal(t, 1, n.creates(), "equal content is not overridden")
	})
}

// A person decides that a note is not the recording's, and deletes it. The recording's own note gets its ID.
func TestResolve_None_DoesNotRuleOutALaterNoteWithTheID(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		variant := n.srv.Variant()
		variant.ReuseIDs = true
		n.srv.SetVariant(variant)
		other := addNote(n.srv, recording(0), sound(5))
		unresolved := n.runOne(0)
		require.Equal(t, []int64{other}, unresolved.Candidates)
		require.NoError(t, n.resolve(unresolved.JournalKey, none()))
		_, err := n.srv.Client().Notes.Delete(t.Context(), other)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		n.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		result := n.runOne(0)
		assert.Equal(t, ingest.Complete, result.Status, result)
		assert.Equal(t, other, result.NoteID)
		assert.Equal(t, 1, n.creates())
	})
}

// This machine's clock is set forward after the response was lost. The service has not committed the upload yet.
func TestResolve_NoneAfterAClockStep_IsRejected(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		require.Equal(t, ingest.Complete, n.runOne(1).Status, "which compares the clocks")
		lost := n.lose(0, clinicaldoctest.ResetAfterRequest().CommitAfter(2*time.Minute))
		n.srv.Freeze() // to it, no time passes
		time.Sleep(time.Hour)
		err := n.resolve(lost.JournalKey, none())
		require.ErrorIs(t, err, ingest.ErrTooEarly)
		require.ErrorContains(t, err, "by the service's clock")
		n.srv.Unfreeze()
		time.Sleep(11 * time.Minute)
		require.NoError(t, n.resolve(lost.JournalKey, none()))
		assert.Equal(t, ingest.Complete, n.runOne(0).Status)
		assert.Equal(t, 2, n.creates(), "one of each recording")
	})
}

func TestResolve_NoneForced_Uploads(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		lost := n.lose(0, clinicaldoctest.ResetAfterRequest())
		decision := none()
		decision.Force = true
		require.NoError(t, n.resolve(lost.JournalKey, decision))
		assert.Equal(t, ingest.Complete, n.runOne(0).Status)
		assert.Equal(t, 1, n.creates())
	})
}

// A process that was killed has recorded only that its last bytes may have been sent. The time from which it can be
// decided is unknown until a run has found the entry.
func TestResolve_NoneAfterAKilledProcess_IsRejected(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		var saved ingest.Entry
		u.Journal = watched(u.Journal, func(e ingest.Entry) { saved = e })
		killed(t, u, onePatient(2))
		err := u.Resolve(t.Context(), saved.Key, none())
		require.ErrorIs(t, err, ingest.ErrTooEarly)
		require.ErrorContains(t, err, "Run the upload again first")
	})
}

// decisions are what a person can decide, each with the state of the box before it and how many notes there may be in
// the end.
func decisions() map[string]func(t *testing.T, n *night) (notes int) {
	inDoubt := func(t *testing.T, n *night) ingest.Result {
		t.Helper()
		addNote(n.srv, recording(0), sound(5))
		doubt := n.runOne(0)
		require.Equal(t, ingest.InDoubt, doubt.Status)
		require.NotEmpty(t, doubt.Candidates)
		return doubt
	}
	return map[string]func(t *testing.T, n *night) int{
		"none": func(t *testing.T, n *night) int {
			t.Helper()
			require.NoError(t, n.resolve(inDoubt(t, n).JournalKey, none()))
			return 2
		},
		"note": func(t *testing.T, n *night) int {
			t.Helper()
			doubt := inDoubt(t, n)
			require.NoError(t, n.resolve(doubt.JournalKey, ingest.Resolution{NoteID: doubt.Candidates[0], By: person}))
			return 1
		},
		"send again": func(t *testing.T, n *night) int {
			t.Helper()
			n.srv.ScriptNext(failure())
			require.NoError(t, n.resolve(n.runOne(0).JournalKey, sendAgain()))
			return 2
		},
	}
}

// After each decision, and the run that follows it, the journal is salvaged, restored or renamed, as the runbook says.
// Nothing of it makes another note, whatever the service does with recordings.
func TestResolve_JournalRepairedAfterADecision_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	repairs := map[string]func(n *night, decided []byte){
		"nothing":  func(*night, []byte) {},
		"salvaged": func(n *night, decided []byte) { n.damageAfter(decided) },
		"restored": func(n *night, decided []byte) { n.restore(decided) },
		"renamed":  func(n *night, _ []byte) { n.rename() },
		"lost":     func(n *night, _ []byte) { require.NoError(n.t, os.Remove(n.path)) },
	}
	for name, decide := range decisions() {
		for repair, do := range repairs {
			for _, audio := range []clinicaldoctest.StoredAudio{
				clinicaldoctest.AudioAsSent, clinicaldoctest.AudioReencoded,
			} {
				t.Run(name+"/"+repair+"/"+fmt.Sprint(audio), func(t *testing.T) {
					t.Parallel()
					nights(t, func(t *testing.T, n *night) {
						n.srv.SetVariant(clinicaldoctest.Variant{Audio: audio})
						notes := decide(t, n)
						decided := n.content()
						require.Equal(t, ingest.Complete, n.runOne(0).Status)
						require.Len(t, n.srv.Notes(), notes)
						do(n, decided)
						for range 3 {
							after := n.runOne(0)
							assert.Contains(t, []ingest.Status{ingest.Complete, ingest.InDoubt}, after.Status, after)
							if audio == clinicaldoctest.AudioAsSent && name != "note" {
								assert.Equal(t, ingest.Complete, after.Status, after.Err)
							}
						}
						assert.Len(t, n.srv.Notes(), notes, "a second note")
					})
				})
			}
		}
	}
}

// runFailing is a run over the first recording, which the service cannot process.
func (n *night) runFailing() ingest.Result {
	n.t.Helper()
	n.srv.ScriptNext(failure())
	failed := n.runOne(0)
	require.Equal(n.t, ingest.Failed, failed.Status)
	return failed
}

// sentAgain is a recording that the service could not process. A person has decided to send it again.
func (n *night) sentAgain() ingest.Result {
	n.t.Helper()
	failed := n.runFailing()
	require.NoError(n.t, n.resolve(failed.JournalKey, sendAgain()))
	return failed
}
