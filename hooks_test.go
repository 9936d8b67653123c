package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestHooks_EveryEndpoint_IsReported(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		var reported hookLog
		request := e.request()
		request.header = map[string]string{"Traceparent": traceparent}
		request.answerHeader = map[string]string{"X-RateLimit-Remaining": "41"}
		must(e.call(t.Context(), serveWith(t, []clinicaldoc.Option{reported.option()}, request)))(t)
		require.Len(t, reported.attempts, 1, e.operation)
		require.Len(t, reported.calls, 1, e.operation)
		attempt := reported.attempts[0]
		assert.Equal(t, e.body != "", attempt.BytesSent > 0, e.operation)
		attempt.BytesSent = 0
		attempt.Duration = 0
		assert.Equal(t, clinicaldoc.Attempt{
			Operation: e.operation, Method: e.method, Route: e.route, ServerAddress: "api.clinic.test", ServerPort: 443,
			Number:     1,
			StatusCode: http.StatusOK, BytesReceived: int64(len(e.ok)), RateLimitRemaining: 41,
		}, attempt)
		reported.calls[0].Duration = 0
		assert.Equal(t, clinicaldoc.Call{Operation: e.operation, Attempts: 1}, reported.calls[0])
		assert.Equal(t, "\n\t\t"+e.operation+"\n\t\t\t1: "+e.method+" "+e.route+" 200\n", reported.String())
	}
}

// A method that consists of calls is a call itself, and contains them.
func TestHooks_CallsWithinCalls_AreReportedBelow(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "wait", func(t *testing.T) {
		var reported hookLog
		_, client := newPolled(t, inOrder(noteIn(7, stageUploaded), noteIn(7, stageComplete)), reported.option())
		must(client.Notes.Wait(t.Context(), 7, waitParams{}))(t)
		assert.Equal(t, `
		Notes.Wait
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
`, reported.String())
		for range client.Notes.Watch(t.Context(), 7, waitParams{}) {
			break
		}
		ctx := endsAfter(t, time.Second)
		_, err := clinicaldoc.Collect(client.Notes.WaitAll(ctx, []int64{7}, waitParams{Until: stageSigned}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, `
		Notes.Watch
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
		Notes.WaitAll (deadline_exceeded)
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
`, reported.String())
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		var reported hookLog
		pages := roundTripper(func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusOK,
					`{"data":[{"id":`+strings.TrimPrefix("1"+r.URL.Query().Get("page"),
						"1")+`7,"name":"n"}],"meta":{"current_page":`+max(r.URL.Query().Get("page"), "1")+`,"last_page":2}}`),
				nil
		})
		client := clientOver(t, pages, reported.option())
		walk := client.Notes.All(t.Context(), listParams{Prefetch: 2})
		const page = "\n\t\t\tNotes.List\n\t\t\t\t1: GET /v1/progress-notes 200"
		for range 2 { // each range is a call of its own
			must(clinicaldoc.Collect(walk))(t)
			assert.Equal(t, "\n\t\tNotes.All"+page+page+"\n", reported.String())
		}
		for range client.Notes.All(t.Context(), listParams{}) {
			break
		}
		assert.Equal(t, "\n\t\tNotes.All"+page+"\n", reported.String())
		assert.Panics(t, func() {
			for range client.Notes.All(t.Context(), listParams{}) {
				panic("of the reader")
			}
		})
		assert.Equal(t, "\n\t\tNotes.All (panic)"+page+"\n", reported.String())
		_, err := clinicaldoc.Collect(client.Notes.All(t.Context(), listParams{PatientID: 4}))
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
		assert.Equal(t, `
		Notes.All (patient_mismatch)
			Notes.List (patient_mismatch)
				1: GET /v1/progress-notes 200
`, reported.String())
	})
	timedSubtest(t, "find created", func(t *testing.T) {
		var reported hookLog
		s := newFakeService(t)
		client := clientOn(t, s.httpClient(), reported.option())
		lost := lose(t, client, visit())
		ago(lost, time.Hour)
		_, err := client.Notes.FindCreated(t.Context(), lost, clinicaldoc.FindCreatedParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, `
		Notes.Create (no_response) unknown
			1: POST /v1/progress-notes (no_response) unknown
		Notes.FindCreated (not_created)
			Notes.List
				1: GET /v1/progress-notes 200
`, reported.String())
	})
	t.Run("sign", func(t *testing.T) {
		t.Parallel()
		var reported hookLog
		d := newNoteServer()
		client := d.client(t, reported.option())
		note := must(client.Notes.Get(t.Context(), 9))(t)
		_ = reported.String()
		d.faults = []writeFault{{status: http.StatusServiceUnavailable}}
		must(client.Notes.Sign(t.Context(), 9, clinicaldoc.IfUnchanged(note)))(t)
		assert.Equal(t, `
		Notes.Sign
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
			1: PUT /v1/progress-notes/{id}/sign 503 (503) unknown
			Notes.Get
				1: GET /v1/progress-notes/{id} 200
			2: PUT /v1/progress-notes/{id}/sign 200
`, reported.String())
	})
}

func TestLogger_ReportsTheNumbersOfTheHooks(t *testing.T) {
	t.Parallel()
	var reported hookLog
	var log bytes.Buffer
	cut := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp := madeResponse(r, http.StatusOK, "")
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat(" ", 100)),
			iotest.ErrReader(io.ErrUnexpectedEOF)))
		return resp, nil
	})
	client := clientOver(t, cut, reported.option(),
		clinicaldoc.WithLogger(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	_, err := client.Notes.Get(t.Context(), 7)
	require.Error(t, err)
	require.Len(t, reported.attempts, 1)
	attempt := reported.attempts[0]
	assert.EqualValues(t, 100, attempt.BytesReceived)
	assert.Same(t, err, attempt.Err)
	var line map[string]any
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	assert.EqualValues(t, 100, line["bytes_received"])
	assert.EqualValues(t, attempt.Duration, line["duration"])
	assert.Equal(t, err.Error(), line["error"])
}

// CallEnd gets a context that has not ended if the caller's has not, so the hook can still use it.
func TestHooks_CallEnd_HasCallersContext(t *testing.T) {
	t.Parallel()
	var ends []string
	hooks := clinicaldoc.WithHooks(clinicaldoc.Hooks{CallEnd: func(ctx context.Context, call clinicaldoc.Call) {
		require.NoError(t, ctx.Err(), call.Operation)
		ends = append(ends, call.Operation)
	}})
	_, client := newPolled(t, always(http.StatusOK, noteIn(7, stageComplete)), hooks)
	must(client.Notes.Wait(t.Context(), 7, waitParams{}))(t)
	must(clinicaldoc.Collect(client.Notes.Watch(t.Context(), 7, waitParams{})))(t)
	must(clinicaldoc.Collect(client.Notes.WaitAll(t.Context(), []int64{7}, waitParams{})))(t)
	assert.Equal(t, []string{"Notes.Get", "Notes.Wait", "Notes.Get", "Notes.Watch", "Notes.Get", "Notes.WaitAll"}, ends)
}

// Storage is another server. It does not receive the trace, and hooks do not receive its address.
func TestHooks_Downloads_AreReported(t *testing.T) {
	t.Parallel()
	var reported hookLog
	a := newAudioServer(t, 1000)
	a.answer = firstly(func(w http.ResponseWriter, r *http.Request) { a.cut(w, r, 400) })
	client := a.client(t, reported.option())
	must(client.Notes.DownloadAudio(socketContext(t), 7, io.Discard, downloadParams{}))(t)
	var received int64
	for _, attempt := range reported.attempts {
		if attempt.Route == "storage" {
			assert.Empty(t, attempt.ServerAddress)
			assert.Zero(t, attempt.ServerPort)
			assert.Equal(t, attempt.ErrorType != "", attempt.Err != nil)
			received += attempt.BytesReceived
		}
	}
	assert.EqualValues(t, 1000, received)
	const alongside = "\t\t\tNotes.Get\n\t\t\t\t1: GET /v1/progress-notes/{id} 200\n"
	tree := reported.String()
	assert.Equal(t, 1, strings.Count(tree, alongside), "the note is asked for its size while the recording flows")
	assert.Equal(t, `
		Notes.DownloadAudio
			Notes.AudioURL
				1: GET /v1/progress-notes/{id}/audio-url 200
			1: GET storage (no_response)
			2: GET storage 206
`, strings.Replace(tree, alongside, "", 1))
	for _, r := range a.seen() {
		assert.NotContains(t, r.Header, "Traceparent")
	}

	_, err := client.Notes.DownloadAudio(socketContext(t), 7, &badReader{}, downloadParams{})
	require.Error(t, err)
	assert.Contains(t, reported.String(), "Notes.DownloadAudio (_OTHER)\n",
		"what the caller's own code failed with is not known")

	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(t.TempDir(), "no", "such"),
		downloadParams{})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, "\n\t\tNotes.DownloadAudioFile (file)\n", reported.String())

	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(t.TempDir(), "visit.wav"),
		downloadParams{IgnoreSize: true})
	require.NoError(t, err)
	last := reported.attempts[len(reported.attempts)-1]
	assert.Equal(t, "storage", last.Route)
	assert.Equal(t, "Notes.DownloadAudioFile", last.Operation, "of the call that it belongs to")
}

// A redirect on the origin of the base URL is followed with the trace context. No request to another origin has it.
func TestHooks_TraceContext_StaysOnTheOrigin(t *testing.T) {
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
		AttemptStart: func(ctx context.Context, _ clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
			return ctx, trace
		},
	}))
	must(client.Notes.Get(socketContext(t), 7))(t)
	_, err := client.Notes.Get(socketContext(t), 8)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	here := "here " + traceparent + " vendor=1"
	assert.Equal(t, []string{here, here, here}, seen)
}

// Only valid trace context of a hook is sent. It replaces both headers of the caller's.
func TestHooks_InvalidTraceContext_IsNotSent(t *testing.T) {
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
		hooks := clinicaldoc.Hooks{AttemptStart: func(ctx context.Context, _ clinicaldoc.Attempt) (context.Context,
			clinicaldoc.TraceContext) {
			return ctx, trace
		}}
		request := call{url: "/v1/progress-notes/7", response: smallNote,
			header: map[string]string{"Tracestate": "mine=1"}}
		_, err := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithHooks(hooks)}, request).Notes.Get(t.Context(), 7,
			clinicaldoc.WithHeader("tracestate", "mine=1"))
		require.NoError(t, err)
	}
	var reported hookLog
	request := call{url: "/v1/progress-notes/7", response: smallNote,
		header: map[string]string{"Traceparent": traceparent}}
	must(serveWith(t, []clinicaldoc.Option{reported.option()}, request).Notes.Get(t.Context(), 7,
		clinicaldoc.WithHeader("tracestate", "mine=1"), clinicaldoc.WithHeader("traceparent", "mine")))(t)
}

// A header or a pointer would give a hook what the service sent or the caller passed. Only Err does.
func TestHooks_ReceiveNamesNumbersAndErr(t *testing.T) {
	t.Parallel()
	for field := range reflect.TypeFor[clinicaldoc.Hooks]().Fields() {
		for parameter := range field.Type.Ins() {
			if parameter == reflect.TypeFor[context.Context]() {
				continue
			}
			require.Equal(t, reflect.Struct, parameter.Kind(), field.Name)
			for part := range parameter.Fields() {
				if part.Name == "Err" && part.Type == reflect.TypeFor[error]() {
					continue
				}
				assert.Contains(t, []reflect.Kind{reflect.String, reflect.Int, reflect.Int64, reflect.Bool},
					part.Type.Kind(), "%s.%s", parameter, part.Name)
			}
		}
	}
}

func TestHooks_Retries_AreReported(t *testing.T) {
	t.Parallel()
	var reported hookLog
	srv := socketHandler(t, newSocketSteps(
		socketStatus(http.StatusTooManyRequests, `{"message":"CANARY"}`,
			"X-RateLimit-Remaining", "0", "Retry-After", "0"),
		socketStatus(http.StatusBadGateway, "<html>CANARY"),
		socketStatus(http.StatusOK, socketNote(7), "X-RateLimit-Remaining", "CANARY"),
	).ServeHTTP)
	must(socketClient(t, srv.URL, reported.option()).Notes.Get(socketContext(t), 7))(t)
	remaining := []int{}
	for _, result := range reported.attempts {
		remaining = append(remaining, result.RateLimitRemaining)
	}
	assert.Equal(t, []int{0, -1, -1}, remaining)
	require.Len(t, reported.calls, 1)
	assert.Equal(t, 3, reported.calls[0].Attempts)
	assert.Equal(t, `
		Notes.Get
			1: GET /v1/progress-notes/{id} 429 (429)
			2: GET /v1/progress-notes/{id} 502 (502)
			3: GET /v1/progress-notes/{id} 200
`, reported.String())
}

// The rate limit headers of storage are not reported as those of the service.
func TestHooks_LimitOfStorage_IsNotTheServices(t *testing.T) {
	t.Parallel()
	remaining := map[string]int{}
	client := timedClient(t, func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "storage.clinic.test" {
			return madeResponse(r, http.StatusOK, "RIFF", "Content-Type", "audio/wav", "X-RateLimit-Remaining", "5"),
				nil
		}
		return madeResponse(r, http.StatusOK, `{"url":"https://storage.clinic.test/visit.wav"}`,
			"X-RateLimit-Remaining", "7"), nil
	}, clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: func(_ context.Context, a clinicaldoc.Attempt) {
		remaining[a.Route] = a.RateLimitRemaining
	}}))
	must(client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{IgnoreSize: true}))(t)
	assert.Equal(t, map[string]int{"/v1/progress-notes/{id}/audio-url": 7, "storage": -1}, remaining)
}

// A response that arrived is reported, even if the caller's context ended meanwhile.
func TestHooks_RefusalAtTheDeadline_IsNotItsEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var word string
	client := timedClient(t, func(r *http.Request) (*http.Response, error) {
		cancel()
		return madeResponse(r, http.StatusNotFound, `{}`), nil
	}, clinicaldoc.WithHooks(
		clinicaldoc.Hooks{CallEnd: func(_ context.Context, r clinicaldoc.Call) { word = r.ErrorType }}))
	_, err := client.Notes.Get(ctx, 7)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	assert.Equal(t, "404", word)
}

// The attempt that a limit refuses reports how long the client waits. The log says so in words.
func TestHooks_ReportTheWaitForALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport, _ := limitedOnce(http.StatusTooManyRequests)
		var reported hookLog
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		client := timedClient(t, transport, reported.option(), clinicaldoc.WithLogger(logger))
		must(client.Notes.Get(t.Context(), 9))(t)
		require.Len(t, reported.attempts, 2)
		assert.Equal(t, time.Minute, reported.attempts[0].RateLimitWait)
		assert.Zero(t, reported.attempts[1].RateLimitWait)
		lines := strings.Split(log.String(), "\n")
		assert.Contains(t, lines[0], `msg="clinicaldoc attempt: waiting for the service's rate limit"`)
		assert.Contains(t, lines[0], "rate_limit_wait=1m0s")
		assert.Contains(t, lines[1], `msg="clinicaldoc attempt" `)
		assert.NotContains(t, lines[1], "rate_limit_wait")
		encoded := must(json.Marshal(reported.attempts[0]))(t)
		assert.Contains(t, string(encoded), `"RateLimitWait":60000000000`)
	})
}

// A call whose context ends while it waits for a limit is not sent, and is reported with Number 0.
func TestHooks_ReportCallsThatEndAtALimit(t *testing.T) {
	t.Parallel()
	type test struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
		word string
	}
	late := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 10*time.Second)
	}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(10*time.Second, cancel)
		return ctx, cancel
	}
	timedSubtests(t, map[string]test{
		"deadline": {late, context.DeadlineExceeded, "rate_limit"},
		"canceled": {canceled, context.Canceled, "canceled"},
	}, func(t *testing.T, tt test) {
		transport, requests := limitedOnce(http.StatusTooManyRequests)
		var reported hookLog
		client := timedClient(t, transport, reported.option())
		_, err := client.Notes.Get(t.Context(), 9, clinicaldoc.WithoutRetry())
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		assert.Equal(t, time.Minute, reported.attempts[0].RateLimitWait, "the other calls of the client wait")
		ctx, cancel := tt.end(t.Context())
		defer cancel()
		var response clinicaldoc.Response
		_, err = client.Notes.Create(ctx, socketParams(10), clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, tt.want)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		require.ErrorContains(t, err, "not sent")
		assert.Zero(t, response.Attempts)
		assert.EqualValues(t, 1, requests.Load())
		require.Len(t, reported.attempts, 2)
		attempt := reported.attempts[1]
		assert.Zero(t, attempt.Number)
		assert.Zero(t, attempt.RateLimitWait)
		assert.Equal(t, tt.word, attempt.ErrorType)
		assert.Equal(t, tt.word, reported.calls[1].ErrorType)
	})
}

// An attempt that fails before its request is sent is reported as any other, with Number 0.
func TestHooks_ReportAttemptsRefusedBeforeSending(t *testing.T) {
	t.Parallel()
	ended := endedContext(t)
	failing := badCallback{errors.New(canary)}
	elsewhere := func(r *http.Request) (*http.Response, error) {
		return madeResponse(r, http.StatusOK, `{"url":"http://10.0.0.1/`+canary+`"}`), nil
	}
	get := func(ctx context.Context, c *clinicaldoc.Client) error {
		_, err := c.Notes.Get(ctx, 7)
		return err
	}
	download := func(ctx context.Context, c *clinicaldoc.Client) error {
		_, err := c.Notes.DownloadAudio(ctx, 7, io.Discard, downloadParams{IgnoreSize: true})
		return err
	}
	for name, test := range map[string]struct {
		ctx    context.Context //nolint:containedctx // of one case
		option clinicaldoc.Option
		do     func(context.Context, *clinicaldoc.Client) error
		want   string
	}{
		"limiter": {
			option: clinicaldoc.WithLimiter(failing),
			want:   "\n\t\tNotes.Get (limiter)\n\t\t\t0: GET /v1/progress-notes/{id} (limiter)\n",
		},
		"limiter after the deadline": {
			option: clinicaldoc.WithLimiter(
				limiterFunc(func(context.Context) error { return context.DeadlineExceeded })),
			want: "\n\t\tNotes.Get (limiter)\n\t\t\t0: GET /v1/progress-notes/{id} (limiter)\n",
		},
		"token source": {
			option: clinicaldoc.WithTokenSource(failing),
			want:   "\n\t\tNotes.Get (token_source)\n\t\t\t0: GET /v1/progress-notes/{id} (token_source)\n",
		},
		"context": {
			ctx:  ended,
			want: "\n\t\tNotes.Get (canceled)\n\t\t\t0: GET /v1/progress-notes/{id} (canceled)\n",
		},
		"address of a recording": {
			option: over(roundTripper(elsewhere)),
			do:     download,
			want: "\n\t\tNotes.DownloadAudio (unexpected_response)" +
				"\n\t\t\tNotes.AudioURL\n\t\t\t\t1: GET /v1/progress-notes/{id}/audio-url 200" +
				"\n\t\t\t0: GET storage (unexpected_response)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reported hookLog
			var log bytes.Buffer
			logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			opts := []clinicaldoc.Option{reported.option(), clinicaldoc.WithLogger(logger)}
			token := testToken
			if name == "token source" {
				token = ""
			}
			if test.option != nil {
				opts = append(opts, test.option)
			}
			client := must(clinicaldoc.NewClient(testBase, token, opts...))(t)
			do := get
			if test.do != nil {
				do = test.do
			}
			err := do(cmp.Or(test.ctx, t.Context()), client)
			require.Error(t, err)
			attempt := reported.attempts[len(reported.attempts)-1]
			call := reported.calls[len(reported.calls)-1]
			assert.Zero(t, attempt.Number)
			assert.Zero(t, attempt.StatusCode)
			assert.Zero(t, attempt.Duration)
			assert.Equal(t, -1, attempt.RateLimitRemaining)
			assert.Equal(t, err.Error(), attempt.Err.Error())
			assert.Same(t, err, call.Err)
			assert.Zero(t, call.Attempts)
			assertSameAttempts(t, reported.attempts, log.String())
			assertSilent(t, fmt.Sprintf("%+v %+v", attempt, call)+log.String(), name)
			assert.Equal(t, test.want, reported.String())
		})
	}
}

// assertSameAttempts compares what the hooks and the logger reported.
func assertSameAttempts(t *testing.T, attempts []clinicaldoc.Attempt, log string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	require.Len(t, lines, len(attempts))
	for i, attempt := range attempts {
		var line struct {
			Operation, Method, Route string
			Attempt, Status          int
			Error                    string
		}
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &line))
		assert.Equal(t, attempt.Operation, line.Operation)
		assert.Equal(t, attempt.Method, line.Method)
		assert.Equal(t, attempt.Route, line.Route)
		assert.Equal(t, attempt.Number, line.Attempt)
		assert.Equal(t, attempt.StatusCode, line.Status)
		if attempt.Err != nil {
			assert.Equal(t, attempt.Err.Error(), line.Error)
		}
	}
}

// If the limiter panics, the call is reported without an attempt, because none has begun.
func TestHooks_PanicBeforeSending_ReportsTheCall(t *testing.T) {
	t.Parallel()
	var reported hookLog
	var log bytes.Buffer
	limiter := limiterFunc(func(context.Context) error { panic("of the limiter") })
	client := clientOver(t, canned(smallNote), reported.option(), clinicaldoc.WithLimiter(limiter),
		clinicaldoc.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	assert.PanicsWithValue(t, "of the limiter", func() { _, _ = client.Notes.Get(t.Context(), 7) })
	assert.Equal(t, "\n\t\tNotes.Get (panic)\n", reported.String())
	assert.Empty(t, log.String(), "an attempt is logged only if it began")
}

func TestHooks_LoopPanics_ReportsTheCall(t *testing.T) {
	t.Parallel()
	answer := `{"data":` + rows(1, 2) + `,"links":{"next":null}}`
	audited := clinicaldoc.WithAudit(func(context.Context, clinicaldoc.Access) error { return nil })
	for _, opts := range [][]clinicaldoc.Option{nil, {audited}} {
		for name, how := range map[string]func(){
			"panic":  func() { panic("of the loop") },
			"Goexit": runtime.Goexit,
		} {
			var reported hookLog
			client := clientOver(t, canned(answer), append(opts, reported.option())...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				for range client.Notes.All(t.Context(), listParams{}) {
					how()
				}
			}()
			<-done
			assert.True(t, strings.HasPrefix(reported.String(), "\n\t\tNotes.All (panic)\n"), "%s: %s", name, &reported)
		}
		var reported hookLog
		client := clientOver(t, canned(answer), append(opts, reported.option())...)
		for range client.Notes.All(t.Context(), listParams{}) {
			break
		}
		assert.True(t, strings.HasPrefix(reported.String(), "\n\t\tNotes.All\n"), "%s", &reported)
	}
}

// An error of the caller's own code is reported by its type alone, and errors.Is still finds it.
func TestHooks_CallErr_HidesForeignTexts(t *testing.T) {
	t.Parallel()
	own := errors.New(canary)
	var reported hookLog
	a := newAudioServer(t, 1000)
	_, err := a.client(t, reported.option()).Notes.DownloadAudio(socketContext(t), 7, failingWriter{0, own},
		downloadParams{})
	require.ErrorIs(t, err, own)
	call := reported.calls[len(reported.calls)-1]
	require.ErrorIs(t, call.Err, own)
	assertSilent(t, fmt.Sprintf("%v %+v %#v %s", call, call, call, call.Err), "call")
	encoded := must(json.Marshal(call))(t)
	assertSilent(t, string(encoded), "JSON of the call")
}

func TestLogger_ReportsAnAttemptThatPanicked(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	client := timedClient(t, func(*http.Request) (*http.Response, error) { panic(canary) },
		clinicaldoc.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	assert.PanicsWithValue(t, canary, func() { _, _ = client.Notes.Get(t.Context(), 7) })
	assert.Equal(t, 1, strings.Count(log.String(), "\n"))
	assert.Contains(t, log.String(), `error="panic during call"`)
	assertSilent(t, log.String(), "panic")
}

// The duration of an attempt begins when it is sent. That of a call includes the limiter, and does not include
// CallStart.
func TestHooks_Durations_AreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var call, attempt time.Duration
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return madeResponse(r, http.StatusOK, socketNote(7)), nil
		}, clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { time.Sleep(time.Second); return nil })),
			clinicaldoc.WithHooks(clinicaldoc.Hooks{
				CallStart: func(ctx context.Context,
					_ clinicaldoc.Call) context.Context {
					time.Sleep(time.Minute)
					return ctx
				},
				AttemptEnd: func(_ context.Context, r clinicaldoc.Attempt) { attempt = r.Duration },
				CallEnd:    func(_ context.Context, r clinicaldoc.Call) { call = r.Duration },
			}))
		must(client.Notes.Get(t.Context(), 7))(t)
		assert.Equal(t, 3*time.Second, attempt)
		assert.Equal(t, 4*time.Second, call)
	})
}

// Each failure has its own ErrorType, however the error is wrapped.
func TestHooks_ErrorType_NamesTheFailure(t *testing.T) {
	t.Parallel()
	ended := endedContext(t)
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	get := func(ctx context.Context) func(*clinicaldoc.Client) error {
		return func(c *clinicaldoc.Client) error { _, err := c.Notes.Get(ctx, 7); return err }
	}
	create := func(params createParams) func(*clinicaldoc.Client) error {
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
		"dns": {answer: call{fail: &net.OpError{Op: "dial",
			Err: &net.DNSError{Name: canary, IsNotFound: true}}}, do: get(t.Context())},
		"connect": {answer: call{fail: &net.OpError{Op: "dial", Err: errors.New(canary)}},
			do: get(t.Context())},
		"tls":          {answer: call{fail: x509.UnknownAuthorityError{}}, do: get(t.Context())},
		"timeout":      {answer: call{fail: os.ErrDeadlineExceeded}, do: get(t.Context())},
		"no_response":  {answer: call{fail: io.ErrUnexpectedEOF}, do: get(t.Context())},
		"limiter":      {opt: clinicaldoc.WithLimiter(refuse), do: get(t.Context())},
		"token_source": {opt: clinicaldoc.WithTokenSource(refuse), do: get(t.Context())},
		"audio_source": {answer: call{response: smallNote},
			do: create(createParams{Audio: clinicaldoc.AudioReader("a.wav", &badReader{})})},
		"before_commit": {answer: call{response: smallNote}, do: create(createParams{BeforeCommit: refuse.Wait})},
		"patient_mismatch": {answer: call{response: withField(`"patient":{"id":5}`)},
			do: create(createParams{PatientID: 4})},
		"invalid_argument": {do: func(c *clinicaldoc.Client) error {
			_, err := c.Notes.List(t.Context(), listParams{PerPage: -1})
			return err
		}},
		"note_incomplete": {answer: call{method: http.MethodPut, status: 409},
			do: func(c *clinicaldoc.Client) error { _, err := c.Notes.Sign(t.Context(), 7); return err }},
		"incomplete_list": {answer: call{response: `{"data":[{"id":7,"name":"n"}],"meta":{"current_page":1,"last_page":1,"total":9}}`}, do: func(c *clinicaldoc.Client) error {
			_, err := clinicaldoc.Collect(c.Notes.All(t.Context(), listParams{}))
			return err
		}},
		"processing_failed": {answer: call{response: withField(`"error_state":"CANARY"`)},
			do: func(c *clinicaldoc.Client) error {
				_, err := c.Notes.Wait(t.Context(), 7, waitParams{})
				return err
			}},
		"outcome_unknown": {do: func(c *clinicaldoc.Client) error {
			_, err := c.Notes.FindCreated(t.Context(), &lostCreate{SentAt: time.Now()}, clinicaldoc.FindCreatedParams{})
			return err
		}},
	} {
		var reported hookLog
		opts := []clinicaldoc.Option{over(answered(test.answer)), once, reported.option()}
		token := testToken
		if test.opt != nil {
			opts = append(opts, test.opt)
		}
		if want == "token_source" {
			token = ""
		}
		client := must(clinicaldoc.NewClient(testBase, token, opts...))(t)
		err := test.do(client)
		require.Equal(t, want == "", err == nil, "%s: %v", want, err)
		require.NotEmpty(t, reported.calls, want)
		assert.Equal(t, want, reported.calls[len(reported.calls)-1].ErrorType)
		assertSilent(t, reported.String(), want)
	}
}

func TestHooks_ErrorType_NamesConflictsAndStalls(t *testing.T) {
	t.Parallel()
	var reported hookLog
	d := newNoteServer()
	client := d.client(t, reported.option())
	_, err := client.Notes.Delete(t.Context(), 9, clinicaldoc.IfUnchanged(&clinicaldoc.ProgressNote{ID: 9}))
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	assert.Contains(t, reported.String(), "Notes.Delete (conflict)\n")
	synctest.Test(t, func(t *testing.T) {
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}, reported.option(), once)
		_, err := client.Notes.Get(t.Context(), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		assert.Contains(t, reported.String(), "Notes.Get (stalled)\n\t\t\t1: GET /v1/progress-notes/{id} (stalled)\n")
	})
}

type otherKey struct{}

// Only the values of a context that a hook returns are used. The context can neither end the call nor keep it from
// ending, and its client trace is not called.
func TestHooks_ContextThatEnds_DoesNotEndTheCall(t *testing.T) {
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
			CallStart: func(ctx context.Context, _ clinicaldoc.Call) context.Context { return make(ctx) },
			AttemptStart: func(ctx context.Context, _ clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
				return make(ctx), clinicaldoc.TraceContext{}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		srv := socketHandler(t,
			newSocketSteps(socketStatus(http.StatusOK, socketNote(7)), func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-r.Context().Done()
			}).ServeHTTP)
		var seen any
		hooks.AttemptEnd = func(ctx context.Context, _ clinicaldoc.Attempt) { seen = ctx.Value(otherKey{}) }
		client := socketClient(t, srv.URL, clinicaldoc.WithHooks(hooks))
		_, err := client.Notes.Get(ctx, 7)
		require.NoError(t, err, name)
		assert.Equal(t, name == "unrelated" || name == "over", seen != nil, name)
		_, err = client.Notes.Get(ctx, 7)
		require.ErrorIs(t, err, context.Canceled, name)
	}
}

// A panic of a hook leaves the call in the caller's goroutine. The hooks for the end of what has begun are called, and
// the client can be used further.
func TestHooks_Panic_ReachesTheCaller(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"CallStart", "AttemptStart", "AttemptEnd", "CallEnd"} {
		var reported hookLog
		hooks := reported.hooks()
		broken := hooks
		switch name {
		case "CallStart":
			broken.CallStart = func(context.Context, clinicaldoc.Call) context.Context { panic(name) }
		case "AttemptStart":
			broken.AttemptStart = func(context.Context, clinicaldoc.Attempt) (context.Context,
				clinicaldoc.TraceContext) {
				panic(name)
			}
		case "AttemptEnd":
			broken.AttemptEnd = func(ctx context.Context, a clinicaldoc.Attempt) {
				hooks.AttemptEnd(ctx, a)
				panic(name)
			}
		case "CallEnd":
			broken.CallEnd = func(ctx context.Context, call clinicaldoc.Call) {
				hooks.CallEnd(ctx, call)
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
		assert.Equal(t, want, reported.String())
		assert.LessOrEqual(t, len(steps.requests()), 1, "nothing is sent twice")
	}
}

// If the transport panics or ends the goroutine, the end of the attempt and of the call is reported.
func TestHooks_PanicOfTheCaller_IsReported(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panic": func() { panic("of the transport") },
		"Goexit": runtime.Goexit} {
		var reported hookLog
		transport := roundTripper(func(*http.Request) (*http.Response, error) {
			leave()
			return nil, nil //nolint:nilnil // never returned
		})
		client := clientOver(t, transport, reported.option())
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_, _ = client.Notes.Get(t.Context(), 7)
		}()
		<-done
		want := "\n\t\tNotes.Get (panic)\n\t\t\t1: GET /v1/progress-notes/{id} (panic)\n"
		assert.Equal(t, want, reported.String(), name)
	}
}

// A call whose options are rejected does not start.
func TestHooks_RejectedOptions_AreNotReported(t *testing.T) {
	t.Parallel()
	var reported hookLog
	client := serveWith(t, []clinicaldoc.Option{reported.option()})
	for _, e := range endpoints() {
		_, err := e.call(t.Context(), client, clinicaldoc.WithQuery("", ""))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, e.operation)
	}
	assert.Equal(t, "\n", reported.String())
}

func TestHooks_LoggerPanics_AttemptStillEnds(t *testing.T) {
	t.Parallel()
	var reported hookLog
	var logged strings.Builder
	handler := slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})
	logger := slog.New(contextHandler{handler, func(context.Context) { panic("of the logger") }})
	client := serveWith(t, []clinicaldoc.Option{reported.option(), clinicaldoc.WithLogger(logger)},
		call{url: notesPath + "/7", response: smallNote, header: map[string]string{"Traceparent": traceparent}})
	assert.PanicsWithValue(t, "of the logger", func() { _, _ = client.Notes.Get(t.Context(), 7) })
	assert.Equal(t, "\n\t\tNotes.Get (panic)\n\t\t\t1: GET /v1/progress-notes/{id} 200\n", reported.String())
}

// A hook that blocks delays only its own call. The call's context applies meanwhile; the stall timeout does not.
func TestHooks_Blocking_DelaysOnlyItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := endsAfter(t, 2*time.Hour)
		sent := 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			sent++
			return madeResponse(r, http.StatusOK, smallNote), nil
		})
		blocking := clinicaldoc.Hooks{AttemptStart: func(ctx context.Context, _ clinicaldoc.Attempt) (context.Context,
			clinicaldoc.TraceContext) {
			select {
			case <-time.After(90 * time.Minute):
			case <-ctx.Done():
			}
			return ctx, clinicaldoc.TraceContext{}
		}}
		client := timedClient(t, transport, clinicaldoc.WithHooks(blocking), once)
		must(client.Notes.Get(ctx, 7))(t)
		_, err := client.Notes.Get(ctx, 7)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, sent)
	})
}

func TestLogger_GetsTheContextOfTheAttempt(t *testing.T) {
	t.Parallel()
	var reported hookLog
	var logged, limited string
	text := func(ctx context.Context) string {
		entry, ok := ctx.Value(hookKey{}).(*hookEntry)
		if !ok {
			return "none"
		}
		return entry.text
	}
	client := serveWith(t, []clinicaldoc.Option{
		reported.option(),
		clinicaldoc.WithLogger(slog.New(contextHandler{slog.NewTextHandler(new(bytes.Buffer),
			&slog.HandlerOptions{Level: slog.LevelDebug}), func(ctx context.Context) { logged = text(ctx) }})),
		clinicaldoc.WithLimiter(limiterFunc(func(ctx context.Context) error { limited = text(ctx); return nil })),
	}, call{url: "/v1/progress-notes/7", response: smallNote, header: map[string]string{"Traceparent": traceparent}})
	must(client.Notes.Get(t.Context(), 7))(t)
	assert.Equal(t, "1: GET /v1/progress-notes/{id}", logged)
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
func TestHooks_NilHooks_AreSkipped(t *testing.T) {
	t.Parallel()
	var called []string
	callStart := func(ctx context.Context, _ clinicaldoc.Call) context.Context {
		called = append(called, "CallStart")
		return ctx
	}
	attemptStart := func(ctx context.Context, _ clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
		called = append(called, "AttemptStart")
		return ctx, clinicaldoc.TraceContext{}
	}
	attemptEnd := func(context.Context, clinicaldoc.Attempt) { called = append(called, "AttemptEnd") }
	callEnd := func(context.Context, clinicaldoc.Call) { called = append(called, "CallEnd") }
	for _, c := range []struct {
		hooks clinicaldoc.Hooks
		want  []string
	}{
		{clinicaldoc.Hooks{}, nil},
		{clinicaldoc.Hooks{CallStart: callStart}, []string{"CallStart"}},
		{clinicaldoc.Hooks{AttemptStart: attemptStart}, []string{"AttemptStart"}},
		{clinicaldoc.Hooks{AttemptEnd: attemptEnd}, []string{"AttemptEnd"}},
		{clinicaldoc.Hooks{CallEnd: callEnd}, []string{"CallEnd"}},
	} {
		called = nil
		client := clientOver(t, canned(smallNote), clinicaldoc.WithHooks(c.hooks))
		must(client.Notes.Get(t.Context(), 7))(t)
		assert.Equal(t, c.want, called, "hooks that were called")

		called = nil
		limiter := clinicaldoc.WithLimiter(badCallback{errors.New("no token left")})
		refused := clientOver(t, canned(smallNote), clinicaldoc.WithHooks(c.hooks), limiter)
		_, err := refused.Notes.Get(t.Context(), 7)
		require.Error(t, err)
		assert.Equal(t, c.want, called, "hooks that were called although nothing was sent")
	}
}

// The privacy test runs every operation of the SDK, with and without faults, against a service whose texts are all
// canaries. It prints everything that comes back in every way, and reads all output of logger, hooks and the
// standard streams. No canary may be in any of it.

// secret makes a canary that contains where it came from.
func secret(of string) string { return canary + strings.ToLower(canary) + of }

func TestSecrets_Helper_FindsEverySpelling(t *testing.T) {
	t.Parallel()
	assert.Empty(t,
		leak(`clinicaldoc.ProgressNote{id=7 stage=complete} 2026-01-02T03:04:05.98765Z https://api.clinic.test`))
	text := secret("text")
	for _, verb := range append(slices.Clone(verbs), "%#x", "%# x") {
		for _, value := range []any{text, []byte(text), struct{ S string }{text}, []string{text}} {
			printed := fmt.Sprintf(verb, value)
			assert.NotEmpty(t, leak(printed), "%s of %T: %s", verb, value, printed)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x", "%X", "%#x", "%s"} {
		printed := fmt.Sprintf(verb, struct{ N int64 }{secretPatient})
		assert.NotEmpty(t, leak(printed), "%s: %s", verb, printed)
	}
	for shift := range 3 {
		assert.NotEmpty(t, leak(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", shift)+text))))
	}
	assert.NotEmpty(t, leak("GET https://storage.clinic.test/?X-Amz-Signature=5f"))
}

// eavesdropper prints whatever it is shown and remembers what leaked, and which types had something to leak.
type eavesdropper struct {
	ctx context.Context

	mu         sync.Mutex
	step       string
	leaks      []string
	reports    map[any]bool    // without an error, which come again and again
	printed    map[any]string  // errors, which come again and again, with what they last printed
	clean      map[string]bool // texts without a canary, which come again and again
	values     int
	carriers   map[string]bool
	operations map[string]bool
	statuses   map[int]bool
	named      map[string]bool // operations of which the audit function learned the patient
	missing    []error         // kinds of errors that were not seen yet
	log        bytes.Buffer
}

func newEavesdropper(t *testing.T) *eavesdropper {
	t.Helper()
	return &eavesdropper{
		ctx: t.Context(), reports: map[any]bool{}, printed: map[any]string{}, clean: map[string]bool{},
		carriers: map[string]bool{}, operations: map[string]bool{}, statuses: map[int]bool{}, named: map[string]bool{},
		missing: []error{
			clinicaldoc.ErrUnauthorized, clinicaldoc.ErrForbidden, clinicaldoc.ErrNotFound, clinicaldoc.ErrConflict,
			clinicaldoc.ErrTooLarge,
			clinicaldoc.ErrValidation, clinicaldoc.ErrRateLimited, clinicaldoc.ErrServer, clinicaldoc.ErrNoteIncomplete,
			clinicaldoc.ErrInvalidArgument,
			clinicaldoc.ErrUnexpectedResponse, clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrNotCreated,
			clinicaldoc.ErrProcessingFailed,
			clinicaldoc.ErrPatientMismatch, clinicaldoc.ErrAudioChanged, clinicaldoc.ErrNotAudited,
			context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF,
		},
	}
}

// Write takes in the lines of the loggers.
func (w *eavesdropper) Write(line []byte) (int, error) {
	w.read("log", string(line))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *eavesdropper) read(how, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clean[text] {
		return
	}
	if found := leak(text); found == "" {
		w.clean[text] = true
	} else {
		w.leaks = append(w.leaks, fmt.Sprintf("%s: %s prints %q: %.300s", w.step, how, found, text))
	}
}

// see prints the value in every way a program may: itself, what it points to, and in the company of others.
func (w *eavesdropper) see(what string, value any) {
	if value == nil {
		return
	}
	forms := []any{value}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		if token.IsExported(v.Type().Elem().Name()) { // which a program can have by value
			forms = append(forms, v.Elem().Interface())
		}
	}
	if err, ok := value.(error); ok && !w.isNew(err) {
		return
	}
	w.mu.Lock()
	w.values++
	if holdsSecret(reflect.ValueOf(value), 0) {
		w.carriers[strings.TrimPrefix(fmt.Sprintf("%T", value), "*")] = true
	}
	w.mu.Unlock()
	for _, form := range forms {
		how := what + " " + fmt.Sprintf("%T", form)
		for _, verb := range everyVerb {
			w.read(how+" "+verb, fmt.Sprintf(verb, form))
		}
		w.readWithin(how, form)
	}
	if err, ok := value.(error); ok {
		w.mu.Lock()
		w.missing = slices.DeleteFunc(w.missing, func(kind error) bool { return errors.Is(err, kind) })
		w.mu.Unlock()
		w.read(what+" error text", err.Error())
		for _, wrapped := range []error{fmt.Errorf("wrapped: %w", err), errors.Join(err, io.EOF)} {
			w.read(what+" wrapped", fmt.Sprintf("%v %+v %s %q", wrapped, wrapped, wrapped, wrapped))
		}
		for _, inner := range unwrapped(err) {
			w.see(what+" wraps", inner)
		}
	}
}

var everyVerb = append([]string{"%T", "%U"}, verbs...)

// isNew reports whether an error was not printed yet, or prints something else since. Hooks and callers get the same
// error, and what it wraps.
func (w *eavesdropper) isNew(err error) bool {
	if reflect.TypeOf(err).Kind() != reflect.Pointer {
		return true
	}
	text := fmt.Sprintf("%+v", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.printed[err]
	w.printed[err] = text
	return !known || before != text
}

// readWithin prints a value among others, and logs it.
func (w *eavesdropper) readWithin(how string, form any) {
	w.read(how+" among others",
		fmt.Sprintf("%v %+v %#v", []any{form}, struct{ V any }{form}, map[string]any{"k": form}))
	var text, encoded strings.Builder
	logged := slog.Group("g", "value", form)
	slog.New(slog.NewTextHandler(&text, nil)).LogAttrs(w.ctx, slog.LevelInfo, "m", slog.Any("value", form), logged)
	w.read(how+" slog text", text.String())
	if reflect.ValueOf(form).Kind() != reflect.Slice { // which is encoded as JSON, and so gives everything
		slog.New(slog.NewJSONHandler(&encoded, nil)).LogAttrs(w.ctx, slog.LevelInfo, "m", slog.Any("value", form), logged)
		w.read(how+" slog JSON", encoded.String())
	}
}

// holdsSecret looks for a canary in all of the SDK's own that a value reaches, unexported fields included.
func holdsSecret(v reflect.Value, depth int) bool {
	if !v.IsValid() || depth > 12 {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		return leak(v.String()) != ""
	case reflect.Int64:
		return v.Int() == secretPatient
	case reflect.Pointer, reflect.Interface:
		return holdsSecret(v.Elem(), depth+1)
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), reflect.TypeFor[clinicaldoc.Client]().PkgPath()) ||
			v.Type() == reflect.TypeFor[clinicaldoc.Client]() {
			return false // what others own may be in use meanwhile
		}
		for _, field := range v.Fields() {
			if holdsSecret(field, depth+1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Kind() == reflect.Slice && leak(string(v.Bytes())) != ""
		}
		for i := range v.Len() {
			if holdsSecret(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		for iter := v.MapRange(); iter.Next(); {
			if holdsSecret(iter.Key(), depth+1) || holdsSecret(iter.Value(), depth+1) {
				return true
			}
		}
	default:
	}
	return false
}

// hooks see every report, with the errors in it.
func (w *eavesdropper) hooks() clinicaldoc.Hooks {
	return clinicaldoc.Hooks{
		CallStart: func(ctx context.Context, call clinicaldoc.Call) context.Context {
			w.seeReport("call start", call, call.Err)
			return ctx
		},
		AttemptStart: func(ctx context.Context, a clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
			w.seeReport("attempt start", a, a.Err)
			return ctx, clinicaldoc.TraceContext{}
		},
		AttemptEnd: func(_ context.Context, a clinicaldoc.Attempt) {
			w.mu.Lock()
			w.operations[a.Operation] = true
			w.statuses[a.StatusCode] = true
			w.mu.Unlock()
			w.seeReport("attempt end", a, a.Err)
		},
		CallEnd: func(_ context.Context, call clinicaldoc.Call) {
			w.seeReport("call end", call, call.Err)
		},
	}
}

// seeReport also reads the report's JSON, which holds no more than its text does. It prints the error by every verb,
// and so the report without it, because fmt prints a report field by field. The same report is read once.
func (w *eavesdropper) seeReport(what string, report any, failure error) {
	pointer := reflect.New(reflect.TypeOf(report))
	pointer.Elem().Set(reflect.ValueOf(report))
	if failure != nil {
		w.see(what+"'s error", failure)
		w.readWithin(what, report)
		w.readWithin(what, pointer.Interface())
		pointer.Elem().FieldByName("Err").SetZero()
	}
	bare := pointer.Elem().Interface()
	w.mu.Lock()
	known := w.reports[bare]
	w.reports[bare] = true
	w.mu.Unlock()
	if !known {
		w.see(what, pointer.Interface())
	}
	if known && failure == nil {
		return
	}
	encoded, err := json.Marshal(report)
	if err != nil {
		w.read(what, canary+" cannot be encoded: "+err.Error())
	}
	w.read(what+" as JSON", string(encoded))
}

// patientFile is a service in a box with canaries in it, and a client that shows the eavesdropper everything.
type patientFile struct {
	*eavesdropper
	srv    *clinicaldoctest.Server
	client *clinicaldoc.Client
	dir    string

	noTrail bool // the audit function fails

	complete, failed, young, doomed, tokenID int64
	lost                                     *clinicaldoc.OutcomeUnknownError
}

func newPatientFile(t *testing.T, w *eavesdropper, variant clinicaldoctest.Variant) *patientFile {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(variant))
	t.Cleanup(srv.Close)
	p := &patientFile{eavesdropper: w, srv: srv, dir: filepath.Join(t.TempDir(), secret("folder"))}
	require.NoError(t, os.MkdirAll(p.dir, 0o700))
	user := srv.AddUser(clinicaldoctest.User{Name: secret("user"), Email: secret("mail") + "@clinic.test", Token: "9|" +
		secret("token")})
	p.tokenID = srv.AddToken(user.ID, secret("label")).ID
	srv.AddPatient(clinicaldoctest.Patient{ID: secretPatient, Name: secret("patient")})
	note := clinicaldoctest.Note{
		UserID: user.ID, PatientID: secretPatient, Name: secret("note"), Transcription: secret("transcription"),
		Analysis: secret("analysis"), Stuck: true,
	}
	p.complete, p.doomed = srv.AddNote(note), srv.AddNote(note)
	note.Stage, note.ErrorState = clinicaldoctest.StageFailed, secret("state")
	p.failed = srv.AddNote(note)
	note.Stage, note.ErrorState = clinicaldoctest.StageTranscribing, ""
	p.young = srv.AddNote(note)

	level := &slog.HandlerOptions{Level: slog.LevelDebug}
	client, err := clinicaldoc.NewClient(srv.URL, user.Token,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := srv.Transport().RoundTrip(r)
			if err == nil && resp.Header.Get("X-Debug") != "" {
				resp.Header.Set("Content-Type", secret("type")+"/ x") // which the box sets itself
			}
			return resp, err
		})}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1}),
		clinicaldoc.WithLogger(
			slog.New(slog.NewMultiHandler(slog.NewTextHandler(w, level), slog.NewJSONHandler(w, level)))),
		clinicaldoc.WithHooks(w.hooks()), clinicaldoc.WithAudit(p.audit))
	require.NoError(t, err)
	p.client = client
	p.lost = &clinicaldoc.OutcomeUnknownError{Params: p.create(), SentAt: time.Now(), Service: client.BaseURL(),
		UserID: user.ID, Err: clinicaldoc.ErrServer}
	return p
}

// audit is the one place that patients are named to.
func (p *patientFile) audit(_ context.Context, access clinicaldoc.Access) error {
	p.see("access", &access)
	p.mu.Lock()
	defer p.mu.Unlock()
	if access.PatientID == secretPatient {
		p.named[access.Operation] = true
	}
	if p.noTrail {
		return errors.New("no room for patient " + secret("trail"))
	}
	return nil
}

func (p *patientFile) create() createParams {
	return createParams{
		Name: secret("note"), PatientID: secretPatient, PromptID: 1,
		Audio: clinicaldoc.AudioBytes(secret("file")+".wav", []byte(secret("audio"))),
	}
}

// each shows the eavesdropper what an iterator yields.
func (p *patientFile) each(notes iter.Seq2[*clinicaldoc.ProgressNote, error]) error {
	var last error
	for note, err := range notes {
		p.see("yielded", note)
		p.see("yielded", err)
		last = err
	}
	return last
}

// brief limits a wait that would take a day.
func brief(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// surface is every operation of the SDK, by the name of its method. Those of a new service need no entry: they are
// called with canaries as arguments.
func (p *patientFile) surface(ctx context.Context, opts ...clinicaldoc.CallOption) map[string]func() (any, error) {
	ops := p.prepared(ctx, opts...)
	for name, method := range methodsOf(p.client) {
		if ops[name] == nil {
			ops[name] = func() (any, error) { return nil, p.callWithCanaries(ctx, method, opts) }
		}
	}
	return ops
}

// callWithCanaries calls a method that has no entry, shows the eavesdropper what it gets and what it returns, and
// returns its error, or the last that it yields.
func (p *patientFile) callWithCanaries(
	ctx context.Context, method reflect.Value, opts []clinicaldoc.CallOption,
) (err error) {
	var args []reflect.Value
	for typ := range method.Type().Ins() {
		arg := withCanaries(typ)
		switch typ {
		case reflect.TypeFor[context.Context]():
			arg = reflect.ValueOf(ctx)
		case reflect.TypeFor[[]clinicaldoc.CallOption]():
			arg = reflect.ValueOf(opts)
		case reflect.TypeFor[int64]():
			arg = reflect.ValueOf(p.complete)
		default:
			p.see("argument", arg.Interface())
		}
		args = append(args, arg)
	}
	see := func(value reflect.Value) {
		p.see("result", value.Interface())
		if failure, ok := reflect.TypeAssert[error](value); ok {
			err = failure
		}
	}
	for _, result := range method.CallSlice(args) {
		if result.Type().CanSeq2() && result.Kind() == reflect.Func {
			for row, failure := range result.Seq2() {
				see(row)
				see(failure)
			}
			continue
		}
		see(result)
	}
	return err
}

// withCanaries returns a value with a canary in every text that it has a field for.
func withCanaries(typ reflect.Type) reflect.Value {
	value := reflect.New(typ).Elem()
	switch typ {
	case reflect.TypeFor[clinicaldoc.Object]():
		object := clinicaldoc.Object{}
		_ = object.UnmarshalJSON([]byte(`{"` + canary + `":"` + canary + `"}`))
		return reflect.ValueOf(object)
	case reflect.TypeFor[time.Time](), reflect.TypeFor[clinicaldoc.Sort](): // another order would be rejected
		return value
	}
	switch typ.Kind() {
	case reflect.String:
		value.SetString(canary)
	case reflect.Pointer:
		value.Set(reflect.New(typ.Elem()))
		value.Elem().Set(withCanaries(typ.Elem()))
	case reflect.Slice:
		value.Set(reflect.Append(value, withCanaries(typ.Elem())))
	case reflect.Struct:
		for field, part := range value.Fields() {
			if field.IsExported() {
				part.Set(withCanaries(field.Type))
			}
		}
	default:
	}
	return value
}

// prepared are the operations that need arguments of their own.
func (p *patientFile) prepared(ctx context.Context, opts ...clinicaldoc.CallOption) map[string]func() (any, error) {
	notes := p.client.Notes
	wait := waitParams{MaxFailures: 1, OnUpdate: func(n *clinicaldoc.ProgressNote) { p.see("update", n) }}
	list := listParams{PatientID: secretPatient, PerPage: 2}
	update := updateParams{Name: new(secret("note")), Transcription: new(secret("transcription")),
		Analysis: new(secret("analysis"))}
	return map[string]func() (any, error){
		"NotesService.Create": func() (any, error) {
			params := p.create()
			p.see("params", params)
			p.see("params", params.Audio)
			note, err := notes.Create(ctx, params, opts...)
			if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
				p.see("unknown", unknown)
				p.lost = unknown
			}
			return note, err
		},
		"NotesService.List": func() (any, error) {
			p.see("params", list)
			page, err := notes.List(ctx, list, opts...)
			if err == nil {
				p.see("meta", page.Meta)
				for i := range page.Items {
					p.see("row", &page.Items[i])
				}
			}
			return page, err
		},
		"NotesService.All": func() (any, error) { return nil, p.each(notes.All(ctx, list, opts...)) },
		"NotesService.Get": func() (any, error) { return p.withParts(notes.Get(ctx, p.complete, opts...)) },
		"NotesService.Update": func() (any,
			error) {
			p.see("params", update)
			return notes.Update(ctx, p.complete, update, opts...)
		},
		"NotesService.Sign": func() (any, error) { return notes.Sign(ctx, p.young, opts...) },
		"NotesService.AudioURL": func() (any, error) {
			return notes.AudioURL(ctx, p.complete, opts...)
		},
		"NotesService.DownloadAudio": func() (any, error) {
			return notes.DownloadAudio(ctx, p.complete, io.Discard, downloadParams{}, opts...)
		},
		"NotesService.OpenAudio": func() (any, error) {
			stream, err := notes.OpenAudio(ctx, p.complete, opts...)
			if err != nil {
				return nil, err
			}
			p.see("stream", stream)
			_, err = stream.ReadAt(make([]byte, 10), 1)
			return stream.ContentType(), errors.Join(err, stream.Close())
		},
		"NotesService.DownloadAudioFile": func() (any, error) {
			for _, unusable := range []string{p.dir, filepath.Join(p.dir, "missing", secret("file"))} {
				_, err := notes.DownloadAudioFile(ctx, p.complete, unusable, downloadParams{}, opts...)
				p.see("unusable path", err)
			}
			return notes.DownloadAudioFile(ctx, p.complete, filepath.Join(p.dir, secret("file")), downloadParams{},
				opts...)
		},
		"NotesService.Wait": func() (any, error) { return notes.Wait(brief(ctx), p.young, wait, opts...) },
		"NotesService.Watch": func() (any, error) {
			return nil,
				p.each(notes.Watch(brief(ctx), p.failed, wait, opts...))
		},
		"NotesService.WaitAll": func() (any, error) {
			return nil, p.each(notes.WaitAll(brief(ctx), []int64{p.complete, p.failed, p.young}, wait, opts...))
		},
		"NotesService.FindCreated": func() (any, error) {
			p.see("lost", p.lost)
			absent := *p.lost
			absent.Params.Name = secret("absent")
			params := clinicaldoc.FindCreatedParams{Settle: time.Nanosecond, UniqueName: true}
			p.see("params", params)
			_, err := notes.FindCreated(brief(ctx), &absent, params, opts...)
			p.see("absent", err)
			return notes.FindCreated(brief(ctx), p.lost, clinicaldoc.FindCreatedParams{}, opts...)
		},
		"NotesService.CreateOnce": func() (any, error) {
			find := clinicaldoc.FindCreatedParams{
				Settle: time.Nanosecond, OnProgress: func(reason string, _ time.Time) { p.see("progress", reason) },
			}
			return notes.CreateOnce(brief(ctx), p.create(), find, opts...)
		},
		"NotesService.Delete": func() (any, error) { return notes.Delete(ctx, p.doomed, opts...) },
		"TokensService.List": func() (any, error) {
			tokens, err := p.client.Tokens.List(ctx, opts...)
			for i := range tokens {
				p.see("token", &tokens[i])
			}
			return tokens, err
		},
		"TokensService.Revoke": func() (any, error) { return p.client.Tokens.Revoke(ctx, p.tokenID, opts...) },
		"UsersService.Me":      func() (any, error) { return p.client.Users.Me(ctx, opts...) },
		"Client.Do": func() (any, error) {
			p.see("Do", p.client.Do(ctx, http.MethodGet, "/v1/progress-notes", nil, new(struct{ Data int }), opts...))
			p.see("Do", p.client.Do(ctx, http.MethodGet, "/v1/patients/"+secret("path"), nil, nil, opts...))
			return nil, p.client.Do(ctx, http.MethodPost, "/v1/"+secret("path"),
				map[string]string{"name": secret("body")}, nil, opts...)
		},
	}
}

// withParts shows the parts of a note too.
func (p *patientFile) withParts(note *clinicaldoc.ProgressNote, err error) (*clinicaldoc.ProgressNote, error) {
	if note != nil {
		p.see("part", note.Patient)
		p.see("part", note.User)
		p.see("part", note.Audio)
		p.see("part", note.Template)
		p.see("part", note.Has)
	}
	return note, err
}

// run calls every operation, in an order that leaves each its note.
func (p *patientFile) run(ctx context.Context, name string) (failures int) {
	var response clinicaldoc.Response
	ops := p.surface(ctx, clinicaldoc.WithResponse(&response), clinicaldoc.WithHeader("X-Custom", secret("header")),
		clinicaldoc.WithQuery("q", secret("query")))
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		p.mu.Lock()
		p.step = name + ", " + op
		p.mu.Unlock()
		value, err := ops[op]()
		p.see("result", value)
		p.see("error", err)
		p.see("response", &response)
		if err != nil {
			failures++
		}
	}
	p.see("client", p.client)
	encoded, _ := json.Marshal(p.client)
	p.read("client as JSON", string(encoded))
	return failures
}

const html = "<html>" + canary + "</html>"

// troubles are the faults that the operations meet, by name. Every text the service can say in them is a canary.
func troubles() map[string]clinicaldoctest.Fault {
	refusal := `{"message":"` + secret("message") + `","errors":{"name":["` + secret("validation") + `"],"` + canary +
		` key":["` + secret("validation") + `"]}}`
	withSecretHeaders := func(f clinicaldoctest.Fault) clinicaldoctest.Fault {
		return f.WithHeader("X-Request-Id", secret("id")+" two words").WithHeader("X-Debug",
			secret("header")).WithHeader("Set-Cookie", "session="+secret("cookie"))
	}
	note := `{"id":1,"name":"` + secret("note") + `","patient":{"id":5,"name":"` + secret("patient") + `"},`
	faults := map[string]clinicaldoctest.Fault{
		"throttled":          withSecretHeaders(clinicaldoctest.TooManyRequests(time.Second)),
		"throttled for long": withSecretHeaders(clinicaldoctest.TooManyRequests(24 * time.Hour)),
		"HTML":               withSecretHeaders(clinicaldoctest.Answer(http.StatusOK, html)),
		"nothing":            withSecretHeaders(clinicaldoctest.Answer(http.StatusOK, "")),
		"another record": clinicaldoctest.Answer(http.StatusOK,
			`{"id":4711,"name":"`+secret("note")+`","url":"https://s.clinic.test/`+secret("url")+`"}`),
		"wrong kinds": clinicaldoctest.Answer(http.StatusOK,
			note+`"created_at":"`+canary+`","has":{"`+canary+` x":1,"signed":"`+canary+`"},"data":"`+canary+`","url":"`+canary+`","tokens":"`+canary+`"}`),
		"broken JSON": clinicaldoctest.Answer(http.StatusOK, note+`"transcription":`+canary),
		"nothing new": clinicaldoctest.Answer(http.StatusOK,
			`{"data":[],"meta":{"next_cursor":"`+secret("cursor")+`"}}`),
		"another patient": clinicaldoctest.Answer(http.StatusOK,
			`{"data":[`+note+`"user_id":1}],"meta":{"next_cursor":"`+secret("cursor")+`"}}`),
		"signed elsewhere": clinicaldoctest.Answer(http.StatusOK, `{"url":"https://storage.elsewhere.test/`+secret(
			"path")+`?signature=`+secret("signature")+`&expires=4102444800"}`),
		"unsafe address": clinicaldoctest.Answer(http.StatusOK,
			`{"url":"http://`+secret("user")+`:`+secret("password")+`@10.0.0.1/`+secret("path")+`"}`),
		"redirect": clinicaldoctest.Answer(http.StatusFound, html).WithHeader("Location",
			"https://elsewhere.test/"+secret("location")+"?token="+secret("token")),
		"redirect in circle": clinicaldoctest.Answer(http.StatusTemporaryRedirect, html).WithHeader("Location",
			"/v1/"+secret("location")),
		"truncated":        clinicaldoctest.Truncate(20),
		"truncated chunks": clinicaldoctest.TruncateChunked(20),
		"reset":            clinicaldoctest.Reset(),
		"reset after all":  clinicaldoctest.ResetAfterRequest(),
		"lost answer":      clinicaldoctest.ResetAfterCommit(),
		"stall":            clinicaldoctest.Delay(24 * time.Hour),
	}
	for _, status := range []int{400, 401, 403, 404, 409, 413, 417, 422, 500, 503} {
		faults[fmt.Sprintf("%d", status)] = withSecretHeaders(clinicaldoctest.Answer(status, refusal))
	}
	for _, status := range []int{403, 413, 502} {
		faults[fmt.Sprintf("%d with a page", status)] = withSecretHeaders(clinicaldoctest.Answer(status, html))
	}
	return faults
}

// privacyScenario runs the whole surface, first without a fault, then under each, in virtual time.
func privacyScenario(t *testing.T, w *eavesdropper) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for name, variant := range map[string]clinicaldoctest.Variant{
			"well": {},
			"well with cursors": {Pagination: clinicaldoctest.PaginationCursor, WrapObjects: true, ExtraFields: true,
				LocalDisk: true},
			"ignored filter": {Query: clinicaldoctest.QueryNames{PatientID: "filter[patient]"},
				Patient: clinicaldoctest.PatientUnnamed},
		} {
			p := newPatientFile(t, w, variant)
			failures := p.run(t.Context(), name)
			assert.LessOrEqual(t, failures, 9, "most of it works")
			p.srv.Close()
		}
		for name, fault := range troubles() {
			p := newPatientFile(t, w, clinicaldoctest.Variant{})
			p.srv.Inject("", fault.Always())
			assert.Positive(t, p.run(t.Context(), name))
			p.srv.ClearFaults()
			p.srv.Inject(clinicaldoctest.RouteAudio, fault.Always())
			for _, op := range []string{"NotesService.DownloadAudio", "NotesService.DownloadAudioFile",
				"NotesService.OpenAudio"} {
				p.mu.Lock()
				p.step = name + " of storage, " + op
				p.mu.Unlock()
				n, err := p.surface(t.Context())[op]()
				p.see("bytes", n)
				p.see("error", err)
			}
			p.srv.Close()
		}
		disk := newPatientFile(t, w, clinicaldoctest.Variant{LocalDisk: true})
		disk.srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.Truncate(20))
		disk.run(t.Context(), "cut without ranges")
		disk.srv.Close()
		silent := newPatientFile(t, w, clinicaldoctest.Variant{})
		silent.noTrail = true
		assert.Positive(t, silent.run(t.Context(), "without a trail"))
		silent.srv.Close()
		absent := newPatientFile(t, w, clinicaldoctest.Variant{})
		absent.srv.Close()
		absent.run(t.Context(), "absent service")
		ended := endedContext(t)
		absent.run(ended, "cancelled")
	})
}

const privacyChild = "CLINICALDOC_TEST_PRIVACY_CHILD"

// The scenario runs in a process of its own: whatever writes to the standard streams there is the SDK.
func TestSecrets_EveryCall_PrintsNone(t *testing.T) {
	t.Parallel()
	if os.Getenv(privacyChild) != "" {
		everyCallPrintsNone(t)
		return
	}
	self := must(os.Executable())(t)
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	child.Env = append(os.Environ(), privacyChild+"=1")
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	require.NoError(t, child.Run(), stdout.String()+stderr.String())
	for line := range strings.Lines(stdout.String() + stderr.String()) {
		framework := line == "PASS\n" || strings.HasPrefix(line, "coverage: ") ||
			strings.HasPrefix(line, "warning: GOCOVERDIR")
		assert.True(t, framework, "written by the SDK: %s", line)
	}
	assert.Contains(t, stdout.String(), "PASS")
}

func everyCallPrintsNone(t *testing.T) {
	t.Helper()
	w := newEavesdropper(t)
	privacyScenario(t, w)
	assert.Empty(t, strings.Join(w.leaks[:min(len(w.leaks), 20)], "\n"), "%d leaks", len(w.leaks))

	// The check sees something only if the secrets were there to be printed.
	carriers := slices.Sorted(maps.Keys(w.carriers))
	for _, typ := range []string{
		"AudioInfo", "AudioSource", "AudioURL", "CreateNoteParams", "Error", "ListNotesParams", "Object",
		"OutcomeUnknownError",
		"PageMeta", "Page[github.com/clinicaldoc/clinicaldoc-go.ProgressNote]", "ProgressNote", "Response", "Token",
		"UpdateNoteParams", "User", "WaitError", "Access",
	} {
		assert.Contains(t, carriers, "clinicaldoc."+typ)
	}
	assert.Subset(t, slices.Collect(maps.Keys(w.statuses)),
		[]int{0, 200, 201, 302, 400, 401, 403, 404, 409, 413, 422, 429, 500})
	assert.Subset(t, slices.Collect(maps.Keys(w.operations)), []string{
		"Do", "Notes.AudioURL", "Notes.Create", "Notes.Delete", "Notes.DownloadAudio", "Notes.Get", "Notes.List",
		"Notes.OpenAudio", "Notes.Sign", "Notes.Update", "Tokens.List", "Tokens.Revoke", "Users.Me",
	})
	assert.Subset(t, slices.Collect(maps.Keys(w.named)), []string{
		"Do", "Notes.All", "Notes.Create", "Notes.CreateOnce", "Notes.DownloadAudio", "Notes.DownloadAudioFile",
		"Notes.FindCreated", "Notes.Get", "Notes.List", "Notes.Sign", "Notes.Update", "Notes.Wait", "Notes.WaitAll",
		"Notes.Watch",
	}, "the trail, and nothing else, names the patient")
	for _, line := range []string{`"level":"DEBUG"`, `"level":"WARN"`, "level=DEBUG", "level=WARN"} {
		assert.Contains(t, w.log.String(), line)
	}
	assert.Empty(t, w.missing, "kinds of errors that were never seen")
	t.Logf("%d values printed, %d bytes logged", w.values, w.log.Len())
}

// The privacy scenario calls every method of every service. The methods of a new service are called too: nobody has to
// add them to the scenario.
func TestPrivacyScenario_CallsEveryMethodOfEveryService(t *testing.T) {
	t.Parallel()
	client := serve(t)
	p := &patientFile{eavesdropper: newEavesdropper(t), client: client}
	methods := slices.Collect(maps.Keys(methodsOf(client)))
	assert.ElementsMatch(t, methods, slices.Collect(maps.Keys(p.surface(t.Context()))))
	for _, method := range []string{"NotesService.Create", "TokensService.List", "UsersService.Me", "Client.Do"} {
		assert.Contains(t, methods, method)
	}
}

// The scenario notices a new service whose values print confidential texts, whether its methods return or iterate.
func TestPrivacyScenario_NoticesANewServiceThatLeaks(t *testing.T) {
	t.Parallel()
	service := &newService{}
	methods := methodsOf(&clientWithNewService{Archives: service})
	require.Len(t, methods, 2)
	for name, method := range methods {
		p := &patientFile{eavesdropper: newEavesdropper(t), complete: 7}
		err := p.callWithCanaries(t.Context(), method, []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()})
		require.ErrorIs(t, err, io.EOF, name)
		assert.NotEmpty(t, p.leaks, name)
	}
	assert.Equal(t, []string{"All 1", "Archive 7 1"}, slices.Sorted(slices.Values(service.calls)))
}

// newService stands for a service that is added to the client.
type newService struct{ calls []string }

type archive struct{ Name string }

func (s *newService) Archive(
	_ context.Context, id int64, params archive, opts ...clinicaldoc.CallOption,
) (*archive, error) {
	s.calls = append(s.calls, fmt.Sprint("Archive ", id, " ", len(opts)))
	return &params, io.EOF
}

func (s *newService) All(
	_ context.Context, params archive, opts ...clinicaldoc.CallOption,
) iter.Seq2[*archive, error] {
	return func(yield func(*archive, error) bool) {
		s.calls = append(s.calls, fmt.Sprint("All ", len(opts)))
		_ = yield(&params, nil) && yield(nil, io.EOF)
	}
}

type clientWithNewService struct{ Archives *newService }

// methodsOf returns the methods of a client, and of each service that an exported field of it leads to, by type and
// name. Those that make no request are left out.
func methodsOf(client any) map[string]reflect.Value {
	methods := map[string]reflect.Value{}
	add := func(service reflect.Value) {
		for method, function := range service.Methods() {
			if !slices.Contains([]string{"LogValue", "Format", "BaseURL", "Assumptions"}, method.Name) {
				methods[service.Type().Elem().Name()+"."+method.Name] = function
			}
		}
	}
	value := reflect.ValueOf(client)
	add(value)
	for field, service := range value.Elem().Fields() {
		if field.IsExported() {
			add(service)
		}
	}
	return methods
}

// saysItself lists the types that fmt may print field by field, with the only fields they may have.
var saysItself = map[string][]string{
	"Attempt": {
		"Operation", "Method", "Route", "ServerAddress", "ServerPort", "Number", "StatusCode", "Duration", "RequestID",
		"ErrorType", "BytesSent", "BytesReceived", "RateLimitRemaining", "RateLimitWait", "OutcomeUnknown", "Err",
	},
	"Call":         {"Operation", "Attempts", "Duration", "ErrorType", "OutcomeUnknown", "Err"},
	"Assumptions":  {"RecordingsUnchanged", "NamesUnchanged"},
	"QueryNames":   {"PatientID", "PerPage", "Sort", "Page", "Cursor"},
	"TraceContext": {"Traceparent", "Tracestate"},
}

// Each type from which a text can be reached implements what fmt and slog print of it.
func TestSecrets_EveryTypeWithText_DecidesWhatIsPrinted(t *testing.T) {
	t.Parallel()
	formatter, valuer := reflect.TypeFor[fmt.Formatter](), reflect.TypeFor[slog.LogValuer]()
	checked := 0
	for name, s := range publicSamples(t) { // all exported structs: TestSecrets_PublicTypes_AreAllTested
		typ := reflect.TypeOf(s.direct[0])
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if !reachesText(typ, map[reflect.Type]bool{}) {
			continue
		}
		checked++
		allowed, ok := saysItself[name]
		if strings.HasSuffix(name, "Service") {
			allowed = []string{"client"}
			ok = true
		}
		if ok {
			var fields []string
			for field := range typ.Fields() {
				fields = append(fields, field.Name)
			}
			assert.ElementsMatch(t, allowed, fields, name)
			continue
		}
		assert.True(t, reflect.PointerTo(typ).Implements(formatter), "%s has no Format", name)
		assert.True(t, reflect.PointerTo(typ).Implements(valuer), "%s has no LogValue", name)
	}
	assert.Greater(t, checked, 20)
}

func reachesText(typ reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[typ] || typ == reflect.TypeFor[time.Time]() {
		return false
	}
	seen[typ] = true
	switch typ.Kind() {
	case reflect.String, reflect.Interface:
		return true
	case reflect.Slice, reflect.Array:
		return typ.Elem().Kind() == reflect.Uint8 || reachesText(typ.Elem(), seen)
	case reflect.Pointer:
		return reachesText(typ.Elem(), seen)
	case reflect.Map:
		return reachesText(typ.Key(), seen) || reachesText(typ.Elem(), seen)
	case reflect.Struct:
		for field := range typ.Fields() {
			if reachesText(field.Type, seen) {
				return true
			}
		}
	default:
	}
	return false
}
