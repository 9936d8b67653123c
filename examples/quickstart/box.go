package main

// Delete this file when you copy the program: it is for trying it without a service.

import (
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxflag"
)

func init() {
	boxflag.Add("run on the service in a box, which lives as long as this program", func() *clinicaldoctest.Server {
		return clinicaldoctest.NewServer(boxflag.InMemory(), clinicaldoctest.WithDelays(clinicaldoctest.Delays{ // two seconds
			Uploaded: 200 * time.Millisecond, Transcribing: time.Second, Transcribed: 200 * time.Millisecond, Analysing: 600 * time.Millisecond,
		}))
	}, "yes")
}
