package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// inBubble runs a test with an engine and a service in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, e *engine, srv *clinicaldoctest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		test(t, newEngine(), srv)
	})
}

// withFollower completes a worker that the test constructs itself.
func withFollower(w *work) *work {
	w.follower = newFollower(w)
	return w
}

// uploader returns an uploader for which a recording is done when its note exists.
func uploader(srv *clinicaldoctest.Server) *ingest.Uploader {
	client := srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	return &ingest.Uploader{Client: client, Until: clinicaldoc.StageUploaded}
}

// The owner of the recordings is the Uploader's Owner. Without one, the service is asked once.
func TestWork_Owner_IsReadOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		given  bool
		fault  clinicaldoctest.Fault
		asked  int
		header string
	}{
		"given":           {true, clinicaldoctest.Delay(0), 0, "user=17"},
		"asked":           {false, clinicaldoctest.Delay(0), 1, "user=1"},
		"asked once more": {false, clinicaldoctest.Answer(503, "synthetic").Times(1), 2, "user=1"},
	} {
		inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteMe, c.fault)
			f := e.fleet(defaultLease)
			publish(t, f, dir, 5)
			u := uploader(srv)
			u.Workers = 1
			if c.given {
				u.Owner = ingest.Owner{Service: ingest.ServiceName(srv.URL), UserID: 17}
			}
			for result, err := range f.Drain(t.Context(), u) {
				require.NoError(t, err)
				assert.NotEmpty(t, result.Recording.Key, "also of one that was not begun")
			}
			asked := 0
			for _, request := range srv.Requests() {
				if request.Route == clinicaldoctest.RouteMe {
					asked++
				}
			}
			assert.Equal(t, c.asked, asked, name)
			entry, err := e.bucket(e.store.name).Get(t.Context(), headerKey)
			require.NoError(t, err)
			var h storeHeader
			require.NoError(t, json.Unmarshal(entry.Value(), &h))
			assert.Contains(t, h.Owner, c.header, name)
		})
	}
}

// A worker is listed as long as it works.
func TestWork_WhileItRuns_IsShownAsAlive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		f, ended := e.fleet(defaultLease), make(chan struct{})
		go func() {
			defer close(ended)
			for range f.Work(ctx, uploader(srv)) {
				t.Error("there is nothing to do")
			}
		}()
		alive := func() int {
			workers, err := f.live.workers(t.Context())
			require.NoError(t, err)
			return len(workers)
		}
		for range 10 {
			time.Sleep(time.Second)
			assert.Equal(t, 1, alive())
			time.Sleep(28 * time.Second)
			assert.Equal(t, 1, alive())
		}
		cancel()
		<-ended
		assert.Zero(t, alive())
	})
}

// A quarter of a process's workers, at least one, first request recordings that failed before. The others first request
// new ones. If there is only one worker, it takes turns.
func TestWork_Lanes_HaveTheirWorkers(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int]map[lane]int{
		0: {freshLane: 3, againLane: 1}, 2: {freshLane: 1, againLane: 1}, 3: {freshLane: 2, againLane: 1}, 4: {freshLane: 3, againLane: 1},
		7: {freshLane: 6, againLane: 1}, 8: {freshLane: 6, againLane: 2}, 16: {freshLane: 12, againLane: 4},
	} {
		inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // half of a first question
			defer cancel()
			u := uploader(srv)
			u.Workers = workers
			for range e.fleet(defaultLease).Work(ctx, u) {
			}
			assert.Equal(t, want, e.asked, workers)
		})
	}
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		var order []string
		e.before = func(_ context.Context, op, name string) error {
			if op == "next" {
				order = append(order, name)
			}
			return nil
		}
		// Each question takes 200 ms, so there is time for four and a half. A round asks both lanes. The next round begins
		// with the lane that the round before ended with.
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		u := uploader(srv)
		u.Workers = 1
		for range e.fleet(defaultLease).Work(ctx, u) {
		}
		assert.Equal(t, []string{"again", "fresh", "fresh", "again", "again"}, order)
	})
}

// A recording is wanted as two notes. The second upload searches for its note while the first create still waits for
// its response. Each gets its own note.
func TestWork_RecordingWantedTwice_MakesBothNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 10*time.Millisecond))
		f := e.fleet(defaultLease)
		note := filed(t, dir, 1)
		require.NoError(t, f.Publish(t.Context(), note))
		letter := note
		letter.Key += ", letter"
		letter.Params.Name = "Letter to " + note.Params.Name
		time.AfterFunc(time.Second, func() {
			assert.Len(t, srv.Notes(), 1)
			assert.NoError(t, f.Publish(t.Context(), letter))
		})
		u := uploader(srv)
		u.Workers = 2
		for _, err := range f.Drain(t.Context(), u) {
			require.NoError(t, err)
		}
		var names []string
		for _, note := range srv.Notes() {
			names = append(names, note.Name)
		}
		assert.ElementsMatch(t, []string{note.Params.Name, letter.Params.Name}, names)
	})
}

// A recording that failed rests before it is tried again, also after its first failure.
func TestWork_FailedRecording_RestsFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic").Times(4))
		f := e.fleet(defaultLease)
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, 1)))
		u := uploader(srv)
		var mu sync.Mutex
		var begun []time.Time
		u.OnEvent = func(event ingest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if event.State == ingest.StateClaimed {
				begun = append(begun, time.Now())
			}
		}
		due, silent := time.Now(), time.Now().Add(10*time.Second)
		e.before = func(_ context.Context, op, name string) error {
			if op == "info" && strings.HasSuffix(name, "-queue") && time.Now().Before(silent) {
				return errors.New("synthetic") // a queue of which nothing is known is not empty
			}
			return nil
		}
		for result, err := range f.Drain(t.Context(), u) {
			require.NoError(t, err)
			mu.Lock()
			last := begun[len(begun)-1]
			mu.Unlock()
			assert.False(t, last.Before(due), "%s too early", due.Sub(last))
			assert.Less(t, last.Sub(due), time.Second)
			due = time.Now().Add(result.Rest)
		}
		assert.Len(t, begun, 5)
		require.NoError(t, srv.CreatedOnce(content(1)))
	})
}

// An unresolved recording is searched for when its response is lost, and again when it can be decided. Between the two
// it does not occupy a worker.
func TestWork_Unresolved_RestsUntilItCanBeDecided(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, fault := range map[string]clinicaldoctest.Fault{"no note": clinicaldoctest.ResetAfterRequest(), "a note": clinicaldoctest.ResetAfterCommit()} {
		inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteCreateNote, fault)
			f, begun := e.fleet(defaultLease), time.Now()
			require.NoError(t, f.Publish(t.Context(), filed(t, dir, 1)))
			var endings []Ending
			for result, err := range f.Drain(t.Context(), uploader(srv)) {
				require.NoError(t, err)
				endings = append(endings, result.Ending)
			}
			assert.LessOrEqual(t, len(endings), 2, name)
			assert.Equal(t, Done, endings[len(endings)-1], name)
			assert.Less(t, time.Since(begun), 11*time.Minute, name)
			require.NoError(t, srv.CreatedOnce(content(1)))
		})
	}
}

// It is decided that an unresolved recording has no note, and it is uploaded again. If the worker ends during that
// upload, the recording has no result, and no try is counted.
func TestWork_DecidedAndEndedInTheUpload_HasNoResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(time.Second).Always()) // until it ends
		f := e.fleet(defaultLease)
		recording := filed(t, dir, 1)
		require.NoError(t, f.Publish(t.Context(), recording))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		u := uploader(srv)
		doubted := false
		u.OnEvent = func(event ingest.Event) {
			if doubted = doubted || event.State == ingest.StateInDoubt; doubted && event.State == ingest.StateClaimed {
				cancel()
			}
		}
		var statuses []ingest.Status
		for result, err := range f.Work(ctx, u) {
			require.NoError(t, err)
			statuses = append(statuses, result.Status)
		}
		require.Error(t, ctx.Err())
		assert.Equal(t, []ingest.Status{ingest.InDoubt}, statuses)
		assert.Equal(t, 1, f.queue.failedTries(t.Context(), recording.Key))
		assert.Empty(t, srv.Notes())
	})
}

// A recording that a killed worker left is decided like any other: ten minutes after the first search for its note,
// however long ago it was sent.
func TestWork_LeftByAKilledWorker_IsDecided(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		recording := filed(t, dir, 1)
		require.NoError(t, f.Publish(t.Context(), recording))
		dead := uploader(srv)
		dead.Journal, dead.MaxPause = dying{f.journal}, -1
		for result, err := range dead.Run(t.Context(), ingest.Recordings(recording)) {
			require.Error(t, errors.Join(result.Err, err))
		}
		require.Empty(t, srv.Notes())
		time.Sleep(8 * time.Hour) // nobody works at night
		begun := time.Now()
		for result, err := range e.fleet(defaultLease).Drain(t.Context(), uploader(srv)) {
			require.NoError(t, err)
			require.NotEqual(t, Dead, result.Ending, result)
		}
		assert.GreaterOrEqual(t, time.Since(begun), 10*time.Minute)
		assert.Less(t, time.Since(begun), 11*time.Minute)
		require.NoError(t, srv.CreatedOnce(content(1)))
	})
}

// dying is a journal whose worker ends right after it has written down that a recording is committed.
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

// Release leaves the lease as it is.
func (c *dyingClaim) Release() { c.Claim.(*claim).stopRenewing() }

// Work ends within half a minute after its context, a break or a panic, whatever the service and the server do.
// Nothing is lost: a recording without a note is in the queue, or a dead letter.
func TestWork_Ended_EndsWithinHalfAMinute(t *testing.T) {
	t.Parallel()
	services := map[string]clinicaldoctest.Fault{
		"well": clinicaldoctest.Delay(0), "slow": clinicaldoctest.Delay(7 * time.Second), "silent": clinicaldoctest.Silent().Rate(0.3), "gone": clinicaldoctest.Reset().Always(),
		"failing": clinicaldoctest.Answer(503, "synthetic").Always(), "forgetful": clinicaldoctest.ResetAfterCommit().Every(2),
		"lossy": clinicaldoctest.ResetAfterRequest().Every(2), "refusing": clinicaldoctest.Answer(422, "{}").Every(3), "forbidding": clinicaldoctest.Answer(401, "").Always(),
	}
	engines := map[string]func(ctx context.Context, op string) error{
		"well":    func(context.Context, string) error { return nil },
		"failing": func(context.Context, string) error { return errors.New("synthetic") },
		"silent":  func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
		"acks are lost": func(ctx context.Context, op string) error {
			if op == "ack" || op == "publish" {
				<-ctx.Done()
			}
			return ctx.Err()
		},
	}
	for service, fault := range services {
		for state, trouble := range engines {
			t.Run(fmt.Sprintf("service %s, engine %s", service, state), func(t *testing.T) {
				t.Parallel()
				seed, dir := rand.Uint64(), t.TempDir() // a file that another test writes anew is empty for a moment
				inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
					endWork(t, e, srv, dir, fault, trouble, rand.New(rand.NewPCG(seed, 0)))
				})
				if t.Failed() {
					t.Log("seed ", seed)
				}
			})
		}
	}
}

func endWork(t *testing.T, e *engine, srv *clinicaldoctest.Server, dir string, fault clinicaldoctest.Fault, trouble func(ctx context.Context, op string) error, random *rand.Rand) {
	t.Helper()
	const count = 12
	f := e.fleet(defaultLease)
	for n := range count {
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, n)))
	}
	srv.Inject(clinicaldoctest.RouteCreateNote, fault)
	end := []string{"cancel", "break", "panic"}[random.IntN(3)]
	begun := time.Now()
	troubled := time.Duration(random.Int64N(int64(20 * time.Second)))
	ended := troubled + time.Duration(random.Int64N(int64(20*time.Second)))
	due := func() bool { return time.Since(begun) >= ended }
	var well atomic.Bool
	e.before = func(ctx context.Context, op, _ string) error {
		if well.Load() || time.Since(begun) < troubled {
			return nil
		}
		return trouble(ctx, op)
	}
	var told atomic.Pointer[time.Time]
	tell := func() { told.CompareAndSwap(nil, new(time.Now())) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := ended
	if end != "cancel" {
		cancelled += time.Minute // if no result, and no event, comes until then
	}
	timer := time.AfterFunc(cancelled, func() { tell(); cancel() })
	defer timer.Stop()
	u := uploader(srv)
	u.Workers = 1 + random.IntN(6)
	var panicked atomic.Bool
	u.OnEvent = func(ingest.Event) {
		if end == "panic" && due() {
			tell()
			panicked.Store(true)
			panic("synthetic")
		}
	}
	func() {
		defer func() {
			cause := recover()
			assert.Equal(t, panicked.Load(), cause != nil, "a panic is the caller's to see")
			if cause != nil {
				assert.Equal(t, "synthetic", fmt.Sprint(cause))
			}
		}()
		for range f.Work(ctx, u) {
			if end == "break" && due() {
				tell()
				break
			}
		}
	}()
	require.NotNil(t, told.Load(), "it ended by itself")
	assert.LessOrEqual(t, time.Since(*told.Load()), 30*time.Second)

	well.Store(true)
	srv.ClearFaults()
	u.OnEvent = nil
	for result, err := range e.fleet(defaultLease).Drain(t.Context(), u) {
		require.NoError(t, err)
		require.NotEqual(t, Dead, result.Ending, result)
	}
	assert.Len(t, srv.Notes(), count-e.count("dead"))
	assert.Zero(t, doubled(srv))
}

// If a note cannot be saved in the journal, its recording stays in the queue, and the next worker saves the note.
// Otherwise the journal would never know the note, and other recordings of the patient could not be resolved.
func TestWork_NoteNotSaved_KeepsTheRecording(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		var silent atomic.Bool
		silent.Store(true)
		e.before = func(ctx context.Context, op, key string) error {
			if silent.Load() && op == "update" && len(srv.Notes()) > 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var endings []string
		for result, err := range f.Work(ctx, uploader(srv)) {
			require.NoError(t, err)
			endings = append(endings, fmt.Sprint(result.Status, " ", result.Ending))
			if silent.Store(false); result.Ending == Done {
				break
			}
		}
		assert.Equal(t, []string{"created later", "already there done"}, endings)
		assert.Len(t, srv.Notes(), 1)
		assert.Equal(t, ingest.StateCreated, entryOf(t, e).State)
	})
}

// The upload that is under way when the work ends is finished and reported. Until then its recording and its worker are
// kept alive.
func TestWork_EndsDuringAnUpload_ReportsItsResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.SlowBody(1, 14*time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		for _, err := range f.Work(ctx, uploader(srv)) {
			require.NoError(t, err)
		}
		assert.Len(t, srv.Notes(), 1)
		assert.Zero(t, e.count("q", "r"), "it was taken out of the queue")
		assert.Greater(t, time.Since(begun), 10*time.Second)
		assert.Equal(t, 1, e.signs, "after ten seconds")
		assert.Len(t, e.bucket(f.store.liveName()).writes, 2, "so is the worker")
	})
}

// The status of a worker shows how many recordings it is uploading, how many are done, and why all of them fail.
func TestStatus_Worker_ShowsWhatItDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		fault           clinicaldoctest.Fault
		uploading, done int
		failing         string
	}{
		"it uploads":     {clinicaldoctest.Delay(time.Minute).After(1), 1, 2, ""},
		"it is through":  {clinicaldoctest.Delay(0), 0, sameFailures, ""},
		"all is refused": {clinicaldoctest.Answer(403, "synthetic").Always(), 0, 0, "403"},
		"none is fit":    {clinicaldoctest.Answer(422, "synthetic").Always(), 0, 0, ""},
	} {
		inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
			srv.Inject(clinicaldoctest.RouteCreateNote, c.fault)
			srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(403, "synthetic").After(1).Always())
			f := e.fleet(defaultLease)
			publish(t, f, dir, sameFailures)
			if c.done > 0 { // one has its note already
				first := filed(t, dir, 0).Params
				srv.AddNote(clinicaldoctest.Note{Name: first.Name, PatientID: first.PatientID, Audio: content(0)})
			}
			u := uploader(srv)
			u.Workers = 1
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			timer := time.AfterFunc(12*time.Second, func() {
				workers, err := f.live.workers(t.Context())
				assert.True(t, err == nil && len(workers) == 1, name)
				for _, w := range workers {
					assert.Equal(t, []int{c.uploading, c.done, os.Getpid()}, []int{w.Uploading, w.Done, w.Process}, name)
					assert.Equal(t, 12*time.Second, time.Since(w.Since), name)
					assert.Equal(t, c.failing != "", w.Failing != "", name)
					assert.Contains(t, w.Failing, c.failing, name)
				}
			})
			defer timer.Stop()
			for _, err := range f.Work(ctx, u) {
				require.NoError(t, err)
			}
		})
	}
}

// If the fleet belongs to another service or user, Work yields one error and ends. The recordings stay in the queue.
func TestWork_FleetOfAnotherUser_EndsWithAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for owner, want := range map[ingest.Owner]error{
		{Service: "https://api.clinicaldoc.test", UserID: 99}: ingest.ErrOtherUser,
		{Service: "https://other.example.test"}:               ingest.ErrOtherService,
	} {
		inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
			f := e.fleet(defaultLease)
			_, err := f.Journal().Bind(t.Context(), owner)
			require.NoError(t, err)
			publish(t, f, dir, 5)
			var all []error
			for result, err := range f.Work(t.Context(), uploader(srv)) {
				assert.Zero(t, result.Ending)
				all = append(all, err)
			}
			require.Len(t, all, 1)
			require.ErrorIs(t, all[0], want)
			assert.Equal(t, 5, e.count("q"))
			assert.Zero(t, e.count("r", "dead"))
			assert.Empty(t, srv.Notes())
		})
	}
}

// A header of the client may select a tenant, in which other recordings have notes. So other headers than the fleet's
// are rejected.
func TestWork_RejectsAClientOfAnotherTenant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		tenant := func(name string) *clinicaldoc.Client {
			return srv.Client(clinicaldoc.WithHeaders(http.Header{"X-Tenant": {name}}))
		}
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, 0)))
		for _, err := range f.Drain(t.Context(), &ingest.Uploader{Client: tenant("north")}) {
			require.NoError(t, err)
		}
		require.Len(t, srv.Notes(), 1)
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, 1)))
		owner, err := ingest.OwnerOf(t.Context(), tenant("north"))
		require.NoError(t, err)
		for _, u := range []*ingest.Uploader{
			{Client: tenant("south")},
			{Client: srv.Client()},
			{Client: tenant("south"), Owner: owner}, // the client's own headers count
		} {
			var last error
			for _, err := range f.Work(t.Context(), u) {
				last = err
			}
			require.ErrorIs(t, last, ingest.ErrOtherService)
			assert.Len(t, srv.Notes(), 1)
			assert.Equal(t, 1, e.count("q", "r"), "it stays for the fleet's own workers")
		}
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

func TestWork_EndsWhenItsUserChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		other := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Colleague"})
		source := &switching{tokens: [2]string{srv.Token, other.Token}, after: 4}
		f := e.fleet(defaultLease)
		publish(t, f, dir, 10)
		transport := clinicaldoc.WithHTTPClient(&http.Client{Transport: srv.Transport()})
		client, err := clinicaldoc.NewClient(srv.URL, "", clinicaldoc.WithTokenSource(source), transport)
		require.NoError(t, err)
		var last error
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range f.Work(ctx, &ingest.Uploader{Client: client, Workers: 1, AllNew: true, Until: clinicaldoc.StageUploaded}) {
			last = err
		}
		require.ErrorIs(t, last, ingest.ErrOtherUser)
		notes := srv.Notes()
		assert.Equal(t, other.ID, notes[len(notes)-1].UserID)
		assert.NotEqual(t, other.ID, notes[len(notes)-2].UserID, "the first note of the other user ends the work")

		counts := map[ingest.Status]int{}
		for result, err := range f.Drain(t.Context(), uploader(srv)) {
			require.NoError(t, err)
			counts[result.Status]++
		}
		assert.Equal(t, map[ingest.Status]int{ingest.AlreadyThere: 1, ingest.Created: 10 - len(notes)}, counts)
		require.NoError(t, srv.CreatedOnce(contents(10)...))
	})
}

// A worker that ends while it leads a pause of the fleet ends the pause.
func TestWork_EndsWhileItLeadsAPause_ResumesTheFleet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, sameFailures)
		srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
		e.carry = func(_ context.Context, _ string, effect func() error) error {
			time.Sleep(time.Millisecond)
			return effect()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		paused := time.AfterFunc(9*time.Second, func() { assert.NotEmpty(t, e.paused()) })
		defer paused.Stop()
		for _, err := range f.Work(ctx, uploader(srv)) {
			require.NoError(t, err)
		}
		assert.Empty(t, e.paused())
	})
}

// If the caller's own code panics during an upload, the recording is put back, and another worker gets it a second
// later.
func TestWork_PanicInAnUpload_PutsTheRecordingBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		u := uploader(srv)
		var at time.Time
		u.OnEvent = func(ingest.Event) { at = time.Now(); panic("synthetic") }
		assert.Panics(t, func() {
			for range f.Work(t.Context(), u) {
				t.Error("it is no result")
			}
		})
		d := nextOf(t, f, freshLane)
		assert.Equal(t, time.Second, time.Since(at))
		assert.Equal(t, 1, d.tries)
	})
}

// If the body of the caller's loop panics, the work ends as after a break, because nobody receives its results any
// more.
func TestWork_PanicInTheLoop_EndsTheWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 20)
		u := uploader(srv)
		u.Workers = 2
		assert.PanicsWithValue(t, "synthetic", func() {
			for range f.Work(t.Context(), u) {
				panic("synthetic")
			}
		})
		alive, err := f.live.workers(t.Context())
		require.NoError(t, err)
		assert.Empty(t, alive)
		assert.LessOrEqual(t, len(srv.Notes()), 4, "what was under way")
		assert.Equal(t, 20-len(srv.Notes()), e.count("q", "r"))
	})
}

// broken is a source of tokens that fails once the worker pauses.
type broken struct {
	token  string
	paused atomic.Bool
}

func (b *broken) Token(context.Context) (string, error) {
	if b.paused.Load() {
		panic("synthetic")
	}
	return b.token, nil
}

// A panic during a probe reaches the caller. Otherwise it would end the process, because a probe has its own goroutine.
func TestWork_PanicInAProbe_ReachesTheCaller(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f, source := e.fleet(defaultLease), &broken{token: srv.Token}
		publish(t, f, dir, sameFailures)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(429, "synthetic").Always())
		client, err := clinicaldoc.NewClient(srv.URL, "", clinicaldoc.WithTokenSource(source),
			clinicaldoc.WithHTTPClient(&http.Client{Transport: srv.Transport()}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
		require.NoError(t, err)
		u := &ingest.Uploader{Client: client, AllNew: true}
		u.OnEvent = func(event ingest.Event) {
			if event.Pause != nil {
				source.paused.Store(true)
			}
		}
		assert.PanicsWithValue(t, "synthetic", func() {
			for _, err := range f.Work(t.Context(), u) {
				require.NoError(t, err)
			}
		})
		assert.Equal(t, sameFailures, e.count("q", "r"))
	})
}

// An invalid number of workers is an error, and not an empty queue.
func TestWork_InvalidNumberOfWorkers_IsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		for _, workers := range []int{-1, 1025} {
			u := uploader(srv)
			u.Workers = workers
			var all []error
			for _, err := range f.Drain(t.Context(), u) {
				all = append(all, err)
			}
			require.Len(t, all, 1, workers)
			require.ErrorIs(t, all[0], clinicaldoc.ErrInvalidArgument, workers)
		}
		assert.Empty(t, srv.Notes())
	})
}

// To resolve a recording, the records of the patient's other recordings are read. If one of them is damaged, the
// recording stays unresolved, and does not become a dead letter.
func TestWork_DamagedRecord_BuriesNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f, u := e.fleet(defaultLease), uploader(srv)
		u.AllNew = true
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, 0)))
		for result, err := range f.Drain(t.Context(), u) {
			require.NoError(t, err)
			damaged := []byte("{")
			_, err = f.journal.records(result.JournalKey).Put(t.Context(), recordKey(result.JournalKey), damaged)
			require.NoError(t, err)
		}
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, 3))) // the same patient's
		for result, err := range f.Work(t.Context(), u) {
			require.NoError(t, err)
			assert.Equal(t, ingest.InDoubt, result.Status, result)
			assert.Equal(t, Later, result.Ending, result)
			break
		}
		assert.Zero(t, e.count("dead"))
	})
}

// A damaged record does not end the run of an uploader with its own list. The recording of that record is unresolved,
// and so is another one of the patient whose response is lost. All others have notes.
func TestRun_DamagedRecord_DoesNotEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f, u := e.fleet(defaultLease), uploader(srv)
		u.Journal, u.Workers, u.AllNew = f.Journal(), 1, true
		run := func(count int) map[string]ingest.Status {
			ended := map[string]ingest.Status{}
			for result, err := range u.Run(t.Context(), recordings(count)) {
				require.NoError(t, err)
				ended[result.Recording.Key] = result.Status
				if len(ended) == 1 && count == 1 {
					_, err = f.journal.records(result.JournalKey).Put(t.Context(), recordKey(result.JournalKey), []byte("{"))
					require.NoError(t, err)
				}
			}
			return ended
		}
		require.Equal(t, map[string]ingest.Status{"0": ingest.Created}, run(1))
		require.Equal(t, map[string]ingest.Status{"0": ingest.InDoubt, "1": ingest.Created, "2": ingest.Created}, run(3))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		ended := run(5) // 3 is the same patient's as 0
		assert.Equal(t, map[string]ingest.Status{"0": ingest.InDoubt, "1": ingest.AlreadyThere, "2": ingest.AlreadyThere, "3": ingest.InDoubt, "4": ingest.Created}, ended)
		assert.Len(t, srv.Notes(), 5)
	})
}

// After a break, Work yields nothing, not even that the store was harmed. Another yield would panic.
func TestWork_AfterABreak_YieldsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		var harmed, noticed atomic.Bool
		e.before = func(_ context.Context, op, _ string) error {
			switch {
			case !harmed.Load():
				return nil
			case op == "stream":
				noticed.Store(true)
				return jetstream.ErrStreamNotFound
			}
			return errors.New("synthetic")
		}
		for _, err := range f.Work(t.Context(), uploader(srv)) {
			require.NoError(t, err)
			harmed.Store(true)
			time.Sleep(time.Minute) // the others look
			break
		}
		assert.True(t, noticed.Load())
	})
}

// A recording that is refused while the work ends may have been refused because of that. It does not become a dead
// letter, and no try is counted.
func TestWork_RefusedWhileEnding_IsNoTry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		u := uploader(srv)
		u.Client = srv.Client(clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: func(_ context.Context, attempt clinicaldoc.Attempt) {
			if attempt.Method == http.MethodPost {
				cancel()
			}
		}}))
		for result, err := range f.Work(ctx, u) {
			require.NoError(t, err)
			assert.Fail(t, "it is no result", result)
		}
		assert.Equal(t, 1, e.count("q"))
		assert.Zero(t, e.count("dead", "r"))
	})
}

// If somebody deleted the queue's consumers, a worker creates both again, each for its own lane, and uses them.
func TestWork_ConsumersDeleted_AreMadeAgain(t *testing.T) {
	t.Parallel()
	e := newEngine()
	f := e.fleet(defaultLease)
	w := &work{fleet: f}
	deleted := map[lane]jetstream.Consumer{}
	for _, l := range []lane{freshLane, againLane} {
		deleted[l] = f.queue.consumer(l)
	}
	require.NoError(t, w.reopen(t.Context()))
	require.Empty(t, e.consumers, "the consumers exist")

	e.before = func(_ context.Context, op, _ string) error {
		if op == "consumer" {
			return jetstream.ErrConsumerNotFound
		}
		return nil
	}
	require.NoError(t, w.reopen(t.Context()))
	require.Len(t, e.consumers, 2)
	for i, l := range []lane{freshLane, againLane} {
		assert.Equal(t, jetstream.ConsumerConfig{
			Durable: laneNames[i], FilterSubject: f.store.subject(string(l)) + "*",
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: defaultLease,
			MaxDeliver: -1, MaxAckPending: -1,
		}, e.consumers[i])
		used := f.queue.consumer(l)
		assert.NotSame(t, deleted[l], used)
		assert.Equal(t, laneNames[i], used.(*memoryConsumer).name)
	}
}

// The dead letter of a damaged message contains the message unchanged, because a person may be able to read it.
func TestDeadLetter_DamagedMessage_KeepsItsContent(t *testing.T) {
	t.Parallel()
	e := newEngine()
	message := &memoryMessage{engine: e, data: []byte("synthetic"), sequence: 99}
	d := &delivery{queue: e.fleet(defaultLease).queue, message: message, isDamaged: true, tries: 1}
	require.NoError(t, d.bury(t.Context(), "it cannot be read"))
	require.Equal(t, 1, e.count("dead"))
	var letter queuedRecording
	require.NoError(t, json.Unmarshal(e.waiting[0].data, &letter))
	assert.Equal(t, "synthetic", string(letter.Raw))
}

// If it cannot be saved that a recording is unresolved, the result is unresolved anyway. It must not be refused,
// because that means that no note exists.
func TestWork_UnresolvedNotSaved_IsNoRefusal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		var silent atomic.Bool
		silent.Store(true)
		e.before = func(ctx context.Context, op, _ string) error {
			if silent.Load() && op == "update" && len(srv.Notes()) > 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		var statuses []ingest.Status
		for result, err := range f.Drain(t.Context(), uploader(srv)) {
			require.NoError(t, err)
			statuses = append(statuses, result.Status)
			silent.Store(false)
		}
		assert.Equal(t, []ingest.Status{ingest.InDoubt, ingest.Created}, statuses)
		assert.Len(t, srv.Notes(), 1)
	})
}

// Each delivery is tried once. The queue delivers the recording again, after a rest and on any machine. If the worker
// repeated the upload itself, the only ending would be Done.
func TestWork_Delivery_IsTriedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0))
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		var endings []Ending
		for result, err := range f.Drain(t.Context(), uploader(srv)) {
			require.NoError(t, err)
			endings = append(endings, result.Ending)
		}
		assert.Equal(t, []Ending{Later, Done}, endings)
	})
}

// While nothing fails, an upload does not read the pause of the fleet.
func TestPause_SuccessWithoutAPause_ReadsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 5)
		looks := 0
		e.before = func(_ context.Context, op, name string) error {
			if op == "get" && name == pauseKey {
				looks++
			}
			return nil
		}
		for _, err := range f.Drain(t.Context(), uploader(srv)) {
			require.NoError(t, err)
		}
		assert.Zero(t, looks)
	})
}

func TestResult_Printed_HasItsEnding(t *testing.T) {
	t.Parallel()
	for ending, want := range map[Ending]string{0: "Ending(0)", Done: "done", Later: "later", Dead: "dead letter"} {
		assert.Equal(t, want, ending.String())
	}
	done := Result{Result: ingest.Result{Status: ingest.Created, NoteID: 7}, Ending: Done}
	assert.Equal(t, "jetstream.Result{ending=done status=created note_id=7}", fmt.Sprint(done))
	later := Result{Result: ingest.Result{Status: ingest.InDoubt}, Ending: Later, Rest: time.Second}
	assert.Equal(t, "jetstream.Result{ending=later rest=1s status=unresolved}", fmt.Sprint(later))
}
