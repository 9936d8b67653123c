package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

// many is how 256 goroutines with one client read notes, over as many that share the floor's transport.
type many struct{ rate, p99 measure.Spread }

const (
	goroutines = 256
	manyRounds = 5
	manyTime   = 1500 * time.Millisecond // of a round
)

func (r *report) measureMany(ctx context.Context, baseURL string) error {
	transport := contender.NewTransport()
	sdk, err := contender.SDKOver(nil, baseURL, service.Token)
	if err != nil {
		return err
	}
	var rates, p99s []float64
	for range manyRounds {
		low, err := readByMany(ctx, func() contender.Client { return contender.FloorOver(transport, baseURL, service.Token) })
		if err != nil {
			return err
		}
		high, err := readByMany(ctx, func() contender.Client { return sdk })
		if err != nil {
			return err
		}
		rates, p99s = append(rates, high.rate/low.rate), append(p99s, high.p99/low.p99)
	}
	r.many = many{measure.SpreadOf(rates), measure.SpreadOf(p99s)}
	return nil
}

// reading is what many goroutines come to: reads a second, and the seconds within which 99 of 100 of them end.
type reading struct{ rate, p99 float64 }

func readByMany(ctx context.Context, newClient func() contender.Client) (reading, error) {
	var workers sync.WaitGroup
	times, failures := make([][]float64, goroutines), make([]error, goroutines)
	start := time.Now()
	for i := range goroutines {
		client := newClient()
		workers.Go(func() {
			for time.Since(start) < manyTime && failures[i] == nil {
				began := time.Now()
				_, failures[i] = client.Get(ctx, 42)
				times[i] = append(times[i], time.Since(began).Seconds())
			}
		})
	}
	workers.Wait()
	spent := time.Since(start).Seconds()
	all := slices.Concat(times...)
	slices.Sort(all)
	return reading{float64(len(all)) / spent, all[len(all)*99/100]}, errors.Join(failures...)
}

// waiting is what WaitAll takes for notes that are finished, of which the list's rows tell nothing.
type waiting struct {
	requests float64        // for a note
	time     measure.Spread // x reading them one after the other, as WaitAll does
}

const waitedNotes = 1000

// counting counts requests.
type counting struct {
	http.RoundTripper
	requests atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

func (r *report) measureWaiting(ctx context.Context, baseURL string) error {
	transport := &counting{RoundTripper: contender.NewTransport()}
	client, err := clinicaldoc.NewClient(baseURL+service.Bare, service.Token, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		return err
	}
	ids := make([]int64, waitedNotes)
	for i := range ids {
		ids[i] = int64(i + 1)
	}
	var ratios, requests []float64
	for range 5 {
		start := time.Now()
		for _, id := range ids {
			if _, err := client.Notes.Get(ctx, id); err != nil {
				return err
			}
		}
		naive, before := time.Since(start), transport.requests.Load()
		start = time.Now()
		for _, err := range client.Notes.WaitAll(ctx, ids, clinicaldoc.WaitParams{Interval: 300 * time.Millisecond}) {
			if err != nil {
				return err
			}
		}
		ratios = append(ratios, time.Since(start).Seconds()/naive.Seconds())
		requests = append(requests, float64(transport.requests.Load()-before)/waitedNotes)
	}
	r.waiting = waiting{measure.Median(requests), measure.SpreadOf(ratios)}
	return nil
}
