// Command clinicaldoc-devproxy serves the clinical documentation service on
// this machine: a stand-in with synthetic data, or, with -upstream, a proxy to
// the real service that reports where its responses depart from its description.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/internal/devproxy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := devproxy.Run(ctx, "clinicaldoc-devproxy", os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clinicaldoc-devproxy:", err)
		os.Exit(1)
	}
}
