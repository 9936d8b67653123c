package main

import (
	"context"
	"fmt"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// row is what one contender costs.
type row struct {
	contender      string
	version        string
	get, page, put cost
	sign, deletion cost     // zero where the contender does not
	upload         *uploads // nil where the library has none
}

// cost of one operation: allocations are absolute, time is the ratio to the floor.
type cost struct {
	measure.Allocs
	time measure.Spread
}

// over holds a cost against the floor's.
func (c cost) over(floor cost) cost {
	return cost{measure.Allocs{Objects: c.Objects / floor.Objects, Bytes: c.Bytes / floor.Bytes}, c.time}
}

const (
	pageSize    = 100
	timedBlocks = 100 // pairs of them
)

// operation is work that is measured.
type operation struct {
	do    measure.Work
	runs  int
	costs *cost // where its cost belongs
}

// work lists the operations of a contender.
func work(ctx context.Context, c contender.Client, into *row) []operation {
	edit := synthetic.Edit()
	all := []operation{
		{func() error { _, err := c.Get(ctx, 42); return err }, 200, &into.get},
		{func() error { _, err := c.Page(ctx, 3, pageSize); return err }, 20, &into.page},
		{func() error { _, err := c.Update(ctx, 7, edit); return err }, 200, &into.put},
	}
	if editor, ok := c.(contender.Editor); ok {
		all = append(all,
			operation{func() error { _, err := editor.Sign(ctx, 7); return err }, 200, &into.sign},
			operation{func() error { _, err := editor.Delete(ctx, 7); return err }, 200, &into.deletion},
		)
	}
	return all
}

func (r *report) measureRequests(ctx context.Context, baseURL string) error {
	all := contender.All()
	floor, err := all[0].New(baseURL, service.Token)
	if err != nil {
		return err
	}
	reference := work(ctx, floor, new(row))
	for _, c := range all {
		client, err := c.New(baseURL, service.Token)
		if err != nil {
			return err
		}
		got := row{contender: c.Name, version: benchmarks.Version(c.Module)}
		for i, op := range work(ctx, client, &got) {
			if op.costs.Allocs, err = measure.Allocations(op.runs, op.do); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			op.costs.time = measure.Spread{Median: 1, Low: 1, High: 1}
			if c.Name == contender.Floor {
				continue
			}
			if op.costs.time, err = measure.Ratio(timedBlocks, reference[i].do, op.do); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		r.rows = append(r.rows, got)
	}
	return nil
}

// row returns what was measured of a contender.
func (r *report) row(name string) row {
	for _, got := range r.rows {
		if got.contender == name {
			return got
		}
	}
	return row{}
}
