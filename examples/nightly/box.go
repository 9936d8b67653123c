package main

// Delete this file when you copy the program: it is for trying it without a service.

import (
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxflag"
)

func init() {
	const usage = "rehearse on the service in a box, which lives as long as this program; with a journal of its own and " +
		"synthetic recordings"
	boxflag.Add(usage, func() *clinicaldoctest.Server { return clinicaldoctest.NewServer(boxflag.InMemory()) }, "yes")
}
