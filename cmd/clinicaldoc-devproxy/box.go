package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// serveBox serves the stand-in until the context ends.
func serveBox(ctx context.Context, set settings, stdout, stderr io.Writer) error {
	opts := []clinicaldoctest.Option{
		clinicaldoctest.WithAddr(set.addr),
		clinicaldoctest.WithStorageAddr(cmp.Or(set.storageAddr, storageAddress(set.addr))),
		clinicaldoctest.WithHost(set.host),
		clinicaldoctest.WithToken(set.token),
		clinicaldoctest.WithVariant(set.variant),
		clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: set.transcription, Analysing: set.analysis}),
	}
	if !set.quiet {
		log := newRequestLog(stderr)
		opts = append(opts, clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) {
			log.write(entry{
				method: r.Method, route: r.Route, status: r.Status, duration: r.Duration,
				received: r.BytesReceived, sent: r.BytesSent, fault: r.Fault,
			})
		}))
	}
	srv, err := clinicaldoctest.Start(opts...)
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := set.seed.plant(srv); err != nil {
		return err
	}
	for _, f := range set.faults {
		srv.Inject(f.route, f.Fault)
	}

	name := set.variant.Name
	if name == "" {
		name = "default"
	}
	_, err = fmt.Fprintf(stdout, `The service in a box, variant %s, with synthetic data. Interrupt to end.

  base URL  %s
  token     %s

Try it:

  curl -H 'Accept: application/json' -H 'Authorization: Bearer %s' %s/user

For programs and the integration tests:

  export CLINICALDOC_BASE_URL='%s' CLINICALDOC_TOKEN='%s'

`, name, srv.URL, srv.Token, srv.Token, srv.URL, srv.URL, srv.Token)
	if err != nil {
		return err
	}
	<-ctx.Done()
	_, err = fmt.Fprintln(stdout, "Closing.")
	return err
}
