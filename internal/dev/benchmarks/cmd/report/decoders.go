package main

import (
	"context"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/decoder"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
)

// decoded is what one decoder costs on a page of notes, without any network.
type decoded struct {
	name string
	cost
}

func (r *report) measureDecoders(context.Context, string) error {
	document := decoder.Document(pageSize)
	all := decoder.All()
	work := func(d decoder.Decoder) measure.Work {
		return func() error { _, err := d.Decode(document); return err }
	}
	for _, d := range all {
		allocs, err := measure.Allocations(20, work(d))
		if err != nil {
			return err
		}
		ratio, err := measure.Ratio(timedBlocks/2, work(all[0]), work(d))
		if err != nil {
			return err
		}
		r.decoded = append(r.decoded, decoded{d.Name, cost{allocs, ratio}})
	}
	return nil
}
