// Fhirexport prints a signed note as a FHIR R4 DocumentReference, for a system that takes such documents. It only reads.
//
// It is a mapping to adapt, not a promise: what a receiving system wants (profiles, codes, identifiers) is that system's to
// say. The service knows nothing of FHIR, so the caller says which Patient and which author the note belongs to.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {
	var w wanted
	flag.Int64Var(&w.note, "note", 0, "id of the note")
	flag.Int64Var(&w.patient, "patient", 0, "id of the patient at the service; another patient's note is refused")
	flag.StringVar(&w.subject, "subject", "", "the same patient as a FHIR reference, such as Patient/123")
	flag.StringVar(&w.author, "author", "", "who wrote the note, such as Practitioner/5")
	flag.Parse()
	log.SetFlags(0)
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, client, w, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// wanted is the note to export, and who its people are in the receiving system.
type wanted struct {
	note, patient   int64
	subject, author string
}

func run(ctx context.Context, client *clinicaldoc.Client, w wanted, out io.Writer) error {
	note, err := client.Notes.Get(ctx, w.note)
	if err != nil {
		return err
	}
	if patient, ok := note.PatientID(); !ok || patient != w.patient {
		return errors.New("the note is not, or cannot be shown to be, the patient's of -patient: nothing was exported")
	}
	document, err := newDocument(client.BaseURL(), note, w.subject, w.author, time.Now())
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	lines.SetIndent("", "  ")
	return lines.Encode(document)
}

// The parts of R4 that the mapping uses; see https://hl7.org/fhir/R4/documentreference.html.
type (
	documentReference struct {
		ResourceType string          `json:"resourceType"`
		Identifier   []identifier    `json:"identifier"`
		Status       string          `json:"status"`    // of the reference
		DocStatus    string          `json:"docStatus"` // of the document
		Type         codeableConcept `json:"type"`
		Subject      reference       `json:"subject"`
		Date         string          `json:"date"`
		Author       []reference     `json:"author"`
		Content      []content       `json:"content"`
	}
	identifier struct {
		System string `json:"system"`
		Value  string `json:"value"`
	}
	codeableConcept struct {
		Coding []coding `json:"coding"`
	}
	coding struct {
		System  string `json:"system"`
		Code    string `json:"code"`
		Display string `json:"display"`
	}
	reference struct {
		Reference string `json:"reference"`
	}
	content struct {
		Attachment attachment `json:"attachment"`
	}
	attachment struct {
		ContentType string `json:"contentType"`
		Data        []byte `json:"data"` // in JSON base64, as FHIR has it
		Size        int    `json:"size"`
		Title       string `json:"title,omitempty"`
		Creation    string `json:"creation,omitempty"`
	}
)

var (
	patientReference = regexp.MustCompile(`^Patient/[A-Za-z0-9.-]{1,64}$`)
	authorReference  = regexp.MustCompile(`^(Practitioner|PractitionerRole|Organization|Device)/[A-Za-z0-9.-]{1,64}$`)
)

// newDocument maps a signed note. One that nobody has signed, or without a text, is no final document: it is refused.
func newDocument(service string, note *clinicaldoc.ProgressNote, subject, author string, now time.Time) (*documentReference, error) {
	switch {
	case note.Stage() != clinicaldoc.StageSigned:
		return nil, fmt.Errorf("note %d is not signed", note.ID)
	case note.Analysis == "":
		return nil, fmt.Errorf("note %d has no text", note.ID)
	case !patientReference.MatchString(subject):
		return nil, errors.New("want a subject such as Patient/123")
	case !authorReference.MatchString(author):
		return nil, errors.New("want an author such as Practitioner/5")
	}
	creation := ""
	if !note.UpdatedAt.IsZero() {
		creation = note.UpdatedAt.UTC().Format(time.RFC3339)
	}
	return &documentReference{
		ResourceType: "DocumentReference",
		// By it the receiving system knows a note that it was given before.
		Identifier: []identifier{{service + "/v1/progress-notes", strconv.FormatInt(note.ID, 10)}},
		Status:     "current",
		DocStatus:  "final",
		Type:       codeableConcept{[]coding{{"http://loinc.org", "11506-3", "Progress note"}}},
		Subject:    reference{subject},
		Date:       now.UTC().Format(time.RFC3339),
		Author:     []reference{{author}},
		Content: []content{{attachment{
			ContentType: "text/plain; charset=utf-8",
			Data:        []byte(note.Analysis),
			Size:        len(note.Analysis),
			Title:       note.Name,
			Creation:    creation,
		}}},
	}, nil
}
