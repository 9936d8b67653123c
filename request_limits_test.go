package clinicaldoc_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestResponseSizeIsBounded(t *testing.T) {
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
		{"at the limit", socketStatus(http.StatusOK, padded(limit)), true},
		{"a byte beyond", socketStatus(http.StatusOK, padded(limit+1)), false},
		{"endless", endless, false},
		{"gzip bomb", bomb, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := newSocketSteps(tc.answer)
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

func TestCreateWithAnOversizedResponseIsUnknown(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, socketStatus(http.StatusCreated, socketNote(9)))
	_, err := socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(10)).Notes.Create(socketContext(t), socketParams(10))
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

func TestErrorBodyIsCut(t *testing.T) {
	t.Parallel()
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		srv := socketHandler(t, socketStatus(http.StatusNotFound, `{"message":"synthetic"}`+strings.Repeat(" ", 1<<20)))
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
		srv := socketHandler(t, socketStatus(http.StatusNotFound, strings.Repeat("x", 1000)))
		var response clinicaldoc.Response
		_, err := socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(100)).Notes.Get(socketContext(t), 9, clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
		assert.Len(t, response.Body, 100)
	})
}

func TestTruncatedResponsesToTheEnd(t *testing.T) {
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

func TestResponsesAreBoundedByDefault(t *testing.T) {
	t.Parallel()
	endless := func(status int) (int64, error) {
		body := new(endlessBody)
		client := fuzzClient(t, func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}, nil
		})
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

func TestDeepResponsesAreRefused(t *testing.T) {
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
	for depth, fits := range map[int]bool{10_000: true, 10_001: false} {
		var out any
		answer := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		err := fuzzClient(t, answerWith(http.StatusOK, "application/json", []byte(answer))).Do(t.Context(), http.MethodGet, "/v1/other", nil, &out)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	}
}

// The transport is the SDK's own, which no other test uses on sockets.
func TestHeadersAreBoundedByDefault(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{900 << 10: true, 1100 << 10: false} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range size >> 10 {
				w.Header().Add("X-Padding", strings.Repeat("x", 1<<10))
			}
			_, _ = io.WriteString(w, smallNote)
		}))
		t.Cleanup(srv.Close)
		client, err := clinicaldoc.NewClient(srv.URL, testToken, once)
		require.NoError(t, err)
		_, err = client.Notes.Get(t.Context(), 7)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "the response's header is too large")
	}
}

func TestStalledAttemptsEnd(t *testing.T) {
	t.Parallel()
	t.Run("no response", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
			_, err := c.Notes.Get(t.Context(), 9)
			require.Error(t, err)
			assert.Contains(t, err.Error(), "no byte moved for 1m0s")
			assert.Equal(t, time.Minute, time.Since(start))
		})
	})
	t.Run("a slow answer that moves", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				resp := madeResponse(r, http.StatusOK, "")
				resp.Body = io.NopCloser(&slowReader{text: socketNote(9), pause: 20 * time.Second})
				return resp, nil
			})
			_, err := c.Notes.Get(t.Context(), 9)
			require.NoError(t, err)
			assert.Greater(t, time.Since(start), 6*time.Minute)
		})
	})
	t.Run("a slow upload that moves", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				buffer := make([]byte, 1000)
				for {
					if _, err := r.Body.Read(buffer); err != nil {
						break
					}
					time.Sleep(50 * time.Second)
				}
				if r.Context().Err() != nil {
					return nil, r.Context().Err()
				}
				return madeResponse(r, http.StatusOK, socketNote(9)), nil
			})
			_, err := c.Notes.Create(t.Context(), socketParams(20_000))
			require.NoError(t, err)
		})
	})
	t.Run("a slow update that moves", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				for buffer := make([]byte, 30<<10); ; {
					if _, err := r.Body.Read(buffer); err != nil {
						break
					}
					time.Sleep(50 * time.Second)
				}
				if r.Context().Err() != nil {
					return nil, r.Context().Err()
				}
				return madeResponse(r, http.StatusOK, socketNote(9)), nil
			}, once)
			_, err := c.Notes.Update(t.Context(), 9, clinicaldoc.UpdateNoteParams{Analysis: new(strings.Repeat("x", 64<<10))})
			require.NoError(t, err)
		})
	})
}
