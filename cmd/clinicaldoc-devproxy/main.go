// Command clinicaldoc-devproxy runs a local server with synthetic data. With -upstream it is a proxy to the real
// service, and reports where responses differ from the service's description.
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
