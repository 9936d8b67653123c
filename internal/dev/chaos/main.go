package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

var (
	seed     = flag.Uint64("seed", 1, "decides the faults and the operations; 0: taken from the clock")
	ops      = flag.Int("ops", 2400, "operations of the storm")
	duration = flag.Duration("duration", 0, "how long the storm may last; 0: until its operations are done")
	callers  = flag.Int("callers", 32, "goroutines of the storm")
	load     = flag.Bool("load", false, "run the load instead of the storm")
	calls    = flag.Int("calls", 0, "calls of the load; 0: a few thousand")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system's temporary directory
	if *load {
		report, err := runLoad(ctx, loadFromFlags(dir))
		if err != nil {
			return err
		}
		fmt.Print(report)
		return report.failure()
	}
	report, err := runStorm(ctx, stormFromFlags(dir))
	if err != nil {
		return err
	}
	fmt.Print(report)
	return report.failure()
}

// chosenSeed is the flag's, or one of the clock's.
func chosenSeed() uint64 {
	if *seed == 0 {
		return uint64(time.Now().UnixNano())
	}
	return *seed
}
