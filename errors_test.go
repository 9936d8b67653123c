package clinicaldoc_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
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
		302: "check the base URL", 304: "is a cache in between?", 401: "token", 403: "may not", 404: "does not exist", 409: "state", 413: "size", 422: "Fields",
		429: "WithLimiter", 503: "trying later may help", 511: "the network responds: it wants a login first",
	} {
		assert.Contains(t, (&clinicaldoc.Error{StatusCode: status, Method: http.MethodGet}).Error(), advice)
	}
	assert.NotContains(t, (&clinicaldoc.Error{StatusCode: 304}).Error(), "redirect")
	assert.NotContains(t, (&clinicaldoc.Error{StatusCode: 511}).Error(), "later")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "REPORT", ""} {
		text := (&clinicaldoc.Error{StatusCode: 502, Method: method}).Error()
		assert.Contains(t, text, "the service, or a proxy before it, failed")
		assert.NotContains(t, text, "later", "it may have been carried out")
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
		"long":           {map[string]string{"X-Request-Id": strings.Repeat("a", 128)}, strings.Repeat("a", 128)},
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
	unknown := &clinicaldoc.OutcomeUnknownError{Err: &clinicaldoc.Error{StatusCode: 502, Operation: "Notes.Create", Method: http.MethodPost}}
	assert.Contains(t, unknown.Error(), "Notes.FindCreated")
	assert.NotContains(t, unknown.Error(), "trying later", "one advice, the right one")
	assert.Contains(t, unknown.Error(), "502 Bad Gateway")
	assert.Equal(t, unknown.Error(), unknown.SafeText())
	require.ErrorIs(t, unknown, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorIs(t, unknown, clinicaldoc.ErrServer)
	assert.NotPanics(t, func() { assert.NotEmpty(t, (&clinicaldoc.OutcomeUnknownError{}).Error()) })
}

func TestSlogPrintsAnErrorsTextFirst(t *testing.T) {
	t.Parallel()
	logged := func(err error) string {
		var b strings.Builder
		drop := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: drop})).ErrorContext(t.Context(), "failed", "err", err)
		return strings.TrimSpace(b.String())
	}
	plain := &clinicaldoc.Error{StatusCode: 409, Operation: "Notes.Sign", Method: "PUT", Route: "/r"}
	assert.Equal(t, `level=ERROR msg=failed err.error="`+plain.Error()+`" err.operation=Notes.Sign err.method=PUT err.route=/r err.status=409`, logged(plain))
	full := *plain
	full.Message, full.Fields, full.RetryAfter, full.RequestID = "secret", map[string][]string{"name": {"secret"}}, time.Second, "r-1"
	assert.Equal(t, `level=ERROR msg=failed err.error="`+full.Error()+
		`" err.operation=Notes.Sign err.method=PUT err.route=/r err.status=409 err.fields=name err.retry_after=1s err.request_id=r-1`, logged(&full))
}

// A sentinel stands in the chains of errors, which others print: it must be one that is known to be harmless.
func TestSentinelsStandInChainsAsTheyAre(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	declaration := regexp.MustCompile(`(?m)^\s+(Err\w+) += (\S+?)\(?`)
	checked := 0
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, match := range declaration.FindAllSubmatch(text, -1) {
			checked++
			assert.NotContains(t, string(match[0]), "errors.New", "%s: make %s with redact.New", source, match[1])
		}
	}
	assert.Greater(t, checked, 15)
	for _, own := range []error{clinicaldoc.ErrServer, &clinicaldoc.Error{StatusCode: 500}, &clinicaldoc.WaitError{ID: 7}} {
		unknown := chain(&clinicaldoc.OutcomeUnknownError{Err: own})
		assert.Contains(t, unknown, own, "crash reporters group by it")
		assert.Contains(t, unknown, clinicaldoc.ErrOutcomeUnknown)
	}
}

func TestCausesAreMatchedAndAskedForByType(t *testing.T) {
	t.Parallel()
	inner := errors.New(canary)
	foreign := &url.Error{Op: "Get", URL: "https://x.test/" + canary, Err: &os.PathError{Op: "open", Path: canary, Err: inner}}
	_, err := serve(t, call{url: "/user", fail: foreign}).Users.Me(t.Context())
	require.ErrorIs(t, err, inner)
	path, ok := errors.AsType[*os.PathError](err)
	require.True(t, ok)
	assert.Equal(t, canary, path.Path, "who asks for it gets it")
	wait := &clinicaldoc.WaitError{Err: err}
	require.ErrorIs(t, wait, inner)
	_, ok = errors.AsType[*os.PathError](error(wait))
	assert.True(t, ok)
}

func TestTheContextsCauseIsKept(t *testing.T) {
	t.Parallel()
	reason := errors.New(canary)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	running := func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(t.Context()) }
	failures := map[string]func() error{
		"before": func() error {
			_, err := serve(t).Users.Me(ended)
			return err
		},
		"meanwhile": func() error {
			ctx, cancel := running()
			_, err := serve(t, call{url: "/user", meanwhile: func() { cancel(reason) }, fail: io.EOF}).Users.Me(ctx)
			return err
		},
		"between two attempts": func() error {
			ctx, cancel := running()
			retried := clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Hour, MaxWait: time.Hour})
			client := serveWith(t, []clinicaldoc.Option{retried, clinicaldoc.WithObserver(func(context.Context, clinicaldoc.Attempt) { cancel(reason) })}, call{url: "/user", status: 503})
			_, err := client.Users.Me(ctx)
			return err
		},
		"in a wait": func() error {
			_, err := serve(t).Notes.Wait(ended, 7, clinicaldoc.WaitParams{})
			return err
		},
		"in a pause of a wait": func() error {
			ctx, cancel := running()
			_, err := serve(t, call{url: "/v1/progress-notes/7", answer: smallNote}).Notes.Wait(ctx, 7, clinicaldoc.WaitParams{OnUpdate: func(*clinicaldoc.ProgressNote) { cancel(reason) }})
			return err
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fail()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
			assert.NotContains(t, err.Error(), canary)
		})
	}
	ctx, cancelLate := context.WithTimeoutCause(t.Context(), 0, &clinicaldoc.Error{StatusCode: 429, Operation: "Notes.List"})
	defer cancelLate()
	_, err := serve(t).Users.Me(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
	assert.Contains(t, err.Error(), "the deadline passed (context deadline exceeded): clinicaldoc: Notes.List")
}

func TestStallsMatchTheirSentinel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		_, err := clientOn(t, silent).Notes.Get(t.Context(), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		assert.True(t, clinicaldoc.Retryable(err))
		_, err = clientOn(t, silent).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit"})
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.False(t, clinicaldoc.Retryable(err))
		_, err = clientOn(t, silent).Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{MaxFailures: 1})
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		assert.True(t, clinicaldoc.Retryable(err))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = clientOn(t, silent).Notes.Get(ctx, 7)
		require.NotErrorIs(t, err, clinicaldoc.ErrStalled)
	})
}

// refusing is a client whose every request meets the error.
func refusing(t *testing.T, err error, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return clientOn(t, &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, err })}, opts...)
}

func TestRetryableByStatus(t *testing.T) {
	t.Parallel()
	for status := 300; status < 600; status++ {
		passes := status == 408 || status == 425 || status == 429 || status >= 500 && status != 501 && status != 505
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "REPORT", ""} {
			err := error(&clinicaldoc.Error{StatusCode: status, Method: method})
			reads := method == http.MethodGet || method == http.MethodHead
			assert.Equal(t, passes && (reads || status == 429), clinicaldoc.Retryable(err), "%s %d", method, status)
			assert.Equal(t, clinicaldoc.Retryable(err), clinicaldoc.Retryable(fmt.Errorf("wrapped: %w", errors.Join(io.EOF, err))))
			assert.False(t, clinicaldoc.Retryable(&clinicaldoc.OutcomeUnknownError{Err: err}), "%d", status)
			assert.Equal(t, clinicaldoc.Retryable(err), clinicaldoc.Retryable(&clinicaldoc.WaitError{Err: err}))
		}
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	get := func(client *clinicaldoc.Client, ctx context.Context) error {
		_, err := client.Notes.Get(ctx, 7)
		return err
	}
	create := func(client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams) error {
		_, err := client.Notes.Create(t.Context(), params)
		return err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithTimeout(t.Context(), 0)
	defer cancelLate()
	unreachable, err := clinicaldoc.NewClient("http://"+closedAddress(t), testToken, once)
	require.NoError(t, err)
	source := &clinicaldoc.AudioSource{}
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                       {nil, false},
		"another's error":               {io.EOF, false},
		"a read without a response":     {get(refusing(t, reset), t.Context()), true},
		"a read, refused connection":    {get(unreachable, t.Context()), true},
		"a create, refused connection":  {create(unreachable, clinicaldoc.CreateNoteParams{Name: "Visit"}), true},
		"a create cut while it is sent": {create(refusing(t, reset), clinicaldoc.CreateNoteParams{Name: "Visit"}), true},
		"a create without a response":   {create(reading(t, reset), clinicaldoc.CreateNoteParams{Name: "Visit"}), false},
		"a certificate":                 {get(refusing(t, x509.UnknownAuthorityError{}), t.Context()), false},
		"an argument":                   {create(serve(t), clinicaldoc.CreateNoteParams{Audio: source}), false},
		"cancelled":                     {get(serve(t), ended), false},
		"late":                          {get(serve(t), late), false},
		"a limiter's refusal":           {get(refusing(t, reset, clinicaldoc.WithLimiter(badCallback{io.EOF})), t.Context()), false},
		"a reader's failure":            {create(reading(t, reset), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader("a.wav", new(badReader))}), false},
		"no JSON":                       {get(serve(t, call{url: "/v1/progress-notes/7", answer: "<html>"}), t.Context()), false},
		"a conflict":                    {errors.Join(clinicaldoc.ErrConflict, &clinicaldoc.Error{StatusCode: 503, Method: "GET"}), false},
		"a failed note":                 {&clinicaldoc.WaitError{Err: clinicaldoc.ErrProcessingFailed}, false},
		"a wait's end":                  {&clinicaldoc.WaitError{Err: context.DeadlineExceeded}, false},
	} {
		assert.Equal(t, tt.want, clinicaldoc.Retryable(tt.err), "%s: %v", name, tt.err)
	}
}

// reading is a client whose every request is read whole, then meets the error.
func reading(t *testing.T, err error) *clinicaldoc.Client {
	t.Helper()
	return clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if _, failed := io.Copy(io.Discard, r.Body); failed != nil {
			return nil, failed
		}
		return nil, err
	})})
}

func TestRetryableAfterADownload(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{403: false, 404: false, 429: true, 503: true} {
		storage := socketHandler(t, sockStatus(status, ""))
		client := clientOn(t, &http.Client{Transport: storageAt(storage.URL)}, clinicaldoc.WithInsecureHTTP())
		_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, clinicaldoc.DownloadParams{})
		assert.Equal(t, want, clinicaldoc.Retryable(err), "%v", err)
	}
	cut := newRawServer(t, func(c *rawConn) { c.head(); c.send("HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nsound") })
	client := clientOn(t, &http.Client{Transport: storageAt(cut.URL)}, clinicaldoc.WithInsecureHTTP())
	_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, clinicaldoc.DownloadParams{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.True(t, clinicaldoc.Retryable(err))
}

func TestAnAttemptEncodesItsErrorAsText(t *testing.T) {
	t.Parallel()
	answered := &clinicaldoc.Error{StatusCode: 422, Message: canary, Fields: map[string][]string{"name": {canary}}, Operation: "Notes.Create", Method: "POST", Route: "/r"}
	attempt := clinicaldoc.Attempt{Operation: "Notes.Create", Method: "POST", Route: "/r", Number: 1, StatusCode: 422, Duration: time.Second, Err: answered}
	encoded, err := json.Marshal(attempt)
	require.NoError(t, err)
	assert.JSONEq(t, `{"Operation":"Notes.Create","Method":"POST","Route":"/r","Number":1,"StatusCode":422,"Duration":1000000000,"RequestID":"","BytesSent":0,"BytesReceived":0,"Err":"`+
		answered.Error()+`"}`, string(encoded))
	attempt.Err = errors.New(canary)
	encoded, err = json.Marshal(attempt)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded)+attempt.LogValue().String(), canary)
	attempt.Err = nil
	encoded, err = json.Marshal(&attempt)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded), "Err")
}

// A redirect of storage's is no sign of an expired address.
func TestARedirectOfStorageIsExplained(t *testing.T) {
	t.Parallel()
	storage := socketHandler(t, sockStatus(http.StatusFound, ""))
	client := clientOn(t, &http.Client{Transport: storageAt(storage.URL)}, clinicaldoc.WithInsecureHTTP())
	_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, clinicaldoc.DownloadParams{})
	answered, ok := errors.AsType[*clinicaldoc.Error](err)
	require.True(t, ok)
	assert.Contains(t, answered.Error(), "redirects are followed only")
	assert.NotContains(t, answered.Error(), "expired")
}

func TestOnlyKnownMediaTypesAreNamed(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]string{
		"application/json; charset=utf-8": "200 OK with application/json,",
		"application/json ; x=y":          "200 OK with application/json,",
		"Text/Plain":                      "200 OK with text/plain,",
		"text/xml;x=" + canary:            "200 OK with text/xml,",
		"application/" + canary:           "200 OK with no content type that is known,",
		canary + "/" + canary:             "200 OK with no content type that is known,",
		"":                                "200 OK with no content type that is known,",
		"text/html; charset=" + canary:    "is a web page (200 OK with text/html)",
		"application/xhtml+xml":           "is a web page (200 OK with text/html)",
	} {
		_, err := serve(t, call{url: "/user", answer: "x", answerHeader: map[string]string{"Content-Type": contentType}}).Users.Me(t.Context())
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Contains(t, err.Error(), want, contentType)
		assert.NotContains(t, err.Error(), canary)
	}
}
