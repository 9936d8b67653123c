package main

// Delete this file when you copy the program: it is for trying it without a service.

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxflag"
)

func init() {
	flag.BoolFunc("box", "run on the service in a box, which lives as long as this program", func(on string) error {
		if on != "true" {
			return nil
		}
		if os.Getenv(clinicaldoc.EnvBaseURL)+os.Getenv(clinicaldoc.EnvToken) != "" {
			return errors.New("a service is configured: unset " + clinicaldoc.EnvBaseURL + " and " + clinicaldoc.EnvToken + ", or leave -box out")
		}
		slowly := clinicaldoctest.Delays{Transcribing: 20 * time.Second, Analysing: 20 * time.Second}
		srv := clinicaldoctest.NewServer(boxflag.InMemory(), clinicaldoctest.WithDelays(slowly))
		fmt.Println("using the service in a box at", srv.URL)
		srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: "Synthetic Patient Seven"})
		srv.AddPatient(clinicaldoctest.Patient{ID: 8, Name: "Synthetic Patient Eight"})
		for _, name := range []string{"Synthetic Clinician One", "Synthetic Clinician Two"} {
			fmt.Printf("the token of %s: %s\n", name, addClinician(srv, name))
		}
		return errors.Join(os.Setenv(clinicaldoc.EnvBaseURL, srv.URL), flag.Set("yes", "true"))
	})
}

// addClinician adds a user with notes in every stage, and returns the user's token.
func addClinician(srv *clinicaldoctest.Server, name string) string {
	user := srv.AddUser(clinicaldoctest.User{Name: name})
	for _, note := range []clinicaldoctest.Note{
		{PatientID: 7, Name: "Visit", Audio: tone(time.Minute), Transcription: "A synthetic transcription."},
		{PatientID: 7, Name: "Follow-up", Stage: clinicaldoctest.StageTranscribing},
		{PatientID: 8, Name: "Telephone call"},
		{PatientID: 8, Name: "Home visit", Stage: clinicaldoctest.StageFailed, ErrorState: "synthetic failure"},
	} {
		note.UserID = user.ID
		note.Analysis = "A synthetic analysis."
		srv.AddNote(note)
	}
	return user.Token
}

// tone is a WAV file: a synthetic tone that rises once a second, so that one hears where it is.
func tone(length time.Duration) []byte {
	const rate = 8000
	samples := uint32(length.Seconds() * rate)
	wav := append(make([]byte, 0, 44+samples), "RIFF"...)
	wav = binary.LittleEndian.AppendUint32(wav, 36+samples)
	wav = append(wav, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...) // PCM, one channel
	wav = binary.LittleEndian.AppendUint32(wav, rate)
	wav = binary.LittleEndian.AppendUint32(wav, rate)
	wav = append(wav, "\x01\x00\x08\x00data"...) // 8 bits
	wav = binary.LittleEndian.AppendUint32(wav, samples)
	for i := range samples {
		wav = append(wav, byte(128+60*math.Sin(2*math.Pi*float64(i)/rate*float64(300+i/rate%60*10))))
	}
	return wav
}
