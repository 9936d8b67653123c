package main

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
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
	stallTimeout   = 700 * time.Millisecond
	opsPerChange   = 12 // of all callers together
	clinicianCount = 4
	longestCalm    = 300 * time.Millisecond // the weather changes even when nothing gets through
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
	host := strings.TrimPrefix(box.URL, "http://")
	gateway, err := newGateway(s.seed, host) //nolint:contextcheck // late commits outlive their requests
	if err != nil {
		return nil, err
	}
	network, err := newNetwork(s.seed, map[string]string{host: gateway.address}, box.URL, box.StorageURL)
	if err != nil {
		gateway.close()
		return nil, err
	}
	defer network.close()

	calm := &http.Transport{}
	defer calm.CloseIdleConnections()
	quiet := box.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: calm}))
	resolver, ward := newResolver(ctx, quiet), newWard(box, quiet)
	var attempts atomic.Int64
	all, release, err := s.callersOf(box, network, ward, &attempts)
	if err == nil {
		for _, c := range all {
			c.onLost = resolver.offer
		}
		err = s.blow(ctx, network, ward, all)
		release()
	}
	blown := time.Since(began)
	network.close() // what it still holds back arrives now or never

	report := newStormReport(s, all, network, attempts.Load())
	resolver.finish(report.records)
	gateway.close()
	if err != nil {
		return nil, err
	}
	report.add(verify(report.records, box.Notes(), did, ward))
	verifyEdits(&report.findings, ward.words, editsOf(all), did)
	for _, failure := range ward.failures {
		report.untrue("a clinician, on a network that works: %s", failure)
	}
	report.late, report.edited, report.removed = gateway.delayed, len(ward.words), len(ward.deleted)
	report.blown, report.took = blown, time.Since(began)
	return report, nil
}

// callersOf makes the callers. Most share a client; some bring a transport that retries by itself, some call all their notes
// alike.
func (s storm) callersOf(box *clinicaldoctest.Server, n *network, w *ward, attempts *atomic.Int64) (all []*caller, release func(), err error) {
	transport := &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: s.callers, ExpectContinueTimeout: time.Second}
	client := func(transport http.RoundTripper) (*clinicaldoc.Client, error) {
		return clinicaldoc.NewClient(box.URL, box.Token,
			clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
			clinicaldoc.WithStallTimeout(stallTimeout),
			clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: 5 * time.Millisecond, MaxWait: 50 * time.Millisecond}),
			clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: func(context.Context, clinicaldoc.Attempt) { attempts.Add(1) }}),
		)
	}
	plain, err := client(stamping{transport})
	if err != nil {
		return nil, nil, err
	}
	unruly, err := client(replaying{stamping{transport}})
	if err != nil {
		return nil, nil, err
	}
	for i := range s.callers {
		c := newCaller(plain, box.AddPatient(clinicaldoctest.Patient{}).ID, s.seed, s.dir)
		c.mayHurry, c.ward = true, w
		switch i % 4 {
		case 1:
			c.client, c.unruly = unruly, true
		case 2:
			c.sameName, c.sized = true, true // or another process could not tell them apart
		}
		all = append(all, c)
	}
	return all, transport.CloseIdleConnections, nil
}

func editsOf(all []*caller) map[string]*call {
	edits := map[string]*call{}
	for _, c := range all {
		maps.Copy(edits, c.edits)
	}
	return edits
}

// blow runs the callers while the weather changes with every few operations.
func (s storm) blow(ctx context.Context, network *network, ward *ward, all []*caller) error {
	calmed, stop := context.WithCancel(ctx)
	var clinicians sync.WaitGroup
	for i := range clinicianCount {
		clinicians.Go(func() { ward.work(calmed, rand.New(rand.NewPCG(s.seed, uint64(1_000+i))), i) })
	}
	defer clinicians.Wait()
	defer stop()
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
