package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

// markdown renders everything that was measured.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\n%s. Written by `go run ./cmd/report` in %s; see the README for what is measured and how.\n",
		r.conditions(), r.taken.Round(time.Second))
	r.writeBars(&b)
	r.writeMissed(&b)
	r.writeRequests(&b)
	r.writeUploads(&b)
	r.writeListing(&b)
	r.writeIngest(&b)
	r.writeDecoders(&b)
	return b.String()
}

func (r *report) writeBars(b *strings.Builder) {
	b.WriteString("\n## The bars\n\nThe spread is between what the middle half of the rounds lies. Allocations and bytes are exact.\n\n" +
		"| work | what | measured | spread | bar | |\n|---|---|---|---|---|---|\n")
	for _, bar := range r.bars() {
		fmt.Fprintf(b, "| %s | %s | %.2f%s | %s | %s | %s |\n", bar.work, bar.what, bar.value, bar.unit, bar.spread, bar.bound(), bar.verdict())
	}
}

func (r *report) writeRequests(b *strings.Builder) {
	floor := r.row(contender.Floor)
	b.WriteString("\n## Requests\n\nRatios to the floor with plain values, whose own line is absolute; the floor with pointers is beside it. Less is better.\n\n")
	b.WriteString("| | GET allocs | GET bytes | GET time | page allocs | page bytes | page time | PUT allocs | PUT bytes | PUT time |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.rows {
		if row.contender == rawPost {
			continue
		}
		fmt.Fprintf(b, "| %s |", row.title())
		for _, c := range []struct{ own, floor cost }{{row.get, floor.get}, {row.page, floor.page}, {row.put, floor.put}} {
			if row.contender == contender.Floor {
				fmt.Fprintf(b, " %.0f | %.1f k | 1 |", c.own.Objects, c.own.Bytes/1000)
				continue
			}
			ratio := c.own.over(c.floor)
			fmt.Fprintf(b, " %.2f | %.2f | %.2f |", ratio.Objects, ratio.Bytes, ratio.time.Median)
		}
		b.WriteString("\n")
	}
	sdk := r.row(contender.SDK)
	b.WriteString("\nSign and Delete, of the floor and the SDK alone:\n\n| | allocs | bytes | time |\n|---|---|---|---|\n")
	for _, of := range []struct {
		work       string
		own, floor cost
	}{{"Sign", sdk.sign, floor.sign}, {"Delete", sdk.deletion, floor.deletion}} {
		fmt.Fprintf(b, "| %s | %.0f, floor %.0f | %.1f k, floor %.1f k | %s |\n", of.work,
			of.own.Objects, of.floor.Objects, of.own.Bytes/1000, of.floor.Bytes/1000, of.own.time)
	}
}

func (r *report) writeIngest(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Throughput with a journal\n\n200 recordings of 16 KiB by 8 workers, over a bare loop that calls Create: %.2f with 20 ms latency, %.2f with the box on this machine, %.2f with a service that keeps nothing and responds at once, where CPU is all that counts.\n",
		r.ingest.latent, r.ingest.box, r.ingest.instant)
}

func (r row) title() string {
	switch r.contender {
	case contender.SDK:
		return "**" + r.contender + " " + r.version + "**"
	case contender.Floor, contender.Pointers, rawPost:
		return r.contender
	}
	return r.contender + " " + r.version
}

func (r *report) writeUploads(b *strings.Builder) {
	b.WriteString("\n## Uploads\n\nEach in a process of its own. Time and CPU are ratios to a raw POST; memory is the peak beyond the idle process.\n" +
		"Libraries that are not listed have no upload of forms.\n\n")
	b.WriteString("| | 8 MiB: allocated | 8 MiB: memory | 8 MiB: time | 8 MiB: CPU | 256 MiB: memory | 256 MiB: time | 256 MiB: CPU |\n|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.rows {
		if up := row.upload; up != nil {
			fmt.Fprintf(b, "| %s | %.2f MiB | %.1f MiB | %.2f | %.2f | %.1f MiB | %.2f | %.2f |\n", row.title(),
				up.smallBytes/mebibyte, up.smallRSS.Median/mebibyte, up.smallTime.Median, up.smallCPU.Median,
				up.largeRSS.Median/mebibyte, up.largeTime.Median, up.largeCPU.Median)
		}
	}
	fmt.Fprintf(b, "\nOver TLS and HTTP/2, ten of 8 MiB in a row: %.0f kB allocated for each (floor %.0f kB), time %s x floor, connections %.0f.\n",
		r.secure.bytes/1000, r.secure.floorBytes/1000, r.secure.time, r.secure.connections)
}

func (r *report) writeListing(b *strings.Builder) {
	b.WriteString("\n## All of 50 pages, 20 ms latency\n\n| | seconds | over Prefetch 0 |\n|---|---|---|\n")
	fmt.Fprintf(b, "| floor, plain loop | %s | |\n", r.listing.loop)
	for _, n := range prefetches {
		fmt.Fprintf(b, "| clinicaldoc, Prefetch %d | %s | %s x faster |\n", n, r.listing.prefetch[n], r.listing.faster[n])
	}
	b.WriteString("\n## Live heap while ranging over 10,000 pages\n\nAfter every 1,000 pages, in MiB.\n")
	for _, of := range []struct {
		ids string
		memory
	}{{"Ids dense", r.dense}, {fmt.Sprintf("%d apart", service.Distance), r.sparse}} {
		fmt.Fprintf(b, "\n- %s:", of.ids)
		for _, sample := range of.samples {
			fmt.Fprintf(b, " %.2f", sample/mebibyte)
		}
	}
	b.WriteString("\n\n## Many at once\n\n")
	fmt.Fprintf(b, "256 goroutines that read notes with one client, over the floor's transport: rate %s, p99 %s.\n\n", r.many.rate, r.many.p99)
	fmt.Fprintf(b, "WaitAll on 1,000 finished notes whose rows tell nothing: %.2f requests for a note, %s times as long as reading them one by one.\n",
		r.waiting.requests, r.waiting.time)
}

func (r *report) writeDecoders(b *strings.Builder) {
	b.WriteString("\n## Decoders alone\n\nA page of 100 notes in memory, read into the same types. Ratios to encoding/json, whose own line is absolute.\n\n")
	b.WriteString("| | allocs | bytes | time |\n|---|---|---|---|\n")
	for i, d := range r.decoded {
		if i == 0 {
			fmt.Fprintf(b, "| %s | %.0f | %.0f k | 1 |\n", d.name, d.Objects, d.Bytes/1000)
			continue
		}
		ratio := d.over(r.decoded[0].cost)
		fmt.Fprintf(b, "| %s | %.2f | %.2f | %.2f |\n", d.name, ratio.Objects, ratio.Bytes, ratio.time.Median)
	}
}
