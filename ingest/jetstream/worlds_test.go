package jetstream

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var (
	fleetSeeds = flag.Uint64("worlds", 40, "how many worlds of a fleet")
	fleetFrom  = flag.Uint64("from", 0, "the seed of the first of them; 0: a fresh one")
)

// worldsAtOnce leaves a processor to the tests that wait for servers.
func worldsAtOnce() int { return max(runtime.GOMAXPROCS(0)-1, 1) }

// In a fleet each recording becomes one note, or stays unresolved, whatever happens to the machines. Nothing waits
// without end, and no machine sends a recording that it no longer has.
func TestFleetWorlds(t *testing.T) {
	t.Parallel()
	from, begun := *fleetFrom, time.Now()
	if from == 0 {
		from = uint64(begun.UnixNano())
	}
	files := recordingFiles(t)
	var mu sync.Mutex
	var worst *world // the broken one with the shortest history
	total, broken := map[string]int{}, []uint64{}
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range worldsAtOnce() {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < *fleetSeeds; n = next.Add(1) - 1 {
				w := runWorld(t, from+n, files)
				mu.Lock()
				for what, n := range w.tally {
					total[what] += n
				}
				if len(w.violations) > 0 {
					broken = append(broken, w.seed)
					if worst == nil || len(w.history) < len(worst.history) {
						worst = w
					}
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for _, what := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%-40s %d", what, total[what])
	}
	t.Logf("%d worlds from seed %d in %s", *fleetSeeds, from, time.Since(begun).Round(time.Millisecond))
	if worst != nil {
		t.Errorf("broken in %d worlds: %v\nseed %d, %+v:\n%s\n\n%s", len(broken), broken[:min(len(broken), 20)], worst.seed, worst.design,
			strings.Join(worst.violations, "\n"), strings.Join(worst.history, "\n"))
	}
	assert.GreaterOrEqual(t, total["done"]*4, (total["done"]+total["dead letters"])*3, "most are decided, also of a few worlds")
}
