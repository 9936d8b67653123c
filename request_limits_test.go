package clinicaldoc_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestSocketAnswerSizeIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	padded := func(size int) string {
		note := socketNote(9)
		return note + strings.Repeat(" ", size-len(note))
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		block := []byte(strings.Repeat(" ", 32<<10))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, padded(64<<20))
		_ = z.Close()
	}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		fits   bool
	}{
		{"at the limit", sockStatus(http.StatusOK, padded(limit)), true},
		{"a byte beyond", sockStatus(http.StatusOK, padded(limit+1)), false},
		{"endless", endless, false},
		{"gzip bomb", bomb, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := newSockSteps(tc.answer)
			srv := socketHandler(t, script.ServeHTTP)
			var response clinicaldoc.Response
			_, err := socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(limit)).Notes.Get(socketContext(t), 9, clinicaldoc.WithResponse(&response))
			assert.LessOrEqual(t, len(response.Body), limit)
			assert.Len(t, script.requests(), 1, "asking again would bring the same")
			if tc.fits {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
			assert.Contains(t, err.Error(), "WithMaxResponseSize")
		})
	}
}

func TestSocketCreateWithAnOversizedAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, sockStatus(http.StatusCreated, socketNote(9)))
	_, err := socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(10)).Notes.Create(socketContext(t), socketParams(10))
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

func TestSocketErrorBodyIsCut(t *testing.T) {
	t.Parallel()
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		srv := socketHandler(t, sockStatus(http.StatusNotFound, `{"message":"synthetic"}`+strings.Repeat(" ", 1<<20)))
		var response clinicaldoc.Response
		_, err := socketClient(t, srv.URL).Notes.Get(socketContext(t), 9, clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
		assert.Len(t, response.Body, 64<<10)
	})
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, func(c *rawConn) {
			c.request()
			c.send("HTTP/1.1 404 Not Found\r\n\r\n")
			for block := strings.Repeat("x", 32<<10); ; {
				if _, err := io.WriteString(c.Conn, block); err != nil {
					return
				}
			}
		})
		_, err := socketClient(t, srv.URL).Notes.Get(socketContext(t), 9)
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	})
	t.Run("broken off", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, func(c *rawConn) {
			c.request()
			c.send("HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 500\r\nX-Request-Id: synthetic-1\r\n\r\n{\"mess")
		})
		_, err := socketClient(t, srv.URL).Notes.Get(socketContext(t), 9)
		require.ErrorIs(t, err, clinicaldoc.ErrValidation)
		assert.Contains(t, err.Error(), "synthetic-1")
	})
	t.Run("longer than a small limit", func(t *testing.T) {
		t.Parallel()
		srv := socketHandler(t, sockStatus(http.StatusNotFound, strings.Repeat("x", 1000)))
		var response clinicaldoc.Response
		_, err := socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(100)).Notes.Get(socketContext(t), 9, clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
		assert.Len(t, response.Body, 100)
	})
}

func TestSocketTruncatedAnswersToTheEnd(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"length": "Content-Length: 500", "chunks": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cut := func(c *rawConn) {
				c.request()
				c.send("HTTP/1.1 200 OK\r\n" + header + "\r\n\r\n5\r\n{\"id\"\r\n")
			}
			srv := newRawServer(t, cut, cut, cut, cut)
			_, err := socketClient(t, srv.URL).Notes.Get(socketContext(t), 9)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.EqualValues(t, 4, srv.accepted.Load())
		})
	}
}

func TestSocketHTTP2(t *testing.T) {
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
		sockStatus(http.StatusOK, socketNote(9))(w, r)
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

func TestSocketHTTP2RefusalsAreBounded(t *testing.T) {
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
