package ingest_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
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

// failure is the script of a note that the service cannot process.
func failure() clinicaldoctest.Script {
	return clinicaldoctest.Script{TranscriptionError: "synthetic error state"}
}

// transcribingFor is a service that takes this time to transcribe.
func transcribingFor(d time.Duration) clinicaldoctest.Delays {
	return clinicaldoctest.Delays{Transcribing: d}
}

// night is a service and a journal in virtual time, and the runs over it.
type night struct {
	t    *testing.T
	srv  *clinicaldoctest.Server
	path string
	// older says that an older version wrote the journal, which kept less of a recording.
	older bool
}

// nights runs a test in virtual time, with a service of its own and one journal, over which it runs again and again.
func nights(t *testing.T, test func(t *testing.T, n *night)) {
	t.Helper()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		test(t, &night{t: t, srv: srv, path: path})
	})
}

// uploader opens the journal, for the time of one call.
func (n *night) uploader(do func(u *ingest.Uploader)) {
	n.t.Helper()
	journal, err := openOrBegin(n.t.Context(), n.srv.URL, n.path)
	require.NoError(n.t, err)
	do(&ingest.Uploader{Client: n.srv.Client(quick()), Journal: journal})
	require.NoError(n.t, journal.Close())
	if !n.older {
		checkEntries(n.t, n.path)
	}
}

// run is one run over the recordings with these numbers.
func (n *night) run(first, last int) *ingest.Report {
	n.t.Helper()
	return n.runWith(nil, recordings(first, last))
}

func (n *night) resolve(key ingest.Key, decision ingest.Resolution) (err error) {
	n.t.Helper()
	n.uploader(func(u *ingest.Uploader) { err = u.Resolve(n.t.Context(), key, decision) })
	return err
}

// creates is how often a note was created.
func (n *night) creates() int { return len(n.srv.Created()) }

func TestRunAll_NotesInProcessing_WaitsUntilComplete(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetDelays(transcribingFor(3 * time.Minute))
		report := n.run(0, 10)
		assert.Equal(t, 10, report.Count(ingest.Complete), report)
		assert.True(t, report.OK())
		assert.GreaterOrEqual(t, report.Took, 3*time.Minute)
		for _, result := range report.Results {
			assert.Equal(t, clinicaldoc.StageComplete, result.Stage)
			assert.NotEmpty(t, result.Note.Transcription, "the note as it is when it is complete")
			require.NoError(t, result.Err)
		}
		n.srv.ForgetRequests()
		again := n.run(0, 10)
		assert.Equal(t, 10, again.Count(ingest.Complete), again)
		assert.Len(t, n.srv.Requests(), 1, "what is complete is not read again: only the user is")
		assert.Equal(t, 10, n.creates())
	})
}

// The service cannot process three of ten recordings. Every run reports them as failed until a person decides.
func TestRunAll_ProcessingFailed_IsReportedInEveryRun(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.ScriptNext(failure(), failure(), failure())
		for range 3 {
			report := n.run(0, 10)
			assert.Equal(t, 7, report.Count(ingest.Complete), report)
			assert.Equal(t, 3, report.Count(ingest.Failed), report)
			assert.False(t, report.OK())
			for _, result := range report.Results {
				if result.Status != ingest.Failed {
					continue
				}
				require.ErrorIs(t, result.Err, clinicaldoc.ErrProcessingFailed)
				require.NotNil(t, result.Note)
				require.NotNil(t, result.Note.ErrorState)
				assert.Equal(t, "synthetic error state", *result.Note.ErrorState)
				assert.NotContains(t, result.Err.Error(), "synthetic", "only who asks for it gets the error state")
				assert.NotContains(t, fmt.Sprint(result), "synthetic")
				assert.Equal(t, clinicaldoc.StageFailed, result.Stage)
			}
		}
		assert.Equal(t, 10, n.creates())
	})
}

func TestRunAll_MaxWaitPasses_ReportsProcessing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ maxWait, atMost time.Duration }{
		"the default": {0, 16 * time.Minute},
		"an hour":     {time.Hour, 62 * time.Minute},
		"one look":    {-1, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nights(t, func(t *testing.T, n *night) {
				n.srv.SetDelays(transcribingFor(10 * time.Hour))
				report := n.runWith(func(u *ingest.Uploader) { u.MaxWait = c.maxWait }, recordings(0, 3))
				assert.Equal(t, 3, report.Count(ingest.Processing), report)
				assert.False(t, report.OK())
				assert.Less(t, report.Took, c.atMost)
				assert.GreaterOrEqual(t, report.Took, c.maxWait)
				for _, result := range report.Results {
					require.Error(t, result.Err)
					assert.Equal(t, clinicaldoc.StageTranscribing, result.Stage)
					assert.Positive(t, result.NoteID)
				}
				n.srv.SetDelays(clinicaldoctest.Delays{})
				assert.Equal(t, 3, n.run(0, 3).Count(ingest.Complete))
				assert.Equal(t, 3, n.creates(), "what is in processing is not uploaded again")
			})
		})
	}
}

// A later run with other recordings also follows the notes that the first run left in processing.
func TestRunAll_NotesOfEarlierRuns_AreFollowed(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetDelays(transcribingFor(10 * time.Hour))
		n.srv.ScriptNext(clinicaldoctest.Script{}, failure())
		assert.Equal(t, 3, n.run(0, 3).Count(ingest.Processing))
		second := n.run(3, 4)
		assert.Equal(t, counts{ingest.Processing: 3}, statuses(second.Earlier), second)
		for _, result := range second.Earlier {
			assert.True(t, result.Earlier)
			assert.Zero(t, result.Recording)
			assert.NotZero(t, result.JournalKey)
		}
		time.Sleep(24 * time.Hour)
		third := n.run(4, 4)
		assert.Equal(t, counts{ingest.Complete: 3, ingest.Failed: 1}, statuses(third.Earlier))
		assert.False(t, third.OK(), "one of them failed")
		assert.Empty(t, n.run(4, 4).Earlier, "the ends are reported once; the journal keeps them")
		stages := map[clinicaldoc.Stage]int{}
		for _, e := range readEntries(t, n.path) {
			stages[e.Stage]++
			assert.Equal(t, e.Stage == clinicaldoc.StageFailed, e.Why != "", e)
			assert.NotEmpty(t, e.SHA256, "what was known stays")
		}
		assert.Equal(t, map[clinicaldoc.Stage]int{clinicaldoc.StageComplete: 3, clinicaldoc.StageFailed: 1}, stages)
	})
}

// A recording that is among tonight's is not also one of an earlier run.
func TestRunAll_RecordingOfAnEarlierRun_IsCountedOnce(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetDelays(transcribingFor(10 * time.Hour))
		n.run(0, 3)
		again := n.run(0, 4)
		assert.Equal(t, 4, again.Count(ingest.Processing), again)
		assert.Empty(t, again.Earlier)
	})
}

func TestRun_IteratorGoesOn_YieldsResults(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.SetDelays(transcribingFor(time.Minute))
		u.Until = clinicaldoc.StageComplete
		begun := time.Now()
		var at []time.Duration
		for result, err := range u.Run(t.Context(), generated(4, func(n int) ingest.Recording {
			time.Sleep(10 * time.Minute)
			return recording(n)
		})) {
			require.NoError(t, err)
			require.Equal(t, ingest.Complete, result.Status, result)
			at = append(at, time.Since(begun).Truncate(10*time.Minute))
		}
		assert.Equal(t, []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute}, at)
	})
}

func TestRun_UntilZero_EndsWhenTheNoteExists(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.SetDelays(transcribingFor(time.Hour))
		assert.Equal(t, counts{ingest.Created: 3}, statuses(upload(t, u, recordings(0, 3))))
		u.Until = clinicaldoc.StageUploaded
		report := u.RunAll(t.Context(), recordings(0, 3))
		assert.Equal(t, 3, report.Count(ingest.AlreadyThere))
		assert.True(t, report.OK())
		srv.SetDelays(clinicaldoctest.Delays{})
		u.Until = 0
		report = u.RunAll(t.Context(), recordings(0, 3))
		assert.Equal(t, 3, report.Count(ingest.Complete), "notes whose stage nobody knows are read")
	})
}

func TestRun_UntilTranscribed_EndsThere(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Minute, Analysing: 10 * time.Hour})
		u.Until = clinicaldoc.StageTranscribed
		report := u.RunAll(t.Context(), recordings(0, 2))
		assert.Equal(t, 2, report.Count(ingest.Complete), report)
		for _, until := range []clinicaldoc.Stage{clinicaldoc.StageFailed, 55, -1} {
			u.Until = until
			require.ErrorIs(t, u.RunAll(t.Context(), recordings(0, 2)).Err, clinicaldoc.ErrInvalidArgument)
		}
		srv.SetDelays(clinicaldoctest.Delays{})
		u.Until = 0
		assert.Len(t, u.RunAll(t.Context(), recordings(2, 2)).Earlier, 2, "for who wants more they are in processing")
	})
}

// A canceled run reports the recordings that it has uploaded as in processing.
func TestRunAll_CanceledDuringProcessing_ReportsProcessing(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.SetDelays(transcribingFor(10 * time.Hour))
		report := u.RunAll(within(t, 2*time.Minute), recordings(0, 3))
		require.ErrorIs(t, report.Err, context.DeadlineExceeded)
		assert.Equal(t, 3, report.Count(ingest.Processing), report)
		assert.Empty(t, report.Left)
		for _, result := range report.Results {
			assert.Positive(t, result.NoteID)
			require.Error(t, result.Err)
		}
		srv.SetDelays(clinicaldoctest.Delays{})
		assert.Equal(t, 3, u.RunAll(t.Context(), recordings(0, 3)).Count(ingest.Complete))
		assert.Len(t, srv.Created(), 3)
	})
}

// Notes that cannot be read are not complete, and not failed either.
func TestRunAll_NotesUnreadable_ReportsProcessing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 500, 503} {
		nights(t, func(t *testing.T, n *night) {
			for _, route := range []string{clinicaldoctest.RouteGetNote, clinicaldoctest.RouteListNotes} {
				n.srv.Inject(route, clinicaldoctest.Answer(status, "synthetic").Always())
			}
			report := n.runWith(func(u *ingest.Uploader) { u.AllNew = true }, recordings(0, 2))
			assert.Equal(t, 2, report.Count(ingest.Processing), report)
			for _, result := range report.Results {
				require.Error(t, result.Err)
			}
			n.srv.ClearFaults()
			assert.Equal(t, 2, n.run(0, 2).Count(ingest.Complete))
		})
	}
}

// A note that was deleted at the service is not "already there".
func TestRunAll_NoteDeleted_ReportsFailed(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.ScriptNext(failure())
		first := n.run(0, 1)
		require.Equal(t, 1, first.Count(ingest.Failed))
		_, err := n.srv.Client().Notes.Delete(t.Context(), first.Results[0].NoteID)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		second := n.run(0, 1)
		require.Equal(t, 1, second.Count(ingest.Failed), second)
		require.ErrorIs(t, second.Results[0].Err, clinicaldoc.ErrNotFound)
		assert.Equal(t, 1, n.creates())
	})
}

// Equal recordings share the note and its end.
// While the service processed the note, it was deleted, and another patient's note got its id.
func TestRunAll_IDUsedAgain_ReportsFailed(t *testing.T) {
	t.Parallel()
	for name, rerun := range map[string]func(n *night) ingest.Result{
		"the recording comes again": func(n *night) ingest.Result { return n.runOne(0) },
		"it does not":               func(n *night) ingest.Result { return n.run(1, 1).Earlier[0] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nights(t, func(t *testing.T, n *night) {
				variant := n.srv.Variant()
				variant.ReuseIDs = true
				n.srv.SetVariant(variant)
				n.srv.SetDelays(transcribingFor(2 * time.Hour))
				first := n.runOne(0)
				require.Equal(t, ingest.Processing, first.Status)
				client := n.srv.Client()
				_, err := client.Notes.Delete(t.Context(), first.NoteID)
				require.NoError(t, err)
				n.srv.SetDelays(clinicaldoctest.Delays{})
				other, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{
					Name: "Another", PatientID: 99, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", sound(5)),
				})
				require.NoError(t, err)
				require.Equal(t, first.NoteID, other.ID)
				n.expectReplaced(rerun(n), clinicaldoc.ErrNotFound)
				assert.Equal(t, ingest.Complete, n.runOne(0).Status)
			})
		})
	}
}

// While the service processed the note, it was deleted, and the note of another recording of the journal got its ID.
func TestRunAll_IDUsedAgainByAnotherRecording_EndsEachByItsOwnNote(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{
		"the new recording comes first":                    {1, 0},
		"the recording without its note is first":          {0, 1},
		"the recording without its note is not in the run": {1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nights(t, func(t *testing.T, n *night) {
				variant := n.srv.Variant()
				variant.ReuseIDs = true
				n.srv.SetVariant(variant)
				n.srv.SetDelays(transcribingFor(2 * time.Hour))
				first := n.runOne(0)
				require.Equal(t, ingest.Processing, first.Status)
				_, err := n.srv.Client().Notes.Delete(t.Context(), first.NoteID)
				require.NoError(t, err)
				n.srv.SetDelays(transcribingFor(time.Minute))
				report := n.runWith(func(u *ingest.Uploader) { u.Workers = 1 },
					generated(len(order), func(i int) ingest.Recording {
						time.Sleep(time.Second) // the one before has its note
						return recording(order[i])
					}))
				for _, result := range append(report.Results, report.Earlier...) {
					assert.Equal(t, first.NoteID, result.NoteID)
					if result.JournalKey != first.JournalKey {
						assert.Equal(t, ingest.Complete, result.Status, result)
						continue
					}
					assert.Equal(t, ingest.Failed, result.Status, result)
					require.ErrorIs(t, result.Err, clinicaldoc.ErrNotFound)
				}
				assert.Len(t, append(report.Results, report.Earlier...), 2)
			})
		})
	}
}

// While the service processed the note, somebody moved it to another patient.
func TestRunAll_NoteOfAnotherPatient_ReportsFailed(t *testing.T) {
	t.Parallel()
	var isMoved atomic.Bool
	moves := handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		replaced(w, r, service, func(body []byte) []byte {
			if !isMoved.Load() {
				return body
			}
			return bytes.ReplaceAll(body, []byte(`"patient":{"id":1`), []byte(`"patient":{"id":99`))
		})
	})
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		n := &night{t: t, srv: srv, path: path}
		n.srv.SetDelays(transcribingFor(2 * time.Hour))
		require.Equal(t, ingest.Processing, n.runOne(0).Status)
		isMoved.Store(true)
		time.Sleep(3 * time.Hour)
		n.expectReplaced(n.runOne(0), clinicaldoc.ErrPatientMismatch)
		isMoved.Store(false) // it would move the next note too
		n.srv.SetDelays(clinicaldoctest.Delays{})
		assert.Equal(t, ingest.Complete, n.runOne(0).Status)
	}, moves)
}

// expectReplaced checks the result of a recording whose note is another patient's now: it has failed,
// nothing of that note is in the result, and it can be sent again.
func (n *night) expectReplaced(result ingest.Result, want error) {
	n.t.Helper()
	assert.Equal(n.t, ingest.Failed, result.Status, result)
	require.ErrorIs(n.t, result.Err, want)
	assert.Nil(n.t, result.Note)
	assert.Equal(n.t, clinicaldoc.StageFailed, result.Stage)
	assert.Equal(n.t, clinicaldoc.StageFailed, readEntries(n.t, n.path)[0].Stage)
	require.NoError(n.t, n.resolve(result.JournalKey, sendAgain()))
}

func TestRunAll_EqualRecordings_HaveTheSameEnd(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetDelays(transcribingFor(time.Minute))
		n.srv.ScriptNext(failure())
		equal := recording(0)
		report := n.runWith(func(u *ingest.Uploader) { u.Workers = 1 },
			ingest.Recordings(equal, equal, recording(1), equal))
		assert.Equal(t, counts{ingest.Failed: 3, ingest.Complete: 1}, statuses(report.Results), report)
		assert.Equal(t, 2, n.creates())
	})
}

// Equal recordings can come while the stage of the first one is being saved.
func TestRun_EqualRecordingsDuringASave_ShareTheNote(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.SetDelays(transcribingFor(time.Second))
		u.Until = clinicaldoc.StageComplete
		u.Journal = watched(u.Journal, func(e ingest.Entry) {
			if e.Stage == clinicaldoc.StageComplete {
				time.Sleep(5 * time.Second)
			}
		})
		results := upload(t, u, generated(100, func(int) ingest.Recording {
			time.Sleep(time.Second)
			return recording(0)
		}))
		assert.Equal(t, counts{ingest.Complete: 100}, statuses(results))
		assert.Len(t, srv.Created(), 1)
	})
}

// A journal that fails while stages are saved ends the run, and the results are reported.
func TestRunAll_SavingAStageFails_EndsTheRun(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		broken := errors.New("synthetic failure of the disk")
		journal := u.Journal
		u.Journal = failing(journal, func(_ context.Context, e ingest.Entry) error {
			if e.Stage == clinicaldoc.StageComplete {
				return broken
			}
			return nil
		})
		report := u.RunAll(t.Context(), recordings(0, 1))
		require.ErrorIs(t, report.Err, broken)
		assert.Len(t, report.Results, 1)
		u.Journal = journal
		assert.Equal(t, 1, u.RunAll(t.Context(), recordings(0, 1)).Count(ingest.Complete))
		assert.Len(t, srv.Created(), 1)
	})
}

// Events and progress tell how many notes are complete, in processing, and failed.
func TestRunAll_Progress_CountsStages(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		n.srv.SetDelays(transcribingFor(time.Minute))
		n.srv.ScriptNext(failure())
		var last ingest.Progress
		most, created := 0, 0
		n.runWith(func(u *ingest.Uploader) {
			u.OnEvent = func(e ingest.Event) {
				last = e.Progress
				most = max(most, e.Progress.Processing)
				if e.State == ingest.StateCreated {
					created++
					assert.NotZero(t, e.JournalKey)
					assert.NotZero(t, e.Recording)
				}
			}
		}, recordings(0, 3))
		assert.Equal(t, 3, most)
		assert.Equal(t, 3, created)
		assert.Equal(t, []int{3, 2, 0, 1}, []int{last.Done(), last.Complete, last.Processing, last.Failed})
	})
}

func TestOpenJournal_WithoutStages_IsUpgraded(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	content := seal(fmt.Appendf(nil, "clinicaldoc-ingest 2 %s user=1 headers=none\n"+
		"2026-01-02T03:04:06Z created %s patient=00000007 name=00000001 size=30 sent=2026-01-02T03:04:04Z note=4 "+
		"made=2026-01-02T03:04:05Z sha=%064x\n", service, key(1), 17))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	j := openBound(t, path)
	assert.Equal(t, ingest.StateCreated, load(t, j, 1).State)
	assert.Zero(t, load(t, j, 1).Stage)
	require.NoError(t, j.Close())
	upgraded := string(read(t, path))
	assert.Contains(t, upgraded, "clinicaldoc-ingest 3 ", "a program of that version says that it is too old")
	assert.Contains(t, upgraded, fmt.Sprintf(" sha=%064x", 17))
	assert.NoFileExists(t, path+".lock")
	assert.NoFileExists(t, ingest.CompactedPath(path))
}

func TestFileJournal_StagesReplacedAndExcluded_AreKept(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wanted := ingest.Entry{
		Key: key(1), State: ingest.StateCreated, At: at, Patient: 7, Name: 8, Size: 9, SentAt: at, NoteID: 10,
		NoteCreatedAt: at, SHA256: fmt.Sprintf("%064x", 1), By: "a person", Stage: clinicaldoc.StageTranscribing,
		Replaced: []ingest.NoteRef{{ID: 4, CreatedAt: at}, {ID: 5}}, Excluded: []int64{1, 2},
	}
	for round := range 3 { // written, read, compacted
		j := openBound(t, path)
		ingest.CompactAbove(j, 0)
		for range 5 {
			if round == 0 {
				saveEntry(t, j, wanted)
			}
		}
		got := load(t, j, 1)
		assert.Equal(t, wanted.Stage, got.Stage)
		assert.Equal(t, wanted.Excluded, got.Excluded)
		require.Len(t, got.Replaced, 2)
		assert.True(t, got.Replaced[0].CreatedAt.Equal(at))
		assert.Equal(t, int64(5), got.Replaced[1].ID)
		assert.Equal(t, wanted.SHA256, got.SHA256)
		processing, err := j.Processing(t.Context())
		require.NoError(t, err)
		require.Len(t, processing, 1)
		assert.Equal(t, key(1), processing[0].Key)
		require.NoError(t, j.Close())
		_, err = j.Processing(t.Context())
		require.Error(t, err, "it is closed")
	}
}

// A recording that was sent before the time in question is among the entries if its note is from after it, as when the
// clock was stepped.
func TestEntriesForPatient_NoteAfterTheTime_IsReturned(t *testing.T) {
	t.Parallel()
	j := openBound(t, journalPath(t))
	sent := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	committing := ingest.Entry{Key: key(1), State: ingest.StateCommitting, Patient: 7, SentAt: sent, At: sent}
	other, created := committing, committing
	other.Key = key(2)
	created.State = ingest.StateCreated
	created.NoteID = 1
	created.NoteCreatedAt = sent.Add(72 * time.Hour)
	for _, e := range []ingest.Entry{committing, other, created} {
		saveEntry(t, j, e)
	}
	entries, err := j.EntriesForPatient(t.Context(), 7, sent.Add(48*time.Hour))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, key(1), entries[0].Key)
}

// The journal does not keep the hash of a finished upload in memory. If the entry is saved again, the hash is read from
// the file.
func TestRunAll_AfterARunThatDidNotWait_KeepsTheHash(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		report := n.runWith(func(u *ingest.Uploader) { u.Until = clinicaldoc.StageUploaded }, recordings(0, 3))
		require.Equal(t, 3, report.Count(ingest.Created), report)
		sums := map[ingest.Key]string{}
		for _, e := range readEntries(t, n.path) {
			require.Len(t, e.SHA256, 64)
			sums[e.Key] = e.SHA256
		}
		require.Len(t, sums, 3)

		require.Equal(t, 3, n.run(0, 3).Count(ingest.Complete))
		for _, e := range readEntries(t, n.path) {
			assert.Equal(t, clinicaldoc.StageComplete, e.Stage)
			assert.Equal(t, sums[e.Key], e.SHA256, "after a run that waits")
		}
		for _, note := range n.srv.Notes() {
			_, err := n.srv.Client().Notes.Delete(t.Context(), note.ID)
			require.NoError(t, err)
		}
		for key := range sums {
			require.NoError(t, n.resolve(key, sendAgain()))
		}
		for _, e := range readEntries(t, n.path) {
			assert.Equal(t, ingest.StateRefused, e.State)
			assert.Equal(t, sums[e.Key], e.SHA256, "after a manual decision")
		}
	})
}

// The journal keeps no hash in memory of a note that is created or complete: a save with another stage reads it from
// the line of the entry before. A compaction moves that line.
func TestFileJournal_StageSavedAfterCompaction_KeepsTheHash(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	save := func(n byte, change func(e *ingest.Entry)) {
		claim, err := j.Claim(t.Context(), ingest.Key{n})
		require.NoError(t, err)
		defer claim.Release()
		e := claim.Entry()
		change(&e)
		require.NoError(t, claim.Save(t.Context(), e))
	}
	hash := func(n byte) string { return strings.Repeat(hex.EncodeToString([]byte{n}), 32) }
	const keys = 9
	for n := byte(1); n <= keys; n++ {
		refused := ingest.Entry{
			State: ingest.StateRefused, At: time.Now(), SentAt: time.Now(), Patient: 7, Size: 3, SHA256: hash(n),
		}
		created := refused
		created.State = ingest.StateCreated
		created.NoteID = int64(n)
		created.NoteCreatedAt = time.Now()
		for range 3 { // these lines are outdated as soon as the note is created
			save(n, func(e *ingest.Entry) { *e = refused })
		}
		save(n, func(e *ingest.Entry) { *e = created })
	}
	before := lines(t, path)
	ingest.CompactAbove(j, 0)
	bind(t, j, service) // compacts
	require.NoError(t, j.Warning())
	require.Less(t, lines(t, path), before)

	// The first stage reads lines that were moved, the second those that were written since.
	for _, stage := range []clinicaldoc.Stage{clinicaldoc.StageComplete, clinicaldoc.StageSigned} {
		for n := byte(1); n <= keys; n++ {
			save(n, func(e *ingest.Entry) {
				require.Empty(t, e.SHA256, "it is not in memory")
				e.Stage = stage
				e.At = time.Now()
			})
		}
	}
	entries := readEntries(t, path)
	require.Len(t, entries, keys)
	for _, e := range entries {
		assert.Equal(t, clinicaldoc.StageSigned, e.Stage)
		assert.Equal(t, hash(e.Key[0]), e.SHA256)
	}
}

// runWith is one run, with an uploader that the function prepares.
func (n *night) runWith(
	prepare func(u *ingest.Uploader), recordings iter.Seq2[ingest.Recording, error],
) (report *ingest.Report) {
	n.t.Helper()
	n.uploader(func(u *ingest.Uploader) {
		if prepare != nil {
			prepare(u)
		}
		report = u.RunAll(n.t.Context(), recordings)
	})
	require.NoError(n.t, report.Err)
	return report
}
