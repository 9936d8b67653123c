package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	response     string
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
		resp := httpmock.NewStringResponse(cmp.Or(want.status, http.StatusOK), want.response)
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
	c := call{method: e.method, url: e.path, body: e.body, response: e.ok}
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

// roundTripper is a transport within this process. It knows nothing of httptrace.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fuzzClient is a client whose requests get the answer, each one once.
func fuzzClient(t *testing.T, answer roundTripper, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	opts = append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: answer}), once}, opts...)
	client, err := clinicaldoc.NewClient(testBase, testToken, opts...)
	require.NoError(t, err)
	return client
}

// answerWith answers everything alike.
func answerWith(status int, contentType string, body []byte) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		}, nil
	}
}

type tokenFunc func(context.Context) (string, error)

func (f tokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

type limiterFunc func(context.Context) error

func (f limiterFunc) Wait(ctx context.Context) error { return f(ctx) }

// refusing is a client whose every request meets the error.
func refusing(t *testing.T, err error, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return clientOn(t, &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, err })}, opts...)
}

var blanks = strings.Repeat(" ", 32<<10)

// endlessBody counts what is read of it.
type endlessBody struct{ read int64 }

func (b *endlessBody) Read(p []byte) (int, error) {
	n := copy(p, blanks)
	b.read += int64(n)
	return n, nil
}

func (b *endlessBody) Close() error { return nil }

// get reads one note out of an answer of the service.
func get(t *testing.T, answer string) (*clinicaldoc.ProgressNote, error) {
	t.Helper()
	client := serve(t, call{url: "/v1/progress-notes/7", response: answer})
	return client.Notes.Get(t.Context(), 7)
}

// withField is a note with one more field.
func withField(field string) string { return `{"id":7,` + field + `}` }

// object is the Object that a JSON value reads as.
func object(t *testing.T, document string) clinicaldoc.Object {
	t.Helper()
	var o clinicaldoc.Object
	require.NoError(t, o.UnmarshalJSON([]byte(document)))
	return o
}

// fullNote has every field of the description, each with a value of its own.
const fullNote = `{
	"id": 7,
	"name": "Synthetic visit",
	"transcription": "Doctor: how are you?\nPatient: \u00e9 <fine> & well",
	"analysis": "Nothing to see",
	"template": {"id": 11, "name": "SOAP", "description": "Four parts"},
	"patient": {"id": 4711, "name": "Test Patient", "tags": ["a", "b"]},
	"audio": {
		"duration": 61.25, "bitrate": 128000, "size": 980123,
		"uploaded_at": "2024-05-01T10:00:01.000001Z", "expires_at": "2024-06-01T10:00:02Z",
		"file_url": "https:\/\/storage.clinic.test\/7.wav?signature=s"
	},
	"has": {"content": true, "transcription": true, "signed": false},
	"team_id": 21,
	"user_id": 22,
	"user": {"id": 22, "name": "Test User"},
	"transcription_started_at": "2024-05-01T10:00:03Z",
	"transcription_completed_at": "2024-05-01T10:00:04Z",
	"analysis_started_at": "2024-05-01T10:00:05Z",
	"analysis_completed_at": "2024-05-01T10:00:06Z",
	"error_state": "none to speak of",
	"created_at": "2024-05-01T10:00:07.123456Z",
	"updated_at": "2024-05-01T12:00:08+02:00"
}`

func moment(second, nanosecond int) time.Time {
	return time.Date(2024, 5, 1, 10, 0, second, nanosecond, time.UTC)
}

// describedNote has every described member, and texts that must be unescaped; richNote has one more.
const (
	describedNote = "{" + describedMembers + "}"
	richNote      = "{" + describedMembers + `,"undescribed":[1,{}]}`

	describedMembers = `"id":7,"name":"Synthetic note","transcription":"Line one\nline two of a caf\u00e9 on 1\/2","analysis":"\"Quoted\" and invented",` +
		`"template":{"id":3,"name":"Example","description":"History\/plan"},"patient":{"id":7,"reference":"synthetic"},` +
		`"audio":{"duration":12.5,"bitrate":128000,"size":200000,"uploaded_at":"2024-05-01T10:11:12.000000Z",` +
		`"expires_at":"2024-05-31T10:11:12.000000Z","file_url":"https:\/\/storage.example.invalid\/7.wav"},` +
		`"has":{"content":true,"transcription":true,"signed":false},"team_id":1,"user_id":2,"user":{"id":2},` +
		`"transcription_started_at":"2024-05-01T10:11:13.000000Z","transcription_completed_at":"2024-05-01T10:11:20.000000Z",` +
		`"analysis_started_at":"2024-05-01T10:11:21.000000Z","analysis_completed_at":"2024-05-01T10:11:30.000000Z",` +
		`"error_state":null,"created_at":"2024-05-01T10:11:12.000000Z","updated_at":"2024-05-01T10:11:30.000000Z"`
)

const notesPath = "/v1/progress-notes"

// rows is a JSON array of notes with these ids, all of patient 4711.
func rows(ids ...int) string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, fmt.Sprintf(`{"id":%d,"patient":{"id":4711}}`, id))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// collect ranges to the end and returns the ids and the error that ended it.
func collect(t *testing.T, notes iter.Seq2[*clinicaldoc.ProgressNote, error]) ([]int64, error) {
	t.Helper()
	var ids []int64
	var failure error
	for note, err := range notes {
		require.NoError(t, failure, "nothing comes after an error")
		if err != nil {
			assert.Nil(t, note)
			failure = err
			continue
		}
		require.NotNil(t, note)
		ids = append(ids, note.ID)
	}
	return ids, failure
}

// pagedCall expects a request for one page.
func pagedCall(query, answer string) call { return call{url: notesPath + query, response: answer} }

// warnings returns a client option whose log lines, at Warn and above, are read with the function.
func warnings(t *testing.T) (option clinicaldoc.Option, read func() []map[string]any) {
	t.Helper()
	var lines bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return clinicaldoc.WithLogger(logger), func() []map[string]any {
		assert.NotContains(t, lines.String(), "secret")
		var read []map[string]any
		for line := range bytes.Lines(lines.Bytes()) {
			var attributes map[string]any
			require.NoError(t, json.Unmarshal(line, &attributes))
			read = append(read, attributes)
		}
		return read
	}
}

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

// contextKey marks a context, so that a test can see that it is handed on.
type contextKey struct{}
