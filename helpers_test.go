package clinicaldoc_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const (
	testBase  = "https://api.clinic.test"
	testToken = "1|synthetic-token"
)

// The parameters of calls, which most tests pass.
type (
	createParams   = clinicaldoc.CreateNoteParams
	updateParams   = clinicaldoc.UpdateNoteParams
	listParams     = clinicaldoc.ListNotesParams
	waitParams     = clinicaldoc.WaitParams
	downloadParams = clinicaldoc.DownloadParams
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

// newScript returns a script and the HTTP client whose requests it responds to. A request that is not the next expected
// one fails the test, and so does a call that did not come by the end.
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
		"Cache-Control": "no-cache",
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

// subtests runs each case in parallel, as a subtest of its name.
func subtests[T any](t *testing.T, cases map[string]T, run func(t *testing.T, tt T)) {
	t.Helper()
	for name, tt := range cases {
		subtest(t, name, func(t *testing.T) { run(t, tt) })
	}
}

// subtest is one subtest, in parallel.
func subtest(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t)
	})
}

// timedSubtests is subtests in virtual time.
func timedSubtests[T any](t *testing.T, cases map[string]T, run func(t *testing.T, tt T)) {
	t.Helper()
	for name, tt := range cases {
		timedSubtest(t, name, func(t *testing.T) { run(t, tt) })
	}
}

// timedSubtest is one subtest, in parallel and in virtual time.
func timedSubtest(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	subtest(t, name, func(t *testing.T) { synctest.Test(t, run) })
}

// must returns what a call returns that has to succeed: must(client.Users.Me(ctx))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// requireAs returns the error of that type in err's chain.
func requireAs[E error](t *testing.T, err error) E {
	t.Helper()
	found, ok := errors.AsType[E](err)
	require.True(t, ok, "%v", err)
	return found
}

// named returns cases whose names are their values.
func named[T any](values ...T) map[string]T {
	cases := map[string]T{}
	for _, value := range values {
		cases[fmt.Sprint(value)] = value
	}
	return cases
}

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
	client := must(clinicaldoc.NewClient(testBase, testToken, opts...))(t)
	return client
}

// over is the option of a client whose requests the transport answers.
func over(transport http.RoundTripper) clinicaldoc.Option {
	return clinicaldoc.WithHTTPClient(&http.Client{Transport: transport})
}

// endpoint is one of the service's, for tests of what holds for all of them.
type endpoint struct {
	operation string
	method    string
	route     string
	path      string
	body      string // of the request
	ok        string // an answer that the description allows
	call      func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (any, error)
}

const smallNote = `{"id":7,"name":"Visit","team_id":1,"user_id":2,` +
	`"created_at":"2024-05-01T10:11:12Z","updated_at":"2024-05-01T10:11:12Z"}`

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
				return pointer(c.Notes.Create(ctx, createParams{Name: "Visit"}, opts...))
			}},
		{"Notes.List", "GET", "/v1/progress-notes", "/v1/progress-notes", "", `{"data":[],"links":{},"meta":{}}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.List(ctx, listParams{}, opts...))
			}},
		{"Notes.Get", "GET", "/v1/progress-notes/{id}", "/v1/progress-notes/7", "", smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Get(ctx, 7, opts...))
			}},
		{"Notes.Update", "PUT", "/v1/progress-notes/{id}", "/v1/progress-notes/7", `{"name":"New"}`, smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Update(ctx, 7, updateParams{Name: new("New")}, opts...))
			}},
		{"Notes.Delete", "DELETE", "/v1/progress-notes/{id}", "/v1/progress-notes/7", "", `{"message":"Note deleted"}`,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Delete(ctx, 7, opts...))
			}},
		{"Notes.Sign", "PUT", "/v1/progress-notes/{id}/sign", "/v1/progress-notes/7/sign", "", smallNote,
			func(ctx context.Context, c *client, opts ...option) (any, error) {
				return pointer(c.Notes.Sign(ctx, 7, opts...))
			}},
		{"Notes.AudioURL", "GET", "/v1/progress-notes/{id}/audio-url", "/v1/progress-notes/7/audio-url", "",
			`{"url":"https://storage.clinic.test/7.wav?signature=s"}`,
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

// clientOver is a client whose requests the transport answers, each one once.
func clientOver(t *testing.T, transport http.RoundTripper, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return clientOn(t, &http.Client{Transport: transport}, opts...)
}

// answerWith answers everything alike.
func answerWith(status int, contentType string, body []byte) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(bytes.NewReader(body)), Request: r,
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
	return clientOver(t, roundTripper(func(*http.Request) (*http.Response, error) { return nil, err }), opts...)
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
func withField(field string) string { return `{"id":7,"name":"n",` + field + `}` }

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

	describedMembers = `"id":7,"name":"Synthetic note","transcription":"Line one\nline two of a caf\u00e9 on 1\/2",` +
		`"analysis":"\"Quoted\" and invented",` +
		`"template":{"id":3,"name":"Example","description":"History\/plan"},"patient":{"id":7,"reference":"synthetic"},` +
		`"audio":{"duration":12.5,"bitrate":128000,"size":200000,"uploaded_at":"2024-05-01T10:11:12.000000Z",` +
		`"expires_at":"2024-05-31T10:11:12.000000Z","file_url":"https:\/\/storage.example.invalid\/7.wav"},` +
		`"has":{"content":true,"transcription":true,"signed":false},"team_id":1,"user_id":2,"user":{"id":2},` +
		`"transcription_started_at":"2024-05-01T10:11:13.000000Z",` +
		`"transcription_completed_at":"2024-05-01T10:11:20.000000Z",` +
		`"analysis_started_at":"2024-05-01T10:11:21.000000Z","analysis_completed_at":"2024-05-01T10:11:30.000000Z",` +
		`"error_state":null,"created_at":"2024-05-01T10:11:12.000000Z","updated_at":"2024-05-01T10:11:30.000000Z"`
)

const notesPath = "/v1/progress-notes"

// rows is a JSON array of notes with these ids, all of patient 4711.
func rows(ids ...int) string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, fmt.Sprintf(`{"id":%d,"name":"n","patient":{"id":4711}}`, id))
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
	answered := requireAs[*clinicaldoc.Error](t, err)
	return answered
}

// contextKey marks a context, so that a test can see that it is handed on.
type contextKey struct{}

// No test may leave a goroutine behind: a leaked one would hold a patient's audio or a connection.
func TestMain(m *testing.M) {
	// the heap is small, so that the collector would run without end
	debug.SetGCPercent(400)
	if err := flag.Set("test.parallel", "8"); err != nil { // some wait for time to pass
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// audioServer is a service with one recording in a storage of its own, both on real sockets.
type audioServer struct {
	data []byte
	etag string
	note string // the note's JSON

	// answer answers the n-th request to storage, counted from 1; nil, or false from it: as usual.
	answer func(n int, w http.ResponseWriter, r *http.Request) bool

	api, storage *httptest.Server
	mu           sync.Mutex
	requests     []*http.Request // to storage
	addresses    int             // given out; only the latest is good
	reads        int             // of the note
}

const signature = "SYNTHETIC-SIGNATURE"

func newAudioServer(t *testing.T, size int) *audioServer {
	t.Helper()
	a := &audioServer{data: syntheticAudio(size).bytes(), etag: `"synthetic-1"`, note: socketNote(7)}
	a.storage = httptest.NewServer(http.HandlerFunc(a.serveStorage))
	t.Cleanup(a.storage.Close)
	a.api = httptest.NewServer(http.HandlerFunc(a.serveAPI))
	t.Cleanup(a.api.Close)
	return a
}

func (a *audioServer) serveAPI(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/audio-url") {
		a.addresses++
		fmt.Fprintf(w, `{"url":"%s/audio/7?address=%d&X-Amz-Signature=%s"}`, a.storage.URL, a.addresses, signature)
		return
	}
	a.reads++
	_, _ = io.WriteString(w, a.note)
}

func (a *audioServer) serveStorage(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r)
	n, latest, answer := len(a.requests), fmt.Sprint(a.addresses), a.answer
	a.mu.Unlock()
	if answer != nil && answer(n, w, r) {
		return
	}
	if r.URL.Query().Get("address") != latest {
		expired(w)
		return
	}
	a.serve(w, r)
}

// serve gives the recording as S3 does.
func (a *audioServer) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "audio/wav")
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
}

// serveWhole gives the recording as a storage does that knows no ranges.
func (a *audioServer) serveWhole(w http.ResponseWriter, r *http.Request) {
	r.Header.Del("Range")
	a.serve(w, r)
}

// expired is the answer to an address that is too old.
func expired(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w,
		`<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`)
}

// cutWriter drops the connection once so many bytes of the body are out.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	_, _ = w.ResponseWriter.Write(p[:n])
	w.left -= n
	if n < len(p) {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// cut serves the recording up to the n-th byte of the answer and drops the connection.
func (a *audioServer) cut(w http.ResponseWriter, r *http.Request, n int) {
	a.serve(&cutWriter{w, n}, r)
}

func (a *audioServer) client(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return socketClient(t, a.api.URL, opts...)
}

// download downloads the recording, and downloadFile to a file.
func (a *audioServer) download(t *testing.T, w io.Writer) (int64, error) {
	t.Helper()
	return a.client(t).Notes.DownloadAudio(socketContext(t), 7, w, downloadParams{})
}

func (a *audioServer) downloadFile(t *testing.T, path string) (int64, error) {
	t.Helper()
	return a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, downloadParams{})
}

// requireDownload demands that a download gives the recording to a writer that cannot be rewound.
func (a *audioServer) requireDownload(t *testing.T) {
	t.Helper()
	var got bytes.Buffer
	n := must(a.download(t, &got))(t)
	assert.Equal(t, int64(len(a.data)), n)
	assert.True(t, bytes.Equal(a.data, got.Bytes()), "the recording's bytes")
}

// cutOnce makes the first response break off after so many bytes.
func (a *audioServer) cutOnce(n int) {
	a.answer = firstly(func(w http.ResponseWriter, r *http.Request) { a.cut(w, r, n) })
}

// every answers all requests so.
func every(answer func(w http.ResponseWriter, r *http.Request)) func(int, http.ResponseWriter, *http.Request) bool {
	return func(_ int, w http.ResponseWriter, r *http.Request) bool {
		answer(w, r)
		return true
	}
}

// firstly answers the first request so, and the others as usual.
func firstly(answer func(w http.ResponseWriter, r *http.Request)) func(int, http.ResponseWriter, *http.Request) bool {
	return func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			answer(w, r)
		}
		return n == 1
	}
}

// seen returns the requests that storage has seen.
func (a *audioServer) seen() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *audioServer) ranges() []string {
	var ranges []string
	for _, r := range a.seen() {
		ranges = append(ranges, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	}
	return ranges
}

func fileContent(t *testing.T, path string) []byte {
	t.Helper()
	b := must(os.ReadFile(path))(t)
	return b
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// fileNames lists a directory.
func fileNames(t *testing.T, path string) []string {
	t.Helper()
	entries := must(os.ReadDir(path))(t)
	list := []string{}
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

// storageAt answers for the service that a recording lies there, and lets all else through.
func storageAt(address string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.String(), testBase) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"id":7,"url":"` +
				address + "/" + canary + "?signature=" + canary + `"}`))}, nil
		}
		transport := &http.Transport{DisableKeepAlives: true}
		return transport.RoundTrip(r)
	}
}

// canary stands in every field that may hold a secret or a patient's data; secretPatient in every number that names a
// patient. No clock and no counter shows that number by accident.
const (
	canary              = "CANARY"
	secretPatient int64 = 8_765_432_109_876_543
)

// spellings are the forms in which a canary may appear, in lower case: unchanged, as digits, in hex, as a list of
// bytes, or in base64 at any alignment. X-Amz- and /audio/ stand for the fake server's own signed addresses.
var spellings = sync.OnceValue(func() []string {
	list := []string{
		strings.ToLower(canary), fmt.Sprintf("%x", canary), fmt.Sprintf("% x", canary), fmt.Sprintf("%# x", canary),
		strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(canary)), "[]byte{"), "}"),
		fmt.Sprint(secretPatient), fmt.Sprintf("%x", secretPatient), "x-amz-", "/audio/",
	}
	for shift := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + canary + "xx"))
		list = append(list, strings.ToLower(whole[4*((shift+2)/3):4*((shift+len(canary))/3)]))
	}
	return list
})

// leak returns the spelling of a canary that a text holds, or nothing.
func leak(text string) string {
	text = strings.ToLower(text)
	for _, spelling := range spellings() {
		if strings.Contains(text, spelling) {
			return spelling
		}
	}
	return ""
}

// assertSilent fails when a text holds a canary.
func assertSilent(t *testing.T, text, how string) {
	t.Helper()
	assert.Empty(t, leak(text), "%s: %s", how, text)
}

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "% x", "%-10s"}

// unwrapped returns what an error wraps, as a crash reporter sees it.
func unwrapped(err error) []error {
	switch parent := err.(type) { //nolint:errorlint // a step of the walk
	case interface{ Unwrap() error }:
		if inner := parent.Unwrap(); inner != nil {
			return []error{inner}
		}
	case interface{ Unwrap() []error }:
		return parent.Unwrap()
	}
	return nil
}

// chain returns an error and all that it wraps.
func chain(err error) []error {
	all := []error{err}
	for _, inner := range unwrapped(err) {
		all = append(all, chain(inner)...)
	}
	return all
}

// assertRoundTrip encodes a value in each of encoding/json's ways and expects to read an equal one back.
func assertRoundTrip[T any](t *testing.T, value T) {
	t.Helper()
	plain := must(json.Marshal(value))(t)
	indented := must(json.MarshalIndent(value, "", "  "))(t)
	var unescaped bytes.Buffer
	encoder := json.NewEncoder(&unescaped)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(value))
	for _, stored := range [][]byte{plain, indented, unescaped.Bytes()} {
		var back T
		require.NoError(t, json.Unmarshal(stored, &back), string(stored))
		assert.Equal(t, value, back, string(stored))
	}
	var list []T
	require.NoError(t, json.Unmarshal([]byte("["+string(plain)+"]"), &list))
	assert.Equal(t, []T{value}, list)
}

// decodingErrors is all that an error of an answer that does not decode may say: constant words, described keys,
// numbers.
var decodingErrors = regexp.MustCompile(
	`^clinicaldoc: [A-Z][a-z]+\.[A-Za-z]+ \([A-Z]+ /[a-z0-9/{}-]+\): ` +
		`the response is 200 OK with (no body|application/json), but not what the service describes: (` +
		`invalid JSON at byte \d+: (unexpected character or end|invalid escape sequence|nested too deeply)` +
		`|((\.?(id|name|transcription|analysis|template|description|audio|duration|bitrate|size|file_url|has|content|` +
		`signed|team_id|user_id|email|url|message|data|tokens|(uploaded|expires|transcription_started|` +
		`transcription_completed|analysis_started|analysis_completed|created|updated|last_used)_at)|\[\d+\])+: )?` +
		`want (an? (object|whole number|number|boolean|date-time|record with an id and its other required members)|` +
		`the end of the list, of at most 100000 rows|boolean|number|string|array|object), ` +
		`got (null|boolean|number|string|array|object)` +
		`|it contains no (id|list|usable url)|it is (not the requested record|empty)` +
		`|it has an id, but neither a name nor a created_at, so it is not a note)` +
		`(; the note may or may not exist: call Notes\.FindCreated before creating it again` +
		`|; an earlier attempt may have succeeded: read the record before trying again)?$`)

// checkDecoding expects either a value or an error whose text holds nothing of the answer.
func checkDecoding(t *testing.T, value any, err error) {
	t.Helper()
	if err == nil {
		require.NotNil(t, value)
		return
	}
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.Nil(t, value)
	require.Regexp(t, decodingErrors, err.Error())
}

// checkStored expects that a value encodes, and that what was encoded decodes to the same value.
func checkStored[T any](t *testing.T, value T) {
	t.Helper()
	stored := must(json.Marshal(value))(t)
	var back T
	require.NoError(t, json.Unmarshal(stored, &back), "%s", stored)
	require.Equal(t, value, back, "%s", stored)
}

// part is one part of a multipart body.
type part struct {
	disposition string
	contentType string
	body        string
}

// checkParts compares a multipart body part by part, in order.
func checkParts(want ...part) func(t *testing.T, contentType string, body []byte) {
	return func(t *testing.T, contentType string, body []byte) {
		t.Helper()
		kind, params, err := mime.ParseMediaType(contentType)
		if err != nil || kind != "multipart/form-data" {
			t.Errorf("content type %q: %v", contentType, err)
			return
		}
		var got []part
		for reader := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
			p, err := reader.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("multipart body: %v", err)
				return
			}
			content, _ := io.ReadAll(p)
			got = append(got, part{p.Header.Get("Content-Disposition"), p.Header.Get("Content-Type"), string(content)})
		}
		assert.Equal(t, want, got)
	}
}

// servedNote is one note of a service that a test's clinician edits behind the program's back.
type servedNote struct {
	Name          string    `json:"name"`
	Transcription string    `json:"transcription"`
	Analysis      string    `json:"analysis"`
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
	PatientID     int64     `json:"patient_id,omitzero"`
	Patient       *int64    `json:"patient,omitempty"`
	Has           struct {
		Content       bool `json:"content"`
		Transcription bool `json:"transcription"`
		Signed        bool `json:"signed"`
	} `json:"has"`
}

// noteServer is the service: it holds note 9, and each write meets the next fault, if there is one.
type noteServer struct {
	mu       sync.Mutex
	note     servedNote
	gone     bool
	requests []string // methods of all requests
	written  []string // methods of the writes
	tokens   map[string]bool
	faults   []writeFault  // of the next writes; after them, writes succeed
	reads    []int         // statuses of the next reads; 0: success
	clock    time.Duration // how far the service's clock is ahead
	age      time.Duration // of the note
}

// writeFault is what happens to a write.
type writeFault struct {
	acts   bool              // it is carried out
	status int               // of the response; 0: the response is lost
	body   string            // of the response; empty: the note, after a success
	then   func(*servedNote) // what somebody else does before the program comes back
}

var (
	lostWrite     = writeFault{}           // it is not carried out, and there is no response
	actedThenLost = writeFault{acts: true} // it is carried out, and the response is lost
)

func newNoteServer() *noteServer {
	d := &noteServer{tokens: map[string]bool{}, age: 2 * time.Hour}
	d.note = servedNote{Name: "Visit", Transcription: "first words", Analysis: "first thoughts",
		UpdatedAt: time.Now().Add(-time.Hour).UTC()}
	d.note.Has.Content, d.note.Has.Transcription = true, true
	return d
}

func (d *noteServer) render(w http.ResponseWriter, status int, note servedNote) {
	document, _ := json.Marshal(struct {
		ID int64 `json:"id"`
		servedNote
		CreatedAt time.Time `json:"created_at"`
	}{9, note, time.Now().Add(-d.age)})
	w.Header().Set("Date", time.Now().Add(d.clock).UTC().Format(http.TimeFormat))
	w.WriteHeader(status)
	_, _ = w.Write(document)
}

func (d *noteServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens[r.Header.Get("Authorization")] = true
	d.requests = append(d.requests, r.Method)
	if r.Method == http.MethodGet {
		status := 0
		if len(d.reads) > 0 {
			status, d.reads = d.reads[0], d.reads[1:]
		}
		switch {
		case status != 0:
			w.WriteHeader(status)
		case d.gone:
			w.WriteHeader(http.StatusNotFound)
		default:
			d.render(w, http.StatusOK, d.note)
		}
		return
	}
	d.written = append(d.written, r.Method)
	fault := writeFault{acts: true, status: http.StatusOK}
	if len(d.faults) > 0 {
		fault, d.faults = d.faults[0], d.faults[1:]
	}
	if fault.acts {
		d.act(r)
	}
	written := d.note
	if fault.then != nil {
		fault.then(&d.note)
	}
	switch {
	case fault.status == 0:
		panic(http.ErrAbortHandler)
	case fault.status != http.StatusOK, fault.body != "":
		socketStatus(fault.status, fault.body)(w, r)
	case r.Method == http.MethodDelete:
		_, _ = io.WriteString(w, `{"message":"deleted"}`)
	default:
		d.render(w, http.StatusOK, written)
	}
}

// act carries a write out.
func (d *noteServer) act(r *http.Request) {
	switch {
	case r.Method == http.MethodDelete:
		d.gone = true
	case strings.HasSuffix(r.URL.Path, "/sign"):
		d.note.Has.Signed = true
		d.note.UpdatedAt = time.Now().Add(d.clock).UTC()
	default:
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &d.note)
		d.note.UpdatedAt = time.Now().Add(d.clock).UTC()
	}
}

// byClinician is somebody else's edit, now.
func (d *noteServer) byClinician(n *servedNote) {
	n.Analysis = "the clinician's words"
	n.UpdatedAt = time.Now().Add(d.clock).UTC()
}

func (d *noteServer) client(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	srv := socketHandler(t, d.ServeHTTP)
	inStep := over(noteServerTransport{d, socketTransport(t)})
	return socketClient(t, srv.URL, append([]clinicaldoc.Option{inStep}, opts...)...)
}

// clientAndNote returns a client, and the note that it has read.
func (d *noteServer) clientAndNote(t *testing.T) (*clinicaldoc.Client, *clinicaldoc.ProgressNote) {
	t.Helper()
	client := d.client(t)
	return client, must(client.Notes.Get(socketContext(t), 9))(t)
}

// noteServerTransport keeps the test in step with the service, whose handler may still be at work when its connection
// has ended.
type noteServerTransport struct {
	server *noteServer
	http.RoundTripper
}

func (s noteServerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.inStep()
	defer s.inStep()
	return s.RoundTripper.RoundTrip(r)
}

// inStep returns how many writes came, when no handler is at work.
func (s noteServerTransport) inStep() int {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return len(s.server.written)
}

// edits are the three that change a note, for what holds for all of them.
func edits() map[string]func(context.Context, *clinicaldoc.Client, ...clinicaldoc.CallOption) error {
	return map[string]func(context.Context, *clinicaldoc.Client, ...clinicaldoc.CallOption) error{
		"update": func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) error {
			_, err := c.Notes.Update(ctx, 9, updateParams{Analysis: new("ours")}, opts...)
			return err
		},
		"sign": func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) error {
			_, err := c.Notes.Sign(ctx, 9, opts...)
			return err
		},
		"delete": func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) error {
			_, err := c.Notes.Delete(ctx, 9, opts...)
			return err
		},
	}
}

// onAttempt is a client option that calls f at the end of every attempt.
func onAttempt(f func(context.Context, clinicaldoc.Attempt)) clinicaldoc.Option {
	return clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: f})
}

// hookLog is what hooks were told, as a tree: what the context of one led to stands below it.
type hookLog struct {
	mu       sync.Mutex
	all      hookEntry
	calls    []clinicaldoc.Call
	attempts []clinicaldoc.Attempt
}

type hookEntry struct {
	text  string
	ends  int // how often its end was told
	below []*hookEntry
}

type hookKey struct{}

// traceparent is the same for all attempts, so that requests can be compared whole.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func (l *hookLog) begin(ctx context.Context, text string) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := &hookEntry{text: text}
	parent, ok := ctx.Value(hookKey{}).(*hookEntry)
	if !ok {
		parent = &l.all
	}
	parent.below = append(parent.below, entry)
	return context.WithValue(ctx, hookKey{}, entry)
}

func (l *hookLog) end(ctx context.Context, text string) *hookEntry {
	entry, ok := ctx.Value(hookKey{}).(*hookEntry)
	if !ok {
		entry = &hookEntry{}
		l.all.below = append(l.all.below, entry)
	}
	entry.text += text
	entry.ends++
	return entry
}

func (l *hookLog) hooks() clinicaldoc.Hooks {
	return clinicaldoc.Hooks{
		CallStart: func(ctx context.Context, call clinicaldoc.Call) context.Context {
			return l.begin(ctx, call.Operation)
		},
		AttemptStart: func(ctx context.Context, a clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
			return l.begin(ctx, fmt.Sprintf("%d: %s %s", a.Number, a.Method, a.Route)),
				clinicaldoc.TraceContext{Traceparent: traceparent}
		},
		AttemptEnd: func(ctx context.Context, a clinicaldoc.Attempt) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(ctx, hookText(a.StatusCode, a.ErrorType, a.OutcomeUnknown))
			l.attempts = append(l.attempts, a)
		},
		CallEnd: func(ctx context.Context, call clinicaldoc.Call) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(ctx, hookText(0, call.ErrorType, call.OutcomeUnknown))
			l.calls = append(l.calls, call)
		},
	}
}

func (l *hookLog) option() clinicaldoc.Option { return clinicaldoc.WithHooks(l.hooks()) }

func hookText(status int, errorType string, unknown bool) string {
	text := ""
	if status != 0 {
		text += fmt.Sprint(" ", status)
	}
	if errorType != "" {
		text += " (" + errorType + ")"
	}
	if unknown {
		text += " unknown"
	}
	return text
}

// String is the tree, and empties the log.
func (l *hookLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	var write func(entries []*hookEntry, indent string)
	write = func(entries []*hookEntry, indent string) {
		for _, entry := range entries {
			fmt.Fprintf(&b, "\n%s%s", indent, entry.text)
			if entry.ends != 1 {
				fmt.Fprintf(&b, " ENDED %d TIMES", entry.ends)
			}
			write(entry.below, indent+"\t")
		}
	}
	write(l.all.below, "\t\t")
	l.all, l.calls, l.attempts = hookEntry{}, nil, nil
	return b.String() + "\n"
}

// h2Server is an httptest server that speaks HTTP/2.
func h2Server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	if tr, ok := srv.Client().Transport.(*http.Transport); assert.True(t, ok) {
		tr.ExpectContinueTimeout = 10 * time.Second
	}
	return srv
}

// h2Client is a client of an h2Server.
func h2Client(t *testing.T, h http.HandlerFunc, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	srv := h2Server(t, h)
	return socketClient(t, srv.URL, append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(srv.Client())}, opts...)...)
}

// The frames of HTTP/2 that a test needs to misbehave. Requests are told apart by their stream alone, so that their
// compressed header need not be understood.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagAck        = 0x1 // of settings
	flagEndStream  = 0x1 // of data and headers
	flagEndHeaders = 0x4

	codeProtocolError = 0x1
	codeRefusedStream = 0x7

	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frameServer is a TLS listener whose n-th connection runs the n-th script, the last one all that follow. It returns
// its URL, an HTTP client that trusts it, and a count of connections.
func frameServer(t *testing.T, scripts ...func(*h2Conn)) (string, *http.Client, func() int) {
	t.Helper()
	certificate := h2Server(t, func(http.ResponseWriter, *http.Request) {})
	config := certificate.TLS.Clone()
	config.NextProtos = []string{"h2"}
	var listen net.ListenConfig
	plain, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(plain, config)
	tr := socketTransport(t)
	tr.TLSClientConfig = certificate.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tr.ForceAttemptHTTP2 = true
	var mu sync.Mutex
	var open []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			script := scripts[min(len(open), len(scripts)-1)]
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				serveFrames(conn, script)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		tr.CloseIdleConnections()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "https://" + plain.Addr().String(), &http.Client{Transport: tr}, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
}

// h2Conn is a server's end of an HTTP/2 connection.
type h2Conn struct {
	net.Conn
	in *bufio.Reader
}

func serveFrames(conn net.Conn, script func(*h2Conn)) {
	in := bufio.NewReader(conn)
	if _, err := io.ReadFull(in, make([]byte, len(clientPreface))); err != nil {
		return
	}
	c := &h2Conn{conn, in}
	c.frame(frameSettings, 0, 0, nil)
	script(c)
	_, _ = io.Copy(io.Discard, in) // the client closes; a close from here could overtake the last frames
}

func (c *h2Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	frame = append(frame, flags)
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.Write(append(frame, payload...))
}

func (c *h2Conn) next() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c.in, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[:4])
	payload = make([]byte, length>>8)
	_, err = io.ReadFull(c.in, payload)
	return byte(length), head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

// request waits for a request's header and returns its stream; with whole, for all of its body too. The body is what
// has come until its end, a reset or the connection's end.
func (c *h2Conn) request(whole bool) (stream uint32, body []byte, ended bool) {
	for {
		kind, flags, id, payload, err := c.next()
		if err != nil {
			return stream, body, false
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			c.frame(frameSettings, flagAck, 0, nil)
		case kind == frameReset:
			return id, body, false
		case kind == frameHeaders && !whole:
			return id, nil, flags&flagEndStream != 0
		case kind == frameHeaders && flags&flagEndStream == 0:
			// :status 100, whether it was asked for or not
			c.frame(frameHeaders, flagEndHeaders, id, []byte("\x08\x03100"))
		case kind == frameData:
			body = append(body, payload...)
			if len(payload) > 0 {
				size := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
				c.frame(frameWindowUpdate, 0, 0, size)
				c.frame(frameWindowUpdate, 0, id, size)
			}
		}
		if (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0 {
			return id, body, true
		}
	}
}

// respond sends a complete response with the status 200.
func (c *h2Conn) respond(stream uint32, body string) {
	c.frame(frameHeaders, flagEndHeaders, stream, []byte{0x88})
	c.frame(frameData, flagEndStream, stream, []byte(body))
}

// goAway says that streams beyond last were not looked at.
func (c *h2Conn) goAway(last uint32) {
	const noError = 0
	c.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), noError))
}

func (c *h2Conn) resetStream(stream, code uint32) {
	c.frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// The stages of a note.
const (
	stageUploaded     = clinicaldoc.StageUploaded
	stageTranscribing = clinicaldoc.StageTranscribing
	stageTranscribed  = clinicaldoc.StageTranscribed
	stageAnalysing    = clinicaldoc.StageAnalysing
	stageComplete     = clinicaldoc.StageComplete
	stageSigned       = clinicaldoc.StageSigned
	stageFailed       = clinicaldoc.StageFailed
)

// stageFields are the fields of a note in each stage.
var stageFields = map[clinicaldoc.Stage]string{
	stageUploaded:     hasFlags(false, false, false),
	stageTranscribing: hasFlags(false, false, false) + `,"transcription_started_at":"2026-01-02T03:04:06Z"`,
	stageTranscribed:  hasFlags(true, false, false) + stageTranscription,
	stageAnalysing:    hasFlags(true, false, false) + stageTranscription + `,"analysis_started_at":"2026-01-02T03:04:08Z"`,
	stageComplete:     hasFlags(true, true, false) + stageTranscription + stageAnalysis,
	stageSigned:       hasFlags(true, true, true) + stageTranscription + stageAnalysis,
	stageFailed:       `"has":{},"error_state":"synthetic secret of a patient"`,
}

const (
	stageTranscription = `,"transcription":"Synthetic words."`
	stageAnalysis      = `,"analysis":"Synthetic analysis."`
)

func hasFlags(transcription, content, signed bool) string {
	return fmt.Sprintf(`"has":{"transcription":%t,"content":%t,"signed":%t}`, transcription, content, signed)
}

// noteIn is a note's JSON in the given stage, with a time of its own for each stage.
func noteIn(id int64, stage clinicaldoc.Stage) string {
	return noteAt(id, stage, slices.Index(stagesInOrder, stage)+1)
}

// noteAt is a note's JSON in the given stage, changed so many seconds after it was made.
func noteAt(id int64, stage clinicaldoc.Stage, second int) string {
	return fmt.Sprintf(
		`{"id":%d,"name":"Synthetic note","team_id":1,"user_id":1,"created_at":"2026-01-02T03:04:05Z","updated_at":%q,%s}`,
		id, time.Date(2026, 1, 2, 3, 4, 5+second, 0, time.UTC).Format(time.RFC3339), stageFields[stage])
}

// poll is one request that a polled service saw.
type poll struct {
	at   time.Duration // since the start
	path string        // with its query
}

// polled is a service in virtual time. Its answer is decided by the number of the request (from 1) and the time passed.
type polled struct {
	started time.Time
	took    time.Duration // by each request
	answer  func(n int, at time.Duration, r *http.Request) *reply

	mu    sync.Mutex // a download asks for two things at once
	polls []poll
}

// reply is an answer to be given.
type reply struct{ *http.Response }

func made(r *http.Request, code int, body string, header ...string) *reply {
	return &reply{madeResponse(r, code, body, header...)} //nolint:bodyclose // the client closes it
}

func (p *polled) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(p.took)
	at := time.Since(p.started)
	p.mu.Lock()
	p.polls = append(p.polls, poll{at, r.URL.RequestURI()})
	n := len(p.polls)
	p.mu.Unlock()
	resp := p.answer(n, at, r)
	if resp == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return resp.Response, nil
}

// pauses are the times between polls.
func (p *polled) pauses() []time.Duration {
	var pauses []time.Duration
	for i := 1; i < len(p.polls); i++ {
		pauses = append(pauses, p.polls[i].at-p.polls[i-1].at)
	}
	return pauses
}

// newPolled returns a service in virtual time and a client of it. The client has its retries, which polls must not use.
func newPolled(t *testing.T, answer func(n int, at time.Duration, r *http.Request) *reply,
	opts ...clinicaldoc.Option) (*polled, *clinicaldoc.Client) {
	t.Helper()
	p := &polled{started: time.Now(), answer: answer}
	opts = append([]clinicaldoc.Option{over(p)}, opts...)
	client := must(clinicaldoc.NewClient("https://api.clinic.test", "1|synthetic-token", opts...))(t)
	return p, client
}

// always answers every poll alike.
func always(status int, body string, header ...string) func(int, time.Duration, *http.Request) *reply {
	return func(_ int, _ time.Duration, r *http.Request) *reply {
		return made(r, status, body, header...)
	}
}

// inOrder answers the n-th poll with the n-th text: a note, or nothing for a lost answer. The last one stays.
func inOrder(bodies ...string) func(int, time.Duration, *http.Request) *reply {
	return func(n int, _ time.Duration, r *http.Request) *reply {
		body := bodies[min(n, len(bodies))-1]
		if body == "" {
			return nil
		}
		return made(r, http.StatusOK, body)
	}
}

// stagesInOrder are the stages that can be waited for, as they follow each other.
var stagesInOrder = []clinicaldoc.Stage{
	stageUploaded, stageTranscribing, stageTranscribed,
	stageAnalysing, stageComplete, stageSigned,
}

// fakeService is a service that keeps notes, and loses the responses of creates unless post says otherwise. Its lists
// are numbered pages, the newest note first.
type fakeService struct {
	t     *testing.T
	mu    sync.Mutex
	notes []fakeNote // in the order of their making

	// How many requests came: for pages, for the user, for the addresses of recordings and for recordings.
	lists, users, urls, reads int

	post    func(r *http.Request, sent fakeNote) (*http.Response, error) // nil: the note and the response are lost
	onList  func()                                                       // called before each page
	instead func(list int, r *http.Request) *http.Response               // instead of that page, unless it returns nil
	list    func(rows []string, r *http.Request) string                  // a page with these rows; nil: numbered
	order   func(a, b fakeNote) int                                      // of lists; nil: by time, as requested
	audio   func(id int64, r *http.Request) *http.Response               // instead of a recording, unless it returns nil
	whoami  func(token string) string                                    // the user; nil: fakeUser

	ahead    time.Duration // how far its clock is ahead
	zone     time.Duration // its times are local, given as if they were UTC
	age      time.Duration // of every list, in a cache
	noDate   bool          // its responses have no Date
	noUser   bool          // GET /user fails
	busy     int           // so often GET /user fails before it succeeds
	address  string        // of all recordings; empty: each has its own
	deleting int           // the status of its response to a DELETE

	rendered sync.Map // the text of each fakeRow, because lists are requested again and again
}

// fakeRow is a note as it is rendered, with that added to its time.
type fakeRow struct {
	note  fakeNote
	shift time.Duration
}

// fakeNote is a note of the fake service; what is zero is not told, but for the user, who is the client's.
type fakeNote struct {
	id            int64
	name          string
	patient, size int64 // -1: a patient without an id, -2: two patients
	user          int64 // -1: not told
	made          time.Time
	recording     string // empty: what visit sends
}

const (
	fakeUser    = 2
	fakePatient = 4711
)

func newFakeService(t *testing.T) *fakeService {
	t.Helper()
	return &fakeService{t: t}
}

// visit is the note that the tests create: a name, a patient, five bytes of a recording.
func visit() createParams {
	return createParams{Name: "Visit", PatientID: fakePatient, PromptID: 3,
		Audio: clinicaldoc.AudioBytes("a.wav", []byte("sound"))}
}

// visited is the note that visit makes, now.
func visited() fakeNote {
	return fakeNote{name: "Visit", patient: fakePatient, size: 5, made: time.Now()}
}

func (n fakeNote) ago(d time.Duration) fakeNote { n.made = n.made.Add(-d); return n }

func (n fakeNote) named(name string) fakeNote { n.name = name; return n }

func (n fakeNote) sized(size int64) fakeNote { n.size = size; return n }

func (n fakeNote) by(user int64) fakeNote { n.user = user; return n }

func (n fakeNote) of(recording string) fakeNote { n.recording = recording; return n }

// keep adds notes and returns the last one's id.
func (s *fakeService) keep(notes ...fakeNote) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range notes {
		n.id = int64(len(s.notes) + 1)
		s.notes = append(s.notes, n)
	}
	return int64(len(s.notes))
}

// change changes a note, or removes it.
func (s *fakeService) change(id int64, how func(*fakeNote)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.notes {
		if s.notes[i].id == id {
			how(&s.notes[i])
		}
	}
}

func (s *fakeService) client(opts ...clinicaldoc.Option) *clinicaldoc.Client {
	s.t.Helper()
	client := clientOn(s.t, s.httpClient(), opts...)
	tryTimes(s.t, client)
	return client
}

type tryingTimes struct{}

// tryTimes lets a client of a fake service create a note, so that it knows how the service's times of creation compare.
// The service does not keep the note.
func tryTimes(t *testing.T, client *clinicaldoc.Client) {
	t.Helper()
	ctx := context.WithValue(t.Context(), tryingTimes{}, true)
	must(client.Notes.Create(ctx, createParams{Name: "tried"}))(t)
}

func (s *fakeService) httpClient() *http.Client {
	s.t.Helper()
	transport := httpmock.NewMockTransport()
	transport.RegisterNoResponder(httpmock.NewNotFoundResponder(s.t.Error))
	transport.RegisterResponder(http.MethodPost, testBase+notesPath, s.create)
	transport.RegisterResponder(http.MethodGet, testBase+notesPath, s.page)
	transport.RegisterResponder(http.MethodGet, `=~^`+testBase+notesPath+`/(\d+)$`, s.read)
	transport.RegisterResponder(http.MethodDelete, `=~^`+testBase+notesPath+`/\d+$`,
		func(r *http.Request) (*http.Response, error) {
			return s.respond(r, s.deleting, ""), nil
		})
	transport.RegisterResponder(http.MethodGet, `=~^`+testBase+notesPath+`/(\d+)/audio-url$`,
		func(r *http.Request) (*http.Response, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.urls++
			id := httpmock.MustGetSubmatchAsInt(r, 1)
			address := cmp.Or(s.address, fmt.Sprintf("%s/%d?signature=%s", fakeStorage, id, canary))
			return s.respond(r, http.StatusOK, fmt.Sprintf(`{"url":%q}`, address)), nil
		})
	transport.RegisterResponder(http.MethodGet, `=~^`+fakeStorage+`/(\d+)`, s.recordingOf)
	transport.RegisterResponder(http.MethodGet, testBase+"/user", func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users++
		if s.users <= s.busy {
			return s.respond(r, http.StatusServiceUnavailable, `{"message":"Service Unavailable"}`), nil
		}
		if s.noUser {
			return s.respond(r, http.StatusForbidden, `{"message":"This action is unauthorized."}`), nil
		}
		if s.whoami != nil {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			return s.respond(r, http.StatusOK, s.whoami(token)), nil
		}
		return s.respond(r, http.StatusOK, fmt.Sprintf(`{"id":%d}`, fakeUser)), nil
	})
	return &http.Client{Transport: transport}
}

const fakeStorage = "https://storage.clinic.test"

// recordingOf is what storage gives.
func (s *fakeService) recordingOf(r *http.Request) (*http.Response, error) {
	assert.Empty(s.t, r.Header.Get("Authorization"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	id := httpmock.MustGetSubmatchAsInt(r, 1)
	if s.audio != nil {
		if resp := s.audio(id, r); resp != nil {
			return resp, nil
		}
	}
	for _, n := range s.notes {
		if n.id == id {
			return s.stored(r, cmp.Or(n.recording, "sound")), nil
		}
	}
	return httpmock.NewStringResponse(http.StatusNotFound, ""), nil
}

// stored is a recording as storage gives it.
func (s *fakeService) stored(r *http.Request, recording string) *http.Response {
	resp := httpmock.NewStringResponse(http.StatusOK, recording)
	resp.Request, resp.ContentLength = r, int64(len(recording))
	resp.Header.Set("Content-Type", "audio/wav")
	return resp
}

func (s *fakeService) respond(r *http.Request, status int, body string) *http.Response {
	resp := httpmock.NewStringResponse(status, body)
	resp.Request = r
	resp.Header.Set("Content-Type", "application/json")
	if !s.noDate {
		resp.Header.Set("Date", time.Now().Add(s.ahead-s.age).UTC().Format(http.TimeFormat))
	}
	if s.age > 0 {
		resp.Header.Set("Age", strconv.Itoa(int(s.age.Seconds())))
	}
	return resp
}

func (s *fakeService) create(r *http.Request) (*http.Response, error) {
	if r.Context().Value(tryingTimes{}) != nil {
		made := time.Now().UTC().Format(time.RFC3339)
		return madeResponse(r, http.StatusCreated, `{"id":9007199254740991,"name":"tried","created_at":"`+made+`"}`),
			nil
	}
	sent := fakeNote{}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	for part, err := parts.NextPart(); err == nil; part, err = parts.NextPart() {
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		switch part.FormName() {
		case "name":
			sent.name = string(content)
		case "patient_id":
			sent.patient, _ = strconv.ParseInt(string(content), 10, 64)
		case "file":
			sent.size, sent.recording = int64(len(content)), string(content)
		}
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	if s.post == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return s.post(r, sent)
}

// commit keeps a note that was sent and returns the response of its create.
func (s *fakeService) commit(r *http.Request, sent fakeNote) *http.Response {
	sent.made = time.Now()
	sent.id = s.keep(sent)
	return s.respond(r, http.StatusCreated, s.json(sent))
}

func (s *fakeService) json(n fakeNote) string {
	row := fakeRow{n, s.ahead + s.zone}
	if text, ok := s.rendered.Load(row); ok {
		return text.(string)
	}
	text := row.json()
	s.rendered.Store(row, text)
	return text
}

func (r fakeRow) json() string {
	n := r.note
	fields := []string{fmt.Sprintf(`"id":%d,"name":%q`, n.id, n.name)}
	switch {
	case n.patient == -1:
		fields = append(fields, `"patient":{"name":"not told"}`)
	case n.patient == -2:
		fields = append(fields, fmt.Sprintf(`"patient":{"id":%d},"patient_id":5`, fakePatient))
	case n.patient > 0:
		fields = append(fields, fmt.Sprintf(`"patient":{"id":%d}`, n.patient))
	}
	if n.size != 0 {
		fields = append(fields, fmt.Sprintf(`"audio":{"size":%d}`, n.size))
	}
	if n.user >= 0 {
		fields = append(fields, fmt.Sprintf(`"user_id":%d`, cmp.Or(n.user, fakeUser)))
	}
	if !n.made.IsZero() {
		fields = append(fields,
			fmt.Sprintf(`"created_at":%q`, n.made.Add(r.shift).UTC().Format("2006-01-02T15:04:05.000000Z")))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (s *fakeService) read(r *http.Request) (*http.Response, error) {
	id := httpmock.MustGetSubmatchAsInt(r, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		if n.id == id {
			return s.respond(r, http.StatusOK, s.json(n)), nil
		}
	}
	return s.respond(r, http.StatusNotFound, `{"message":"Resource not found"}`), nil
}

func (s *fakeService) page(r *http.Request) (*http.Response, error) {
	if s.onList != nil {
		s.onList()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.instead != nil {
		if resp := s.instead(s.lists, r); resp != nil {
			return resp, nil
		}
	}
	notes := slices.Clone(s.notes)
	if patient := r.URL.Query().Get("patient_id"); patient != "" {
		notes = slices.DeleteFunc(notes,
			func(n fakeNote) bool { return n.patient != 0 && strconv.FormatInt(n.patient, 10) != patient })
	}
	notes = slices.DeleteFunc(notes, func(n fakeNote) bool { return n.id == 0 })
	slices.SortStableFunc(notes, oldestFirst)
	switch {
	case s.order != nil:
		slices.SortStableFunc(notes, s.order)
	case r.URL.Query().Get("sort") != string(clinicaldoc.SortOldest):
		slices.Reverse(notes)
	}
	rows := make([]string, len(notes))
	for i, n := range notes {
		rows[i] = s.json(n)
	}
	if s.list == nil {
		return s.respond(r, http.StatusOK, numbered(rows, r)), nil
	}
	return s.respond(r, http.StatusOK, s.list(rows, r)), nil
}

func oldestFirst(a, b fakeNote) int { return a.made.Compare(b.made) }

func newestFirst(a, b fakeNote) int { return b.made.Compare(a.made) }

func pageOf(r *http.Request) int {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	return page
}

// cut returns the rows of a page, of which the first has the number 0.
func cut(rows []string, page, size int) string {
	from := min(page*size, len(rows))
	return strings.Join(rows[from:min(from+size, len(rows))], ",")
}

func numbered(rows []string, r *http.Request) string {
	page := max(pageOf(r), 1)
	return fmt.Sprintf(`{"data":[%s],"links":{},"meta":{"current_page":%d,"last_page":%d,"total":%d}}`,
		cut(rows, page-1, 100), page, max(1, (len(rows)+99)/100), len(rows))
}

// lose makes a create whose response is lost.
func lose(
	t *testing.T, client *clinicaldoc.Client, params createParams, opts ...clinicaldoc.CallOption,
) *lostCreate {
	t.Helper()
	note, err := client.Notes.Create(t.Context(), params, opts...)
	require.Nil(t, note)
	return requireAs[*lostCreate](t, err)
}

// requireUndecided demands that nothing was decided, for that reason, and returns what can be asked again.
func requireUndecided(t *testing.T, note *clinicaldoc.ProgressNote, err error, reason string) *lostCreate {
	t.Helper()
	require.Nil(t, note)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, clinicaldoc.ErrNotCreated)
	require.ErrorContains(t, err,
		"clinicaldoc: Notes.FindCreated (GET /v1/progress-notes): cannot determine whether the note was created: ")
	require.ErrorContains(t, err, reason)
	again := requireAs[*lostCreate](t, err)
	return again
}

type (
	findParams = clinicaldoc.FindCreatedParams
	lostCreate = clinicaldoc.OutcomeUnknownError //nolint:errname // what it stands for in these tests
)

const defaultSettle = 10 * time.Minute

func ago(e *lostCreate, d time.Duration) {
	e.SentAt, e.LostAt = e.SentAt.Add(-d), e.LostAt.Add(-d)
}

const socketToken = "synthetic-token-0001"

// socketPolicy repeats as often as the default does, without making a test wait.
var socketPolicy = clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: 2 * time.Millisecond}

// socketNote is a note as the service gives it.
func socketNote(id int64) string {
	return fmt.Sprintf(
		`{"id":%d,"name":"Synthetic note","team_id":1,"user_id":1,"patient":{"id":7},`+
			`"has":{"content":false,"transcription":false,"signed":false},`+
			`"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`, id)
}

// socketTransport is a transport of the test's own, whose connections end with the test.
func socketTransport(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{ExpectContinueTimeout: 10 * time.Second, MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// socketClient is a client with a transport of its own and waits too short to notice.
func socketClient(t *testing.T, baseURL string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	all := append([]clinicaldoc.Option{
		over(socketTransport(t)),
		clinicaldoc.WithRetry(socketPolicy),
		clinicaldoc.WithStallTimeout(time.Hour), // no test waits for it; a busy machine may stand still for minutes
	}, opts...)
	c := must(clinicaldoc.NewClient(baseURL, socketToken, all...))(t)
	return c
}

// endsAfter is a context with a timeout.
func endsAfter(t *testing.T, timeout time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// endedContext is a context that was canceled.
func endedContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// socketContext bounds a test that would otherwise hang.
func socketContext(t *testing.T) context.Context {
	t.Helper()
	return endsAfter(t, 2*time.Minute)
}

// socketHandler serves with httptest until the test ends.
func socketHandler(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// socketReset closes the connection of a handler so that the peer sees a reset.
func socketReset(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if assert.NoError(t, err) {
		resetConn(conn)
	}
}

func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// socketSteps answers the n-th request with the n-th step; the last step answers all that follow.
type socketSteps struct {
	mu    sync.Mutex
	seen  []string // method and path
	steps []http.HandlerFunc
}

func newSocketSteps(handlers ...http.HandlerFunc) *socketSteps { return &socketSteps{steps: handlers} }

func (s *socketSteps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.steps[min(len(s.seen), len(s.steps)-1)]
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	step(w, r)
}

func (s *socketSteps) client(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return socketClient(t, socketHandler(t, s.ServeHTTP).URL, opts...)
}

func (s *socketSteps) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// socketStatus answers with a status and a body.
func socketStatus(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// socketLost takes the whole request and then breaks the connection without an answer.
func socketLost(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		socketReset(t, w)
	}
}

// rawServer is a TCP listener whose n-th connection runs the n-th script. A connection too many fails the test.
type rawServer struct {
	URL      string
	accepted atomic.Int32
	finished sync.WaitGroup
	scripts  sync.WaitGroup
}

func newRawServer(t *testing.T, scripts ...func(*rawConn)) *rawServer {
	t.Helper()
	var config net.ListenConfig
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawServer{URL: "http://" + ln.Addr().String()}
	var mu sync.Mutex
	var open []net.Conn
	s.finished.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			n := int(s.accepted.Add(1))
			if !assert.LessOrEqual(t, n, len(scripts), "a connection too many") {
				_ = conn.Close()
				continue
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			s.scripts.Add(1)
			s.finished.Go(func() {
				defer s.scripts.Done()
				defer conn.Close()
				scripts[n-1](&rawConn{t: t, Conn: conn, in: bufio.NewReader(conn)})
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		s.finished.Wait()
	})
	return s
}

// wait waits for the ends of the connections' scripts.
func (s *rawServer) wait() { s.scripts.Wait() }

// rawConn is one scripted connection.
type rawConn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// pipesTo is a dialer for a bubble with a time of its own. Its n-th connection runs the n-th script. A connection too
// many fails the test.
func pipesTo(t *testing.T, scripts ...func(*rawConn)) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	var dialed atomic.Int32
	return func(context.Context, string, string) (net.Conn, error) {
		n := int(dialed.Add(1))
		if !assert.LessOrEqual(t, n, len(scripts), "a connection too many") {
			return nil, net.ErrClosed
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			scripts[n-1](&rawConn{t: t, Conn: server, in: bufio.NewReader(server)})
		}()
		return client, nil
	}
}

// head reads a request up to the end of its header.
func (c *rawConn) head() *http.Request {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return &http.Request{Header: http.Header{}, Body: http.NoBody}
	}
	return r
}

// receive lets a request begin, and reads so many bytes of its body.
func (c *rawConn) receive(n int64) *http.Request {
	r := c.head()
	if r.Header.Get("Expect") != "" {
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
	}
	_, _ = io.CopyN(io.Discard, r.Body, n)
	return r
}

// request reads a complete request and returns it with its body.
func (c *rawConn) request() (*http.Request, []byte) {
	r := c.receive(0)
	body, _ := io.ReadAll(r.Body)
	return r, body
}

// form reads a complete multipart request.
func (c *rawConn) form() sentForm {
	form, err := readForm(c.receive(0))
	assert.NoError(c.t, err)
	return form
}

func (c *rawConn) send(text string) { _, _ = io.WriteString(c.Conn, text) }

// answer sends a complete answer.
func (c *rawConn) answer(code int, body string, header ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", code, http.StatusText(code), len(body))
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	c.send(b.String() + "\r\n" + body)
}

// untilClosed waits for the peer to close.
func (c *rawConn) untilClosed() { _, _ = io.Copy(io.Discard, c.in) }

// sentForm is a multipart request as the server sees it.
type sentForm struct {
	length           int64 // of Content-Length; -1: chunked
	transferEncoding []string
	expect           string
	fields           map[string]string
	fileName         string
	fileType         string
	file             []byte
}

// readForm reads a multipart request with the standard library's reader, which is strict about the envelope.
func readForm(r *http.Request) (sentForm, error) {
	form := sentForm{length: r.ContentLength, transferEncoding: r.TransferEncoding, expect: r.Header.Get("Expect"),
		fields: map[string]string{}}
	body := &countedReader{r: r.Body}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return form, err
	}
	parts := multipart.NewReader(body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // the reader's documented end
			break
		}
		if err != nil {
			return form, err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return form, err
		}
		if part.FormName() != "file" {
			form.fields[part.FormName()] = string(data)
			continue
		}
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return form, err
		}
		form.fileName, form.fileType, form.file = disposition["filename"], part.Header.Get("Content-Type"), data
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return form, err
	}
	if form.length >= 0 && form.length != body.n {
		return form, fmt.Errorf("Content-Length %d, body %d", form.length, body.n)
	}
	return form, nil
}

type countedReader struct {
	r io.Reader
	n int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// syntheticAudio is a recording of the given size. Its bytes repeat after a length that is no buffer's, so that a part
// that is missing, doubled or misplaced shows.
type syntheticAudio int64

var audioPattern = func() []byte {
	pattern := make([]byte, 65537)
	for i := range pattern {
		pattern[i] = byte(i ^ i>>8)
	}
	return pattern
}()

func (size syntheticAudio) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(0, int64(size)-off)))
	for done := 0; done < n; {
		done += copy(p[done:n], audioPattern[(off+int64(done))%int64(len(audioPattern)):])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (size syntheticAudio) bytes() []byte {
	b, _ := io.ReadAll(io.NewSectionReader(size, 0, int64(size)))
	return b
}

// socketParams is a create with a recording of the given size.
func socketParams(size int64) createParams {
	return createParams{
		Name: "Synthetic note", PatientID: 7, PromptID: 3,
		Audio: clinicaldoc.AudioReaderAt("synthetic.wav", syntheticAudio(size), size),
	}
}

// madeResponse is an answer made by a roundTripper.
func madeResponse(r *http.Request, code int, body string, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)), Request: r,
	}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// requireUnknown demands that a create reports an unknown outcome, with all that FindCreated needs.
func requireUnknown(t *testing.T, err error, params createParams, started time.Time) *clinicaldoc.OutcomeUnknownError {
	t.Helper()
	unknown := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Equal(t, params.Name, unknown.Params.Name)
	assert.Equal(t, params.PatientID, unknown.Params.PatientID)
	assert.Same(t, params.Audio, unknown.Params.Audio)
	assert.WithinRange(t, unknown.SentAt, started, time.Now())
	return unknown
}

// timedClient is a client in virtual time, whose transport is a function, with the default retry policy.
func timedClient(t *testing.T, transport roundTripper, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	all := append([]clinicaldoc.Option{over(transport)}, opts...)
	c := must(clinicaldoc.NewClient("https://api.clinic.test", socketToken, all...))(t)
	return c
}

// slowReader gives 10 bytes after each pause.
type slowReader struct {
	text  string
	pause time.Duration
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	time.Sleep(r.pause)
	n := copy(p[:min(len(p), 10)], r.text)
	r.text = r.text[n:]
	return n, nil
}

// closedAddress is an address of this machine where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener := must(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// badReader fails with an error that names a file, at the first read or when it has given something.
type badReader struct{ given bool }

func (r *badReader) Read(p []byte) (int, error) {
	if !r.given {
		r.given = true
		return copy(p, canary), nil
	}
	return 0, &os.PathError{Op: "read", Path: canary, Err: errors.New(canary)}
}

func (r *badReader) ReadAt([]byte, int64) (int, error) { return 0, errors.New(canary) }

func (r *badReader) Write([]byte) (int, error) { return 0, errors.New(canary) }

// badCallback is a limiter and a token source that fail.
type badCallback struct{ err error }

func (c badCallback) Wait(context.Context) error { return c.err }

func (c badCallback) Token(context.Context) (string, error) { return canary, c.err }

// laravelLimit is Laravel's limiter as it counts in Redis. A window begins with its first request and has an exact
// length, while Retry-After is computed from whole seconds, rounded down.
type laravelLimit struct {
	next    roundTripper
	limit   int
	window  time.Duration
	latency time.Duration // of each way; the way of every seventh request is longer

	mu       sync.Mutex
	began    time.Time
	used     int
	requests int
	refused  []int // by window
}

func newLaravelLimit(next roundTripper) *laravelLimit {
	return &laravelLimit{next: next, limit: 60, window: time.Minute, latency: 20 * time.Millisecond}
}

// take counts a request, and returns the headers that the response gets.
func (l *laravelLimit) take() (header http.Header, refused bool, latency time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.began.IsZero() || now.Sub(l.began) >= l.window {
		l.began = now
		l.used = 0
		l.refused = append(l.refused, 0)
	}
	l.requests++
	latency = l.latency * time.Duration(1+l.requests%7)
	header = http.Header{"X-Ratelimit-Limit": {strconv.Itoa(l.limit)}}
	if l.used >= l.limit {
		l.refused[len(l.refused)-1]++
		reset := l.began.Unix() + int64(l.window/time.Second)
		header.Set("Retry-After", strconv.FormatInt(reset-now.Unix(), 10))
		header.Set("X-Ratelimit-Reset", strconv.FormatInt(reset, 10))
		header.Set("X-Ratelimit-Remaining", "0")
		return header, true, latency
	}
	l.used++
	header.Set("X-Ratelimit-Remaining", strconv.Itoa(l.limit-l.used))
	return header, false, latency
}

func (l *laravelLimit) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(l.latency)
	header, refused, latency := l.take()
	var resp *http.Response
	if refused {
		resp = madeResponse(r, http.StatusTooManyRequests, `{"message":"Too Many Attempts."}`)
	} else {
		var err error
		resp, err = l.next(r)
		if err != nil {
			return nil, err
		}
	}
	maps.Copy(resp.Header, header)
	time.Sleep(latency)
	return resp, nil
}

// refusals is how many requests were refused, and the most in one window.
func (l *laravelLimit) refusals() (total, mostInAWindow int) {
	for _, n := range l.refused {
		total += n
		mostInAWindow = max(mostInAWindow, n)
	}
	return total, mostInAWindow
}
