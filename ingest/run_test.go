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

// tardy is a journal of many machines at its worst: some recordings are held by others, some lines never come to an
// end.
type tardy struct {
	ingest.Journal
	release <-chan struct{} // the end of the world
}

type tardyClaim struct {
	ingest.Claim
	slow    int
	release <-chan struct{}
}

func (j tardy) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	switch key[0] % 16 {
	case 0:
		return nil, ingest.ErrTaken
	case 1: // held by another, until that one is silent
		<-ctx.Done()
		return nil, ctx.Err()
	}
	claim, err := j.Journal.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	return tardyClaim{claim, int(key[1] % 32), j.release}, nil
}

func (c tardyClaim) Save(ctx context.Context, e ingest.Entry) error {
	if c.slow == 0 { // it waits for a leader
		<-ctx.Done()
		return ctx.Err()
	}
	return c.Claim.Save(ctx, e)
}

func (c tardyClaim) Release() {
	if c.slow == 1 { // nobody answers
		<-c.release
	}
	c.Claim.Release()
}

// claimCounts is a journal that counts how often each claim is let go.
type claimCounts struct {
	ingest.Journal
	mu     sync.Mutex
	claims []*claimCount
}

type claimCount struct {
	ingest.Claim
	released atomic.Int32
}

func (j *claimCounts) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &claimCount{Claim: claim}
	j.claims = append(j.claims, c)
	return c, nil
}

func (c *claimCount) Release() {
	c.released.Add(1)
	c.Claim.Release()
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
		clinicaldoctest.ResetAfterRequest(), clinicaldoctest.ResetAfterCommit(), clinicaldoctest.Silent(), clinicaldoctest.Answer(503, "synthetic"),
		clinicaldoctest.TooManyRequests(time.Minute), clinicaldoctest.Answer(401, "synthetic"), clinicaldoctest.ResetAfterCommit().CommitAfter(time.Minute),
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
	journal := &claimCounts{Journal: file}
	u := &ingest.Uploader{
		Client: srv.Client(quick(), clinicaldoc.WithStallTimeout(time.Hour)), Journal: journal, Workers: 1 + d.IntN(6), AllNew: d.IntN(2) == 0,
		Find: clinicaldoc.FindCreatedParams{Settle: time.Minute},
	}
	if d.IntN(2) == 0 {
		u.Journal = tardy{journal, over}
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
	told, taken, wanted := 0, 0, true
	if seed%2 == 0 {
		u.OnEvent = func(e ingest.Event) {
			assert.True(t, wanted, "nobody wants to know any more")
			assert.LessOrEqual(t, e.Progress.Doubts, e.Progress.Active)
			if e.Result != nil {
				told++
				assert.Equal(t, told, e.Progress.Done())
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
		assert.Equal(t, taken, told)
	}
	if at := ended.Load(); at != nil {
		assert.LessOrEqual(t, time.Since(*at), 20*time.Second)
	}
	close(over)
	synctest.Wait()
	for _, claim := range journal.claims {
		assert.Equal(t, int32(1), claim.released.Load())
	}
	_ = file.Close()
}

// The case that was seen: two recordings with the same content, one of them listed twice. The other one waits for the
// first.
func TestRun_EqualsOfAnUnresolvedRecording_Ends(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Always())
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, b := onePatient(1), onePatient(1)
		b.Key = "another"
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1}
		begun := time.Now()
		results, err := collect(ctx, u, ingest.Recordings(a, b, a))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, results, 2)
		assert.Equal(t, results[0].Recording.Key, results[1].Recording.Key)
		assert.Less(t, time.Since(begun), 61*time.Second)
		require.NoError(t, journal.Close())
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
		results, err := collect(t.Context(), u, recordings(0, 1))
		require.NoError(t, err)
		assert.Equal(t, ingest.Created, results[0].Status, results[0])
	})
}

// A journal that failed has to be looked at: that the run was ended besides must not hide it.
func TestRun_JournalFailsWhileEnding_ReturnsItsError(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		synthetic := errors.New("synthetic")
		journal := failing{file, func(context.Context, ingest.Entry) error { cancel(); return synthetic }}
		_, err := collect(ctx, &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true},
			recordings(0, 1))
		require.ErrorIs(t, err, synthetic)
	})
}

// Any failure of a journal ends the run, with the first reason. The outcome of each recording is reported anyway,
// and waiting for the journal is bounded.
func TestRun_JournalFailsAnywhere_Ends(t *testing.T) {
	t.Parallel()
	synthetic := errors.New("synthetic")
	fails := func(state ingest.State) func(context.Context, ingest.Entry) error {
		return func(_ context.Context, e ingest.Entry) error {
			if e.State == state {
				return synthetic
			}
			return nil
		}
	}
	var second atomic.Bool
	met := make(chan struct{})
	meet := sync.OnceFunc(func() { close(met) })
	for name, c := range map[string]struct {
		answer int
		claims error
		reads  error
		saves  func(context.Context, ingest.Entry) error
		want   error
		status ingest.Status
	}{
		"a claim":               {claims: synthetic, saves: fails(0), want: synthetic, status: ingest.Refused},
		"the patient's entries": {reads: synthetic, saves: fails(0), want: synthetic, status: ingest.Refused},
		"a refusal": {
			answer: 422, saves: fails(ingest.StateRefused), want: synthetic, status: ingest.Refused,
		},
		"a refusal that may pass": {
			answer: 401, saves: fails(ingest.StateRefused), want: synthetic, status: ingest.Refused,
		},
		"a note": {status: ingest.Created, want: context.DeadlineExceeded, saves: func(ctx context.Context, e ingest.Entry) error {
			if e.State == ingest.StateCreated {
				<-ctx.Done()
			}
			return ctx.Err()
		}},
		"two commits": {status: ingest.Refused, want: synthetic, saves: func(context.Context, ingest.Entry) error {
			if second.Swap(true) {
				meet()
				time.Sleep(time.Second)
				return errors.New("a consequence")
			}
			<-met // the run must not end before both were begun
			return synthetic
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
				if c.answer != 0 {
					srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(c.answer, "synthetic"))
				}
				begun := time.Now()
				u := &ingest.Uploader{
					Client: srv.Client(quick()), Journal: refusing{failing{file, c.saves}, c.claims, c.reads},
					Workers: 2, AllNew: c.reads == nil,
				}
				srv.AddNote(clinicaldoctest.Note{
					PatientID: recording(0).Params.PatientID, Name: recording(0).Params.Name, Audio: sound(8),
				})
				count := 1
				if name == "two commits" {
					count = 2
				}
				results, err := collect(t.Context(), u, recordings(0, count))
				require.ErrorIs(t, err, c.want)
				assert.Equal(t, map[ingest.Status]int{c.status: count}, statuses(results), results)
				assert.Less(t, time.Since(begun), 10*time.Second)
			})
		})
	}
}

// refusing is a journal that refuses claims, or to tell of a patient's entries.
type refusing struct {
	failing
	claims, reads error // nil: it does not
}

func (j refusing) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	if j.claims != nil {
		return nil, j.claims
	}
	return j.failing.Claim(ctx, key)
}

func (j refusing) EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	if j.reads != nil {
		return nil, j.reads
	}
	return j.Journal.EntriesForPatient(ctx, patient, since)
}

// The error of a lost create has the caller's own params, with which the caller may create the note again.
func TestRun_LostCreate_ErrorHasTheCallersParams(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		journal := failing{file, func(_ context.Context, e ingest.Entry) error {
			if e.State == ingest.StateInDoubt {
				return errors.New("synthetic")
			}
			return nil
		}}
		results, err := collect(t.Context(),
			&ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true}, recordings(0, 1))
		require.Error(t, err)
		require.Len(t, results, 1)
		unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](results[0].Err)
		require.True(t, ok)
		assert.Nil(t, unknown.Params.BeforeCommit)
	})
}

// A worker whose recording was taken over while it was sent leaves it to the other, and goes on.
func TestRun_RecordingTakenOver_OthersGoOn(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		taken := false
		journal := failing{file, func(context.Context, ingest.Entry) error {
			if !taken {
				taken = true
				return ingest.ErrTaken
			}
			return nil
		}}
		results, err := collect(t.Context(),
			&ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true}, recordings(0, 2))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1, ingest.Created: 1}, statuses(results), results)
		assert.Len(t, srv.Notes(), 1)
	})
}

// A refusal that comes while the run is being ended is a result.
func TestRun_RefusedWhileEnding_HasAResult(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := srv.Client(quick(), clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: func(_ context.Context, attempt clinicaldoc.Attempt) {
			if attempt.Method == http.MethodPost {
				cancel()
			}
		}}))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic"))
		results, err := collect(ctx, &ingest.Uploader{Client: client, Journal: journal, AllNew: true}, recordings(0, 1))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, map[ingest.Status]int{ingest.Refused: 1}, statuses(results))
	})
}

// Nothing can be decided with a journal that failed, so the run does not wait for unresolved recordings.
func TestRun_JournalFails_EndsSearches(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		synthetic, doubted := errors.New("synthetic"), false
		journal := failing{file, func(_ context.Context, e ingest.Entry) error {
			if doubted && e.State == ingest.StateCommitting {
				return synthetic
			}
			doubted = doubted || e.State == ingest.StateInDoubt
			return nil
		}}
		begun := time.Now()
		results, err := collect(t.Context(),
			&ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true}, recordings(0, 2))
		require.ErrorIs(t, err, synthetic)
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: 1, ingest.Refused: 1}, statuses(results))
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// If the journal and the iterator both fail, Run returns the journal's error: somebody has to repair it.
func TestRun_JournalAndIteratorFail_ReturnsTheJournalsError(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		broken, ended := errors.New("synthetic: broken"), errors.New("synthetic: ended")
		feedEnds := make(chan struct{})
		feed := func(yield func(ingest.Recording, error) bool) {
			if yield(recording(0), nil) {
				close(feedEnds)
				yield(ingest.Recording{}, ended)
			}
		}
		journal := failing{file, func(context.Context, ingest.Entry) error {
			<-feedEnds
			synctest.Wait() // until the run knows of the feed's end
			return broken
		}}
		_, err := collect(t.Context(), &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true},
			feed)
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, ended)
	})
}

// failing is a journal that does not save all that it should.
type failing struct {
	ingest.Journal
	fails func(context.Context, ingest.Entry) error // nil: it saves it
}

type failingClaim struct {
	ingest.Claim
	fails func(context.Context, ingest.Entry) error
}

func (j failing) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	return failingClaim{claim, j.fails}, err
}

func (c failingClaim) Save(ctx context.Context, e ingest.Entry) error {
	if err := c.fails(ctx, e); err != nil {
		return err
	}
	return c.Claim.Save(ctx, e)
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
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		got.srv = clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer got.srv.Close()
		journal, err := openOrBegin(t.Context(), got.srv.URL, path)
		require.NoError(t, err)
		trouble(got.srv)
		u.Client = got.srv.Client(quick())
		u.Journal = journal
		u.OnEvent = func(e ingest.Event) {
			if e.Pause != nil {
				got.pauses = append(got.pauses, *e.Pause)
			}
		}
		begun := time.Now()
		got.results, got.err = collect(t.Context(), u, recordings(0, count))
		got.took = time.Since(begun)
		require.NoError(t, journal.Close())
	})
	return got
}

func always(route string, fault clinicaldoctest.Fault) func(*clinicaldoctest.Server) {
	return func(srv *clinicaldoctest.Server) { srv.Inject(route, fault.Always()) }
}

func attempts(srv *clinicaldoctest.Server) int {
	count := 0
	for _, r := range srv.Requests() {
		if r.Method == http.MethodPost {
			count++
		}
	}
	return count
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
		"401": clinicaldoctest.Answer(401, "synthetic"), "reset": clinicaldoctest.Reset(), "429": clinicaldoctest.TooManyRequests(0), "503": clinicaldoctest.Answer(503, "synthetic"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := inTrouble(t, &ingest.Uploader{}, 100, func(srv *clinicaldoctest.Server) {
				srv.Inject("", fault.Always())
				time.AfterFunc(5*time.Minute, srv.ClearFaults)
			})
			require.NoError(t, got.err)
			assert.Equal(t, map[ingest.Status]int{ingest.Created: 100}, statuses(got.results))
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
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		const count = 100
		srv.Inject("", clinicaldoctest.Throttle(60, time.Minute))
		begun := time.Now()
		u := &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 8, AllNew: true}
		u.OnEvent = func(e ingest.Event) { assert.Nil(t, e.Pause, "the client waits, and the run does not pause") }
		results, err := collect(t.Context(), u, recordings(0, count))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: count}, statuses(results))
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
func TestRun_EndsWhenItsUserChanges(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	other := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Colleague"})
	source := &switching{tokens: [2]string{srv.Token, other.Token}, after: 4}
	client, err := clinicaldoc.NewClient(srv.URL, "", clinicaldoc.WithTokenSource(source))
	require.NoError(t, err)
	journal := openJournal(t, srv.URL, journalPath(t))
	u := &ingest.Uploader{Client: client, Journal: journal, Workers: 1, AllNew: true}
	results, err := collect(t.Context(), u, recordings(0, 20))
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	require.ErrorContains(t, err, "user changed")
	assert.Equal(t, len(results), statuses(results)[ingest.Created])
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
func TestRun_PauseReportsTheFirstFailure(t *testing.T) {
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

// The first look comes soon, however many recordings were under way when the trouble began.
func TestPause_UploadsUnderWayFail_FirstProbeIsSoon(t *testing.T) {
	t.Parallel()
	const workers = 16
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic").Times(workers))
		begun := time.Now()
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: workers, AllNew: true}
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			for n := range workers {
				r := recording(n)
				r.Params.BeforeCommit = func(context.Context) error {
					time.Sleep(time.Second - time.Since(begun)) // until all were begun
					return nil
				}
				if !yield(r, nil) {
					return
				}
			}
		})
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: workers}, statuses(results))
		assert.Less(t, time.Since(begun), 10*time.Second)
	})
}

// A failure after a probe that was answered shows that the trouble lasts: the next probe is postponed.
func TestPause_UploadsUnderWayFail_ProbesOnce(t *testing.T) {
	t.Parallel()
	const workers = 32
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(500, "synthetic").Times(workers))
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: workers, AllNew: true}
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			for n := range workers {
				r, first := recording(n), true
				r.Params.BeforeCommit = func(context.Context) error {
					if first {
						time.Sleep(time.Duration(1+n) * time.Second) // one fails after the other
					}
					first = false
					return nil
				}
				if !yield(r, nil) {
					return
				}
			}
		})
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: workers}, statuses(results))
		looks := 0
		for _, r := range srv.Requests() {
			if r.Route == clinicaldoctest.RouteMe {
				looks++
			}
		}
		assert.Less(t, looks, 12)
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
	assert.Equal(t, map[ingest.Status]int{ingest.Refused: 1, ingest.Created: 1}, statuses(got.results),
		"who tries again himself is told at once")
}

// Responses that are lost are trouble as well: what is sent then would only be unresolved.
func TestPause_LostResponses_Begins(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Always())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true}
		results, err := collect(ctx, u, recordings(0, 200))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, len(results), 12)
	})
}

// A recording that is refused before it is sent says nothing of the service: the next one is tried.
func TestPause_RecordingNeverSent_TriesTheNext(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic").Times(3))
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true}
		all := []ingest.Recording{
			recording(0), recording(1), recording(2), {Key: "nothing"}, {Key: "nothing"}, recording(3),
		}
		results, err := collect(t.Context(), u, ingest.Recordings(all...))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Refused: 5, ingest.Created: 1}, statuses(results))
	})
}

// Failures of two kinds by turns are not one trouble that all recordings share.
func TestPause_FailuresOfDifferentKinds_DoesNotBegin(t *testing.T) {
	t.Parallel()
	got := inTrouble(t, &ingest.Uploader{Workers: 1, AllNew: true}, 4, func(srv *clinicaldoctest.Server) {
		for range 3 {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0).Times(2)) // with its retry
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic"))
		}
	})
	require.NoError(t, got.err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 4}, statuses(got.results))
	assert.Empty(t, got.pauses)

	got = inTrouble(t, &ingest.Uploader{Workers: 1, AllNew: true}, 8, func(srv *clinicaldoctest.Server) {
		for range 4 { // between them the service has an answer to a recording of its own
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic"))
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic"))
		}
	})
	require.NoError(t, got.err)
	assert.Empty(t, got.pauses)
}

// A refusal by the caller's own code shows nothing of the service.
func TestPause_CallerRefuses_DoesNotBegin(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		var all []ingest.Recording
		for n := range 5 {
			r := recording(n)
			r.Params.BeforeCommit = func(context.Context) error { return errors.New("synthetic") }
			all = append(all, r)
		}
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true, MaxPause: -1}
		results, err := collect(t.Context(), u, ingest.Recordings(all...))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Refused: 5}, statuses(results))
	})
}

// A stream can be read only once. Its result has the first failure, and not that nothing is left to be read.
func TestRun_StreamFails_IsTriedOnce(t *testing.T) {
	t.Parallel()
	srv := newBox(t, clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}))
	r := recording(0)
	r.Params.Audio = clinicaldoc.AudioReader("a.wav", bytes.NewReader(sound(0)))
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), AllNew: true}
	results, err := collect(t.Context(), u, ingest.Recordings(r))
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.ErrorIs(t, results[0].Err, clinicaldoc.ErrUnauthorized)
}

// A pause lasts as long as it may, and not until the next time to look; what is being tried then is ended.
func TestPause_MaxPause_EndsTheRun(t *testing.T) {
	t.Parallel()
	const longest = 90 * time.Second
	got := inTrouble(t, &ingest.Uploader{MaxPause: longest}, 10, func(srv *clinicaldoctest.Server) {
		srv.Inject("", clinicaldoctest.Answer(500, "synthetic").Times(2))
		srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
	})
	require.ErrorContains(t, got.err, "everything fails in the same way")
	require.ErrorIs(t, got.err, clinicaldoc.ErrUnauthorized, "as it did in the end")
	assert.InDelta(t, longest.Seconds(), got.took.Seconds(), 2)
	u := &ingest.Uploader{MaxPause: 10 * time.Second}
	got = inTrouble(t, u, 10, func(srv *clinicaldoctest.Server) {
		u.Owner = ingest.Owner{Service: ingest.ServiceName(srv.URL)}
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Delay(time.Hour).Always())
		srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
	})
	require.ErrorContains(t, got.err, "everything fails in the same way")
	assert.InDelta(t, u.MaxPause.Seconds(), got.took.Seconds(), 2, "a look that takes long is ended, too")
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic").Times(3))
		begun, tried := time.Now(), false
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true, MaxPause: longest,
		}
		_, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			for n := range 10 {
				r := recording(n)
				r.Params.BeforeCommit = func(ctx context.Context) error {
					if time.Since(begun) > time.Second {
						tried = true
						<-ctx.Done()
					}
					return ctx.Err()
				}
				if !yield(r, nil) {
					return
				}
			}
		})
		require.ErrorContains(t, err, "everything fails in the same way")
		assert.True(t, tried)
		assert.InDelta(t, longest.Seconds(), time.Since(begun).Seconds(), 2)
	})
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic").Times(3))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true, MaxPause: 3 * time.Second,
		}
		results, err := collect(t.Context(), u, recordings(0, 10))
		require.ErrorContains(t, err, "everything fails in the same way", "although one succeeded in the end")
		assert.Equal(t, map[ingest.Status]int{ingest.Refused: 3, ingest.Created: 1}, statuses(results))
	})
}

// A wait for the next recording is not a pause: the service answers again, and only a recording can show that it takes
// them.
func TestPause_WaitForRecordings_DoesNotCount(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Times(4))
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: journal, Workers: 1, AllNew: true, MaxPause: time.Minute,
		}
		results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
			for n := 0; n < 5 && yield(recording(n), nil); n++ {
				if n > 1 {
					time.Sleep(time.Hour)
				}
			}
		})
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 5}, statuses(results))
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
	assert.Positive(t, slices.IndexFunc(got.srv.Requests(), func(r clinicaldoctest.Request) bool { return r.Route == clinicaldoctest.RouteMe }))
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

// cancelling is a journal on a network that hears the end of the run while it is asked whose it is.
type cancelling struct {
	ingest.Journal
	cancel context.CancelFunc
}

func (j cancelling) Bind(context.Context, ingest.Owner) (ingest.Binding, error) {
	j.cancel()
	return ingest.Binding{}, errors.New("synthetic")
}

// lateEnd is a journal whose answer comes as the run ends.
type lateEnd struct {
	ingest.Journal
	cancel context.CancelFunc
}

func (j lateEnd) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	defer j.cancel()
	return j.Journal.Claim(ctx, key)
}

func TestRun_ClaimDuringTheEnd_IsReleased(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	journal := openJournal(t, srv.URL, journalPath(t))
	u := &ingest.Uploader{Client: srv.Client(), Journal: lateEnd{journal, cancel}}
	_, err := collect(ctx, u, recordings(0, 1))
	require.ErrorIs(t, err, context.Canceled)
	u.Journal = journal
	results, err := collect(t.Context(), u, recordings(0, 1))
	require.NoError(t, err)
	assert.Equal(t, ingest.Created, results[0].Status, results[0])
}

// If the Uploader has an Owner, the service is not asked for the user.
func TestRun_OwnerKnown_DoesNotAskForIt(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	srv.ForgetRequests()
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), Owner: owner}
	results, err := collect(t.Context(), u, recordings(0, 1))
	require.NoError(t, err)
	assert.Equal(t, ingest.Created, results[0].Status)
	for _, r := range srv.Requests() {
		assert.NotEqual(t, clinicaldoctest.RouteMe, r.Route)
	}
}

func TestOwnerOf_TokenRefused_ReturnsAnError(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(401, "synthetic"))
	_, err := ingest.OwnerOf(t.Context(), srv.Client(quick()))
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ingest.OwnerOf(ctx, srv.Client(quick()))
	require.ErrorIs(t, err, context.Canceled, "nor does who cannot ask")
}

func TestRun_JournalSeesTheEnd_IsNotBroken(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	u := &ingest.Uploader{Client: srv.Client(), Journal: cancelling{openJournal(t, srv.URL, journalPath(t)), cancel}}
	_, err := collect(ctx, u, recordings(0, 1))
	require.ErrorIs(t, err, context.Canceled)
}

// One recording that is refused is no trouble, and one that may pass is tried a few times.
func TestPause_OneFailure_DoesNotBegin(t *testing.T) {
	t.Parallel()
	got := inTrouble(t, &ingest.Uploader{Workers: 1}, 30, func(srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0).Every(4))
	})
	require.NoError(t, got.err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 30}, statuses(got.results))
	assert.Empty(t, got.pauses)
	assert.Len(t, got.srv.Notes(), 30)
	got = inTrouble(t, &ingest.Uploader{Workers: 1}, 30,
		always(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic")))
	require.NoError(t, got.err)
	assert.Equal(t, map[ingest.Status]int{ingest.Refused: 30}, statuses(got.results))
	assert.Empty(t, got.pauses)
}

// A recording that fails while others succeed is tried four times, with growing got.pauses. Then the failure counts as
// its own, whether the service refuses it for now or its folder is gone.
func TestRun_RecordingAlwaysFails_IsGivenUp(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]ingest.Recording{
		"refused": recording(0), "gone": {Key: "gone", File: "/synthetic/gone/a.wav", Params: recording(0).Params}, "unlisted": onePatient(0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := journalPath(t)
			synctest.Test(t, func(t *testing.T) {
				var tries []time.Time
				srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						body, err := io.ReadAll(r.Body)
						assert.NoError(t, err)
						if bytes.Contains(body, []byte(recording(0).Params.Name)) || r.URL.Query().Get("patient_id") == "7" {
							tries = append(tries, time.Now())
							w.WriteHeader(http.StatusTooManyRequests)
							return
						}
						r.Body = io.NopCloser(bytes.NewReader(body))
						next.ServeHTTP(w, r)
					})
				}))
				defer srv.Close()
				journal, err := openOrBegin(t.Context(), srv.URL, path)
				require.NoError(t, err)
				once := clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})
				u := &ingest.Uploader{
					Client: srv.Client(once), Journal: journal, Workers: 1, AllNew: name != "unlisted",
				}
				results, err := collect(t.Context(), u, func(yield func(ingest.Recording, error) bool) {
					for n := range 40 {
						if !yield(recording(n+1), nil) || n == 0 && !yield(bad, nil) {
							return
						}
						time.Sleep(time.Second)
					}
				})
				require.NoError(t, err)
				assert.Equal(t, map[ingest.Status]int{ingest.Created: 40, ingest.Refused: 1}, statuses(results))
				if name == "refused" {
					require.Len(t, tries, 4)
					for n, pause := range []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second} {
						assert.Equal(t, pause, tries[n+1].Sub(tries[n]))
					}
				}
				require.NoError(t, journal.Close())
			})
		})
	}
}

// If the service never shows that a list is complete, that is not a temporary failure. Each recording is
// unresolved, and the run continues to its end.
func TestPause_ListNeverComplete_DoesNotBegin(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare}),
			clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Has("patient_id") {
						r.URL.RawQuery = "patient_id=7" // the other parameters have other names there
					}
					next.ServeHTTP(w, r)
				})
			}))
		defer srv.Close()
		for range 2 {
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Synthetic"})
		}
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: journal, OnEvent: func(e ingest.Event) { assert.Nil(t, e.Pause) },
		}
		var all []ingest.Recording
		for n := range 10 {
			all = append(all, onePatient(n))
		}
		results, err := collect(t.Context(), u, ingest.Recordings(all...))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 10}, statuses(results), results)
		require.ErrorIs(t, results[0].Err, clinicaldoc.ErrIncompleteList)
		assert.Less(t, len(srv.Requests()), 10, "one look is enough for a patient")
		require.NoError(t, journal.Close())
	})
}

func TestPause_ShareNotMounted_Begins(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	paths := files(t, 40)
	away := filepath.Dir(paths[0]) + ".away"
	move := func(from, to string) { require.NoError(t, os.Rename(from, to)) }
	move(filepath.Dir(paths[0]), away)
	u := &ingest.Uploader{Client: srv.Client(), Journal: openJournal(t, srv.URL, journalPath(t)), MaxPause: -1}
	results, err := collect(t.Context(), u, ingest.Files(paths, paramsOf))
	require.ErrorContains(t, err, "everything fails in the same way")
	assert.Less(t, len(results), 10)
	move(away, filepath.Dir(paths[0]))
	results, err = collect(t.Context(), u, ingest.Files(append(paths, filepath.Dir(paths[0])+"/missing.wav"), paramsOf))
	require.NoError(t, err)
	assert.Equal(t, map[ingest.Status]int{ingest.Created: 40, ingest.Refused: 1}, statuses(results),
		"a file that is missing among others is its own")
}

// An unresolved recording stays so while its file cannot be read, also in what a run says that gave up: it may have a
// note.
func TestRun_UnresolvedAndShareNotMounted_StaysUnresolved(t *testing.T) {
	t.Parallel()
	paths := files(t, 4)
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		var list []ingest.Recording
		for n, path := range paths {
			list = append(list, ingest.Recording{Key: fmt.Sprint("encounter ", n), File: path, Params: paramsOf(path)})
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: filepath.Base(path), Audio: sound(n)})
		}
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, MaxPause: time.Minute}
		results, err := collect(t.Context(), u, ingest.Recordings(list...))
		require.NoError(t, err)
		require.Equal(t, map[ingest.Status]int{ingest.InDoubt: 4}, statuses(results), results)
		require.NoError(t, os.RemoveAll(filepath.Dir(paths[0])))
		results, err = collect(t.Context(), u, ingest.Recordings(list...))
		require.ErrorContains(t, err, "everything fails in the same way")
		assert.Equal(t, map[ingest.Status]int{ingest.InDoubt: len(results)}, statuses(results), results)
		for _, result := range results {
			assert.NotZero(t, result.JournalKey, "a person can speak about it")
		}
	})
}

// A cancelled run says nothing of what it did not begin.
func TestRun_Cancelled_RefusesNothing(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		taken := 0
		limiter := limiterFunc(func(ctx context.Context) error {
			if taken++; taken > 20 {
				cancel()
				return errors.New("the limiter refuses: synthetic")
			}
			return nil
		})
		u := &ingest.Uploader{Client: srv.Client(clinicaldoc.WithLimiter(limiter)), Journal: journal, Workers: 1}
		begun := time.Now()
		results, err := collect(ctx, u, recordings(0, 100))
		require.ErrorIs(t, err, context.Canceled)
		assert.Less(t, time.Since(begun), 15*time.Second, "nothing is waited for")
		assert.Equal(t, map[ingest.Status]int{ingest.Created: len(results)}, statuses(results))
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
	srv := newBox(t)
	first, second := srv.AddToken(1, "first"), srv.AddToken(1, "second")
	source := &rotated{token: first.Secret, next: second.Secret}
	client, err := clinicaldoc.NewClient(srv.URL, "", clinicaldoc.WithTokenSource(source), quick())
	require.NoError(t, err)
	u := &ingest.Uploader{Client: client, Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 4}
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

// Failures that come between successes are each recording's own: a run does not pause for them.
func TestPause_SuccessBetweenFailures_DoesNotBegin(t *testing.T) {
	t.Parallel()
	got := inTrouble(t, &ingest.Uploader{Workers: 1, AllNew: true}, 12, func(srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(time.Hour).Every(3))
	})
	require.NoError(t, got.err)
	assert.Empty(t, got.pauses)
	assert.Len(t, got.srv.Notes(), 12)
}

// cancelable is a journal that saves nothing once the context has ended, like one on a network.
type cancelable struct{ ingest.Journal }

func (j cancelable) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	return cancelableClaim{claim}, err
}

type cancelableClaim struct{ ingest.Claim }

func (c cancelableClaim) Save(ctx context.Context, e ingest.Entry) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.Claim.Save(ctx, e)
}

// states counts the entries of a journal's file by their state.
func states(t *testing.T, path string) map[ingest.State]int {
	t.Helper()
	_, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	count := map[ingest.State]int{}
	for _, e := range entries {
		count[e.State]++
	}
	return count
}

// A run is cancelled while the response to a create comes. The note exists, so the journal gets it anyway.
func TestRun_CancelledDuringAResponse_WritesTheResult(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		file, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: cancelable{file}, AllNew: true}
		results, err := collect(ctx, u, ingest.Recordings(recording(0)))
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, results, 1)
		assert.Equal(t, ingest.Created, results[0].Status, results[0])
		require.NoError(t, file.Close())
		assert.Equal(t, map[ingest.State]int{ingest.StateCreated: 1}, states(t, path))
	})
}

// A run is cancelled before the last bytes of an upload have left. They are not sent, and the recording stays claimed.
func TestRun_CancelledBeforeCommit_CreatesNoNote(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		file, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r := recording(1)
		r.Params.BeforeCommit = func(context.Context) error { cancel(); return nil }
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: cancelable{file}, AllNew: true}
		results, err := collect(ctx, u, ingest.Recordings(r))
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, results)
		assert.Empty(t, srv.Notes())
		require.NoError(t, file.Close())
		assert.Equal(t, map[ingest.State]int{ingest.StateClaimed: 1}, states(t, path))
	})
}

// slowRelease is a journal on a network, which takes a second to let go of a key.
type slowRelease struct {
	ingest.Journal
	held *atomic.Int32
}

type slowReleaseClaim struct {
	ingest.Claim
	held *atomic.Int32
}

func (j slowRelease) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	claim, err := j.Journal.Claim(ctx, key)
	if err == nil {
		j.held.Add(1)
	}
	return slowReleaseClaim{claim, j.held}, err
}

func (c slowReleaseClaim) Release() {
	time.Sleep(time.Second)
	c.Claim.Release()
	c.held.Add(-1)
}

// Run returns only after it has released all its claims: the next run would find them taken.
func TestRun_Over_HasReleasedEveryClaim(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		var held atomic.Int32
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: slowRelease{file, &held}, Workers: 1, AllNew: true,
			Find: clinicaldoc.FindCreatedParams{Settle: time.Second},
		}
		busy := recording(1) // keeps the only worker while the other recording is to be uploaded once more
		busy.Params.BeforeCommit = func(context.Context) error {
			time.Sleep(time.Minute)
			assert.EqualValues(t, 2, held.Load())
			return errors.New("synthetic")
		}
		for range u.Run(t.Context(), ingest.Recordings(recording(0), busy)) {
			break
		}
		assert.Zero(t, held.Load())
	})
}

// A journal that is slow to save notes holds up uploads, so that the number of unsaved notes is bounded.
func TestRun_JournalSlow_HoldsUpUploads(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		again := make(chan struct{})
		journal := failing{file, func(_ context.Context, e ingest.Entry) error {
			if e.State == ingest.StateCreated {
				<-again
			}
			return nil
		}}
		time.AfterFunc(time.Minute, func() {
			assert.Len(t, srv.Notes(), 4, "two for each worker")
			close(again)
		})
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal, Workers: 2, AllNew: true}
		results, err := collect(t.Context(), u, recordings(0, 40))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 40}, statuses(results))
	})
}

// An entry tells when its state began, and when what it tells of was sent: also of a recording that is sent once more.
func TestRun_SentAgain_EntryHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		// it was sent seconds ago then
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		var states []ingest.State
		journal := watched{file, func(e ingest.Entry) {
			states = append(states, e.State)
			assert.Zero(t, time.Since(e.At), e.State)
			if e.State == ingest.StateCommitting {
				assert.Less(t, time.Since(e.SentAt), time.Second)
			}
		}}
		results, err := collect(t.Context(),
			&ingest.Uploader{Client: srv.Client(quick()), Journal: journal, AllNew: true}, recordings(0, 1))
		require.NoError(t, err)
		assert.Equal(t, map[ingest.Status]int{ingest.Created: 1}, statuses(results))
		assert.Equal(t,
			[]ingest.State{ingest.StateCommitting, ingest.StateInDoubt, ingest.StateCommitting, ingest.StateCreated},
			states)
	})
}

// Some services name the owner of a team in every note, so that the token's user never appears.
func TestRun_NotesNeverNameTheUser_UploadsAll(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	journal := openJournal(t, srv.URL, journalPath(t))
	other := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Colleague"})
	// Only the user is read with the first token: every note names the other user.
	source := &switching{tokens: [2]string{srv.Token, other.Token}, after: 1}
	client, err := clinicaldoc.NewClient(srv.URL, "", clinicaldoc.WithTokenSource(source))
	require.NoError(t, err)
	u := &ingest.Uploader{Client: client, Journal: journal, Workers: 1, AllNew: true}
	results, err := collect(t.Context(), u, recordings(0, 5))
	require.NoError(t, err)
	assert.Equal(t, 5, statuses(results)[ingest.Created])
}
