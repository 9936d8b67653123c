package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestEndpoints_OtherResponse_IsRejected(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for name, response := range map[string]string{
			"HTML": "<html>secret", "truncated": e.ok[:len(e.ok)-1], "trailing": e.ok + "secret", "empty": "",
		} {
			if name == "empty" && e.method == http.MethodDelete {
				continue // allowed
			}
			t.Run(e.operation+" "+name, func(t *testing.T) {
				t.Parallel()
				request := e.request()
				request.response = response
				request.answerHeader = map[string]string{"X-Request-Id": "req-3"}
				if name == "HTML" {
					request.answerHeader["Content-Type"] = "text/html; charset=secret"
				}
				calls := []call{request}
				if e.operation == "Notes.Sign" {
					calls = append(calls, call{url: "/v1/progress-notes/7",
						response: `{"id":7,"name":"n","has":{"content":true,"transcription":true}}`})
				}
				value, err := e.call(t.Context(), serve(t, calls...))
				require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
				require.ErrorContains(t, err, "req-3")
				require.ErrorContains(t, err, e.operation)
				assert.NotContains(t, err.Error(), "secret")
				assert.Empty(t, value)
			})
		}
	}
}

func TestEndpoints_AnySuccessStatus_Succeeds(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for _, status := range []int{200, 201, 202, 203, 206, 299} {
			request := e.request()
			request.status = status
			_, err := e.call(t.Context(), serve(t, request))
			require.NoError(t, err, "%s %d", e.operation, status)
		}
	}
}

func TestCreate_RefusedDial_IsRetried(t *testing.T) {
	t.Parallel()
	for refused, attempts := range map[int32]int{2: 3, 4: 4} {
		script := newSocketSteps(socketStatus(http.StatusCreated, socketNote(11)))
		srv := socketHandler(t, script.ServeHTTP)
		nobody := closedAddress(t)
		var dials atomic.Int32
		tr := socketTransport(t)
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) <= refused {
				addr = nobody
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		var response clinicaldoc.Response
		_, err := socketClient(t, srv.URL, over(tr)).
			Notes.Create(socketContext(t), socketParams(64), clinicaldoc.WithResponse(&response))
		assert.Equal(t, attempts, response.Attempts)
		if refused < 4 {
			require.NoError(t, err)
			assert.Len(t, script.requests(), 1)
			continue
		}
		var refusal *net.OpError // on Windows, its errno is not syscall.ECONNREFUSED
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, "dial", refusal.Op)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "nothing was sent")
	}
}

const cutSize = 16 << 20 // more than the sockets' buffers hold, so that the end of it cannot have left

func cutUpload(c *rawConn) {
	c.receive(64 << 10)
	resetConn(c.Conn)
}

func TestCreate_CutWithinTheBody_IsRetriedOnce(t *testing.T) {
	t.Parallel()
	params := socketParams(cutSize)

	t.Run("then it works", func(t *testing.T) {
		t.Parallel()
		var size atomic.Int64
		srv := newRawServer(t, cutUpload, func(c *rawConn) {
			_, body := c.request()
			size.Store(int64(len(body)))
			c.answer(http.StatusCreated, socketNote(13))
			c.untilClosed()
		})
		note := must(socketClient(t, srv.URL).Notes.Create(socketContext(t), params))(t)
		assert.EqualValues(t, 13, note.ID)
		assert.Greater(t, size.Load(), int64(cutSize))
	})
	t.Run("and again", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, cutUpload, cutUpload) // a third connection fails the test
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
		require.Error(t, err)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Contains(t, err.Error(), "during the upload")
		assert.EqualValues(t, 2, srv.accepted.Load())
	})
	t.Run("without retries", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, cutUpload)
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params, clinicaldoc.WithoutRetry())
		require.Error(t, err)
		assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	})
}

func TestCreate_LostResponseOnSockets_IsUnknown(t *testing.T) {
	t.Parallel()
	const cutBody = "HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"id\":1"
	sends := func(text string) func(*rawConn) { return func(c *rawConn) { c.send(text) } }
	type test struct {
		end  func(*rawConn) // of the connection, when the request was read
		opts []clinicaldoc.CallOption
	}
	subtests(t, map[string]test{
		"reset":           {end: func(c *rawConn) { resetConn(c.Conn) }},
		"closed":          {end: func(*rawConn) {}},
		"cut status line": {end: sends("HTTP/1.1 20")},
		"not HTTP":        {end: sends("SSH-2.0-synthetic\r\n\r\n")},
		"cut body":        {end: sends(cutBody)},
		"cut chunked body": {end: sends(
			"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n")},
		"cut body, no retries": {end: sends(cutBody), opts: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}},
	}, func(t *testing.T, tt test) {
		srv := newRawServer(t, func(c *rawConn) {
			c.request()
			tt.end(c)
		})
		params, started := socketParams(64), time.Now()
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params, tt.opts...)
		requireUnknown(t, err, params, started)
		assert.EqualValues(t, 1, srv.accepted.Load())
	})
}

func TestCreate_ByStatus_IsRefusedOrUnknown(t *testing.T) {
	t.Parallel()
	const refused, unknown = false, true
	for _, tc := range []struct {
		code    int
		outcome bool
		is      error
	}{
		{http.StatusInternalServerError, unknown, clinicaldoc.ErrServer},
		{http.StatusNotImplemented, unknown, clinicaldoc.ErrServer},
		{http.StatusBadGateway, unknown, clinicaldoc.ErrServer},
		{http.StatusServiceUnavailable, unknown, clinicaldoc.ErrServer}, // a proxy's 503 promises nothing
		{http.StatusGatewayTimeout, unknown, clinicaldoc.ErrServer},
		{http.StatusFound, unknown, clinicaldoc.ErrUnexpectedResponse},
		{http.StatusSeeOther, unknown, clinicaldoc.ErrUnexpectedResponse},
		{http.StatusMovedPermanently, refused, clinicaldoc.ErrUnexpectedResponse},
		{http.StatusTemporaryRedirect, refused, clinicaldoc.ErrUnexpectedResponse},
		{http.StatusPermanentRedirect, refused, clinicaldoc.ErrUnexpectedResponse},
		{http.StatusBadRequest, refused, nil},
		{http.StatusUnauthorized, refused, clinicaldoc.ErrUnauthorized},
		{http.StatusForbidden, refused, clinicaldoc.ErrForbidden},
		{http.StatusNotFound, refused, clinicaldoc.ErrNotFound},
		{http.StatusRequestTimeout, unknown, nil},
		{http.StatusConflict, refused, clinicaldoc.ErrConflict},
		{http.StatusRequestEntityTooLarge, refused, clinicaldoc.ErrTooLarge},
		{http.StatusUnprocessableEntity, refused, clinicaldoc.ErrValidation},
	} {
		t.Run(fmt.Sprint(tc.code), func(t *testing.T) {
			t.Parallel()
			script := newSocketSteps(socketStatus(tc.code, `{"message":"synthetic"}`, "Location", "/v1/elsewhere",
				"Retry-After", "0"))
			params, started := socketParams(64), time.Now()
			_, err := script.client(t).Notes.Create(socketContext(t), params)
			answered := requireAs[*clinicaldoc.Error](t, err)
			assert.Equal(t, tc.code, answered.StatusCode)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			if tc.outcome == unknown {
				requireUnknown(t, err, params, started)
			} else {
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			}
			assert.Equal(t, []string{"POST /v1/progress-notes"}, script.requests())
		})
	}
}

func TestCreate_ResponseIsNotANote_IsUnknown(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]http.HandlerFunc{
		"HTML":       socketStatus(http.StatusOK, "<html>synthetic</html>", "Content-Type", "text/html"),
		"empty":      socketStatus(http.StatusCreated, ""),
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"object":     socketStatus(http.StatusOK, "{}"),
		"list":       socketStatus(http.StatusOK, "[]"),
		"id 0":       socketStatus(http.StatusOK, `{"id":0,"name":"Synthetic"}`),
		"half":       socketStatus(http.StatusOK, `{"id":1,"name":"Syn`),
	}, func(t *testing.T, answer http.HandlerFunc) {
		script := newSocketSteps(answer)
		params, started := socketParams(64), time.Now()
		_, err := script.client(t).Notes.Create(socketContext(t), params)
		requireUnknown(t, err, params, started)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Len(t, script.requests(), 1)
	})
}

func TestCreate_RateLimited_IsRetried(t *testing.T) {
	t.Parallel()
	limited := socketStatus(http.StatusTooManyRequests, `{"message":"Too Many Attempts."}`, "Retry-After", "0")
	created := socketStatus(http.StatusCreated, socketNote(14))
	type test struct {
		steps    []http.HandlerFunc
		requests int
		want     error
	}
	subtests(t, map[string]test{
		"then it works":             {[]http.HandlerFunc{limited, limited, created}, 3, nil},
		"to the end":                {[]http.HandlerFunc{limited}, 4, clinicaldoc.ErrRateLimited},
		"then the response is lost": {[]http.HandlerFunc{limited, socketLost(t)}, 2, clinicaldoc.ErrOutcomeUnknown},
	}, func(t *testing.T, tt test) {
		script := newSocketSteps(tt.steps...)
		_, err := script.client(t).Notes.Create(socketContext(t), socketParams(1<<10))
		require.ErrorIs(t, err, tt.want)
		isUnknown := tt.want == clinicaldoc.ErrOutcomeUnknown //nolint:errorlint // of the table
		assert.Equal(t, isUnknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
		assert.Len(t, script.requests(), tt.requests)
	})
}

// A transport that does not support httptrace shows what it has sent only by its reads of the body.
func TestCreate_TransportWithoutTrace_IsUnknownIfTheBodyWasRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("synthetic transport failure")
	const delimiter = 68 // bytes, from its line break on
	allBut := func(left int64) func(r *http.Request) {
		return func(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, r.ContentLength-left) }
	}
	all := func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	type test struct {
		attempts int32
		unknown  bool
		read     func(r *http.Request)
	}
	subtests(t, map[string]test{
		"everything":                              {1, true, all},
		"exactly the announced bytes":             {1, true, allBut(0)},
		"a byte of the closing delimiter":         {1, true, allBut(delimiter - 1)},
		"everything before the closing delimiter": {2, false, allBut(delimiter)},
		"nothing": {2, false, func(*http.Request) {}},
		"everything, and it calls the trace only once": {1, true, func(r *http.Request) {
			httptrace.ContextClientTrace(r.Context()).GetConn("127.0.0.1:1")
			all(r)
		}},
	}, func(t *testing.T, tt test) {
		var attempts atomic.Int32
		tr := roundTripper(func(r *http.Request) (*http.Response, error) {
			attempts.Add(1)
			tt.read(r)
			return nil, broken
		})
		_, err := socketClient(t, "http://127.0.0.1:1", over(tr)).
			Notes.Create(socketContext(t), socketParams(100<<10))
		require.ErrorIs(t, err, broken)
		assert.Equal(t, tt.attempts, attempts.Load())
		assert.Equal(t, tt.unknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
	})
}

// Some proxies respond with 408 because the client takes too long. If the upload is not complete, nothing was created.
func TestCreate_RequestTimeoutDuringTheUpload_IsARefusal(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestTimeout) })
	unfinished, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	go func() { _, _ = writer.Write([]byte("synthetic")) }()
	params := createParams{Audio: clinicaldoc.AudioReader("a.wav", unfinished)}
	_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
	refused := requireAs[*clinicaldoc.Error](t, err)
	assert.Equal(t, http.StatusRequestTimeout, refused.StatusCode)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestGet_TransientFailure_IsRetried(t *testing.T) {
	t.Parallel()
	cut := func(header string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+header+"\r\n\r\n5\r\n{\"id\"\r\n")
				_ = conn.Close()
			}
		}
	}
	type test struct {
		first   http.HandlerFunc
		retried bool
	}
	tests := map[string]test{
		"reset":                    {socketLost(t), true},
		"truncated":                {cut("Content-Length: 400"), true},
		"truncated chunks":         {cut("Transfer-Encoding: chunked"), true},
		"200 that is no note":      {socketStatus(http.StatusOK, "{}"), false},
		"200 that is another note": {socketStatus(http.StatusOK, socketNote(10)), false},
	}
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		tests[fmt.Sprint(status)] = test{socketStatus(status, ""), true}
	}
	for _, status := range []int{400, 401, 403, 404, 409, 422, 501, 505} {
		tests[fmt.Sprint(status)] = test{socketStatus(status, ""), false}
	}
	subtests(t, tests, func(t *testing.T, tt test) {
		script := newSocketSteps(tt.first, socketStatus(http.StatusOK, socketNote(9)))
		note, err := script.client(t).Notes.Get(socketContext(t), 9)
		if tt.retried {
			require.NoError(t, err)
			assert.EqualValues(t, 9, note.ID)
			assert.Len(t, script.requests(), 2)
			return
		}
		require.Error(t, err)
		assert.Len(t, script.requests(), 1)
	})
}

func TestGet_Failure_LeavesTheConnectionPoolAlone(t *testing.T) {
	t.Parallel()
	const parallel = 8
	var together sync.WaitGroup
	together.Add(parallel)
	var connections atomic.Int32
	srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/progress-notes/1": // waits for the others, so that each has a connection of its own
			together.Done()
			together.Wait()
			socketStatus(http.StatusOK, socketNote(1))(w, r)
		case "/v1/progress-notes/2":
			socketStatus(http.StatusInternalServerError, "")(w, r)
		default:
			socketStatus(http.StatusOK, socketNote(3))(w, r)
		}
	})
	tr := socketTransport(t)
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		connections.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	c := socketClient(t, srv.URL, over(tr))
	ctx := socketContext(t)
	each(parallel, parallel, func(int) {
		_, err := c.Notes.Get(ctx, 1)
		assert.NoError(t, err)
	})
	require.EqualValues(t, parallel, connections.Load())

	_, err := c.Notes.Get(ctx, 2) // fails four times
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	_, err = c.Notes.Get(endedContext(t), 3)
	require.ErrorIs(t, err, context.Canceled)
	must(c.Notes.Get(ctx, 3))(t)
	assert.EqualValues(t, parallel, connections.Load(), "no other connection was needed")
}

func TestHTTP2_UploadAndRead_Work(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	c := h2Client(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		if r.Method == http.MethodPost {
			form, err := readForm(r)
			assert.NoError(t, err)
			assert.Equal(t, syntheticAudio(size).bytes(), form.file)
			assert.Greater(t, form.length, int64(size))
		}
		socketStatus(http.StatusOK, socketNote(9))(w, r)
	})
	must(c.Notes.Create(socketContext(t), socketParams(size)))(t)
	must(c.Notes.Get(socketContext(t), 9))(t)
}

func TestHTTP2_RefusedEarly_SendsNoAudio(t *testing.T) {
	t.Parallel()
	var sent int64
	c := h2Client(t,
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
		onAttempt(func(_ context.Context, a clinicaldoc.Attempt) { sent = a.BytesSent }))
	_, err := c.Notes.Create(socketContext(t), socketParams(5<<20))
	require.ErrorIs(t, err, clinicaldoc.ErrTooLarge)
	assert.Zero(t, sent)
}

func TestHTTP2_EndlessGoAway_IsBounded(t *testing.T) {
	t.Parallel()
	// Each connection is met with GOAWAY before its stream: net/http would connect again without pause or end.
	url, httpClient, connections := frameServer(t, func(c *h2Conn) {
		c.request(false)
		c.goAway(0)
		_ = c.Close()
	})
	_, err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient)).Notes.Get(socketContext(t), 9)
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.LessOrEqual(t, connections(), 4*11, "eleven connections for each of four attempts")
}

func TestBackoff_GrowsWithJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		distinct := map[time.Duration]bool{}
		for range 20 {
			var at []time.Time
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				at = append(at, time.Now())
				return madeResponse(r, http.StatusBadGateway, ""), nil
			})
			_, err := c.Notes.Get(t.Context(), 9)
			require.ErrorIs(t, err, clinicaldoc.ErrServer)
			require.Len(t, at, 4)
			for i, full := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
				wait := at[i+1].Sub(at[i])
				assert.GreaterOrEqual(t, wait, full, "MinWait is a minimum")
				assert.LessOrEqual(t, wait, full*3/2)
				distinct[wait] = true
			}
		}
		assert.Greater(t, len(distinct), 30, "clients that fail together must not come back together")
	})
}

// A service that asks for a pause gets it, up to two minutes. The forms of the header are tested in internal/exchange.
func TestRetryAfter_IsHonored(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, tc := range []struct {
		value       string
		least, most time.Duration // never: no second attempt
	}{
		{"7", 7 * time.Second, 7 * time.Second},
		{"120", 2 * time.Minute, 2 * time.Minute},
		{"121", never, never},
		{"9300000000", never, never}, // overflows a duration
		{"0", 500 * time.Millisecond, 750 * time.Millisecond},
		{"soon", 500 * time.Millisecond, 750 * time.Millisecond},
		{"date in 12s", 12 * time.Second, 12 * time.Second},
		{"date in 121s", never, never},
	} {
		for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			timedSubtest(t, fmt.Sprintf("%d %s", code, tc.value), func(t *testing.T) {
				value := tc.value
				if in, isDate := strings.CutPrefix(value, "date in "); isDate {
					d := must(time.ParseDuration(in))(t)
					value = time.Now().Add(d).UTC().Format(http.TimeFormat)
				}
				start, attempts := time.Now(), 0
				c := timedClient(t, func(r *http.Request) (*http.Response, error) {
					if attempts++; attempts > 1 {
						return madeResponse(r, http.StatusOK, socketNote(9)), nil
					}
					return madeResponse(r, code, `{"message":"synthetic"}`, "Retry-After", value), nil
				})
				_, err := c.Notes.Get(t.Context(), 9)
				waited := time.Since(start)
				if tc.least == never {
					answered := requireAs[*clinicaldoc.Error](t, err)
					assert.Equal(t, "synthetic", answered.Message)
					assert.Greater(t, answered.RetryAfter, 2*time.Minute)
					assert.Zero(t, waited)
					assert.Equal(t, 1, attempts)
					return
				}
				require.NoError(t, err)
				assert.GreaterOrEqual(t, waited, tc.least)
				assert.LessOrEqual(t, waited, tc.most)
			})
		}
	}
}

func TestLimit_ManyWorkers_OneRefusalAWindow(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named(1, 8, 50), func(t *testing.T, workers int) {
		const calls = 300
		service := newLaravelLimit(func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusOK, socketNote(9)), nil
		})
		client := timedClient(t, service.RoundTrip)
		start := time.Now()
		each(workers, calls, func(int) { getNote(t, client) })
		all, most := service.refusals()
		assert.LessOrEqual(t, most, 1, "in one window")
		assert.Equal(t, calls+all, service.requests)
		assert.Less(t, time.Since(start), (calls/60)*(time.Minute+3*time.Second))
	})
}

// If the service does not report how many requests remain, the client counts how many it accepts in a window.
func TestLimit_NotCounted_FewRefusalsAWindow(t *testing.T) {
	t.Parallel()
	type test struct{ limit, workers int }
	timedSubtests(t, map[string]test{
		"one worker":                   {20, 1},
		"as many workers":              {20, 20},
		"more workers than the limit":  {5, 16},
		"many workers, a common limit": {60, 64},
	}, func(t *testing.T, tc test) {
		const windows = 12
		service := newLaravelLimit(func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusOK, socketNote(9)), nil
		})
		service.limit = tc.limit
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			resp, err := service.RoundTrip(r)
			if err == nil {
				resp.Header.Del("X-Ratelimit-Remaining")
			}
			return resp, err
		})
		each(tc.workers, windows*tc.limit, func(int) { getNote(t, client) })
		all, _ := service.refusals()
		later := all - service.refused[0] // nothing is known in the first window
		assert.LessOrEqual(t, later, 3*windows, service.refused)
		assert.LessOrEqual(t, len(service.refused), windows+2)
	})
}

// getNote reads a note, which has to succeed. It can be called in any goroutine.
func getNote(t *testing.T, client *clinicaldoc.Client) {
	t.Helper()
	_, err := client.Notes.Get(t.Context(), 9)
	assert.NoError(t, err)
}

// each calls do with the numbers below n, in so many goroutines.
func each(workers, n int, do func(i int)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				do(i - 1)
			}
		})
	}
	all.Wait()
}

// limitedOnce refuses its first request for a minute.
func limitedOnce(status int) (transport roundTripper, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	return func(r *http.Request) (*http.Response, error) {
		if requests.Add(1) == 1 {
			return madeResponse(r, status, `{}`, "Retry-After", "60"), nil
		}
		return madeResponse(r, http.StatusOK, socketNote(9)), nil
	}, requests
}

func TestLimit_OtherCalls_WaitToo(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named(http.StatusTooManyRequests, http.StatusServiceUnavailable), func(t *testing.T, status int) {
		transport, requests := limitedOnce(status)
		client := timedClient(t, transport)
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { getNote(t, client) })
		synctest.Wait()
		for range 20 {
			all.Go(func() { getNote(t, client) })
		}
		synctest.Wait()
		assert.EqualValues(t, 1, requests.Load())
		getNote(t, timedClient(t, transport))
		assert.Zero(t, time.Since(start), "another client has limits of its own")
		all.Wait()
		assert.Equal(t, time.Minute, time.Since(start))
		assert.EqualValues(t, 23, requests.Load(), "the refused one, its retry, 20 that waited, and the other client's")
	})
}

func TestLimit_WhenItEnds_OneCallGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var refusals atomic.Int32
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			if time.Since(start) < 25*time.Second {
				refusals.Add(1)
				return madeResponse(r, http.StatusTooManyRequests, `{}`, "Retry-After", "10"), nil
			}
			return madeResponse(r, http.StatusOK, socketNote(9)), nil
		})
		var first sync.WaitGroup
		first.Go(func() { getNote(t, client) })
		time.Sleep(time.Second) // it is refused by then
		each(20, 20, func(int) { getNote(t, client) })
		first.Wait()
		assert.EqualValues(t, 3, refusals.Load())
		assert.Less(t, time.Since(start), 31*time.Second)
	})
}

func TestLimit_WithoutRetry_DoesNotWait(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named(http.StatusTooManyRequests, http.StatusServiceUnavailable), func(t *testing.T, status int) {
		requests := 0
		transport := func(r *http.Request) (*http.Response, error) {
			requests++
			return madeResponse(r, status, `{"message":"synthetic"}`, "Retry-After", "60"), nil
		}
		client := timedClient(t, transport)
		clientWithoutRetries := timedClient(t, transport, once)
		start := time.Now()
		for range 3 {
			_, err := client.Notes.Get(t.Context(), 9, clinicaldoc.WithoutRetry())
			assert.Equal(t, "synthetic", requireAs[*clinicaldoc.Error](t, err).Message)
			_, err = clientWithoutRetries.Notes.Get(t.Context(), 9)
			assert.Equal(t, "synthetic", requireAs[*clinicaldoc.Error](t, err).Message)
		}
		assert.Equal(t, 6, requests)
		assert.Zero(t, time.Since(start))
	})
}

func TestLimit_MaxRetryAfter_BoundsTheWait(t *testing.T) {
	t.Parallel()
	policy := clinicaldoc.RetryPolicy{MaxRetries: 3, MaxRetryAfter: 5 * time.Minute}
	timedSubtests(t, named(300, 301), func(t *testing.T, seconds int) {
		requests := 0
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if requests++; requests == 1 {
				return madeResponse(r, http.StatusTooManyRequests, `{}`, "Retry-After", strconv.Itoa(seconds)), nil
			}
			return madeResponse(r, http.StatusOK, socketNote(9)), nil
		}, clinicaldoc.WithRetry(policy))
		start := time.Now()
		_, err := client.Notes.Get(t.Context(), 9)
		if seconds == 300 {
			require.NoError(t, err)
			assert.Equal(t, 5*time.Minute, time.Since(start))
			return
		}
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		assert.Zero(t, time.Since(start))
		must(client.Notes.Get(t.Context(), 9))(t) // such a limit delays no other call
		assert.Equal(t, 2, requests)
	})
}

// A wait for a limit is neither an attempt nor a retry. Only refusals in a row are bounded.
func TestLimit_Refusals_AreNotRetries(t *testing.T) {
	t.Parallel()
	type test struct {
		statuses []int
		attempts int
		failed   error
	}
	timedSubtests(t, map[string]test{
		"failures between them": {[]int{429, 429, 502, 429, 429, 502, 200}, 7, nil},
		"refusals in a row":     {[]int{429, 429, 429, 200}, 3, clinicaldoc.ErrRateLimited},
		"too many failures":     {[]int{502, 429, 502, 429, 502, 200}, 5, clinicaldoc.ErrServer},
	}, func(t *testing.T, tc test) {
		statuses := tc.statuses
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			status := statuses[0]
			statuses = statuses[1:]
			return madeResponse(r, status, socketNote(9), "Retry-After", "40"), nil
		}, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2}))
		var response clinicaldoc.Response
		_, err := client.Notes.Get(t.Context(), 9, clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, tc.failed)
		assert.Equal(t, tc.attempts, response.Attempts)
	})
}

// Storage is another server: its refusals hold up no call of the service, and the service's limit holds up no read of
// storage.
func TestLimit_OfStorage_IsSeparate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuseStorage, refuseService atomic.Bool
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			inStorage := r.URL.Host == "storage.clinic.test"
			switch {
			case inStorage && refuseStorage.Swap(false), !inStorage && refuseService.Swap(false):
				return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "60"), nil
			case inStorage:
				resp := httptest.NewRecorder()
				resp.Header().Set("ETag", `"synthetic"`)
				http.ServeContent(resp, r, "a.wav", time.Time{}, strings.NewReader("synthetic"))
				return resp.Result(), nil
			case strings.HasSuffix(r.URL.Path, "/audio-url"):
				return madeResponse(r, http.StatusOK, `{"url":"https://storage.clinic.test/a"}`), nil
			}
			return madeResponse(r, http.StatusOK, socketNote(9)), nil
		})
		get := func() { getNote(t, client) }
		download := func() {
			_, err := client.Notes.DownloadAudio(t.Context(), 9, io.Discard, downloadParams{})
			assert.NoError(t, err)
		}
		start := time.Now()
		var all sync.WaitGroup
		refuseStorage.Store(true)
		all.Go(download)
		synctest.Wait()
		get()
		assert.Zero(t, time.Since(start))
		refuseService.Store(true)
		all.Go(get)
		synctest.Wait()
		all.Wait()
		assert.Equal(t, time.Minute, time.Since(start))

		stream := must(client.Notes.OpenAudio(t.Context(), 9))(t)
		refuseService.Store(true)
		all.Go(get)
		synctest.Wait()
		content := must(io.ReadAll(stream))(t)
		assert.Equal(t, "synthetic", string(content))
		assert.Equal(t, time.Minute, time.Since(start))
		all.Wait()
	})
}

// An upload that takes long does not hold up other calls, also if it is the first after a limit.
func TestLimit_LongUpload_HoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			switch {
			case requests.Add(1) == 1:
				return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "10", "X-RateLimit-Remaining",
					"0"), nil
			case r.Method == http.MethodPost:
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(time.Hour)
			}
			return madeResponse(r, http.StatusOK, socketNote(9), "X-RateLimit-Remaining", "0"), nil
		}, clinicaldoc.WithStallTimeout(2*time.Hour))
		start := time.Now()
		var upload sync.WaitGroup
		upload.Go(func() {
			_, err := client.Notes.Create(t.Context(), socketParams(10))
			assert.NoError(t, err)
		})
		time.Sleep(12 * time.Second) // until the upload is under way
		for range 10 {
			must(client.Notes.Get(t.Context(), 9))(t)
		}
		assert.Less(t, time.Since(start), 25*time.Second)
		upload.Wait()
	})
}

// Some services report that no request remains and go on.
func TestLimit_WrongCount_IsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return madeResponse(r, http.StatusOK, socketNote(9), "X-RateLimit-Remaining", "0"), nil
		})
		start := time.Now()
		each(10, 1000, func(int) { getNote(t, client) })
		assert.Less(t, time.Since(start), 11*time.Second)
	})
}

func TestRetryBudget_Outage_IsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		var up atomic.Bool
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			if up.Load() {
				return madeResponse(r, http.StatusOK, socketNote(9)), nil
			}
			return madeResponse(r, http.StatusBadGateway, `{}`), nil
		})
		get := func(int) { _, _ = client.Notes.Get(t.Context(), 9) }
		began := time.Now()
		each(100, 2000, get)
		seconds := int(time.Since(began).Seconds()) + 1
		extra := int(requests.Swap(0)) - 2000
		assert.GreaterOrEqual(t, extra, 100)
		assert.LessOrEqual(t, extra, 100+seconds, "retries of an outage are bounded")

		time.Sleep(time.Minute)
		each(100, 100, get)
		extra = int(requests.Swap(0)) - 100
		assert.GreaterOrEqual(t, extra, 60, "time gives back")
		assert.LessOrEqual(t, extra, 70)

		up.Store(true)
		each(10, 400, get)
		up.Store(false)
		requests.Store(0)
		each(100, 100, get)
		extra = int(requests.Load()) - 100
		assert.GreaterOrEqual(t, extra, 80, "successes give back")
	})
}

// A program that makes one call after the other never notices the budget.
func TestRetryBudget_OneCallAfterAnother_IsNotLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusBadGateway, `{}`), nil
		})
		for range 500 {
			var response clinicaldoc.Response
			_, err := client.Notes.Get(t.Context(), 9, clinicaldoc.WithResponse(&response))
			require.ErrorIs(t, err, clinicaldoc.ErrServer)
			require.Equal(t, 4, response.Attempts)
		}
	})
}

func TestRetry_ContextEndsInThePause_ErrorHasBothCauses(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(context.Context, *clinicaldoc.Client) error{
		"Get": func(ctx context.Context, c *clinicaldoc.Client) error {
			_, err := c.Notes.Get(ctx, 9)
			return err
		},
		"Create": func(ctx context.Context, c *clinicaldoc.Client) error {
			_, err := c.Notes.Create(ctx, socketParams(10))
			return err
		},
	}, func(t *testing.T, call func(context.Context, *clinicaldoc.Client) error) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()
		err := call(ctx, timedClient(t, func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "10"), nil
		}))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "a 429 was not acted upon")
		requireAs[*clinicaldoc.Error](t, err)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
}

// The limiter is asked before each attempt. If it refuses one, the call ends.
func TestLimiter_EachAttempt_IsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, attempts := 0, 0
		refusal := errors.New("synthetic: budget of secret spent")
		limiter := limiterFunc(func(context.Context) error {
			assert.Equal(t, asked, attempts, "it comes before the request")
			if asked++; asked == 4 {
				return refusal
			}
			return nil
		})
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			attempts++
			return madeResponse(r, http.StatusBadGateway, ""), nil
		}, clinicaldoc.WithLimiter(limiter))
		_, err := c.Notes.Get(t.Context(), 9)
		require.ErrorIs(t, err, refusal)
		require.ErrorIs(t, err, clinicaldoc.ErrServer, "why another attempt was needed")
		require.ErrorContains(t, err, "limiter")
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, 4, asked, "a refusal is not repeated")
		assert.Equal(t, 3, attempts)
	})
}

func TestError_LongBody_IsCut(t *testing.T) {
	t.Parallel()
	for limit, opts := range map[int][]clinicaldoc.Option{64 << 10: nil, 100: {clinicaldoc.WithMaxResponseSize(100)}} {
		body := `{"message":"synthetic"}` + strings.Repeat(" ", 1<<20)
		srv := socketHandler(t, socketStatus(http.StatusNotFound, body))
		var response clinicaldoc.Response
		_, err := socketClient(t, srv.URL, opts...).
			Notes.Get(socketContext(t), 9, clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
		assert.Len(t, response.Body, limit)
	}
}

func TestError_BodyBreaksOff_KeepsTheStatus(t *testing.T) {
	t.Parallel()
	srv := newRawServer(t, func(c *rawConn) {
		c.request()
		c.send("HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 500\r\nX-Request-Id: synthetic-1\r\n\r\n{\"mess")
	})
	_, err := socketClient(t, srv.URL).Notes.Get(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	assert.Contains(t, err.Error(), "synthetic-1")
}

func TestResponse_Endless_IsBoundedByDefault(t *testing.T) {
	t.Parallel()
	endless := func(status int) (int64, error) {
		body := new(endlessBody)
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}, nil
		}))
		_, err := client.Notes.Get(t.Context(), 7)
		return body.read, err
	}
	read, err := endless(http.StatusOK)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorContains(t, err, "it is longer than the limit of WithMaxResponseSize")
	assert.EqualValues(t, 64<<20+1, read, "one byte more tells that it is too long")

	read, err = endless(http.StatusNotFound)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	assert.EqualValues(t, 64<<10+1, read)
}

func TestResponse_NestedTooDeeply_IsRejected(t *testing.T) {
	t.Parallel()
	for depth, fits := range map[int]bool{999: true, 1000: false} { // the note itself is one level
		patient := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		_, err := get(t, withField(`"patient":`+patient))
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Contains(t, err.Error(), "nested too deeply")
	}
	// Do decodes with encoding/json, which has this limit of its own.
	for depth, fits := range map[int]bool{10_000: true, 10_001: false} {
		var out any
		answer := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		err := clientOver(t, answerWith(http.StatusOK, "application/json", []byte(answer))).Do(t.Context(),
			http.MethodGet, "/v1/other", nil, &out)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	}
}

// The transport is the SDK's own, which no other test uses on sockets.
func TestResponse_LongHeader_IsBoundedByDefault(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{900 << 10: true, 1100 << 10: false} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range size >> 10 {
				w.Header().Add("X-Padding", strings.Repeat("x", 1<<10))
			}
			_, _ = io.WriteString(w, smallNote)
		}))
		t.Cleanup(srv.Close)
		client := must(clinicaldoc.NewClient(srv.URL, testToken, once))(t)
		_, err := client.Notes.Get(t.Context(), 7)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "the response's header is too large")
	}
}

func TestStall_NoDataForAMinute_EndsTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, once)
		start := time.Now()
		_, err := client.Notes.Get(t.Context(), 9)
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		require.ErrorContains(t, err, "no data was transferred for 1m0s")
		assert.True(t, clinicaldoc.Retryable(err))
		assert.Equal(t, time.Minute, time.Since(start))
		_, err = client.Notes.Create(t.Context(), createParams{Name: "Visit"})
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.False(t, clinicaldoc.Retryable(err))
		_, err = client.Notes.Wait(t.Context(), 9, waitParams{MaxFailures: 1})
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		assert.True(t, clinicaldoc.Retryable(err))
		_, err = client.Notes.Get(endsAfter(t, time.Second), 9)
		require.NotErrorIs(t, err, clinicaldoc.ErrStalled, "its context ended first")
	})
}

func TestStall_SlowTransferThatMoves_Succeeds(t *testing.T) {
	t.Parallel()
	// slowly takes a block of the request's body every 50 seconds, and responds so long after the last one.
	slowly := func(block int, later time.Duration) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			for buffer := make([]byte, block); ; time.Sleep(50 * time.Second) {
				if _, err := r.Body.Read(buffer); err != nil {
					break
				}
			}
			time.Sleep(later)
			return madeResponse(r, http.StatusOK, socketNote(9)), r.Context().Err()
		}
	}
	timedSubtest(t, "response", func(t *testing.T) {
		start := time.Now()
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			resp := madeResponse(r, http.StatusOK, "")
			resp.Body = io.NopCloser(&slowReader{text: socketNote(9), pause: 20 * time.Second})
			return resp, nil
		})
		must(c.Notes.Get(t.Context(), 9))(t)
		assert.Greater(t, time.Since(start), 6*time.Minute)
	})
	timedSubtest(t, "upload, which may take as long to arrive as it took to leave", func(t *testing.T) {
		must(timedClient(t, slowly(1000, 10*time.Minute)).Notes.Create(t.Context(), socketParams(20_000)))(t)
	})
	timedSubtest(t, "update", func(t *testing.T) {
		params := updateParams{Analysis: new(strings.Repeat("x", 64<<10))}
		must(timedClient(t, slowly(30<<10, 0), once).Notes.Update(t.Context(), 9, params))(t)
	})
}

// witness is a server that keeps what it was sent.
type witness struct {
	*httptest.Server
	mu            sync.Mutex
	requests      []string
	authorization []string
	bodies        int
}

func newWitness(t *testing.T, answer http.HandlerFunc) *witness {
	t.Helper()
	w := &witness{}
	w.Server = socketHandler(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.requests = append(w.requests, r.Method+" "+r.URL.Path)
		w.authorization = append(w.authorization, r.Header.Get("Authorization"))
		if len(body) > 0 {
			w.bodies++
		}
		w.mu.Unlock()
		answer(rw, r)
	})
	return w
}

// host is the server's address, without its scheme.
func (w *witness) host() string { return strings.TrimPrefix(w.URL, "http://") }

// A redirect is followed if it is that of a read and stays on the origin, so neither token nor body go elsewhere.
// Which locations are on the origin is tested in internal/exchange.
func TestRedirect_OnlyReadsOnTheSameOrigin_AreFollowed(t *testing.T) {
	t.Parallel()
	same := func(home, _ string) string { return "http://" + home + "/moved" }
	other := func(_, foreign string) string { return "http://" + foreign + "/moved" }
	otherName := func(_, foreign string) string {
		return "http://" + strings.Replace(foreign, "127.0.0.1", "localhost", 1) + "/moved"
	}
	userInfo := func(home, foreign string) string { return "http://" + home + "@" + foreign + "/moved" }
	nowhere := func(string, string) string { return "" }
	type test struct {
		method   string
		body     any
		location func(home, foreign string) string // hosts of the service and of another server
		followed bool
	}
	tests := map[string]test{
		"GET":                        {http.MethodGet, nil, same, true},
		"HEAD":                       {http.MethodHead, nil, same, true},
		"GET, other port":            {http.MethodGet, nil, other, false},
		"GET, other name":            {http.MethodGet, nil, otherName, false},
		"GET, user info, other host": {http.MethodGet, nil, userInfo, false},
		"GET, no location":           {http.MethodGet, nil, nowhere, false},
		"GET with a body":            {http.MethodGet, "synthetic", same, false},
		"POST":                       {http.MethodPost, "synthetic", same, false},
		"POST, other port":           {http.MethodPost, "synthetic", other, false},
		"PUT":                        {http.MethodPut, "synthetic", same, false},
		"PATCH":                      {http.MethodPatch, "synthetic", same, false},
		"DELETE":                     {http.MethodDelete, nil, same, false},
	}
	subtests(t, tests, func(t *testing.T, tt test) {
		for _, code := range []int{301, 302, 303, 307, 308} {
			moved := socketStatus(http.StatusOK, `{}`)
			foreign := newWitness(t, moved)
			var home *witness
			home = newWitness(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/moved" {
					moved(w, r)
					return
				}
				if to := tt.location(home.host(), foreign.host()); to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(code)
			})
			err := socketClient(t, home.URL).Do(socketContext(t), tt.method, "/v1/synthetic", tt.body, nil)
			assert.Empty(t, foreign.requests, "the foreign origin was asked")
			assert.LessOrEqual(t, home.bodies, 1, "a body is never sent again")
			for _, authorization := range home.authorization {
				assert.Equal(t, "Bearer "+socketToken, authorization)
			}
			if tt.followed {
				require.NoError(t, err, code)
				assert.Len(t, home.requests, 2)
				continue
			}
			require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, code)
			assert.Equal(t, code, requireAs[*clinicaldoc.Error](t, err).StatusCode)
			assert.NotContains(t, err.Error(), "moved")
			assert.Len(t, home.requests, 1)
		}
	})
}

func TestRedirect_ManyHops_AreBounded(t *testing.T) {
	t.Parallel()
	for hops, followed := range map[int]bool{5: true, 6: false} {
		t.Run(fmt.Sprint(hops), func(t *testing.T) {
			t.Parallel()
			left := hops
			home := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
				if left == 0 {
					socketStatus(http.StatusOK, socketNote(9))(w, r)
					return
				}
				left--
				http.Redirect(w, r, fmt.Sprintf("/hop/%d", left), http.StatusFound)
			})
			_, err := socketClient(t, home.URL).Notes.Get(socketContext(t), 9)
			if followed {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
				assert.Contains(t, err.Error(), "redirects in a circle, or too often")
			}
			assert.Len(t, home.requests, 6)
		})
	}
}

func TestRedirect_LeavesHalfway_IsNotFollowed(t *testing.T) {
	t.Parallel()
	foreign := newWitness(t, socketStatus(http.StatusOK, socketNote(9)))
	home := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			http.Redirect(w, r, foreign.URL+"/v1/progress-notes/9", http.StatusFound)
			return
		}
		http.Redirect(w, r, "/half", http.StatusFound)
	})
	_, err := socketClient(t, home.URL).Notes.Get(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.Empty(t, foreign.requests)
	assert.Len(t, home.requests, 2)
}

// A transport that is a complete client follows redirects, and so sends a GET instead of a PUT or DELETE. The response
// to that shows nothing about the edit.
func TestEdits_TransportFollowsRedirects_AreErrors(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
			home := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					socketStatus(http.StatusOK, socketNote(9))(w, r)
					return
				}
				http.Redirect(w, r, "/moved", code)
			})
			client := socketClient(t, home.URL, over(retryingLibrary(home.Client().Transport)))
			require.ErrorIs(t, call(socketContext(t), client), clinicaldoc.ErrUnexpectedResponse, "%s %d", name, code)
		}
		bare := clientOver(t, roundTripper(func(*http.Request) (*http.Response, error) {
			moved := &http.Response{StatusCode: http.StatusFound, Header: http.Header{}}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
				Request: &http.Request{Method: http.MethodGet, Response: moved}}, nil
		}))
		require.ErrorIs(t, call(t.Context(), bare), clinicaldoc.ErrUnexpectedResponse, "%s, without a body", name)
	}
}

// These tests keep allocations from creeping in; internal/dev/benchmarks tells what they mean. Each limit is what the
// call needs and one for a pool that the collector has emptied. Times are never tested.

// skipWithRace leaves out what counts allocations where the race detector empties pools, the standard library's among
// them.
func skipWithRace(t *testing.T) {
	t.Helper()
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector empties pools")
	}
}

// canned answers every request with the same document, in this process and without a goroutine.
type canned string

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader([]byte(c))),
		Request:    req,
	}, nil
}

const pageRows = 100

func fullPage(note string) string {
	return `{"data":[` + strings.TrimSuffix(strings.Repeat(note+",", pageRows), ",") +
		`],"links":{"next":null},"meta":{"current_page":1,"last_page":1,"per_page":100,"total":100}}`
}

func TestCalls_Allocations_AreBounded(t *testing.T) { //nolint:paralleltest // it counts allocations
	skipWithRace(t)
	alone := func(note string) string { return note }
	signed := func(note string) string { return strings.Replace(note, `"signed":false`, `"signed":true`, 1) }
	edit := updateParams{Name: new("Edited"), Analysis: new("Edited, too")}
	for name, tt := range map[string]struct {
		limit    float64
		response func(note string) string
		call     func(*clinicaldoc.Client) (any, error)
	}{
		"Get": {42, alone, func(c *clinicaldoc.Client) (any, error) { return c.Notes.Get(t.Context(), 7) }},
		"Update": {53, alone, func(c *clinicaldoc.Client) (any, error) {
			return c.Notes.Update(t.Context(), 7, edit)
		}},
		"Sign": {45, signed, func(c *clinicaldoc.Client) (any, error) { return c.Notes.Sign(t.Context(), 7) }},
		"Delete": {42, func(string) string { return `{"message":"Deleted."}` },
			func(c *clinicaldoc.Client) (any, error) { return c.Notes.Delete(t.Context(), 7) }},
		// A note of a page costs two allocations: one for its texts, one for template and audio.
		"List": {53 + 2*pageRows, fullPage, func(c *clinicaldoc.Client) (any, error) {
			return c.Notes.List(t.Context(), listParams{PerPage: pageRows})
		}},
	} {
		for _, note := range []string{describedNote, richNote} { // undescribed members must not add to them
			client := must(clinicaldoc.NewClient(testBase, testToken, over(canned(tt.response(note)))))(t)
			allocations := testing.AllocsPerRun(50, func() {
				if _, err := tt.call(client); err != nil {
					panic(err)
				}
			})
			assert.LessOrEqual(t, allocations, tt.limit, name)
		}
	}
}

// The texts of a note share memory with each other, and with no other note's.
func TestList_KeptNote_DoesNotHoldItsPage(t *testing.T) { //nolint:paralleltest // it counts allocations
	const size = 100 << 10
	note := `{"id":7,"name":"Synthetic note","transcription":"` + strings.Repeat("x", size) + `"}`
	client := must(clinicaldoc.NewClient(testBase, testToken, over(canned(fullPage(note)))))(t)
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // what is pooled takes two
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	var awaited *clinicaldoc.ProgressNote
	for range client.Notes.WaitAll(ctx, []int64{7, 8, 9}, waitParams{OnUpdate: func(note *clinicaldoc.ProgressNote) {
		awaited = note
		cancel()
	}}) {
		continue
	}
	assert.Less(t, heap()-before, int64(20*size), "one that is waited for")
	require.NotNil(t, awaited)
	assert.Len(t, awaited.Transcription, size)

	page := must(client.Notes.List(t.Context(), listParams{PerPage: pageRows}))(t)
	kept := page.Items[50]
	assert.Less(t, heap()-before, int64(20*size), "one note of a hundred")
	assert.Len(t, kept.Transcription, size)
}

// A list must not take many times the memory that its response does.
func TestList_SenselessRows_TakeLittleMemory(t *testing.T) { //nolint:paralleltest // it counts allocations
	tests := map[string]struct {
		row  string
		rows int
		path string
	}{
		"rows without an id": {"{}", 4 << 20 / 3, "[0]: want a record with an id"},
		"too many rows":      {`{"id":7,"name":"n"}`, 8 << 20 / 20, "[100000]: want the end of the list"},
	}
	for name, test := range tests {
		for path, answer := range map[string]string{
			"data":   `{"data":[` + strings.Repeat(test.row+",", test.rows-1) + test.row + `]}`,
			"":       `[` + strings.Repeat(test.row+",", test.rows-1) + test.row + `]`,
			"tokens": `{"tokens":[` + strings.Repeat(test.row+",", test.rows-1) + test.row + `]}`,
		} {
			client, err := clinicaldoc.NewClient(testBase, testToken, over(canned(answer)))
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if path == "tokens" {
				_, err = client.Tokens.List(t.Context())
			} else {
				_, err = client.Notes.List(t.Context(), listParams{})
			}
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, name)
			require.ErrorContains(t, err, path+test.path, name)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300<<20), "%s in %q", name, path)
		}
	}
}

// blank is a response of so many bytes.
type blank int64

func (size blank) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(io.LimitReader(new(endlessBody), int64(size))), Request: req}, nil
}

// memory returns what one more response of the given size makes the process allocate, and what is held in the end. It
// tries so often to see memory that is used again.
func memory(t *testing.T, size int64, tries int) (allocated, held int64) {
	t.Helper()
	client := must(clinicaldoc.NewClient(testBase, testToken, over(blank(size))))(t)
	measure := func() (stats runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats
	}
	get := func() { require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/other", nil, nil)) }
	first := measure()
	allocated = math.MaxInt64
	for range tries { // what one processor keeps is not another's, and the goroutine may move in between
		for range 8 { // every buffer that is kept has grown
			get()
		}
		before := measure()
		get()
		allocated = min(allocated, int64(measure().TotalAlloc-before.TotalAlloc))
		if allocated < size/2 {
			break
		}
	}
	return allocated, int64(measure().HeapAlloc) - int64(first.HeapAlloc)
}

func TestResponse_Memory_IsReusedUnlessHuge(t *testing.T) { //nolint:paralleltest // it counts allocations
	allocated, _ := memory(t, 1<<19, 10)
	assert.Less(t, allocated, int64(1<<18), "the memory of a usual response is used again")
	_, held := memory(t, 3<<20, 1)
	assert.Less(t, held, int64(1<<20), "the memory of a huge one is given back")
}

// retrying is a transport that sends everything up to five times, as some programs' do.
func retrying(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		var body []byte
		if r.Body != nil {
			var err error
			if body, err = io.ReadAll(r.Body); err != nil {
				return nil, err
			}
		}
		for attempt := 1; ; attempt++ {
			again := r.Clone(r.Context())
			if r.Body != nil {
				again.Body = io.NopCloser(bytes.NewReader(body))
			}
			resp, err := next.RoundTrip(again)
			if attempt == 5 || err == nil && resp.StatusCode < 500 {
				return resp, err
			}
			if err == nil {
				_ = resp.Body.Close()
			}
		}
	})
}

func retryingLibrary(next http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: next}
	c.Logger, c.RetryWaitMin, c.RetryWaitMax = nil, time.Millisecond, time.Millisecond
	return c.StandardClient().Transport
}

// retryingForEver is retrying for a transport that does not notice the end of the call.
func retryingForEver(next http.RoundTripper) http.RoundTripper {
	return retrying(roundTripper(func(r *http.Request) (*http.Response, error) {
		return next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	}))
}

// Transports retry by themselves. Whatever they do, one call makes at most one note.
func TestCreate_TransportRetries_MakesOneNote(t *testing.T) {
	t.Parallel()
	type test struct {
		wrap    func(http.RoundTripper) http.RoundTripper
		serve   func(*testing.T, http.HandlerFunc) *httptest.Server
		size    int64
		respond http.HandlerFunc
	}
	tests := map[string]test{}
	for transport, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"library": retryingLibrary, "own": retrying, "own, ignores the context": retryingForEver,
	} {
		for end, respond := range map[string]http.HandlerFunc{
			"502":   socketStatus(http.StatusBadGateway, ""),
			"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			for what, size := range map[string]int64{"small": 100, "announced": 2 << 20} {
				name := transport + ", " + end + ", " + what
				tests[name+", HTTP/1.1"] = test{wrap, socketHandler, size, respond}
				tests[name+", HTTP/2"] = test{wrap, h2Server, size, respond}
			}
		}
	}
	subtests(t, tests, func(t *testing.T, tt test) {
		var notes atomic.Int32
		srv := tt.serve(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				notes.Add(1)
			}
			tt.respond(w, r)
		})
		c := socketClient(t, srv.URL, over(tt.wrap(srv.Client().Transport)))
		params, started := socketParams(tt.size), time.Now()
		_, err := c.Notes.Create(socketContext(t), params)
		requireUnknown(t, err, params, started)
		assert.EqualValues(t, 1, notes.Load(), "one call, one note")
	})
}

// An empty body counts as sent completely as soon as the transport reads it.
func TestDo_EmptyBodyAndTransportRetries_IsUnknown(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]any{"bytes": []byte{}, "a reader": strings.NewReader(""),
		"a stream": io.MultiReader()} {
		script := newSocketSteps(socketStatus(http.StatusBadGateway, ""), socketStatus(http.StatusOK, ""))
		c := script.client(t, over(retrying(socketTransport(t))), once)
		err := c.Do(socketContext(t), http.MethodPost, "/v1/synthetic", body, nil)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, name)
	}
}

// A transport that signs requests takes a copy of the body to do so.
func TestUpdate_TransportReadsTheBodyFirst_IsSentCompletely(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("synthetic ", 10_000)
	for lost, want := range map[bool]error{false: nil, true: clinicaldoc.ErrOutcomeUnknown} {
		srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if assert.NoError(t, err); assert.Contains(t, string(body), text) && lost {
				panic(http.ErrAbortHandler)
			}
			socketStatus(http.StatusOK, socketNote(9))(w, r)
		})
		next := socketTransport(t)
		signing := roundTripper(func(r *http.Request) (*http.Response, error) {
			first, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			_, _ = first.Read(make([]byte, 10))
			return next.RoundTrip(r)
		})
		c := socketClient(t, srv.URL, over(signing), once)
		_, err := c.Notes.Update(socketContext(t), 9, updateParams{Analysis: new(text)})
		require.ErrorIs(t, err, want)
	}
}

func TestGet_TransportRetries_Succeeds(t *testing.T) {
	t.Parallel()
	script := newSocketSteps(socketStatus(http.StatusBadGateway, ""), socketStatus(http.StatusOK, socketNote(9)))
	c := script.client(t, over(retrying(socketTransport(t))), once)
	_, err := c.Notes.Get(socketContext(t), 9)
	require.NoError(t, err, "what may be sent twice, a transport may send twice")
}

func TestDo_WithoutBody_IsNotRepeatedByNetHTTP(t *testing.T) {
	t.Parallel()
	var received atomic.Int32
	url, httpClient, _ := frameServer(t, func(c *h2Conn) {
		for {
			stream, _, ended := c.request(true)
			if !ended {
				return
			}
			received.Add(1)
			c.resetStream(stream, codeProtocolError)
		}
	})
	err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient), once).Do(socketContext(t), http.MethodPost,
		"/v1/synthetic", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, received.Load())
}

func TestCreate_RefusedByHTTP2_IsRetriedIfUnprocessed(t *testing.T) {
	t.Parallel()
	create := func(c *h2Conn) {
		for {
			stream, _, ended := c.request(true)
			if !ended {
				return
			}
			c.respond(stream, socketNote(41))
		}
	}
	for name, tc := range map[string]struct {
		refuse func(*h2Conn)
		sure   bool
	}{
		"GOAWAY above the last stream": {func(c *h2Conn) { c.request(true); c.goAway(0) }, true},
		"GOAWAY in the middle":         {func(c *h2Conn) { c.request(false); c.goAway(0) }, true},
		"REFUSED_STREAM": {func(c *h2Conn) {
			stream, _, _ := c.request(true)
			c.resetStream(stream, codeRefusedStream)
			c.goAway(stream)
		}, true},
		"GOAWAY at the last stream": {func(c *h2Conn) {
			stream, _, _ := c.request(true)
			c.goAway(stream)
			_ = c.Close()
		}, false},
		"PROTOCOL_ERROR": {func(c *h2Conn) {
			stream, _, _ := c.request(true)
			c.resetStream(stream, codeProtocolError)
		}, false},
	} {
		for what, size := range map[string]int64{"small": 100, "announced": 2 << 20} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				url, httpClient, _ := frameServer(t, tc.refuse, create)
				params, started := socketParams(size), time.Now()
				note, err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient)).Notes.Create(socketContext(t),
					params)
				if tc.sure {
					require.NoError(t, err)
					assert.EqualValues(t, 41, note.ID)
					return
				}
				requireUnknown(t, err, params, started)
			})
		}
	}
}

func TestHTTP2_ParallelUploads_KeepTheirConnection(t *testing.T) {
	t.Parallel()
	const parallel, size = 50, 1<<20 + 1
	var connections sync.Map // by the client's address
	c := h2Client(t, func(w http.ResponseWriter, r *http.Request) {
		connections.Store(r.RemoteAddr, true)
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		assert.Greater(t, n, int64(size))
		socketStatus(http.StatusCreated, socketNote(42))(w, r)
	}, once)
	shared := socketParams(size)
	must(c.Notes.Create(t.Context(), shared))(t)
	each(parallel, parallel, func(int) {
		_, err := c.Notes.Create(t.Context(), shared)
		assert.NoError(t, err)
	})
	assert.Equal(t, 1, countOf(&connections), "an upload gives its connection back")
}

// countOf returns how many keys a map has.
func countOf(m *sync.Map) int {
	count := 0
	for range m.Range {
		count++
	}
	return count
}

func TestCreate_RefusedUpload_ConnectionIsNotReused(t *testing.T) {
	t.Parallel()
	// Some servers take what is left of the upload for the next request.
	for name, body := range map[string]string{"with a body": `{"message":"synthetic"}`, "without": ""} {
		for what, size := range map[string]int64{"small": 10, "larger": 200 << 10, "announced": 2 << 20} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				srv := newRawServer(t,
					func(c *rawConn) {
						c.receive(5)
						c.answer(http.StatusRequestEntityTooLarge, body)
						c.untilClosed()
					},
					func(c *rawConn) { c.request(); c.answer(http.StatusOK, socketNote(9)); c.untilClosed() })
				tr := socketTransport(t)
				// then the connection is free before its status is known, and only one of ours can be retired
				if body == "" {
					tr = exchange.NewTransport()
					t.Cleanup(tr.CloseIdleConnections)
				}
				c := socketClient(t, srv.URL, over(tr), once)
				_, err := c.Notes.Create(socketContext(t), socketParams(size))
				require.ErrorIs(t, err, clinicaldoc.ErrTooLarge)
				must(c.Notes.Get(socketContext(t), 9))(t)
				assert.EqualValues(t, 2, srv.accepted.Load())
			})
		}
	}
}

// The client closes the connection of a refused upload. If another request has already got that connection, it must not
// be cut off.
func TestCreate_RefusedUpload_DoesNotCutOffTheNextRequest(t *testing.T) {
	t.Parallel()
	// Only one connection is allowed, so the next request waits for it and gets it the moment it is free.
	var notes atomic.Int32
	srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("refuse") != "" {
			socketStatus(http.StatusUnprocessableEntity, `{"message":"synthetic"}`)(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		notes.Add(1)
		socketStatus(http.StatusCreated, socketNote(43))(w, r)
	})
	tr := socketTransport(t)
	tr.MaxConnsPerHost = 1
	c := socketClient(t, srv.URL, over(tr))
	var all sync.WaitGroup
	var created atomic.Int32
	for i := range 40 {
		all.Go(func() {
			var opts []clinicaldoc.CallOption
			if i%2 == 0 {
				opts = append(opts, clinicaldoc.WithQuery("refuse", "1"))
			}
			_, err := c.Notes.Create(socketContext(t), socketParams(100), opts...)
			assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "cut off") //nolint:testifylint // in a goroutine
			if err == nil {
				created.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, notes.Load(), created.Load())
}

func TestUpload_AnnouncementIgnored_IsNotRepeated(t *testing.T) {
	t.Parallel()
	var expects []string
	srv := newRawServer(t, func(c *rawConn) {
		for range 3 {
			r := c.head()
			expects = append(expects, r.Header.Get("Expect"))
			_, _ = io.Copy(io.Discard, r.Body)
			c.answer(http.StatusCreated, socketNote(44))
		}
	})
	tr := socketTransport(t)
	tr.ExpectContinueTimeout = 50 * time.Millisecond
	c := socketClient(t, srv.URL, over(tr))
	for range 3 {
		must(c.Notes.Create(socketContext(t), socketParams(2<<20)))(t)
	}
	srv.wait()
	assert.Equal(t, []string{"100-continue", "", ""}, expects)
}

func TestUpload_AnnouncementHonored_IsRepeated(t *testing.T) {
	t.Parallel()
	srv, forms := formServer(t)
	c := socketClient(t, srv.URL)
	for range 2 {
		must(c.Notes.Create(socketContext(t), socketParams(2<<20)))(t)
		assert.Equal(t, "100-continue", (<-forms).expect)
	}
}

// The server refuses an announced upload instead of sending 100 Continue, so the recording is not transferred. Later
// uploads are announced again.
func TestUpload_AnnouncementThenRefusal_IsRepeated(t *testing.T) {
	t.Parallel()
	expects := make(chan string, 1)
	srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		expects <- r.Header.Get("Expect")
		w.WriteHeader(http.StatusForbidden)
	})
	c := socketClient(t, srv.URL)
	for range 10 { // net/http may give a response before it tells that it waits, which then says nothing
		_, err := c.Notes.Create(socketContext(t), socketParams(2<<20))
		require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
		assert.Equal(t, "100-continue", <-expects)
	}
}

// A call runs code of the caller: the transport, the source of the audio, hooks and more. If that code panics or calls
// runtime.Goexit, the call does so too, in the goroutine that made it.
func TestPanics_OfTheCaller_ReachTheCallersGoroutine(t *testing.T) {
	t.Parallel()
	const size = 2 << 20 // large enough to be announced, and read in several parts
	drain := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	creating := func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return madeResponse(r, http.StatusCreated, socketNote(45)), err
	}
	for end, stop := range map[string]func(){"panic": func() { panic("synthetic") }, "Goexit": runtime.Goexit} {
		stopping := roundTripper(func(*http.Request) (*http.Response, error) { stop(); return nil, io.EOF })
		audio := createParams{Audio: clinicaldoc.AudioReaderAt("a.wav", stoppingAudio(stop), size)}
		for name, call := range map[string]func(t *testing.T){
			"RoundTripper": func(t *testing.T) {
				_, _ = clientOver(t, stopping).Notes.Create(t.Context(), socketParams(10))
			},
			"RoundTripper of a read": func(t *testing.T) {
				_, _ = clientOver(t, stopping).Notes.Get(t.Context(), 9)
			},
			"OnProgress": func(t *testing.T) {
				params := socketParams(size)
				params.OnProgress = func(sent, _ int64) {
					if sent > 0 {
						stop()
					}
				}
				_, _ = socketClient(t, socketHandler(t, drain).URL).Notes.Create(socketContext(t), params)
			},
			"source over HTTP/1.1": func(t *testing.T) {
				_, _ = socketClient(t, socketHandler(t, drain).URL).Notes.Create(socketContext(t), audio)
			},
			"source over HTTP/2": func(t *testing.T) {
				ctx := socketContext(t)
				defer func() { assert.NoError(t, ctx.Err(), "nothing else ends the request") }()
				// The stall timeout would end the request too, so it is longer than the test.
				_, _ = h2Client(t, drain, clinicaldoc.WithStallTimeout(time.Hour)).Notes.Create(ctx, audio)
			},
			"observer": func(t *testing.T) {
				observer := onAttempt(func(context.Context, clinicaldoc.Attempt) { stop() })
				_, _ = clientOver(t, roundTripper(creating), observer).Notes.Create(t.Context(), socketParams(10))
			},
			"limiter": func(t *testing.T) {
				limiter := clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { stop(); return nil }))
				_, _ = clientOver(t, roundTripper(creating), limiter).Notes.Create(t.Context(), socketParams(10))
			},
		} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				if end == "panic" {
					assert.PanicsWithValue(t, "synthetic", func() { call(t) })
				} else {
					assert.True(t, exits(func() { call(t) }))
				}
			})
		}
	}
}

// stoppingAudio is a recording that calls the function when its second part is read.
type stoppingAudio func()

func (stop stoppingAudio) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 {
		stop()
	}
	return syntheticAudio(64<<20).ReadAt(p, off)
}

func TestCreate_TransportReturnsNothing_IsUnknown(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]func(*http.Request) *http.Response{
		"no response": func(*http.Request) *http.Response { return nil },
		"no status":   func(r *http.Request) *http.Response { return madeResponse(r, 0, "") },
		"no body": func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusCreated, Request: r}
		},
	}, func(t *testing.T, response func(*http.Request) *http.Response) {
		var attempts atomic.Int32
		tr := roundTripper(func(r *http.Request) (*http.Response, error) {
			attempts.Add(1)
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			return response(r), nil
		})
		c := socketClient(t, "http://127.0.0.1:1", over(tr))
		params, started := socketParams(10), time.Now()
		_, err := c.Notes.Create(socketContext(t), params)
		requireUnknown(t, err, params, started)
		assert.EqualValues(t, 1, attempts.Load(), "it may have been carried out")
		_, err = c.Notes.Get(socketContext(t), 9)
		require.Error(t, err)
	})
}

func TestWithMaxResponseSize_Largest_Works(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, socketStatus(http.StatusOK, socketNote(9)))
	must(socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(math.MaxInt64)).Notes.Get(socketContext(t), 9))(t)
}

func TestStall_DrippingResponse_EndsTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			resp := madeResponse(r, http.StatusOK, "")
			resp.Body = io.NopCloser(&slowReader{text: strings.Repeat(" ", 100_000), pause: 59 * time.Second})
			return resp, nil
		}, once)
		start := time.Now()
		_, err := c.Notes.Get(t.Context(), 9)
		require.Error(t, err)
		assert.Contains(t, err.Error(), "too slowly")
		assert.Less(t, time.Since(start), 12*time.Minute)
	})
}

// All has left as far as can be seen here, and lies in buffers that the server empties at its own pace.
func TestStall_UploadInBuffers_HasMoreTime(t *testing.T) {
	t.Parallel()
	type test struct {
		size          int64
		respondsAfter time.Duration
		works         bool
	}
	// The stall timeout is a minute. 4 MiB in buffers, at 64 KiB a second, add 64 seconds.
	timedSubtests(t, map[string]test{
		"much, within its time": {4 << 20, 110 * time.Second, true},
		"much, and too late":    {4 << 20, 130 * time.Second, false},
		"little":                {1 << 10, 70 * time.Second, false},
	}, func(t *testing.T, tc test) {
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-time.After(tc.respondsAfter):
				return madeResponse(r, http.StatusCreated, socketNote(47)), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		_, err := c.Notes.Create(t.Context(), socketParams(tc.size))
		assert.Equal(t, tc.works, err == nil, err)
		assert.Equal(t, !tc.works, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
	})
}

// After the last byte, Create waits longer than the stall timeout, for what may still be in buffers. That time is
// bounded: it does not grow with the size of a recording that was sent immediately.
func TestStall_LargeUploadSentImmediately_EndsSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		})
		started := time.Now()
		_, err := c.Notes.Create(t.Context(), socketParams(32<<20))
		require.ErrorIs(t, err, clinicaldoc.ErrStalled)
		assert.Less(t, time.Since(started), 3*time.Minute)
	})
}

func TestInterimResponses_Endless_AreBounded(t *testing.T) {
	t.Parallel()
	srv := newRawServer(t, func(c *rawConn) {
		c.request()
		for {
			if _, err := io.WriteString(c.Conn, "HTTP/1.1 103 Early Hints\r\nLink: </synthetic>\r\n\r\n"); err != nil {
				return
			}
		}
	})
	params, started := socketParams(10), time.Now()
	_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
	requireUnknown(t, err, params, started)
	assert.Contains(t, err.Error(), "too many interim responses")
}

func TestInterimResponses_InsteadOf100_AreIgnored(t *testing.T) {
	t.Parallel()
	// A 103 comes where a 100 was asked for: the body follows when the transport has waited long enough.
	srv := newRawServer(t, func(c *rawConn) {
		r := c.head()
		c.send("HTTP/1.1 103 Early Hints\r\n\r\n")
		_, _ = io.Copy(io.Discard, r.Body)
		c.answer(http.StatusCreated, socketNote(48))
		c.untilClosed()
	})
	tr := socketTransport(t)
	tr.ExpectContinueTimeout = 50 * time.Millisecond
	must(socketClient(t, srv.URL, over(tr)).Notes.Create(socketContext(t), socketParams(2<<20)))(t)
}

func TestRateLimit_Reset_IsReadByItsMagnitude(t *testing.T) {
	t.Parallel()
	// The clock of synctest starts at midnight UTC, 1 January 2000: 946684800.
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	const longest = 31 * 24 * time.Hour // that is believed
	for want, values := range map[time.Time][]string{
		start.Add(time.Second):        {"1"},
		start.Add(40 * time.Second):   {"40", "946684840", "946684840000", "946684840000000", "946684840000000000"},
		start.Add(24 * time.Hour):     {"86400"},
		start.Add(longest):            {"2678400", "949363200"},
		start.Add(-100 * time.Second): {"946684700"},
		// passed long ago
		time.Unix(1e8, 0).UTC(): {"100000000", "100000000000", "100000000000000", "100000000000000000"},
		{}: {"2678401", "949363201", "949363201000", "99999999", "99999999999", "9223372036854775807",
			"9223372036854775808", "-5", "0", "", "soon", "40.5", "2000-01-01T00:00:40Z"},
	} {
		for _, value := range values {
			timedSubtest(t, value, func(t *testing.T) {
				_, client := newPolled(t, always(200, noteAt(7, stageComplete, 1), "X-RateLimit-Limit", "60",
					"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", value))
				var response clinicaldoc.Response
				must(client.Notes.Get(t.Context(), 7, clinicaldoc.WithResponse(&response)))(t)
				assert.Equal(t, clinicaldoc.RateLimit{Limit: 60, Remaining: 3, Reset: want}, response.RateLimit)
			})
		}
	}
}

func TestRateLimit_ResetInSeconds_CountsFromTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, always(200, noteAt(7, stageComplete, 1), "X-RateLimit-Reset", "40", "Date",
			"Sat, 01 Jan 2000 10:00:00 GMT"))
		var response clinicaldoc.Response
		must(client.Notes.Get(t.Context(), 7, clinicaldoc.WithResponse(&response)))(t)
		assert.Equal(t, time.Date(2000, 1, 1, 10, 0, 40, 0, time.UTC), response.RateLimit.Reset)
	})
}

func TestRequestID_IsTakenFromKnownHeaders(t *testing.T) {
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

func TestWithResponse_Failure_IsFilledIn(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/user", status: http.StatusTooManyRequests, response: `{"message":"m"}`,
			answerHeader: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "many"}},
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

func TestAttempt_JSON_HasItsErrorAsText(t *testing.T) {
	t.Parallel()
	answered := &clinicaldoc.Error{StatusCode: 422, Message: canary, Fields: map[string][]string{"name": {canary}},
		Operation: "Notes.Create", Method: "POST", Route: "/r"}
	attempt := clinicaldoc.Attempt{Operation: "Notes.Create", Method: "POST", Route: "/r", Number: 1, StatusCode: 422,
		Duration: time.Second, Err: answered}
	encoded := must(json.Marshal(attempt))(t)
	assert.JSONEq(t, `{
		"Operation": "Notes.Create", "Method": "POST", "Route": "/r", "ServerAddress": "", "ServerPort": 0, "Number": 1,
		"StatusCode": 422, "Duration": 1000000000, "RateLimitWait": 0, "RequestID": "", "ErrorType": "", "BytesSent": 0,
		"BytesReceived": 0, "RateLimitRemaining": 0, "OutcomeUnknown": false, "Err": "`+answered.Error()+`"
	}`, string(encoded))
	attempt.Err = errors.New(canary)
	encoded = must(json.Marshal(attempt))(t)
	assert.NotContains(t, string(encoded)+attempt.LogValue().String(), canary)
	attempt.Err = nil
	encoded = must(json.Marshal(&attempt))(t)
	assert.NotContains(t, string(encoded), `"Err"`)
}

// Logs and attempts contain nothing of a request or a response except what is listed here.
func TestLoggerAndHooks_ReportOnlyAllowedFields(t *testing.T) {
	t.Parallel()
	const patient = "47114711471147"
	var text, encoded strings.Builder
	var attempts []clinicaldoc.Attempt
	debug := &slog.HandlerOptions{Level: slog.LevelDebug}
	log := slog.New(slog.NewMultiHandler(slog.NewTextHandler(&text, debug), slog.NewJSONHandler(&encoded, debug)))
	client := serveWith(t, []clinicaldoc.Option{
		clinicaldoc.WithLogger(log),
		onAttempt(func(_ context.Context, a clinicaldoc.Attempt) { attempts = append(attempts, a) }),
	},
		call{method: "PUT", url: notesPath + "/7?q=" + canary, body: `{"name":"` + canary + `"}`,
			header:       map[string]string{"X-Custom": canary},
			response:     `{"id":7,"name":"` + canary + `","patient":{"id":` + patient + `,"name":"` + canary + `"}}`,
			answerHeader: map[string]string{"X-Request-Id": "req-9", "X-Debug": canary}},
		call{url: notesPath + "/7", status: http.StatusUnprocessableEntity,
			response: `{"message":"` + canary + `","errors":{"name":["` + canary + `"],"` + canary + ` x":[]}}`},
		call{url: notesPath + "/7", fail: &url.Error{Op: "Get", URL: "https://" + canary, Err: errors.New(canary)}},
		call{url: notesPath + "/7", response: `{"id":7,"name":` + canary + `}`,
			answerHeader: map[string]string{"X-Request-Id": "two words " + canary, "Content-Type": canary + " x"}},
		call{url: notesPath + "?cursor=" + canary + "&patient_id=" + patient + "&per_page=1",
			response: `[{"id":1,"name":"n","patient_id":` + patient + `},{"id":2,"name":"n","patient_id":` + patient + `}]`},
	)
	must(client.Notes.Update(t.Context(), 7, updateParams{Name: new(canary)}, clinicaldoc.WithQuery("q", canary),
		clinicaldoc.WithHeader("X-Custom", canary)))(t)
	for range 3 {
		_, err := client.Notes.Get(t.Context(), 7)
		require.Error(t, err)
	}
	must(client.Notes.List(t.Context(), listParams{PatientID: 47114711471147, PerPage: 1, Cursor: canary}))(t)

	require.Len(t, attempts, 5)
	for _, out := range []string{text.String(), encoded.String(), fmt.Sprintf("%+v", attempts)} {
		assertSilent(t, out, "")
		assert.NotContains(t, out, patient)
		assert.NotContains(t, out, testToken)
		assert.Contains(t, out, "req-9")
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	require.Len(t, lines, 6)
	assert.Contains(t, lines[0], "level=DEBUG")
	assert.Contains(t, lines[1], "level=WARN")
	assert.Contains(t, lines[1], "fields: name]")
	assert.Contains(t, lines[2], "level=WARN")
	assert.Contains(t, lines[5], "ignored the requested page size")
	allowed := []string{"time", "level", "msg", "operation", "method", "route", "attempt", "status", "duration",
		"request_id", "bytes_sent", "bytes_received", "error", "asked", "rows"}
	for line := range strings.Lines(encoded.String()) {
		assert.Subset(t, allowed, keys(t, line))
	}
}

// echo knows every note whose id is even.
type echo struct{}

func (echo) RoundTrip(r *http.Request) (*http.Response, error) {
	var body string
	id, status := path.Base(strings.TrimSuffix(r.URL.Path, "/sign")), http.StatusOK
	switch {
	case strings.ContainsAny(id[len(id)-1:], "13579"):
		status, body = http.StatusNotFound, `{"message":"no note `+id+`"}`
	case r.Method == http.MethodDelete:
		body = `{"message":"deleted ` + id + `"}`
	default:
		body = `{"id":` + id + `,"name":"note ` + id + `","transcription":"of ` + id + `"}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"X-Request-Id": {"request-" + id}},
		Body: io.NopCloser(strings.NewReader(body))}, nil
}

// Calls at the same time do not share anything, although the client uses the buffers of responses again.
func TestClient_ManyCalls_DoNotMixResponses(t *testing.T) {
	t.Parallel()
	client := must(clinicaldoc.NewClient("https://api.clinic.test", "synthetic", over(echo{})))(t)
	each(8, 800, func(i int) {
		id := int64(i + 1)
		var response clinicaldoc.Response
		deleted, err := client.Notes.Delete(t.Context(), id, clinicaldoc.WithResponse(&response))
		assert.Equal(t, fmt.Sprintf("request-%d", id), response.RequestID)
		if id%2 == 1 {
			assert.ErrorContains(t, err, fmt.Sprintf("request-%d", id))
			return
		}
		if assert.NoError(t, err) {
			assert.Equal(t, fmt.Sprintf("deleted %d", id), deleted.Message)
		}
		for _, call := range []func() (*clinicaldoc.ProgressNote, error){
			func() (*clinicaldoc.ProgressNote, error) { return client.Notes.Get(t.Context(), id) },
			func() (*clinicaldoc.ProgressNote, error) { return client.Notes.Sign(t.Context(), id) },
			func() (*clinicaldoc.ProgressNote, error) {
				return client.Notes.Update(t.Context(), id, updateParams{Name: new("synthetic")})
			},
		} {
			note, err := call()
			if assert.NoError(t, err) {
				assert.Equal(t, fmt.Sprintf("note %d of %d", id, id), note.Name+" "+note.Transcription)
			}
		}
	})
}

// dumping shows each request before it sends it, as debugging transports and recorders do.
type dumping struct {
	next   http.RoundTripper
	bodies bool
}

func (d dumping) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := httputil.DumpRequestOut(r, d.bodies); err != nil {
		return nil, err
	}
	return d.next.RoundTrip(r)
}

// A transport may dump each request before it sends it, as debugging transports and recorders do. The dump reports a
// connection that leads nowhere, and reads the body if it includes bodies. A create is sent only once, so it must not
// take the dump for its sending.
func TestTransport_DumpsTheRequest_IsNotItsSending(t *testing.T) {
	t.Parallel()
	for _, bodies := range []bool{true, false} {
		for _, size := range []int64{100, 100 << 10, 2 << 20} {
			var sent atomic.Int64
			server := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				sent.Store(n)
				_, _ = io.WriteString(w, socketNote(7))
			})
			client := socketClient(t, server.URL, over(dumping{socketTransport(t), bodies}), once)
			for range 2 { // the first create has a new connection, the second a used one
				must(client.Notes.Create(socketContext(t), socketParams(size)))(t)
				assert.Greater(t, sent.Load(), size)
				must(client.Notes.Update(socketContext(t), 7, updateParams{Name: new("synthetic")}))(t)
				must(client.Notes.Get(socketContext(t), 7))(t)
			}
		}
	}
}

// A request whose connection was idle for too long is dumped once more, and sent on another.
func TestTransport_DumpsARequestSentAgain_Works(t *testing.T) {
	t.Parallel()
	for _, bodies := range []bool{true, false} {
		var sent []byte
		client := clientOver(t, dumping{idleThenFresh(t, &sent), bodies})
		require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/imports", nil, nil))
		must(client.Notes.Create(endsAfter(t, 5*time.Second), socketParams(100)))(t)
		assert.Greater(t, len(sent), 100, "with bodies: %t", bodies)
	}
}

// idleThenFresh is a transport whose first connection for a write was idle for an hour, and whose second is fresh. It
// returns the body that was sent on the second.
func idleThenFresh(t *testing.T, sent *[]byte) roundTripper {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	idle := []time.Duration{time.Hour, 0}
	return func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet { // shows that the server speaks HTTP/1
			return madeResponse(r, http.StatusOK, `{}`), nil
		}
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("")
		trace.GotConn(httptrace.GotConnInfo{Conn: ours, Reused: idle[0] > 0, IdleTime: idle[0]})
		if idle = idle[1:]; len(idle) > 0 {
			return nil, io.ErrClosedPipe
		}
		body, err := io.ReadAll(r.Body)
		*sent = body
		return madeResponse(r, http.StatusCreated, socketNote(7)), err
	}
}

// A server that switches protocols keeps the connection open, and says nothing more.
func TestResponse_StatusBelow200_IsAnError(t *testing.T) {
	t.Parallel()
	switching := func(c *rawConn) {
		c.request()
		c.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: synthetic\r\nConnection: Upgrade\r\n\r\n")
		c.untilClosed()
	}
	storage := newRawServer(t, switching)
	srv := newRawServer(t, switching, switching, func(c *rawConn) {
		c.request()
		c.answer(http.StatusOK, `{"url":"`+storage.URL+`/recording"}`)
	})
	client := socketClient(t, srv.URL, once)
	_, getErr := client.Notes.Get(socketContext(t), 7)
	_, createErr := client.Notes.Create(socketContext(t), createParams{Name: "synthetic"})
	_, downloadErr := client.Notes.DownloadAudio(socketContext(t), 8, io.Discard, downloadParams{IgnoreSize: true})
	for _, err := range []error{getErr, createErr, downloadErr} {
		refused := requireAs[*clinicaldoc.Error](t, err)
		assert.Equal(t, http.StatusSwitchingProtocols, refused.StatusCode)
	}
	require.ErrorIs(t, createErr, clinicaldoc.ErrOutcomeUnknown)
}

// A server that refuses a request before it has read its body may take the body for the next request.
func TestUpdate_RefusedBody_IsNotTakenForARequest(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{`{"message":"refused"}`, ""} {
		for _, size := range []int{10, 5 << 10, 100 << 10} {
			serve := func(c *rawConn) { takeBodiesForRequests(c, refusal) }
			srv := newRawServer(t, slices.Repeat([]func(*rawConn){serve}, 6)...)
			tr := exchange.NewTransport()
			t.Cleanup(tr.CloseIdleConnections)
			client := socketClient(t, srv.URL, over(tr), once)
			for range 3 {
				_, err := client.Notes.Update(socketContext(t), 7, updateParams{Name: new(strings.Repeat("x", size))})
				require.ErrorIs(t, err, clinicaldoc.ErrValidation)
				note := must(client.Notes.Get(socketContext(t), 7))(t)
				assert.Equal(t, "of its own", note.Name)
			}
		}
	}
}

// takeBodiesForRequests refuses a PUT without its body, and takes whatever follows for another request.
func takeBodiesForRequests(c *rawConn, refusal string) {
	head := func() (string, error) {
		request, err := c.in.ReadString('\n')
		for line := request; err == nil && line != "\r\n"; {
			line, err = c.in.ReadString('\n')
		}
		return request, err
	}
	request, err := head()
	for ; err == nil && strings.HasPrefix(request, "GET"); request, err = head() {
		c.answer(http.StatusOK, `{"id":7,"name":"of its own","created_at":"2026-01-02T03:04:05Z"}`)
	}
	if err != nil {
		return
	}
	c.answer(http.StatusUnprocessableEntity, refusal)
	if _, err := head(); err == nil { // the body, and behind it what another request has sent
		c.answer(http.StatusOK, `{"id":7,"name":"of another request","created_at":"2026-01-02T03:04:05Z"}`)
	}
}

func TestClient_ShortLived_KeepsConnections(t *testing.T) {
	t.Parallel()
	var connections sync.Map // that carried a request, by the client's address
	server := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		connections.Store(r.RemoteAddr, true)
		if r.URL.Path != "/v1/progress-notes/8" {
			http.Redirect(w, r, "/v1/progress-notes/8", http.StatusFound)
			_, _ = w.Write(make([]byte, 20<<10))
			return
		}
		_, _ = io.WriteString(w, `{"id":7,"name":"synthetic","created_at":"2026-01-02T03:04:05Z"}`)
	})
	for range 20 {
		client := must(clinicaldoc.NewClient(server.URL, testToken))(t)
		must(client.Notes.Get(socketContext(t), 7))(t)
	}
	assert.Equal(t, 1, countOf(&connections), "of short-lived clients, with a redirect each")
}

type ownTransportError struct{ text string }

func (e *ownTransportError) Error() string { return e.text }

func TestTransport_OfTheCallerFails_IsNamed(t *testing.T) {
	t.Parallel()
	failure := &ownTransportError{"secret"}
	client := clientOver(t, roundTripper(func(*http.Request) (*http.Response, error) { return nil, failure }),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	_, err := client.Users.Me(t.Context())
	require.ErrorContains(t, err, "the transport passed to WithHTTPClient failed")
	assert.NotContains(t, err.Error(), "secret")
	found := requireAs[*ownTransportError](t, err)
	assert.Same(t, failure, found)
}

func TestResponse_UnrequestedCompression_IsRejected(t *testing.T) {
	t.Parallel()
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete { // nothing, compressed, is nothing
			return madeResponse(r, http.StatusNoContent, "", "Content-Encoding", "br"), nil
		}
		return madeResponse(r, http.StatusOK, "\x8b\x02\x80", "Content-Encoding", "br"), nil
	}))
	_, err := client.Users.Me(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorContains(t, err, "compressed although that was not requested")
	_, err = client.Notes.Delete(t.Context(), 42)
	assert.NoError(t, err)
}
