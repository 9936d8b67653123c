package jetstream

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// toTheEnd is an uploader as most programs have it: a recording is done when its note is complete.
func toTheEnd(srv *clinicaldoctest.Server) *ingest.Uploader {
	return &ingest.Uploader{Client: srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))}
}

func failedScript() clinicaldoctest.Script {
	return clinicaldoctest.Script{TranscriptionError: "synthetic error state"}
}

// drained returns the results of a Drain.
func drained(t *testing.T, f *Fleet, u *ingest.Uploader) (results []Result) {
	t.Helper()
	for result, err := range f.Drain(t.Context(), u) {
		require.NoError(t, err)
		results = append(results, result)
	}
	return results
}

func statuses(results []Result) map[ingest.Status]int {
	counts := map[ingest.Status]int{}
	for _, result := range results {
		counts[result.Status]++
	}
	return counts
}

// stages returns the stages in the journal of the recordings with these numbers.
func stages(t *testing.T, f *Fleet, dir string, count int) map[clinicaldoc.Stage]int {
	t.Helper()
	binding, err := f.journal.binding(t.Context())
	require.NoError(t, err)
	counts := map[clinicaldoc.Stage]int{}
	for n := range count {
		r, _, err := f.journal.read(t.Context(), binding.Key(filed(t, dir, n).Key))
		require.NoError(t, err)
		counts[r.Entry.Stage]++
	}
	return counts
}

func TestDrain_WaitsUntilNotesAreComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: 3 * time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 10)
		began := time.Now()
		results := drained(t, f, toTheEnd(srv))
		assert.GreaterOrEqual(t, time.Since(began), 3*time.Minute)
		assert.Less(t, time.Since(began), 5*time.Minute)
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 10}, statuses(results))
		for _, result := range results {
			assert.Equal(t, Done, result.Ending)
			assert.Equal(t, clinicaldoc.StageComplete, result.Stage)
			assert.NotEmpty(t, result.Recording.Key, "not one of an earlier run")
			assert.False(t, result.Earlier)
			assert.NotEmpty(t, result.Note.Transcription, "the note as it is when it is complete")
			require.NoError(t, result.Err)
		}
		assert.Equal(t, map[clinicaldoc.Stage]int{clinicaldoc.StageComplete: 10}, stages(t, f, dir, 10))
		assert.Zero(t, e.count("q", "r", "dead"))

		publish(t, f, dir, 10)
		srv.ForgetRequests()
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 10}, statuses(drained(t, f, toTheEnd(srv))))
		for _, request := range srv.Requests() {
			assert.Equal(t, clinicaldoctest.RouteMe, request.Route, "what is complete is not read again")
		}
		assert.Len(t, srv.Created(), 10)
	})
}

// A recording that the service could not process is a dead letter until a person decides, and then becomes one more
// note.
func TestDrain_FailedProcessingIsADeadLetter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.ScriptNext(failedScript(), failedScript(), failedScript())
		f := e.fleet(defaultLease)
		publish(t, f, dir, 10)
		results := drained(t, f, toTheEnd(srv))
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 7, ingest.Failed: 3}, statuses(results))
		var failed []Result
		for _, result := range results {
			if result.Status == ingest.Failed {
				failed = append(failed, result)
			}
		}
		for _, result := range failed {
			assert.Equal(t, Dead, result.Ending)
			require.ErrorIs(t, result.Err, clinicaldoc.ErrProcessingFailed)
			assert.Equal(t, "synthetic error state", *result.Note.ErrorState)
			told := outcomeOf(t, f, result.Recording)
			assert.Equal(t, Dead, told.Ending)
			assert.Equal(t, ingest.Failed, told.Status)
			assert.Equal(t, result.NoteID, told.NoteID)
			require.ErrorIs(t, told.Err, ErrDeadLetter)
			assert.Contains(t, told.Err.Error(), "could not process")
			assert.NotContains(t, told.Err.Error(), "synthetic", "only who asks for it gets the error state")
		}
		assert.Equal(t, 3, e.count("dead"))

		first := failed[0].Recording
		first.Params.Audio = nil
		require.NoError(t, f.Publish(t.Context(), first), "without a decision")
		assert.Equal(t, map[ingest.Status]int{ingest.Failed: 1}, statuses(drained(t, f, toTheEnd(srv))))
		assert.Len(t, srv.Created(), 10)

		u := toTheEnd(srv)
		u.Journal = f.Journal()
		decision := ingest.Resolution{SendAgain: true, By: "synthetic"}
		require.NoError(t, u.Resolve(t.Context(), failed[0].JournalKey, decision))
		require.NoError(t, u.Resolve(t.Context(), failed[0].JournalKey, decision), "decided twice")
		require.NoError(t, f.Publish(t.Context(), first))
		again := drained(t, f, toTheEnd(srv))
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 1}, statuses(again))
		assert.Equal(t, []int64{failed[0].NoteID}, again[0].Replaced)
		assert.Len(t, srv.Created(), 11, "it is sent once")
		require.NoError(t, f.Publish(t.Context(), first))
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 1}, statuses(drained(t, f, toTheEnd(srv))))
		assert.Len(t, srv.Created(), 11)
		told := outcomeOf(t, f, failed[0].Recording)
		assert.Equal(t, Done, told.Ending)
		assert.Equal(t, []int64{failed[0].NoteID}, told.Replaced)
	})
}

// Drain does not wait without end for notes that stay in processing. It leaves them to the next worker.
func TestDrain_EndsWhenNotesStayInProcessing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ maxWait, atMost time.Duration }{
		"the default": {0, 16 * time.Minute},
		"an hour":     {time.Hour, 62 * time.Minute},
		"one look":    {-1, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
				srv.SetDelays(clinicaldoctest.Delays{Transcribing: 10 * time.Hour})
				f := e.fleet(defaultLease)
				publish(t, f, dir, 3)
				u := toTheEnd(srv)
				u.MaxWait = c.maxWait
				began := time.Now()
				results := drained(t, f, u)
				took := time.Since(began)
				assert.GreaterOrEqual(t, took, max(c.maxWait, 0))
				assert.Less(t, took, c.atMost)
				assert.Equal(t, map[ingest.Status]int{ingest.Processing: 3}, statuses(results))
				for _, result := range results {
					assert.Equal(t, Later, result.Ending)
					require.Error(t, result.Err)
					assert.Less(t, result.Stage, clinicaldoc.StageComplete)
					told := outcomeOf(t, f, result.Recording)
					assert.Equal(t, Later, told.Ending)
					assert.Equal(t, ingest.Processing, told.Status)
				}
				assert.Equal(t, 3, e.count("q", "r"), "they stay in the queue")
				for stage := range stages(t, f, dir, 3) {
					assert.Less(t, stage, clinicaldoc.StageComplete)
					assert.Positive(t, stage)
				}

				srv.SetDelays(clinicaldoctest.Delays{})
				next := e.another().fleet(defaultLease)
				began = time.Now()
				publish(t, next, dir, 3) // each is in the queue twice now: as a new one, and as one to be tried again
				assert.Equal(t, map[ingest.Status]int{ingest.Complete: 3}, statuses(drained(t, next, toTheEnd(srv))))
				assert.Less(t, time.Since(began), time.Minute, "those to be tried again are not waited for")
				time.Sleep(maxDelay)
				assert.Equal(t, map[ingest.Status]int{ingest.Complete: 3}, statuses(drained(t, next, toTheEnd(srv))))
				assert.Zero(t, e.count("q", "r"))
				assert.Len(t, srv.Created(), 3, "what is in processing is not uploaded again")
			})
		})
	}
}

// A worker waits for notes for as long as it works, and does not hold up uploads meanwhile.
func TestWork_FollowsNotesWhileItUploads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: 40 * time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 2)
		u := toTheEnd(srv)
		u.Workers = 1
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(25*time.Minute, func() {
			srv.SetDelays(clinicaldoctest.Delays{})
			assert.NoError(t, f.Publish(t.Context(), filed(t, dir, 2)))
		})
		var ended []ingest.Status
		for result, err := range f.Work(ctx, u) {
			require.NoError(t, err)
			ended = append(ended, result.Status)
			complete := 0
			for _, status := range ended {
				if status == ingest.Complete {
					complete++
				}
			}
			if complete == 3 {
				cancel()
			}
		}
		assert.Contains(t, ended, ingest.Processing, "after 15 minutes that is said")
		assert.Zero(t, e.count("q", "r"))
		assert.Len(t, srv.Created(), 3)
	})
}

// A worker that ends releases the notes for which it waits. Others can follow them before its lease runs out.
func TestWork_LeavesNotesToOthersWhenItEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 5)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for result, err := range f.Work(ctx, toTheEnd(srv)) {
			require.NoError(t, err)
			t.Error("nothing has ended:", result)
		}
		assert.Equal(t, 5, e.count("q", "r"))
		next := e.another().fleet(defaultLease)
		began := time.Now()
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 5}, statuses(drained(t, next, toTheEnd(srv))))
		assert.Less(t, time.Since(began), time.Minute)
		assert.Len(t, srv.Created(), 5)
	})
}

// A stage that cannot be saved keeps the recording in the queue, so no note in processing is forgotten.
func TestDrain_UnsavedStageKeepsTheRecording(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: 10 * time.Second})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		var silent atomic.Bool
		time.AfterFunc(8*time.Second, func() { silent.Store(true) })
		time.AfterFunc(2*time.Minute, func() { silent.Store(false) })
		e.before = func(ctx context.Context, op, _ string) error {
			if silent.Load() && op == "update" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		began := time.Now()
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 1}, statuses(drained(t, f, toTheEnd(srv))))
		assert.Greater(t, time.Since(began), 2*time.Minute)
		assert.Equal(t, map[clinicaldoc.Stage]int{clinicaldoc.StageComplete: 1}, stages(t, f, dir, 1))
		assert.Zero(t, e.count("q", "r"))
	})
}

// While a worker waits for a note, the note is deleted and a person decides to send the recording again. The worker
// follows the decision: it makes a second note, and does not report the deleted one as a failure.
func TestWork_DecisionWhileNoteIsAwaited_Counts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		u := toTheEnd(srv)
		u.Journal = f.Journal()
		decide := func() error {
			_, err := srv.Client().Notes.Delete(t.Context(), srv.Notes()[0].ID)
			if err != nil {
				return err
			}
			binding, err := f.journal.binding(t.Context())
			if err != nil {
				return err
			}
			key := binding.Key(filed(t, dir, 0).Key)
			return u.Resolve(t.Context(), key, ingest.Resolution{SendAgain: true, By: "synthetic"})
		}
		time.AfterFunc(30*time.Second, func() { assert.NoError(t, decide()) })
		results := drained(t, f, toTheEnd(srv))
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 1}, statuses(results))
		assert.Zero(t, e.count("dead"))
		assert.Len(t, srv.Created(), 2)
		assert.Len(t, srv.Notes(), 1)
	})
}

func TestDrain_DeletedNoteIsADeadLetter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 2)
		time.AfterFunc(30*time.Second, func() {
			_, err := srv.Client().Notes.Delete(t.Context(), srv.Notes()[0].ID)
			assert.NoError(t, err)
		})
		results := drained(t, f, toTheEnd(srv))
		assert.Equal(t, map[ingest.Status]int{ingest.Complete: 1, ingest.Failed: 1}, statuses(results))
		assert.Equal(t, map[clinicaldoc.Stage]int{clinicaldoc.StageComplete: 1, clinicaldoc.StageFailed: 1}, stages(t, f, dir, 2))
		assert.Equal(t, 1, e.count("dead"))
	})
}

// Thousands of notes are read by lists, not one by one.
func TestDrain_ReadsNotesByLists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const count = 150
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: 2 * time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, count)
		u := toTheEnd(srv)
		u.AllNew = true
		drained(t, f, u)
		gets := 0
		for _, request := range srv.Requests() {
			if request.Route == clinicaldoctest.RouteGetNote {
				gets++
			}
		}
		assert.LessOrEqual(t, gets, 2*count, "not at each look")
	})
}

func TestWork_EventsTellThatANoteIsAwaited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Minute})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		u := toTheEnd(srv)
		var mu sync.Mutex
		var states []ingest.State
		var ended []ingest.Result
		u.OnEvent = func(event ingest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if event.State != 0 {
				states = append(states, event.State)
			}
			if event.Result != nil {
				ended = append(ended, *event.Result)
			}
		}
		drained(t, f, u)
		assert.Equal(t, []ingest.State{ingest.StateClaimed, ingest.StateCreated}, states)
		require.Len(t, ended, 1)
		assert.Equal(t, ingest.Complete, ended[0].Status)
		assert.Equal(t, filepath.Join(dir, filepath.Base(ended[0].Recording.File)), ended[0].Recording.File)
	})
}

func TestWork_RejectsAStageThatCannotBeWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		u := toTheEnd(srv)
		u.Until = clinicaldoc.StageFailed
		for _, err := range e.fleet(defaultLease).Work(t.Context(), u) {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		}
	})
}

// A worker waits for a bounded number of notes. The others rest in the queue.
func TestFollower_IsBounded(t *testing.T) {
	t.Parallel()
	f := newFollower(&work{uploader: &ingest.Uploader{}})
	for n := range maxFollowed {
		require.True(t, f.hold(nil, ingest.Result{JournalKey: key(n)}, func() {}))
	}
	assert.False(t, f.hold(nil, ingest.Result{JournalKey: key(maxFollowed)}, func() {}), "there is no room")
	f.drop(key(0))
	assert.False(t, f.hold(nil, ingest.Result{JournalKey: key(1)}, func() {}), "it is held already")
	assert.True(t, f.hold(nil, ingest.Result{JournalKey: key(maxFollowed)}, func() {}))
}

// A recording that failed once rests in the queue. Drain waits for it: until it is tried again, it has no note.
func TestDrain_RecordingThatRests_IsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic"))
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		u := toTheEnd(srv)
		u.Workers = 1
		results := drained(t, f, u)
		assert.Equal(t, map[ingest.Status]int{ingest.Refused: 1, ingest.Complete: 1}, statuses(results))
		assert.Zero(t, e.count("q", "r"))
	})
}

// A note's last stage is saved before its recording ends. Drain does not end between the two, or a result is missing.
func TestDrain_StageSavedButNotReported_DoesNotEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: srv.URL})
		require.NoError(t, err)
		entry := binding.Describe(filed(t, dir, 0))
		entry.State = ingest.StateCreated
		entry.NoteID = 17
		entry.Stage = clinicaldoc.StageComplete
		c, err := f.Journal().Claim(t.Context(), entry.Key)
		require.NoError(t, err)
		defer c.Release()
		require.NoError(t, c.Save(t.Context(), entry))

		w := withFollower(&work{fleet: f, uploader: toTheEnd(srv)})
		require.True(t, w.follower.hold(nil, ingest.Result{JournalKey: entry.Key}, func() {}))
		assert.False(t, w.isDrained(t.Context()), "the result has not been reported")
		w.follower.drop(entry.Key)
		assert.True(t, w.isDrained(t.Context()), "what is left is a second message of it")
	})
}

// A result's time counts from the start of the upload, and not only from when the worker began to wait for the note.
func TestDrain_NoteIsAwaited_TimeIncludesTheUpload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(20*time.Second))
		srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Second})
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		results := drained(t, f, toTheEnd(srv))
		require.Len(t, results, 1)
		assert.Equal(t, ingest.Complete, results[0].Status)
		assert.Greater(t, results[0].Took, 20*time.Second)
	})
}

// When no note is awaited any more, the next one is read as soon as it exists. It does not wait for the end of a round.
func TestWork_NoteAfterTheLastOneEnded_IsReadImmediately(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
		f := e.fleet(defaultLease)
		publish(t, f, dir, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := 0
		for result, err := range f.Work(ctx, toTheEnd(srv)) {
			require.NoError(t, err)
			assert.Equal(t, ingest.Complete, result.Status)
			assert.Less(t, result.Took, 3500*time.Millisecond)
			if ended++; ended == 3 {
				cancel()
				continue
			}
			require.NoError(t, f.Publish(t.Context(), filed(t, dir, ended)))
		}
		assert.Equal(t, 3, ended)
	})
}
