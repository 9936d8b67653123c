package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// storm says how much is to happen.
type storm struct {
	seed     uint64
	ops      int
	callers  int
	duration time.Duration // 0: no limit
	dir      string
}

func stormFromFlags(dir string) storm {
	return storm{seed: chosenSeed(), ops: *ops, callers: *callers, duration: *duration, dir: dir}
}

// The storm's client gives up a silent connection soon and repeats at once, or a storm would mostly wait.
const (
	stallTimeout = 700 * time.Millisecond
	opsPerChange = 12                     // of all callers together
	longestCalm  = 300 * time.Millisecond // the weather changes even when nothing gets through
)

// runStorm lets callers work through bad weather, looks up what stayed unknown, and compares.
func runStorm(ctx context.Context, s storm) (*stormReport, error) {
	before := takeSnapshot()
	report, err := s.run(ctx)
	if err != nil {
		return nil, err
	}
	report.files, report.goroutines = leaks(before)
	return report, nil
}

func (s storm) run(ctx context.Context) (*stormReport, error) {
	began := time.Now()
	did := &history{}
	box, err := clinicaldoctest.Start(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}), clinicaldoctest.WithObserver(did.observe))
	if err != nil {
		return nil, err
	}
	defer box.Close()
	network, err := newNetwork(s.seed, box.URL, box.StorageURL)
	if err != nil {
		return nil, err
	}
	defer network.close()
	transport := &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: s.callers, ExpectContinueTimeout: time.Second}
	defer transport.CloseIdleConnections()
	var attempts atomic.Int64
	client, err := clinicaldoc.NewClient(box.URL, box.Token,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithStallTimeout(stallTimeout),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: 5 * time.Millisecond, MaxWait: 50 * time.Millisecond}),
		clinicaldoc.WithObserver(func(context.Context, clinicaldoc.Attempt) { attempts.Add(1) }),
	)
	if err != nil {
		return nil, err
	}

	calm := &http.Transport{}
	defer calm.CloseIdleConnections()
	resolver := newResolver(ctx, box.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: calm})))
	all := make([]*caller, s.callers)
	for i := range all {
		all[i] = newCaller(client, box.AddPatient(clinicaldoctest.Patient{}).ID, s.seed, s.dir)
		all[i].mayHurry, all[i].onLost = true, resolver.offer
	}
	err = s.blow(ctx, network, all)
	blown := time.Since(began)
	network.close() // what it still holds back arrives now or never

	report := newStormReport(s, all, network, attempts.Load())
	resolver.finish(report.records)
	if err != nil {
		return nil, err
	}
	report.add(verify(report.records, box.Notes(), did))
	report.blown, report.took = blown, time.Since(began)
	return report, nil
}

// blow runs the callers while the weather changes with every few operations.
func (s storm) blow(ctx context.Context, network *network, all []*caller) error {
	over := ctx
	if s.duration > 0 {
		var cancel context.CancelFunc
		over, cancel = context.WithTimeout(ctx, s.duration)
		defer cancel()
	}
	finished := make(chan struct{}, len(all))
	var workers sync.WaitGroup
	for i, c := range all {
		share := s.ops / len(all)
		if i < s.ops%len(all) {
			share++
		}
		workers.Go(func() {
			for n := range share {
				if over.Err() != nil {
					return
				}
				// The last third creates nothing, so that the time after which a create counts as lost is mostly over by then.
				c.step(ctx, 3*n < 2*share)
				finished <- struct{}{}
			}
		})
	}
	go func() {
		workers.Wait()
		close(finished)
	}()
	timer := time.NewTimer(longestCalm)
	defer timer.Stop()
	var failure error
	for n, open := 0, true; open; {
		select {
		case _, open = <-finished:
			if n++; n%opsPerChange != 0 {
				continue
			}
		case <-timer.C:
		}
		timer.Reset(longestCalm)
		if failure == nil {
			failure = network.change()
		}
	}
	return failure
}
