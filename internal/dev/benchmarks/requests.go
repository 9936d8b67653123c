package main

import (
	"context"
	"fmt"
)

// cost of one operation: allocations are absolute, time is the ratio to the floor.
type cost struct {
	allocs

	time spread
}

const (
	pageSize    = 100
	timedBlocks = 100 // pairs of them
)

// operations are the requests that are measured, with their bars on Go 1.26 and on the next release.
var operations = []struct {
	name                string
	runs                int
	do                  func(context.Context, client) (any, error)
	allocs, bytes, time [2]float64
}{
	{"GET one note", 200, func(ctx context.Context, c client) (any, error) { return c.get(ctx, 42) },
		[2]float64{0.98, 1.10}, [2]float64{0.84, 0.84}, [2]float64{0.78, 0.95}},
	{"page of 100", 20, func(ctx context.Context, c client) (any, error) { return c.page(ctx, 3, pageSize) },
		[2]float64{0.22, 0.27}, [2]float64{0.58, 0.58}, [2]float64{0.30, 0.48}},
	{"PUT an update", 200, func(ctx context.Context, c client) (any, error) { return c.update(ctx, 7, edit) },
		[2]float64{1.03, 1.14}, [2]float64{0.90, 0.90}, [2]float64{0.82, 0.98}},
	{"Sign", 200, func(ctx context.Context, c client) (any, error) { return c.sign(ctx, 7) },
		[2]float64{1.00, 1.10}, [2]float64{0.85, 0.90}, [2]float64{0.80, 0.95}},
	{"Delete", 200, func(ctx context.Context, c client) (any, error) { return c.remove(ctx, 7) },
		[2]float64{1.17, 1.17}, [2]float64{1.16, 1.16}, [2]float64{1.16, 1.16}},
}

// requests holds what each operation costs.
type requests []struct{ sdk, floor cost }

func (r *report) measureRequests(ctx context.Context) error {
	floor, err := newFloor(r.url, token)
	if err != nil {
		return err
	}
	own, err := newSDK(r.url, token)
	if err != nil {
		return err
	}
	r.requests = make(requests, len(operations))
	for i, op := range operations {
		reference := func() error { _, err := op.do(ctx, floor); return err }
		measured := func() error { _, err := op.do(ctx, own); return err }
		got := &r.requests[i]
		if got.floor.allocs, err = countAllocs(op.runs, reference); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		if got.sdk.allocs, err = countAllocs(op.runs, measured); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		if got.sdk.time, err = timeRatio(timedBlocks, reference, measured); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
	}
	return nil
}

func (r *report) requestBars() (bars []bar) {
	for i, op := range operations {
		got, at := r.requests[i], release()
		objects := got.sdk.objects / got.floor.objects
		bytes := got.sdk.bytes / got.floor.bytes
		bars = append(bars,
			bar{work: op.name, what: "allocations", value: objects, limit: op.allocs[at], unit: " x floor"},
			bar{work: op.name, what: "bytes", value: bytes, limit: op.bytes[at], unit: " x floor"},
			timed(op.name, "time", got.sdk.time, 1, op.time[at], " x floor"),
		)
	}
	return bars
}
