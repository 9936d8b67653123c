package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const (
	loadCallers = 64
	// loadConnections bounds what the SDK's own transport may open: each caller needs one to the API and one to storage, and
	// may open one in vain while another's becomes free.
	loadConnections = 4 * loadCallers
	// heapGrowth bounds what may stay in memory after the first tenth of the calls, the box's included.
	heapGrowth = 8 << 20
)

// heavy is a load without faults: one client as it comes, many goroutines.
type heavy struct {
	seed  uint64
	calls int
	dir   string
}

func loadFromFlags(dir string) heavy {
	l := heavy{seed: chosenSeed(), calls: *calls, dir: dir}
	if l.calls == 0 {
		l.calls = defaultCalls
	}
	return l
}

// loadReport is what a load came to.
type loadReport struct {
	findings

	load           heavy
	calls, failed  map[string]int
	opened, reused int64
	early, late    uint64 // bytes of heap in use
	took           time.Duration
	goroutines     error
	files          int
}

func runLoad(ctx context.Context, l heavy) (*loadReport, error) {
	before := takeSnapshot()
	report, err := l.run(ctx)
	if err != nil {
		return nil, err
	}
	report.files, report.goroutines = leaks(before)
	return report, nil
}

func (l heavy) run(ctx context.Context) (*loadReport, error) {
	began := time.Now()
	did := &history{onlyCreates: true}
	box, err := clinicaldoctest.Start(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}), clinicaldoctest.WithObserver(did.observe))
	if err != nil {
		return nil, err
	}
	defer box.Close()
	client, err := clinicaldoc.NewClient(box.URL, box.Token)
	if err != nil {
		return nil, err
	}
	var opened, reused atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// GotConn does not tell of connections that were opened in vain.
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				opened.Add(1)
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			if info.Reused {
				reused.Add(1)
			}
		},
	})
	all := make([]*caller, loadCallers)
	for i := range all {
		all[i] = newCaller(client, box.AddPatient(clinicaldoctest.Patient{}).ID, l.seed, l.dir)
		all[i].tidy, all[i].sized, all[i].maxNotes, all[i].maxSize = true, true, 10, 64<<10
	}
	report := &loadReport{load: l, calls: map[string]int{}, failed: map[string]int{}}
	work(ctx, all, l.calls/10)
	report.early = heapInUse(box)
	work(ctx, all, l.calls-l.calls/10)
	report.late = heapInUse(box)
	report.opened, report.reused = opened.Load(), reused.Load()

	var records []*record
	for _, c := range all {
		report.add(c.found)
		records = append(records, c.records...)
		did.forget(c.forgotten)
		addTo(report.calls, c.calls)
		addTo(report.failed, c.failed)
	}
	report.add(verify(records, box.Notes(), did, nil))
	report.took = time.Since(began)
	return report, nil
}

// work shares calls among the callers.
func work(ctx context.Context, all []*caller, calls int) {
	var left atomic.Int64
	left.Store(int64(calls))
	var workers sync.WaitGroup
	for _, c := range all {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				c.step(ctx, true)
			}
		})
	}
	workers.Wait()
}

// heapInUse is what the collector cannot free, without the box's list of requests.
func heapInUse(box *clinicaldoctest.Server) uint64 {
	box.ForgetRequests()
	var stats runtime.MemStats
	for range 2 { // pools let go at the second
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// String prints the totals.
func (r *loadReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load of seed %d: one client, %d goroutines, %.1f s\n", r.load.seed, loadCallers, r.took.Seconds())
	fmt.Fprintf(&b, "  calls            %6d   %s\n", sum(r.calls), listed(r.calls))
	fmt.Fprintf(&b, "  failed calls     %6d   %s\n", sum(r.failed), listed(r.failed))
	fmt.Fprintf(&b, "  connections      %6d   opened, used again %d times\n", r.opened, r.reused)
	fmt.Fprintf(&b, "  heap             %6.1f   MiB after a tenth of the calls, %.1f MiB at the end\n", float64(r.early)/(1<<20), float64(r.late)/(1<<20))
	fmt.Fprintf(&b, "  duplicates       %6d\n", len(r.duplicates))
	fmt.Fprintf(&b, "  losses           %6d\n", len(r.losses))
	fmt.Fprintf(&b, "  wrong answers    %6d\n", len(r.wrong))
	fmt.Fprintf(&b, "  leaks            %6d   goroutines and open files\n", leaked(r.goroutines, r.files))
	return b.String()
}

// failure is nil when every promise was kept.
func (r *loadReport) failure() error {
	err := r.findings.failure()
	if n := sum(r.failed); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d calls failed", n))
	}
	if r.opened > loadConnections {
		err = errors.Join(err, fmt.Errorf("%d connections were opened, more than %d", r.opened, loadConnections))
	}
	if r.late > r.early+heapGrowth {
		err = errors.Join(err, fmt.Errorf("the heap grew from %d to %d bytes, by more than %d", r.early, r.late, heapGrowth))
	}
	if r.goroutines != nil {
		err = errors.Join(err, fmt.Errorf("leak: %w", r.goroutines))
	}
	if r.files > 0 {
		err = errors.Join(err, fmt.Errorf("leak: %d open files", r.files))
	}
	return err
}
