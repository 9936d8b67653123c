// Fhirexport prints a signed note as a FHIR R4 transaction, for a system that accepts documents in that form. It only
// reads from the service.
//
// The transaction has two resources. The DocumentReference is the note. It is labelled as written by software: the device
// is its author, and the person who signed is its authenticator. The Provenance states both roles again.
//
// It is a mapping to adapt, not a promise: the receiving system decides on profiles, codes and identifiers. The service
// does not know FHIR, nor does it report who signed, so the caller names the Patient, the Device and the signer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {
	var w wanted
	flag.Int64Var(&w.note, "note", 0, "ID of the note")
	flag.Int64Var(&w.patient, "patient", 0, "ID of the patient at the service; a note of another patient is rejected")
	flag.StringVar(&w.subject, "subject", "", "the same patient as a FHIR reference, such as Patient/123")
	flag.StringVar(&w.device, "device", "", "the software that wrote the note, such as Device/9")
	flag.StringVar(&w.signer, "signer", "", "the person who signed the note, such as Practitioner/5")
	flag.Parse()
	log.SetFlags(0)
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program immediately
	if err := run(ctx, client, w, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// wanted is the note to export, and who took part in it.
type wanted struct {
	note, patient int64
	people
}

// people are references to resources of the receiving system.
type people struct {
	subject string // the patient
	device  string // the software that wrote the note
	signer  string // the person who reviewed and signed it
}

func run(ctx context.Context, client *clinicaldoc.Client, w wanted, out io.Writer) error {
	note, err := client.Notes.Get(ctx, w.note)
	if err != nil {
		return err
	}
	patient, known := note.PatientID()
	if !known || patient != w.patient {
		return errors.New("nothing was exported: the note does not belong to the patient of -patient, or names no patient")
	}
	exported, err := newBundle(client.BaseURL(), note, w.people, time.Now())
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	lines.SetIndent("", "  ")
	return lines.Encode(exported)
}
