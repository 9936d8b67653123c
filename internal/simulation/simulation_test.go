package simulation

import (
	"flag"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var (
	from  = flag.Uint64("from", 1, "seed of the first world")
	seeds = flag.Uint64("seeds", 30, "how many worlds")
)

func TestWorlds(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	total := tally{}
	var mu sync.Mutex
	var next atomic.Uint64
	failed := map[string][]uint64{}
	began := time.Now()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < *seeds; n = next.Add(1) - 1 {
				w := newWorld(*from + n)
				w.run(t)
				mu.Lock()
				total.add(w.tally)
				for _, v := range w.violations {
					if !slices.Contains(failed[v.kind], w.seed) {
						failed[v.kind] = append(failed[v.kind], w.seed)
					}
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d worlds in %s: %v", *seeds, time.Since(began).Round(time.Millisecond), total)
	for kind, list := range failed {
		slices.Sort(list)
		t.Errorf("%s: %d worlds: %v", kind, len(list), list[:min(len(list), 20)])
	}
}

var showSeed = flag.Uint64("show", 0, "seed of a world to print")

func TestShow(t *testing.T) {
	if *showSeed == 0 {
		t.Skip("no -show")
	}
	w := newWorld(*showSeed)
	w.run(t)
	t.Logf("%s\n%s\n%v", w.design, strings.Join(w.lines(), "\n"), w.violations)
	again := newWorld(*showSeed)
	again.run(t)
	assert.Equal(t, w.lines(), again.lines())
}
