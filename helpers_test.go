package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const (
	testBase  = "https://api.clinic.test"
	testToken = "1|synthetic-token"
)

// call is a request that a test expects and the answer it gets.
type call struct {
	method string // GET when empty
	url    string // with its query; a leading slash stands for testBase
	header map[string]string
	body   string
	// checkBody replaces the comparison of body and Content-Type, for bodies with a random boundary.
	checkBody func(t *testing.T, contentType string, body []byte)

	status       int // 200 when 0
	answer       string
	answerHeader map[string]string
	fail         error // instead of an answer
	meanwhile    func()
}

// request returns the call's method and absolute URL.
func (c call) request() (method, url string) {
	method, url = c.method, c.url
	if method == "" {
		method = http.MethodGet
	}
	if strings.HasPrefix(url, "/") {
		url = testBase + url
	}
	return method, url
}

func (c call) String() string {
	method, url := c.request()
	return method + " " + url
}

// script is a mock transport with one responder per expected call, in their order, and nothing else.
type script struct {
	t         *testing.T
	next      atomic.Int64 // the call that may come now
	userAgent string
}

// newScript returns a script and the HTTP client whose requests it responds to. A request that is not the next expected one
// fails the test, and so does a call that did not come by the end.
func newScript(t *testing.T, calls ...call) (*script, *http.Client) {
	t.Helper()
	s := &script{t: t, userAgent: "clinicaldoc-go/" + clinicaldoc.Version}
	transport := httpmock.NewMockTransport()
	transport.RegisterNoResponder(httpmock.NewNotFoundResponder(t.Error))
	for i, c := range calls {
		method, url := c.request()
		// Without the matcher httpmock would ignore a query too many, and serve a call more than once.
		isNext := httpmock.NewMatcher(fmt.Sprintf("call %03d", i), func(req *http.Request) bool {
			return req.URL.String() == url && s.next.CompareAndSwap(int64(i), int64(i+1))
		})
		transport.RegisterMatcherResponder(method, url, isNext, s.responder(c))
	}
	t.Cleanup(func() {
		for _, c := range calls[s.next.Load():] {
			t.Errorf("expected request did not come: %s", c)
		}
	})
	return s, &http.Client{Transport: transport}
}

func (s *script) responder(want call) httpmock.Responder {
	return func(req *http.Request) (*http.Response, error) {
		s.compare(req, want)
		if want.meanwhile != nil {
			want.meanwhile()
		}
		if want.fail != nil {
			return nil, want.fail
		}
		resp := httpmock.NewStringResponse(cmp.Or(want.status, http.StatusOK), want.answer)
		resp.Header.Set("Content-Type", "application/json")
		for key, value := range want.answerHeader {
			resp.Header.Set(key, value)
		}
		return resp, nil
	}
}

// compare holds all of a request against what is expected: a header too many is as wrong as one that is missing.
func (s *script) compare(req *http.Request, want call) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			s.t.Errorf("%s: reading the body: %v", want, err)
		}
		assert.EqualValues(s.t, len(body), req.ContentLength, want)
	}
	headers := map[string]string{
		"Authorization": "Bearer " + testToken,
		"Accept":        "application/json",
		"User-Agent":    s.userAgent,
	}
	if want.checkBody != nil {
		headers["Content-Type"] = req.Header.Get("Content-Type")
		want.checkBody(s.t, req.Header.Get("Content-Type"), body)
	} else {
		if want.body != "" {
			headers["Content-Type"] = "application/json"
		}
		assert.Equal(s.t, want.body, string(body), want)
	}
	maps.Copy(headers, want.header)
	got := map[string]string{}
	for key, values := range req.Header {
		got[key] = strings.Join(values, ", ")
	}
	assert.Equal(s.t, headers, got, want)
}

func (s *script) count() int { return int(s.next.Load()) }

// once keeps tests that are not about retries to one attempt per call.
var once = clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})

// serve returns a client whose requests the calls answer.
func serve(t *testing.T, calls ...call) *clinicaldoc.Client {
	t.Helper()
	return serveWith(t, nil, calls...)
}

func serveWith(t *testing.T, opts []clinicaldoc.Option, calls ...call) *clinicaldoc.Client {
	t.Helper()
	_, httpClient := newScript(t, calls...)
	return clientOn(t, httpClient, opts...)
}

func clientOn(t *testing.T, httpClient *http.Client, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	opts = append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(httpClient), once}, opts...)
	client, err := clinicaldoc.NewClient(testBase, testToken, opts...)
	require.NoError(t, err)
	return client
}

// endpoint is one of the service's ten, for tests of what holds for all of them.
type endpoint struct {
	operation string
	method    string
	route     string
	path      string
	body      string // of the request
	ok        string // an answer that the description allows
	call      func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (any, error)
}

const smallNote = `{"id":7,"name":"Visit","team_id":1,"user_id":2,"created_at":"2024-05-01T10:11:12Z","updated_at":"2024-05-01T10:11:12Z"}`

func endpoints() []endpoint {
	type (
		client = clinicaldoc.Client
		option = clinicaldoc.CallOption
	)
	return []endpoint{
		{"Tokens.List", "GET", "/v1/auth/tokens", "/v1/auth/tokens", "", `{"tokens":[]}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) { return c.Tokens.List(ctx, opts...) }},
		{"Tokens.Revoke", "DELETE", "/v1/auth/tokens/{id}", "/v1/auth/tokens/7", "", `{"message":"Token revoked"}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Tokens.Revoke(ctx, 7, opts...))
			}},
		{"Notes.Create", "POST", "/v1/progress-notes", "/v1/progress-notes", anyBody, smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Visit"}, opts...))
			}},
		{"Notes.List", "GET", "/v1/progress-notes", "/v1/progress-notes", "", `{"data":[],"links":{},"meta":{}}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.List(ctx, clinicaldoc.ListNotesParams{}, opts...))
			}},
		{"Notes.Get", "GET", "/v1/progress-notes/{id}", "/v1/progress-notes/7", "", smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Get(ctx, 7, opts...))
			}},
		{"Notes.Update", "PUT", "/v1/progress-notes/{id}", "/v1/progress-notes/7", `{"name":"New"}`, smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Update(ctx, 7, clinicaldoc.UpdateNoteParams{Name: new("New")}, opts...))
			}},
		{"Notes.Delete", "DELETE", "/v1/progress-notes/{id}", "/v1/progress-notes/7", "", `{"message":"Note deleted"}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Delete(ctx, 7, opts...))
			}},
		{"Notes.Sign", "PUT", "/v1/progress-notes/{id}/sign", "/v1/progress-notes/7/sign", "", smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Sign(ctx, 7, opts...))
			}},
		{"Notes.AudioURL", "GET", "/v1/progress-notes/{id}/audio-url", "/v1/progress-notes/7/audio-url", "", `{"url":"https://storage.clinic.test/7.wav?signature=s"}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.AudioURL(ctx, 7, opts...))
			}},
		{"Users.Me", "GET", "/user", "/user", "", `{"id":2,"name":"Test User","email":"user@clinic.test"}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Users.Me(ctx, opts...))
			}},
	}
}

// anyBody stands for a multipart body, whose boundary is random.
const anyBody = "multipart"

// request returns the endpoint's request, to be answered with its ok answer.
func (e endpoint) request() call {
	c := call{method: e.method, url: e.path, body: e.body, answer: e.ok}
	if e.body == anyBody {
		c.checkBody = func(t *testing.T, contentType string, body []byte) {
			t.Helper()
			assert.True(t, strings.HasPrefix(contentType, "multipart/form-data; boundary="), contentType)
			assert.True(t, bytes.Contains(body, []byte(`form-data; name="name"`)), "the body has the note's name")
		}
	}
	return c
}

// pointer turns a nil pointer into a nil interface, so that a test can tell that nothing was returned.
func pointer[T any](value *T, err error) (any, error) {
	if value == nil {
		return nil, err
	}
	return value, err
}

// keys returns the keys of a JSON object.
func keys(t *testing.T, document string) []string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(document), &fields), document)
	return slices.Collect(maps.Keys(fields))
}
