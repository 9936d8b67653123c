package recipes

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

type (
	object = map[string]any
	list   = []any
)

// userKey is the key of a context's value that says for whom a call is made.
type userKey struct{}

// auditEvents returns an audit function that stores each access as a FHIR R4 AuditEvent. The user
// is a reference such as "Practitioner/5", which the calls' contexts hold under userKey.
func auditEvents(
	service string, store func(ctx context.Context, event []byte) error,
) func(context.Context, clinicaldoc.Access) error {
	return func(ctx context.Context, access clinicaldoc.Access) error {
		user, _ := ctx.Value(userKey{}).(string)
		event, err := json.Marshal(auditEvent(access, user, service, time.Now()))
		if err != nil {
			return err
		}
		return store(ctx, event)
	}
}

// auditEvent describes an access. Notes and patients are named by their numbers at the service.
func auditEvent(a clinicaldoc.Access, user, service string, at time.Time) object {
	agent := object{"requestor": true, "name": "not known"}
	if user != "" {
		agent = object{"requestor": true, "who": object{"reference": user}}
	}
	interaction, action := interactionOf(a)
	event := object{
		"resourceType": "AuditEvent",
		"type":         coding("http://terminology.hl7.org/CodeSystem/audit-event-type", "rest"),
		"subtype":      list{coding("http://hl7.org/fhir/restful-interaction", interaction)},
		"action":       action,
		"recorded":     at.UTC().Format(time.RFC3339Nano),
		"outcome":      "0",
		"agent":        list{agent},
		"source":       object{"observer": object{"display": service}},
	}
	if a.OutcomeUnknown {
		event["outcome"] = "4"
		event["outcomeDesc"] = "It is not known whether the change was carried out."
	}
	var entities list
	if a.NoteID != 0 {
		kind := "note"
		if a.Recording {
			kind = "recording"
		}
		note := entity(service+"/notes", a.NoteID, "3")
		note["description"] = kind + " " + a.Outcome + " by " + a.Operation
		entities = append(entities, note)
	}
	if a.PatientID != 0 {
		entities = append(entities, entity(service+"/patients", a.PatientID, "1"))
	}
	if entities != nil {
		event["entity"] = entities
	}
	return event
}

// interactionOf returns the RESTful interaction and the action.
func interactionOf(a clinicaldoc.Access) (interaction, action string) {
	switch {
	case !a.Changed && (a.Operation == "Notes.List" || a.Operation == "Notes.All"):
		return "search-type", "E"
	case !a.Changed:
		return "read", "R"
	case a.Operation == "Notes.Create" || a.Operation == "Notes.CreateOnce":
		return "create", "C"
	case a.Operation == "Notes.Delete":
		return "delete", "D"
	}
	return "update", "U"
}

func coding(system, code string) object { return object{"system": system, "code": code} }

// entity is a note with the role of a report (3), or a patient (1).
func entity(system string, id int64, role string) object {
	value := strconv.FormatInt(id, 10)
	return object{
		"what": object{"identifier": object{"system": system, "value": value}},
		"role": coding("http://terminology.hl7.org/CodeSystem/object-role", role),
	}
}
