// Command report measures the SDK beside its peers, prints the result with a verdict for each bar, and writes it as
// Markdown and as a chart. It takes some minutes and runs on Linux.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

func main() {
	service.RunIfChild()
	runUploadIfChild()
	markdown := flag.String("o", "RESULTS.md", "file for the results, as Markdown")
	chart := flag.String("chart", "", "file for the chart, as SVG; none when empty")
	strict := flag.Bool("strict", false, "exit with status 1 when a bar is missed")
	flag.Parse()
	missed, err := run(context.Background(), *markdown, *chart)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	if *strict && missed > 0 {
		os.Exit(1)
	}
}

// report is everything that was measured.
type report struct {
	server  *service.Server
	when    time.Time
	taken   time.Duration
	rows    []row
	secure  secureUploads
	listing listing
	dense   memory
	sparse  memory
	many    many
	waiting waiting
	ingest  ingestion
	decoded []decoded
}

func run(ctx context.Context, markdown, chart string) (missed int, err error) {
	server, err := service.Start()
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	r := report{server: server, when: time.Now().UTC()}
	steps := []struct {
		name string
		do   func(context.Context, string) error
	}{
		{"ingest", r.measureIngest}, // in a process that has done nothing else, as programs that ingest have
		{"requests", r.measureRequests},
		{"uploads", r.measureUploads},
		{"uploads over TLS", r.measureSecureUploads},
		{"listing", r.measureListing},
		{"memory", r.measureMemory},
		{"many goroutines", r.measureMany},
		{"waiting", r.measureWaiting},
		{"decoders", r.measureDecoders},
	}
	for _, step := range steps {
		fmt.Fprintf(os.Stderr, "%s ...\n", step.name)
		if err := step.do(ctx, server.URL); err != nil {
			return 0, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.taken = time.Since(r.when)
	text := r.markdown()
	fmt.Print(text)
	if err := os.WriteFile(markdown, []byte(text), 0o600); err != nil {
		return 0, err
	}
	if chart != "" {
		err = os.WriteFile(chart, []byte(r.chart()), 0o600)
	}
	for _, b := range r.bars() {
		if !b.held() {
			missed++
		}
	}
	return missed, err
}

func (r *report) conditions() string {
	return fmt.Sprintf("%s, %s %s/%s, %d cores", r.when.Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}
