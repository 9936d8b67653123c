package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// runProgram uploads recordings as one process does: with a client that knows nothing of earlier ones, and with the
// same journal as these.
type runProgram func(context.Context, ...ingest.Recording) []ingest.Result

// inBubble runs a test with a fake server in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, program runProgram)) {
	t.Helper()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		test(t, srv, func(ctx context.Context, recordings ...ingest.Recording) []ingest.Result {
			journal, err := openOrBegin(context.WithoutCancel(ctx), srv.URL, path)
			require.NoError(t, err)
			u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
			results, err := collect(ctx, u, ingest.Recordings(recordings...))
			require.ErrorIs(t, err, ctx.Err())
			require.NoError(t, journal.Close())
			checkEntries(t, path) //nolint:contextcheck // with the test's own
			return results
		})
	})
}

func onePatient(n int) ingest.Recording {
	r := recording(n)
	r.Params.PatientID = 7
	return r
}

func TestRun_UnresolvedRecording_HoldsUpNoOther(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(503, "synthetic"))
		u.Workers = 1
		start := time.Now()
		var order []string
		for result, err := range u.Run(t.Context(), recordings(0, 20)) {
			require.NoError(t, err)
			order = append(order, result.Recording.Key)
			assert.Equal(t, ingest.Created, result.Status)
			assert.Equal(t, len(order) == 20, time.Since(start) >= 10*time.Minute, "result %d after %s", len(order),
				time.Since(start))
		}
		assert.Equal(t, "recording 0", order[19])
		assert.Less(t, time.Since(start), 11*time.Minute)
		assert.Len(t, srv.Notes(), 20)
	})
}

func TestRun_Restarted_DecidesAtTheSameTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		start := time.Now()
		for range 3 {
			results := program(within(t, 3*time.Minute), recording(0))
			require.Equal(t, counts{ingest.InDoubt: 1}, statuses(results))
			require.ErrorIs(t, results[0].Err, clinicaldoc.ErrOutcomeUnknown)
			assert.WithinDuration(t, start.Add(10*time.Minute), results[0].Until, time.Second)
		}
		assert.Equal(t, counts{ingest.Created: 1}, statuses(program(t.Context(), recording(0))))
		assert.Less(t, time.Since(start), 11*time.Minute)
		assert.Len(t, srv.Notes(), 1)
	})
}

// dying is a journal whose process ends right after it has written down that a recording is committed.
type dying struct{ ingest.Journal }

func (j dying) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	c, err := j.Journal.Claim(ctx, key)
	return &dyingClaim{Claim: c}, err
}

type dyingClaim struct {
	ingest.Claim
	dead bool
}

func (c *dyingClaim) Save(ctx context.Context, e ingest.Entry) error {
	if c.dead {
		return nil
	}
	c.dead = e.State == ingest.StateCommitting
	return errors.Join(c.Claim.Save(ctx, e), errors.New("synthetic end"))
}

// A killed process does not save when its commit was lost. Its recording is decided ten minutes after the first search
// for it, or after the duration of its upload if that is longer. It does not matter how much later the next process
// starts, and further restarts do not postpone it.
func TestRun_AfterAKilledProcess_DecidesTenMinutesLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restarts     int
		upload, want time.Duration
	}{
		"immediately":         {0, 0, 10 * time.Minute},
		"after restarts":      {3, 0, 10 * time.Minute},
		"after a slow upload": {2, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				slow := recording(0)
				slow.Params.BeforeCommit = func(context.Context) error { time.Sleep(c.upload); return nil }
				killed(t, u, slow)
				require.Empty(t, srv.Notes())
				time.Sleep(24 * time.Hour)
				start := time.Now()
				for range c.restarts {
					u.Client = srv.Client(quick())
					results, _ := collect(within(t, 3*time.Minute), u, recordings(0, 1))
					require.Equal(t, counts{ingest.InDoubt: 1}, statuses(results))
					assert.WithinDuration(t, start.Add(c.want), results[0].Until, time.Second)
				}
				u.Client = srv.Client(quick())
				assert.Equal(t, ingest.Created, uploadOne(t, u, recording(0)).Status)
				assert.GreaterOrEqual(t, time.Since(start), c.want)
				assert.Less(t, time.Since(start), c.want+time.Minute)
				assert.Len(t, srv.Notes(), 1)
			})
		})
	}
}

// A recording that took an hour to be sent may take as long to become a note. Until then its result does not say that
// it can be decided.
func TestRun_SlowUpload_IsUnresolvedForAsLong(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		r := recording(0)
		r.Params.BeforeCommit = func(context.Context) error { time.Sleep(time.Hour); return nil }
		start := time.Now()
		results := program(within(t, 61*time.Minute), r)
		require.Len(t, results, 1)
		assert.WithinDuration(t, start.Add(2*time.Hour), results[0].Until, time.Second)
	})
}

// A note that an earlier program created is in the journal, so it is not taken for another recording's.
func TestRun_NoteOfAnEarlierProgram_IsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		ctx := within(t, time.Minute)
		results := program(ctx, onePatient(0), onePatient(1), onePatient(2), onePatient(3))
		assert.Equal(t, counts{ingest.Created: 3, ingest.InDoubt: 1}, statuses(results))
		results = program(t.Context(), onePatient(0), onePatient(1))
		assert.Equal(t, counts{ingest.Created: 1, ingest.AlreadyThere: 1}, statuses(results), results)
		assert.Len(t, srv.Notes(), 4)
		time.Sleep(20 * time.Hour) // FindCreated looks at the notes of a day
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		results = program(t.Context(), onePatient(7)) // of the same size as an earlier one
		assert.Equal(t, counts{ingest.Created: 1}, statuses(results), results)
	})
}

// Two creates of a patient are lost. Once the note of one is found, it no longer keeps the other undecided.
func TestRun_NoteFoundForOne_DecidesTheOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Times(2))
		ctx := within(t, time.Millisecond)
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(503, "synthetic").Times(8))
		all := []ingest.Recording{onePatient(0), onePatient(1), onePatient(2), onePatient(3)}
		require.NotEmpty(t, program(ctx, all...))
		results := program(t.Context(), all...)
		assert.Equal(t, counts{ingest.Created: 4}, statuses(results), results)
		assert.Len(t, srv.Notes(), 4)
	})
}

// The note of an unresolved recording is known by its content, so it does not hold up another recording of the patient.
func TestResolve_NoteOfAnotherRecordingInDoubt_HoldsUpNothing(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		var ends []time.Time
		u.OnEvent = func(e ingest.Event) {
			if e.Result != nil {
				ends = append(ends, time.Now())
			}
		}
		// the second's note, late, and just before the first's time has come
		time.AfterFunc(10*time.Minute-time.Millisecond, func() { addNote(srv, onePatient(1), sound(1)) })
		results := upload(t, u, generated(2, func(n int) ingest.Recording {
			time.Sleep(time.Duration(n) * 5 * time.Minute)
			return onePatient(n)
		}))
		require.Len(t, ends, 2)
		assert.Less(t, ends[1].Sub(ends[0]), 2*time.Minute, "soon, and not when its own time has come")
		assert.Equal(t, counts{ingest.Created: 2}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
	})
}

// An iterator that never ends, such as a queue, does not keep unresolved recordings from being reported and decided.
func TestRun_EndlessIterator_DecidesUnresolvedRecordings(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		// Somebody else makes notes of both patients: nothing explains them, and their recordings cannot be read. The
		// second's is deleted in time.
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.AddNote(clinicaldoctest.Note{PatientID: 1, Name: "Encounter #0", CreatedAt: time.Now()})
		id := srv.AddNote(clinicaldoctest.Note{PatientID: 2, Name: "Encounter #1", CreatedAt: time.Now()})
		time.AfterFunc(10*time.Minute+time.Second, func() { _, _ = srv.Client().Notes.Delete(t.Context(), id) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		results := map[string]ingest.Status{}
		for result, err := range u.Run(ctx, func(yield func(ingest.Recording, error) bool) {
			_ = yield(recording(0), nil) && yield(recording(1), nil)
			<-ctx.Done()
		}) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				break
			}
			if results[result.Recording.Key] = result.Status; len(results) == 2 {
				cancel()
			}
		}
		assert.Equal(t, map[string]ingest.Status{"recording 0": ingest.InDoubt, "recording 1": ingest.Created}, results)
	})
}

// lookalike is one of two recordings that only their content distinguishes.
func lookalike(n int) ingest.Recording {
	r := onePatient(n)
	r.Params.Name, r.Params.Audio = "Encounter", clinicaldoc.AudioBytes("a.wav", []byte{'R', byte(n)})
	return r
}

// If recordings cannot be read, nobody knows which of two lost creates made the note. That stays so if the next run has
// only one of the two recordings.
func TestRun_TwoLostWithUnreadableNotes_TakeNone(t *testing.T) {
	t.Parallel()
	for name, next := range map[string][]ingest.Recording{
		"both": {lookalike(0), lookalike(1)}, "one": {lookalike(1)}, "the other": {lookalike(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
				srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				results := program(t.Context(), lookalike(0), lookalike(1))
				assert.Equal(t, counts{ingest.InDoubt: 2}, statuses(results), results)
				begun := time.Now()
				results = program(t.Context(), next...)
				assert.Equal(t, counts{ingest.InDoubt: len(next)}, statuses(results), results)
				assert.Less(t, time.Since(begun), 20*time.Minute,
					"as long as FindCreated tries to read recordings, twice")
				assert.Len(t, srv.Notes(), 1)
			})
		})
	}
}

// A run that is ended does not wait for an unresolved recording, for which it would search again later, nor for
// recordings that are equal to it. The first run leaves two such recordings. Only one has a note, but nobody knows
// which: their names are equal, and the service does not return the note's audio.
func TestRun_EndedWhileUndecided_DoesNotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		program(t.Context(), lookalike(0), lookalike(1))
		begun := time.Now()
		betweenSearches := within(t, 20*time.Second)
		results := program(betweenSearches, lookalike(1), lookalike(1), lookalike(1))
		assert.Equal(t, counts{ingest.InDoubt: 3}, statuses(results), results)
		assert.Less(t, time.Since(begun), 21*time.Second)
	})
}

// After a break, an unresolved recording that was to be searched for again later is free for the next run.
func TestRun_BreakWhileUndecided_ReleasesTheRecording(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		upload(t, u, ingest.Recordings(lookalike(0), lookalike(1)))
		slow := recording(2)
		slow.Params.BeforeCommit = func(context.Context) error {
			time.Sleep(20 * time.Second)
			return errors.New("synthetic")
		}
		u.Client = srv.Client(quick())
		for result := range u.Run(t.Context(), ingest.Recordings(lookalike(1), slow)) {
			assert.Equal(t, slow.Key, result.Recording.Key)
			break
		}
		ctx := within(t, time.Second)
		results, _ := collect(ctx, u, ingest.Recordings(lookalike(1)))
		require.Len(t, results, 1)
		require.NotErrorIs(t, results[0].Err, ingest.ErrTaken)
	})
}

// neverSearched is a journal in which the search for an unresolved recording waits until the run has ended. For each
// search it sends the time when the recording was sent.
func neverSearched(j ingest.Journal, sent chan<- time.Time) hooked {
	return hooked{Journal: j, entries: func(ctx context.Context, _ uint32, since time.Time) ([]ingest.Entry, error) {
		if since.IsZero() {
			return nil, nil
		}
		sent <- since
		<-ctx.Done()
		return nil, errors.New("synthetic")
	}}
}

// At most 32 unresolved recordings are searched for at a time, the first ones first. The end of the run meanwhile is
// not a failure of the journal.
func TestRun_ManyUnresolved_SearchesForThirtyTwoAtATime(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Every(2))
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan time.Time, 100)
		u.Journal = neverSearched(u.Journal, sent)
		u.Workers = 1
		searches := 0
		time.AfterFunc(time.Hour, func() { searches = len(sent); cancel() })
		results, err := collect(ctx, u, generated(70, func(n int) ingest.Recording {
			time.Sleep(time.Second)
			return recording(n)
		}))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, counts{ingest.Created: 35, ingest.InDoubt: 35}, statuses(results))
		assert.Equal(t, 32, searches)
		for before := (time.Time{}); len(sent) > 0; {
			next := <-sent
			assert.True(t, next.After(before))
			before = next
		}
	})
}

// A recording that becomes unresolved after many others were resolved is searched for, too.
func TestRun_UnresolvedAfterManyOthers_IsDecided(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Every(2))
		u.Workers = 1
		results := upload(t, u, generated(66, func(n int) ingest.Recording {
			time.Sleep(time.Hour)
			return recording(n)
		}))
		assert.Equal(t, counts{ingest.Created: 66}, statuses(results))
	})
}

// doubting is a journal of which every recording is unresolved, as the one that it knows is.
type doubting struct {
	ingest.Journal
	entry ingest.Entry
}

type doubtingClaim struct{ entry ingest.Entry }

func (j doubting) Claim(_ context.Context, key ingest.Key) (ingest.Claim, error) {
	j.entry.Key = key
	return doubtingClaim{j.entry}, nil
}

func (c doubtingClaim) Entry() ingest.Entry                    { return c.entry }
func (doubtingClaim) Save(context.Context, ingest.Entry) error { return nil }
func (doubtingClaim) Release()                                 {}

// A run searches for ten thousand unresolved recordings. Later ones are left to the next run.
func TestRun_TooManyUnresolved_LeavesTheRestToTheNextRun(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		journal := doubting{Journal: neverSearched(u.Journal, make(chan time.Time, 10_000))}
		u.Journal = watched(u.Journal, func(e ingest.Entry) { journal.entry = e })
		uploadUntilUnresolved(t, u, recording(0))
		u.Journal = journal
		begun, left := time.Now(), 0
		for result := range u.Run(within(t, time.Minute), generated(10_002, func(n int) ingest.Recording {
			r := recording(0)
			r.Key = fmt.Sprint(n)
			return r
		})) {
			if time.Since(begun) < time.Minute {
				left++
				require.ErrorContains(t, result.Err, "too many recordings are unresolved")
			}
		}
		assert.Equal(t, 2, left)
	})
}

// A run that is ended does not wait for recordings that have no note and were to be uploaded once more.
func TestRun_EndedBeforeAnotherUpload_DoesNotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		busy := recording(1) // keeps the only worker
		busy.Params.BeforeCommit = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		begun := time.Now()
		results := program(within(t, 15*time.Minute), recording(0), recording(0), recording(2), busy)
		assert.Equal(t, counts{ingest.Refused: 3}, statuses(results), results)
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrNotCreated)
		assert.Less(t, time.Since(begun), 16*time.Minute-50*time.Second)
	})
}

// A stream that a killed process had sent has no size in the journal: it may have made a note of any size. So may every
// recording if the service does not report sizes.
func TestRun_RivalOfUnknownSize_TakesNoNote(t *testing.T) {
	t.Parallel()
	stream, longer := lookalike(0), lookalike(0)
	stream.Params.Audio = clinicaldoc.AudioReader("a.wav", bytes.NewReader([]byte("RIFF")))
	longer.Params.Audio = clinicaldoc.AudioBytes("a.wav", []byte("RIFF"))
	for name, c := range map[string]struct {
		rival  ingest.Recording
		member string // of the service's notes, instead of "audio"
	}{
		"a stream":           {stream, `"audio":`},
		"no sizes in a note": {longer, `"unknown":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renamesAudio := handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
				replaced(w, r, service, func(body []byte) []byte {
					if r.Method != http.MethodGet {
						return body
					}
					return bytes.ReplaceAll(body, []byte(`"audio":`), []byte(c.member))
				})
			})
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
				killed(t, u, c.rival)
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				u.Client = srv.Client(quick())
				u.AllNew = true
				result := uploadOne(t, u, lookalike(1))
				require.Equal(t, ingest.InDoubt, result.Status, result)
				assert.Equal(t, []int64{srv.Notes()[0].ID}, result.Candidates)
				assert.Len(t, srv.Notes(), 1)
			}, renamesAudio)
		})
	}
}

// If the content of one recording, or of both, is not known, they do not count as equal, and neither takes the note of
// the other.
func TestRun_RivalOfUnknownContent_TakesNoNote(t *testing.T) {
	t.Parallel()
	for _, known := range []string{"", sumOf(lookalike(0)), sumOf(lookalike(1))} {
		withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
			srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			for _, list := range [][]ingest.Recording{{lookalike(0), lookalike(1)}, {lookalike(0)}, {lookalike(1)}} {
				forgetful := hooked{Journal: journal, save: func(_ context.Context, e *ingest.Entry) error {
					if e.SHA256 != known { // as earlier versions, which did not keep the hash
						e.SHA256 = ""
					}
					return nil
				}}
				u := &ingest.Uploader{Client: srv.Client(quick()), Journal: forgetful, Workers: 1, AllNew: true}
				results := upload(t, u, ingest.Recordings(list...))
				assert.Equal(t, counts{ingest.InDoubt: len(list)}, statuses(results), results)
			}
			assert.Len(t, srv.Notes(), 1)
		})
	}
}

// If recordings can be read, the journal's hash of the sent bytes distinguishes them. This holds for the program
// that lost them, for the next one, and for one that has only one of them.
func TestRun_TwoLostOfOnePatient_FindTheirNotesByContent(t *testing.T) {
	t.Parallel()
	lost := map[string]clinicaldoctest.Fault{
		"made": clinicaldoctest.ResetAfterCommit(), "not made": clinicaldoctest.ResetAfterRequest(),
	}
	for first, firstFault := range lost {
		for second, secondFault := range lost {
			for asked, programs := range map[string][][]ingest.Recording{
				"both": {{lookalike(0), lookalike(1)}}, "turned round": {{lookalike(1), lookalike(0)}},
				"one by one": {{lookalike(0)}, {lookalike(1)}}, "the other first": {{lookalike(1)}, {lookalike(0)}},
			} {
				t.Run(first+", "+second+", "+asked, func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
						srv.Inject(clinicaldoctest.RouteCreateNote, firstFault)
						srv.Inject(clinicaldoctest.RouteCreateNote, secondFault)
						// no search succeeds in the first program
						srv.Inject(clinicaldoctest.RouteListNotes,
							clinicaldoctest.Answer(503, "synthetic").After(1).Times(100))
						program(within(t, 2*time.Second), lookalike(0), lookalike(1))
						srv.ClearFaults()
						for _, list := range programs {
							results := program(t.Context(), list...)
							of := statuses(results)
							assert.Equal(t, len(list), of[ingest.Created]+of[ingest.AlreadyThere], results)
							for _, result := range results {
								assert.Equal(t, sumOf(result.Recording), noteOf(srv, result.NoteID).AudioSHA256,
									"another recording's note")
							}
						}
						assert.Len(t, srv.Notes(), 2)
					})
				})
			}
		}
	}
}

// Two recordings of the same size are lost in one run. The note of the first one is found before the second one comes.
func TestRun_SecondLostAfterFirstWasFound_FindsItsOwnNote(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		results := upload(t, u, generated(2, func(n int) ingest.Recording {
			time.Sleep(time.Minute)
			return lookalike(n)
		}))
		assert.Equal(t, counts{ingest.Created: 2}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
	})
}

func sumOf(r ingest.Recording) string {
	sum, _ := r.Params.Audio.SHA256()
	return sum
}

func noteOf(srv *clinicaldoctest.Server, id int64) (note clinicaldoctest.Note) {
	for _, n := range srv.Notes() {
		if n.ID == id {
			note = n
		}
	}
	return note
}

func TestRun_ServiceNeverCreatesANote_RefusesAfterThreeUploads(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(502, "synthetic").Always())
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, OnEvent: func(e ingest.Event) {
			assert.LessOrEqual(t, e.Progress.Doubts, 1, "however often it is in doubt")
		}}
		result := uploadOne(t, u, recording(0))
		assert.Equal(t, ingest.Refused, result.Status)
		require.ErrorIs(t, result.Err, clinicaldoc.ErrNotCreated)
		require.ErrorIs(t, result.Err, clinicaldoc.ErrServer)
		assert.Equal(t, 3, attempts(srv))
		srv.ClearFaults()
		result = uploadOne(t, u, recording(0))
		assert.Equal(t, ingest.Created, result.Status)
	})
}

func TestRun_EqualRecordingsUnresolved_ShareTheResult(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		results := program(within(t, time.Minute), recording(0), recording(0), recording(0))
		assert.Equal(t, counts{ingest.InDoubt: 3}, statuses(results))
		results = program(t.Context(), recording(0), recording(0), recording(0))
		assert.Equal(t, counts{ingest.Created: 1, ingest.AlreadyThere: 2}, statuses(results))
	})
}

// A run that is cancelled waits for the responses to complete uploads: a response is better than an unknown outcome.
func TestRun_CancelledAfterTheUpload_WaitsForTheResponse(t *testing.T) {
	t.Parallel()
	t.Run("during the response", func(t *testing.T) {
		t.Parallel()
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
			results, err := collect(within(t, time.Second), u, recordings(0, 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, counts{ingest.Created: 1}, statuses(results), results)
		})
	})
	t.Run("while the commit is saved", func(t *testing.T) {
		t.Parallel()
		withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
			ctx, cancel := context.WithCancel(t.Context())
			u.Journal = watched(u.Journal, func(e ingest.Entry) {
				if e.State == ingest.StateCommitting {
					cancel()
					time.Sleep(time.Second)
				}
			})
			results, err := collect(ctx, u, recordings(1, 2))
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, counts{ingest.Created: 1}, statuses(results), results)
		})
	})
}

// A service may answer with the id of a job, which may also be that of another recording's note.
func TestRun_ResponseNamesAJob_TakesNoOtherNote(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		other := uploadOne(t, u, onePatient(0)).NoteID
		job := fmt.Sprintf(`{"id":%d,"status":"queued"}`, other)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusAccepted, job))
		unresolved := uploadUntilUnresolved(t, u, onePatient(1))
		assert.Zero(t, unresolved.NoteID, "nothing shows that it is a note")

		result := uploadOne(t, u, onePatient(1))
		assert.Equal(t, ingest.Created, result.Status, result)
		assert.NotEqual(t, other, result.NoteID)
		assert.Len(t, srv.Notes(), 2)
	})
}

// The journal keeps all that the client knew of a lost create. The error that the caller gets is not changed.
func TestRun_LostCreate_KeepsWhatTheErrorKnows(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(5*time.Second))
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(201, `{"id":4711,"name":"Encounter","created_at":`))
		var saved ingest.Entry
		u.Journal = watched(u.Journal, func(e ingest.Entry) { saved = e })
		retry := clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: time.Second, MaxWait: 10 * time.Second}
		u.Client = srv.Client(clinicaldoc.WithRetry(retry))
		u.AllNew = true
		r, start := recording(0), time.Now()
		lost := uploadUntilUnresolved(t, u, r)
		unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](lost.Err)
		require.True(t, ok, lost)
		assert.Equal(t, r.Params.Name, unknown.Params.Name, "what goes into the journal is taken out of a copy")
		assert.Nil(t, unknown.Params.BeforeCommit, "the caller's own params, with which the note may be created again")
		assert.Equal(t, int64(4711), lost.NoteID)
		assert.Equal(t, int64(4711), saved.NoteID)
		assert.Equal(t, start.Add(6*time.Second), saved.SentAt, "of the attempt that was lost")
	})
}

func TestRun_LostStream_KeepsItsSize(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		stream := func() ingest.Recording {
			r := recording(0)
			r.Params.Audio = clinicaldoc.AudioReader("a.wav", bytes.NewReader(sound(0)))
			return r
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := stream()
		cancelled.Params.BeforeCommit = func(context.Context) error {
			time.AfterFunc(time.Nanosecond, cancel)
			return nil
		}
		program(ctx, cancelled)
		other := recording(0) // of another size: it is not this one's
		other.Params.Audio = clinicaldoc.AudioBytes("a.wav", append(sound(0), "more"...))
		results := program(t.Context(), other)
		require.Len(t, results, 1)
		require.ErrorIs(t, results[0].Err, ingest.ErrKeyReused, "the size that was sent is known")
		results = program(t.Context(), stream())
		require.Len(t, results, 1)
		require.NoError(t, results[0].Err)
		assert.Len(t, srv.Notes(), 1)
	})
}

// The caller's list of excluded notes is read, never written to, however much room it has.
func TestRun_CallersExclude_IsNotChanged(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		notes := make([]*clinicaldoc.ProgressNote, 1, 10)
		notes[0] = &clinicaldoc.ProgressNote{ID: 4711}
		u.Find.Exclude = notes
		upload(t, u, ingest.Recordings(onePatient(0), onePatient(1)))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		u.Find.OnProgress = func(string, time.Time) { t.Error("several searches at once would call it") }
		result := uploadOne(t, u, onePatient(2))
		assert.Equal(t, ingest.Created, result.Status, result)
		assert.Equal(t, append([]*clinicaldoc.ProgressNote{{ID: 4711}}, make([]*clinicaldoc.ProgressNote, 9)...),
			notes[:10])
	})
}

// An earlier version saved nothing about a lost create. Its recording stays unresolved, because it is not known whose
// token sent it.
func TestRun_UnresolvedEntryOfAnEarlierVersion_StaysUnresolved(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		require.Equal(t, ingest.InDoubt, runProcess(t, srv, path, time.Minute, recording(0)).Status)
		rewriteEntries(t, srv, path, func(e *ingest.Entry) { e.Loss = nil })
		for _, limit := range []time.Duration{time.Minute, time.Hour} { // it ends during the search, or after it
			assert.Equal(t, ingest.InDoubt, runProcess(t, srv, path, limit, recording(0)).Status)
		}
		assert.Empty(t, srv.Notes())
	})
}

// A service gives the id of a deleted note to the next one. The journal's entry of the first note does not count for
// the second.
func TestRun_NoteIDUsedAgain_FindsTheNewNote(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) int64 {
		t.Helper()
		srv.SetVariant(clinicaldoctest.Variant{ReuseIDs: true})
		results := program(t.Context(), onePatient(0))
		require.Equal(t, ingest.Created, results[0].Status)
		time.Sleep(time.Minute)
		_, err := srv.Client().Notes.Delete(t.Context(), results[0].NoteID)
		require.NoError(t, err)
		return results[0].NoteID
	}
	t.Run("of a lost upload", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
			id := begin(t, srv, program)
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			results := program(t.Context(), onePatient(1))
			assert.Equal(t, ingest.Created, results[0].Status, results[0])
			assert.Equal(t, id, results[0].NoteID)
			assert.Len(t, srv.Notes(), 1)
		})
	})
	t.Run("of one that the journal does not know", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
			id := begin(t, srv, program)
			_, err := srv.Client().Notes.Create(t.Context(), onePatient(1).Params)
			require.NoError(t, err)
			results := program(t.Context(), onePatient(1))
			assert.Equal(t, ingest.AlreadyThere, results[0].Status, results[0])
			assert.Equal(t, id, results[0].NoteID)
			assert.Len(t, srv.Notes(), 1)
		})
	})
}

// The clock of the machine was set forward between two processes, so the entry of the first process seems to be old. By
// the clock of the service it is not. Nothing is uploaded again before the service has had its time.
func TestRun_ClockSetForward_DecidesNoEarlier(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		start := time.Now()
		require.Equal(t, ingest.InDoubt, runProcess(t, srv, path, time.Minute, recording(0)).Status)
		rewriteEntries(t, srv, path, func(e *ingest.Entry) {
			for _, at := range []*time.Time{&e.At, &e.SentAt, &e.Until} {
				*at = at.Add(-time.Hour)
			}
			var loss map[string]any
			require.NoError(t, json.Unmarshal(e.Loss, &loss))
			for _, key := range []string{"sent_at", "lost_at", "clock_read_at"} {
				at, err := time.Parse(time.RFC3339Nano, loss[key].(string))
				require.NoError(t, err)
				loss[key] = at.Add(-time.Hour).Format(time.RFC3339Nano)
			}
			var err error
			e.Loss, err = json.Marshal(loss)
			require.NoError(t, err)
		})
		assert.Equal(t, ingest.Created, runProcess(t, srv, path, time.Hour, recording(0)).Status)
		assert.GreaterOrEqual(t, time.Since(start), 10*time.Minute)
		assert.Len(t, srv.Notes(), 1)
	})
}

// The clock of the sender was two days behind. The journal also keeps the time that the service gave the note. So the
// note is not given to a recording whose create was lost before.
func TestRun_SentByAClockBehind_NoteIsNotTakenByAnother(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		require.Equal(t, ingest.InDoubt, runProcess(t, srv, path, time.Second, lookalike(0)).Status)
		created := runProcess(t, srv, path, time.Second, lookalike(1))
		require.Equal(t, ingest.Created, created.Status)
		rewriteEntries(t, srv, path, func(e *ingest.Entry) {
			if e.Key == created.JournalKey {
				e.At = e.At.Add(-48 * time.Hour)
				e.SentAt = e.SentAt.Add(-48 * time.Hour)
			}
		})
		result := runProcess(t, srv, path, time.Hour, lookalike(0))
		assert.NotEqual(t, created.NoteID, result.NoteID, result)
		assert.Len(t, srv.Notes(), 2)
	})
}

// A damaged record keeps the patient's recordings unresolved, and their errors say so.
func TestRun_DamagedRecord_LeavesThePatientsRecordingsUnresolved(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		u.Journal = unreadable(u.Journal, ingest.ErrJournalDamaged)
		result := uploadOne(t, u, recording(0))
		require.Equal(t, ingest.InDoubt, result.Status)
		require.ErrorIs(t, result.Err, ingest.ErrJournalDamaged)
		assert.False(t, result.Until.IsZero())
	})
}

// earlierJournal writes a journal as an earlier process left it, with one recording whose outcome is unknown.
func (n *night) earlierJournal(header, state, members string) {
	n.t.Helper()
	n.older = true
	service := ingest.ServiceName(n.srv.URL)
	e := ingest.Binding{Origin: service}.Describe(recording(1))
	text := fmt.Sprintf("2000-01-01T00:00:01Z %s %s patient=%08x name=%08x size=%d sent=2000-01-01T00:00:00Z%s",
		state, e.Key, e.Patient, e.Name, e.Size, members)
	first := ingest.Line("", fmt.Sprintf(header, service))
	content := first + ingest.Line(first[:8], text)
	require.NoError(n.t, os.WriteFile(n.path, []byte(content), 0o600))
}

// A journal of an older version does not contain who sent a recording. It may have got its owner later, and the notes
// of another user are not in the owner's list. So a note that is found counts, but if none is found, a person decides.
func TestRun_UnresolvedEntryOfAnOlderJournal_IsLeftToAPerson(t *testing.T) {
	t.Parallel()
	const until = " until=2000-01-01T00:10:01Z"
	const loss = until + ` loss={"id":"a","sent_at":"2000-01-01T00:00:00Z","lost_at":"2000-01-01T00:00:01Z"}`
	for name, members := range map[string]string{"of version 1": until, "of version 2": loss} {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", made: ", made), func(t *testing.T) {
				t.Parallel()
				nights(t, func(t *testing.T, n *night) {
					if made {
						n.srv.AddNote(clinicaldoctest.Note{PatientID: 2, Name: "Encounter #1.", Audio: sound(1)})
					}
					time.Sleep(2 * time.Hour)
					n.earlierJournal("clinicaldoc-ingest 2 %s user=1", "in-doubt", members)
					report := n.run(1, 2)
					require.Len(t, n.srv.Notes(), report.Count(ingest.Complete), "nothing is sent")
					if made {
						require.Equal(t, 1, report.Count(ingest.Complete), report)
						return
					}
					require.Equal(t, 1, report.Count(ingest.InDoubt), report)
					left := report.Results[0]
					require.ErrorIs(t, left.Err, clinicaldoc.ErrOutcomeUnknown)
					require.ErrorContains(t, left.Err, "does not know which user sent it")
					require.ErrorContains(t, left.Err, "(Uploader.Resolve)", "which is what can be done")
					require.NoError(t, n.resolve(left.JournalKey, ingest.Resolution{By: "a person"}))
					require.Equal(t, 1, n.run(1, 2).Count(ingest.Complete))
					assert.Len(t, n.srv.Notes(), 1)
				})
			})
		}
	}
}

// A run whose token may not read its user can be anybody's. If it is killed, the next run does not take its own user
// for the one that sent the recording: another user's note is not in its list.
func TestRun_SentByAnUnknownUser_IsNotSentAgainByAnother(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"its user is not known": http.StatusForbidden, "it is": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nights(t, func(t *testing.T, n *night) {
				if status != 0 {
					n.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(status, "{}"))
				}
				n.uploader(func(u *ingest.Uploader) {
					u.Journal = dying{u.Journal}
					require.Error(t, u.RunAll(t.Context(), recordings(1, 2)).Err)
				})
				n.srv.ClearFaults()
				n.run(1, 2)
				time.Sleep(2 * time.Hour)
				report := n.run(1, 2)
				if status == 0 {
					assert.Equal(t, 1, report.Count(ingest.Complete), report)
					return
				}
				require.Equal(t, 1, report.Count(ingest.InDoubt), report)
				require.ErrorContains(t, report.Results[0].Err, "does not know which user sent it")
				assert.Empty(t, n.srv.Notes())
			})
		})
	}
}

// killed runs the uploader as a process that is killed right after the journal has saved that the recording is
// committed. A test that goes on as the next process sets a new client.
func killed(t *testing.T, u *ingest.Uploader, r ingest.Recording) {
	t.Helper()
	dead := *u
	dead.Journal = dying{u.Journal}
	_, err := collect(t.Context(), &dead, ingest.Recordings(r))
	require.Error(t, err)
}

// rewriteEntries writes a journal anew with other entries, as an earlier process would have left it.
func rewriteEntries(t *testing.T, srv *clinicaldoctest.Server, path string, change func(e *ingest.Entry)) {
	t.Helper()
	entries := readEntries(t, path)
	slices.SortFunc(entries, func(a, b ingest.Entry) int { return a.At.Compare(b.At) })
	for i := range entries {
		change(&entries[i])
	}
	var content bytes.Buffer
	require.NoError(t, ingest.WriteJournal(&content, ingest.ServiceName(srv.URL), slices.Values(entries)))
	require.NoError(t, os.WriteFile(path, content.Bytes(), 0o600))
}

// runProcess uploads one recording as a process does that has so long.
func runProcess(
	t *testing.T, srv *clinicaldoctest.Server, path string, limit time.Duration, r ingest.Recording,
) ingest.Result {
	t.Helper()
	journal, err := openOrBegin(t.Context(), srv.URL, path)
	require.NoError(t, err)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
	results, _ := collect(within(t, limit), u, ingest.Recordings(r))
	require.NoError(t, journal.Close())
	require.Len(t, results, 1)
	return results[0]
}
