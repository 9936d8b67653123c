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
	flag.BoolFunc("box", "run on the service in a box, which has note 1 of patient 7 and lives as long as this program", func(on string) error {
		if on != "true" {
			return nil
		}
		if os.Getenv(clinicaldoc.EnvBaseURL)+os.Getenv(clinicaldoc.EnvToken) != "" {
			return errors.New("a service is configured: unset " + clinicaldoc.EnvBaseURL + " and " + clinicaldoc.EnvToken + ", or leave -box out")
		}
		srv := clinicaldoctest.NewServer()
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageSigned, Name: "Synthetic visit", Analysis: "A synthetic analysis."})
		fmt.Fprintln(os.Stderr, "using the service in a box at", srv.URL)
		return errors.Join(os.Setenv(clinicaldoc.EnvBaseURL, srv.URL), os.Setenv(clinicaldoc.EnvToken, srv.Token))
	})
}
