//nolint:bodyclose // the responses are made here and have nothing to close
package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// caller is one that its functions answer for; nil: it does nothing.
type caller struct {
	begin       func(http.Header)
	end         func(*Attempt)
	explain     func(*Attempt) error // nil: the attempt is the error
	beforeRetry func(*Attempt) error
}

func (c *caller) Begin(ctx context.Context, _ *Attempt, header http.Header) context.Context {
	if c.begin != nil {
		c.begin(header)
	}
	return ctx
}

func (c *caller) End(_ context.Context, a *Attempt) {
	if c.end != nil {
		c.end(a)
	}
}

func (c *caller) Explain(a, _ *Attempt) error {
	if c.explain == nil {
		return a
	}
	return c.explain(a)
}

func (c *caller) BeforeRetry(_ context.Context, a *Attempt) error {
	if c.beforeRetry == nil {
		return nil
	}
	return c.beforeRetry(a)
}

// newRequest is a call whose attempts the function serves.
func newRequest(effect Effect, serve transport) *Request {
	origin := &url.URL{Scheme: "https", Host: "api.clinic.test"}
	target := *origin
	target.Path = "/v1/synthetic"
	return &Request{
		Peer: &Peer{
			Transport: serve, Origin: origin, Accept: "application/json", UserAgent: "synthetic/1", StallTimeout: time.Minute,
			MaxBody: 1000,
			MinWait: time.Second, MaxWait: 10 * time.Second, MaxRetryAfter: 10 * time.Second,
		},
		Method: http.MethodGet, URL: &target, Effect: effect, MaxRetries: 3,
		Caller: &caller{explain: explain},
	}
}

func explain(a *Attempt) error {
	if a.Status == 0 {
		return a.Cause
	}
	return errors.New(http.StatusText(a.Status))
}

func responds(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, ProtoMajor: 1, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func TestAdmit_LimiterOrTokenFails_ReturnsTheStep(t *testing.T) {
	t.Parallel()
	header := func(context.Context) (string, error) { return "own", nil }
	refusal := errors.New("synthetic")
	refuse := func(context.Context) error { return refusal }
	for name, tc := range map[string]struct {
		request Request
		failed  Step
		header  string
	}{
		"nobody to ask": {Request{Peer: &Peer{}}, None, ""},
		"a token":       {Request{Peer: &Peer{}, Authorization: header}, None, "own"},
		"a limit":       {Request{Peer: &Peer{Limit: refuse}, Authorization: header}, Limit, ""},
		"no token to be had": {
			Request{Peer: &Peer{}, Authorization: func(context.Context) (string, error) { return "", refusal }}, Authorize, "",
		},
	} {
		c := &call{Request: &tc.request}
		failed, err := c.admit(t.Context(), new(Attempt))
		assert.Equal(t, tc.failed, failed, name)
		assert.Equal(t, failed != None, errors.Is(err, refusal), name)
		assert.Equal(t, tc.header, c.authorization, name)
	}
}

func TestHeader_PeersHeader_ReplacesCallers(t *testing.T) {
	t.Parallel()
	c := &call{Request: newRequest(Reads, nil)}
	callers := http.Header{"X-Synthetic": {"1"}, "Accept": {"not this"}}
	assert.Equal(t,
		http.Header{"X-Synthetic": {"1"}, "Accept": {"application/json"}, "User-Agent": {"synthetic/1"}}, c.header(callers),
	)
	c.Body = &Body{Bytes: []byte("{}")}
	assert.Equal(t, "application/json", c.header(callers).Get("Content-Type"), "also without a token")
	c.authorization = "Bearer secret"
	header := c.header(callers)
	assert.Equal(t, []string{"Bearer secret"}, header["Authorization"])
	assert.Equal(t, []string{"application/json"}, header["Content-Type"])
	header.Add("Accept", "more")
	assert.Equal(t, "synthetic/1", header.Get("User-Agent"), "an appended value does not replace the next header's")
}

// sent runs the step send and returns what the transport got.
func sent(t *testing.T, r *Request, serve transport) (*http.Response, error) {
	t.Helper()
	r.Peer.Transport = serve
	state := &SendState{SendOnce: r.Effect == Creates}
	ctx := state.Watchdog.Guard(t.Context(), time.Minute)
	t.Cleanup(state.Watchdog.Stop)
	out := (&http.Request{Method: r.Method, URL: r.URL, Header: http.Header{}}).WithContext(ctx)
	t.Cleanup(state.Close)
	return (&call{Request: r}).send(out, state)
}

func TestSend_OnlyRepeatableBodies_HaveGetBody(t *testing.T) {
	t.Parallel()
	small, large := &Body{Bytes: []byte(`{"a":1}`)}, &Body{Bytes: []byte(strings.Repeat(" ", SmallSize+1))}
	for _, tc := range []struct {
		effect Effect
		body   *Body
		again  bool
		known  bool // to net/http, which then sends it with the header
		expect string
	}{
		{Repeatable, small, true, true, ""},
		{Repeatable, &Body{Bytes: make([]byte, SmallSize)}, true, true, ""},
		{Repeatable, large, true, false, ""},
		{Creates, small, false, false, ""},
		{Creates, &Body{Bytes: []byte{}}, false, false, ""},
		{Creates, large, false, false, ""},
		{Creates, &Body{Bytes: make([]byte, ExpectSize)}, false, false, ""},
		{Creates, &Body{Bytes: make([]byte, ExpectSize+1)}, false, false, "100-continue"},
		{Repeatable, &Body{Bytes: make([]byte, ExpectSize+1)}, true, false, ""},
	} {
		c := newRequest(tc.effect, nil)
		c.Method, c.Body = http.MethodPost, tc.body
		_, err := sent(t, c, func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, tc.again, r.GetBody != nil)
			assert.Equal(t, tc.known, isNopCloser(r.Body))
			assert.Equal(t, tc.expect, r.Header.Get("Expect"))
			assert.Equal(t, int64(len(tc.body.Bytes)), r.ContentLength)
			for range 2 {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				assert.Len(t, body, int(int64(len(tc.body.Bytes))))
				if r.GetBody == nil {
					break
				}
				r.Body, err = r.GetBody()
				require.NoError(t, err)
			}
			return responds(200, ""), nil
		})
		require.NoError(t, err)
	}
}

func isNopCloser(r io.ReadCloser) bool {
	_, is := r.(interface {
		WriteTo(io.Writer) (int64, error)
	})
	return is
}

// Redirects to the own origin are followed up to a limit. Then the last one is the response.
func TestSend_ManyRedirects_ReturnsTheLast(t *testing.T) {
	t.Parallel()
	c := newRequest(Reads, nil)
	var asked []string
	resp, err := sent(t, c, func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Path)
		return responds(302, "", "Location", r.URL.Path+"x"), nil
	})
	require.NoError(t, err)
	assert.Equal(t, 302, resp.StatusCode)
	assert.Len(t, asked, maxRedirects+1)
	assert.Equal(t, "/v1/syntheticxxxxx", asked[maxRedirects])
}

func TestSend_ExpectationFailed_SendsWithoutExpect(t *testing.T) {
	t.Parallel()
	c := newRequest(Creates, nil)
	c.Method, c.Body = http.MethodPost, &Body{Bytes: make([]byte, ExpectSize+1)}
	var expects []string
	serve := func(r *http.Request) (*http.Response, error) {
		expects = append(expects, r.Header.Get("Expect"))
		if r.Header.Get("Expect") != "" {
			return responds(http.StatusExpectationFailed, ""), nil
		}
		_, err := io.Copy(io.Discard, r.Body)
		return responds(201, ""), err
	}
	for range 2 {
		_, err := sent(t, c, serve)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"100-continue", "", ""}, expects, "it is remembered")
}

// A request that needs another connection announces its body there if it did so before.
func TestSend_AnotherConnection_AnnouncesAsBefore(t *testing.T) {
	t.Parallel()
	for ignoresExpect, want := range map[bool][]string{false: {"100-continue", "100-continue"}, true: {"", ""}} {
		c := newRequest(Creates, nil)
		c.Method, c.Body = http.MethodPost, &Body{Bytes: make([]byte, ExpectSize+1)}
		c.Peer.ignoresExpect.Store(ignoresExpect)
		var expects []string
		_, err := sent(t, c, func(r *http.Request) (*http.Response, error) {
			expects = append(expects, r.Header.Get("Expect"))
			if len(expects) == 1 {
				return nil, errRetired
			}
			_, err := io.Copy(io.Discard, r.Body)
			return responds(201, ""), err
		})
		require.NoError(t, err)
		assert.Equal(t, want, expects)
	}
}

// A transport may add to the header of the request that it gets. The next request of the same attempt has none of it.
func TestSend_AgainInOneAttempt_WithoutWhatTheTransportAdded(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func() (*http.Response, error){
		"another connection": func() (*http.Response, error) { return nil, errRetired },
		"without Expect":     func() (*http.Response, error) { return responds(http.StatusExpectationFailed, ""), nil },
		"redirect": func() (*http.Response, error) {
			return responds(http.StatusTemporaryRedirect, "", "Location", "/v1/elsewhere"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRequest(Creates, nil)
			if name != "redirect" { // a body is not sent to another path
				c.Method, c.Body = http.MethodPost, &Body{Bytes: make([]byte, ExpectSize+1)}
			}
			requests := 0
			_, err := sent(t, c, func(r *http.Request) (*http.Response, error) {
				assert.NotContains(t, r.Header, "X-Synthetic")
				assert.Empty(t, r.URL.Fragment)
				r.Header.Set("X-Synthetic", "1")
				r.URL.Fragment = "synthetic"
				requests++
				if requests == 1 {
					return first()
				}
				return responds(200, ""), nil
			})
			require.NoError(t, err)
			assert.Equal(t, 2, requests)
		})
	}
}

// A server that was asked for 100 Continue, and sent a complete response without it, is not asked again.
func TestReceive_ExpectIsIgnored_IsRemembered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		asked    bool
		interim  int32
		body     io.Reader
		remember bool
	}{
		"ignored":        {true, 0, strings.NewReader("{}"), true},
		"answered":       {true, 1, strings.NewReader("{}"), false},
		"not asked":      {false, 0, strings.NewReader("{}"), false},
		"a cut response": {true, 0, failing{io.ErrUnexpectedEOF}, false},
	} {
		c := begun(newRequest(Creates, nil))
		state := new(SendState)
		state.Watchdog.Guard(t.Context(), time.Minute)
		state.awaitsContinue.Store(tc.asked)
		state.interim.Store(tc.interim)
		resp := &http.Response{StatusCode: http.StatusCreated, ProtoMajor: 1, Body: io.NopCloser(tc.body)}
		_ = c.receive(t.Context(), resp, new(Attempt), state)
		state.Watchdog.Stop()
		c.Release()
		assert.Equal(t, tc.remember, c.Peer.ignoresExpect.Load(), name)
	}
}

// The server takes at most MaxRetryAfter, ten seconds here. A 503 is a limit only with Retry-After.
func TestLimitedFor_StatusAndHeader_Decide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status     int
		retryAfter string
		remaining  string
		want       time.Duration
	}{
		{429, "", "", time.Second},
		{429, "5", "", 5 * time.Second},
		{429, "10", "", 10 * time.Second},
		{429, "11", "", 0},
		{429, "", "0", time.Second},
		{429, "5", "0", 6 * time.Second}, // rounded down by the server
		{503, "", "", 0},
		{503, "5", "", 5 * time.Second},
		{500, "5", "", 0},
	} {
		c := &call{Request: newRequest(Reads, nil)}
		header := http.Header{"Retry-After": {tc.retryAfter}, "X-Ratelimit-Remaining": {tc.remaining}}
		refused := &Attempt{Outcome: Outcome{Status: tc.status}, Header: header}
		assert.Zero(t, c.limitedFor(refused), "without a Gate")
		c.Peer.Gate = new(Gate)
		assert.Equal(t, tc.want, c.limitedFor(refused), "%+v", tc)
	}
}

func TestDo_RefusedToken_IsRenewedOnce(t *testing.T) {
	t.Parallel()
	const none = "none"
	for renewed, requests := range map[string]int{none: 1, "": 1, "refused": 1, "fresh": 2} {
		sent, renewals := 0, 0
		r := newRequest(Reads, func(*http.Request) (*http.Response, error) {
			sent++
			return responds(http.StatusUnauthorized, ""), nil
		})
		r.Authorization = func(context.Context) (string, error) { return "refused", nil }
		if renewed != none {
			r.Renew = func(context.Context, string) string { renewals++; return renewed }
		}
		result, err := r.Do(t.Context())
		require.Error(t, err)
		result.Release()
		assert.Equal(t, requests, sent, renewed)
		assert.LessOrEqual(t, renewals, 1, renewed)
	}
}

// The rest of a refused body may still be on its way, so its connection does not serve another request.
func TestDo_RefusedBody_ConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	var from []string
	peer, target := peerAt(t, func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.RemoteAddr)
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, "{}")
	})
	for _, body := range []*Body{nil, nil, {Bytes: []byte("{}")}, {Bytes: []byte("{}")}} {
		r := &Request{Peer: peer, Method: http.MethodPut, URL: target, Effect: Repeatable, Body: body, Caller: &caller{}}
		result, err := r.Do(t.Context())
		require.Error(t, err)
		result.Release()
	}
	require.Len(t, from, 4)
	assert.Equal(t, from[0], from[1], "without a body")
	assert.NotEqual(t, from[2], from[3])
}

func TestReceive_Response_IsReadAndClosed(t *testing.T) {
	t.Parallel()
	cut := errors.New("synthetic cut")
	for name, tc := range map[string]struct {
		status int
		body   io.Reader
		max    int64
		want   string
		err    error
	}{
		"success":      {200, strings.NewReader("abc"), 3, "abc", nil},
		"too long":     {201, strings.NewReader("abcd"), 3, "abc", ErrTooLong},
		"cut":          {200, io.MultiReader(strings.NewReader("a"), failing{cut}), 3, "", cut},
		"refusal":      {422, strings.NewReader("abcd"), 3, "abc", ErrStatus},
		"refusal, cut": {422, io.MultiReader(strings.NewReader("a"), failing{cut}), 3, "a", ErrStatus},
		"refusal, long": {
			500, bytes.NewReader(make([]byte, maxErrorBody+5)), 1 << 30, strings.Repeat("\x00", maxErrorBody), ErrStatus,
		},
		"without a limit": {200, strings.NewReader("abc"), 1<<63 - 1, "abc", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begun(newRequest(Reads, nil))
			defer c.Release()
			c.Peer.MaxBody = tc.max
			a, state := new(Attempt), new(SendState)
			state.Watchdog.Guard(t.Context(), time.Minute)
			defer state.Watchdog.Stop()
			left, body := &leftOpen{Reader: tc.body}, state.Follow(&Body{Bytes: []byte("{}")}, false)
			resp := &http.Response{StatusCode: tc.status, ProtoMajor: 1, Body: left}
			err := c.receive(t.Context(), resp, a, state)
			require.ErrorIs(t, err, tc.err)
			assert.True(t, left.closed)
			_, late := body.Read(make([]byte, 8))
			require.ErrorIs(t, late, errCallOver, "what the request carries is the caller's again")
			assert.Equal(t, tc.want, string(a.Body))
			assert.Equal(t, !errors.Is(err, cut), a.Status == tc.status)
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestClassify_BetterKnownCause_ComesFirst(t *testing.T) {
	t.Parallel()
	live := t.Context()
	over, cancel := context.WithCancelCause(live)
	ended := errors.New("the caller's")
	cancel(ended)
	stalled, stop := context.WithCancelCause(live)
	stall := errors.New("the watchdog's")
	stop(stall)
	lost := errors.New("the transport's")
	for name, tc := range map[string]struct {
		ctx, watched context.Context
		step         Step
		cause        error
		permanent    bool
	}{
		"transport": {live, live, Network, lost, false},
		"watchdog":  {live, stalled, Network, stall, false},
		"caller":    {over, over, Context, ended, true},
		"both":      {over, stalled, Context, ended, true},
	} {
		a := &Attempt{Outcome: Outcome{Sent: Wholly}}
		a.classify(tc.ctx, tc.watched, new(SendState), lost)
		assert.Equal(t, tc.step, a.Step, name)
		require.ErrorIs(t, a.Cause, tc.cause, name)
		assert.Equal(t, tc.step == Context, errors.Is(a.Cause, context.Canceled), name)
		assert.Equal(t, tc.permanent, a.Permanent, name)
		assert.Equal(t, Wholly, a.Sent, name)
	}
}

func TestCheckRetry_PolicyAndContext_Decide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		over, end := context.WithCancel(t.Context())
		end()
		partly, lost := &Attempt{Outcome: Outcome{Sent: Partly}}, &Attempt{Outcome: Outcome{Sent: Wholly}}
		responded := func(status int, retryAfter string) *Attempt {
			return &Attempt{Outcome: Outcome{Status: status, Sent: Wholly}, Header: http.Header{"Retry-After": {retryAfter}}}
		}
		for name, tc := range map[string]struct {
			ctx    context.Context
			effect Effect
			last   *Attempt
			want   bool
		}{
			"502 of a read":               {t.Context(), Reads, responded(502, ""), true},
			"502 of a create":             {t.Context(), Creates, responded(502, ""), false},
			"429 of a create":             {t.Context(), Creates, responded(429, ""), true},
			"asked for what the limit is": {t.Context(), Reads, responded(429, "10"), true},
			"asked for more than that":    {t.Context(), Reads, responded(429, "11"), false},
			"asked for less than is left": {soon, Reads, responded(429, "4"), true},
			"asked for more than is left": {soon, Reads, responded(429, "5"), false},
			"context over":                {over, Reads, responded(502, ""), false},
			"cut within a create":         {t.Context(), Creates, partly, true},
			"lost create":                 {t.Context(), Creates, lost, false},
			"lost read":                   {t.Context(), Reads, lost, true},
			"permanent":                   {t.Context(), Reads, &Attempt{Outcome: Outcome{Permanent: true}}, false},
		} {
			again, err := checked(tc.ctx, after(newRequest(tc.effect, nil), tc.last))
			assert.Equal(t, tc.ctx.Err(), err, "%s: what would be retried but for the context ends with that", name)
			assert.Equal(t, tc.want, again, name)
		}

		c := after(newRequest(Creates, nil), partly)
		for _, want := range []bool{true, false} {
			again, _ := checked(t.Context(), c)
			assert.Equal(t, want, again, "a cut upload is tried once more")
		}
		r := newRequest(Creates, nil)
		r.Body = &Body{Begun: new(atomic.Bool)}
		r.Body.Begun.Store(true)
		again, _ := checked(t.Context(), after(r, responded(429, "")))
		assert.False(t, again, "there is nothing left to send")
		c = after(newRequest(Reads, nil), responded(502, ""))
		c.failures = 3
		again, _ = checked(t.Context(), c)
		assert.False(t, again, "it was retried three times")
	})
}

// begun is a call that has made no attempt yet.
func begun(r *Request) *call {
	c := &call{Request: r, Result: Result{Last: &noAttempt}}
	c.policy = (*defaultPolicy)(c)
	return c
}

// after is a call whose first attempt came to this.
func after(r *Request, a *Attempt) *call {
	a.Err = errors.New("synthetic")
	c := begun(r)
	a.Number, c.Last, c.jitter = 1, a, 0.5
	return c
}

// checked is what the loop learns when it gave back what came of the last attempt.
func checked(ctx context.Context, c *call) (bool, error) {
	if c.Last.Status == 0 {
		return c.checkRetry(ctx, nil, &url.Error{Err: c.Last})
	}
	return c.checkRetry(ctx, &http.Response{StatusCode: c.Last.Status, Header: c.Last.Header}, nil)
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	c := after(newRequest(Reads, nil), new(Attempt))
	pause := func(failures int, a *Attempt) time.Duration {
		c.next = Next{Failures: failures}
		c.Last = a
		return c.backoff(0, 0, 0, nil)
	}
	assert.Equal(t, 1250*time.Millisecond, pause(1, new(Attempt)))
	assert.Equal(t, 5*time.Second, pause(3, new(Attempt)))
	c.jitter = 1
	assert.Equal(t, 6*time.Second, pause(3, new(Attempt)), "not all come back at once")
	asked := &Attempt{Header: http.Header{"Retry-After": {"40"}}}
	assert.Equal(t, 40*time.Second, pause(3, asked))
	asked.LimitedFor = 40 * time.Second
	assert.Zero(t, pause(3, asked), "the next attempt waits at the gate")
	c.next = Next{WithoutPause: true}
	assert.Zero(t, c.backoff(0, 0, 0, nil))
}

func TestBeforeRetry_ReceivesTheFirstUnknownAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{429, 503, 429, 200}
		c := newRequest(Repeatable, func(*http.Request) (*http.Response, error) {
			status := statuses[0]
			statuses = statuses[1:]
			return responds(status, ""), nil
		})
		var asked []int
		c.Caller = &caller{beforeRetry: func(a *Attempt) error { asked = append(asked, a.Number); return nil }}
		result, err := c.Do(t.Context())
		defer result.Release()
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2, 2}, asked, "of the last one while none may have")
		assert.True(t, result.OutcomeUnknown)
		assert.Equal(t, 4, result.Last.Number)
	})
}

func TestDo_StoppedBetweenAttempts_ReturnsTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newRequest(Repeatable, func(*http.Request) (*http.Response, error) { return responds(503, ""), nil })
		enough := fmt.Errorf("synthetic: %w", &url.Error{Op: "Get", Err: io.EOF}) // as an attempt's own, of another call
		c.Caller = &caller{explain: explain, beforeRetry: func(*Attempt) error { return enough }}
		result, err := c.Do(t.Context())
		defer result.Release()
		require.True(t, result.Stopped)
		require.ErrorIs(t, err, enough)
		require.EqualError(t, result.Last.Err, "Service Unavailable")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		c = newRequest(Reads, func(*http.Request) (*http.Response, error) { return responds(503, ""), nil })
		result, err = c.Do(ctx)
		defer result.Release()
		require.True(t, result.Stopped)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestCaller_EachAttempt_BeginsAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := newRequest(Reads, func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			if tries++; tries == 1 {
				return nil, errors.New("synthetic")
			}
			return responds(200, "{}"), nil
		})
		c.Peer.Limit = func(context.Context) error { time.Sleep(5 * time.Second); return nil }
		var told []*Attempt
		c.Caller = &caller{explain: explain, end: func(a *Attempt) { told = append(told, a) }}
		result, err := c.Do(t.Context())
		defer result.Release()
		require.NoError(t, err)
		require.Len(t, told, 2)
		assert.NotSame(t, told[0], told[1], "each is a value of its own")
		assert.Same(t, result.Last, told[1])
		for i, a := range told {
			assert.Equal(t, i+1, a.Number)
			assert.Equal(t, 2*time.Second, a.Duration, "without the limiter's")
		}
		assert.Equal(t, 2*time.Second, time.Since(told[1].Started), "it begins when it is sent, not when it queues")
		assert.Equal(t, Network, told[0].Step)
		require.Error(t, told[0].Err)
		require.NoError(t, told[1].Err)
		assert.EqualValues(t, 2, told[1].BytesReceived)
	})
}

func TestDo_LimiterOrTokenFails_SendsNothing(t *testing.T) {
	t.Parallel()
	refusal := errors.New("synthetic")
	for step, prepare := range map[Step]func(*Request){
		Limit:     func(c *Request) { c.Peer.Limit = func(context.Context) error { return refusal } },
		Authorize: func(c *Request) { c.Authorization = func(context.Context) (string, error) { return "", refusal } },
	} {
		c := newRequest(Creates, func(*http.Request) (*http.Response, error) { assert.Fail(t, "sent"); return nil, refusal })
		prepare(c)
		result, err := c.Do(t.Context())
		require.ErrorIs(t, err, refusal)
		assert.Equal(t, step, result.Last.Step)
		assert.Equal(t, 1, result.Last.Number)
		assert.False(t, result.OutcomeUnknown)
	}
}

// An attempt with a renewed token does not count as a retry.
func TestDo_RenewedToken_IsNotARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{http.StatusUnauthorized, http.StatusServiceUnavailable, http.StatusOK}
		attempts := 0
		r := newRequest(Reads, func(*http.Request) (*http.Response, error) {
			attempts++
			return responds(statuses[attempts-1], "{}"), nil
		})
		r.MaxRetries = 1
		r.Authorization = func(context.Context) (string, error) { return "old", nil }
		r.Renew = func(context.Context, string) string { return "fresh" }
		result, err := r.Do(t.Context())
		require.NoError(t, err)
		result.Release()
		assert.Equal(t, 3, attempts)
	})
}
