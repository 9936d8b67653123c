package contract_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// departures says which variants of the box depart from the document on purpose, and in what. A variant that is not
// here keeps the contract in full.
var departures = map[string][]departure{
	"framework":          {wrappedObjects, nullsForNothing, undescribedMembers, emptyConfirmations},
	"simple":             {nullsForNothing, listsForNothing, timesWithOffset},
	"cursor":             {patientBeside, timesWithoutZone, numbersAsText},
	"drifting":           {timesWithoutZone},
	"cursor-in-links":    {wrappedObjects, nullsForNothing},
	"flat":               {undescribedMembers, flatPages, barePages},
	"bare":               {barePages},
	"everything-at-once": {nullsForNothing, listsForNothing},
}

// departure is one way in which answers differ from the document. Undoing it must leave an answer that keeps the
// contract, so that a departure excuses nothing else.
type departure struct {
	what string
	undo func(operation string, status int, body any) (int, any)
}

type object = map[string]any

var wrappedObjects = departure{"single objects are inside data", func(operation string, status int, body any) (int, any) {
	outer, _ := body.(object)
	inner, isObject := outer["data"].(object)
	if operation != "listNotes" && isObject && len(outer) == 1 {
		return status, inner
	}
	return status, body
}}

var emptyConfirmations = departure{"deletions are confirmed by 204 without a body", func(operation string, status int, body any) (int, any) {
	if status == http.StatusNoContent && body == nil && (operation == "deleteNote" || operation == "revokeToken") {
		return http.StatusOK, object{"message": ""}
	}
	return status, body
}}

var nullsForNothing = inMembers("what has no value is null", func(in object, name string, value any) {
	if value == nil && name != "error_state" {
		delete(in, name)
	}
})

var listsForNothing = inMembers("objects without members are empty lists", func(in object, name string, value any) {
	list, isList := value.([]any)
	isObject := slices.Contains([]string{"audio", "errors", "has", "links", "meta", "patient", "template", "user"}, name)
	if isList && len(list) == 0 && isObject {
		in[name] = object{}
	}
})

var undescribedMembers = inMembers("there are undescribed members", func(in object, name string, _ any) {
	if strings.HasPrefix(name, "undescribed_") {
		delete(in, name)
	}
})

var patientBeside = inMembers("notes name the patient by patient_id", func(in object, name string, value any) {
	if _, isNumber := value.(float64); name == "patient_id" && isNumber {
		delete(in, name)
	}
})

var flatPages = departure{"pages tell of themselves beside data", func(operation string, status int, body any) (int, any) {
	page, _ := body.(object)
	if operation == "listNotes" {
		for _, name := range []string{
			"current_page", "first_page_url", "from", "last_page", "last_page_url", "next_page_url",
			"path", "per_page", "prev_page_url", "to", "total",
		} {
			delete(page, name)
		}
	}
	return status, body
}}

var barePages = departure{"pages have neither links nor meta", func(operation string, status int, body any) (int, any) {
	if page, _ := body.(object); operation == "listNotes" && status < 300 && page["links"] == nil && page["meta"] == nil {
		page["links"], page["meta"] = object{}, object{}
	}
	return status, body
}}

var numbersAsText = inMembers("numbers of the audio are text", func(in object, name string, value any) {
	text, _ := value.(string)
	number, err := strconv.ParseFloat(text, 64)
	if err == nil && slices.Contains([]string{"bitrate", "duration", "size"}, name) {
		in[name] = number
	}
})

var timesWithoutZone = inMembers("times have no zone", func(in object, name string, value any) {
	text, _ := value.(string)
	at, err := time.Parse(time.DateTime, text)
	if err == nil && strings.HasSuffix(name, "_at") {
		in[name] = at.Format(microseconds)
	}
})

var timesWithOffset = inMembers("times have an offset", func(in object, name string, value any) {
	text, _ := value.(string)
	at, err := time.Parse(time.RFC3339, text)
	if err == nil && strings.HasSuffix(name, "_at") && regexp.MustCompile(`\.\d{6}\+02:00$`).MatchString(text) {
		in[name] = at.UTC().Format(microseconds)
	}
})

const microseconds = "2006-01-02T15:04:05.000000Z07:00"

// inMembers makes a departure that is undone member by member, at any depth.
func inMembers(what string, undo func(in object, name string, value any)) departure {
	var visit func(value any)
	visit = func(value any) {
		switch value := value.(type) {
		case object:
			for name, member := range value {
				visit(member)
				undo(value, name, member)
			}
		case []any:
			for _, element := range value {
				visit(element)
			}
		}
	}
	return departure{what, func(_ string, status int, body any) (int, any) {
		visit(body)
		return status, body
	}}
}
