package main

// Delete this file when you copy the program: it is for trying it without a service.

import (
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxflag"
)

func init() {
	const usage = "run on the service in a box, which has note 1 of patient 7 and lives as long as this program"
	boxflag.Add(usage, func() *clinicaldoctest.Server {
		srv := clinicaldoctest.NewServer(boxflag.InMemory())
		srv.AddNote(clinicaldoctest.Note{
			PatientID: 7, Stage: clinicaldoctest.StageSigned, Name: "Synthetic visit", Analysis: "A synthetic analysis.",
		})
		return srv
	})
}
