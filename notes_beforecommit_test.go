package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// commitBodies are bodies of every kind that BeforeCommit has to hold up.
func commitBodies() map[string]func() *clinicaldoc.AudioSource {
	stream := func(size int64) func() *clinicaldoc.AudioSource {
		return func() *clinicaldoc.AudioSource {
			return clinicaldoc.AudioReader("a.wav", io.NewSectionReader(syntheticAudio(size), 0, size))
		}
	}
	known := func(size int64) func() *clinicaldoc.AudioSource {
		return func() *clinicaldoc.AudioSource {
			return clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size), size)
		}
	}
	return map[string]func() *clinicaldoc.AudioSource{
		"one byte":        known(1),
		"some":            known(100 << 10),
		"announced":       known(3 << 20),
		"short stream":    stream(1),
		"stream":          stream(3 << 20),
		"no audio at all": func() *clinicaldoc.AudioSource { return nil },
	}
}

// commitTail is what BeforeCommit withholds of a body with this type: the closing delimiter, from its line break on.
func commitTail(t *testing.T, contentType string) string {
	t.Helper()
	_, params, err := mime.ParseMediaType(contentType)
	assert.NoError(t, err)
	return "\r\n--" + params["boundary"] + "--\r\n"
}

// commitServer creates notes, over HTTP/1.1 or HTTP/2, and hands over what it got of each body and whether that was all.
func commitServer(t *testing.T, http2 bool) (client *clinicaldoc.Client, bodies <-chan commitBody) {
	t.Helper()
	received := make(chan commitBody, 8)
	handler := func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http2, r.ProtoMajor == 2)
		body, err := io.ReadAll(r.Body)
		received <- commitBody{body, commitTail(t, r.Header.Get("Content-Type")), err}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, socketNote(31))
	}
	if !http2 {
		return socketClient(t, socketHandler(t, handler).URL), received
	}
	srv := h2Server(t, handler)
	return socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(srv.Client())), received
}

type commitBody struct {
	got  []byte
	tail string // the closing delimiter
	err  error
}

// lacksTheEnd demands that not one byte of the closing delimiter has come.
func (b commitBody) lacksTheEnd(t *testing.T) {
	t.Helper()
	require.Error(t, b.err, "the server has the request whole")
	for n := range len(b.tail) {
		assert.False(t, bytes.HasSuffix(b.got, []byte(b.tail[:n+1])), "%d bytes of the closing delimiter have come", n+1)
	}
	assert.NotContains(t, string(b.got), b.tail)
}

func eachCommit(t *testing.T, test func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource)) {
	t.Helper()
	for name, audio := range commitBodies() {
		for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				t.Parallel()
				test(t, http2, audio())
			})
		}
	}
}

func TestBeforeCommitLetsTheLastBytesGo(t *testing.T) {
	t.Parallel()
	eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
		t.Helper()
		client, bodies := commitServer(t, http2)
		calls := 0
		_, err := client.Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{
			Name: "Synthetic", PatientID: 7, Audio: audio,
			BeforeCommit: func(ctx context.Context) error {
				calls++
				assert.Empty(t, bodies, "the server has the request whole already")
				return ctx.Err()
			},
		})
		require.NoError(t, err)
		assert.Equal(t, 1, calls)
		body := <-bodies
		require.NoError(t, body.err)
		assert.True(t, strings.HasSuffix(string(body.got), body.tail))
	})
}

func TestBeforeCommitRefuses(t *testing.T) {
	t.Parallel()
	eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
		t.Helper()
		client, bodies := commitServer(t, http2)
		refusal := errors.New("journal of a synthetic patient is full")
		calls := 0
		note, err := client.Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{
			Name: "Synthetic", PatientID: 7, Audio: audio,
			BeforeCommit: func(context.Context) error { calls++; return refusal },
		})
		assert.Nil(t, note)
		require.ErrorIs(t, err, refusal)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.NotContains(t, err.Error(), "synthetic patient")
		assert.Contains(t, err.Error(), "BeforeCommit")
		assert.Equal(t, 1, calls, "it is not retried")
		if len(bodies) > 0 { // a small one may never have left
			(<-bodies).lacksTheEnd(t)
		}
	})
}

func TestBeforeCommitWhileTheContextEnds(t *testing.T) {
	t.Parallel()
	cause := errors.New("synthetic: the program ends")
	for name, result := range map[string]func(context.Context) error{
		"and it returns nil":       func(context.Context) error { return nil },
		"and it returns the error": context.Cause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
				t.Helper()
				client, bodies := commitServer(t, http2)
				ctx, cancel := context.WithCancelCause(socketContext(t))
				defer cancel(nil)
				calls := 0
				_, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
					Name: "Synthetic", PatientID: 7, Audio: audio,
					BeforeCommit: func(attempt context.Context) error {
						calls++
						cancel(cause)
						<-attempt.Done()
						return result(attempt)
					},
				})
				require.ErrorIs(t, err, cause)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				assert.NotContains(t, err.Error(), "the program ends")
				assert.Equal(t, 1, calls)
				if len(bodies) > 0 {
					(<-bodies).lacksTheEnd(t)
				}
			})
		})
	}
}

func TestBeforeCommitThatPanics(t *testing.T) {
	t.Parallel()
	eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
		t.Helper()
		client, bodies := commitServer(t, http2)
		assert.PanicsWithValue(t, "synthetic", func() {
			_, _ = client.Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{
				Name: "Synthetic", PatientID: 7, Audio: audio, BeforeCommit: func(context.Context) error { panic("synthetic") },
			})
		})
		if len(bodies) > 0 {
			(<-bodies).lacksTheEnd(t)
		}
	})
}

func TestBeforeCommitThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
		t.Helper()
		client, bodies := commitServer(t, http2)
		assert.True(t, exits(func() {
			_, _ = client.Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{
				Name: "Synthetic", PatientID: 7, Audio: audio, BeforeCommit: func(context.Context) error { runtime.Goexit(); return nil },
			})
		}))
		if len(bodies) > 0 {
			(<-bodies).lacksTheEnd(t)
		}
	})
}

// exits reports whether f ends its goroutine by runtime.Goexit.
func exits(f func()) bool {
	exited := make(chan bool, 1)
	go func() {
		returned := false
		defer func() { exited <- !returned && recover() == nil }()
		f()
		returned = true
	}()
	return <-exited
}

func TestBeforeCommitHoldsTheDelimiterBackOnTheWire(t *testing.T) {
	t.Parallel()
	// The server waits for all that may come before the callback returns, and then for the end of the connection.
	for name, audio := range commitBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan commitBody, 1)
			srv := newRawServer(t, func(c *rawConn) {
				r := c.head()
				if r.Header.Get("Expect") != "" {
					c.send("HTTP/1.1 100 Continue\r\n\r\n")
				}
				body, err := io.ReadAll(r.Body)
				got <- commitBody{body, commitTail(t, r.Header.Get("Content-Type")), err}
				assert.Zero(t, c.in.Buffered())
			})
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{
				Name: "Synthetic", PatientID: 7, Audio: audio(), BeforeCommit: func(context.Context) error { return errors.New("synthetic") },
			})
			require.Error(t, err)
			body := <-got
			require.ErrorIs(t, body.err, io.ErrUnexpectedEOF)
			if len(body.got) > 0 {
				body.lacksTheEnd(t)
			}
		})
	}
	t.Run("frames", func(t *testing.T) {
		t.Parallel()
		got := make(chan []byte, 1)
		url, httpClient, _ := frameServer(t, func(c *h2Conn) {
			_, body, ended := c.request(true)
			assert.False(t, ended)
			got <- body
		})
		var boundary atomic.Value
		tr := httpClient.Transport
		httpClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			boundary.Store(r.Header.Get("Content-Type"))
			return tr.RoundTrip(r)
		})
		params := socketParams(200 << 10)
		params.BeforeCommit = func(context.Context) error { return errors.New("synthetic") }
		_, err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient)).Notes.Create(socketContext(t), params)
		require.Error(t, err)
		body := commitBody{<-got, commitTail(t, boundary.Load().(string)), io.ErrUnexpectedEOF}
		assert.Greater(t, len(body.got), 200<<10, "all the rest has come")
		body.lacksTheEnd(t)
	})
}

func TestBeforeCommitIsAskedForEveryAttempt(t *testing.T) {
	t.Parallel()
	t.Run("retries", func(t *testing.T) {
		t.Parallel()
		limited := socketStatus(http.StatusTooManyRequests, "{}")
		script := newSocketSteps(limited, limited, socketStatus(http.StatusCreated, socketNote(32)))
		calls := 0
		params := socketParams(2 << 20)
		params.BeforeCommit = func(context.Context) error { calls++; return nil }
		_, err := socketClient(t, socketHandler(t, script.ServeHTTP).URL).Notes.Create(socketContext(t), params)
		require.NoError(t, err)
		assert.Equal(t, 3, calls)
	})
	t.Run("refused at the second", func(t *testing.T) {
		t.Parallel()
		script := newSocketSteps(socketStatus(http.StatusTooManyRequests, "{}"))
		calls, refusal := 0, errors.New("synthetic")
		params := socketParams(2 << 20)
		params.BeforeCommit = func(context.Context) error {
			if calls++; calls == 2 {
				return refusal
			}
			return nil
		}
		_, err := socketClient(t, socketHandler(t, script.ServeHTTP).URL).Notes.Create(socketContext(t), params)
		require.ErrorIs(t, err, refusal)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, 2, calls)
	})
	t.Run("announcing is refused", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t,
			func(c *rawConn) { c.head(); c.answer(http.StatusExpectationFailed, ""); c.untilClosed() },
			func(c *rawConn) { c.request(); c.answer(http.StatusCreated, socketNote(33)); c.untilClosed() })
		calls := 0
		params := socketParams(2 << 20)
		params.BeforeCommit = func(context.Context) error { calls++; return nil }
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
		require.NoError(t, err)
		assert.Equal(t, 1, calls, "nothing was left to commit when it was refused")
	})
}

func TestBeforeCommitWhileTheServerResponds(t *testing.T) {
	t.Parallel()
	// The response comes before the callback has decided. A refusal of the caller's counts unless the server has acted.
	refusal := errors.New("synthetic")
	for status, want := range map[int]error{
		http.StatusTooManyRequests: refusal, http.StatusRequestEntityTooLarge: refusal, http.StatusBadGateway: refusal, http.StatusCreated: nil,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			inCallback, responded := make(chan struct{}), make(chan struct{})
			calls := 0
			tr := roundTripper(func(r *http.Request) (*http.Response, error) {
				go func() { _, _ = io.Copy(io.Discard, r.Body) }()
				<-inCallback
				defer close(responded)
				return madeResponse(r, status, socketNote(34)), nil
			})
			params := socketParams(10)
			params.BeforeCommit = func(context.Context) error {
				calls++
				close(inCallback)
				<-responded
				return refusal
			}
			_, err := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).Notes.Create(socketContext(t), params)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			assert.Equal(t, 1, calls)
		})
	}
}

func TestBeforeCommitIsNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
			return madeResponse(r, http.StatusCreated, socketNote(35)), nil
		})
		params := socketParams(100)
		params.BeforeCommit = func(context.Context) error { time.Sleep(time.Hour); return nil }
		_, err := c.Notes.Create(t.Context(), params)
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestBeforeCommitIsFollowedByTheUsualPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The time that the callback took is none that the server needs.
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		var committed time.Time
		params := socketParams(100)
		params.BeforeCommit = func(context.Context) error { time.Sleep(time.Hour); committed = time.Now(); return nil }
		_, err := c.Notes.Create(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Less(t, time.Since(committed), 62*time.Second)
	})
}
