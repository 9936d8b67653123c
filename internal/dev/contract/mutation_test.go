package contract_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/contract"
)

// The checks below must be able to fail: each row is a message that keeps the contract, and what is done to it.

const goodNote = `{"id":1,"name":"Visit","team_id":1,"user_id":1,"error_state":null,"has":{"signed":false},` +
	`"audio":{"duration":1.5,"size":10,"uploaded_at":"2024-05-01T10:11:12Z"},"patient":{"id":7,"anything":[1]},` +
	`"created_at":"2024-05-01T10:11:12.000000Z","updated_at":"2024-05-01T10:11:12.000000Z"}`

func jsonAnswer(status int, body string) contract.Answer {
	return contract.Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
}

func TestBrokenAnswersAreFound(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	notes := []struct{ what, old, new, complaint string }{
		{"nothing", "", "", ""},
		{"an error state", `"error_state":null`, `"error_state":"failed"`, ""},
		{"a member less that is optional", `"has":{"signed":false},`, ``, ""},
		{"no id", `"id":1,"name"`, `"name"`, `"id" is missing`},
		{"no name", `"name":"Visit",`, ``, `"name" is missing`},
		{"no team", `"team_id":1,`, ``, `"team_id" is missing`},
		{"no user", `"user_id":1,`, ``, `"user_id" is missing`},
		{"no creation", `"created_at":"2024-05-01T10:11:12.000000Z",`, ``, `"created_at" is missing`},
		{"an id as text", `"id":1,"name"`, `"id":"1","name"`, "/id: value must be an integer"},
		{"an id with a fraction", `"id":1,"name"`, `"id":1.5,"name"`, "/id: value must be an integer"},
		{"a null name", `"name":"Visit"`, `"name":null`, "/name: Value is not nullable"},
		{"an error state that is no text", `"error_state":null`, `"error_state":3`, "/error_state: value must be one of string, null"},
		{"a flag as number", `"signed":false`, `"signed":0`, "/has/signed: value must be a boolean"},
		{"a nested number as text", `"size":10`, `"size":"10"`, "/audio/size: value must be an integer"},
		{"a list for an object", `{"id":7,"anything":[1]}`, `[]`, "/patient: value must be an object"},
		{"a misspelt member", `"error_state"`, `"errorState"`, `"errorState" is unsupported`},
		{"a misspelt nested member", `"duration"`, `"length"`, `"length" is unsupported`},
		{"a time without a zone", `"2024-05-01T10:11:12Z"`, `"2024-05-01 10:11:12"`, "/audio/uploaded_at: string doesn't match the format"},
		{"a time not in UTC", `12.000000Z","updated_at"`, `12.000000+02:00","updated_at"`, "/created_at: string doesn't match the regular expression"},
		{"a cut body", `"patient"`, ``, "decode"},
	}
	for _, row := range notes {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, goodNote, row.old)
			note := strings.Replace(goodNote, row.old, row.new, 1)
			page := `{"data":[` + goodNote + `,` + note + `],"links":{},"meta":{"total":2}}`
			for operation, body := range map[string]string{"getNote": note, "createNote": note, "updateNote": note, "signNote": note, "listNotes": page} {
				assertComplaint(t, c.CheckAnswer(t.Context(), operation, jsonAnswer(http.StatusOK, body)), row.complaint)
			}
		})
	}
}

func TestOtherBrokenAnswersAreFound(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	const good = `{"message":"Resource not found"}`
	for _, row := range []struct {
		what, operation string
		answer          contract.Answer
		complaint       string
	}{
		{"good", "getNote", jsonAnswer(404, good), ""},
		{"undescribed status", "getNote", jsonAnswer(418, good), ""},
		{"undescribed status without message", "getNote", jsonAnswer(418, `{}`), "message"},
		{"no message", "getNote", jsonAnswer(404, `{"errors":{}}`), "message"},
		{"errors as list", "updateNote", jsonAnswer(422, `{"message":"x","errors":[]}`), "object"},
		{"errors as texts", "updateNote", jsonAnswer(422, `{"message":"x","errors":{"name":"required"}}`), "array"},
		{"no errors", "createNote", jsonAnswer(422, `{"message":"x"}`), "errors"},
		{"undescribed success", "updateNote", jsonAnswer(201, goodNote), "message"},
		{"html", "getNote", contract.Answer{Status: 404, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<p>")}, "Content-Type"},
		{"no content", "deleteNote", contract.Answer{Status: 204}, "Content-Type"},
		{"redirect", "getUser", jsonAnswer(302, good), "302"},
		{"permanent redirect", "getUser", jsonAnswer(301, good), "301"},
		{"good tokens", "listTokens", jsonAnswer(200, `{"tokens":[{"id":1,"created_at":"2024-05-01T10:11:12.000000Z"}]}`), ""},
		{"no tokens", "listTokens", jsonAnswer(200, `{}`), "tokens"},
		{"bare tokens", "listTokens", jsonAnswer(200, `[]`), "object"},
		{"token time without microseconds", "listTokens", jsonAnswer(200, `{"tokens":[{"id":1,"created_at":"2024-05-01T10:11:12Z"}]}`), "created_at"},
		{"no url", "getAudioURL", jsonAnswer(200, `{"uri":"http://storage.example.test"}`), "url"},
		{"wrapped user", "getUser", jsonAnswer(200, `{"data":{"id":1}}`), "data"},
		{"no confirmation", "revokeToken", jsonAnswer(200, `{"message":true}`), "string"},
		{"unknown operation", "login", jsonAnswer(200, good), "login"},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			assertComplaint(t, c.CheckAnswer(t.Context(), row.operation, row.answer), row.complaint)
		})
	}
}

func TestBrokenRequestsAreFound(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	const form = "multipart/form-data; boundary=b"
	part := func(name, rest, content string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"" + rest + "\r\n\r\n" + content + "\r\n"
	}
	file := part("file", "; filename=\"visit.wav\"\r\nContent-Type: audio/wav", "RIFF\xff\x00")
	const end = "--b--\r\n"
	for _, row := range []struct{ what, method, path, contentType, body, complaint string }{
		{"good create", "POST", "/v1/progress-notes", form, part("name", "", "Visit") + part("patient_id", "", "7") + file + end, ""},
		{"create without parts", "POST", "/v1/progress-notes", form, end, ""},
		{"unknown part", "POST", "/v1/progress-notes", form, part("title", "", "Visit") + file + end, "title"},
		{"part of another type", "POST", "/v1/progress-notes", form, part("patient_id", "", "seven") + file + end, "patient_id"},
		{"create as JSON", "POST", "/v1/progress-notes", "application/json", `{"name":"Visit"}`, "Content-Type"},
		{"create as form", "POST", "/v1/progress-notes", "application/x-www-form-urlencoded", `name=Visit`, "Content-Type"},
		{"create without body", "POST", "/v1/progress-notes", form, "", "required"},
		{"good update", "PUT", "/v1/progress-notes/1", "application/json", `{"name":"Visit"}`, ""},
		{"empty update", "PUT", "/v1/progress-notes/1", "application/json", `{}`, ""},
		{"unknown member", "PUT", "/v1/progress-notes/1", "application/json", `{"title":"Visit"}`, "title"},
		{"null member", "PUT", "/v1/progress-notes/1", "application/json", `{"name":null}`, "name"},
		{"update as form", "PUT", "/v1/progress-notes/1", form, part("name", "", "Visit") + end, "Content-Type"},
		{"update without body", "PUT", "/v1/progress-notes/1", "application/json", "", "required"},
		{"malformed update", "PUT", "/v1/progress-notes/1", "application/json", `{"name":`, "decode"},
		{"good sign", "PUT", "/v1/progress-notes/1/sign", "", "", ""},
		{"sign with body", "PUT", "/v1/progress-notes/1/sign", "application/json", `{}`, "no body"},
		{"id that is no integer", "GET", "/v1/progress-notes/one", "", "", "id"},
		{"unknown path", "GET", "/v1/notes", "", "", "no matching operation"},
		{"unknown method", "PATCH", "/v1/progress-notes/1", "", "", "no matching operation"},
		{"missing version", "GET", "/progress-notes", "", "", "no matching operation"},
		{"version that is not there", "GET", "/v1/user", "", "", "no matching operation"},
		{"good list", "GET", "/v1/progress-notes?patient_id=7&per_page=100&sort=oldest&page=2", "", "", ""},
		{"unknown parameter", "GET", "/v1/progress-notes?patient=7", "", "", "patient"},
		{"repeated parameter", "GET", "/v1/progress-notes?page=1&page=2", "", "", "2 times"},
		{"parameter where there is none", "GET", "/user?page=1", "", "", "page"},
		{"page size of none", "GET", "/v1/progress-notes?per_page=0", "", "", "per_page"},
		{"page size too large", "GET", "/v1/progress-notes?per_page=101", "", "", "per_page"},
		{"unknown order", "GET", "/v1/progress-notes?sort=newest", "", "", "sort"},
		{"patient that is no integer", "GET", "/v1/progress-notes?patient_id=seven", "", "", "patient_id"},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequestWithContext(t.Context(), row.method, row.path, http.NoBody)
			req.Header.Set("Authorization", "Bearer synthetic")
			if row.contentType != "" {
				req.Header.Set("Content-Type", row.contentType)
			}
			_, err := c.CheckRequest(req, []byte(row.body))
			assertComplaint(t, err, row.complaint)
		})
	}
}

func TestMissingTokenIsFound(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for _, header := range [][]string{nil, {""}, {"synthetic"}, {"Basic synthetic"}, {"Bearer "}, {"Bearer a b"}, {"Bearer a", "Bearer b"}} {
		for _, endpoint := range endpoints {
			method, path, _ := strings.Cut(strings.Replace(endpoint, "{id}", "1", 1), " ")
			req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			req.Header["Authorization"] = header
			_, err := c.CheckRequest(req, nil)
			assertComplaint(t, err, "Bearer")
		}
	}
}

// assertComplaint expects an error with that text, or none when the text is empty.
func assertComplaint(t *testing.T, err error, complaint string) {
	t.Helper()
	if complaint == "" {
		assert.NoError(t, err)
		return
	}
	assert.ErrorContains(t, err, complaint)
}
