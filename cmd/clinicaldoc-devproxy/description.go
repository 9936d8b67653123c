package main

import (
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// shape is what the service's description says of a JSON value.
type shape struct {
	kind     kind
	nullable bool
	fields   map[string]shape // of an object; nil: the description does not show them
	required []string
	elements *shape // of an array, or of a map from any name
}

type kind string

const (
	kindInteger  kind = "integer"
	kindNumber   kind = "number"
	kindString   kind = "string"
	kindDateTime kind = "date-time"
	kindBoolean  kind = "boolean"
	kindObject   kind = "object"
	kindMap      kind = "map"
	kindArray    kind = "array"
	kindNull     kind = "null"
)

var (
	integer  = shape{kind: kindInteger}
	text     = shape{kind: kindString}
	dateTime = shape{kind: kindDateTime}
	boolean  = shape{kind: kindBoolean}
	unshown  = shape{kind: kindObject}

	noteShape = shape{
		kind:     kindObject,
		required: []string{"id", "name", "team_id", "user_id", "created_at", "updated_at"},
		fields: map[string]shape{
			"id": integer, "name": text, "transcription": text, "analysis": text,
			"template": {kind: kindObject, fields: map[string]shape{"id": integer, "name": text, "description": text}},
			"patient":  unshown,
			"audio": {kind: kindObject, fields: map[string]shape{
				"duration": {kind: kindNumber}, "bitrate": integer, "size": integer,
				"uploaded_at": dateTime, "expires_at": dateTime, "file_url": text,
			}},
			"has":     {kind: kindObject, fields: map[string]shape{"content": boolean, "transcription": boolean, "signed": boolean}},
			"team_id": integer, "user_id": integer, "user": unshown,
			"transcription_started_at": dateTime, "transcription_completed_at": dateTime,
			"analysis_started_at": dateTime, "analysis_completed_at": dateTime,
			"error_state": {kind: kindString, nullable: true},
			"created_at":  dateTime, "updated_at": dateTime,
		},
	}
	listShape = shape{
		kind: kindObject, required: []string{"data", "links", "meta"},
		fields: map[string]shape{"data": {kind: kindArray, elements: &noteShape}, "links": unshown, "meta": unshown},
	}
	tokensShape = shape{
		kind: kindObject, required: []string{"tokens"},
		fields: map[string]shape{"tokens": {kind: kindArray, elements: &shape{
			kind:   kindObject,
			fields: map[string]shape{"id": integer, "name": text, "created_at": dateTime, "last_used_at": dateTime},
		}}},
	}
	userShape = shape{
		kind:   kindObject,
		fields: map[string]shape{"id": integer, "name": text, "email": text, "created_at": dateTime, "updated_at": dateTime},
	}
	confirmationShape = shape{kind: kindObject, required: []string{"message"}, fields: map[string]shape{"message": text}}
	audioURLShape     = shape{kind: kindObject, required: []string{"url"}, fields: map[string]shape{"url": text}}

	errorShape = shape{
		kind: kindObject, required: []string{"message"},
		fields: map[string]shape{
			"message": text,
			"errors":  {kind: kindMap, elements: &shape{kind: kindArray, elements: &text}},
		},
	}
)

// endpoint is what the description says of an endpoint's answers.
type endpoint struct {
	success shape
	status  int   // of success; 0: not shown, any 2xx
	errors  []int // besides 401, which every endpoint can answer
	// anyRefusal is set where the status of a refusal is not shown.
	anyRefusal bool
}

var endpoints = map[string]endpoint{
	clinicaldoctest.RouteListTokens:  {success: tokensShape, status: http.StatusOK},
	clinicaldoctest.RouteRevokeToken: {success: confirmationShape, status: http.StatusOK, errors: []int{404}},
	clinicaldoctest.RouteCreateNote:  {success: noteShape, errors: []int{422}},
	clinicaldoctest.RouteListNotes:   {success: listShape},
	clinicaldoctest.RouteGetNote:     {success: noteShape, errors: []int{404}},
	clinicaldoctest.RouteUpdateNote:  {success: noteShape, status: http.StatusOK, errors: []int{403, 404, 422}},
	clinicaldoctest.RouteDeleteNote:  {success: confirmationShape, errors: []int{404}},
	clinicaldoctest.RouteSignNote:    {success: noteShape, errors: []int{404}, anyRefusal: true},
	clinicaldoctest.RouteAudioURL:    {success: audioURLShape},
	clinicaldoctest.RouteMe:          {success: userShape},
}

// describedMessages are the texts the description gives word for word.
var describedMessages = map[int]string{
	http.StatusUnauthorized:        "Unauthorized",
	http.StatusNotFound:            "Resource not found",
	http.StatusUnprocessableEntity: "The given data was invalid",
}
