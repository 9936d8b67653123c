package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// The error names the argument, and says what to pass instead where that is not plain.
func TestNewClient_UnusableArguments_AreRejected(t *testing.T) {
	t.Parallel()
	const (
		address    = "pass the service's address, such as https://"
		onlyThat   = "pass only the address"
		useHTTPS   = "use https, or WithInsecureHTTP"
		separately = "pass the token separately"
		noScheme   = `begins with "Bearer", which the client adds; pass only the token`
		noQuotes   = "is in quotes; pass only the token" // files of variables keep quotes that a shell would remove
	)
	type test struct{ baseURL, token, argument, advice string }
	subtests(t, map[string]test{
		"empty base URL":           {"", testToken, "baseURL", address},
		"no scheme":                {"api.clinic.test", testToken, "baseURL", address},
		"a name and a port":        {"localhost:8790", testToken, "baseURL", address},
		"an IP address and a port": {"127.0.0.1:8790", testToken, "baseURL", address},
		"relative":                 {"/v1", testToken, "baseURL", address},
		"no host":                  {"https://", testToken, "baseURL", address},
		"port without host":        {"https://:443", testToken, "baseURL", address},
		"opaque":                   {"https:api.clinic.test", testToken, "baseURL", address},
		"unparsable":               {"https://api.clinic.test:port", testToken, "baseURL", ""},
		"line break":               {"https://api.clinic.test\n", testToken, "baseURL", ""},
		"surrounding space":        {" https://api.clinic.test", testToken, "baseURL", ""},
		"other scheme":             {"ftp://api.clinic.test", testToken, "baseURL", "want https"},
		"user info":                {"https://user:CANARY@api.clinic.test", testToken, "baseURL", separately},
		"query":                    {"https://api.clinic.test?key=CANARY", testToken, "baseURL", onlyThat},
		"empty query":              {"https://api.clinic.test/?", testToken, "baseURL", onlyThat},
		"fragment":                 {"https://api.clinic.test/#top", testToken, "baseURL", onlyThat},
		"dot segments":             {"https://api.clinic.test/a/../b", testToken, "baseURL", ""},
		"escaped dot segments":     {"https://api.clinic.test/a/%2e%2e/b", testToken, "baseURL", ""},
		"escaped slash":            {"https://api.clinic.test/a%2Fb", testToken, "baseURL", ""},
		"a blank in the path":      {"https://api.clinic.test/a b", testToken, "baseURL", "contains a space"},
		"a blank at the end":       {"https://api.clinic.test/a/ ", testToken, "baseURL", "contains a space"},
		"plain http":               {"http://api.clinic.test", testToken, "baseURL", useHTTPS},
		"plain http, named so":     {"http://localhost.clinic.test", testToken, "baseURL", useHTTPS},
		"empty token":              {testBase, "", "token", ""},
		"token with a line break":  {testBase, "CANARY\n", "token", ""},
		"token outside of ASCII":   {testBase, "CANÁRY", "token", ""},
		"token with a control":     {testBase, "CANARY\x7f", "token", ""},
		"token with a null":        {testBase, "CANARY\x00", "token", ""},
		"token that is only space": {testBase, " ", "token", ""},
		"token with its scheme":    {testBase, "Bearer CANARY", "token", noScheme},
		"the scheme in small":      {testBase, "bearer CANARY", "token", noScheme},
		"the scheme and a space":   {testBase, "Bearer ", "token", noScheme},
		"the scheme alone":         {testBase, "Bearer", "token", noScheme},
		"token in double quotes":   {testBase, `"CANARY"`, "token", noQuotes},
		"token in single quotes":   {testBase, "'CANARY'", "token", noQuotes},
	}, func(t *testing.T, tt test) {
		client, err := clinicaldoc.NewClient(tt.baseURL, tt.token)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Nil(t, client)
		assertFriendly(t, err, tt.argument, tt.advice)
		assert.NotContains(t, err.Error(), "CANÁRY")
	})
	for _, token := range []string{"Bearer-like", `synthetic"`, `"`, `7|"synthetic`} {
		must(clinicaldoc.NewClient(testBase, token))(t)
	}
}

func TestNewClient_PlainHTTPToThisMachine_IsAccepted(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"http://localhost:8080", "http://LOCALHOST", "http://127.0.0.1:1/dev",
		"http://127.9.9.9", "http://[::1]:8080"} {
		client, err := clinicaldoc.NewClient(base, testToken)
		require.NoError(t, err, base)
		assert.Equal(t, strings.ToLower(base), client.BaseURL(),
			"net/http knows localhost in small letters alone: else HTTP_PROXY gets the token")
	}
	must(clinicaldoc.NewClient("http://api.clinic.test", testToken, clinicaldoc.WithInsecureHTTP()))(t)
}

func TestNewClient_TwoKindsOfToken_AreRejected(t *testing.T) {
	t.Parallel()
	source := clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return testToken, nil }))
	_, err := clinicaldoc.NewClient(testBase, testToken, source)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorContains(t, err, "WithTokenSource")
	must(clinicaldoc.NewClient(testBase, "", source))(t)
}

// The environment belongs to the complete process, so this test cannot be parallel.
func TestNewClientFromEnv_ReadsTheEnvironment(t *testing.T) {
	source := clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return testToken, nil }))
	tests := []struct {
		name           string
		baseURL, token string
		opts           []clinicaldoc.Option
		advice         []string // parts of the error; none: no error
	}{
		{"both set", testBase + "/prefix/", testToken, nil, nil},
		{"no base URL", "", "", nil, []string{"CLINICALDOC_BASE_URL", "is empty", "such as https://"}},
		{"bad base URL", "clinic", testToken, nil, []string{"CLINICALDOC_BASE_URL"}},
		{"no token", testBase, "", nil, []string{"CLINICALDOC_TOKEN", "is empty", "pass an access token"}},
		{"a line too many", testBase, "CANARY\n", nil,
			[]string{"CLINICALDOC_TOKEN", "a line break", "copy only the token"}},
		{"a source instead of the token", testBase, "", []clinicaldoc.Option{source}, nil},
		{"a source beside a stale token", testBase, "stale", []clinicaldoc.Option{source}, nil},
		{"bad option", testBase, testToken, []clinicaldoc.Option{clinicaldoc.WithLimiter(nil)},
			[]string{"WithLimiter"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(clinicaldoc.EnvBaseURL, tt.baseURL)
			t.Setenv(clinicaldoc.EnvToken, tt.token)
			if tt.advice != nil {
				client, err := clinicaldoc.NewClientFromEnv(tt.opts...)
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
				assertFriendly(t, err, tt.advice...)
				assert.Nil(t, client)
				return
			}
			_, httpClient := newScript(t,
				call{url: strings.TrimSuffix(tt.baseURL, "/") + "/user", response: `{"id":2}`})
			client := must(clinicaldoc.NewClientFromEnv(append(tt.opts, clinicaldoc.WithHTTPClient(httpClient))...))(t)
			must(client.Users.Me(t.Context()))(t)
		})
	}
}

func TestNewClient_BaseURLForms_GiveOneURL(t *testing.T) {
	t.Parallel()
	for base, prefix := range map[string]string{
		"https://api.clinic.test":            "https://api.clinic.test",
		"https://api.clinic.test/":           "https://api.clinic.test",
		"https://api.clinic.test//":          "https://api.clinic.test",
		"https://api.clinic.test:8443/":      "https://api.clinic.test:8443",
		"https://api.clinic.test/a/prefix":   "https://api.clinic.test/a/prefix",
		"https://api.clinic.test/a/prefix/":  "https://api.clinic.test/a/prefix",
		"https://api.clinic.test/a%20b":      "https://api.clinic.test/a%20b",
		"https://api.clinic.test/pr%C3%A9/":  "https://api.clinic.test/pr%C3%A9",
		"HTTPS://api.clinic.test/Case/Kept/": "https://api.clinic.test/Case/Kept",
		"https://api.clinic.test/pré/":       "https://api.clinic.test/pr%C3%A9",
		"https://api.clinic.test/a(b)'c":     "https://api.clinic.test/a%28b%29%27c",
	} {
		for _, e := range endpoints() {
			t.Run(base+" "+e.operation, func(t *testing.T) {
				t.Parallel()
				want := e.request()
				want.url = prefix + e.path
				_, httpClient := newScript(t, want)
				client := must(clinicaldoc.NewClient(base, testToken, clinicaldoc.WithHTTPClient(httpClient)))(t)
				must(e.call(t.Context(), client))(t)
			})
		}
	}
}

func TestEndpoints_CanceledContext_SendNothing(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		t.Run(e.operation, func(t *testing.T) {
			t.Parallel()
			ctx := endedContext(t)
			client := serve(t)
			value, err := e.call(ctx, client)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			require.ErrorContains(t, err, e.operation)
			assert.Empty(t, value)
		})
	}
}

func TestEndpoints_ContextEnds_End(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		t.Run(e.operation, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			request := e.request()
			request.meanwhile, request.fail = cancel, context.Canceled
			client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 5})},
				request)
			value, err := e.call(ctx, client)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, e.route)
			assert.Empty(t, value)
			// The service has the whole request and may be at work on it.
			assert.Equal(t, e.method != http.MethodGet, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
		})
	}
}

func TestDo_SendsAndDecodes(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "POST", url: "/v1/teams?dry_run=1", body: `{"name":"North"}`,
			header: map[string]string{"X-Tenant": "7"}, status: http.StatusCreated, response: `{"id":5}`},
		call{url: "/v1/teams/5", response: `{"id":5}`},
		call{method: "DELETE", url: "/v1/teams/5", status: http.StatusNoContent},
		call{method: "HEAD", url: "/v1/teams/5"},
		call{method: "PATCH", url: "/v1/teams/a%20b", body: `null`, response: `[]`},
	)
	var team struct{ ID int }
	err := client.Do(t.Context(), http.MethodPost, "/v1/teams", map[string]string{"name": "North"}, &team,
		clinicaldoc.WithQuery("dry_run", "1"), clinicaldoc.WithHeader("X-Tenant", "7"))
	require.NoError(t, err)
	assert.Equal(t, 5, team.ID)

	team.ID = 0
	require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/teams/5", nil, &team))
	assert.Equal(t, 5, team.ID)
	require.NoError(t, client.Do(t.Context(), http.MethodDelete, "/v1/teams/5", nil, nil))
	require.NoError(t, client.Do(t.Context(), http.MethodHead, "/v1/teams/5", nil, nil))
	require.NoError(t, client.Do(t.Context(), http.MethodPatch, "/v1/teams/a b", (*struct{})(nil), nil))
}

func TestDo_PathOutsideTheBaseURL_IsRejected(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "v1/x", "//evil.test/x", "https://evil.test/x", "/v1/x?a=b", "/v1/x#a", "/v1/../x", "/..", "/./x",
		"/v1/%2e%2e/x", `/v1\x`, "/v1/\nx", "/v1/\x7f",
	} {
		err := serve(t).Do(t.Context(), http.MethodGet, path, nil, nil)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "%q", path)
		require.ErrorContains(t, err, "path", "%q", path)
	}
	for _, method := range []string{"", "GET X", "GET\n", strings.Repeat("A", 33)} {
		err := serve(t).Do(t.Context(), method, "/v1/x", nil, nil)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "%q", method)
		require.ErrorContains(t, err, "method", "%q", method)
	}
	err := serve(t).Do(t.Context(), http.MethodPost, "/v1/x", func() {}, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
}

func TestDo_Failures_AreErrors(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/v1/teams/5/Jane-Doe", status: http.StatusNotFound, response: `{"message":"Resource not found"}`},
		call{url: "/v1/teams", response: "<html>secret</html>"},
		call{method: "HEAD", url: "/v1/teams"},
		call{method: "POST", url: "/v1/teams", status: http.StatusBadGateway},
		call{method: "PUT", url: "/v1/teams", status: http.StatusBadGateway},
	)
	err := client.Do(t.Context(), http.MethodGet, "/v1/teams/5/Jane-Doe", nil, nil)
	answered := requireAs[*clinicaldoc.Error](t, err)
	assert.Equal(t, &clinicaldoc.Error{
		StatusCode: http.StatusNotFound, Message: "Resource not found", Operation: "Do", Method: http.MethodGet,
		Route: "/v1/teams/{}/{}",
	}, answered)

	for path, route := range map[string]string{
		"/":                        "/",
		"/v1":                      "/v1",
		"/v1/teams":                "/v1/teams",
		"/v1/teams/":               "/v1/teams/",
		"/v1/teams/jane":           "/v1/teams/{}",
		"/v1/teams/jane/notes/":    "/v1/teams/{}/{}/",
		"/v2.1/team-members/v1/x":  "/v2.1/team-members/{}/{}",
		"/Jane/teams":              "/{}/{}",
		"/patients/garcia":         "/patients/{}",
		"/search/diabetes":         "/search/{}",
		"/v1/4711/teams":           "/v1/{}/{}",
		"/user/tokens/jane/v1/jim": "/user/{}/{}/{}/{}",

		"/v1/" + strings.Repeat("jane", 10):          "/v1/{}",
		"/v1/teams" + strings.Repeat("/jane", 20):    "/v1/teams/{}/{}/{}/{}/{}/{}",
		"/v1/v2/" + strings.Repeat("jane/", 2) + "x": "/v1/{}/{}/{}/{}",
	} {
		err := serve(t, call{url: path, status: http.StatusNotFound}).Do(t.Context(), http.MethodGet, path, nil, nil)
		require.ErrorAs(t, err, &answered)
		assert.Equal(t, route, answered.Route)
	}

	var out map[string]any
	err = client.Do(t.Context(), http.MethodGet, "/v1/teams", nil, &out)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.NotContains(t, err.Error(), "secret")
	require.ErrorIs(t, client.Do(t.Context(), http.MethodHead, "/v1/teams", nil, &out),
		clinicaldoc.ErrUnexpectedResponse)

	// A retried POST could do its work twice, a retried PUT not; both may have done it.
	err = client.Do(t.Context(), http.MethodPost, "/v1/teams", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	unknown := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
	assert.Equal(t, createParams{}, unknown.Params)
	err = client.Do(t.Context(), http.MethodPut, "/v1/teams", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.NotErrorAs(t, err, &unknown)
}

// The caller's template replaces the path wherever it would be shown.
func TestDo_WithRoute_ShowsTheRoute(t *testing.T) {
	t.Parallel()
	var attempt clinicaldoc.Attempt
	observed := onAttempt(func(_ context.Context, a clinicaldoc.Attempt) { attempt = a })
	for template, path := range map[string]string{
		"/v1/teams/{id}/members/{name}": "/v1/teams/5/members/garcia",
		"/patients/{patient_id}":        "/patients/garcia",
		"/v1/a/b/c/":                    "/v1/a/b/c/",
	} {
		client := serveWith(t, []clinicaldoc.Option{observed}, call{url: path, status: http.StatusNotFound})
		err := client.Do(t.Context(), http.MethodGet, path, nil, nil, clinicaldoc.WithRoute(template))
		answered := requireAs[*clinicaldoc.Error](t, err)
		assert.Equal(t, template, answered.Route)
		assert.Contains(t, err.Error(), template)
		assert.Equal(t, template, attempt.Route)
		assert.NotContains(t, err.Error(), "garcia")
	}
	for _, template := range []string{
		"", "/", "/v1/teams", "/v1/teams/{id}/{id}", "/v1/groups/{id}", "v1/teams/{id}", "/v1/teams/{i d}",
		"/v1/teams/{garcía}", "/v1/teams/{}x", "/v1/teams/{id",
	} {
		err := serve(t).Do(t.Context(), http.MethodGet, "/v1/teams/garcia", nil, nil, clinicaldoc.WithRoute(template))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, template)
		assert.NotContains(t, err.Error(), "garcia")
	}
	for _, e := range endpoints() {
		_, err := e.call(t.Context(), serve(t), clinicaldoc.WithRoute(e.route))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, e.operation)
	}
}

// A connection that was idle for long is not used, and nothing of the body is read for it.
func TestDo_ReaderOnAnIdleConnection_IsSentOnAFreshOne(t *testing.T) {
	t.Parallel()
	var sent []byte
	client := clientOver(t, idleThenFresh(t, &sent))
	// shows that the server speaks HTTP/1
	require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/imports", nil, nil))
	readOnce := iotest.HalfReader(strings.NewReader("a synthetic stream"))
	require.NoError(t, client.Do(t.Context(), http.MethodPost, "/v1/imports", readOnce, nil))
	assert.Equal(t, "a synthetic stream", string(sent))
}

// After a failure that may have had its effect, Do repeats only requests that have the same effect if they are sent
// twice.
func TestDo_Retries_OnlyWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	for method, repeated := range map[string]bool{
		http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodPut: true,
		http.MethodDelete: true,
		http.MethodPost:   false, http.MethodPatch: false, "REPORT": false,
	} {
		requests := 0
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			requests++
			return madeResponse(r, http.StatusServiceUnavailable, ""), nil
		}), clinicaldoc.WithRetry(socketPolicy))
		err := client.Do(t.Context(), method, "/v1/teams", nil, nil)
		require.ErrorIs(t, err, clinicaldoc.ErrServer, method)
		assert.Equal(t, repeated, requests > 1, method)
		_, unknown := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
		assert.Equal(t, !repeated, unknown, method)
	}
}

func TestDo_BytesAndReaders_AreSentUnchanged(t *testing.T) {
	t.Parallel()
	type sent struct {
		contentType, body string
		length            int64
	}
	var got []sent
	failures := 0
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		got = append(got, sent{r.Header.Get("Content-Type"), string(body), r.ContentLength})
		if failures--; failures >= 0 {
			return madeResponse(r, http.StatusServiceUnavailable, ""), nil
		}
		return madeResponse(r, http.StatusOK, ""), nil
	}), clinicaldoc.WithRetry(socketPolicy))
	const csv = "id;name\n1;synthetic\n"
	for name, body := range map[string]any{
		"bytes": []byte(csv), "buffer": bytes.NewBufferString(csv), "reader": strings.NewReader(csv),
		"stream": io.MultiReader(strings.NewReader(csv)),
	} {
		length := int64(len(csv))
		if name == "stream" {
			length = -1
		}
		require.NoError(t, client.Do(t.Context(), http.MethodPost, "/v1/imports", body, nil,
			clinicaldoc.WithHeader("content-type", "text/csv")), name)
		assert.Equal(t, []sent{{"text/csv", csv, length}}, got, name)
		got = nil
	}
	require.NoError(t, client.Do(t.Context(), http.MethodPut, "/v1/imports", []byte(csv), nil))
	require.NoError(t, client.Do(t.Context(), http.MethodPut, "/v1/imports", json.RawMessage(`{"a": 1}`), nil))
	require.NoError(t, client.Do(t.Context(), http.MethodPut, "/v1/imports", []byte{}, nil))
	assert.Equal(t, []sent{{"application/octet-stream", csv, int64(len(csv))}, {"application/json", `{"a":1}`, 7},
		{"application/octet-stream", "", 0}}, got)

	// A body that can be read again is sent again. Any other body is not.
	got, failures = nil, 1
	require.NoError(t, client.Do(t.Context(), http.MethodPut, "/v1/imports", strings.NewReader(csv), nil))
	assert.Len(t, got, 2)
	assert.Equal(t, got[0], got[1])
	got, failures = nil, 1
	err := client.Do(t.Context(), http.MethodPut, "/v1/imports", io.MultiReader(strings.NewReader(csv)), nil)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Len(t, got, 1)
	synthetic := errors.New("synthetic")
	unreadable := iotest.ErrReader(synthetic)
	for _, body := range []any{unreadable, struct {
		io.Reader
		oneByte
	}{Reader: unreadable}} {
		err = client.Do(t.Context(), http.MethodPost, "/v1/imports", body, nil)
		require.ErrorIs(t, err, synthetic)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.NotContains(t, err.Error(), "audio")
	}

	for _, body := range []any{nil, map[string]string{}} {
		err := client.Do(t.Context(), http.MethodPost, "/v1/imports", body, nil,
			clinicaldoc.WithHeader("Content-Type", "text/csv"))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
}

// oneByte is the length of a body that tells it.
type oneByte struct{}

func (oneByte) Len() int { return 1 }

// An endpoint that is no note's has nothing to do with FindCreated.
func TestDo_Errors_DoNotMentionNotes(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "POST", url: "/v1/teams", body: `{}`, status: http.StatusCreated, response: `{"id":5,"name":"n"}`})
	err := client.Do(t.Context(), http.MethodPost, "/v1/teams", struct{}{}, new(struct{ ID string }))
	unknown := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
	assert.Zero(t, unknown.NoteID)
	assert.NotContains(t, err.Error(), "Notes.")
	assert.NotContains(t, err.Error(), "note")
}

// keeping keeps the bytes that it is decoded from, as it must not.
type keeping []byte

func (k *keeping) UnmarshalJSON(data []byte) error { *k = data; return nil }

func TestDo_RawBytes_MayBeKept(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/v1/patients/1", response: `{"name":"first"}`},
		call{url: "/v1/patients/2", response: `{"name":"other"}`},
	)
	var first, second keeping
	require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/patients/1", nil, &first))
	require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/patients/2", nil, &second))
	assert.JSONEq(t, `{"name":"first"}`, string(first))
	assert.JSONEq(t, `{"name":"other"}`, string(second))
}

func TestDo_OutThatCannotBeFilled_IsRejected(t *testing.T) {
	t.Parallel()
	type circle []circle
	var stringer fmt.Stringer
	var holdsChan any = new(chan int)
	var holdsHolder any = &holdsChan
	var holdsItself any
	holdsItself = &holdsItself
	var first, second any
	first, second = &second, &first
	for name, out := range map[string]any{
		"chan": new(chan int), "func": new(func()), "complex": new(complex128), "unsafe pointer": new(unsafe.Pointer),
		"interface": &stringer, "pointer to chan": new(*chan int), "list of funcs": new([]func()),
		"any with a pointer to chan": &holdsChan, "any with a pointer to one": &holdsHolder,
		"any with a pointer to itself": &holdsItself, "two that point to each other": &first,
		"array of chans": new([2]chan int), "map of chans": new(map[string]chan int),
		"map by chans": new(map[chan int]string), "map by structs": new(map[struct{ A int }]string),
		"struct": struct{}{}, "number": 7, "map": map[string]any{}, "list": []int{}, "nil": (*struct{})(nil),
	} {
		err := serve(t).Do(t.Context(), http.MethodPost, "/v1/teams", nil, out)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, name)
		assert.Contains(t, err.Error(), "Do: out", name)
	}
	var anything, holdsMap, holdsChanItself any = nil, new(map[string]any), make(chan int)
	var holder fmt.Stringer = &filled{}
	for name, out := range map[string]any{
		"any": &anything, "any with a pointer": &holdsMap, "any with a chan": &holdsChanItself,
		"struct": new(struct{ Rest chan int }), "map": new(map[string]any),
		"map by numbers": new(map[int]string), "map by texts": new(map[clinicaldoc.Stage]int),
		"raw": new(json.RawMessage), "own method": new(filled), "interface with a pointer": &holder,
		"circle": new(circle), "note": new(clinicaldoc.ProgressNote),
	} {
		answer := `{}`
		if name == "circle" {
			answer = `[]`
		}
		client := serve(t, call{method: http.MethodPost, url: "/v1/teams", response: answer})
		require.NoError(t, client.Do(t.Context(), http.MethodPost, "/v1/teams", nil, out), name)
	}
}

// filled reads itself.
type filled struct{ C chan int }

func (*filled) UnmarshalJSON([]byte) error { return nil }
func (*filled) String() string             { return "" }
