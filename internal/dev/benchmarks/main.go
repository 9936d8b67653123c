// Command benchmarks measures the SDK beside a client written by hand, and writes a verdict for each bar as Markdown.
// It takes some minutes and runs on Linux.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	playRole()
	markdown := flag.String("o", "RESULTS.md", "file for the results, as Markdown")
	only := flag.String("only", "", "the part to measure (requests, uploads, listing), printed without bars")
	flag.Parse()
	if err := run(context.Background(), *markdown, *only); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// report is everything that was measured.
type report struct {
	url      string // of the server
	when     time.Time
	requests requests
	uploads  map[string]uploads
	faster   map[int]spread // than without Prefetch
}

func run(ctx context.Context, markdown, only string) error {
	r := &report{when: time.Now().UTC()}
	url, stop, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer stop()
	r.url = url
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"requests", r.measureRequests},
		{"uploads", r.measureUploads},
		{"listing", r.measureListing},
	} {
		if only != "" && only != part.name {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s ...\n", part.name)
		if err := part.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if only != "" {
		fmt.Printf("requests %+v\nuploads %+v\nPrefetch %v\n", r.requests, r.uploads, r.faster)
		return nil
	}
	text := r.markdown()
	fmt.Print(text)
	return os.WriteFile(markdown, []byte(text), 0o600)
}

// markdown renders everything that was measured.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\n%s, %s %s/%s, %d cores. Written by `go run .` in %s; see the README for what is measured and how.\n",
		r.when.Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Since(r.when).Round(time.Second))
	b.WriteString("\n## The bars\n\nThe spread is between what the middle half of the rounds lies. Allocations and bytes are exact.\n\n" +
		"| work | what | measured | spread | bar | |\n|---|---|---|---|---|---|\n")
	for _, bar := range r.bars() {
		b.WriteString(bar.String())
	}
	b.WriteString("\n## Requests\n\nThe floor's and the SDK's; time is a ratio to the floor.\n\n" +
		"| | allocations | bytes | time |\n|---|---|---|---|\n")
	for i, got := range r.requests {
		fmt.Fprintf(&b, "| %s | %.0f, floor %.0f | %.1f k, floor %.1f k | %s |\n", operations[i].name,
			got.sdk.objects, got.floor.objects, got.sdk.bytes/1000, got.floor.bytes/1000, got.sdk.time)
	}
	b.WriteString("\n## Uploads of 256 MiB\n\nEach in a process of its own. Time and CPU are ratios to a raw POST; memory is the " +
		"peak more than the idle process.\n\n| | memory | time | CPU |\n|---|---|---|---|\n")
	for _, name := range uploaders {
		got := r.uploads[name]
		fmt.Fprintf(&b, "| %s | %.1f MiB | %.2f | %.2f |\n",
			name, got.resident.value/mebibyte, got.time.value, got.cpu.value)
	}
	return b.String()
}
