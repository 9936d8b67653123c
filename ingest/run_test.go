package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// slowFleet makes a journal one that many machines share: other machines have some of the recordings, and some
// calls never end before the context, or before the test is over.
func slowFleet(j hooked, over <-chan struct{}) hooked {
	j.claim = func(ctx context.Context, key ingest.Key) error {
		switch key[0] % 16 {
		case 0:
			return ingest.ErrTaken
		case 1:
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	j.save = func(ctx context.Context, e *ingest.Entry) error {
		if e.Key[1]%32 == 0 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	released := j.release
	j.release = func(key ingest.Key) {
		if key[1]%32 == 1 {
			<-over
		}
		released(key)
	}
	return j
}

// Run ends within twenty seconds, however it is ended and whatever is under way. Each claim is released once, and
// events report each result as long as somebody receives them.
func TestRun_EndedAtAnyTime_EndsInTwentySeconds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal")
			synctest.Test(t, func(t *testing.T) { endOnce(t, seed, path) })
		})
	}
}

func endOnce(t *testing.T, seed uint64, path string) {
	t.Helper()
	d := rand.New(rand.NewPCG(seed, 7))
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
	defer srv.Close()
	srv.SetSeed(seed)
	for _, fault := range []clinicaldoctest.Fault{
		clinicaldoctest.ResetAfterRequest(), clinicaldoctest.ResetAfterCommit(), clinicaldoctest.Silent(),
		clinicaldoctest.Answer(503, "synthetic"), clinicaldoctest.TooManyRequests(time.Minute),
		clinicaldoctest.Answer(401, "synthetic"), clinicaldoctest.ResetAfterCommit().CommitAfter(time.Minute),
	} {
		if d.IntN(2) == 0 {
			srv.Inject(clinicaldoctest.RouteCreateNote, fault.Rate(0.3))
		}
	}
	if d.IntN(3) == 0 {
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Silent().Rate(0.3))
	}
	if d.IntN(6) == 0 {
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(503, "synthetic").Always())
	}
	over := make(chan struct{})
	file, err := openOrBegin(t.Context(), srv.URL, path)
	require.NoError(t, err)
	var claims sync.Map // by key: how often it was claimed more than released
	count := func(key ingest.Key, more int32) {
		of, _ := claims.LoadOrStore(key, new(atomic.Int32))
		of.(*atomic.Int32).Add(more)
	}
	journal := hooked{
		Journal: file,
		claimed: func(key ingest.Key) { count(key, 1) },
		release: func(key ingest.Key) { count(key, -1) },
	}
	u := &ingest.Uploader{
		Client: srv.Client(quick(), clinicaldoc.WithStallTimeout(time.Hour)), Journal: journal,
		Workers: 1 + d.IntN(6), AllNew: d.IntN(2) == 0, Find: clinicaldoc.FindCreatedParams{Settle: time.Minute},
	}
	if d.IntN(2) == 0 {
		u.Journal = slowFleet(journal, over)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended atomic.Pointer[time.Time] // when it was ended
	end := func() { ended.CompareAndSwap(nil, new(time.Now())) }
	how, after := d.IntN(3), time.Duration(d.Int64N(int64(3*time.Minute)))
	if d.IntN(2) == 0 {
		after = time.Duration(d.Int64N(int64(5 * time.Second)))
	}
	stuck := d.IntN(4) == 0
	equal := rand.New(rand.NewPCG(seed, 8))
	recordings := func(yield func(ingest.Recording, error) bool) {
		for n := range 60 {
			r := onePatient(equal.IntN(1 + n)) // many are equal
			r.Params.Name = fmt.Sprint("Encounter ", n%3)
			if !yield(r, nil) {
				return
			}
			if stuck && n == 30 {
				<-over // it knows nothing of the context
				return
			}
		}
	}
	stop := time.AfterFunc(after, func() { end(); cancel() })
	defer stop.Stop()
	reported, taken, wanted := 0, 0, true
	if seed%2 == 0 {
		u.OnEvent = func(e ingest.Event) {
			assert.True(t, wanted, "nobody wants to know any more")
			assert.LessOrEqual(t, e.Progress.Doubts, e.Progress.Active)
			if e.Result != nil {
				reported++
				assert.Equal(t, reported, e.Progress.Done())
			}
		}
	}
	func() {
		defer func() { _ = recover() }()
		for result, err := range u.Run(ctx, recordings) {
			if err == nil {
				taken++
			}
			if err == nil && result.Status == ingest.Refused {
				assert.NotContains(t, fmt.Sprint(result.Err), "cancel", "what was not begun is no result: %v", result)
			}
			if how > 0 && d.IntN(20) == 0 {
				end()
				wanted = false
				if how == 1 {
					break
				}
				panic("the caller's own")
			}
		}
	}()
	if u.OnEvent != nil && wanted {
		assert.Equal(t, taken, reported)
	}
	if at := ended.Load(); at != nil {
		assert.LessOrEqual(t, time.Since(*at), 20*time.Second)
	}
	close(over)
	synctest.Wait()
	claims.Range(func(key, count any) bool {
		return assert.Zero(t, count.(*atomic.Int32).Load(), "claims of %v that were not released once", key)
	})
	_ = file.Close()
}

// Two recordings have the same content, and the first one is listed twice. The other one waits for it.
func TestRun_EqualsOfAnUnresolvedRecording_Ends(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Always())
		first, other := onePatient(1), onePatient(1)
		other.Key = "another"
		u.Workers = 1
		begun := time.Now()
		results, err := collect(within(t, time.Minute), u, ingest.Recordings(first, other, first))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, results, 2)
		assert.Equal(t, results[0].Recording.Key, results[1].Recording.Key)
		assert.Less(t, time.Since(begun), 61*time.Second)
	})
}

// After a break, a recording that was to be uploaded once more is free for the next run.
func TestRun_BreakBeforeAnotherUpload_ReleasesTheRecording(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true,
			Find: clinicaldoc.FindCreatedParams{Settle: time.Second},
		}
		slow := recording(1)
		slow.Params.BeforeCommit = func(context.Context) error {
			time.Sleep(time.Minute)
			return errors.New("synthetic")
		}
		for result := range u.Run(t.Context(), ingest.Recordings(recording(0), slow)) {
			assert.Equal(t, slow.Key, result.Recording.Key)
			break
		}
		result := uploadOne(t, u, recording(0))
		assert.Equal(t, ingest.Created, result.Status, result)
	})
}

// If the journal fails while the run is being ended, Run returns the journal's error: somebody has to repair the
// journal.
func TestRun_JournalFailsWhileEnding_ReturnsItsError(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		ctx, cancel := context.WithCancel(t.Context())
		synthetic := errors.New("synthetic")
		u.Journal = failing(u.Journal, func(context.Context, ingest.Entry) error { cancel(); return synthetic })
		_, err := collect(ctx, u, recordings(0, 1))
		require.ErrorIs(t, err, synthetic)
	})
}

// Any failure of a journal ends the run, with the first reason. The outcome of each recording is reported anyway,
// and waiting for the journal is bounded.
func TestRun_JournalFailsAnywhere_Ends(t *testing.T) {
	t.Parallel()
	synthetic := errors.New("synthetic")
	failsToRefuse := func(_ context.Context, e *ingest.Entry) error {
		if e.State == ingest.StateRefused {
			return synthetic
		}
		return nil
	}
	var second atomic.Bool
	bothBegan := make(chan struct{})
	for name, c := range map[string]struct {
		answer     int
		journal    hooked
		recordings int
		want       error
		status     ingest.Status
	}{
		"a claim": {0, hooked{claim: func(context.Context, ingest.Key) error {
			return synthetic
		}}, 1, synthetic, ingest.Refused},
		"the patient's entries": {0, hooked{entries: func(context.Context, uint32, time.Time) ([]ingest.Entry, error) {
			return nil, synthetic
		}}, 1, synthetic, ingest.Refused},
		"a refusal":               {422, hooked{save: failsToRefuse}, 1, synthetic, ingest.Refused},
		"a refusal that may pass": {401, hooked{save: failsToRefuse}, 1, synthetic, ingest.Refused},
		"a note": {0, hooked{save: func(ctx context.Context, e *ingest.Entry) error {
			if e.State == ingest.StateCreated {
				<-ctx.Done()
			}
			return ctx.Err()
		}}, 1, context.DeadlineExceeded, ingest.Created},
		"two commits": {0, hooked{save: func(context.Context, *ingest.Entry) error {
			if second.Swap(true) {
				close(bothBegan)
				time.Sleep(time.Second)
				return errors.New("a consequence")
			}
			<-bothBegan
			return synthetic
		}}, 2, synthetic, ingest.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				if c.answer != 0 {
					srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(c.answer, "synthetic"))
				}
				namesake := recording(0).Params
				srv.AddNote(clinicaldoctest.Note{PatientID: namesake.PatientID, Name: namesake.Name, Audio: sound(8)})
				c.journal.Journal = u.Journal
				u.Journal = c.journal
				u.Workers = 2
				u.AllNew = c.journal.entries == nil
				begun := time.Now()
				results, err := collect(t.Context(), u, recordings(0, c.recordings))
				require.ErrorIs(t, err, c.want)
				assert.Equal(t, counts{c.status: c.recordings}, statuses(results), results)
				assert.Less(t, time.Since(begun), 10*time.Second)
			})
		})
	}
}

// If another worker has taken over a recording, saving its commit fails while it is sent. Then the service never
// receives the complete recording: whether it gets a note is up to the other worker, so it is unresolved here.
func TestRun_RecordingTakenOver_SendsOnlyOthers(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		taken := false
		u.Journal = failing(u.Journal, func(context.Context, ingest.Entry) error {
			if !taken {
				taken = true
				return ingest.ErrTaken
			}
			return nil
		})
		u.Workers = 1
		results := upload(t, u, recordings(0, 2))
		assert.Equal(t, counts{ingest.InDoubt: 1, ingest.Created: 1}, statuses(results), results)
		assert.Len(t, srv.Notes(), 1)
	})
}

// A refusal that comes while the run is being ended is a result.
func TestRun_RefusedWhileEnding_HasAResult(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		ctx, cancel := context.WithCancel(t.Context())
		endsAtAnUpload := func(_ context.Context, attempt clinicaldoc.Attempt) {
			if attempt.Method == http.MethodPost {
				cancel()
			}
		}
		u.Client = srv.Client(quick(), clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: endsAtAnUpload}))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic"))
		results, err := collect(ctx, u, recordings(0, 1))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, counts{ingest.Refused: 1}, statuses(results))
	})
}

// Nothing can be decided with a journal that failed, so the run does not wait for unresolved recordings.
func TestRun_JournalFails_EndsSearches(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		synthetic := errors.New("synthetic")
		firstIsUnresolved := false
		u.Journal = failing(u.Journal, func(_ context.Context, e ingest.Entry) error {
			if firstIsUnresolved && e.State == ingest.StateCommitting {
				return synthetic
			}
			firstIsUnresolved = firstIsUnresolved || e.State == ingest.StateInDoubt
			return nil
		})
		u.Workers = 1
		begun := time.Now()
		results, err := collect(t.Context(), u, recordings(0, 2))
		require.ErrorIs(t, err, synthetic)
		assert.Equal(t, counts{ingest.InDoubt: 1, ingest.Refused: 1}, statuses(results))
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// If the journal and the iterator both fail, Run returns the journal's error: somebody has to repair it.
func TestRun_JournalAndIteratorFail_ReturnsTheJournalsError(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		broken, ended := errors.New("synthetic: broken"), errors.New("synthetic: ended")
		iteratorEnds := make(chan struct{})
		u.Journal = failing(u.Journal, func(context.Context, ingest.Entry) error {
			<-iteratorEnds
			synctest.Wait() // until the run knows of it
			return broken
		})
		_, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			if yield(recording(0), nil) {
				close(iteratorEnds)
				yield(ingest.Recording{}, ended)
			}
		})
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, ended)
	})
}

// troubled is how a run in trouble ended.
type troubled struct {
	results []ingest.Result
	pauses  []ingest.Pause
	srv     *clinicaldoctest.Server
	took    time.Duration
	err     error
}

// inTrouble runs the uploader in virtual time, over recordings of which everything fails in the same way from the
// start.
func inTrouble(t *testing.T, u *ingest.Uploader, count int, trouble func(*clinicaldoctest.Server)) (got troubled) {
	t.Helper()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		trouble(srv)
		u.Client = srv.Client(quick())
		u.Journal = journal
		u.OnEvent = func(e ingest.Event) {
			if e.Pause != nil {
				got.pauses = append(got.pauses, *e.Pause)
			}
		}
		begun := time.Now()
		got.results, got.err = collect(t.Context(), u, recordings(0, count))
		got.took = time.Since(begun)
		got.srv = srv
	})
	return got
}

func always(route string, fault clinicaldoctest.Fault) func(*clinicaldoctest.Server) {
	return func(srv *clinicaldoctest.Server) { srv.Inject(route, fault.Always()) }
}

// attempts counts the uploads that were tried.
func attempts(srv *clinicaldoctest.Server) int {
	return requestsTo(srv, clinicaldoctest.RouteCreateNote)
}

func TestRun_EverythingFails_Pauses(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*clinicaldoctest.Server){
		"the token is refused":     always("", clinicaldoctest.Answer(401, "synthetic")),
		"uploads are refused":      always(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic")),
		"the service is gone":      always("", clinicaldoctest.Reset()),
		"the service limits rates": always(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0)),
		"lists fail":               always(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(500, "synthetic")),
		"lists take too long":      always(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(408, "synthetic")),
		"lists are forbidden":      always(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(403, "synthetic")),
		"uploads are forbidden":    always(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := inTrouble(t, &ingest.Uploader{}, 200, trouble)
			require.ErrorContains(t, got.err, "everything fails in the same way")
			assert.Less(t, len(got.results), 25, "most were never begun")
			assert.Less(t, attempts(got.srv), 100, "and most of the time nothing was tried")
			assert.Empty(t, got.srv.Notes())
			for _, r := range got.results {
				require.Error(t, r.Err, "what was tried says why it failed")
			}
			require.Len(t, got.pauses, 1, "it is said once")
			require.Error(t, got.pauses[0].Why)
			assert.NotZero(t, got.pauses[0].Next)
			assert.InDelta(t, 15, got.took.Minutes(), 1)
			assert.Greater(t, len(got.srv.Requests()), 16, "once a minute it is looked whether that has passed")

			got = inTrouble(t, &ingest.Uploader{MaxPause: -1}, 200, trouble)
			require.ErrorContains(t, got.err, "everything fails in the same way")
			assert.Less(t, attempts(got.srv), 20)
			assert.Empty(t, got.pauses)
			assert.Less(t, got.took, time.Minute)
		})
	}
}

func TestRun_TroublePasses_GoesOn(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"401": clinicaldoctest.Answer(401, "synthetic"), "reset": clinicaldoctest.Reset(),
		"429": clinicaldoctest.TooManyRequests(0), "503": clinicaldoctest.Answer(503, "synthetic"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := inTrouble(t, &ingest.Uploader{}, 100, func(srv *clinicaldoctest.Server) {
				srv.Inject("", fault.Always())
				time.AfterFunc(5*time.Minute, srv.ClearFaults)
			})
			require.NoError(t, got.err)
			assert.Equal(t, counts{ingest.Created: 100}, statuses(got.results))
			assert.Len(t, got.srv.Notes(), 100)
			require.Len(t, got.pauses, 2)
			require.NoError(t, got.pauses[1].Why, "it goes on")
			assert.Less(t, got.took, 20*time.Minute)
			assert.Less(t, attempts(got.srv), 160)
		})
	}
}

func TestRun_LimitOf60AMinute_UploadsAll(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		const count = 100
		srv.Inject("", clinicaldoctest.Throttle(60, time.Minute))
		begun := time.Now()
		u.Client = srv.Client()
		u.Workers = 8
		u.OnEvent = func(e ingest.Event) { assert.Nil(t, e.Pause, "the client waits, and the run does not pause") }
		results := upload(t, u, recordings(0, count))
		assert.Equal(t, counts{ingest.Created: count}, statuses(results))
		assert.Len(t, srv.Notes(), count)
		refused := 0
		for _, r := range srv.Requests() {
			if r.Status == http.StatusTooManyRequests {
				refused++
			}
		}
		took := time.Since(begun)
		assert.Less(t, took, 4*time.Minute)
		assert.LessOrEqual(t, refused, int(took/time.Minute)+1, "one a window")
	})
}

// switching is a token source whose user changes after some tokens.
type switching struct {
	tokens [2]string
	after  int64
	asked  atomic.Int64
}

func (s *switching) Token(context.Context) (string, error) {
	if s.asked.Add(1) > s.after {
		return s.tokens[1], nil
	}
	return s.tokens[0], nil
}

// The next process searches in the list of the journal's user, where a note of another user may not be.
func TestRun_UserChanges_Ends(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	other := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Colleague"})
	u.Client = clientWith(t, srv, &switching{tokens: [2]string{srv.Token, other.Token}, after: 4})
	u.Workers = 1
	u.AllNew = true
	results, err := collect(t.Context(), u, recordings(0, 20))
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	require.ErrorContains(t, err, "user changed")
	assert.Equal(t, counts{ingest.Created: len(results)}, statuses(results))
	foreign := 0
	for _, note := range srv.Notes() {
		if note.UserID == other.ID {
			foreign++
		}
	}
	assert.Equal(t, 1, foreign, "the first one ends the run")
	assert.Len(t, results, len(srv.Notes()), "a note that exists is reported and written down")
}

// Later failures of the same kind may be consequences of the first one.
func TestPause_SeveralFailures_ReportsTheFirst(t *testing.T) {
	t.Parallel()
	got := inTrouble(t, &ingest.Uploader{Workers: 1, MaxPause: time.Second}, 20, func(srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(503, `{"message":"first synthetic failure"}`))
		srv.Inject(clinicaldoctest.RouteCreateNote,
			clinicaldoctest.Answer(503, `{"message":"later synthetic failure"}`).Always())
	})
	require.NotEmpty(t, got.pauses)
	for _, failure := range []error{got.pauses[0].Why, got.err} {
		response, ok := errors.AsType[*clinicaldoc.Error](failure)
		require.True(t, ok, failure)
		assert.Contains(t, response.Message, "first synthetic failure")
	}
}

// The first probe comes soon, however many recordings were under way when the trouble began.
func TestPause_UploadsUnderWayFail_FirstProbeIsSoon(t *testing.T) {
	t.Parallel()
	const workers = 16
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic").Times(workers))
		begun := time.Now()
		u.Workers = workers
		results := upload(t, u, generated(workers, func(n int) ingest.Recording {
			r := recording(n)
			r.Params.BeforeCommit = func(context.Context) error {
				time.Sleep(time.Second - time.Since(begun)) // until all were begun
				return nil
			}
			return r
		}))
		assert.Equal(t, counts{ingest.Created: workers}, statuses(results))
		assert.Less(t, time.Since(begun), 10*time.Second)
	})
}

// A failure after a probe that was answered shows that the trouble lasts: the next probe is postponed.
func TestPause_UploadsUnderWayFail_ProbesOnce(t *testing.T) {
	t.Parallel()
	const workers = 32
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(500, "synthetic").Times(workers))
		u.Workers = workers
		results := upload(t, u, generated(workers, func(n int) ingest.Recording {
			r, first := recording(n), true
			r.Params.BeforeCommit = func(context.Context) error {
				if first {
					time.Sleep(time.Duration(1+n) * time.Second) // one fails after the other
				}
				first = false
				return nil
			}
			return r
		}))
		assert.Equal(t, counts{ingest.Created: workers}, statuses(results))
		assert.Less(t, requestsTo(srv, clinicaldoctest.RouteMe), 12)
	})
}

func TestPause_ThreeFailuresOfOneKind_Begins(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{401: 3, 403: 3, 408: 3, 425: 3, 429: 6, 500: 3} { // with the client's retries
		got := inTrouble(t, &ingest.Uploader{Workers: 1, MaxPause: -1}, 20,
			always(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(status, "synthetic")))
		require.ErrorContains(t, got.err, "everything fails in the same way", status)
		assert.Equal(t, want, attempts(got.srv), status)
	}

	got := inTrouble(t, &ingest.Uploader{Workers: 1, MaxPause: -1}, 2, func(srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic"))
	})
	require.NoError(t, got.err)
	assert.Equal(t, counts{ingest.Refused: 1, ingest.Created: 1}, statuses(got.results),
		"who tries again himself is told at once")
}

// Lost responses begin a pause too. Otherwise all further recordings would be sent and become unresolved.
func TestPause_LostResponses_Begins(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Always())
		u.Workers = 1
		results, err := collect(within(t, time.Minute), u, recordings(0, 200))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, len(results), 12)
	})
}

// If a recording is rejected before it is sent, that shows nothing about the service, so the next one is tried.
func TestPause_RecordingNeverSent_TriesTheNext(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic").Times(3))
		u.Workers = 1
		withoutAudio := ingest.Recording{Key: "nothing"}
		results := upload(t, u,
			ingest.Recordings(recording(0), recording(1), recording(2), withoutAudio, withoutAudio, recording(3)))
		assert.Equal(t, counts{ingest.Refused: 5, ingest.Created: 1}, statuses(results))
	})
}

// A refusal by the caller's own code shows nothing of the service.
func TestPause_CallerRefuses_DoesNotBegin(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		u.MaxPause = -1
		results := upload(t, u, generated(5, func(n int) ingest.Recording {
			r := recording(n)
			r.Params.BeforeCommit = func(context.Context) error { return errors.New("synthetic") }
			return r
		}))
		assert.Equal(t, counts{ingest.Refused: 5}, statuses(results))
	})
}

// A stream can be read only once. The result has the first failure, and not an error of a second try.
func TestRun_StreamFails_IsTriedOnce(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic").Always())
	r := recording(0)
	r.Params.Audio = clinicaldoc.AudioReader("a.wav", bytes.NewReader(sound(0)))
	require.ErrorIs(t, uploadOne(t, u, r).Err, clinicaldoc.ErrUnauthorized)
	assert.Equal(t, 1, requestsTo(srv, clinicaldoctest.RouteCreateNote), "a stream cannot be read again")
}

// The run ends when the pause has lasted MaxPause, also between two probes. A probe or an upload that is under way is
// ended.
func TestPause_MaxPause_EndsTheRun(t *testing.T) {
	t.Parallel()
	const longest = 90 * time.Second
	const paused = "everything fails in the same way"
	t.Run("between two probes", func(t *testing.T) {
		t.Parallel()
		got := inTrouble(t, &ingest.Uploader{MaxPause: longest}, 10, func(srv *clinicaldoctest.Server) {
			srv.Inject("", clinicaldoctest.Answer(500, "synthetic").Times(2))
			srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
		})
		require.ErrorContains(t, got.err, paused)
		require.ErrorIs(t, got.err, clinicaldoc.ErrUnauthorized, "as it did in the end")
		assert.InDelta(t, longest.Seconds(), got.took.Seconds(), 2)
	})
	t.Run("during a probe", func(t *testing.T) {
		t.Parallel()
		u := &ingest.Uploader{MaxPause: 10 * time.Second}
		got := inTrouble(t, u, 10, func(srv *clinicaldoctest.Server) {
			u.Owner = ingest.Owner{Service: ingest.ServiceName(srv.URL)}
			srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Delay(time.Hour).Always())
			srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
		})
		require.ErrorContains(t, got.err, paused)
		assert.InDelta(t, u.MaxPause.Seconds(), got.took.Seconds(), 2)
	})
	t.Run("during an upload", func(t *testing.T) {
		t.Parallel()
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic").Times(3))
			u.Workers = 1
			u.MaxPause = longest
			begun, tried := time.Now(), false
			_, err := collect(t.Context(), u, generated(10, func(n int) ingest.Recording {
				r := recording(n)
				r.Params.BeforeCommit = func(ctx context.Context) error {
					if time.Since(begun) > time.Second {
						tried = true
						<-ctx.Done()
					}
					return ctx.Err()
				}
				return r
			}))
			require.ErrorContains(t, err, paused)
			assert.True(t, tried)
			assert.InDelta(t, longest.Seconds(), time.Since(begun).Seconds(), 2)
		})
	})
	t.Run("during an upload that succeeds", func(t *testing.T) {
		t.Parallel()
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic").Times(3))
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
			u.Workers = 1
			u.MaxPause = 3 * time.Second
			results, err := collect(t.Context(), u, recordings(0, 10))
			require.ErrorContains(t, err, paused)
			assert.Equal(t, counts{ingest.Refused: 3, ingest.Created: 1}, statuses(results))
		})
	})
}

// After a successful probe, only an upload can show that the service accepts recordings. The wait for the next
// recording does not count as a pause.
func TestPause_WaitForRecordings_DoesNotCount(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Times(4))
		u.Workers = 1
		u.MaxPause = time.Minute
		results := upload(t, u, generated(5, func(n int) ingest.Recording {
			if n > 2 {
				time.Sleep(time.Hour)
			}
			return recording(n)
		}))
		assert.Equal(t, counts{ingest.Created: 5}, statuses(results))
	})
}

// A probe asks the service even if the Uploader has an Owner.
func TestPause_OwnerKnown_ProbesTheService(t *testing.T) {
	t.Parallel()
	u := &ingest.Uploader{Workers: 1}
	got := inTrouble(t, u, 10, func(srv *clinicaldoctest.Server) {
		u.Owner = ingest.Owner{Service: ingest.ServiceName(srv.URL)}
		srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
	})
	require.ErrorContains(t, got.err, "everything fails in the same way")
	assert.Zero(t, attempts(got.srv), "the lists fail first")
	assert.Positive(t, requestsTo(got.srv, clinicaldoctest.RouteMe))
	assert.Less(t, len(got.srv.Requests()), 40)
}

// A socket that is not there is a file that is not there, too, and still the service is gone.
func TestPause_SocketMissing_Begins(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	posts := 0
	gone := transportFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			posts++
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: syscall.ENOENT}
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	u := &ingest.Uploader{
		Client: srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}),
			clinicaldoc.WithHTTPClient(&http.Client{Transport: gone})),
		Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 1, MaxPause: -1, AllNew: true,
	}
	_, err := collect(t.Context(), u, recordings(0, 20))
	require.ErrorContains(t, err, "everything fails in the same way")
	assert.Equal(t, 3, posts)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRun_ClaimDuringTheEnd_IsReleased(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	ctx, cancel := context.WithCancel(t.Context())
	journal := u.Journal
	u.Journal = hooked{Journal: journal, claimed: func(ingest.Key) { cancel() }}
	_, err := collect(ctx, u, recordings(0, 1))
	require.ErrorIs(t, err, context.Canceled)
	u.Journal = journal
	result := uploadOne(t, u, recording(0))
	assert.Equal(t, ingest.Created, result.Status, result)
}

// If the Uploader has an Owner, the service is not asked for the user.
func TestRun_OwnerKnown_DoesNotAskForIt(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	srv.ForgetRequests()
	u.Owner = owner
	assert.Equal(t, ingest.Created, uploadOne(t, u, recording(0)).Status)
	assert.Zero(t, requestsTo(srv, clinicaldoctest.RouteMe))
}

func TestRun_JournalSeesTheEnd_IsNotBroken(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	ctx, cancel := context.WithCancel(t.Context())
	u.Journal = hooked{Journal: u.Journal, bind: func() error { cancel(); return errors.New("synthetic") }}
	_, err := collect(ctx, u, recordings(0, 1))
	require.ErrorIs(t, err, context.Canceled)
}

// A recording that fails while others succeed is tried four times, with growing pauses. Then the failure counts as its
// own, whether the service refuses it for now or its folder is gone.
func TestRun_RecordingAlwaysFails_IsGivenUp(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]ingest.Recording{
		"refused":  recording(0),
		"gone":     {Key: "gone", File: "/synthetic/gone/a.wav", Params: recording(0).Params},
		"unlisted": onePatient(0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries []time.Time
			refusesOne := handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
				body, _ := io.ReadAll(r.Body)
				isTheOne := bytes.Contains(body, []byte(recording(0).Params.Name))
				if isTheOne || r.URL.Query().Get("patient_id") == "7" {
					tries = append(tries, time.Now())
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				service.ServeHTTP(w, r)
			})
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				u.Client = srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
				u.Workers = 1
				u.AllNew = name != "unlisted"
				results := upload(t, u, func(yield func(ingest.Recording, error) bool) {
					for n := range 40 {
						if !yield(recording(n+1), nil) || n == 0 && !yield(bad, nil) {
							return
						}
						time.Sleep(time.Second)
					}
				})
				assert.Equal(t, counts{ingest.Created: 40, ingest.Refused: 1}, statuses(results))
				if name == "refused" {
					require.Len(t, tries, 4)
					for n, pause := range []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second} {
						assert.Equal(t, pause, tries[n+1].Sub(tries[n]))
					}
				}
			}, refusesOne)
		})
	}
}

// If the service never shows that a list is complete, that is not a temporary failure. Each recording is
// unresolved, and the run continues to its end.
func TestPause_ListNeverComplete_DoesNotBegin(t *testing.T) {
	t.Parallel()
	bare := clinicaldoctest.WithVariant(clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare})
	ignoresPages := handledBy(func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		if r.URL.Query().Has("patient_id") {
			r.URL.RawQuery = "patient_id=7" // the other parameters have other names there
		}
		service.ServeHTTP(w, r)
	})
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		for range 2 {
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Synthetic"})
		}
		u.OnEvent = func(e ingest.Event) { assert.Nil(t, e.Pause) }
		results := upload(t, u, generated(10, onePatient))
		require.Equal(t, counts{ingest.InDoubt: 10}, statuses(results), results)
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrIncompleteList)
		assert.Less(t, len(srv.Requests()), 10, "one look is enough for a patient")
	}, bare, ignoresPages)
}

// If no file can be opened, the share is not mounted. With a negative MaxPause the run then ends instead of pausing, and
// no file counts as refused.
func TestRun_ShareNotMounted_EndsWithoutRefusingFiles(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	paths := files(t, 40)
	share := filepath.Dir(paths[0])
	require.NoError(t, os.Rename(share, share+".away"))
	u.MaxPause = -1
	results, err := collect(t.Context(), u, ingest.Files(paths, paramsOf))
	require.ErrorContains(t, err, "everything fails in the same way")
	assert.Less(t, len(results), 10)
	require.NoError(t, os.Rename(share+".away", share))
	results = upload(t, u, ingest.Files(append(paths, share+"/missing.wav"), paramsOf))
	assert.Equal(t, counts{ingest.Created: 40, ingest.Refused: 1}, statuses(results),
		"a file that is missing among others is its own")
}

// An unresolved recording stays so while its file cannot be read, even if the run ends because of that: it may have a
// note.
func TestRun_UnresolvedAndShareNotMounted_StaysUnresolved(t *testing.T) {
	t.Parallel()
	paths := files(t, 4)
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		var list []ingest.Recording
		for n, path := range paths {
			list = append(list, ingest.Recording{Key: fmt.Sprint("encounter ", n), File: path, Params: paramsOf(path)})
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: filepath.Base(path), Audio: sound(n)})
		}
		u.MaxPause = time.Minute
		results := upload(t, u, ingest.Recordings(list...))
		require.Equal(t, counts{ingest.InDoubt: 4}, statuses(results), results)
		require.NoError(t, os.RemoveAll(filepath.Dir(paths[0])))
		results, err := collect(t.Context(), u, ingest.Recordings(list...))
		require.ErrorContains(t, err, "everything fails in the same way")
		assert.Equal(t, counts{ingest.InDoubt: len(results)}, statuses(results), results)
		for _, result := range results {
			assert.NotZero(t, result.JournalKey, "Resolve needs it")
		}
	})
}

// A cancelled run has no results for recordings that it did not begin.
func TestRun_Cancelled_RefusesNothing(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		ctx, cancel := context.WithCancel(t.Context())
		requests := 0
		u.Client = srv.Client(clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error {
			requests++
			if requests > 20 {
				cancel()
				return errors.New("the limiter refuses: synthetic")
			}
			return nil
		})))
		u.Workers = 1
		begun := time.Now()
		results, err := collect(ctx, u, recordings(0, 100))
		require.ErrorIs(t, err, context.Canceled)
		assert.Less(t, time.Since(begun), 15*time.Second, "nothing is waited for")
		assert.Equal(t, counts{ingest.Created: len(results)}, statuses(results))
		assert.Len(t, srv.Notes(), len(results))
	})
}

type limiterFunc func(context.Context) error

func (l limiterFunc) Wait(ctx context.Context) error { return l(ctx) }

// rotated is a source whose first token is revoked while a run is under way.
type rotated struct {
	mu      sync.Mutex
	token   string
	next    string
	refused []string
}

func (r *rotated) Token(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token, nil
}

func (r *rotated) Invalidate(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused, r.token = append(r.refused, token), r.next
}

func TestRun_TokenRenewed_GoesOn(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	first, second := srv.AddToken(1, "first"), srv.AddToken(1, "second")
	source := &rotated{token: first.Secret, next: second.Secret}
	u.Client = clientWith(t, srv, source)
	created := 0
	for result, err := range u.Run(t.Context(), recordings(0, 20)) {
		require.NoError(t, err)
		assert.Equal(t, ingest.Created, result.Status, result.Err)
		if created++; created == 5 {
			_, err := srv.Client().Tokens.Revoke(t.Context(), first.ID)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, 20, created)
	assert.Len(t, srv.Notes(), 20)
	assert.Equal(t, []string{first.Secret}, source.refused, "once")
}

// savesNothingAfterTheEnd is a journal like one on a network. It appends the state of each entry that it saves.
func savesNothingAfterTheEnd(j ingest.Journal, saved *[]ingest.State) ingest.Journal {
	return failing(j, func(ctx context.Context, e ingest.Entry) error {
		if ctx.Err() == nil {
			*saved = append(*saved, e.State)
		}
		return ctx.Err()
	})
}

// A run is cancelled while the response to a create comes. The note exists, so the journal gets it anyway.
func TestRun_CancelledDuringAResponse_WritesTheResult(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		var saved []ingest.State
		u.Journal = savesNothingAfterTheEnd(u.Journal, &saved)
		results, err := collect(within(t, time.Second), u, recordings(0, 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, counts{ingest.Created: 1}, statuses(results), results)
		assert.Equal(t, []ingest.State{ingest.StateCommitting, ingest.StateCreated}, saved)
	})
}

// A run is cancelled before the last bytes of an upload have left. They are not sent, and the recording stays claimed.
func TestRun_CancelledBeforeCommit_CreatesNoNote(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		ctx, cancel := context.WithCancel(t.Context())
		r := recording(1)
		r.Params.BeforeCommit = func(context.Context) error { cancel(); return nil }
		var saved []ingest.State
		u.Journal = savesNothingAfterTheEnd(u.Journal, &saved)
		results, err := collect(ctx, u, ingest.Recordings(r))
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, results)
		assert.Empty(t, srv.Notes())
		assert.Empty(t, saved)
	})
}

// Run returns only after it has released all its claims: the next run would find them taken.
func TestRun_Over_HasReleasedEveryClaim(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		var claims atomic.Int32
		u.Journal = hooked{
			Journal: u.Journal,
			claimed: func(ingest.Key) { claims.Add(1) },
			release: func(ingest.Key) { time.Sleep(time.Second); claims.Add(-1) },
		}
		u.Workers = 1
		u.Find.Settle = time.Second
		busy := recording(1) // keeps the only worker while the other recording is to be uploaded once more
		busy.Params.BeforeCommit = func(context.Context) error {
			time.Sleep(time.Minute)
			assert.EqualValues(t, 2, claims.Load())
			return errors.New("synthetic")
		}
		for range u.Run(t.Context(), ingest.Recordings(recording(0), busy)) {
			break
		}
		assert.Zero(t, claims.Load())
	})
}

// A journal that is slow to save notes holds up uploads, so that the number of unsaved notes is bounded.
func TestRun_JournalSlow_HoldsUpUploads(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		aMinute := make(chan struct{})
		u.Journal = watched(u.Journal, func(e ingest.Entry) {
			if e.State == ingest.StateCreated {
				<-aMinute
			}
		})
		time.AfterFunc(time.Minute, func() {
			assert.Len(t, srv.Notes(), 4, "two for each worker")
			close(aMinute)
		})
		u.Workers = 2
		results := upload(t, u, recordings(0, 40))
		assert.Equal(t, counts{ingest.Created: 40}, statuses(results))
	})
}

// An entry has the time when its state began, and when the recording was sent. Both change if it is sent again.
func TestRun_SentAgain_EntryHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		// the note is saved seconds after it was sent
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		var states []ingest.State
		u.Journal = watched(u.Journal, func(e ingest.Entry) {
			states = append(states, e.State)
			assert.Zero(t, time.Since(e.At), e.State)
			if e.State == ingest.StateCommitting {
				assert.Less(t, time.Since(e.SentAt), time.Second)
			}
		})
		assert.Equal(t, ingest.Created, uploadOne(t, u, recording(0)).Status)
		assert.Equal(t,
			[]ingest.State{ingest.StateCommitting, ingest.StateInDoubt, ingest.StateCommitting, ingest.StateCreated},
			states)
	})
}

// Some services name the owner of a team in every note, so that the token's user never appears.
func TestRun_NotesNeverNameTheUser_UploadsAll(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	other := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Colleague"})
	// Only the user is read with the first token: every note names the other user.
	source := &switching{tokens: [2]string{srv.Token, other.Token}, after: 1}
	u.Client = clientWith(t, srv, source)
	u.Workers = 1
	assert.Equal(t, counts{ingest.Created: 5}, statuses(upload(t, u, recordings(0, 5))))
}

// Only failures of one kind, with no success and no other answer between them, are trouble that all recordings share.
func TestPause_FailuresOfOneRecording_DoesNotBegin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count  int
		faults []clinicaldoctest.Fault
		want   counts
	}{
		"each fourth attempt, with its retry": {
			30, []clinicaldoctest.Fault{clinicaldoctest.TooManyRequests(0).Every(4)}, counts{ingest.Created: 30},
		},
		"each third recording": {
			9, []clinicaldoctest.Fault{clinicaldoctest.TooManyRequests(time.Hour).Every(3)}, counts{ingest.Created: 9},
		},
		"each recording for a reason of its own": {
			30, []clinicaldoctest.Fault{clinicaldoctest.Answer(422, "synthetic").Always()}, counts{ingest.Refused: 30},
		},
		"two kinds by turns": {
			4, slices.Repeat([]clinicaldoctest.Fault{
				clinicaldoctest.TooManyRequests(0).Times(2), clinicaldoctest.Answer(401, "synthetic"),
			}, 3), counts{ingest.Created: 4},
		},
		"a recording's own refusal between them": {
			8, slices.Repeat([]clinicaldoctest.Fault{
				clinicaldoctest.Answer(403, "synthetic"), clinicaldoctest.Answer(422, "synthetic"),
			}, 4), counts{ingest.Refused: 8},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := inTrouble(t, &ingest.Uploader{Workers: 1, AllNew: true}, c.count, func(srv *clinicaldoctest.Server) {
				for _, fault := range c.faults {
					srv.Inject(clinicaldoctest.RouteCreateNote, fault)
				}
			})
			require.NoError(t, got.err)
			assert.Equal(t, c.want, statuses(got.results))
			assert.Empty(t, got.pauses)
		})
	}
}

func clientWith(t *testing.T, srv *clinicaldoctest.Server, source clinicaldoc.TokenSource) *clinicaldoc.Client {
	t.Helper()
	client, err := clinicaldoc.NewClient(srv.URL, "", clinicaldoc.WithTokenSource(source), quick())
	require.NoError(t, err)
	return client
}

// Recordings that nothing identifies are refused one by one. The journal does not mention them, so none of them counts
// as another one's repetition.
func TestRun_RecordingsWithoutAKey_AreRefused(t *testing.T) {
	t.Parallel()
	nights(t, func(t *testing.T, n *night) {
		audio := clinicaldoc.AudioBytes("visit.wav", []byte("sound"))
		params := clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 7, PromptID: 1, Audio: audio}
		keyless := ingest.Recording{Params: params}
		known := keyless
		known.Key = "visit"
		n.uploader(func(u *ingest.Uploader) {
			status := map[ingest.Key]counts{}
			for _, result := range upload(t, u, ingest.Recordings(keyless, known, keyless, ingest.Recording{})) {
				if status[result.JournalKey] == nil {
					status[result.JournalKey] = counts{}
				}
				status[result.JournalKey][result.Status]++
			}
			assert.Equal(t, counts{ingest.Refused: 3}, status[ingest.Key{}])
		})
		require.Len(t, readEntries(t, n.path), 1)
		assert.Equal(t, 1, n.creates())
	})
}
