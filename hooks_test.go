package clinicaldoc_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestHooksLearnOfEveryEndpoint(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		var told hookLog
		request := e.request()
		request.header = map[string]string{"Traceparent": traceparent}
		request.answerHeader = map[string]string{"X-RateLimit-Remaining": "41"}
		_, err := e.call(t.Context(), serveWith(t, []clinicaldoc.Option{told.option()}, request))
		require.NoError(t, err)
		require.Len(t, told.attempts, 1, e.operation)
		require.Len(t, told.calls, 1, e.operation)
		attempt, result := told.infos[0], told.attempts[0]
		assert.Equal(t, clinicaldoc.AttemptInfo{
			Operation: e.operation, Method: e.method, Route: e.route, ServerAddress: "api.clinic.test", ServerPort: 443, Number: 1,
		}, attempt)
		assert.Equal(t, 41, result.RateLimitRemaining)
		assert.EqualValues(t, len(e.ok), result.BytesReceived)
		assert.Equal(t, e.body != "", result.BytesSent > 0, e.operation)
		assert.Equal(t, 1, told.calls[0].Attempts)
		assert.Equal(t, "\n\t\t"+e.operation+"\n\t\t\t1: "+e.method+" "+e.route+" 200\n", told.String())
	}
}

// Whatever consists of calls is one itself, and they stand in it.
func TestHooksLearnOfCallsWithinCalls(t *testing.T) {
	t.Parallel()
	t.Run("wait", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var told hookLog
			_, client := newPolled(t, inOrder(noteIn(7, clinicaldoc.StageUploaded), noteIn(7, clinicaldoc.StageComplete)), told.option())
			_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
			require.NoError(t, err)
			assert.Equal(t, `
		Notes.Wait
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
`, told.String())
			for range client.Notes.Watch(t.Context(), 7, clinicaldoc.WaitParams{}) {
				break
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = clinicaldoc.Collect(client.Notes.WaitAll(ctx, []int64{7}, clinicaldoc.WaitParams{Until: clinicaldoc.StageSigned}))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, `
		Notes.Watch
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
		Notes.WaitAll (deadline_exceeded)
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
`, told.String())
		})
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		var told hookLog
		pages := roundTripper(func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusOK, `{"data":[{"id":`+strings.TrimPrefix("1"+r.URL.Query().Get("page"), "1")+`7,"name":"n"}],"meta":{"current_page":`+max(r.URL.Query().Get("page"), "1")+`,"last_page":2}}`), nil
		})
		client := clientOn(t, &http.Client{Transport: pages}, told.option())
		walk := client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{Prefetch: 2})
		const page = "\n\t\t\tNotes.List\n\t\t\t\t1: GET /v1/progress-notes 200"
		for range 2 { // each range is a call of its own
			_, err := clinicaldoc.Collect(walk)
			require.NoError(t, err)
			assert.Equal(t, "\n\t\tNotes.All"+page+page+"\n", told.String())
		}
		for range client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{}) {
			break
		}
		assert.Equal(t, "\n\t\tNotes.All"+page+"\n", told.String())
		assert.Panics(t, func() {
			for range client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{}) {
				panic("of the reader")
			}
		})
		assert.Equal(t, "\n\t\tNotes.All"+page+"\n", told.String())
		_, err := clinicaldoc.Collect(client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{PatientID: 4}))
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
		assert.Equal(t, `
		Notes.All (patient_mismatch)
			Notes.List (patient_mismatch)
				1: GET /v1/progress-notes 200
`, told.String())
	})
	t.Run("find created", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var told hookLog
			s := newShelf(t)
			client := s.client(told.option())
			lost := lose(t, client, visit())
			ago(lost, time.Hour)
			_, err := client.Notes.FindCreated(t.Context(), lost, clinicaldoc.FindCreatedParams{})
			require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
			assert.Equal(t, `
		Notes.Create (no_response) unknown
			1: POST /v1/progress-notes (no_response) unknown
		Notes.FindCreated (not_created)
			Users.Me
				1: GET /user 200
			Notes.List
				1: GET /v1/progress-notes 200
`, told.String())
		})
	})
	t.Run("sign", func(t *testing.T) {
		t.Parallel()
		var told hookLog
		d := newDesk()
		client := d.client(t, told.option())
		note, err := client.Notes.Get(t.Context(), 9)
		require.NoError(t, err)
		_ = told.String()
		d.faults = []deskFault{{status: http.StatusServiceUnavailable}}
		_, err = client.Notes.Sign(t.Context(), 9, clinicaldoc.IfUnchanged(note))
		require.NoError(t, err)
		assert.Equal(t, `
		Notes.Sign
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
			1: PUT /v1/progress-notes/{id}/sign 503 (503) unknown
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
			2: PUT /v1/progress-notes/{id}/sign 200
`, told.String())
	})
}

// Storage is another server: it is not told of the trace, and hooks are not told where it is.
func TestHooksLearnOfDownloads(t *testing.T) {
	t.Parallel()
	var told hookLog
	a := newArchive(t, 1000)
	a.answer = firstly(func(w http.ResponseWriter, r *http.Request) { a.cut(w, r, 400) })
	client := a.client(t, told.option())
	_, err := client.Notes.DownloadAudio(socketContext(t), 7, io.Discard, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	var received int64
	for i, info := range told.infos {
		if info.Route == "storage" {
			assert.Empty(t, info.ServerAddress)
			assert.Zero(t, info.ServerPort)
			received += told.attempts[i].BytesReceived
		}
	}
	assert.EqualValues(t, 1000, received)
	const alongside = "\t\t\tNotes.Get\n\t\t\t\t1: GET /v1/progress-notes/{id} 200\n"
	tree := told.String()
	assert.Equal(t, 1, strings.Count(tree, alongside), "the note is asked for its size while the recording flows")
	assert.Equal(t, `
		Notes.DownloadAudio
			Notes.AudioURL
				1: GET /v1/progress-notes/{id}/audio-url 200
			1: GET storage 200 (no_response)
			2: GET storage 206
`, strings.Replace(tree, alongside, "", 1))
	for _, r := range a.seen() {
		assert.NotContains(t, r.Header, "Traceparent")
	}

	_, err = client.Notes.DownloadAudio(socketContext(t), 7, &badReader{}, clinicaldoc.DownloadParams{})
	require.Error(t, err)
	assert.Contains(t, told.String(), "Notes.DownloadAudio (_OTHER)\n", "what the caller's own code failed with is not known")

	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(t.TempDir(), "no", "such"), clinicaldoc.DownloadParams{})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, "\n\t\tNotes.DownloadAudioFile (file)\n", told.String())
}

// TestTraceContextStaysOnTheOrigin: a redirect on the base URL's own origin is followed with it, none leads elsewhere.
func TestTraceContextStaysOnTheOrigin(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	record := func(name string, next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, name+" "+r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
			mu.Unlock()
			next(w, r)
		}
	}
	other := socketHandler(t, record("elsewhere", socketStatus(http.StatusOK, socketNote(7))))
	var srv *httptest.Server
	srv = socketHandler(t, record("here", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/progress-notes/7":
			http.Redirect(w, r, srv.URL+"/moved", http.StatusTemporaryRedirect)
		case "/v1/progress-notes/8":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		default:
			socketStatus(http.StatusOK, socketNote(7))(w, r)
		}
	}))
	trace := clinicaldoc.TraceContext{Traceparent: traceparent, Tracestate: "vendor=1"}
	client := socketClient(t, srv.URL, clinicaldoc.WithHooks(clinicaldoc.Hooks{
		AttemptStart: func(ctx context.Context, _ clinicaldoc.AttemptInfo) (context.Context, clinicaldoc.TraceContext) {
			return ctx, trace
		},
	}))
	_, err := client.Notes.Get(socketContext(t), 7)
	require.NoError(t, err)
	_, err = client.Notes.Get(socketContext(t), 8)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	here := "here " + traceparent + " vendor=1"
	assert.Equal(t, []string{here, here, here}, seen)
}

// What a hook gives can be nothing but trace context, and takes the place of the caller's own whole.
func TestOnlyTraceContextIsSent(t *testing.T) {
	t.Parallel()
	for _, trace := range []clinicaldoc.TraceContext{
		{},
		{Traceparent: "CANARY"},
		{Traceparent: strings.Repeat("a", 55) + "\r\nX-Evil: 1"},
		{Traceparent: strings.Repeat("a", 129)},
		{Traceparent: strings.Replace(traceparent, "a", "A", 1)},
		{Traceparent: traceparent, Tracestate: "a=b\r\nX-Evil: 1"},
		{Traceparent: traceparent, Tracestate: strings.Repeat("a", 513)},
		{Tracestate: "a=b"},
	} {
		hooks := clinicaldoc.Hooks{AttemptStart: func(ctx context.Context, _ clinicaldoc.AttemptInfo) (context.Context, clinicaldoc.TraceContext) {
			return ctx, trace
		}}
		request := call{url: "/v1/progress-notes/7", response: smallNote, header: map[string]string{"Tracestate": "mine=1"}}
		_, err := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithHooks(hooks)}, request).Notes.Get(t.Context(), 7, clinicaldoc.WithHeader("tracestate", "mine=1"))
		require.NoError(t, err)
	}
	var told hookLog
	request := call{url: "/v1/progress-notes/7", response: smallNote, header: map[string]string{"Traceparent": traceparent}}
	_, err := serveWith(t, []clinicaldoc.Option{told.option()}, request).Notes.Get(t.Context(), 7,
		clinicaldoc.WithHeader("tracestate", "mine=1"), clinicaldoc.WithHeader("traceparent", "mine"))
	require.NoError(t, err)
}

// TestHooksAreToldWordsAndNumbers: an error, a header or a pointer would lead to what the service said or the caller sent.
func TestHooksAreToldWordsAndNumbers(t *testing.T) {
	t.Parallel()
	for field := range reflect.TypeFor[clinicaldoc.Hooks]().Fields() {
		for parameter := range field.Type.Ins() {
			if parameter == reflect.TypeFor[context.Context]() {
				continue
			}
			require.Equal(t, reflect.Struct, parameter.Kind(), field.Name)
			for part := range parameter.Fields() {
				assert.Contains(t, []reflect.Kind{reflect.String, reflect.Int, reflect.Int64, reflect.Bool}, part.Type.Kind(), "%s.%s", parameter, part.Name)
			}
		}
	}
}

func TestHooksLearnOfRetries(t *testing.T) {
	t.Parallel()
	var told hookLog
	srv := socketHandler(t, newSocketSteps(
		socketStatus(http.StatusTooManyRequests, `{"message":"CANARY"}`, "X-RateLimit-Remaining", "0", "Retry-After", "0"),
		socketStatus(http.StatusBadGateway, "<html>CANARY"), socketStatus(http.StatusOK, socketNote(7), "X-RateLimit-Remaining", "CANARY"),
	).ServeHTTP)
	_, err := socketClient(t, srv.URL, told.option()).Notes.Get(socketContext(t), 7)
	require.NoError(t, err)
	remaining := []int{}
	for _, result := range told.attempts {
		remaining = append(remaining, result.RateLimitRemaining)
	}
	assert.Equal(t, []int{0, -1, -1}, remaining)
	require.Len(t, told.calls, 1)
	assert.Equal(t, 3, told.calls[0].Attempts)
	assert.Equal(t, `
		Notes.Get
			1: GET /v1/progress-notes/{id} 429 (429)
			2: GET /v1/progress-notes/{id} 502 (502)
			3: GET /v1/progress-notes/{id} 200
`, told.String())
}

// Each failure has a word of its own, however it is wrapped.
func TestErrorTypes(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	get := func(ctx context.Context) func(*clinicaldoc.Client) error {
		return func(c *clinicaldoc.Client) error { _, err := c.Notes.Get(ctx, 7); return err }
	}
	create := func(params clinicaldoc.CreateNoteParams) func(*clinicaldoc.Client) error {
		return func(c *clinicaldoc.Client) error { _, err := c.Notes.Create(t.Context(), params); return err }
	}
	answered := func(answer call) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				_, err := io.Copy(io.Discard, r.Body)
				if err != nil {
					return nil, err
				}
			}
			if answer.method != "" && answer.method != r.Method {
				return madeResponse(r, http.StatusOK, smallNote), nil
			}
			if answer.fail != nil {
				return nil, answer.fail
			}
			return madeResponse(r, max(answer.status, http.StatusOK), answer.response), nil
		}
	}
	refuse := badCallback{errors.New(canary)}
	for want, test := range map[string]struct {
		answer call
		opt    clinicaldoc.Option
		do     func(*clinicaldoc.Client) error
	}{
		"":                    {answer: call{response: smallNote}, do: get(t.Context())},
		"404":                 {answer: call{status: 404}, do: get(t.Context())},
		"599":                 {answer: call{status: 599}, do: get(t.Context())},
		"unexpected_response": {answer: call{response: "<html>"}, do: get(t.Context())},
		"canceled":            {do: get(ended)},
		"deadline_exceeded":   {do: get(late)},
		"dns":                 {answer: call{fail: &net.OpError{Op: "dial", Err: &net.DNSError{Name: canary, IsNotFound: true}}}, do: get(t.Context())},
		"connect":             {answer: call{fail: &net.OpError{Op: "dial", Err: errors.New(canary)}}, do: get(t.Context())},
		"tls":                 {answer: call{fail: x509.UnknownAuthorityError{}}, do: get(t.Context())},
		"timeout":             {answer: call{fail: os.ErrDeadlineExceeded}, do: get(t.Context())},
		"no_response":         {answer: call{fail: io.ErrUnexpectedEOF}, do: get(t.Context())},
		"limiter":             {opt: clinicaldoc.WithLimiter(refuse), do: get(t.Context())},
		"token_source":        {opt: clinicaldoc.WithTokenSource(refuse), do: get(t.Context())},
		"audio_source":        {answer: call{response: smallNote}, do: create(clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader("a.wav", &badReader{})})},
		"before_commit":       {answer: call{response: smallNote}, do: create(clinicaldoc.CreateNoteParams{BeforeCommit: refuse.Wait})},
		"patient_mismatch":    {answer: call{response: withField(`"patient":{"id":5}`)}, do: create(clinicaldoc.CreateNoteParams{PatientID: 4})},
		"invalid_argument": {do: func(c *clinicaldoc.Client) error {
			_, err := c.Notes.List(t.Context(), clinicaldoc.ListNotesParams{}, clinicaldoc.WithQuery("", ""))
			return err
		}},
		"note_incomplete": {answer: call{method: http.MethodPut, status: 409}, do: func(c *clinicaldoc.Client) error { _, err := c.Notes.Sign(t.Context(), 7); return err }},
		"incomplete_list": {answer: call{response: `{"data":[{"id":7,"name":"n"}],"meta":{"current_page":1,"last_page":1,"total":9}}`}, do: func(c *clinicaldoc.Client) error {
			_, err := clinicaldoc.Collect(c.Notes.All(t.Context(), clinicaldoc.ListNotesParams{}))
			return err
		}},
		"processing_failed": {answer: call{response: withField(`"error_state":"CANARY"`)}, do: func(c *clinicaldoc.Client) error {
			_, err := c.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
			return err
		}},
		"outcome_unknown": {do: func(c *clinicaldoc.Client) error {
			_, err := c.Notes.FindCreated(t.Context(), &lostCreate{SentAt: time.Now()}, clinicaldoc.FindCreatedParams{})
			return err
		}},
	} {
		var told hookLog
		opts := []clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: answered(test.answer)}), once, told.option()}
		token := testToken
		if test.opt != nil {
			opts = append(opts, test.opt)
		}
		if want == "token_source" {
			token = ""
		}
		client, err := clinicaldoc.NewClient(testBase, token, opts...)
		require.NoError(t, err)
		err = test.do(client)
		require.Equal(t, want == "", err == nil, "%s: %v", want, err)
		require.NotEmpty(t, told.calls, want)
		assert.Equal(t, want, told.calls[len(told.calls)-1].ErrorType)
		assertSilent(t, told.String(), want)
	}
}

func TestConflictsAndStallsAreNamed(t *testing.T) {
	t.Parallel()
	var told hookLog
	d := newDesk()
	client := d.client(t, told.option())
	_, err := client.Notes.Delete(t.Context(), 9, clinicaldoc.IfUnchanged(&clinicaldoc.ProgressNote{ID: 9}))
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	assert.Contains(t, told.String(), "Notes.Delete (conflict)\n")
	synctest.Test(t, func(t *testing.T) {
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}, told.option(), once)
		_, err := client.Notes.Get(t.Context(), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		assert.Contains(t, told.String(), "Notes.Get (stalled)\n\t\t\t1: GET /v1/progress-notes/{id} (stalled)\n")
	})
}

type otherKey struct{}

// Of a context that a hook makes, only the values count: it can neither keep a call from ending nor end it, nor read along.
func TestHooksCannotChangeTheLifeOfACall(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New(canary))
	spy := func(ctx context.Context) context.Context {
		return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteHeaderField: func(key string, _ []string) { t.Errorf("a hook sees the header %s", key) },
			GetConn:          func(string) { t.Error("a hook sees the address") },
		})
	}
	for name, make := range map[string]func(context.Context) context.Context{
		"nil":       func(context.Context) context.Context { return nil },
		"unrelated": func(context.Context) context.Context { return context.WithValue(context.Background(), otherKey{}, 1) }, //nolint:usetesting // what a careless hook does
		"over":      func(context.Context) context.Context { return context.WithValue(over, otherKey{}, 1) },
		"spy":       spy,
	} {
		hooks := clinicaldoc.Hooks{
			CallStart: func(ctx context.Context, _ clinicaldoc.CallInfo) context.Context { return make(ctx) },
			AttemptStart: func(ctx context.Context, _ clinicaldoc.AttemptInfo) (context.Context, clinicaldoc.TraceContext) {
				return make(ctx), clinicaldoc.TraceContext{}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		srv := socketHandler(t, newSocketSteps(socketStatus(http.StatusOK, socketNote(7)), func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		}).ServeHTTP)
		var seen any
		client := socketClient(t, srv.URL, clinicaldoc.WithHooks(hooks), clinicaldoc.WithObserver(func(ctx context.Context, _ clinicaldoc.Attempt) { seen = ctx.Value(otherKey{}) }))
		_, err := client.Notes.Get(ctx, 7)
		require.NoError(t, err, name)
		assert.Equal(t, name == "unrelated" || name == "over", seen != nil, name)
		_, err = client.Notes.Get(ctx, 7)
		require.ErrorIs(t, err, context.Canceled, name)
	}
}

// A panic of a hook comes out of the call, in the caller's goroutine, whatever begun is ended, and the client works on.
func TestPanicsOfHooks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"CallStart", "AttemptStart", "AttemptEnd", "CallEnd"} {
		var told hookLog
		hooks := told.hooks()
		broken := hooks
		switch name {
		case "CallStart":
			broken.CallStart = func(context.Context, clinicaldoc.CallInfo) context.Context { panic(name) }
		case "AttemptStart":
			broken.AttemptStart = func(context.Context, clinicaldoc.AttemptInfo) (context.Context, clinicaldoc.TraceContext) {
				panic(name)
			}
		case "AttemptEnd":
			broken.AttemptEnd = func(ctx context.Context, a clinicaldoc.AttemptInfo, r clinicaldoc.AttemptResult) {
				hooks.AttemptEnd(ctx, a, r)
				panic(name)
			}
		case "CallEnd":
			broken.CallEnd = func(ctx context.Context, call clinicaldoc.CallInfo, r clinicaldoc.CallResult) {
				hooks.CallEnd(ctx, call, r)
				panic(name)
			}
		}
		steps := newSocketSteps(socketStatus(http.StatusCreated, socketNote(7)))
		client := socketClient(t, socketHandler(t, steps.ServeHTTP).URL, clinicaldoc.WithHooks(broken))
		assert.PanicsWithValue(t, name, func() { _, _ = client.Notes.Create(socketContext(t), socketParams(100_000)) })
		want := map[string]string{
			"CallStart":    "\n",
			"AttemptStart": "\n\t\tNotes.Create (panic)\n",
			"AttemptEnd":   "\n\t\tNotes.Create (panic)\n\t\t\t1: POST /v1/progress-notes 201\n",
			"CallEnd":      "\n\t\tNotes.Create\n\t\t\t1: POST /v1/progress-notes 201\n",
		}[name]
		assert.Equal(t, want, told.String())
		assert.LessOrEqual(t, len(steps.requests()), 1, "nothing is sent twice")
	}
}

// What else panics, or ends the goroutine, leaves nothing open.
func TestHooksLearnOfPanics(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panic": func() { panic("of the transport") }, "Goexit": runtime.Goexit} {
		var told hookLog
		client := clientOn(t, &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { leave(); return nil, nil })}, told.option()) //nolint:nilnil // never returned
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_, _ = client.Notes.Get(t.Context(), 7)
		}()
		<-done
		assert.Equal(t, "\n\t\tNotes.Get (panic)\n\t\t\t1: GET /v1/progress-notes/{id} (panic)\n", told.String(), name)
	}
}

// A hook that blocks holds up its call, whose context counts and whose stall timeout does not.
func TestHooksThatBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		sent := 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			sent++
			return madeResponse(r, http.StatusOK, smallNote), nil
		})
		blocking := clinicaldoc.Hooks{AttemptStart: func(ctx context.Context, _ clinicaldoc.AttemptInfo) (context.Context, clinicaldoc.TraceContext) {
			select {
			case <-time.After(90 * time.Minute):
			case <-ctx.Done():
			}
			return ctx, clinicaldoc.TraceContext{}
		}}
		client := timedClient(t, transport, clinicaldoc.WithHooks(blocking), once)
		_, err := client.Notes.Get(ctx, 7)
		require.NoError(t, err)
		_, err = client.Notes.Get(ctx, 7)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, sent)
	})
}

// Whoever logs or counts with the context learns which attempt it is about.
func TestObserversGetTheContextOfTheAttempt(t *testing.T) {
	t.Parallel()
	var told hookLog
	var observed, logged, limited string
	text := func(ctx context.Context) string {
		entry, ok := ctx.Value(hookKey{}).(*hookEntry)
		if !ok {
			return "none"
		}
		return entry.text
	}
	client := serveWith(t, []clinicaldoc.Option{
		told.option(),
		clinicaldoc.WithObserver(func(ctx context.Context, _ clinicaldoc.Attempt) { observed = text(ctx) }),
		clinicaldoc.WithLogger(slog.New(contextHandler{slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug}), func(ctx context.Context) { logged = text(ctx) }})),
		clinicaldoc.WithLimiter(limiterFunc(func(ctx context.Context) error { limited = text(ctx); return nil })),
	}, call{url: "/v1/progress-notes/7", response: smallNote, header: map[string]string{"Traceparent": traceparent}})
	_, err := client.Notes.Get(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, "1: GET /v1/progress-notes/{id}", observed)
	assert.Equal(t, observed, logged)
	assert.Equal(t, "Notes.Get", limited, "what comes before the sending belongs to the call")
}

type contextHandler struct {
	slog.Handler

	see func(context.Context)
}

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	h.see(ctx)
	return h.Handler.Handle(ctx, r)
}

// Each hook works without the others.
func TestHooksMayBeMissing(t *testing.T) {
	t.Parallel()
	var told hookLog
	all := told.hooks()
	for _, hooks := range []clinicaldoc.Hooks{{}, {CallStart: all.CallStart}, {AttemptStart: all.AttemptStart}, {AttemptEnd: all.AttemptEnd}, {CallEnd: all.CallEnd}} {
		client := clientOn(t, &http.Client{Transport: canned(smallNote)}, clinicaldoc.WithHooks(hooks))
		_, err := client.Notes.Get(t.Context(), 7)
		require.NoError(t, err)
	}
}
