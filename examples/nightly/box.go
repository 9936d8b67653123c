package main

// Delete this file when you copy the program: it is for trying it without a service.

import (
	"errors"
	"flag"
	"fmt"
	"os"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func init() {
	flag.BoolFunc("box", "rehearse on the service in a box, which lives as long as this program; with a journal of its own and synthetic recordings: copies stay in the temporary folder", func(on string) error {
		if on != "true" {
			return nil
		}
		if os.Getenv(clinicaldoc.EnvBaseURL)+os.Getenv(clinicaldoc.EnvToken) != "" {
			return errors.New("a service is configured: unset " + clinicaldoc.EnvBaseURL + " and " + clinicaldoc.EnvToken + ", or leave -box out")
		}
		srv := clinicaldoctest.NewServer()
		fmt.Println("using the service in a box at", srv.URL)
		return errors.Join(os.Setenv(clinicaldoc.EnvBaseURL, srv.URL), os.Setenv(clinicaldoc.EnvToken, srv.Token), flag.Set("yes", "true"))
	})
}
