package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
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
)

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

func TestCreateThroughATransportThatRetries(t *testing.T) {
	t.Parallel()
	ends := map[string]http.HandlerFunc{
		"502":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{"library": retryingLibrary, "own": retrying} {
		for protocol, serve := range map[string]func(*testing.T, http.HandlerFunc) *httptest.Server{"HTTP/1.1": socketHandler, "HTTP/2": h2Server} {
			for end, answer := range ends {
				for what, size := range map[string]int64{"small": 100, "announced": 2 << 20} {
					t.Run(strings.Join([]string{name, protocol, end, what}, " "), func(t *testing.T) {
						t.Parallel()
						var notes atomic.Int32
						srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
							if _, err := io.Copy(io.Discard, r.Body); err == nil {
								notes.Add(1)
							}
							answer(w, r)
						})
						c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: wrap(srv.Client().Transport)}))
						params, started := socketParams(size), time.Now()
						_, err := c.Notes.Create(socketContext(t), params)
						requireUnknown(t, err, params, started)
						assert.EqualValues(t, 1, notes.Load(), "one call, one note")
					})
				}
			}
		}
	}
}

func TestReadsThroughATransportThatRetries(t *testing.T) {
	t.Parallel()
	script := newSocketSteps(socketStatus(http.StatusBadGateway, ""), socketStatus(http.StatusOK, socketNote(9)))
	srv := socketHandler(t, script.ServeHTTP)
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: retrying(socketTransport(t))}), once)
	_, err := c.Notes.Get(socketContext(t), 9)
	require.NoError(t, err, "what may be sent twice, a transport may send twice")
}

func TestDoWithoutABodyIsNotRepeatedByNetHTTP(t *testing.T) {
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
	err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient), once).Do(socketContext(t), http.MethodPost, "/v1/synthetic", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, received.Load())
}

func TestCreateThatHTTP2Refuses(t *testing.T) {
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
				note, err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient)).Notes.Create(socketContext(t), params)
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

func TestParallelUploadsKeepTheirHTTP2Connection(t *testing.T) {
	t.Parallel()
	const parallel, size = 50, 1<<20 + 1
	var connections atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		assert.Greater(t, n, int64(size))
		socketStatus(http.StatusCreated, socketNote(42))(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(srv.Client()), once)
	_, err := c.Notes.Create(socketContext(t), socketParams(size))
	require.NoError(t, err)
	before := connections.Load()
	failures := make(chan error, parallel)
	for range parallel {
		go func() {
			_, err := c.Notes.Create(socketContext(t), socketParams(size))
			failures <- err
		}()
	}
	for range parallel {
		require.NoError(t, <-failures)
	}
	assert.Equal(t, before, connections.Load(), "an upload gives its connection back")
}

func TestConnectionOfARefusedUploadIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	// Some servers take what is left of the upload for the next request.
	for name, body := range map[string]string{"with a body": `{"message":"synthetic"}`, "without": ""} {
		for what, size := range map[string]int64{"small": 10, "larger": 200 << 10, "announced": 2 << 20} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				srv := newRawServer(t,
					func(c *rawConn) {
						r := c.head()
						if r.Header.Get("Expect") != "" {
							c.send("HTTP/1.1 100 Continue\r\n\r\n")
						}
						_, _ = io.CopyN(io.Discard, r.Body, 5)
						c.answer(http.StatusRequestEntityTooLarge, body)
						c.untilClosed()
					},
					func(c *rawConn) { c.request(); c.answer(http.StatusOK, socketNote(9)); c.untilClosed() })
				c := socketClient(t, srv.URL)
				_, err := c.Notes.Create(socketContext(t), socketParams(size))
				require.ErrorIs(t, err, clinicaldoc.ErrTooLarge)
				_, err = c.Notes.Get(socketContext(t), 9)
				require.NoError(t, err)
				assert.EqualValues(t, 2, srv.accepted.Load())
			})
		}
	}
}

func TestConnectionOfARefusedUploadIsNotClosedUnderAnother(t *testing.T) {
	t.Parallel()
	// Only one connection is allowed, so that the next request waits for it and gets it the moment it is free.
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
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
	var all sync.WaitGroup
	var created atomic.Int32
	for i := range 40 {
		all.Go(func() {
			var opts []clinicaldoc.CallOption
			if i%2 == 0 {
				opts = append(opts, clinicaldoc.WithQuery("refuse", "1"))
			}
			_, err := c.Notes.Create(socketContext(t), socketParams(100), opts...)
			assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "it was cut off by the refusal of another") //nolint:testifylint // in a goroutine
			if err == nil {
				created.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, notes.Load(), created.Load())
}

func TestUploadsAreNotAnnouncedWhereThatIsIgnored(t *testing.T) {
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
	c := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
	for range 3 {
		_, err := c.Notes.Create(socketContext(t), socketParams(2<<20))
		require.NoError(t, err)
	}
	srv.wait()
	assert.Equal(t, []string{"100-continue", "", ""}, expects)
}

func TestUploadsAreAnnouncedWhereThatIsHeeded(t *testing.T) {
	t.Parallel()
	srv, forms := formServer(t)
	c := socketClient(t, srv.URL)
	for range 2 {
		_, err := c.Notes.Create(socketContext(t), socketParams(2<<20))
		require.NoError(t, err)
		assert.Equal(t, "100-continue", (<-forms).expect)
	}
}

func TestPanicsOfTheCallersComeOutInTheCallersGoroutine(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	drain := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
		}
		return madeResponse(r, http.StatusCreated, socketNote(45)), nil
	})
	for end, stop := range map[string]func(){"panic": func() { panic("synthetic") }, "Goexit": runtime.Goexit} {
		for name, create := range map[string]func(t *testing.T){
			"RoundTripper": func(t *testing.T) {
				tr := roundTripper(func(*http.Request) (*http.Response, error) { stop(); return nil, io.EOF })
				_, _ = socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).Notes.Create(socketContext(t), socketParams(10))
			},
			"RoundTripper of a read": func(t *testing.T) {
				tr := roundTripper(func(*http.Request) (*http.Response, error) { stop(); return nil, io.EOF })
				_, _ = socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).Notes.Get(socketContext(t), 9)
			},
			"OnProgress": func(t *testing.T) {
				params := socketParams(size)
				params.OnProgress = func(sent, _ int64) {
					if sent > 0 {
						stop()
					}
				}
				srv := socketHandler(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				_, _ = socketClient(t, srv.URL).Notes.Create(socketContext(t), params)
			},
			"source over HTTP/1.1": func(t *testing.T) {
				srv := socketHandler(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				_, _ = socketClient(t, srv.URL).Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReaderAt("a.wav", endingAudio(stop), size)})
			},
			"source over HTTP/2": func(t *testing.T) {
				srv := h2Server(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				_, _ = socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(srv.Client())).
					Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReaderAt("a.wav", endingAudio(stop), size)})
			},
			"observer": func(t *testing.T) {
				c := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: drain}),
					clinicaldoc.WithObserver(func(context.Context, clinicaldoc.Attempt) { stop() }))
				_, _ = c.Notes.Create(socketContext(t), socketParams(10))
			},
			"limiter": func(t *testing.T) {
				c := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: drain}),
					clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { stop(); return nil })))
				_, _ = c.Notes.Create(socketContext(t), socketParams(10))
			},
		} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				if end == "panic" {
					assert.PanicsWithValue(t, "synthetic", func() { create(t) })
				} else {
					assert.True(t, exits(func() { create(t) }))
				}
			})
		}
	}
}

// endingAudio is a recording whose second part never comes.
type endingAudio func()

func (stop endingAudio) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 {
		stop()
	}
	return syntheticAudio(64<<20).ReadAt(p, off)
}

func TestTransportsThatReturnNothing(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]func(*http.Request) *http.Response{
		"no response": func(*http.Request) *http.Response { return nil },
		"no status":   func(r *http.Request) *http.Response { return madeResponse(r, 0, "") },
		"no body": func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusCreated, Request: r}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var attempts atomic.Int32
			tr := roundTripper(func(r *http.Request) (*http.Response, error) {
				attempts.Add(1)
				if r.Body != nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				return response(r), nil
			})
			c := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}))
			params, started := socketParams(10), time.Now()
			_, err := c.Notes.Create(socketContext(t), params)
			requireUnknown(t, err, params, started)
			assert.EqualValues(t, 1, attempts.Load(), "it may have been carried out")
			_, err = c.Notes.Get(socketContext(t), 9)
			require.Error(t, err)
		})
	}
}

func TestStreamWhoseEndHasLeftIsWhole(t *testing.T) {
	t.Parallel()
	// Nothing but the end of file was not read: a server that goes by the closing delimiter has all it needs.
	var attempts atomic.Int32
	tr := roundTripper(func(r *http.Request) (*http.Response, error) {
		attempts.Add(1)
		tail := commitTail(t, r.Header.Get("Content-Type"))
		got, block := "", make([]byte, 1000)
		for !strings.HasSuffix(got, tail) {
			n, err := r.Body.Read(block)
			if !assert.NoError(t, err) { //nolint:testifylint // in the transport
				break
			}
			got += string(block[:n])
		}
		return nil, errors.New("synthetic")
	})
	_, err := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).
		Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader("a.wav", strings.NewReader("synthetic"))})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, attempts.Load())
}

func TestAudioComesFirst(t *testing.T) {
	t.Parallel()
	// A server that acts on what it has of an upload has neither name nor patient while the audio is on its way.
	var body string
	tr := roundTripper(func(r *http.Request) (*http.Response, error) {
		all, _ := io.ReadAll(r.Body)
		body = string(all)
		return madeResponse(r, http.StatusCreated, socketNote(46)), nil
	})
	_, err := socketClient(t, "http://127.0.0.1:1", clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).Notes.Create(socketContext(t), socketParams(10))
	require.NoError(t, err)
	file := strings.Index(body, `name="file"`)
	require.Positive(t, file)
	for _, field := range []string{`name="name"`, `name="patient_id"`, `name="prompt_id"`} {
		assert.Greater(t, strings.Index(body, field), file)
	}
}

func TestResponseSizeWithoutALimit(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, socketStatus(http.StatusOK, socketNote(9)))
	_, err := socketClient(t, srv.URL, clinicaldoc.WithMaxResponseSize(math.MaxInt64)).Notes.Get(socketContext(t), 9)
	require.NoError(t, err)
}

func TestStallTimeoutWithoutALimit(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, socketStatus(http.StatusCreated, socketNote(9)))
	_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(math.MaxInt64)).Notes.Create(socketContext(t), socketParams(100<<10))
	require.NoError(t, err)
}

func TestCauseOfTheCallersContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("synthetic: the program ends")
	for name, transport := range map[string]func(cancel func()) roundTripper{
		"before": func(cancel func()) roundTripper {
			cancel()
			return func(*http.Request) (*http.Response, error) { assert.Fail(t, "nothing may be sent"); return nil, nil }
		},
		"while it is sent": func(cancel func()) roundTripper {
			return func(r *http.Request) (*http.Response, error) {
				cancel()
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
		},
		"between attempts": func(cancel func()) roundTripper {
			return func(r *http.Request) (*http.Response, error) {
				time.AfterFunc(time.Second, cancel)
				return madeResponse(r, http.StatusBadGateway, "", "Retry-After", "10"), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c := timedClient(t, transport(func() { cancel(cause) }))
				_, err := c.Notes.Get(ctx, 9)
				require.ErrorIs(t, err, cause)
				require.ErrorIs(t, err, context.Canceled)
				assert.NotContains(t, err.Error(), "the program ends")
				assert.Equal(t, 1, strings.Count(err.Error(), context.Canceled.Error()), err)
			})
		})
	}
}

func TestTimeoutOfTheCallersHTTPClientIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := roundTripper(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
		c := timedClient(t, tr, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr, Timeout: 5 * time.Second}), once)
		start := time.Now()
		_, err := c.Notes.Get(t.Context(), 9)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), "Timeout of the http.Client")
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestResponseThatDripsIsGivenUp(t *testing.T) {
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

func TestUploadOnItsWayIsNoStall(t *testing.T) {
	t.Parallel()
	// All has left as far as can be seen here, and lies in buffers that the server empties at its own pace.
	for name, tc := range map[string]struct {
		size  int64
		after time.Duration
		works bool
	}{
		"much, within its time": {4 << 20, 110 * time.Second, true},
		"much, and too late":    {4 << 20, 130 * time.Second, false},
		"little":                {1 << 10, 70 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := timedClient(t, func(r *http.Request) (*http.Response, error) {
					_, _ = io.Copy(io.Discard, r.Body)
					select {
					case <-time.After(tc.after):
						return madeResponse(r, http.StatusCreated, socketNote(47)), nil
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				})
				_, err := c.Notes.Create(t.Context(), socketParams(tc.size))
				assert.Equal(t, tc.works, err == nil, err)
				assert.Equal(t, !tc.works, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
			})
		})
	}
}

func TestSlowUploadOnItsWayIsNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// It took a quarter of an hour to leave, and so may take that to arrive.
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			for block := make([]byte, 1000); ; time.Sleep(50 * time.Second) {
				if _, err := r.Body.Read(block); err != nil {
					break
				}
			}
			time.Sleep(10 * time.Minute)
			return madeResponse(r, http.StatusCreated, socketNote(47)), r.Context().Err()
		})
		_, err := c.Notes.Create(t.Context(), socketParams(20_000))
		require.NoError(t, err)
	})
}

func TestInterimResponsesAreBounded(t *testing.T) {
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
	assert.Contains(t, err.Error(), "interim responses without end")
}

func TestInterimResponseInsteadOf100(t *testing.T) {
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
	_, err := socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr})).Notes.Create(socketContext(t), socketParams(2<<20))
	require.NoError(t, err)
}

func TestNilCallOptionIsRefused(t *testing.T) {
	t.Parallel()
	_, httpClient := newScript(t)
	c := clientOn(t, httpClient)
	for _, e := range endpoints() {
		_, err := e.call(t.Context(), c, nil)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, e.operation)
	}
	require.ErrorIs(t, c.Do(t.Context(), http.MethodGet, "/v1/x", nil, nil, nil), clinicaldoc.ErrInvalidArgument)
}
