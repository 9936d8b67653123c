//nolint:bodyclose // the responses are made here and have nothing to close
package exchange

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A stopped timer stays in the runtime until its time has come, with everything that it refers to. That must not
// include a response or a recording.
func TestAttempt_StoppedTimer_DoesNotHoldIt(t *testing.T) {
	t.Parallel()
	for range 1000 { // with few timers, or none before it, a stopped one goes sooner
		timer := time.AfterFunc(20*time.Second, func() {})
		t.Cleanup(func() { timer.Stop() })
	}
	var attempts []weak.Pointer[Attempt]
	var recordings []weak.Pointer[byte]
	for range 20 {
		c := newRequest(Creates, func(r *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, r.Body)
			return responds(200, "synthetic"), err
		})
		recording := make([]byte, 4<<10)
		c.Method, c.Body = http.MethodPost, &Body{Bytes: recording}
		recordings = append(recordings, weak.Make(&recording[0]))
		result, err := c.Do(t.Context())
		require.NoError(t, err)
		attempts = append(attempts, weak.Make(result.Last))
		result.Release()
		assert.Nil(t, result.Last.Body)
	}
	runtime.GC()
	runtime.GC()
	for i, attempt := range attempts {
		assert.Nil(t, attempt.Value())
		assert.Nil(t, recordings[i].Value())
	}
}

// A transport may keep the request and change it. Neither the next attempt nor the next redirect contains the change.
func TestAttempt_TransportKeepsRequest_OthersAreUnchanged(t *testing.T) {
	t.Parallel()
	var paths []string
	var first *http.Request
	r := newRequest(Reads, func(req *http.Request) (*http.Response, error) {
		paths = append(paths, req.URL.Path)
		switch len(paths) {
		case 1:
			first = req
			resp := responds(http.StatusFound, "", "Location", "https://api.clinic.test/v1/moved")
			resp.Request = req
			return resp, nil
		case 2, 3:
			req.URL.Path = "/changed"
			return responds(http.StatusServiceUnavailable, ""), nil
		}
		return responds(http.StatusOK, "{}"), nil
	})
	r.Peer.MinWait, r.Peer.MaxWait = 1, 1
	result, err := r.Do(t.Context())
	require.NoError(t, err)
	defer result.Release()
	assert.Equal(t, []string{"/v1/synthetic", "/v1/moved", "/v1/synthetic", "/v1/synthetic"}, paths)
	assert.Equal(t, "/v1/synthetic", first.URL.Path)
	assert.Equal(t, "/v1/synthetic", r.URL.Path)
}

func TestAttempt_End_CancelsItsContext(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	r := newRequest(Reads, func(req *http.Request) (*http.Response, error) {
		sent = req
		return responds(http.StatusOK, "{}"), nil
	})
	result, err := r.Do(t.Context())
	require.NoError(t, err)
	defer result.Release()
	assert.Error(t, sent.Context().Err(), "what a transport left behind ends with the attempt")
}

// counted is a context that knows how many were derived from it and are not ended.
type counted struct {
	context.Context //nolint:containedctx // its values

	done chan struct{}
	open *atomic.Int32
}

func (c counted) Done() <-chan struct{} { return c.done }

func (c counted) AfterFunc(func()) (stop func() bool) {
	c.open.Add(1)
	return func() bool { c.open.Add(-1); return true }
}

// A context that is not ended stays with the caller's, and a timer with the process, until its time has come.
func TestAttempt_End_LeavesNoContextBehind(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Hour} {
		ctx := counted{t.Context(), make(chan struct{}), new(atomic.Int32)}
		r := newRequest(Reads, func(*http.Request) (*http.Response, error) {
			assert.Positive(t, ctx.open.Load())
			return responds(http.StatusOK, "{}"), nil
		})
		r.Peer.Timeout = timeout
		result, err := r.Do(ctx)
		require.NoError(t, err)
		result.Release()
		assert.Zero(t, ctx.open.Load(), timeout)
	}
}

// leftOpen is a body that knows whether it was closed.
type leftOpen struct {
	io.Reader
	closed bool
}

func (b *leftOpen) Close() error { b.closed = true; return nil }

// A response that is not returned is closed, however long it is. A body that stays open would keep its connection from
// other requests.
func TestDeliver_ResponseNotReturned_IsClosed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		effect Effect
		body   *Body
		first  *http.Response
	}{
		"a redirect": {Reads, nil, responds(http.StatusFound, "", "Location", "/v1/moved")},
		"a refusal of the announcement": {
			Creates, &Body{Bytes: make([]byte, ExpectSize+1)}, responds(http.StatusExpectationFailed, ""),
		},
		"a connection for something else": {Reads, nil, responds(http.StatusSwitchingProtocols, "")},
		"another thing than was asked for": {Repeatable, &Body{Bytes: []byte("{}")}, &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{},
			Request: &http.Request{Method: http.MethodGet, Response: responds(http.StatusFound, "")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, left, requests := newRequest(tc.effect, nil), &leftOpen{Reader: io.LimitReader(endless{}, 1<<20)}, 0
			if r.Body = tc.body; r.Body != nil {
				r.Method = http.MethodPut
			}
			tc.first.Body = left
			_, err := sent(t, r, func(*http.Request) (*http.Response, error) {
				if requests++; requests > 1 {
					return responds(http.StatusOK, "{}"), nil
				}
				return tc.first, nil
			})
			require.NoError(t, err)
			assert.True(t, left.closed)
		})
	}
}

type receiver func()

func (f receiver) Receive(context.Context, *http.Response, Watch) (int64, error) {
	f()
	return 0, ErrStatus
}

func (receiver) Prepare(*http.Request) error { return nil }
func (receiver) Next(*Attempt) Next          { return Next{} }

// At the end of its response a connection is free for other requests, so it must be retired before.
func TestReceive_RefusedRequest_RetiresBeforeReading(t *testing.T) {
	t.Parallel()
	r := newRequest(Creates, nil)
	r.Body = &Body{Bytes: []byte("{}")}
	state := new(SendState)
	state.Watchdog.Guard(t.Context(), time.Minute)
	defer state.Watchdog.Stop()
	retired, closed := false, false
	state.conn.Store(new(net.Conn(hungUp{closed: &closed})))
	c := &call{Request: r, policy: receiver(func() { retired = state.retired.Load() && !closed })}
	require.ErrorIs(t,
		c.receive(t.Context(), responds(http.StatusUnprocessableEntity, "{}"), new(Attempt), state), ErrStatus,
	)
	assert.True(t, retired)
	assert.True(t, closed, "nobody has to find out that it cannot be used")
}

// The previous request may be refused, and its connection retired, while the next one is written to it. A request
// without its last bytes cannot have been processed, and is sent on another connection.
func TestCreate_ConnectionRetiredDuringWrite_UsesAnother(t *testing.T) {
	t.Parallel()
	var whole atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			whole.Add(1)
		}
	}))
	defer server.Close()
	transport := NewTransport()
	defer transport.CloseIdleConnections()
	var dialled []*conn
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		dialled = append(dialled, c.(*conn))
		return c, err
	}
	r := newRequest(Creates, transport.RoundTrip)
	r.Method, r.URL.Scheme, r.URL.Host = http.MethodPost, "http", strings.TrimPrefix(server.URL, "http://")
	r.Body = &Body{Size: 20<<10 + 1, Open: func() (io.Reader, []byte) {
		return io.MultiReader(strings.NewReader(strings.Repeat("x", 20<<10)), retiring{&dialled}), []byte("y")
	}}
	result, err := r.Do(t.Context())
	require.NoError(t, err)
	defer result.Release()
	assert.Equal(t, 1, result.Last.Number, "it is no retry")
	assert.Len(t, dialled, 2)
	assert.EqualValues(t, 1, whole.Load())
}

// retiring is the end of a reader, at which the first connection is retired.
type retiring struct{ conns *[]*conn }

func (r retiring) Read([]byte) (int, error) {
	(*r.conns)[0].retired.Store(true)
	return 0, io.EOF
}

// hungUp is a connection that reports when it is closed.
type hungUp struct {
	net.Conn
	closed *bool
}

func (c hungUp) Close() error { *c.closed = true; return nil }

func TestAdmit_EachAttempt_AsksForTheToken(t *testing.T) {
	t.Parallel()
	asked := 0
	source := func(context.Context) (string, error) { asked++; return "asked", nil }
	c := &call{
		Request: &Request{Peer: &Peer{}, Authorization: source}, authorization: "renewed", Result: Result{tokenRenewed: true},
		next: Next{WithoutPause: true},
	}
	_, err := c.admit(t.Context(), new(Attempt))
	require.NoError(t, err)
	assert.Equal(t, "renewed", c.authorization, "it has just been asked")
	c.next = Next{Retry: true}
	_, err = c.admit(t.Context(), new(Attempt))
	require.NoError(t, err)
	assert.Equal(t, "asked", c.authorization)
	assert.Equal(t, 1, asked)
}
