package clinicaldoc_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// answeredWith returns the error of a Get that is answered so.
func answeredWith(t *testing.T, answer call) *clinicaldoc.Error {
	t.Helper()
	answer.url = "/v1/progress-notes/7"
	note, err := serve(t, answer).Notes.Get(t.Context(), 7)
	assert.Nil(t, note)
	var answered *clinicaldoc.Error
	require.ErrorAs(t, err, &answered)
	return answered
}

func TestStatusesMatchTheirSentinels(t *testing.T) {
	t.Parallel()
	sentinels := map[string]error{
		"ErrUnauthorized": clinicaldoc.ErrUnauthorized, "ErrForbidden": clinicaldoc.ErrForbidden, "ErrNotFound": clinicaldoc.ErrNotFound,
		"ErrConflict": clinicaldoc.ErrConflict, "ErrTooLarge": clinicaldoc.ErrTooLarge, "ErrValidation": clinicaldoc.ErrValidation,
		"ErrRateLimited": clinicaldoc.ErrRateLimited, "ErrServer": clinicaldoc.ErrServer, "ErrUnexpectedResponse": clinicaldoc.ErrUnexpectedResponse,
		"ErrNoteIncomplete": clinicaldoc.ErrNoteIncomplete, "ErrInvalidArgument": clinicaldoc.ErrInvalidArgument, "ErrOutcomeUnknown": clinicaldoc.ErrOutcomeUnknown,
		"ErrNotCreated": clinicaldoc.ErrNotCreated, "ErrProcessingFailed": clinicaldoc.ErrProcessingFailed, "ErrPatientMismatch": clinicaldoc.ErrPatientMismatch,
	}
	want := map[int]string{
		401: "ErrUnauthorized", 403: "ErrForbidden", 404: "ErrNotFound", 409: "ErrConflict", 413: "ErrTooLarge", 422: "ErrValidation", 429: "ErrRateLimited",
		300: "ErrUnexpectedResponse", 301: "ErrUnexpectedResponse", 302: "ErrUnexpectedResponse", 303: "ErrUnexpectedResponse", 304: "ErrUnexpectedResponse",
		307: "ErrUnexpectedResponse", 308: "ErrUnexpectedResponse",
		500: "ErrServer", 501: "ErrServer", 502: "ErrServer", 503: "ErrServer", 504: "ErrServer", 520: "ErrServer", 599: "ErrServer",
		400: "", 402: "", 405: "", 410: "", 415: "", 418: "", 419: "", 423: "", 451: "", 499: "",
	}
	for status, sentinel := range want {
		answered := answeredWith(t, call{status: status, answer: `{"message":"m"}`})
		assert.Equal(t, &clinicaldoc.Error{
			StatusCode: status, Message: "m", Operation: "Notes.Get", Method: http.MethodGet, Route: "/v1/progress-notes/{id}",
		}, answered)
		for name, candidate := range sentinels {
			assert.Equal(t, name == sentinel, errors.Is(answered, candidate), "%d %s", status, name)
		}
		require.NotErrorIs(t, answered, nil)
		assert.Contains(t, answered.Error(), fmt.Sprintf("clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): %d", status))
	}
}

func TestEveryEndpointReportsItself(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 429, 500, 503} {
			t.Run(fmt.Sprint(e.operation, status), func(t *testing.T) {
				t.Parallel()
				request := e.request()
				request.status, request.answer = status, `{"message":"m"}`
				calls := []call{request}
				if e.operation == "Notes.Sign" && status != 401 && status != 404 && status != 429 {
					calls = append(calls, call{url: "/v1/progress-notes/7", answer: `{"id":7,"has":{"content":true,"transcription":true}}`})
				}
				value, err := e.call(t.Context(), serve(t, calls...))
				assert.Empty(t, value)
				var answered *clinicaldoc.Error
				require.ErrorAs(t, err, &answered)
				assert.Equal(t, &clinicaldoc.Error{StatusCode: status, Message: "m", Operation: e.operation, Method: e.method, Route: e.route}, answered)
			})
		}
	}
}

func TestErrorBodies(t *testing.T) {
	t.Parallel()
	fields := func(pairs ...string) map[string][]string {
		m := map[string][]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = append(m[pairs[i]], pairs[i+1])
		}
		return m
	}
	many := make([]string, 0, 200)
	for i := range 200 {
		many = append(many, fmt.Sprintf(`"f%d":["m"]`, i))
	}
	long := strings.Repeat("x", 70<<10)
	tests := map[string]struct {
		message string
		fields  map[string][]string
	}{
		``:                                {},
		`null`:                            {},
		`[]`:                              {},
		`"text"`:                          {},
		`<html><h1>502</h1></html>`:       {},
		`{"message":"cut`:                 {},
		`{"message":"m"} trailing`:        {message: "m"},
		`{"errors":{"name":["a","cut`:     {"", fields("name", "a")},
		`{"errors":{"name":["cut`:         {"", map[string][]string{"name": {}}},
		`{"errors":{"na`:                  {},
		`{"message":"m","message":"cut`:   {message: "m"},
		`{"message":"m"}`:                 {message: "m"},
		`{"message":""}`:                  {},
		`{"message":null}`:                {},
		`{"message":5,"errors":7}`:        {},
		`{"error":"other"}`:               {},
		`{"message":"m","errors":[]}`:     {message: "m"},
		`{"message":"m","errors":{}}`:     {message: "m"},
		`{"message":"m","errors":null}`:   {message: "m"},
		`{"message":"m","errors":["a"]}`:  {message: "m"},
		`{"message":"m","errors":"text"}`: {message: "m"},
		`{"message":"m","errors":{"name":["a","b"],"files.0":["c"]}}`: {"m", fields("name", "a", "name", "b", "files.0", "c")},
		`{"errors":{"name":"a"}}`:                                     {"", fields("name", "a")},
		`{"errors":{"name":[]}}`:                                      {"", map[string][]string{"name": {}}},
		`{"errors":{"name":null,"other":{"deep":["a"]}}}`:             {"", map[string][]string{"name": {}, "other": {}}},
		`{"errors":{"name":["a",5,{"b":1},"c"]}}`:                     {"", fields("name", "a", "name", "c")},
		`{"message":"Server Error","exception":"RuntimeException","file":"\/app\/x.php","line":5,"trace":[{"file":"y","args":[1]}]}`: {message: "Server Error"},
		// Longer than what is read of an error.
		`{"message":"` + long + `"}`:                                          {},
		`{"message":"m","errors":{"name":["a"]},"trace":"` + long + `"}`:      {"m", fields("name", "a")},
		`{"message":"m","errors":{"name":["a"],"file":["b","` + long + `"]}}`: {"m", fields("name", "a", "file", "b")},
		`{"trace":"` + long + `","message":"m"}`:                              {},
	}
	for body, want := range tests {
		answered := answeredWith(t, call{status: http.StatusUnprocessableEntity, answer: body})
		assert.Equal(t, want.message, answered.Message, body)
		assert.Equal(t, want.fields, answered.Fields, body)
	}

	answered := answeredWith(t, call{status: http.StatusUnprocessableEntity, answer: `{"errors":{` + strings.Join(many, ",") + `,"z":["` + strings.Repeat(`m","`, 50) + `m"]}}`})
	assert.Len(t, answered.Fields, 100)
	answered = answeredWith(t, call{status: http.StatusUnprocessableEntity, answer: `{"errors":{"z":["` + strings.Repeat(`m","`, 50) + `m"]}}`})
	assert.Len(t, answered.Fields["z"], 20)
	answered = answeredWith(t, call{status: http.StatusUnprocessableEntity, answer: `{"errors":{` + strings.Join(many, ",") + `}}`})
	_, names, _ := strings.Cut(answered.Error(), "[fields: ")
	names, _, _ = strings.Cut(names, "]")
	assert.Len(t, strings.Split(names, ", "), 10, "a text stays short")
}

func TestErrorTextsHoldNoWordsOfTheService(t *testing.T) {
	t.Parallel()
	for _, status := range []int{302, 400, 401, 403, 404, 409, 413, 422, 429, 500} {
		answered := answeredWith(t, call{
			status: status,
			answer: `{"message":"secret","errors":{"name":["secret"],"patient_id":["secret"],"secret of Jane":["x"],"` + strings.Repeat("secret", 20) + `":["x"]}}`,
			answerHeader: map[string]string{
				"X-Request-Id": "req-5", "Retry-After": "7", "Location": "https://evil.test/secret", "Content-Type": "secret", "Www-Authenticate": "secret",
			},
		})
		for _, text := range []string{answered.Error(), answered.SafeText(), fmt.Sprintf("%v %+v %#v %s %q %d %x", answered, answered, answered, answered, answered, answered, answered)} {
			assert.NotContains(t, text, "secret")
			assert.Contains(t, text, "[fields: name, patient_id]")
			assert.Contains(t, text, "(request id req-5)")
			assert.Contains(t, text, "(retry after 7s)")
			assert.Contains(t, text, "GET /v1/progress-notes/{id}")
		}
		assert.Equal(t, "secret", answered.Message)
		assert.Equal(t, []string{"secret"}, answered.Fields["name"])
	}
}

func TestErrorTextsAdvise(t *testing.T) {
	t.Parallel()
	for status, advice := range map[int]string{
		302: "check the base URL", 401: "token", 403: "may not", 404: "does not exist", 409: "state", 413: "size", 422: "Fields", 429: "WithLimiter", 503: "later",
	} {
		assert.Contains(t, (&clinicaldoc.Error{StatusCode: status}).Error(), advice)
	}
	assert.Equal(t, "clinicaldoc: Notes.Get (GET /x): 418 I'm a teapot", (&clinicaldoc.Error{StatusCode: 418, Operation: "Notes.Get", Method: "GET", Route: "/x"}).Error())
	assert.Equal(t, "clinicaldoc: Notes.Get (GET /x): 499", (&clinicaldoc.Error{StatusCode: 499, Operation: "Notes.Get", Method: "GET", Route: "/x"}).Error())
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		for value, want := range map[string]time.Duration{
			"":                        0,
			"0":                       0,
			"120":                     2 * time.Minute,
			"-5":                      0,
			"1.5":                     0,
			"soon":                    0,
			"99999999999999999999999": math.MaxInt64,
			"9223372037":              math.MaxInt64,
			now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
			now.Add(-time.Hour).Format(http.TimeFormat):       0,
		} {
			answered := answeredWith(t, call{status: http.StatusServiceUnavailable, answerHeader: map[string]string{"Retry-After": value}})
			assert.Equal(t, want, answered.RetryAfter, value)
		}
	})
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header map[string]string
		want   string
	}{
		"none":           {nil, ""},
		"usual":          {map[string]string{"X-Request-Id": "0b9f-1"}, "0b9f-1"},
		"correlation":    {map[string]string{"X-Correlation-Id": "c-1"}, "c-1"},
		"load balancer":  {map[string]string{"X-Amzn-Trace-Id": "Root=1-5759e988;Self=1"}, "Root=1-5759e988;Self=1"},
		"proxy":          {map[string]string{"Cf-Ray": "230b030023ae2822-SJC"}, "230b030023ae2822-SJC"},
		"first one wins": {map[string]string{"X-Request-Id": "a", "Cf-Ray": "b"}, "a"},
		"the usual one":  {map[string]string{"X-Request-Id": "a", "X-Correlation-Id": "b"}, "a"},
		"unfit for logs": {map[string]string{"X-Request-Id": "two words", "Cf-Ray": "b"}, "b"},
		"too long":       {map[string]string{"X-Request-Id": strings.Repeat("a", 129)}, ""},
	} {
		assert.Equal(t, tt.want, answeredWith(t, call{status: 500, answerHeader: tt.header}).RequestID, name)
	}
}

func TestResponseTellsOfFailures(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/user", status: http.StatusTooManyRequests, answer: `{"message":"m"}`, answerHeader: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "many"}},
		call{url: "/user", fail: errors.New("reset")},
	)
	response := clinicaldoc.Response{StatusCode: 1, Body: []byte("stale")}
	_, err := client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
	assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	assert.JSONEq(t, `{"message":"m"}`, string(response.Body))
	assert.Equal(t, 1, response.Attempts)
	assert.Equal(t, clinicaldoc.RateLimit{}, response.RateLimit)

	_, err = client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.Error(t, err)
	assert.Equal(t, clinicaldoc.Response{Attempts: 1}, response, "nothing of an earlier answer stays")
}

func TestOutcomeUnknownErrorTellsWhatToDo(t *testing.T) {
	t.Parallel()
	unknown := &clinicaldoc.OutcomeUnknownError{Err: &clinicaldoc.Error{StatusCode: 502, Operation: "Notes.Create"}}
	assert.Contains(t, unknown.Error(), "Notes.FindCreated")
	assert.Contains(t, unknown.Error(), "502 Bad Gateway")
	assert.Equal(t, unknown.Error(), unknown.SafeText())
	require.ErrorIs(t, unknown, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorIs(t, unknown, clinicaldoc.ErrServer)
	assert.NotPanics(t, func() { assert.NotEmpty(t, (&clinicaldoc.OutcomeUnknownError{}).Error()) })
}
