package main

// Delete this file when you copy the program: it is for trying it without a service.

import (
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxflag"
)

func init() {
	const usage = "run on the service in a box, which has 250 notes and lives as long as this program"
	boxflag.Add(usage, func() *clinicaldoctest.Server {
		srv := clinicaldoctest.NewServer(boxflag.InMemory())
		for day := range 250 {
			srv.AddNote(clinicaldoctest.Note{CreatedAt: srv.Now().AddDate(0, 0, -day), Analysis: "A synthetic analysis."})
		}
		return srv
	})
}
