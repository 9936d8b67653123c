package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// The parts of R4 that the mapping uses; see https://hl7.org/fhir/R4/documentreference.html and provenance.html.
type (
	bundle struct {
		ResourceType string  `json:"resourceType"`
		Type         string  `json:"type"`
		Entry        []entry `json:"entry"`
	}
	entry struct {
		FullURL  string  `json:"fullUrl"`
		Resource any     `json:"resource"`
		Request  request `json:"request"`
	}
	request struct {
		Method string `json:"method"`
		URL    string `json:"url"`
	}
	documentReference struct {
		ResourceType  string          `json:"resourceType"`
		Meta          meta            `json:"meta"`
		Identifier    []identifier    `json:"identifier"`
		Status        string          `json:"status"`    // of the reference
		DocStatus     string          `json:"docStatus"` // of the document
		Type          codeableConcept `json:"type"`
		Subject       reference       `json:"subject"`
		Date          string          `json:"date"`
		Author        []reference     `json:"author"`
		Authenticator reference       `json:"authenticator"`
		Content       []content       `json:"content"`
	}
	provenance struct {
		ResourceType string      `json:"resourceType"`
		Target       []reference `json:"target"`
		Recorded     string      `json:"recorded"`
		Agent        []agent     `json:"agent"`
	}
	agent struct {
		Type codeableConcept `json:"type"`
		Who  reference       `json:"who"`
	}
	meta struct {
		Security []coding `json:"security"`
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

// writtenBySoftware labels text that software wrote. The service does not report whether a person edited a text before
// signing it, so every document has the label.
var writtenBySoftware = coding{
	System:  "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
	Code:    "AIAST",
	Display: "Artificial Intelligence asserted",
}

var (
	progressNote = coding{System: "http://loinc.org", Code: "11506-3", Display: "Progress note"}

	author   = coding{System: participantTypes, Code: "author", Display: "Author"}
	verifier = coding{System: participantTypes, Code: "verifier", Display: "Verifier"}
)

const participantTypes = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"

var (
	patientReference = regexp.MustCompile(`^Patient/[A-Za-z0-9.-]{1,64}$`)
	deviceReference  = regexp.MustCompile(`^Device/[A-Za-z0-9.-]{1,64}$`)
	signerReference  = regexp.MustCompile(`^(Practitioner|PractitionerRole)/[A-Za-z0-9.-]{1,64}$`)
)

// check rejects a note that is not a final document, and people whose references have another form or type.
func check(note *clinicaldoc.ProgressNote, who people) error {
	switch {
	case note.Stage() != clinicaldoc.StageSigned:
		return fmt.Errorf("nothing was exported: note %d is not signed", note.ID)
	case note.Analysis == "":
		return fmt.Errorf("nothing was exported: note %d has no text", note.ID)
	case !patientReference.MatchString(who.subject):
		return errors.New("nothing was exported: -subject must be a reference such as Patient/123")
	case !deviceReference.MatchString(who.device):
		return errors.New("nothing was exported: -device must be a reference such as Device/9")
	case !signerReference.MatchString(who.signer):
		return errors.New("nothing was exported: -signer must be a reference such as Practitioner/5")
	}
	return nil
}

// newBundle maps a signed note to a transaction. A receiving system that gets a note again finds the document by its
// identifier, updates it, and adds a Provenance.
func newBundle(service string, note *clinicaldoc.ProgressNote, who people, now time.Time) (*bundle, error) {
	if err := check(note, who); err != nil {
		return nil, err
	}
	id := identifier{System: service + "/v1/progress-notes", Value: strconv.FormatInt(note.ID, 10)}
	search := url.Values{"identifier": {id.System + "|" + id.Value}}
	document := entry{
		FullURL:  newURN(),
		Resource: newDocument(id, note, who, now),
		Request:  request{Method: http.MethodPut, URL: "DocumentReference?" + search.Encode()},
	}
	origin := entry{
		FullURL:  newURN(),
		Resource: newProvenance(document.FullURL, who, now),
		Request:  request{Method: http.MethodPost, URL: "Provenance"},
	}
	return &bundle{ResourceType: "Bundle", Type: "transaction", Entry: []entry{document, origin}}, nil
}

func newDocument(id identifier, note *clinicaldoc.ProgressNote, who people, now time.Time) documentReference {
	creation := ""
	if !note.UpdatedAt.IsZero() {
		creation = instant(note.UpdatedAt)
	}
	return documentReference{
		ResourceType:  "DocumentReference",
		Meta:          meta{Security: []coding{writtenBySoftware}},
		Identifier:    []identifier{id},
		Status:        "current",
		DocStatus:     "final",
		Type:          codeableConcept{Coding: []coding{progressNote}},
		Subject:       reference{who.subject},
		Date:          instant(now),
		Author:        []reference{{who.device}},
		Authenticator: reference{who.signer},
		Content: []content{{attachment{
			ContentType: "text/plain; charset=utf-8",
			Data:        []byte(note.Analysis),
			Size:        len(note.Analysis),
			Title:       note.Name,
			Creation:    creation,
		}}},
	}
}

// newProvenance states who wrote and who verified the target. It has no time of signing, because the service does not
// report one.
func newProvenance(target string, who people, now time.Time) provenance {
	return provenance{
		ResourceType: "Provenance",
		Target:       []reference{{target}},
		Recorded:     instant(now),
		Agent: []agent{
			{Type: codeableConcept{Coding: []coding{author}}, Who: reference{who.device}},
			{Type: codeableConcept{Coding: []coding{verifier}}, Who: reference{who.signer}},
		},
	}
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// newURN names a resource within a transaction, before the receiving system gives it an ID.
func newURN() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
