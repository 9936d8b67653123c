package clinicaldoc_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestNewClientRefusesUnusableArguments(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		baseURL, token string
		names          string // what the error must name
	}{
		"empty base URL":           {"", testToken, "baseURL"},
		"no scheme":                {"api.clinic.test", testToken, "baseURL"},
		"relative":                 {"/v1", testToken, "baseURL"},
		"no host":                  {"https://", testToken, "baseURL"},
		"port without host":        {"https://:443", testToken, "baseURL"},
		"opaque":                   {"https:api.clinic.test", testToken, "baseURL"},
		"unparsable":               {"https://api.clinic.test:port", testToken, "baseURL"},
		"line break":               {"https://api.clinic.test\n", testToken, "baseURL"},
		"surrounding space":        {" https://api.clinic.test", testToken, "baseURL"},
		"other scheme":             {"ftp://api.clinic.test", testToken, "baseURL"},
		"user info":                {"https://user:secret@api.clinic.test", testToken, "baseURL"},
		"query":                    {"https://api.clinic.test?a=b", testToken, "baseURL"},
		"empty query":              {"https://api.clinic.test/?", testToken, "baseURL"},
		"fragment":                 {"https://api.clinic.test/#top", testToken, "baseURL"},
		"dot segments":             {"https://api.clinic.test/a/../b", testToken, "baseURL"},
		"escaped dot segments":     {"https://api.clinic.test/a/%2e%2e/b", testToken, "baseURL"},
		"escaped slash":            {"https://api.clinic.test/a%2Fb", testToken, "baseURL"},
		"plain http":               {"http://api.clinic.test", testToken, "WithInsecureHTTP"},
		"plain http, named so":     {"http://localhost.clinic.test", testToken, "WithInsecureHTTP"},
		"empty token":              {testBase, "", "token"},
		"token with a line break":  {testBase, "secret\n", "token"},
		"token with a space":       {testBase, "Bearer secret", "token"},
		"token outside of ASCII":   {testBase, "sécret", "token"},
		"token with a control":     {testBase, "secret\x7f", "token"},
		"token with a null":        {testBase, "secret\x00", "token"},
		"token that is only space": {testBase, " ", "token"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := clinicaldoc.NewClient(tt.baseURL, tt.token)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			assert.Nil(t, client)
			require.ErrorContains(t, err, tt.names)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestNewClientAcceptsPlainHTTPWhereItIsSafe(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"http://localhost:8080", "http://LOCALHOST", "http://127.0.0.1:1/dev", "http://127.9.9.9", "http://[::1]:8080"} {
		_, err := clinicaldoc.NewClient(base, testToken)
		require.NoError(t, err, base)
	}
	_, err := clinicaldoc.NewClient("http://api.clinic.test", testToken, clinicaldoc.WithInsecureHTTP())
	require.NoError(t, err)
}

type tokenFunc func(context.Context) (string, error)

func (f tokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

type limiterFunc func(context.Context) error

func (f limiterFunc) Wait(ctx context.Context) error { return f(ctx) }

func TestNewClientRefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		option clinicaldoc.Option
		names  string
	}{
		"nil option":            {nil, "option"},
		"nil HTTP client":       {clinicaldoc.WithHTTPClient(nil), "WithHTTPClient"},
		"nil token source":      {clinicaldoc.WithTokenSource(nil), "WithTokenSource"},
		"negative retries":      {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: -1}), "WithRetry"},
		"negative least wait":   {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MinWait: -1}), "WithRetry"},
		"negative longest wait": {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxWait: -1}), "WithRetry"},
		"waits the wrong way":   {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MinWait: 2, MaxWait: 1}), "WithRetry"},
		"nil limiter":           {clinicaldoc.WithLimiter(nil), "WithLimiter"},
		"nil logger":            {clinicaldoc.WithLogger(nil), "WithLogger"},
		"nil observer":          {clinicaldoc.WithObserver(nil), "WithObserver"},
		"equal names":           {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "x", Sort: "x"}), "WithQueryNames"},
		"name equal to default": {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "page"}), "WithQueryNames"},
		"name with a control":   {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Page: "pa\nge"}), "WithQueryNames"},
		"empty user agent":      {clinicaldoc.WithUserAgent(""), "WithUserAgent"},
		"user agent, two lines": {clinicaldoc.WithUserAgent("a\r\nX-Evil: b"), "WithUserAgent"},
		"zero stall timeout":    {clinicaldoc.WithStallTimeout(0), "WithStallTimeout"},
		"negative stall":        {clinicaldoc.WithStallTimeout(-time.Second), "WithStallTimeout"},
		"zero size":             {clinicaldoc.WithMaxResponseSize(0), "WithMaxResponseSize"},
		"negative size":         {clinicaldoc.WithMaxResponseSize(-1), "WithMaxResponseSize"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := clinicaldoc.NewClient(testBase, testToken, tt.option)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.ErrorContains(t, err, tt.names)
			assert.Nil(t, client)
		})
	}
}

func TestOptionsServeSeveralClientsAtOnce(t *testing.T) {
	t.Parallel()
	opts := []clinicaldoc.Option{
		clinicaldoc.WithHTTPClient(&http.Client{}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}), clinicaldoc.WithLogger(slog.New(slog.DiscardHandler)),
		clinicaldoc.WithObserver(func(context.Context, clinicaldoc.Attempt) {}), clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Page: "p"}),
		clinicaldoc.WithUserAgent("a"), clinicaldoc.WithInsecureHTTP(), clinicaldoc.WithStallTimeout(time.Second), clinicaldoc.WithMaxResponseSize(1),
	}
	var workers sync.WaitGroup
	for range 20 {
		workers.Go(func() {
			if _, err := clinicaldoc.NewClient(testBase, testToken, opts...); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
}

func TestNewClientTakesOneKindOfToken(t *testing.T) {
	t.Parallel()
	source := clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return testToken, nil }))
	_, err := clinicaldoc.NewClient(testBase, testToken, source)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorContains(t, err, "WithTokenSource")
	_, err = clinicaldoc.NewClient(testBase, "", source)
	require.NoError(t, err)
}

// The environment belongs to the whole process, so that this test cannot be parallel.
func TestNewClientFromEnv(t *testing.T) {
	source := clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return testToken, nil }))
	tests := []struct {
		name           string
		baseURL, token string
		opts           []clinicaldoc.Option
		names          string // empty: no error
	}{
		{"both set", testBase + "/prefix/", testToken, nil, ""},
		{"no base URL", "", testToken, nil, "CLINICALDOC_BASE_URL"},
		{"bad base URL", "clinic", testToken, nil, "CLINICALDOC_BASE_URL"},
		{"no token", testBase, "", nil, "CLINICALDOC_TOKEN"},
		{"bad token", testBase, "a b", nil, "CLINICALDOC_TOKEN"},
		{"a source instead of the token", testBase, "", []clinicaldoc.Option{source}, ""},
		{"a source beside a stale token", testBase, "stale", []clinicaldoc.Option{source}, ""},
		{"bad option", testBase, testToken, []clinicaldoc.Option{clinicaldoc.WithLimiter(nil)}, "WithLimiter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CLINICALDOC_BASE_URL", tt.baseURL)
			t.Setenv("CLINICALDOC_TOKEN", tt.token)
			if tt.names != "" {
				client, err := clinicaldoc.NewClientFromEnv(tt.opts...)
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
				require.ErrorContains(t, err, tt.names)
				assert.Nil(t, client)
				return
			}
			_, httpClient := newScript(t, call{url: strings.TrimSuffix(tt.baseURL, "/") + "/user", answer: `{"id":2}`})
			client, err := clinicaldoc.NewClientFromEnv(append(tt.opts, clinicaldoc.WithHTTPClient(httpClient))...)
			require.NoError(t, err)
			_, err = client.Users.Me(t.Context())
			require.NoError(t, err)
		})
	}
}

func TestBaseURLForms(t *testing.T) {
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
	} {
		for _, e := range endpoints() {
			t.Run(base+" "+e.operation, func(t *testing.T) {
				t.Parallel()
				want := e.request()
				want.url = prefix + e.path
				_, httpClient := newScript(t, want)
				client, err := clinicaldoc.NewClient(base, testToken, clinicaldoc.WithHTTPClient(httpClient))
				require.NoError(t, err)
				_, err = e.call(t.Context(), client)
				require.NoError(t, err)
			})
		}
	}
}

func TestEveryEndpointRefusesCancelledContext(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		t.Run(e.operation, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			client := serve(t)
			value, err := e.call(ctx, client)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			require.ErrorContains(t, err, e.operation)
			assert.Empty(t, value)
		})
	}
}

func TestEveryEndpointEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		t.Run(e.operation, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			request := e.request()
			request.meanwhile, request.fail = cancel, context.Canceled
			client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 5})}, request)
			value, err := e.call(ctx, client)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, e.route)
			assert.Empty(t, value)
			// The service has the whole request and may be at work on it.
			assert.Equal(t, e.method != http.MethodGet, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
		})
	}
}

func TestEveryEndpointTakesCallOptions(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		t.Run(e.operation, func(t *testing.T) {
			t.Parallel()
			want := e.request()
			want.url += "?include=a+b%26c&include=second"
			want.header = map[string]string{"X-Trace": "one, two", "X-Tenant": "7"}
			want.status = http.StatusAccepted
			want.answerHeader = map[string]string{
				"X-Request-Id": "req-1", "X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "59", "X-RateLimit-Reset": "1714558272", "X-Other": "kept",
			}
			client := serve(t, want)
			var response clinicaldoc.Response
			_, err := e.call(t.Context(), client,
				clinicaldoc.WithQuery("include", "a b&c"), clinicaldoc.WithQuery("include", "second"),
				clinicaldoc.WithHeader("x-trace", "one"), clinicaldoc.WithHeader("X-Trace", "two"), clinicaldoc.WithHeader("X-Tenant", "7"),
				clinicaldoc.WithoutRetry(), clinicaldoc.WithResponse(&response))
			require.NoError(t, err)
			assert.Equal(t, "kept", response.Header.Get("X-Other"))
			response.Header = nil
			assert.Equal(t, clinicaldoc.Response{
				StatusCode: http.StatusAccepted, RequestID: "req-1", Attempts: 1, Body: []byte(e.ok),
				RateLimit: clinicaldoc.RateLimit{Limit: 60, Remaining: 59, Reset: time.Date(2024, 5, 1, 10, 11, 12, 0, time.UTC)},
			}, response)
		})
	}
}

func TestInvalidCallOptionsAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		option clinicaldoc.CallOption
		names  string
	}{
		"nil option":           {nil, "option"},
		"nil response":         {clinicaldoc.WithResponse(nil), "WithResponse"},
		"empty query key":      {clinicaldoc.WithQuery("", "x"), "WithQuery"},
		"empty header key":     {clinicaldoc.WithHeader("", "x"), "WithHeader"},
		"header key of words":  {clinicaldoc.WithHeader("two words", "x"), "WithHeader"},
		"header with a break":  {clinicaldoc.WithHeader("X-A", "x\r\nX-B: y"), "WithHeader"},
		"header with a delete": {clinicaldoc.WithHeader("X-A", "x\x7f"), "WithHeader"},
	}
	for _, own := range []string{
		"accept", "Accept-Encoding", "authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "EXPECT", "host",
		"Idempotency-Key", "X-Idempotency-Key", "Proxy-Authorization", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-HTTP-Method-Override",
	} {
		tests["own header "+own] = struct {
			option clinicaldoc.CallOption
			names  string
		}{clinicaldoc.WithHeader(own, "x"), http.CanonicalHeaderKey(own)}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t)
			for _, e := range endpoints() {
				_, err := e.call(t.Context(), client, tt.option)
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, e.operation)
				require.ErrorContains(t, err, tt.names, e.operation)
			}
			for note, err := range client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{}, tt.option) {
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
				assert.Nil(t, note)
			}
		})
	}
}

func TestUserAgentIsReplaced(t *testing.T) {
	t.Parallel()
	s, httpClient := newScript(t, call{url: "/user", answer: `{"id":2}`})
	s.userAgent = "ward-app/3 (test)"
	client := clientOn(t, httpClient, clinicaldoc.WithUserAgent("ward-app/3 (test)"))
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
}

// contextKey marks a context, so that a test can see that it is handed on.
type contextKey struct{}

func TestTokenSourceIsAskedForEachCall(t *testing.T) {
	t.Parallel()
	_, httpClient := newScript(t,
		call{url: "/user", answer: `{"id":2}`, header: map[string]string{"Authorization": "Bearer token-1"}},
		call{url: "/user", answer: `{"id":2}`, header: map[string]string{"Authorization": "Bearer token-2"}},
	)
	asked := 0
	client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(httpClient),
		clinicaldoc.WithTokenSource(tokenFunc(func(ctx context.Context) (string, error) {
			assert.Equal(t, "call", ctx.Value(contextKey{}))
			asked++
			return "token-" + string(rune('0'+asked)), nil
		})))
	require.NoError(t, err)
	assert.Zero(t, asked, "NewClient asks nothing")
	for range 2 {
		_, err = client.Users.Me(context.WithValue(t.Context(), contextKey{}, "call"))
		require.NoError(t, err)
	}
}

func TestTokenSourceFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("vault says secret")
	tests := map[string]struct {
		token string
		err   error
		match error
	}{
		"error":            {"", broken, broken},
		"empty token":      {"", nil, clinicaldoc.ErrInvalidArgument},
		"unsendable token": {"secret\n", nil, clinicaldoc.ErrInvalidArgument},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, httpClient := newScript(t)
			client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(httpClient),
				clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return tt.token, tt.err })))
			require.NoError(t, err)
			for _, e := range endpoints() {
				_, err = e.call(t.Context(), client)
				require.ErrorIs(t, err, tt.match, e.operation)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, e.operation)
				assert.NotContains(t, err.Error(), "secret", e.operation)
				assert.Contains(t, err.Error(), "token source", e.operation)
			}
		})
	}
}

func TestLimiterIsAskedBeforeEachCall(t *testing.T) {
	t.Parallel()
	s, httpClient := newScript(t, call{url: "/user", answer: `{"id":2}`})
	refuse := errors.New("budget of secret spent")
	waits := 0
	client := clientOn(t, httpClient, clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error {
		assert.Equal(t, waits, s.count(), "the limiter comes before the request")
		if waits++; waits > 1 {
			return refuse
		}
		return nil
	})))
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
	_, err = client.Users.Me(t.Context())
	require.ErrorIs(t, err, refuse)
	require.ErrorContains(t, err, "limiter")
	assert.NotContains(t, err.Error(), "secret")
	assert.Equal(t, 2, waits, "a refusal is not repeated")
}

func TestHTTPClientIsCopied(t *testing.T) {
	t.Parallel()
	_, httpClient := newScript(t, call{url: "/user", answer: `{"id":2}`})
	httpClient.Timeout = time.Minute
	before := *httpClient
	client := clientOn(t, httpClient)
	assert.Equal(t, before, *httpClient)
	httpClient.Transport = nil // a later change does not reach the client
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
}

func TestAnswersBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	answer := `{"id":2,"name":"` + strings.Repeat("x", 100) + `"}`
	size := int64(len(answer))
	client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithMaxResponseSize(size)}, call{url: "/user", answer: answer})
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)

	client = serveWith(t, []clinicaldoc.Option{clinicaldoc.WithMaxResponseSize(size - 1)}, call{url: "/user", answer: answer})
	var response clinicaldoc.Response
	_, err = client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorContains(t, err, "WithMaxResponseSize")
	assert.Len(t, response.Body, int(size-1))
}

func TestDoSendsAndDecodes(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "POST", url: "/v1/teams?dry_run=1", body: `{"name":"North"}`, header: map[string]string{"X-Tenant": "7"}, status: http.StatusCreated, answer: `{"id":5}`},
		call{url: "/v1/teams/5", answer: `{"id":5}`},
		call{method: "DELETE", url: "/v1/teams/5", status: http.StatusNoContent},
		call{method: "HEAD", url: "/v1/teams/5"},
		call{method: "PATCH", url: "/v1/teams/a%20b", body: `null`, answer: `[]`},
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

func TestDoRefusesWhatWouldLeaveTheBaseURL(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "v1/x", "//evil.test/x", "https://evil.test/x", "/v1/x?a=b", "/v1/x#a", "/v1/../x", "/..", "/./x", "/v1/%2e%2e/x", `/v1\x`, "/v1/\nx", "/v1/\x7f",
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

func TestDoErrors(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/v1/teams/5/Jane-Doe", status: http.StatusNotFound, answer: `{"message":"Resource not found"}`},
		call{url: "/v1/teams", answer: "<html>secret</html>"},
		call{method: "HEAD", url: "/v1/teams"},
		call{method: "POST", url: "/v1/teams", status: http.StatusBadGateway},
		call{method: "PUT", url: "/v1/teams", status: http.StatusBadGateway},
	)
	err := client.Do(t.Context(), http.MethodGet, "/v1/teams/5/Jane-Doe", nil, nil)
	var answered *clinicaldoc.Error
	require.ErrorAs(t, err, &answered)
	assert.Equal(t, &clinicaldoc.Error{
		StatusCode: http.StatusNotFound, Message: "Resource not found", Operation: "Do", Method: http.MethodGet, Route: "/v1/teams/{}/{}",
	}, answered)

	for path, route := range map[string]string{
		"/":                        "/",
		"/v1":                      "/v1",
		"/v1/teams":                "/v1/teams",
		"/v1/teams/":               "/v1/teams/",
		"/v1/teams/jane":           "/v1/teams/{}",
		"/v1/teams/jane/notes/":    "/v1/teams/{}/{}/",
		"/v2.1/team-members/v1/x":  "/v2.1/team-members/{}/{}",
		"/Jane/teams":              "/{}/teams",
		"/v1/4711/teams":           "/v1/{}/{}",
		"/user/tokens/jane/v1/jim": "/user/tokens/{}/{}/{}",
	} {
		err := serve(t, call{url: path, status: http.StatusNotFound}).Do(t.Context(), http.MethodGet, path, nil, nil)
		require.ErrorAs(t, err, &answered)
		assert.Equal(t, route, answered.Route)
	}

	var out map[string]any
	err = client.Do(t.Context(), http.MethodGet, "/v1/teams", nil, &out)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.NotContains(t, err.Error(), "secret")
	require.ErrorIs(t, client.Do(t.Context(), http.MethodHead, "/v1/teams", nil, &out), clinicaldoc.ErrUnexpectedResponse)

	// A retried POST could do its work twice, a retried PUT not; both may have done it.
	err = client.Do(t.Context(), http.MethodPost, "/v1/teams", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	var unknown *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, clinicaldoc.CreateNoteParams{}, unknown.Params)
	err = client.Do(t.Context(), http.MethodPut, "/v1/teams", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.NotErrorAs(t, err, &unknown)
}

func TestLoggerAndObserverAllowList(t *testing.T) {
	t.Parallel()
	const canary = "Canary"
	var text, encoded strings.Builder
	var seen []clinicaldoc.Attempt
	log := slog.New(slog.NewMultiHandler(
		slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}),
		slog.NewJSONHandler(&encoded, &slog.HandlerOptions{Level: slog.LevelDebug}),
	))
	path := "/v1/progress-notes/7"
	requestID := map[string]string{"X-Request-Id": "req-9", "X-Debug": canary}
	rows := `[{"id":1,"patient_id":4711},{"id":2,"patient_id":4711}]`
	note := `{"id":7,"name":"` + canary + `","patient":{"id":4711,"name":"` + canary + `"}}`
	body := `{"name":"` + canary + `"}`
	client := serveWith(t, []clinicaldoc.Option{
		clinicaldoc.WithLogger(log),
		clinicaldoc.WithObserver(func(ctx context.Context, a clinicaldoc.Attempt) {
			assert.Equal(t, "call", ctx.Value(contextKey{}))
			seen = append(seen, a)
		}),
	},
		call{method: "PUT", url: path + "?q=" + canary, body: body, header: map[string]string{"X-Custom": canary}, answer: note, answerHeader: requestID},
		call{url: path, status: http.StatusUnprocessableEntity, answer: `{"message":"` + canary + `","errors":{"name":["` + canary + `"],"` + canary + ` x":[]}}`},
		call{url: path, fail: &url.Error{Op: "Get", URL: "https://" + canary, Err: errors.New(canary)}},
		call{url: path, answer: `{"id":7,"name":` + canary + `}`, answerHeader: map[string]string{"X-Request-Id": "two words " + canary, "Content-Type": canary + " x"}},
		call{url: "/v1/progress-notes?cursor=" + canary + "&patient_id=4711&per_page=1", answer: rows},
	)
	ctx := context.WithValue(t.Context(), contextKey{}, "call")
	_, err := client.Notes.Update(ctx, 7, clinicaldoc.UpdateNoteParams{Name: new(canary)}, clinicaldoc.WithQuery("q", canary), clinicaldoc.WithHeader("X-Custom", canary))
	require.NoError(t, err)
	for range 3 {
		_, err = client.Notes.Get(ctx, 7)
		require.Error(t, err)
	}
	_, err = client.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: 4711, PerPage: 1, Cursor: canary})
	require.NoError(t, err)

	for i := range seen {
		assert.Positive(t, seen[i].Duration)
		seen[i].Duration = 0
	}
	require.Len(t, seen, 5)
	require.ErrorIs(t, seen[1].Err, clinicaldoc.ErrValidation)
	require.Error(t, seen[2].Err)
	assert.Contains(t, seen[2].Err.Error(), "no response")
	seen[1].Err, seen[2].Err = nil, nil
	get := clinicaldoc.Attempt{Operation: "Notes.Get", Method: http.MethodGet, Route: "/v1/progress-notes/{id}", Number: 1}
	invalid, lost, garbled := get, get, get
	invalid.StatusCode, invalid.BytesReceived = http.StatusUnprocessableEntity, seen[1].BytesReceived
	garbled.StatusCode, garbled.BytesReceived = http.StatusOK, seen[3].BytesReceived
	assert.Positive(t, invalid.BytesReceived)
	assert.Equal(t, []clinicaldoc.Attempt{
		{
			Operation: "Notes.Update", Method: http.MethodPut, Route: "/v1/progress-notes/{id}", Number: 1, StatusCode: http.StatusOK,
			RequestID: "req-9", BytesSent: int64(len(body)), BytesReceived: int64(len(note)),
		},
		invalid, lost, garbled,
		{Operation: "Notes.List", Method: http.MethodGet, Route: "/v1/progress-notes", Number: 1, StatusCode: http.StatusOK, BytesReceived: int64(len(rows))},
	}, seen)

	for _, out := range []string{text.String(), encoded.String()} {
		assert.NotContains(t, out, canary)
		assert.NotContains(t, out, "4711")
		assert.NotContains(t, out, testToken)
		assert.Contains(t, out, "req-9")
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	require.Len(t, lines, 6)
	assert.Contains(t, lines[0], "level=DEBUG")
	assert.Contains(t, lines[1], "level=WARN")
	assert.Contains(t, lines[1], "fields: name]")
	assert.Contains(t, lines[2], "level=WARN")
	assert.Contains(t, lines[5], "ignored the page size")
	allowed := []string{"time", "level", "msg", "operation", "method", "route", "attempt", "status", "duration", "request_id", "bytes_sent", "bytes_received", "error", "asked", "rows"}
	for line := range strings.Lines(encoded.String()) {
		assert.Subset(t, allowed, keys(t, line))
	}
}
