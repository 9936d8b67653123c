package jetstream

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// fused returns scenarios of two machines: one for each step of the first machine. At that step the machine dies, or
// stops for longer than its lease, and then the second one starts. With fewer than 1,000 scenarios some steps are left
// out, different ones each time.
func fused(t *testing.T, live func(w *world, ctx context.Context, first, second *life)) {
	t.Helper()
	files := recordingFiles(t)
	stride := max(1000 / *fleetSeeds, 1)
	for _, dies := range []bool{true, false} {
		var next, last atomic.Uint64
		next.Store(rand.Uint64N(stride))
		var workers sync.WaitGroup
		for range worldsAtOnce() {
			workers.Go(func() {
				for fuse := next.Add(stride); last.Load() == 0 && !t.Failed(); fuse = next.Add(stride) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(1, files)
						defer w.box.Close()
						w.calm = time.Now()
						w.design = worldDesign{machines: 2, workers: 1, recordings: 3, scale: time.Second, never: 1, closed: 5}
						first, second := newMachine(w, 0).newLife(1), newMachine(w, 1).newLife(1)
						first.fuse, first.dies = int(fuse), dies
						ctx, end := context.WithCancel(t.Context())
						w.publish(ctx)
						live(w, ctx, first, second)
						w.finish(end)
						w.judge(t.Context())
						select {
						case <-first.burnt:
						default:
							last.Store(fuse)
						}
						if len(w.violations) > 0 {
							t.Errorf("after %d steps, dies: %t: %s\n\n%s", fuse, dies, strings.Join(w.violations, "\n"), strings.Join(w.history, "\n"))
						}
					})
				}
			})
		}
		workers.Wait()
		t.Logf("%d steps, dies: %t", last.Load(), dies)
		assert.Greater(t, last.Load(), uint64(20))
	}
}

// A worker dies or stops at any step, for example between two writes to the queue or around a pause. Others finish
// its recordings, and when it continues it makes no second note.
func TestWork_WorkerDiesOrStopsAtAnyStep_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	fused(t, func(w *world, ctx context.Context, first, second *life) {
		first.work(ctx)
		for burnt := false; !burnt && w.waits(); {
			select {
			case <-first.burnt:
				burnt = true
			case <-time.After(5 * time.Second):
			}
		}
		second.work(ctx)
	})
}

// A process dies or stops while it saves a manual decision. Another process saves the decision again, and the recording
// is uploaded once.
func TestResolve_ProcessDiesOrStopsAtAnyStep_UploadsOnce(t *testing.T) {
	t.Parallel()
	fused(t, func(w *world, ctx context.Context, first, second *life) {
		w.design.never, w.design.closed, w.design.lost = -1, 0, 3
		// All are lost, and unresolved.
		losing, stop := context.WithCancel(ctx)
		newMachine(w, 2).newLife(1).work(losing)
		for n := range 3 {
			for w.record(n).Entry.State != ingest.StateInDoubt {
				time.Sleep(time.Second)
			}
		}
		stop()
		time.Sleep(time.Minute)
		resolve := func(l *life) {
			f, u := l.join() //nolint:contextcheck // nothing is asked for
			u.Journal = f.Journal()
			for n := range 3 {
				for try := 0; try < 5 && u.Resolve(ctx, w.record(n).Entry.Key, ingest.Resolution{By: "synthetic"}) != nil; try++ {
					time.Sleep(time.Second)
				}
			}
		}
		w.running.Go(func() { resolve(first) })
		select {
		case <-first.burnt:
		case <-time.After(time.Minute):
		}
		resolve(second)
		second.work(ctx)
	})
}

// If it is certain after ten minutes that a recording has no note, the recording is uploaded again. That upload may
// take any time: only a search is limited to a few seconds.
func TestWork_SecondUploadAfterALoss_MayTakeLong(t *testing.T) {
	t.Parallel()
	files := recordingFiles(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, files)
		defer w.box.Close()
		w.calm, w.design = time.Now(), worldDesign{machines: 1, workers: 1, recordings: 1, upload: time.Minute, lost: 1, never: -1}
		ctx, end := context.WithCancel(t.Context())
		w.publish(ctx)
		newMachine(w, 0).newLife(1).work(ctx)
		w.finish(end)
		w.judge(t.Context())
		assert.Empty(t, w.violations)
		assert.Equal(t, 1, w.tally["done"], "%s", strings.Join(w.history, "\n"))
	})
}
