package exchange_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// streamed is a body of a head and a tail.
func streamed(head io.Reader, tail string) *exchange.Body {
	return &exchange.Body{
		ContentType: "text/plain", Size: -1, Open: func() (io.Reader, []byte) { return head, []byte(tail) },
	}
}

func newState(t *testing.T) (context.Context, *exchange.SendState) {
	t.Helper()
	state := &exchange.SendState{SendOnce: true}
	ctx := state.Watchdog.Guard(t.Context(), time.Minute)
	t.Cleanup(state.Watchdog.Stop)
	t.Cleanup(state.Stop)
	return ctx, state
}

func TestConclude_TraceAndBody_DecideWhatWasSent(t *testing.T) {
	t.Parallel()
	lost := errors.New("synthetic")
	refused := errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer")
	for name, tc := range map[string]struct {
		err           error
		bare          bool // without a body
		dials, writes bool // as the transport says
		reads         int  // bytes of the body
		want          exchange.Sent
		sent          int64
	}{
		"never dialled":                      {lost, false, true, false, 0, exchange.Never, 0},
		"header only":                        {lost, false, true, true, 0, exchange.Partly, 0},
		"a part":                             {lost, false, true, true, 3, exchange.Partly, 3},
		"all but the end":                    {lost, false, true, true, 4, exchange.Partly, 4},
		"a byte of the end":                  {lost, false, true, true, 5, exchange.Wholly, 5},
		"all":                                {lost, false, true, true, 7, exchange.Wholly, 7},
		"all, but no header":                 {lost, false, true, false, 7, exchange.Wholly, 7},
		"refused":                            {refused, false, true, true, 7, exchange.Never, 7},
		"refused, says an unknown transport": {refused, false, false, false, 7, exchange.Wholly, 7},
		"an unknown transport":               {lost, false, false, false, 0, exchange.Partly, 0},
		"no body, never dialled":             {lost, true, true, false, 0, exchange.Never, 0},
		"no body":                            {lost, true, true, true, 0, exchange.Wholly, 0},
		"no body, an unknown transport":      {lost, true, false, false, 0, exchange.Wholly, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, state := newState(t)
			trace := state.Trace(true)
			if tc.dials {
				trace.GetConn("")
			}
			if tc.writes {
				trace.WroteHeaders()
			}
			if !tc.bare {
				body := state.Follow(streamed(strings.NewReader("head"), "end"), false)
				_, err := io.ReadFull(body, make([]byte, tc.reads))
				require.NoError(t, err)
			}
			assert.Equal(t, tc.want, state.Conclude(tc.err))
			assert.Equal(t, tc.sent, state.BytesSent())
		})
	}
}

func TestConclude_LaterReads_Fail(t *testing.T) {
	t.Parallel()
	_, state := newState(t)
	body := state.Follow(streamed(strings.NewReader("head"), "end"), false)
	state.Conclude(errors.New("synthetic"))
	n, err := body.Read(make([]byte, 10))
	require.Error(t, err)
	assert.Zero(t, n)
}

func TestConclude_DuringARead_SendsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, state := newState(t)
		pipe, feed := io.Pipe()
		body := state.Follow(streamed(pipe, "end"), false)
		read := make(chan int)
		go func() {
			n, err := body.Read(make([]byte, 10))
			assert.Error(t, err)
			read <- n
		}()
		synctest.Wait()
		settled := make(chan exchange.Sent)
		go func() { settled <- state.Conclude(errors.New("synthetic")) }()
		synctest.Wait()
		_, err := feed.Write([]byte("late"))
		require.NoError(t, err)
		assert.Zero(t, <-read, "what was concluded would no longer be true")
		assert.Equal(t, exchange.Partly, <-settled)
	})
}

func TestFollow_EarlierBody_IsStopped(t *testing.T) {
	t.Parallel()
	_, state := newState(t)
	earlier := state.Follow(streamed(strings.NewReader("head"), "end"), false)
	later := state.Follow(streamed(strings.NewReader("head"), "end"), false)
	_, err := earlier.Read(make([]byte, 10))
	require.Error(t, err)
	all, err := io.ReadAll(later)
	require.NoError(t, err)
	assert.Equal(t, "headend", string(all))
}

// Once a byte of a request that must not be sent twice has left, the attempt ends when the transport asks for another
// connection. That connection cannot be written to, unless it is HTTP/2's: other requests may use it.
func TestGetConn_SecondSendingOfACreate_IsEnded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ once, multiplexed bool }{
		"must not be sent twice, over HTTP/1.1": {once: true},
		"must not be sent twice, over HTTP/2":   {once: true, multiplexed: true},
		"may be sent twice":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, state := newState(t)
			state.SendOnce = tt.once
			state.Multiplexed = tt.multiplexed
			trace := state.Trace(true)
			body := state.Follow(streamed(strings.NewReader("head"), "end"), false)
			askForConnection := func() { trace.GetConn("") }

			askForConnection()
			askForConnection()
			require.NoError(t, ctx.Err(), "nothing has left; the first connection may have been dead")
			trace.WroteHeaders()
			askForConnection()
			require.NoError(t, ctx.Err(), "only the headers have left")
			_, _ = body.Read(make([]byte, 1))
			askForConnection()
			if !tt.once {
				require.NoError(t, ctx.Err())
				return
			}
			require.Error(t, ctx.Err(), "a byte of the body has left")

			second := pipe(t)
			trace.GotConn(httptrace.GotConnInfo{Conn: second})
			_, err := second.Write([]byte("x"))
			if tt.multiplexed {
				require.NoError(t, err, "other requests may use the connection")
				return
			}
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "HTTP/1.1 could write before it notices the context")
			refusal := errors.New("stream error: stream ID 3; REFUSED_STREAM")
			assert.Equal(t, exchange.Partly, state.Conclude(refusal), "it may refuse the second request only")
		})
	}
}

func TestRetire_WrittenRequest_ForbidsWrites(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(retire, wrote func()){
		"written, then refused": func(retire, wrote func()) { wrote(); retire() },
		"refused, then written": func(retire, wrote func()) { retire(); wrote() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, state := newState(t)
			trace := state.Trace(true)
			ours, theirs := net.Pipe()
			defer theirs.Close()
			trace.GotConn(httptrace.GotConnInfo{Conn: ours})
			order(state.Retire, func() { trace.WroteRequest(httptrace.WroteRequestInfo{}) })
			_, err := ours.Write([]byte("x"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			go func() { _, _ = theirs.Write([]byte("response")) }()
			n, err := ours.Read(make([]byte, 10))
			require.NoError(t, err, "the response can be read")
			assert.Equal(t, 8, n)
			state.Close()
			_, err = ours.Read(make([]byte, 10))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
		})
	}
	t.Run("still being written", func(t *testing.T) {
		t.Parallel()
		_, state := newState(t)
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		state.Trace(true).GotConn(httptrace.GotConnInfo{Conn: ours})
		state.Retire()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_, err := ours.Write([]byte("x"))
		assert.NoError(t, err, "net/http would give up the response")
	})
	t.Run("not retired", func(t *testing.T) {
		t.Parallel()
		_, state := newState(t)
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		state.Trace(true).GotConn(httptrace.GotConnInfo{Conn: ours})
		state.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_, err := ours.Write([]byte("x"))
		assert.NoError(t, err)
	})
}

// The response can free the connection before the request is known to be refused. Another request may have it by then.
func TestRetire_FreeConnection_IsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("synthetic")} {
		_, state := newState(t)
		ours := pipe(t)
		trace := state.Trace(true)
		trace.GotConn(httptrace.GotConnInfo{Conn: ours})
		trace.WroteRequest(httptrace.WroteRequestInfo{})
		trace.PutIdleConn(failure)
		state.Retire()
		state.Close()
		_, err := ours.Write(nil)
		assert.Equal(t, failure != nil, err != nil, "only one that could not be freed is closed")
	}
}

// Only a create must not use a connection that was idle for long, or that is retired.
func TestSkipped_RepeatableRequest_IsFalse(t *testing.T) {
	t.Parallel()
	for _, sendOnce := range []bool{true, false} {
		_, state := newState(t)
		state.SendOnce = sendOnce
		state.SpeaksHTTP1 = new(atomic.Bool)
		state.SpeaksHTTP1.Store(true)
		ours := pipe(t)
		trace := state.Trace(true)
		trace.GetConn("")
		trace.GotConn(httptrace.GotConnInfo{Conn: ours, Reused: true, WasIdle: true, IdleTime: time.Hour})
		assert.Equal(t, sendOnce, state.Skipped(errors.New("synthetic")))
		_, err := ours.Write(nil)
		assert.Equal(t, sendOnce, err != nil)
	}
}

func TestAwaitContinue_ResponseFirst_HoldsTheBodyBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, then := range map[string]struct {
			do   func(*exchange.SendState, *httptrace.ClientTrace)
			gets string
		}{
			"continue": {func(_ *exchange.SendState, trace *httptrace.ClientTrace) { trace.Got100Continue() }, "headend"},
			"interim": {
				func(_ *exchange.SendState, trace *httptrace.ClientTrace) { _ = trace.Got1xxResponse(103, nil) }, "headend",
			},
			"over": {func(state *exchange.SendState, _ *httptrace.ClientTrace) { state.Close() }, ""},
			// A transport may wait for the body's end.
			"neither": {func(*exchange.SendState, *httptrace.ClientTrace) { time.Sleep(time.Second) }, ""},
		} {
			_, state := newState(t)
			trace := state.Trace(true)
			body := state.Follow(streamed(strings.NewReader("head"), "end"), true)
			trace.Wait100Continue()
			trace.GotFirstResponseByte()
			got := make(chan string)
			go func() {
				all, _ := io.ReadAll(body)
				got <- string(all)
			}()
			synctest.Wait()
			assert.Zero(t, state.BytesSent(), name)
			began := time.Now()
			then.do(state, trace)
			assert.Equal(t, then.gets, <-got, name)
			if name != "neither" {
				assert.Zero(t, time.Since(began), name)
			}
		}
		_, state := newState(t)
		body := state.Follow(streamed(strings.NewReader("head"), "end"), true)
		state.Trace(true).GotFirstResponseByte()
		all, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, "headend", string(all), "a transport that does not wait for 100 Continue")
	})
}

func TestGotInterim_TooMany_EndsTheAttempt(t *testing.T) {
	t.Parallel()
	_, state := newState(t)
	trace := state.Trace(true)
	trace.Wait100Continue()
	assert.True(t, state.IgnoredExpect())
	for range 10 {
		require.NoError(t, trace.Got1xxResponse(103, nil))
	}
	assert.False(t, state.IgnoredExpect())
	assert.Error(t, trace.Got1xxResponse(103, nil))
}

func TestGetConn_TooMany_EndsTheAttempt(t *testing.T) {
	t.Parallel()
	ctx, state := newState(t)
	trace := state.Trace(true)
	for range 10 {
		trace.GetConn("")
	}
	require.NoError(t, ctx.Err())
	trace.GetConn("")
	assert.Error(t, ctx.Err())
}

// sendStreamed delivers a body by reading it.
func sendStreamed(
	ctx context.Context, state *exchange.SendState, source io.Reader, progress func(int64),
) (string, error) {
	body := state.Follow(streamed(source, "end"), false)
	var got bytes.Buffer
	_, err := state.SendStreamed(ctx, progress, func() (*http.Response, error) { //nolint:bodyclose // there is none
		if _, err := io.CopyBuffer(&got, onlyReader{body}, make([]byte, 2)); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
	})
	state.Close()
	return got.String(), err
}

type onlyReader struct{ io.Reader }

func TestSendStreamed_Progress_BeginsAtZeroAndEndsWithAll(t *testing.T) {
	t.Parallel()
	ctx, state := newState(t)
	var told []int64
	var before int
	state.BeforeCommit = func(context.Context) error { before = len(told); return nil }
	got, err := sendStreamed(
		ctx, state, onlyReader{strings.NewReader("head")}, func(sent int64) { told = append(told, sent) },
	)
	require.NoError(t, err)
	assert.Equal(t, "headend", got)
	assert.EqualValues(t, 0, told[0])
	assert.EqualValues(t, 7, told[len(told)-1])
	assert.IsNonDecreasing(t, told)
	assert.Positive(t, before)
}

func TestSendStreamed_Stalls_ReturnsThoughTheSenderBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, sender := range map[string]func(context.Context, io.Reader){
			"blocked source":            func(_ context.Context, body io.Reader) { _, _ = io.Copy(io.Discard, body) },
			"transport without context": func(context.Context, io.Reader) { time.Sleep(time.Hour) },
		} {
			ctx, state := newState(t) // stalls after a minute
			pipe, feed := io.Pipe()
			body := state.Follow(streamed(pipe, "end"), false)
			start := time.Now()
			_, err := state.SendStreamed(ctx, nil, func() (*http.Response, error) { //nolint:bodyclose // nobody gets it
				sender(ctx, body)
				return nil, errors.New("synthetic")
			})
			require.ErrorIs(t, err, exchange.ErrStalled, name)
			state.Conclude(err)
			assert.Equal(t, 61*time.Second, time.Since(start), "the stall and a moment of grace: %s", name)
			_ = feed.Close()
			time.Sleep(2 * time.Hour)
		}
	})
}

func TestSendStreamed_SourcePanicsOrExits_IsRepeated(t *testing.T) {
	t.Parallel()
	ctx, state := newState(t)
	assert.PanicsWithValue(t, "synthetic", func() {
		_, _ = sendStreamed(ctx, state, ending(func() { panic("synthetic") }), nil)
	})
	ctx, state = newState(t)
	exited := make(chan bool)
	go func() {
		returned := false
		defer func() { exited <- !returned }()
		_, _ = sendStreamed(ctx, state, ending(runtime.Goexit), nil)
		returned = true
	}()
	assert.True(t, <-exited)
	failure := errors.New("synthetic")
	ctx, state = newState(t)
	_, err := sendStreamed(ctx, state, io.MultiReader(strings.NewReader("he"), failing{failure}), nil)
	require.ErrorIs(t, err, failure)
}

type ending func()

func (end ending) Read([]byte) (int, error) { end(); return 0, io.EOF }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestSendStreamed_CallerPanics_LeavesTheSourceAlone(t *testing.T) {
	t.Parallel()
	ctx, state := newState(t)
	var reads atomic.Int32
	body := state.Follow(streamed(counting{&reads}, "end"), false)
	proceed, finished := make(chan struct{}), make(chan error)
	assert.Panics(t, func() {
		progress := func(int64) { panic("synthetic") }
		_, _ = state.SendStreamed(ctx, progress, func() (*http.Response, error) { //nolint:bodyclose // nobody gets it
			<-proceed
			_, err := body.Read(make([]byte, 10))
			finished <- err
			return nil, err
		})
	})
	close(proceed)
	require.Error(t, <-finished)
	assert.Zero(t, reads.Load())
}

type counting struct{ reads *atomic.Int32 }

func (c counting) Read(p []byte) (int, error) { c.reads.Add(1); return len(p), nil }

func TestFollowedBody_Reads_AllocateNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	_, state := newState(t)
	body := state.Follow(streamed(counting{new(atomic.Int32)}, "end"), false)
	block := make([]byte, 1000)
	_, _ = body.Read(block)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = body.Read(block) }))
	state.Close()
}

// stale is a transport whose first connection was idle for a while, as a create must not take one.
type stale struct {
	conns []net.Conn
	idle  []time.Duration
	got   []string
	sent  []*http.Request
	proto int   // major version of the responses
	again error // what a transport hears that would send it a second time
}

func (s *stale) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent = append(s.sent, r)
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GetConn("")
	conn, idle := s.conns[0], s.idle[0]
	s.conns, s.idle = s.conns[1:], s.idle[1:]
	trace.GotConn(httptrace.GotConnInfo{Conn: conn, Reused: true, WasIdle: true, IdleTime: idle})
	trace.WroteHeaders()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.got = append(s.got, string(body))
	if len(s.conns) == 0 {
		trace.GetConn("")
		s.again = r.Context().Err()
	}
	resp := status(r, http.StatusCreated)
	resp.ProtoMajor = s.proto
	return resp, nil
}

func TestCreate_IdleConnection_UsesAnother(t *testing.T) {
	t.Parallel()
	for idle, skipped := range map[time.Duration]bool{time.Second: false, time.Second + 1: true} {
		first, second := pipe(t), pipe(t)
		transport := &stale{conns: []net.Conn{first, second}, idle: []time.Duration{idle, 0}}
		request := newCall(nil)
		speaksHTTP1(t, request)
		asCreate(request, transport)
		request.Body = oneShot(strings.NewReader("head"), "end")
		result, err := request.Do(t.Context())
		require.NoError(t, err, "nothing of the body was read for the first")
		assert.Equal(t, 1, result.Last.Number, "it is no retry")
		assert.Equal(t, []string{"headend"}, transport.got)
		if skipped {
			assert.NotSame(t, transport.sent[0], transport.sent[1], "the transport may still hold on to the first")
		}
		_, err = first.Write(nil)
		assert.Equal(t, skipped, errors.Is(err, io.ErrClosedPipe))
		assert.Equal(t, skipped, transport.again != nil, "nobody sends a second time what has left by the second")
	}
}

// A create does not use a connection that was idle for long: it ends that attempt and sends the request again, on
// another connection. If the call was canceled in between, it does not do so.
func TestCreate_CancelledAtAnIdleConnection_UsesNoOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	idleForLong := &stale{conns: []net.Conn{pipe(t)}, idle: []time.Duration{time.Hour}}
	attempts := 0
	request := newCall(nil)
	speaksHTTP1(t, request)
	request.Peer.Transport = transport(func(r *http.Request) (*http.Response, error) {
		attempts++
		if attempts > 1 {
			return status(r, http.StatusCreated), nil
		}
		cancel()
		return idleForLong.RoundTrip(r)
	})
	request.Method = http.MethodPost
	request.Effect = exchange.Creates
	request.MaxRetries = 0
	request.Body = oneShot(strings.NewReader("head"), "end")
	result, err := request.Do(ctx)
	require.Error(t, err)
	assert.Equal(t, 1, attempts)
	assert.False(t, result.OutcomeUnknown)
}

// A call retires a connection by setting a write deadline in the past. A later create does not use that connection, but
// another one. Of a TLS connection only the connection below TLS shows the deadline.
func TestCreate_RetiredConnection_UsesAnother(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	config := &tls.Config{InsecureSkipVerify: true}
	secured, err := tls.Dial("tcp", srv.Listener.Addr().String(), config) //nolint:noctx // it is the test's own
	require.NoError(t, err)
	defer func() { _ = secured.Close() }()
	for name, retired := range map[string]net.Conn{"plain": pipe(t), "TLS": secured} {
		require.NoError(t, retired.SetWriteDeadline(time.Unix(1, 0)))
		usable := pipe(t)
		transport := &stale{conns: []net.Conn{retired, usable}, idle: []time.Duration{0, 0}}
		request := newCall(nil)
		speaksHTTP1(t, request)
		asCreate(request, transport)
		request.Body = oneShot(strings.NewReader("head"), "end")
		_, err := request.Do(t.Context())
		require.NoError(t, err, name)
		assert.Len(t, transport.sent, 2, "%s: one try on the retired connection, one on the usable", name)
	}
}

// If the transport has only idle connections, the create skips 512 of them and uses the next one.
func TestCreate_OnlyIdleConnections_UsesOneInTheEnd(t *testing.T) {
	t.Parallel()
	transport := &stale{}
	for range 600 {
		transport.conns = append(transport.conns, pipe(t))
		transport.idle = append(transport.idle, time.Hour)
	}
	request := newCall(nil)
	speaksHTTP1(t, request)
	asCreate(request, transport)
	request.Body = oneShot(strings.NewReader("head"), "end")
	_, err := request.Do(t.Context())
	require.NoError(t, err)
	assert.Len(t, transport.sent, 512+1)
}

// A create skips all idle connections, which do not count as failures of the server. It does not close a connection of
// HTTP/2, which other requests share.
func TestCreate_ManyIdleConnections_SkipsThem(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(nil)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	shared, err := tls.Dial("tcp", srv.Listener.Addr().String(), config) //nolint:noctx // it is the test's own
	require.NoError(t, err)
	defer func() { _ = shared.Close() }()
	transport := &stale{conns: []net.Conn{shared}, idle: []time.Duration{time.Hour}}
	for range 20 {
		transport.conns = append([]net.Conn{pipe(t)}, transport.conns...)
		transport.idle = append([]time.Duration{time.Hour}, transport.idle...)
	}
	request := newCall(nil)
	speaksHTTP1(t, request)
	asCreate(request, transport)
	request.Body = oneShot(strings.NewReader("head"), "end")
	_, err = request.Do(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"headend"}, transport.got)
	_, err = shared.Write(nil)
	require.NoError(t, err)
}

// Without TLS, only the responses show that a connection is HTTP/2's, so other requests may use it. The server has
// responded with HTTP/1 before, so a create would otherwise close a connection that was idle for long.
func TestCreate_ServerSpeaksHTTP2_ClosesNoConnection(t *testing.T) {
	t.Parallel()
	shared := pipe(t)
	transport := &stale{conns: []net.Conn{shared, shared, pipe(t)}, idle: []time.Duration{0, time.Hour, 0}, proto: 2}
	request := newCall(nil)
	speaksHTTP1(t, request)
	request.Peer.Transport, request.Method, request.Effect = transport, http.MethodPost, exchange.Creates
	request.Body = &exchange.Body{Bytes: []byte("{}")}
	for range 2 {
		_, err := request.Do(t.Context())
		require.NoError(t, err)
	}
	assert.Len(t, transport.conns, 1, "the third connection is not needed")
	_, err := shared.Write(nil)
	require.NoError(t, err)
}

// endedMeanwhile skips its only connection, and ends the call meanwhile. From then on it asks for no connection, as
// net/http does.
type endedMeanwhile struct {
	stale
	end   context.CancelFunc
	calls int
}

func (e *endedMeanwhile) RoundTrip(r *http.Request) (*http.Response, error) {
	switch e.calls++; {
	case e.calls == 1:
		defer e.end()
		return e.stale.RoundTrip(r)
	case e.calls > 100: // let the test fail instead of going on for ever
		httptrace.ContextClientTrace(r.Context()).GetConn("")
	}
	return nil, r.Context().Err()
}

// A create skips a connection that was idle for long, and asks for another one. If the context ends meanwhile, the
// create ends too.
func TestCreate_CancelledAtASkippedConnection_Ends(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	transport := &endedMeanwhile{stale: stale{conns: []net.Conn{pipe(t)}, idle: []time.Duration{time.Hour}}, end: cancel}
	request := newCall(nil)
	speaksHTTP1(t, request)
	request.Peer.Transport, request.Method, request.Effect = transport, http.MethodPost, exchange.Creates
	request.Body = &exchange.Body{Bytes: []byte("{}")}
	_, err := request.Do(ctx)
	require.Error(t, err)
	assert.LessOrEqual(t, transport.calls, 2, "the one that skips the connection, and one that finds the context ended")
}

// A connection without TLS whose server has not responded yet may be HTTP/2's, and serve others.
func TestCreate_ConnectionOfUnknownProtocol_IsNotClosed(t *testing.T) {
	t.Parallel()
	shared := pipe(t)
	transport := &stale{conns: []net.Conn{shared, pipe(t)}, idle: []time.Duration{time.Hour, 0}, proto: 2}
	request := newCall(nil)
	request.Peer.Transport = transport
	request.Method = http.MethodPost
	request.Effect = exchange.Creates
	request.Body = &exchange.Body{Bytes: []byte("{}")}
	_, err := request.Do(t.Context())
	require.NoError(t, err)
	assert.Len(t, transport.sent, 1)
	_, err = shared.Write(nil)
	require.NoError(t, err)
}

// named is a connection as HTTP/3 shows it: all it can do is to name its peer.
type named struct{ net.Conn }

func (named) RemoteAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestCreate_ConnectionOfHTTP3_IsNotTouched(t *testing.T) {
	t.Parallel()
	for name, conns := range map[string][]net.Conn{
		"one":               {named{}, pipe(t)},
		"and a second send": {named{}},
	} {
		transport := &stale{conns: conns, idle: []time.Duration{time.Hour, 0}, proto: 3}
		request := newCall(nil)
		speaksHTTP1(t, request) // by another connection
		request.Peer.Transport = transport
		request.Method = http.MethodPost
		request.Effect = exchange.Creates
		request.Body = &exchange.Body{Bytes: []byte("{}")}
		_, err := request.Do(t.Context())
		require.NoError(t, err, name)
		assert.Len(t, transport.sent, 1, name)
	}
}

// asCreate makes the call a create without retries by this transport.
func asCreate(request *exchange.Request, transport http.RoundTripper) {
	request.Peer.Transport = transport
	request.Method = http.MethodPost
	request.Effect = exchange.Creates
	request.MaxRetries = 0
}

// speaksHTTP1 shows the request's peer a response of HTTP/1.
func speaksHTTP1(t *testing.T, request *exchange.Request) {
	t.Helper()
	before := *request
	request.Peer.Transport = transport(func(r *http.Request) (*http.Response, error) {
		return status(r, http.StatusOK), nil
	})
	_, err := request.Do(t.Context())
	require.NoError(t, err)
	*request = before
}

// oneShot is a body that was read from already.
func oneShot(head io.Reader, tail string) *exchange.Body {
	b := streamed(head, tail)
	b.Begun = new(atomic.Bool)
	b.Begun.Store(true)
	return b
}

func pipe(t *testing.T) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	return ours
}
