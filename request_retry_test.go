package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestCreateIsRetriedAfterARefusedDial(t *testing.T) {
	t.Parallel()
	script := newSocketSteps(socketStatus(http.StatusCreated, socketNote(11)))
	srv := socketHandler(t, script.ServeHTTP)
	var config net.ListenConfig
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refusing := ln.Addr().String()
	require.NoError(t, ln.Close())

	var dials atomic.Int32
	tr := socketTransport(t)
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) <= 2 {
			addr = refusing
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	var response clinicaldoc.Response
	note, err := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).
		Notes.Create(socketContext(t), socketParams(64), clinicaldoc.WithResponse(&response))
	require.NoError(t, err)
	assert.EqualValues(t, 11, note.ID)
	assert.Equal(t, 3, response.Attempts)
	assert.Len(t, script.requests(), 1)
}

func TestCreateThatNeverLeavesIsNotUnknown(t *testing.T) {
	t.Parallel()
	tr := socketTransport(t)
	tr.DialContext = func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	_, err := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).
		Notes.Create(socketContext(t), socketParams(64))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

// brokenConn fails its writes from a moment on, as a connection does that the peer reset while it was idle.
type brokenConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c brokenConn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return c.Conn.Write(p)
}

func TestCreateOnAReusedConnectionThatIsDead(t *testing.T) {
	t.Parallel()
	script := newSocketSteps(socketStatus(http.StatusOK, socketNote(5)), socketStatus(http.StatusCreated, socketNote(12)))
	srv := socketHandler(t, script.ServeHTTP)
	var broken atomic.Bool
	var dials atomic.Int32
	tr := socketTransport(t)
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if dials.Add(1) == 1 {
			return brokenConn{conn, &broken}, err
		}
		return conn, err
	}
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
	_, err := c.Notes.Get(socketContext(t), 5)
	require.NoError(t, err)
	broken.Store(true)
	note, err := c.Notes.Create(socketContext(t), socketParams(64))
	require.NoError(t, err)
	assert.EqualValues(t, 12, note.ID)
	assert.Equal(t, []string{"GET /v1/progress-notes/5", "POST /v1/progress-notes"}, script.requests())
}

func TestCreateOnAConnectionClosedWhileIdle(t *testing.T) {
	t.Parallel()
	srv := newRawServer(t, func(c *rawConn) {
		c.request()
		c.answer(http.StatusOK, socketNote(5))
	}, func(c *rawConn) {
		c.request()
		c.answer(http.StatusCreated, socketNote(12))
		c.untilClosed()
	})
	// net/http closes its end when it has seen the close, and takes the connection for nothing more from then on.
	noticed := make(chan struct{}, 2)
	tr := socketTransport(t)
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return closeNoticed{conn, noticed}, err
	}
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}), once)
	_, err := c.Notes.Get(socketContext(t), 5)
	require.NoError(t, err)
	<-noticed
	note, err := c.Notes.Create(socketContext(t), socketParams(64))
	require.NoError(t, err)
	assert.EqualValues(t, 12, note.ID)
	assert.EqualValues(t, 2, srv.accepted.Load())
}

type closeNoticed struct {
	net.Conn
	noticed chan<- struct{}
}

func (c closeNoticed) Close() error {
	c.noticed <- struct{}{}
	return c.Conn.Close()
}

const cutSize = 16 << 20 // more than the sockets' buffers hold, so that the end of it cannot have left

func cutUpload(c *rawConn) {
	r := c.head()
	if r.Header.Get("Expect") != "" {
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
	}
	_, _ = io.CopyN(io.Discard, r.Body, 64<<10)
	resetConn(c.Conn)
}

func TestCreateCutWithinTheBodyIsRetriedOnce(t *testing.T) {
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
		note, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
		require.NoError(t, err)
		assert.EqualValues(t, 13, note.ID)
		assert.Greater(t, size.Load(), int64(cutSize))
	})
	t.Run("and again", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, cutUpload, cutUpload) // a third connection fails the test
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
		require.Error(t, err)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Contains(t, err.Error(), "within the upload")
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

func TestCreateWhoseResponseIsLost(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rawConn){
		"reset":                func(c *rawConn) { resetConn(c.Conn) },
		"closed":               func(*rawConn) {},
		"cut status line":      func(c *rawConn) { c.send("HTTP/1.1 20") },
		"not HTTP":             func(c *rawConn) { c.send("SSH-2.0-synthetic\r\n\r\n") },
		"cut body":             func(c *rawConn) { c.send("HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"id\":1") },
		"cut chunked body":     func(c *rawConn) { c.send("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n") },
		"cut body, no retries": func(c *rawConn) { c.send("HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"id\":1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newRawServer(t, func(c *rawConn) {
				c.request()
				end(c)
			})
			params, started := socketParams(64), time.Now()
			var opts []clinicaldoc.CallOption
			if name == "cut body, no retries" {
				opts = append(opts, clinicaldoc.WithoutRetry())
			}
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params, opts...)
			requireUnknown(t, err, params, started)
			assert.EqualValues(t, 1, srv.accepted.Load())
		})
	}
}

func TestCreateByStatus(t *testing.T) {
	t.Parallel()
	type outcome int
	const (
		refused outcome = iota
		unknown
	)
	for _, tc := range []struct {
		code int
		want outcome
		is   error
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
		{http.StatusRequestTimeout, refused, nil},
		{http.StatusConflict, refused, clinicaldoc.ErrConflict},
		{http.StatusRequestEntityTooLarge, refused, clinicaldoc.ErrTooLarge},
		{http.StatusUnprocessableEntity, refused, clinicaldoc.ErrValidation},
	} {
		t.Run(fmt.Sprint(tc.code), func(t *testing.T) {
			t.Parallel()
			script := newSocketSteps(socketStatus(tc.code, `{"message":"synthetic"}`, "Location", "/v1/elsewhere", "Retry-After", "0"))
			srv := socketHandler(t, script.ServeHTTP)
			params, started := socketParams(64), time.Now()
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
			var answered *clinicaldoc.Error
			require.ErrorAs(t, err, &answered)
			assert.Equal(t, tc.code, answered.StatusCode)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			if tc.want == unknown {
				requireUnknown(t, err, params, started)
			} else {
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			}
			assert.Equal(t, []string{"POST /v1/progress-notes"}, script.requests())
		})
	}
}

func TestCreateWhoseResponseIsNoNote(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"HTML":       socketStatus(http.StatusOK, "<html>synthetic</html>", "Content-Type", "text/html"),
		"empty":      socketStatus(http.StatusCreated, ""),
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"object":     socketStatus(http.StatusOK, "{}"),
		"list":       socketStatus(http.StatusOK, "[]"),
		"id 0":       socketStatus(http.StatusOK, `{"id":0,"name":"Synthetic"}`),
		"half":       socketStatus(http.StatusOK, `{"id":1,"name":"Syn`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := newSocketSteps(answer)
			srv := socketHandler(t, script.ServeHTTP)
			params, started := socketParams(64), time.Now()
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
			requireUnknown(t, err, params, started)
			require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
			assert.Len(t, script.requests(), 1)
		})
	}
}

func TestCreateIsRetriedAfter429(t *testing.T) {
	t.Parallel()
	limited := socketStatus(http.StatusTooManyRequests, `{"message":"Too Many Attempts."}`, "Retry-After", "0")
	t.Run("then it works", func(t *testing.T) {
		t.Parallel()
		script := newSocketSteps(limited, limited, socketStatus(http.StatusCreated, socketNote(14)))
		srv := socketHandler(t, script.ServeHTTP)
		note, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), socketParams(1<<10))
		require.NoError(t, err)
		assert.EqualValues(t, 14, note.ID)
		assert.Len(t, script.requests(), 3)
	})
	t.Run("to the end", func(t *testing.T) {
		t.Parallel()
		script := newSocketSteps(limited)
		srv := socketHandler(t, script.ServeHTTP)
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), socketParams(1<<10))
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Len(t, script.requests(), 4)
	})
	t.Run("then the answer is lost", func(t *testing.T) {
		t.Parallel()
		script := newSocketSteps(limited, socketLost(t))
		srv := socketHandler(t, script.ServeHTTP)
		params, started := socketParams(1<<10), time.Now()
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
		requireUnknown(t, err, params, started)
		assert.Len(t, script.requests(), 2)
	})
}

func TestCreateThroughATransportWithoutTrace(t *testing.T) {
	t.Parallel()
	broken := errors.New("synthetic transport failure")
	for _, tc := range []struct {
		name     string
		attempts int32
		unknown  bool
		take     func(r *http.Request)
	}{
		{"whole body taken", 1, true, func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		{"exactly the announced bytes taken", 1, true, func(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, r.ContentLength) }},
		{"a byte of the closing delimiter taken", 1, true, func(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, r.ContentLength-67) }},
		{"all but the closing delimiter taken", 2, false, func(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, r.ContentLength-68) }},
		{"nothing taken", 2, false, func(*http.Request) {}},
		{"whole body taken, half a trace", 1, true, func(r *http.Request) {
			httptrace.ContextClientTrace(r.Context()).GetConn("127.0.0.1:1")
			_, _ = io.Copy(io.Discard, r.Body)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var attempts atomic.Int32
			tr := roundTripper(func(r *http.Request) (*http.Response, error) {
				attempts.Add(1)
				tc.take(r)
				return nil, broken
			})
			_, err := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).
				Notes.Create(socketContext(t), socketParams(100<<10))
			require.ErrorIs(t, err, broken)
			assert.Equal(t, tc.attempts, attempts.Load())
			assert.Equal(t, tc.unknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
		})
	}
}

func TestFailedAttemptGetsNoMoreOfItsBody(t *testing.T) {
	t.Parallel()
	// A transport may read on after it has failed. What it reads then must not complete a request that is being repeated.
	var attempts atomic.Int32
	var late atomic.Int64
	proceed, finished := make(chan struct{}), make(chan struct{})
	tr := roundTripper(func(r *http.Request) (*http.Response, error) {
		if attempts.Add(1) == 1 {
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			go func() {
				defer close(finished)
				<-proceed
				n, _ := io.Copy(io.Discard, r.Body)
				late.Store(n)
			}()
			return nil, errors.New("synthetic timeout")
		}
		close(proceed)
		<-finished
		_, _ = io.Copy(io.Discard, r.Body)
		return madeResponse(r, http.StatusCreated, "{}"), nil
	})
	c := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
	err := c.Do(socketContext(t), http.MethodPost, "/v1/synthetic", bytes.Repeat([]byte("x"), 1000), nil)
	require.NoError(t, err)
	assert.EqualValues(t, 2, attempts.Load())
	assert.Zero(t, late.Load())
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBytesThatComeTooLateGoNowhere(t *testing.T) {
	t.Parallel()
	// A read of the source is under way when the call ends as not sent: what it brings then would complete the request.
	ctx, cancel := context.WithCancel(socketContext(t))
	defer cancel()
	released, finished := make(chan struct{}), make(chan struct{})
	source := readerFunc(func(p []byte) (int, error) {
		cancel()
		<-released
		return copy(p, "synthetic"), io.EOF
	})
	tr := roundTripper(func(r *http.Request) (*http.Response, error) {
		defer close(finished)
		_, _ = r.Body.Read(make([]byte, 4<<10)) // what stands before the audio
		late, err := io.Copy(io.Discard, r.Body)
		assert.Zero(t, late)
		assert.Error(t, err)
		return nil, context.Canceled
	})
	c := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
	_, err := c.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Synthetic note", Audio: clinicaldoc.AudioReader("a.wav", source)})
	close(released)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	<-finished
}

func TestGetIsRetriedAfterTransientFailures(t *testing.T) {
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
	good := socketStatus(http.StatusOK, socketNote(9))
	for _, tc := range []struct {
		name     string
		first    http.HandlerFunc
		repeated bool
	}{
		{"reset", socketLost(t), true},
		{"truncated", cut("Content-Length: 400"), true},
		{"truncated chunks", cut("Transfer-Encoding: chunked"), true},
		{"408", socketStatus(http.StatusRequestTimeout, ""), true},
		{"425", socketStatus(http.StatusTooEarly, ""), true},
		{"429", socketStatus(http.StatusTooManyRequests, ""), true},
		{"500", socketStatus(http.StatusInternalServerError, ""), true},
		{"502", socketStatus(http.StatusBadGateway, ""), true},
		{"503", socketStatus(http.StatusServiceUnavailable, ""), true},
		{"504", socketStatus(http.StatusGatewayTimeout, ""), true},
		{"400", socketStatus(http.StatusBadRequest, ""), false},
		{"401", socketStatus(http.StatusUnauthorized, ""), false},
		{"403", socketStatus(http.StatusForbidden, ""), false},
		{"404", socketStatus(http.StatusNotFound, ""), false},
		{"409", socketStatus(http.StatusConflict, ""), false},
		{"422", socketStatus(http.StatusUnprocessableEntity, ""), false},
		{"501", socketStatus(http.StatusNotImplemented, ""), false},
		{"505", socketStatus(http.StatusHTTPVersionNotSupported, ""), false},
		{"200 that is no note", socketStatus(http.StatusOK, "{}"), false},
		{"200 that is another note", socketStatus(http.StatusOK, socketNote(10)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := newSocketSteps(tc.first, good)
			srv := socketHandler(t, script.ServeHTTP)
			note, err := socketClient(t, srv.URL).Notes.Get(socketContext(t), 9)
			if tc.repeated {
				require.NoError(t, err)
				assert.EqualValues(t, 9, note.ID)
				assert.Len(t, script.requests(), 2)
				return
			}
			require.Error(t, err)
			assert.Len(t, script.requests(), 1)
		})
	}
}

func TestFailureLeavesTheConnectionPoolAlone(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	hold := make(chan struct{})
	var waiting atomic.Int32
	srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/progress-notes/1": // held until all are connected, so that each has a connection of its own
			if waiting.Add(1) == 8 {
				close(hold)
			}
			<-hold
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
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
	ctx := socketContext(t)
	failures := make(chan error, 8)
	for range 8 {
		go func() {
			_, err := c.Notes.Get(ctx, 1)
			failures <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-failures)
	}
	before := connections.Load()
	require.EqualValues(t, 8, before)

	_, err := c.Notes.Get(ctx, 2) // fails four times
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.Notes.Get(cancelled, 3)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Notes.Get(ctx, 3)
	require.NoError(t, err)
	assert.Equal(t, before, connections.Load())
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	var protocol atomic.Int32
	srv := h2Server(t, func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(int32(r.ProtoMajor))
		if r.Method == http.MethodPost {
			form, err := readForm(r)
			assert.NoError(t, err)
			assert.Equal(t, syntheticAudio(size).bytes(), form.file)
			assert.Greater(t, form.length, int64(size))
		}
		socketStatus(http.StatusOK, socketNote(9))(w, r)
	})
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(srv.Client()))
	_, err := c.Notes.Create(socketContext(t), socketParams(size))
	require.NoError(t, err)
	assert.EqualValues(t, 2, protocol.Load())
	_, err = c.Notes.Get(socketContext(t), 9)
	require.NoError(t, err)

	t.Run("refused early", func(t *testing.T) {
		t.Parallel()
		refusing := h2Server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
		var sent int64
		c := socketClient(t, refusing.URL, clinicaldoc.WithHTTPClient(refusing.Client()),
			clinicaldoc.WithObserver(func(_ context.Context, a clinicaldoc.Attempt) { sent = a.BytesSent }))
		_, err := c.Notes.Create(socketContext(t), socketParams(size))
		require.ErrorIs(t, err, clinicaldoc.ErrTooLarge)
		assert.Zero(t, sent)
	})
	t.Run("stream reset after the whole request", func(t *testing.T) {
		t.Parallel()
		var requests atomic.Int32
		aborting := h2Server(t, func(_ http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		})
		_, err := socketClient(t, aborting.URL, clinicaldoc.WithHTTPClient(aborting.Client())).Notes.Create(socketContext(t), socketParams(100))
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.EqualValues(t, 1, requests.Load())
	})
}

func TestHTTP2RefusalsAreBounded(t *testing.T) {
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
