package clinicaldoc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestError_Status_MatchesItsSentinel(t *testing.T) {
	t.Parallel()
	sentinels := []error{
		clinicaldoc.ErrUnauthorized, clinicaldoc.ErrForbidden, clinicaldoc.ErrNotFound, clinicaldoc.ErrConflict,
		clinicaldoc.ErrTooLarge, clinicaldoc.ErrValidation, clinicaldoc.ErrRateLimited, clinicaldoc.ErrServer,
		clinicaldoc.ErrUnexpectedResponse, clinicaldoc.ErrNoteIncomplete, clinicaldoc.ErrInvalidArgument,
		clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrNotCreated, clinicaldoc.ErrProcessingFailed,
		clinicaldoc.ErrPatientMismatch,
	}
	want := map[int]error{
		401: clinicaldoc.ErrUnauthorized, 403: clinicaldoc.ErrForbidden, 404: clinicaldoc.ErrNotFound,
		409: clinicaldoc.ErrConflict, 413: clinicaldoc.ErrTooLarge, 422: clinicaldoc.ErrValidation,
		429: clinicaldoc.ErrRateLimited,
	}
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		want[status] = clinicaldoc.ErrUnexpectedResponse
	}
	for _, status := range []int{500, 501, 502, 503, 504, 520, 599} {
		want[status] = clinicaldoc.ErrServer
	}
	for _, status := range []int{400, 402, 405, 410, 415, 418, 419, 423, 451, 499} {
		want[status] = nil
	}
	for status, sentinel := range want {
		answered := answeredWith(t, call{status: status, response: `{"message":"m"}`})
		assert.Equal(t, &clinicaldoc.Error{
			StatusCode: status, Message: "m", Operation: "Notes.Get", Method: http.MethodGet,
			Route: "/v1/progress-notes/{id}",
		}, answered)
		for _, candidate := range sentinels {
			assert.Equal(t, errors.Is(candidate, sentinel), errors.Is(answered, candidate), "%d %v", status, candidate)
		}
		assert.Contains(t, answered.Error(),
			fmt.Sprintf("clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): %d", status))
	}
}

func TestEndpoints_Errors_NameTheOperation(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 429, 500, 503} {
			t.Run(fmt.Sprint(e.operation, status), func(t *testing.T) {
				t.Parallel()
				request := e.request()
				request.status, request.response = status, `{"message":"m"}`
				calls := []call{request}
				if e.operation == "Notes.Sign" && status != 401 && status != 404 && status != 429 {
					calls = append(calls, call{url: "/v1/progress-notes/7",
						response: `{"id":7,"name":"n","has":{"content":true,"transcription":true}}`})
				}
				value, err := e.call(t.Context(), serve(t, calls...))
				assert.Empty(t, value)
				answered := requireAs[*clinicaldoc.Error](t, err)
				assert.Equal(t, &clinicaldoc.Error{StatusCode: status, Message: "m", Operation: e.operation,
					Method: e.method, Route: e.route}, answered)
			})
		}
	}
}

func TestError_Body_IsReadTolerantly(t *testing.T) {
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
		`{"message":"m","errors":{"name":["a","b"],"files.0":["c"]}}`: {"m",
			fields("name", "a", "name", "b", "files.0", "c")},
		`{"errors":{"name":"a"}}`: {"", fields("name", "a")},
		`{"errors":{"name":[]}}`:  {"", map[string][]string{"name": {}}},
		`{"errors":{"name":null,"other":{"deep":["a"]}}}`: {"",
			map[string][]string{"name": {}, "other": {}}},
		`{"errors":{"name":["a",5,{"b":1},"c"]}}`: {"", fields("name", "a", "name", "c")},
		`{"message":"Server Error","exception":"RuntimeException","file":"\/app\/x.php","line":5,"trace":[{"file":"y","args":[1]}]}`: {message: "Server Error"},
		// Longer than what is read of an error.
		`{"message":"` + long + `"}`:                                          {},
		`{"message":"m","errors":{"name":["a"]},"trace":"` + long + `"}`:      {"m", fields("name", "a")},
		`{"message":"m","errors":{"name":["a"],"file":["b","` + long + `"]}}`: {"m", fields("name", "a", "file", "b")},
		`{"trace":"` + long + `","message":"m"}`:                              {},
	}
	for body, want := range tests {
		answered := answeredWith(t, call{status: http.StatusUnprocessableEntity, response: body})
		assert.Equal(t, want.message, answered.Message, body)
		assert.Equal(t, want.fields, answered.Fields, body)
	}

	answered := answeredWith(t, call{status: http.StatusUnprocessableEntity, response: `{"errors":{` +
		strings.Join(many, ",") + `,"z":["` + strings.Repeat(`m","`, 50) + `m"]}}`})
	assert.Len(t, answered.Fields, 100)
	answered = answeredWith(t, call{status: http.StatusUnprocessableEntity, response: `{"errors":{"z":["` +
		strings.Repeat(`m","`, 50) + `m"]}}`})
	assert.Len(t, answered.Fields["z"], 20)
	answered = answeredWith(t,
		call{status: http.StatusUnprocessableEntity, response: `{"errors":{` + strings.Join(many, ",") + `}}`})
	_, names, _ := strings.Cut(answered.Error(), "[fields: ")
	names, _, _ = strings.Cut(names, "]")
	assert.Len(t, strings.Split(names, ", "), 10, "a text stays short")
}

func TestError_Slog_OmitsEmptyParts(t *testing.T) {
	t.Parallel()
	logged := func(err error) string {
		var text strings.Builder
		slog.New(slog.NewTextHandler(&text, nil)).ErrorContext(t.Context(), "failed", "err", err)
		_, attributes, _ := strings.Cut(text.String(), "msg=failed ")
		return strings.TrimSpace(attributes)
	}
	const request = `" err.operation=Users.Me err.method=GET err.route=/user err.status=409`
	plain := &clinicaldoc.Error{StatusCode: 409, Operation: "Users.Me", Method: "GET", Route: "/user"}
	assert.Equal(t, `err.error="`+plain.Error()+request, logged(plain))
	full := *plain
	full.Message = "secret"
	full.Fields = map[string][]string{"name": {"secret"}}
	full.RetryAfter = time.Second
	full.RequestID = "r-1"
	assert.Equal(t, `err.error="`+full.Error()+request+` err.fields=name err.retry_after=1s err.request_id=r-1`,
		logged(&full))
}

// A sentinel is in the chains of errors that other programs print, so it must be known to be harmless.
func TestErrors_Sentinels_StandInChains(t *testing.T) {
	t.Parallel()
	sources := must(filepath.Glob("*.go"))(t)
	declaration := regexp.MustCompile(`(?m)^\s+(Err\w+) += (\S+?)\(?`)
	checked := 0
	for _, source := range sources {
		text := must(os.ReadFile(source))(t)
		for _, match := range declaration.FindAllSubmatch(text, -1) {
			checked++
			assert.NotContains(t, string(match[0]), "errors.New", "%s: make %s with redact.New", source, match[1])
		}
	}
	assert.Greater(t, checked, 15)
	for _, own := range []error{clinicaldoc.ErrServer, &clinicaldoc.Error{StatusCode: 500},
		&clinicaldoc.WaitError{ID: 7}} {
		unknown := chain(&clinicaldoc.OutcomeUnknownError{Err: own})
		assert.Contains(t, unknown, own, "crash reporters group by it")
		assert.Contains(t, unknown, clinicaldoc.ErrOutcomeUnknown)
	}
}

func TestErrors_ContextCause_IsKept(t *testing.T) {
	t.Parallel()
	reason := errors.New(canary)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	running := func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(t.Context()) }
	subtests(t, map[string]func() error{
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
			retried := clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Hour,
				MaxWait: time.Hour})
			canceling := onAttempt(func(context.Context, clinicaldoc.Attempt) { cancel(reason) })
			client := serveWith(t, []clinicaldoc.Option{retried, canceling}, call{url: "/user", status: 503})
			_, err := client.Users.Me(ctx)
			return err
		},
		"in a wait": func() error {
			_, err := serve(t).Notes.Wait(ended, 7, waitParams{})
			return err
		},
		"in a wait for many notes": func() error {
			_, err := clinicaldoc.Collect(serve(t).Notes.WaitAll(ended, []int64{7}, waitParams{}))
			return err
		},
		"in a pause of a wait": func() error {
			ctx, cancel := running()
			_, err := serve(t, call{url: "/v1/progress-notes/7", response: smallNote}).Notes.Wait(ctx, 7,
				waitParams{OnUpdate: func(*clinicaldoc.ProgressNote) { cancel(reason) }})
			return err
		},
	}, func(t *testing.T, fail func() error) {
		err := fail()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, reason)
		assert.NotContains(t, err.Error(), canary)
		assert.Equal(t, 1, strings.Count(err.Error(), context.Canceled.Error()), err)
	})
	ctx, cancelLate := context.WithTimeoutCause(t.Context(), 0,
		&clinicaldoc.Error{StatusCode: 429, Operation: "Notes.List"})
	defer cancelLate()
	_, err := serve(t).Users.Me(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
	assert.Contains(t, err.Error(), "the deadline passed (context deadline exceeded): clinicaldoc: Notes.List")
}

func TestErrors_ConstructedByTheCaller_AreReadable(t *testing.T) {
	t.Parallel()
	lostCreation := &clinicaldoc.OutcomeUnknownError{
		Err: &clinicaldoc.Error{StatusCode: 502, Operation: "Notes.Create", Method: http.MethodPost}}
	for want, err := range map[string]error{
		"clinicaldoc: 403 Forbidden: the token's user may not do this": &clinicaldoc.Error{StatusCode: 403},
		"clinicaldoc: Notes.Get: 403 Forbidden: the token's user may not do this": &clinicaldoc.Error{
			StatusCode: 403, Operation: "Notes.Get"},
		"clinicaldoc: (GET /user): 403 Forbidden: the token's user may not do this": &clinicaldoc.Error{
			StatusCode: 403, Method: "GET", Route: "/user"},
		"clinicaldoc: (GET /user): 503 Service Unavailable: the service, or a proxy before it, failed; " +
			"try again later (retry after 7s) (request id r-1)": &clinicaldoc.Error{StatusCode: 503, Method: "GET",
			Route: "/user", RetryAfter: 7 * time.Second, RequestID: "r-1", Message: canary},
		"clinicaldoc: no status":               &clinicaldoc.Error{},
		"clinicaldoc: the note is in conflict": &clinicaldoc.ConflictError{},
		"clinicaldoc: no error; it may or may not have been carried out: check before sending it again": &clinicaldoc.
			OutcomeUnknownError{},
		"clinicaldoc: Notes.Create (POST): 502 Bad Gateway: the service, or a proxy before it, failed; " +
			"the note may or may not exist: call Notes.FindCreated before creating it again": lostCreation,
		"clinicaldoc: waiting for note 0 (never seen, 0 polls in 0s): no cause": &clinicaldoc.WaitError{},
	} {
		assert.Equal(t, want, err.Error())
	}
	require.ErrorIs(t, lostCreation, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorIs(t, lostCreation, clinicaldoc.ErrServer)

	lost := clinicaldoc.OutcomeUnknownError{Params: createParams{Name: "Visit", Audio: &clinicaldoc.AudioSource{}},
		SentAt: time.Now()}
	must(json.Marshal(lost))(t)
	_, err := serve(t).Notes.FindCreated(endedContext(t), &lost, clinicaldoc.FindCreatedParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

// Errors of the machine that may pass, such as a full disk or too many open files, are retryable, and not the caller's
// mistake.
func TestRetryable_ErrorsOfTheMachine(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.ESTALE, syscall.ENOSPC} {
		cause := &os.PathError{Op: "read", Path: "/secret/visit.wav", Err: errno}
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, r.Body)
			return nil, err
		}))
		_, err := client.Notes.Create(t.Context(),
			createParams{Audio: clinicaldoc.AudioReader("a.wav", iotest.ErrReader(cause))})
		require.ErrorIs(t, err, errno)
		require.NotErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.True(t, clinicaldoc.Retryable(err), "%v", err)
		assert.NotContains(t, err.Error(), "secret")

		a := newAudioServer(t, 1000)
		_, err = a.client(t).Notes.DownloadAudio(socketContext(t), 7, failingWriter{err: cause}, downloadParams{})
		require.ErrorIs(t, err, errno)
		assert.True(t, clinicaldoc.Retryable(err), "%v", err)
	}
}

// Too many open files is no invalid argument.
func TestRetryable_FileThatCannotBeOpenedNow_IsTrue(t *testing.T) {
	t.Parallel()
	if os.Getenv("CLINICALDOC_TEST_FEW_FILES") == "" {
		if runtime.GOOS == "windows" {
			t.Skip("no limit on open files there")
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c",
			"ulimit -n 24; exec \"$0\" -test.run='^TestRetryable_FileThatCannotBeOpenedNow_IsTrue$'", os.Args[0])
		cmd.Env = append(os.Environ(), "CLINICALDOC_TEST_FEW_FILES=1")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, string(output))
		return
	}
	path := filepath.Join(t.TempDir(), "visit.wav")
	require.NoError(t, os.WriteFile(path, []byte("sound"), 0o600))
	audio, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	for {
		f, err := os.Open(path)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			break
		}
		open = append(open, f)
	}
	_, err = serve(t).Notes.Create(t.Context(), createParams{Audio: audio})
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	assert.True(t, clinicaldoc.Retryable(err))
	assert.NotContains(t, err.Error(), "visit")
}

func TestRetryable_ByStatus(t *testing.T) {
	t.Parallel()
	for status := 300; status < 600; status++ {
		passes := status == 408 || status == 425 || status == 429 || status >= 500 && status != 501 && status != 505
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
			http.MethodPatch, http.MethodDelete, "REPORT", ""} {
			err := error(&clinicaldoc.Error{StatusCode: status, Method: method})
			reads := method == http.MethodGet || method == http.MethodHead
			assert.Equal(t, passes && (reads || status == 429), clinicaldoc.Retryable(err), "%s %d", method, status)
			assert.Equal(t, clinicaldoc.Retryable(err),
				clinicaldoc.Retryable(fmt.Errorf("wrapped: %w", errors.Join(io.EOF, err))))
			assert.False(t, clinicaldoc.Retryable(&clinicaldoc.OutcomeUnknownError{Err: err}), "%d", status)
			assert.Equal(t, clinicaldoc.Retryable(err), clinicaldoc.Retryable(&clinicaldoc.WaitError{Err: err}))
		}
	}
}

func TestRetryable_ByFailure(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	get := func(client *clinicaldoc.Client, ctx context.Context) error {
		_, err := client.Notes.Get(ctx, 7)
		return err
	}
	create := func(client *clinicaldoc.Client, params createParams) error {
		_, err := client.Notes.Create(t.Context(), params)
		return err
	}
	ended := endedContext(t)
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
		"a create, refused connection":  {create(unreachable, createParams{Name: "Visit"}), true},
		"a create cut while it is sent": {create(refusing(t, reset), createParams{Name: "Visit"}), true},
		"a create without a response":   {create(reading(t, reset), createParams{Name: "Visit"}), false},
		"a certificate":                 {get(refusing(t, x509.UnknownAuthorityError{}), t.Context()), false},
		"an argument":                   {create(serve(t), createParams{Audio: source}), false},
		"cancelled":                     {get(serve(t), ended), false},
		"late":                          {get(serve(t), late), false},
		"a limiter's refusal": {get(refusing(t, reset, clinicaldoc.WithLimiter(badCallback{io.EOF})),
			t.Context()), false},
		"a reader's failure": {create(reading(t, reset),
			createParams{Audio: clinicaldoc.AudioReader("a.wav", new(badReader))}), false},
		"no JSON": {get(serve(t, call{url: "/v1/progress-notes/7", response: "<html>"}),
			t.Context()), false},
		"a conflict": {errors.Join(clinicaldoc.ErrConflict,
			&clinicaldoc.Error{StatusCode: 503, Method: "GET"}), false},
		"a failed note": {&clinicaldoc.WaitError{Err: clinicaldoc.ErrProcessingFailed}, false},
		"a failed audit": {&clinicaldoc.NotAuditedError{Err: errTrail,
			CallErr: &clinicaldoc.Error{StatusCode: 503, Method: "GET"}}, false},
		"a wait's end": {&clinicaldoc.WaitError{Err: context.DeadlineExceeded}, false},
	} {
		assert.Equal(t, tt.want, clinicaldoc.Retryable(tt.err), "%s: %v", name, tt.err)
	}
}

// reading is a client whose every request is read whole, then meets the error.
func reading(t *testing.T, err error) *clinicaldoc.Client {
	t.Helper()
	return clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if _, failed := io.Copy(io.Discard, r.Body); failed != nil {
			return nil, failed
		}
		return nil, err
	}))
}

func TestRetryable_AfterADownload(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{403: false, 404: false, 429: true, 503: true} {
		storage := socketHandler(t, socketStatus(status, ""))
		client := clientOver(t, storageAt(storage.URL), clinicaldoc.WithInsecureHTTP())
		_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{})
		assert.Equal(t, want, clinicaldoc.Retryable(err), "%v", err)
	}
	cut := newRawServer(t, func(c *rawConn) { c.head(); c.send("HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nsound") })
	client := clientOver(t, storageAt(cut.URL), clinicaldoc.WithInsecureHTTP())
	_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.True(t, clinicaldoc.Retryable(err))
}

// errorTexts is all that an answer that is no success may say: the status, names of fields, constant advice, the id.
var errorTexts = regexp.MustCompile(
	`^clinicaldoc: Notes\.Get \(GET /v1/progress-notes/\{id\}\): (\d{3})( [A-Za-z' -]+)?` +
		`( \[fields: ([A-Za-z0-9_.\-\[\]*]{1,64}(, [A-Za-z0-9_.\-\[\]*]{1,64}){0,9})\])?` +
		`(: [A-Za-z' ,;:().?-]+)?( \(retry after [0-9.hms]+\))?( \(request id [A-Za-z0-9_.:=;/+-]{1,128}\))?$`)

func FuzzErrors(f *testing.F) {
	f.Add(422, []byte(`{"message":"Invalid.","errors":{"name":["The name field is required."],"files.0":"too large"}}`),
		"application/json", "req-1", "")
	f.Add(404, []byte(`{"message":"No such note: Jane"}`), "application/json", "two words", "5")
	f.Add(502, []byte(`<html>Bad Gateway</html>`), "text/html; charset=utf-8", "", "99999999999999999999")
	f.Add(301, []byte{}, "", "a\nb", "Fri, 02 Jan 2026 03:04:05 GMT")
	f.Add(429, []byte(`{"errors":{"Jane Doe":[],"x":{"y":1},"z":null}}`),
		"application/json", strings.Repeat("x", 129), "-1")
	f.Add(401, []byte(`{"message":"m","errors":{"`+"\xff"+`":["`+"\xff"+`"]}} `), "a/b", "id", "0.5")
	f.Add(401, []byte(`<html>Blocked</html>`), "text/html", "", "")
	f.Add(400, []byte(`{"message":"no such filter"}`), "application/json", "", "")
	f.Add(307, []byte{}, "", "", "")
	f.Add(511, []byte{}, "", "0", "")
	f.Fuzz(func(t *testing.T, status int, body []byte, contentType, requestID, after string) {
		if status < 300 || status > 999 {
			status = 300 + (status%700+700)%700
		}
		answer := func(body []byte) *clinicaldoc.Error {
			client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := answerWith(status, contentType, body)(r)
				resp.Header["X-Request-Id"] = []string{requestID}
				resp.Header["Retry-After"] = []string{after}
				return resp, err
			}))
			_, err := client.Notes.Get(t.Context(), 7)
			answered := requireAs[*clinicaldoc.Error](t, err)
			return answered
		}
		answered := answer(body)
		require.Equal(t, status, answered.StatusCode)
		require.GreaterOrEqual(t, answered.RetryAfter, time.Duration(0))
		require.LessOrEqual(t, len(answered.Fields), 100)
		for _, messages := range answered.Fields {
			require.NotNil(t, messages)
			require.LessOrEqual(t, len(messages), 20)
		}
		checkStoredError(t, answered)

		// Beyond the names of fields, the text says the same whatever the body holds: only whether there is a message
		// counts.
		plain := `{}`
		if answered.Message != "" {
			plain = `{"message":"Synthetic."}`
		}
		said := errorTexts.FindStringSubmatch(answered.Error())
		require.NotNil(t, said, answered.Error())
		if names := said[4]; names != "" {
			require.Subset(t, slices.Collect(maps.Keys(answered.Fields)), strings.Split(names, ", "))
		}
		require.Equal(t, withoutWait(answer([]byte(plain))), strings.Replace(withoutWait(answered), said[3], "", 1))
		require.Contains(t, []string{requestID, ""}, answered.RequestID)
		for _, verb := range verbs {
			require.Equal(t, answered.Error(), fmt.Sprintf(verb, answered))
		}
	})
}

// withoutWait is an error's text without the time to wait, which may pass from one response to the next.
func withoutWait(e *clinicaldoc.Error) string {
	unhurried := *e
	unhurried.RetryAfter = 0
	return unhurried.Error()
}

// checkStoredError wants the JSON of an error to give back all of its exported fields. What to do about it is not
// stored.
func checkStoredError(t *testing.T, answered *clinicaldoc.Error) {
	t.Helper()
	stored := must(json.Marshal(answered))(t)
	var back clinicaldoc.Error
	require.NoError(t, json.Unmarshal(stored, &back), "%s", stored)
	again := must(json.Marshal(back))(t)
	require.Equal(t, string(stored), string(again))
}

// The failures a newcomer meets first. Each text must say what to do, and none may hold a secret.

const (
	friendlyToken  = "token-CANARY"
	friendlyAnswer = "<html><p>answer-CANARY</p></html>"
)

// assertFriendly checks that an error contains the advice for a newcomer, and no secret.
func assertFriendly(t *testing.T, err error, advice ...string) {
	t.Helper()
	require.Error(t, err)
	for _, words := range advice {
		assert.Contains(t, err.Error(), words)
	}
	assert.NotContains(t, err.Error(), "CANARY", "a secret, or the service's words")
	assert.NotContains(t, err.Error(), "error of type", "no cause")
}

// friendlyCall asks for the user with a transport of the test's own, once.
func friendlyCall(t *testing.T, baseURL string, adapt func(*http.Transport), opts ...clinicaldoc.Option) error {
	t.Helper()
	tr := socketTransport(t)
	if adapt != nil {
		adapt(tr)
	}
	opts = append(opts, over(tr), once)
	client := must(clinicaldoc.NewClient(baseURL, friendlyToken, opts...))(t)
	_, err := client.Users.Me(socketContext(t))
	return err
}

func TestExplain_UnreachableServer(t *testing.T) {
	t.Parallel()
	address := closedAddress(t)
	for _, scheme := range []string{"http://", "https://"} {
		err := friendlyCall(t, scheme+address, nil)
		assertFriendly(t, err, address, "check the address, and whether the server is running")
		requireAs[*net.OpError](t, err)
	}
}

// secureServer is a TLS server whose certificate nobody here has signed.
func secureServer(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = config
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of what is meant to fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func TestExplain_CertificateThatCannotBeVerified(t *testing.T) {
	t.Parallel()
	srv := secureServer(t, nil)
	trusting := func(name string) func(*http.Transport) {
		return func(tr *http.Transport) {
			tr.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name}
			if name != "" {
				tr.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
			}
		}
	}
	err := friendlyCall(t, srv.URL, trusting(""))
	assertFriendly(t, err, "the server's certificate is signed by an authority that is unknown on this machine",
		"WithHTTPClient")
	err = friendlyCall(t, srv.URL, trusting("other.test"))
	assertFriendly(t, err, "the server's certificate is for another host name", "check the address")
	err = friendlyCall(t, srv.URL, trusting("example.com")) // which the certificate names
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound, "the way that the text advises")

	demanding := secureServer(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	err = friendlyCall(t, demanding.URL, trusting("example.com"))
	assertFriendly(t, err, "tls: certificate required", "WithHTTPClient")
}

func TestExplain_WrongProtocol(t *testing.T) {
	t.Parallel()
	plain := socketHandler(t, socketStatus(http.StatusOK, friendlyAnswer))
	err := friendlyCall(t, "https"+plain.URL[len("http"):], nil)
	assertFriendly(t, err, "does not speak TLS", "check the base URL's scheme")
	secure := secureServer(t, nil)
	err = friendlyCall(t, "http"+secure.URL[len("https"):], nil)
	assertFriendly(t, err, "400 Bad Request", "check the base URL's scheme")
	ssh := newRawServer(t, func(c *rawConn) { c.head(); c.send("SSH-2.0-CANARY\r\n") })
	assertFriendly(t, friendlyCall(t, ssh.URL, nil), "is not HTTP", "check the address and its port")
}

// An error explains a response that is caused by a wrong base URL, a wrong token or a server in between. It contains no
// misleading hint: the page of a firewall is not explained by the token, and an empty response of type HTML is not
// called a page.
func TestExplain_Response_HasTheHintsAndNoMisleadingOnes(t *testing.T) {
	t.Parallel()
	const (
		page, object = "text/html; charset=utf-8", "application/json"

		newToken    = "the token is missing, wrong, expired or revoked; get a new one"
		firewall    = "the response is a web page of a firewall, a proxy or another server"
		leaveV1Out  = "the base URL ends in /v1, which the client adds; leave it out"
		perhapsV1   = "or leave out /v1 at the end of the base URL, which the client adds"
		checkPath   = "check the base URL's path"
		nothing     = "nothing was found at this path"
		mayNot      = "the token's user may not do this"
		theClient   = "which the client adds"
		webPage     = "web page"
		tryingLater = "try again later"
	)
	notTheToken := []string{"get a new one", "the token's user", nothing}
	type test struct {
		path        string // of the base URL
		status      int
		contentType string
		body        string
		words       []string
		without     []string
		is          error
	}
	subtests(t, map[string]test{
		"expired token": {status: 401, contentType: object, body: friendlyAnswer,
			words: []string{"401 Unauthorized", newToken}, without: []string{theClient},
			is: clinicaldoc.ErrUnauthorized},
		"another server": {status: 200, contentType: page, body: friendlyAnswer,
			words: []string{"is a web page (200 OK with text/html), such as a login page", "check the base URL",
				"proxies"},
			is: clinicaldoc.ErrUnexpectedResponse, without: []string{theClient}},
		"wrong prefix": {path: "/wrong-prefix", status: 404, body: friendlyAnswer,
			words: []string{"404 Not Found", checkPath}, is: clinicaldoc.ErrNotFound},
		"redirect to a login": {status: 302, body: friendlyAnswer, words: []string{"302 Found", "check the base URL"}},

		"/v1": {path: "/v1", status: 404, contentType: object,
			words: []string{"404 Not Found", leaveV1Out}},
		"/v1/":                {path: "/v1/", status: 404, contentType: object, words: []string{leaveV1Out}},
		"/v1 after a prefix":  {path: "/api/v1", status: 404, contentType: object, words: []string{leaveV1Out}},
		"a prefix":            {path: "/api", status: 404, contentType: object, without: []string{theClient}},
		"/v1 before a prefix": {path: "/v1/api", status: 404, contentType: object, without: []string{theClient}},
		"/xv1":                {path: "/xv1", status: 404, contentType: object, without: []string{theClient}},
		"a page for every unknown path": {path: "/v1", status: 200, contentType: page, body: friendlyAnswer,
			words: []string{leaveV1Out}},
		// The server looks at the token before the path.
		"/v1, 401": {path: "/v1", status: 401, contentType: object,
			words: []string{"get a new one; " + perhapsV1}},
		// A firewall may know the paths.
		"/v1, 403 of a firewall": {path: "/v1", status: 403, contentType: page, body: friendlyAnswer,
			words: []string{perhapsV1}},
		// The server may look at the method before the path.
		"/v1, 405": {path: "/v1", status: 405, contentType: object, words: []string{perhapsV1}},
		"the list's path": {path: "/v1/progress-notes", status: 404, contentType: object,
			words: []string{"the base URL ends in /v1/progress-notes, which the client adds; leave it out"}},
		"the user's path": {path: "/prefix/user/", status: 404, contentType: object,
			words: []string{"the base URL ends in /user, which the client adds; leave it out"}},
		// The path may be one of the web pages, which have other methods, and tokens of their own (419).
		"405": {status: 405, contentType: object, words: []string{checkPath},
			without: []string{theClient}},
		"419": {status: 419, contentType: object, words: []string{checkPath}},

		"403 of a firewall": {status: 403, contentType: page, body: friendlyAnswer,
			words: []string{firewall, "check the base URL"}, without: append(notTheToken, theClient)},
		"404 of a firewall": {status: 404, contentType: page, body: friendlyAnswer,
			words: []string{firewall, "check the base URL"}, without: notTheToken},
		"a portal's login": {status: 511, contentType: "text/html", body: friendlyAnswer, without: []string{tryingLater},
			words: []string{"511 Network Authentication Required", "the network requires a login"}},
		"401 with a page, the token first": {status: 401, contentType: "text/html", body: friendlyAnswer,
			words: []string{"401 Unauthorized: " + newToken, "; the response is a web page, so check the base URL"}},
		"empty 401 of type HTML": {status: 401, contentType: page, words: []string{newToken}, without: []string{webPage}},
		"empty 403 of type HTML": {status: 403, contentType: page, words: []string{mayNot}, without: []string{webPage}},
		"empty 404 of type HTML": {status: 404, contentType: page, words: []string{nothing + "; " + checkPath},
			without: []string{webPage}},
		"403 of the service": {status: 403, contentType: object, body: `{"message":"CANARY"}`, without: []string{webPage}},
		"404 of the service": {status: 404, contentType: object, body: `{"message":"CANARY"}`,
			without: []string{webPage, theClient}},
	}, func(t *testing.T, tt test) {
		srv := socketHandler(t, socketStatus(tt.status, tt.body,
			"Content-Type", tt.contentType, "Location", "https://login.test/?from=CANARY"))
		err := friendlyCall(t, srv.URL+tt.path, nil)
		assertFriendly(t, err, tt.words...)
		for _, misleading := range tt.without {
			assert.NotContains(t, err.Error(), misleading)
		}
		if tt.is != nil {
			require.ErrorIs(t, err, tt.is)
		}
	})
}

func TestExplain_RedirectThatIsNotFollowed(t *testing.T) {
	t.Parallel()
	const circle, rule = "redirects in a circle, or too often",
		"redirects are followed only for GET and within the base URL's origin"
	for name, tt := range map[string]struct {
		method, location string
		body             any
		words, without   string
	}{
		"circle":         {http.MethodGet, "/v1/CANARY", nil, circle, rule},
		"circle, HEAD":   {http.MethodHead, testBase + "/v1/CANARY", nil, circle, rule},
		"another origin": {http.MethodGet, "https://CANARY.test/", nil, rule, circle},
		"with a name":    {http.MethodGet, "https://CANARY@api.clinic.test/", nil, rule, circle},
		"no address":     {http.MethodGet, "", nil, rule, circle},
		"with a body":    {http.MethodGet, "/v1/CANARY", "text", rule, circle},
		"PUT":            {http.MethodPut, "/v1/CANARY", nil, rule, circle},
	} {
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {tt.location}},
				Body: http.NoBody, Request: r}, nil
		}))
		err := client.Do(t.Context(), tt.method, "/v1/teams", tt.body, nil)
		assertFriendly(t, err, tt.words)
		assert.NotContains(t, err.Error(), tt.without, name)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	}
}

func TestExplain_CutUpload(t *testing.T) {
	t.Parallel()
	for cause, refused := range map[error]bool{syscall.ECONNRESET: true, syscall.EPIPE: true, net.ErrClosed: false,
		io.ErrUnexpectedEOF: false} {
		_, err := refusing(t, &net.OpError{Op: "write", Net: "tcp", Err: cause}).Notes.Create(t.Context(),
			createParams{Name: "Visit"})
		assertFriendly(t, err, "the connection ended during the upload", "write tcp: ", cause.Error())
		if refused {
			assertFriendly(t, err, "the server refuses it (size, token)")
		} else {
			assert.NotContains(t, err.Error(), "size, token", "nothing says so")
		}
	}
}

// Storage gets no token, and a redirect of storage does not mean that the address has expired.
func TestExplain_RefusalOfStorage(t *testing.T) {
	t.Parallel()
	const expired = "the recording's temporary address has expired"
	for status, advice := range map[int]string{
		http.StatusFound:        "redirects are followed only",
		http.StatusUnauthorized: expired,
		http.StatusForbidden:    expired,
		http.StatusNotFound:     expired,
	} {
		storage := socketHandler(t, socketStatus(status, friendlyAnswer, "X-Request-Id", "storage-1"))
		client := clientOver(t, storageAt(storage.URL), clinicaldoc.WithInsecureHTTP())
		_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{})
		answered := requireAs[*clinicaldoc.Error](t, err)
		assert.Equal(t, "storage-1", answered.RequestID)
		assertFriendly(t, answered, advice)
		assert.NotContains(t, answered.Error(), "token")
		assert.Equal(t, advice == expired, strings.Contains(answered.Error(), "expired"), status)
	}
}

// through sends all requests through a proxy with a password.
func through(address string) func(*http.Transport) {
	return func(tr *http.Transport) {
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: address,
			User: url.UserPassword("user", "password-CANARY")})
	}
}

func TestExplain_ProxyInBetween(t *testing.T) {
	t.Parallel()
	err := friendlyCall(t, "https://service.test", through(closedAddress(t)))
	assertFriendly(t, err, "the proxy (set by", "HTTPS_PROXY", "check the address, and whether the server is running")

	for status, advice := range map[int]struct{ tunnel, plain string }{
		http.StatusProxyAuthRequired: {"requires credentials (407 Proxy Authentication Required); put them into the proxy's URL", "put them into the proxy's URL"},
		http.StatusForbidden: {"refused the connection (403 Forbidden); check that it allows this host",
			"403 Forbidden"},
		http.StatusBadGateway: {"refused the connection (502 Bad Gateway); check that it allows this host and can reach it", "the service, or a proxy before it, failed"},
		http.StatusServiceUnavailable: {"refused the connection (503 Service Unavailable)",
			"the service, or a proxy before it, failed"},
	} {
		proxy := socketHandler(t, socketStatus(status, friendlyAnswer, "Content-Type", "text/html"))
		err = friendlyCall(t, "https://service.test", through(proxy.Listener.Addr().String()))
		assertFriendly(t, err, "a proxy ", advice.tunnel)
		err = friendlyCall(t, "http://service.test", through(proxy.Listener.Addr().String()),
			clinicaldoc.WithInsecureHTTP())
		assertFriendly(t, err, advice.plain)
	}

	// A proxy may refuse in words of its own, which net/http gives as they came.
	worded := newRawServer(t, func(c *rawConn) { c.head(); c.send("HTTP/1.1 403 Access denied for CANARY\r\n\r\n") })
	err = friendlyCall(t, "https://service.test", through(strings.TrimPrefix(worded.URL, "http://")))
	assertFriendly(t, err, "a proxy refused the connection")
}

const proxyChild = "CLINICALDOC_TEST_PROXY_CHILD"

// A process reads the proxy from the environment only once, so this test runs in its own process.
func TestExplain_ProxysStatus(t *testing.T) {
	t.Parallel()
	if os.Getenv(proxyChild) != "" {
		client := must(clinicaldoc.NewClient("https://service.test", friendlyToken, once))(t)
		_, err := client.Users.Me(socketContext(t))
		assertFriendly(t, err,
			"a proxy refused the connection (500 Internal Server Error); check that it allows this host and can reach it")
		return
	}
	proxy := newRawServer(t, func(c *rawConn) {
		c.head()
		c.send("HTTP/1.0 500 Unable to connect CANARY\r\nContent-Length: 0\r\n\r\n")
	})
	self := must(os.Executable())(t)
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	child.Env = append(os.Environ(), proxyChild+"=1", "HTTPS_PROXY="+proxy.URL, "https_proxy="+proxy.URL, "NO_PROXY=",
		"no_proxy=")
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
}

func TestError_Text_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	for status, advice := range map[int]string{
		302: "check the base URL", 304: "a cache may have answered", 401: "token", 403: "may not",
		404: "does not exist", 409: "state", 413: "size", 422: "Fields",
		429: "WithLimiter", 503: "try again later", 511: "the network requires a login",
	} {
		assert.Contains(t, (&clinicaldoc.Error{StatusCode: status, Method: http.MethodGet}).Error(), advice)
	}
	assert.NotContains(t, (&clinicaldoc.Error{StatusCode: 304}).Error(), "redirect")
	assert.NotContains(t, (&clinicaldoc.Error{StatusCode: 511}).Error(), "later")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "REPORT", ""} {
		text := (&clinicaldoc.Error{StatusCode: 502, Method: method}).Error()
		assert.Contains(t, text, "the service, or a proxy before it, failed")
		assert.NotContains(t, text, "later", "it may have been carried out")
	}
	for status, text := range map[int]string{418: "418 I'm a teapot", 499: "499"} {
		unknown := clinicaldoc.Error{StatusCode: status, Operation: "Users.Me", Method: "GET", Route: "/user"}
		assert.Equal(t, "clinicaldoc: Users.Me (GET /user): "+text, unknown.Error())
	}
}

// The route alone shows whether a 404 means a missing record, so a new list endpoint needs no entry anywhere.
func TestError_NotFound_AdviceFollowsFromTheRoute(t *testing.T) {
	t.Parallel()
	const (
		list   = "nothing was found at this path; check the base URL's path"
		record = "it does not exist, or this token's user may not see it"
	)
	for request, advice := range map[string]string{
		"GET /v1/progress-notes":      list,
		"GET /v1/letters":             list,
		"GET /v1/letters/{id}":        record,
		"GET /v1/letters/{}":          record,
		"GET /v1/letters/{id}/pages":  record,
		"DELETE /v1/letters":          record,
		"DELETE /v1/auth/tokens/{id}": record,
		"GET ":                        record, // constructed by the caller, without a route
	} {
		method, route, _ := strings.Cut(request, " ")
		missing := clinicaldoc.Error{StatusCode: http.StatusNotFound, Method: method, Route: route}
		assert.ErrorContains(t, &missing, "404 Not Found: "+advice, request)
	}
}

func TestError_Text_NamesOnlyKnownMediaTypes(t *testing.T) {
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
		_, err := serve(t, call{url: "/user", response: "x",
			answerHeader: map[string]string{"Content-Type": contentType}}).Users.Me(t.Context())
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Contains(t, err.Error(), want, contentType)
		assert.NotContains(t, err.Error(), canary)
	}
}

func TestExplain_CreateAtTheWrongPath(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	client := must(clinicaldoc.NewClient(srv.URL+"/wrong-prefix", srv.Token, over(srv.Transport())))(t)
	_, err := client.Notes.Create(t.Context(), createParams{Name: "CANARY", PatientID: 1, PromptID: 1})
	assertFriendly(t, err, "404 Not Found", "check the base URL's path, and whether patient and prompt exist")
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

// The fake server refuses a filter that it knows by another name.
func TestExplain_UnknownFilter(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(clinicaldoctest.Variant{RefuseUnknownFilter: true}))
	t.Cleanup(srv.Close)
	client := srv.Client(clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "filter[patient]"}))
	_, err := client.Notes.List(t.Context(), listParams{PatientID: 1})
	assertFriendly(t, err, "400 Bad Request", "the list's parameters may have other names; see WithQueryNames")
	assert.NotContains(t, err.Error(), "scheme")
	_, err = client.Notes.Create(t.Context(), createParams{Name: "CANARY"})
	assert.NotContains(t, err.Error(), "WithQueryNames")
}

// Extra holds the members that Message and Fields do not. It also holds message and errors if they do not have the
// described form, or if a field has more messages than Fields keeps.
func TestExtra_OfAnError(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"message":"m","errors":{"name":["required"]}}`:            `null`,
		`{"message":"m","code":"E17","retry":{"after": 5}}`:         `{"code":"E17","retry":{"after":5}}`,
		`{"message":{"text":"m"}}`:                                  `{"message":{"text":"m"}}`,
		`{"message":"m","errors":[{"code":"E17"}]}`:                 `{"errors":[{"code":"E17"}]}`,
		`{"message":"m","errors":{"name":[{"code":"E17"}]}}`:        `{"errors":{"name":[{"code":"E17"}]}}`,
		`{"message":"m","errors":{"name":"required","files.0":[]}}`: `null`,
		`{"message":"m","errors":null}`:                             `null`,
		`{"message":"m","errors":[]}`:                               `null`,
		`{"code":"E17","cut":"of`:                                   `{"code":"E17"}`,
		`<html>`:                                                    `null`,
		`[1]`:                                                       `null`,
		``:                                                          `null`,
		`{"errors":{"name":[` + strings.Repeat(`"m",`, 20) + `"the 21st"]}}`: `{"errors":{"name":[` +
			strings.Repeat(`"m",`, 20) + `"the 21st"]}}`,
	} {
		client := serve(t, call{url: "/v1/progress-notes/7", status: http.StatusUnprocessableEntity, response: body})
		_, err := client.Notes.Get(t.Context(), 7)
		answered := requireAs[*clinicaldoc.Error](t, err)
		assert.Equal(t, object(t, want), answered.Extra, body)
		checkStored(t, *answered)
	}
}
