package clinicaldoctest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// onBoth runs a test on sockets and, in a bubble, on pipes.
func onBoth(t *testing.T, test func(t *testing.T, c caller)) {
	t.Helper()
	t.Run("sockets", func(t *testing.T) {
		t.Parallel()
		test(t, start(t))
	})
	t.Run("pipes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, start(t, clinicaldoctest.InProcess())) })
	})
}

func TestFault_TimesAndAfter_StrikeOnlyTheirRoute(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(502, "<h1>Bad Gateway</h1>").Times(2).After(1).WithHeader("Via", "test"))
	var statuses []int
	for range 5 {
		a := c.get("/user")
		statuses = append(statuses, a.StatusCode)
		if a.StatusCode == http.StatusBadGateway {
			assert.Equal(t, "<h1>Bad Gateway</h1>", a.text)
			assert.Equal(t, "test", a.Header.Get("Via"))
			assert.Equal(t, "text/html; charset=UTF-8", a.Header.Get("Content-Type"))
		}
		assert.Equal(t, http.StatusOK, c.get("/v1/progress-notes").StatusCode)
	}
	assert.Equal(t, []int{200, 502, 502, 200, 200}, statuses)

	c.srv.Inject("", clinicaldoctest.Answer(503, `{"message":"Service Unavailable"}`).Always())
	for range 3 {
		assert.Equal(t, "Service Unavailable", c.expect(http.StatusServiceUnavailable, http.MethodGet, "/v1/auth/tokens")["message"])
	}
	c.srv.ClearFaults()
	c.expect(http.StatusOK, http.MethodGet, "/user")
}

func TestInject_EachRoute_StrikesNoOther(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	routes := clinicaldoctest.Routes()[1:] // without the storage's
	require.NotContains(t, routes, clinicaldoctest.RouteAudio)
	for _, injected := range routes {
		c.srv.Inject(injected, clinicaldoctest.Answer(http.StatusTeapot, "").Always())
		for _, route := range routes {
			method, path, _ := strings.Cut(strings.ReplaceAll(route, "{id}", "1"), " ")
			isStruck := c.send(c.request(method, path, nil)).StatusCode == http.StatusTeapot
			assert.Equal(t, route == injected, isStruck, "a fault of %s, a request to %s", injected, route)
		}
		c.srv.ClearFaults()
	}
}

func TestFault_TwoInjected_StrikeInOrder(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(500, ""))
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(504, ""))
	assert.Equal(t, 500, c.get("/user").StatusCode)
	assert.Equal(t, 504, c.get("/user").StatusCode)
	assert.Equal(t, 200, c.get("/user").StatusCode)
	assert.Equal(t, "status=504", c.srv.Requests()[1].Fault)
}

func TestResetFault_EachKind_LosesTheResponse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault clinicaldoctest.Fault
		notes int
	}{
		"at once":       {clinicaldoctest.Reset(), 0},
		"after request": {clinicaldoctest.ResetAfterRequest(), 0},
		"after commit":  {clinicaldoctest.ResetAfterCommit(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, c caller) {
				t.Helper()
				c.srv.Inject(clinicaldoctest.RouteCreateNote, test.fault)
				_, err := c.try(c.createRequest(validForm()))
				require.Error(t, err)
				if name != "at once" { // there the client may still be writing, and see that fail
					require.True(t, exchange.Reset(err), "%v", err)
				}
				assert.Len(t, c.srv.Notes(), test.notes)
				assert.Zero(t, c.srv.Requests()[0].Status)
				assert.Equal(t, http.StatusCreated, c.create(validForm()).StatusCode, "the next one works")
			})
		})
	}
}

func TestTruncate_LengthOrChunked_CutsTheBody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault  clinicaldoctest.Fault
		length bool
	}{
		"with a length": {clinicaldoctest.Truncate(20), true},
		"chunked":       {clinicaldoctest.TruncateChunked(20), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, c caller) {
				t.Helper()
				c.srv.Inject(clinicaldoctest.RouteCreateNote, test.fault)
				a, err := c.try(c.createRequest(validForm()))
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Equal(t, http.StatusCreated, a.StatusCode)
				assert.Len(t, a.text, 20)
				assert.Equal(t, test.length, a.ContentLength > 20)
				assert.Len(t, c.srv.Notes(), 1, "the effect stays")
			})
		})
	}
}

func TestFault_DelayOrSlowBody_TakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, clinicaldoctest.InProcess())
		c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Delay(time.Hour))
		began := time.Now()
		size := len(c.get("/user").text)
		assert.Equal(t, time.Hour, time.Since(began))

		c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.SlowBody(10, time.Minute))
		began = time.Now()
		assert.Len(t, c.get("/user").text, size)
		// The client has the last piece before the pause that follows it.
		assert.Equal(t, time.Duration((size-1)/10)*time.Minute, time.Since(began))
	})
}

func TestClose_DuringDelay_EndsIt(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	c := caller{t, srv, srv.Token}
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(time.Hour))
	req := c.createRequest(validForm()) // its unread body keeps the server from seeing the connection's end
	failed := make(chan error)
	go func() {
		_, err := c.try(req)
		failed <- err
	}()
	require.Eventually(t, func() bool { return len(srv.Requests()) == 1 }, 5*time.Second, time.Millisecond)
	srv.Close()
	assert.Error(t, <-failed)
}

// A request to Handler has no connection that Close could close, so Close ends it in another way.
func TestClose_SilentRequestOfHandler_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Silent())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/user", nil)
		require.NoError(t, err)
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			srv.Handler().ServeHTTP(httptest.NewRecorder(), req)
		}()
		synctest.Wait()
		assert.Empty(t, ended, "it is silent")
		srv.Close()
		assert.Equal(t, http.ErrAbortHandler, <-ended)
	})
}

func TestClose_HandlerWithoutConnection_IsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithMiddleware(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_ = conn.Close()
				}
				<-release
			})
		}))
		c := caller{t, srv, srv.Token}
		_, err := c.try(c.request(http.MethodGet, "/user", nil))
		require.Error(t, err)
		closed := make(chan struct{})
		go func() {
			srv.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			assert.Fail(t, "a handler is still running")
		default:
		}
		close(release)
		<-closed
	})
}

func TestTooManyRequests_Create_IsRefusedWithHeaders(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(90*time.Second))
	a := c.create(validForm())
	assert.Equal(t, http.StatusTooManyRequests, a.StatusCode)
	assert.Equal(t, "90", a.Header.Get("Retry-After"))
	assert.Equal(t, "0", a.Header.Get("X-RateLimit-Remaining"))
	assert.Equal(t, strconv.FormatInt(noon.Add(90*time.Second).Unix(), 10), a.Header.Get("X-RateLimit-Reset"))
	assert.Equal(t, object{"message": "Too Many Attempts."}, a.object(t))
	assert.Empty(t, c.srv.Notes())
}

func TestThrottle_FaultOrVariant_CountsPerWindow(t *testing.T) {
	t.Parallel()
	byFault := start(t, clinicaldoctest.WithFrozenClock(noon))
	byFault.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Throttle(2, time.Minute))
	byVariant := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithVariant(clinicaldoctest.Variant{RateLimit: 2}))
	for _, c := range []caller{byFault, byVariant} {
		for window := range 2 {
			for _, remaining := range []string{"1", "0"} {
				a := c.get("/user")
				require.Equal(t, http.StatusOK, a.StatusCode, window)
				assert.Equal(t, "2", a.Header.Get("X-RateLimit-Limit"))
				assert.Equal(t, remaining, a.Header.Get("X-RateLimit-Remaining"))
				assert.Empty(t, a.Header.Get("Retry-After"))
			}
			c.srv.Advance(500 * time.Millisecond)
			refused := c.get("/user")
			assert.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
			assert.Equal(t, "60", refused.Header.Get("Retry-After"), "rounded up")
			assert.NotEmpty(t, refused.Header.Get("X-RateLimit-Reset"))
			c.srv.Advance(time.Minute)
		}
	}

	byVariant.get("/user")
	byVariant.as(byVariant.srv.AddToken(1, "second").Secret).get("/user")
	assert.Equal(t, http.StatusTooManyRequests, byVariant.get("/user").StatusCode, "a user's tokens share the limit")
	other := byVariant.as(byVariant.srv.AddUser(clinicaldoctest.User{}).Token)
	assert.Equal(t, http.StatusOK, other.get("/user").StatusCode)
}

func TestSilent_AnyTransport_SendsNothing(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]clinicaldoctest.Option{
		"sockets": nil, "TLS": {clinicaldoctest.WithTLS()}, "pipes": {clinicaldoctest.InProcess()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silence := func(c caller, req *http.Request, struck func() bool) {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					_, err := c.try(req.WithContext(ctx))
					ended <- err
				}()
				assert.Eventually(t, struck, 5*time.Second, time.Millisecond)
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled, "nothing but the client ends it")
			}
			c := start(t, opts...)
			c.get("/user") // so that there is a connection to go silent
			c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Silent())
			silence(c, c.request(http.MethodGet, "/user", nil), func() bool { return c.srv.Faults()[0].Spent })

			c = start(t, opts...)
			c.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Silent().CommitAfter(0))
			silence(c, c.createRequest(validForm()), func() bool { return len(c.srv.Created()) == 1 })
		})
	}
}

func TestSilent_ClientGoesAway_EndsTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan clinicaldoctest.Request, 1)
		observe := clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) { over <- r })
		c := start(t, clinicaldoctest.InProcess(), observe)
		c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Silent())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.try(c.request(http.MethodGet, "/user", nil).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Len(t, over, 1, "the server does not wait for a client that is gone")
	})
}

// A connection that became silent does not answer any further request. Over HTTP/2 that includes all requests on it,
// also those under way.
func TestSilent_LaterRequestsOnTheConnection_GetNoResponse(t *testing.T) {
	t.Parallel()
	served := make(chan clinicaldoctest.Request, 10)
	arrived := make(chan *http.Request)
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	c := start(t, clinicaldoctest.WithTLS(), clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) { served <- r }),
		clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/auth/tokens" {
					arrived <- r
					<-answer
				}
				next.ServeHTTP(w, r)
			})
		}))
	c.get("/user")
	<-served
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Silent())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	send := func(path string) {
		req := c.request(http.MethodGet, path, nil).WithContext(ctx) //nolint:contextcheck // it gets this one
		go func() {
			_, err := c.try(req)
			ended <- err
		}()
	}
	send("/v1/auth/tokens")
	first := <-arrived
	send("/user")
	require.Eventually(t, func() bool { return clinicaldoctest.IsSilent(first) }, 5*time.Second, time.Millisecond)
	release()
	assert.Equal(t, http.StatusOK, (<-served).Status, "the first was answered, after the second had silenced the connection")

	later, cancelLater := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelLater()
	_, err := c.try(c.request(http.MethodGet, "/v1/progress-notes", nil).WithContext(later))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Len(t, c.srv.Requests(), 3, "the later one never came")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled, "no response left")

	fresh := &http.Transport{TLSClientConfig: c.srv.Transport().(*http.Transport).TLSClientConfig.Clone(), ForceAttemptHTTP2: true}
	t.Cleanup(fresh.CloseIdleConnections)
	resp, err := fresh.RoundTrip(c.request(http.MethodGet, "/user", nil))
	require.NoError(t, err, "others are fine")
	require.NoError(t, resp.Body.Close())
}

// A Fault is a value without state, so several servers and tests can use the same one.
func TestFault_UsedByTwoServers_HasNoState(t *testing.T) {
	t.Parallel()
	throttle := clinicaldoctest.Throttle(1, time.Hour)
	for range 2 {
		c := start(t, clinicaldoctest.WithFrozenClock(noon))
		for range 2 {
			c.srv.Inject(clinicaldoctest.RouteMe, throttle)
			assert.Equal(t, http.StatusOK, c.get("/user").StatusCode)
			assert.Equal(t, http.StatusTooManyRequests, c.get("/user").StatusCode)
			c.srv.ClearFaults()
		}
	}
}

// Over HTTP/2 too a reset is of the connection, not of one request on it.
func TestResetFault_OverTLS_EndsTheConnection(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"immediately":   clinicaldoctest.Reset(),
		"after request": clinicaldoctest.ResetAfterRequest(),
		"after commit":  clinicaldoctest.ResetAfterCommit(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, clinicaldoctest.WithTLS())
			reused := func(req *http.Request) (answer, bool, error) {
				var info httptrace.GotConnInfo
				trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { info = got }}
				a, err := c.try(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
				return a, info.Reused, err
			}
			assert.Equal(t, 2, c.get("/user").ProtoMajor)
			c.srv.Inject(clinicaldoctest.RouteCreateNote, fault)
			_, again, err := reused(c.createRequest(validForm()))
			require.Error(t, err)
			assert.True(t, again)
			_, again, err = reused(c.request(http.MethodGet, "/user", nil))
			require.NoError(t, err)
			assert.False(t, again, "the connection is gone")
		})
	}
}

// The headers of a fault replace those of the server.
func TestFault_Headers_ReplaceTheServers(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{})
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(502, "bad gateway").WithHeader("Content-Type", "text/plain").
		WithHeader("X-Twice", "1").WithHeader("X-Twice", "2"))
	a := c.get("/user")
	assert.Equal(t, "text/plain", a.Header.Get("Content-Type"))
	assert.Equal(t, []string{"1", "2"}, a.Header.Values("X-Twice"))
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.TooManyRequests(time.Minute).WithHeader("Retry-After", "soon"))
	assert.Equal(t, "soon", c.get("/user").Header.Get("Retry-After"))
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Delay(0).WithHeader("Cache-Control", "max-age=60").WithHeader("Date", ""))
	a = c.get("/user")
	assert.Equal(t, "max-age=60", a.Header.Get("Cache-Control"))
	assert.NotContains(t, a.Header, "Date", "an empty header is not sent")
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusOK, "{}").WithHeader("X-Request-Id", ""))
	assert.NotContains(t, c.get("/user").Header, "X-Request-Id", "an empty header is not sent")
	assert.Contains(t, c.get("/user").Header, "X-Request-Id")
	address := c.audioURL()
	c.srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.Delay(0).WithHeader("Content-Type", "audio/odd"))
	assert.Equal(t, "audio/odd", c.as("").get(address).Header.Get("Content-Type"))
}

func TestVanish_PageRead_DeletesItsNotes(t *testing.T) {
	t.Parallel()
	c := seeded(t, 6, clinicaldoctest.Variant{})
	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(1))
	assert.Equal(t, []int{6, 5}, ids(t, c.list("per_page=2")), "the page still shows it")
	assert.Equal(t, []int{3, 2}, ids(t, c.list("per_page=2&page=2")), "note 4 moved to a page that was read already")
	c.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/6")
	assert.Len(t, c.srv.Notes(), 5)

	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(9))
	assert.Len(t, ids(t, c.list("patient_id=1")), 3)
	assert.Empty(t, ids(t, c.list("patient_id=1")), "no more than the page has shown")
	assert.Len(t, c.srv.Notes(), 2)
}

func TestVanish_DeletedNote_LosesItsRecording(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]clinicaldoctest.Option{
		"on disk": nil, "in memory": {clinicaldoctest.InProcess()},
	} {
		c := start(t, options...)
		c.srv.AddNote(clinicaldoctest.Note{Audio: []byte("recorded")})
		address := c.audioURL()
		if options == nil {
			require.Len(t, c.files(), 1)
		}
		c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(1))
		c.get("/v1/progress-notes")
		require.Empty(t, c.srv.Notes())
		assert.Equal(t, http.StatusNotFound, c.as("").get(address).StatusCode, name)
		if options == nil {
			assert.Empty(t, c.files())
		}
	}
}

func TestArrive_PageRead_AddsNotesBeforeTheNext(t *testing.T) {
	t.Parallel()
	c := seeded(t, 4, clinicaldoctest.Variant{})
	c.srv.Advance(time.Hour)
	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Arrive(2))
	assert.Equal(t, []int{4, 2}, ids(t, c.list("patient_id=2&per_page=2")))
	assert.Equal(t, []int{4, 2}, ids(t, c.list("patient_id=2&per_page=2&page=2")), "pushed there by newer ones")
	assert.Equal(t, []int{6, 5}, ids(t, c.list("patient_id=2&per_page=2")))
	assert.Empty(t, c.srv.Created(), "nobody asked for them")
}

func TestArrive_RequestWithoutAList_AddsNothing(t *testing.T) {
	t.Parallel()
	c := seeded(t, 2, clinicaldoctest.Variant{})
	c.srv.Inject("", clinicaldoctest.Arrive(3).Always())
	c.get("/user")
	c.expect(http.StatusUnprocessableEntity, http.MethodGet, "/v1/progress-notes?per_page=0")
	assert.Len(t, c.srv.Notes(), 2)

	c = c.as(c.srv.AddUser(clinicaldoctest.User{TeamID: 2}).Token)
	assert.Empty(t, ids(t, c.list("")))
	assert.Len(t, ids(t, c.list("")), 3, "what arrives is for who lists")
}

// A response that leaves in many pieces is counted, cut and completed as one.
func TestFault_ResponseInPieces_CountsAllPieces(t *testing.T) {
	t.Parallel()
	const size = 100_000 // more than one write of the storage
	observed := make(chan clinicaldoctest.Request, 10)
	c := start(t, clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) {
		if r.Storage {
			observed <- r
		}
	}))
	c.srv.AddNote(clinicaldoctest.Note{Audio: bytes.Repeat([]byte("a"), size)})
	address := c.audioURL()
	reader := c.as("")

	assert.Len(t, reader.get(address).text, size)
	assert.Equal(t, int64(size), (<-observed).BytesSent)

	c.srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.SlowBody(10_000, 1))
	assert.Len(t, reader.get(address).text, size)
	assert.Equal(t, int64(size), (<-observed).BytesSent)

	for _, fault := range []clinicaldoctest.Fault{clinicaldoctest.Truncate(80_000), clinicaldoctest.TruncateChunked(80_000)} {
		c.srv.Inject(clinicaldoctest.RouteAudio, fault)
		a, err := reader.try(reader.request(http.MethodGet, address, nil))
		require.Error(t, err, fault)
		assert.Len(t, a.text, 80_000, fault)
		<-observed
	}
	for _, fault := range []clinicaldoctest.Fault{clinicaldoctest.Truncate(size), clinicaldoctest.TruncateChunked(size)} {
		c.srv.Inject(clinicaldoctest.RouteAudio, fault)
		assert.Len(t, reader.get(address).text, size, "there is nothing to cut off: %s", fault)
		<-observed
	}
}

func TestFault_HeaderAdded_LeavesOriginal(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	one := clinicaldoctest.Answer(http.StatusBadGateway, "").WithHeader("X-Custom", "one")
	two := one.WithHeader("X-Custom", "two")
	three := one.WithHeader("X-Custom", "three")
	for _, want := range []struct {
		fault  clinicaldoctest.Fault
		values []string
	}{{one, []string{"one"}}, {two, []string{"one", "two"}}, {three, []string{"one", "three"}}} {
		c.srv.Inject(clinicaldoctest.RouteMe, want.fault)
		assert.Equal(t, want.values, c.get("/user").Header.Values("X-Custom"))
	}
}
