package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
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
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		test(t, srv, func(ctx context.Context, recordings ...ingest.Recording) []ingest.Result {
			journal, err := openOrBegin(context.WithoutCancel(ctx), srv.URL, path)
			require.NoError(t, err)
			u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
			results, err := collect(ctx, u, ingest.Recordings(recordings...))
			if ctx.Err() != nil {
				require.ErrorIs(t, err, ctx.Err())
			} else {
				require.NoError(t, err)
			}
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
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(503, "synthetic"))
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
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
		require.NoError(t, journal.Close())
	})
}

func TestRun_Restarted_DecidesAtTheSameTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		start := time.Now()
		for range 3 { // three programs of three minutes each
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			results := program(ctx, recording(0))
			cancel()
			require.Len(t, results, 1)
			assert.Equal(t, ingest.InDoubt, results[0].Status)
			require.ErrorIs(t, results[0].Err, clinicaldoc.ErrOutcomeUnknown)
			assert.WithinDuration(t, start.Add(10*time.Minute), results[0].Until, time.Second)
		}
		results := program(t.Context(), recording(0))
		assert.Equal(t, ingest.Created, results[0].Status)
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

// A killed process leaves no time of its commit. Its recording is decided ten minutes after it was first searched
// for, or after the duration of its upload if that is longer. That the next process came a day later does not make
// it a day, and restarts do not put it off.
func TestRun_AfterAKilledProcess_DecidesTenMinutesLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restarts     int
		upload, want time.Duration
	}{"at once": {0, 0, 10 * time.Minute}, "after restarts": {3, 0, 10 * time.Minute}, "after an upload that was slow": {2, time.Hour, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
				program := func(ctx context.Context, dies bool) []ingest.Result {
					file, err := openOrBegin(context.WithoutCancel(ctx), srv.URL, path)
					require.NoError(t, err)
					defer func() { assert.NoError(t, file.Close()) }()
					u := &ingest.Uploader{Client: srv.Client(quick()), Journal: file}
					r := recording(0)
					if dies {
						u.Journal = dying{file}
						r.Params.BeforeCommit = func(context.Context) error { time.Sleep(c.upload); return nil }
					}
					results, _ := collect(ctx, u, ingest.Recordings(r))
					checkEntries(t, path) //nolint:contextcheck // with the test's own
					return results
				}
				program(t.Context(), true)
				require.Empty(t, srv.Notes())
				time.Sleep(24 * time.Hour)
				start := time.Now()
				for range c.restarts {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
					results := program(ctx, false)
					cancel()
					assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results))
					assert.WithinDuration(t, start.Add(c.want), results[0].Until, time.Second)
				}
				assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(program(t.Context(), false)))
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
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Minute)
		defer cancel()
		start := time.Now()
		results := program(ctx, r)
		require.Len(t, results, 1)
		assert.WithinDuration(t, start.Add(2*time.Hour), results[0].Until, time.Second)
	})
}

// A note that an earlier program created is in the journal, so it is not taken for another recording's.
func TestRun_NoteOfAnEarlierProgram_IsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := program(ctx, onePatient(0), onePatient(1), onePatient(2), onePatient(3))
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 3, ingest.InDoubt: 1}, statuses(results))
		results = program(t.Context(), onePatient(0), onePatient(1))
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1, ingest.AlreadyThere: 1}, statuses(results), results)
		assert.Len(t, srv.Notes(), 4)
		time.Sleep(20 * time.Hour) // FindCreated looks at the notes of a day
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		results = program(t.Context(), onePatient(7)) // of the same size as an earlier one
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(results), results)
	})
}

// Two creates of a patient are lost. Once the note of one is found, it no longer keeps the other undecided.
func TestRun_NoteFoundForOne_DecidesTheOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Times(2))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(503, "synthetic").Times(8))
		all := []ingest.Recording{onePatient(0), onePatient(1), onePatient(2), onePatient(3)}
		require.NotEmpty(t, program(ctx, all...))
		results := program(t.Context(), all...)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 4}, statuses(results), results)
		assert.Len(t, srv.Notes(), 4)
	})
}

// The note of an unresolved recording is known by its content, so it does not hold up another recording of the patient.
func TestResolve_NoteOfAnotherRecordingInDoubt_HoldsUpNothing(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		var ends []time.Time
		u.OnEvent = func(e ingest.Event) {
			if e.Result != nil {
				ends = append(ends, time.Now())
			}
		}
		// the second's note, late, and just before the first's time has come
		time.AfterFunc(10*time.Minute-time.Millisecond, func() {
			srv.AddNote(clinicaldoctest.Note{
				PatientID: 7, Name: "Encounter #1.", Audio: sound(1), CreatedAt: time.Now(),
			})
		})
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			if yield(onePatient(0), nil) {
				time.Sleep(5 * time.Minute)
				yield(onePatient(1), nil)
			}
		})
		require.NoError(t, err)
		require.Len(t, ends, 2)
		assert.Less(t, ends[1].Sub(ends[0]), 2*time.Minute, "soon, and not when its own time has come")
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
		require.NoError(t, journal.Close())
	})
}

// An iterator that never ends, such as a queue, does not keep unresolved recordings from being reported and decided.
func TestRun_EndlessIterator_DecidesUnresolvedRecordings(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Times(2))
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		// Somebody else makes notes of both patients: nothing explains them, and their recordings cannot be read. The
		// second's is deleted in time.
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.AddNote(clinicaldoctest.Note{PatientID: 1, Name: "Encounter #0", CreatedAt: time.Now()})
		id := srv.AddNote(clinicaldoctest.Note{PatientID: 2, Name: "Encounter #1", CreatedAt: time.Now()})
		time.AfterFunc(10*time.Minute+time.Second, func() { _, _ = srv.Client().Notes.Delete(t.Context(), id) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
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
		require.NoError(t, journal.Close())
	})
}

// twin is one of two recordings that nothing tells apart but their content.
func twin(n int) ingest.Recording {
	r := onePatient(n)
	r.Params.Name, r.Params.Audio = "Encounter", clinicaldoc.AudioBytes("a.wav", []byte{'R', byte(n)})
	return r
}

// If recordings cannot be read, nobody knows whose note it is, even if a program has only one of the recordings.
func TestRun_TwoLostWithUnreadableNotes_TakeNone(t *testing.T) {
	t.Parallel()
	for name, next := range map[string][]ingest.Recording{
		"both": {twin(0), twin(1)}, "one": {twin(1)}, "the other": {twin(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
				srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				results := program(t.Context(), twin(0), twin(1))
				assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 2}, statuses(results), results)
				begun := time.Now()
				results = program(t.Context(), next...)
				assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: len(next)}, statuses(results), results)
				assert.Less(t, time.Since(begun), 20*time.Minute,
					"as long as FindCreated tries to read recordings, twice")
				assert.Len(t, srv.Notes(), 1)
			})
		})
	}
}

// A run that is ended does not wait for a recording that is to be asked about again later, nor for those equal to it.
func TestRun_EndedWhileUndecided_DoesNotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		program(t.Context(), twin(0), twin(1))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // between two of its questions
		defer cancel()
		begun := time.Now()
		results := program(ctx, twin(1), twin(1), twin(1))
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 3}, statuses(results), results)
		assert.Less(t, time.Since(begun), 21*time.Second)
	})
}

// After a break, a recording that was to be asked about again later is free for the next run.
func TestRun_BreakWhileUndecided_ReleasesTheRecording(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		_, err := collect(t.Context(), u, ingest.Recordings(twin(0), twin(1)))
		require.NoError(t, err)
		slow := recording(2)
		slow.Params.BeforeCommit = func(context.Context) error {
			time.Sleep(20 * time.Second)
			return errors.New("synthetic")
		}
		u.Client = srv.Client(quick())
		for result := range u.Run(t.Context(), ingest.Recordings(twin(1), slow)) {
			assert.Equal(t, slow.Key, result.Recording.Key)
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		results, _ := collect(ctx, u, ingest.Recordings(twin(1)))
		require.Len(t, results, 1)
		require.NotErrorIs(t, results[0].Err, ingest.ErrTaken)
	})
}

// asking is a journal that takes its time to tell of a patient's entries, until the run has ended.
type asking struct {
	ingest.Journal
	keys chan<- time.Time // sent at which the recording is, by whom it is asked

	doubtsAlone bool // only unresolved recordings are asked about so
}

func (j asking) EntriesForPatient(ctx context.Context, _ uint32, since time.Time) ([]ingest.Entry, error) {
	if since.IsZero() && j.doubtsAlone {
		return nil, nil
	}
	j.keys <- since
	<-ctx.Done()
	return nil, errors.New("synthetic")
}

// At most 32 unresolved recordings are searched for at a time, the first ones first. The end of the run meanwhile is
// not a failure of the journal.
func TestRun_ManyUnresolved_SearchesForThirtyTwoAtATime(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Every(2))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		keys := make(chan time.Time, 100)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: asking{file, keys, true}, Workers: 1, AllNew: true}
		asked := 0
		time.AfterFunc(time.Hour, func() { asked = len(keys); cancel() })
		results, err := collect(ctx, u, func(yield func(ingest.Recording, error) bool) {
			for n := 0; n < 70 && yield(recording(n), nil); n++ {
				time.Sleep(time.Second)
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 35, ingest.InDoubt: 35}, statuses(results))
		assert.Equal(t, 32, asked)
		for before := (time.Time{}); len(keys) > 0; {
			next := <-keys
			assert.True(t, next.After(before))
			before = next
		}
	})
}

// A recording that becomes unresolved after many others were resolved is searched for, too.
func TestRun_UnresolvedAfterManyOthers_IsDecided(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Every(2))
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: file, Workers: 1, AllNew: true}
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			for n := 0; n < 66 && yield(recording(n), nil); n++ {
				time.Sleep(time.Hour)
			}
		})
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 66}, statuses(results))
	})
}

// doubting is a journal of which every recording is unresolved, as the one that it knows is.
type doubting struct {
	asking
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
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		journal := doubting{asking: asking{file, make(chan time.Time, 10_000), true}}
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: watched{file, func(e ingest.Entry) { journal.entry = e }},
			AllNew: true,
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := collect(ctx, u, recordings(0, 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		u.Journal = journal
		begun, left := time.Now(), 0
		for result := range u.Run(ctx, func(yield func(ingest.Recording, error) bool) {
			r := recording(0)
			for n := range 10_002 {
				if r.Key = fmt.Sprint(n); !yield(r, nil) {
					return
				}
			}
		}) {
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
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
		defer cancel()
		busy := recording(1) // keeps the only worker
		busy.Params.BeforeCommit = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		begun := time.Now()
		results := program(ctx, recording(0), recording(0), recording(2), busy)
		assert.Equal(t, map[ingest.Status]int{ingest.Refused: 3}, statuses(results), results)
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrNotCreated)
		assert.Less(t, time.Since(begun), 16*time.Minute-50*time.Second)
	})
}

// A stream that a killed process had sent has no size in the journal: it may have made a note of any size. So may every
// recording where the service does not tell a note's size.
func TestRun_RivalOfUnknownSize_TakesNoNote(t *testing.T) {
	t.Parallel()
	stream, longer := twin(0), twin(0)
	stream.Params.Audio = clinicaldoc.AudioReader("a.wav", bytes.NewReader([]byte("RIFF")))
	longer.Params.Audio = clinicaldoc.AudioBytes("a.wav", []byte("RIFF"))
	for member, killed := range map[string]ingest.Recording{`"audio":`: stream, `"unknown":`: longer} {
		path := journalPath(t)
		synctest.Test(t, func(t *testing.T) {
			srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet {
						next.ServeHTTP(w, r)
						return
					}
					answer := httptest.NewRecorder()
					next.ServeHTTP(answer, r)
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Date", answer.Header().Get("Date"))
					w.WriteHeader(answer.Code)
					_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(`"audio":`), []byte(member)))
				})
			}))
			defer srv.Close()
			srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
			journal, err := openOrBegin(t.Context(), srv.URL, path)
			require.NoError(t, err)
			u := &ingest.Uploader{Client: srv.Client(quick()), Journal: dying{journal}, AllNew: true}
			_, err = collect(t.Context(), u, ingest.Recordings(killed))
			require.Error(t, err)
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			u.Client, u.Journal = srv.Client(quick()), journal
			results, err := collect(t.Context(), u, ingest.Recordings(twin(1)))
			require.NoError(t, err)
			require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results), results)
			assert.Equal(t, []int64{srv.Notes()[0].ID}, results[0].Candidates)
			assert.Len(t, srv.Notes(), 1)
			require.NoError(t, journal.Close())
		})
	}
}

// forgetful is a journal as earlier versions wrote it, without the hash of what was sent.
type forgetful struct {
	ingest.Journal
	but string // this one, which it keeps
}

type forgetfulClaim struct {
	ingest.Claim
	but string
}

func (j forgetful) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	return forgetfulClaim{claim, j.but}, err
}

func (c forgetfulClaim) Save(ctx context.Context, e ingest.Entry) error {
	if e.SHA256 != c.but {
		e.SHA256 = ""
	}
	return c.Claim.Save(ctx, e)
}

// That nothing is known of either recording, or of one of them, does not make them the same, nor the note the other's.
func TestRun_RivalOfUnknownContent_TakesNoNote(t *testing.T) {
	t.Parallel()
	for _, known := range []string{"", sumOf(twin(0)), sumOf(twin(1))} {
		withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
			srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			for _, list := range [][]ingest.Recording{{twin(0), twin(1)}, {twin(0)}, {twin(1)}} {
				u := &ingest.Uploader{
					Client: srv.Client(quick()), Journal: forgetful{journal, known}, Workers: 1, AllNew: true,
				}
				results, err := collect(t.Context(), u, ingest.Recordings(list...))
				require.NoError(t, err)
				assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: len(list)}, statuses(results), results)
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
			for asked, order := range map[string][]int{
				"both": {0, 1}, "turned round": {1, 0}, "one by one": {0, -1, 1}, "the other first": {1, -1, 0},
			} {
				t.Run(first+", "+second+", "+asked, func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
						srv.Inject(clinicaldoctest.RouteCreateNote, firstFault)
						srv.Inject(clinicaldoctest.RouteCreateNote, secondFault)
						// nothing is found out for now
						srv.Inject(clinicaldoctest.RouteListNotes,
							clinicaldoctest.Answer(503, "synthetic").After(1).Times(100))
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
						defer cancel()
						program(ctx, twin(0), twin(1))
						srv.ClearFaults()
						var batch []ingest.Recording
						for _, n := range append(order, -1) {
							if n >= 0 {
								batch = append(batch, twin(n))
								continue
							}
							for _, result := range program(t.Context(), batch...) {
								require.Contains(t, []ingest.Status{ingest.Created, ingest.AlreadyThere}, result.Status,
									result)
								assert.Equal(t, sumOf(result.Recording), noteOf(srv, result.NoteID).AudioSHA256,
									"another recording's note")
							}
							batch = nil
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
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true}
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			_ = yield(twin(0), nil)
			time.Sleep(time.Minute)
			_ = yield(twin(1), nil)
		})
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 2}, statuses(results), results)
		assert.Len(t, srv.Notes(), 2)
		require.NoError(t, journal.Close())
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
		results, err := collect(t.Context(), u, recordings(0, 1))
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, ingest.Refused, results[0].Status)
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrNotCreated)
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrServer)
		assert.Equal(t, 3, attempts(srv))
		srv.ClearFaults()
		results, err = collect(t.Context(), u, recordings(0, 1))
		require.NoError(t, err)
		assert.Equal(t, ingest.Created, results[0].Status)
	})
}

func TestRun_EqualRecordingsUnresolved_ShareTheResult(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, srv *clinicaldoctest.Server, program runProgram) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := program(ctx, recording(0), recording(0), recording(0))
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 3}, statuses(results))
		results = program(t.Context(), recording(0), recording(0), recording(0))
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1, ingest.AlreadyThere: 2}, statuses(results))
	})
}

// A run that is cancelled waits for the responses to complete uploads: a response is better than an unknown outcome.
func TestRun_CancelledAfterTheUpload_WaitsForTheResponse(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		r := recording(0)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		time.AfterFunc(time.Second, cancel)
		results, err := collect(ctx, u, ingest.Recordings(r))
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, results, 1)
		assert.Equal(t, ingest.Created, results[0].Status, results[0])

		// Also when the run ends while it is being written down that all is about to leave.
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		u.Journal = failing{journal, func(_ context.Context, e ingest.Entry) error {
			if e.State == ingest.StateCommitting {
				cancel()
				time.Sleep(time.Second)
			}
			return nil
		}}
		results, err = collect(ctx, u, recordings(1, 2))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(results), results)
		require.NoError(t, journal.Close())
	})
}

// A service may answer with the id of a job, which may also be that of another recording's note.
func TestRun_ResponseNamesAJob_TakesNoOtherNote(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		journal := openJournal(t, srv.URL, path)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(0)))
		require.NoError(t, err)
		other := results[0].NoteID
		job := fmt.Sprintf(`{"id":%d,"status":"queued"}`, other)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusAccepted, job))

		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results, err = collect(soon, u, ingest.Recordings(onePatient(1)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, results, 1)
		assert.Equal(t, ingest.InDoubt, results[0].Status)
		assert.Zero(t, results[0].NoteID, "nothing shows that it is a note")

		results, err = collect(t.Context(), u, ingest.Recordings(onePatient(1)))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(results), results)
		assert.NotEqual(t, other, results[0].NoteID)
		assert.Len(t, srv.Notes(), 2)
		require.NoError(t, journal.Close())
	})
}

// The journal keeps all that the client knew of a lost create. The error that the caller gets is not changed.
func TestRun_LostCreate_KeepsWhatTheErrorKnows(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(5*time.Second))
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(201, `{"id":4711,"name":"Encounter","created_at":`))
		file, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		var doubt ingest.Entry
		journal := watched{file, func(e ingest.Entry) {
			if e.State == ingest.StateInDoubt && doubt.State == 0 {
				doubt = e
			}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, start := recording(0), time.Now()
		client := srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: time.Second, MaxWait: 10 * time.Second}))
		results, err := collect(ctx, &ingest.Uploader{Client: client, Journal: journal, AllNew: true},
			ingest.Recordings(r))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, results, 1)
		unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](results[0].Err)
		require.True(t, ok, results[0])
		assert.Equal(t, r.Params.Name, unknown.Params.Name, "what goes into the journal is taken out of a copy")
		assert.Equal(t, int64(4711), results[0].NoteID)
		assert.Equal(t, int64(4711), doubt.NoteID)
		assert.Equal(t, start.Add(6*time.Second), doubt.SentAt, "of the attempt that was lost")
		require.NoError(t, file.Close())
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

// The caller's list of notes that explain themselves is read, never written to, however much room it has.
func TestRun_CallersExclude_IsNotChanged(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		file, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		notes := make([]*clinicaldoc.ProgressNote, 1, 10)
		notes[0] = &clinicaldoc.ProgressNote{ID: 4711}
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: file, Workers: 1, AllNew: true,
			Find: clinicaldoc.FindCreatedParams{Exclude: notes},
		}
		_, err = collect(t.Context(), u, ingest.Recordings(onePatient(0), onePatient(1)))
		require.NoError(t, err)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		u.Find.OnProgress = func(string, time.Time) { t.Error("several searches at once would call it") }
		results, err := collect(t.Context(), u, ingest.Recordings(onePatient(2)))
		require.NoError(t, err)
		assert.Equal(t, ingest.Created, results[0].Status, results[0])
		assert.Equal(t, append([]*clinicaldoc.ProgressNote{{ID: 4711}}, make([]*clinicaldoc.ProgressNote, 9)...),
			notes[:10])
		require.NoError(t, file.Close())
	})
}

// statusAfter is what one recording's status is after a run of a new process that has so long.
func statusAfter(t *testing.T, srv *clinicaldoctest.Server, path string, limit time.Duration) ingest.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	file, err := openOrBegin(t.Context(), srv.URL, path)
	require.NoError(t, err)
	results, _ := collect(ctx, &ingest.Uploader{Client: srv.Client(quick()), Journal: file},
		ingest.Recordings(recording(0)))
	require.NoError(t, file.Close())
	require.Len(t, results, 1)
	return results[0].Status
}

// An earlier version saved nothing of a lost create. Its recording stays unresolved, because nobody knows whose token
// sent it.
func TestRun_UnresolvedEntryOfAnEarlierVersion_StaysUnresolved(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		run := func(path string, limit time.Duration) ingest.Status { return statusAfter(t, srv, path, limit) }
		require.Equal(t, ingest.InDoubt, run(path, time.Minute))
		_, entries, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		entries[0].Loss = nil
		var earlier bytes.Buffer
		require.NoError(t, ingest.WriteJournal(&earlier, ingest.ServiceName(srv.URL), slices.Values(entries)))
		require.NoError(t, os.WriteFile(path+".earlier", earlier.Bytes(), 0o600))
		assert.Equal(t, ingest.InDoubt, run(path+".earlier", time.Minute), "the run ends while it is asked about")
		assert.Equal(t, ingest.InDoubt, run(path+".earlier", time.Hour))
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

// Between two processes the machine's clock was set: what the first has noted seems to be long past. By the service's
// clock it is not, so that nothing is uploaded again before the time that the service may need.
func TestRun_ClockSetForward_DecidesNoEarlier(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		start := time.Now()
		run := func(path string, limit time.Duration) ingest.Status { return statusAfter(t, srv, path, limit) }
		require.Equal(t, ingest.InDoubt, run(path, time.Minute))
		_, entries, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		e := &entries[0]
		set := func(at *time.Time) { *at = at.Add(-time.Hour) }
		set(&e.At)
		set(&e.SentAt)
		set(&e.Until)
		var loss map[string]any
		require.NoError(t, json.Unmarshal(e.Loss, &loss))
		for _, key := range []string{"sent_at", "lost_at", "clock_read_at"} {
			at, err := time.Parse(time.RFC3339Nano, loss[key].(string))
			require.NoError(t, err)
			set(&at)
			loss[key] = at.Format(time.RFC3339Nano)
		}
		e.Loss, err = json.Marshal(loss)
		require.NoError(t, err)
		var before bytes.Buffer
		require.NoError(t, ingest.WriteJournal(&before, ingest.ServiceName(srv.URL), slices.Values(entries)))
		require.NoError(t, os.WriteFile(path+".set", before.Bytes(), 0o600))
		assert.Equal(t, ingest.Created, run(path+".set", time.Hour))
		assert.GreaterOrEqual(t, time.Since(start), 10*time.Minute)
		assert.Len(t, srv.Notes(), 1)
	})
}

// A recording was sent by a clock that was two days behind. Its note is known by the service's time, and is not given
// to another that was lost before.
func TestRun_SentByAClockBehind_NoteIsNotTakenByAnother(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(503, "synthetic").Always())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		program := func(path string, limit time.Duration, r ingest.Recording) ingest.Result {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			journal, err := openOrBegin(t.Context(), srv.URL, path)
			require.NoError(t, err)
			results, _ := collect(ctx, &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true},
				ingest.Recordings(r))
			require.NoError(t, journal.Close())
			require.Len(t, results, 1)
			return results[0]
		}
		lost := program(path, time.Second, twin(0))
		require.Equal(t, ingest.InDoubt, lost.Status)
		made := program(path, time.Second, twin(1))
		require.Equal(t, ingest.Created, made.Status)
		_, entries, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		slices.SortFunc(entries, func(a, b ingest.Entry) int { return a.At.Compare(b.At) })
		for i := range entries {
			if e := &entries[i]; e.Key == made.JournalKey {
				e.At, e.SentAt = e.At.Add(-48*time.Hour), e.SentAt.Add(-48*time.Hour)
			}
		}
		var content bytes.Buffer
		require.NoError(t, ingest.WriteJournal(&content, ingest.ServiceName(srv.URL), slices.Values(entries)))
		require.NoError(t, os.WriteFile(path+".behind", content.Bytes(), 0o600))
		result := program(path+".behind", time.Hour, twin(0))
		assert.NotEqual(t, made.NoteID, result.NoteID, result)
		assert.Len(t, srv.Notes(), 2)
	})
}

// A damaged record keeps the patient's recordings unresolved, and their errors say so.
func TestRun_DamagedRecord_LeavesThePatientsRecordingsUnresolved(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		never := func(context.Context, ingest.Entry) error { return nil }
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: refusing{failing{file, never}, nil, ingest.ErrJournalDamaged},
			AllNew: true,
		}
		results, err := collect(t.Context(), u, recordings(0, 1))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1}, statuses(results))
		require.ErrorIs(t, results[0].Err, ingest.ErrJournalDamaged)
		assert.False(t, results[0].Until.IsZero())
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

// A journal of an older version does not say who sent a recording, and its owner may have come later: another user's
// notes are not in the owner's list. So the proof that a note exists counts, and that there is none is left to a
// person.
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
