package clinicaldoc_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

func TestNewClient_InvalidOptions_AreRejected(t *testing.T) {
	t.Parallel()
	type test struct {
		option clinicaldoc.Option
		names  string
	}
	subtests(t, map[string]test{
		"nil option":            {nil, "option"},
		"nil HTTP client":       {clinicaldoc.WithHTTPClient(nil), "WithHTTPClient"},
		"nil token source":      {clinicaldoc.WithTokenSource(nil), "WithTokenSource"},
		"negative retries":      {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: -1}), "WithRetry"},
		"negative least wait":   {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MinWait: -1}), "WithRetry"},
		"negative longest wait": {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxWait: -1}), "WithRetry"},
		"waits the wrong way":   {clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MinWait: 2, MaxWait: 1}), "WithRetry"},
		"nil limiter":           {clinicaldoc.WithLimiter(nil), "WithLimiter"},
		"nil logger":            {clinicaldoc.WithLogger(nil), "WithLogger"},
		"nil audit function":    {clinicaldoc.WithAudit(nil), "WithAudit"},
		"equal names": {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "x", Sort: "x"}),
			"WithQueryNames"},
		"name equal to default": {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "page"}),
			"WithQueryNames"},
		"name with a comma": {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Sort: "sort,omitempty"}),
			"WithQueryNames"},
		"name with a control":   {clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Page: "pa\nge"}), "WithQueryNames"},
		"empty user agent":      {clinicaldoc.WithUserAgent(""), "WithUserAgent"},
		"user agent, two lines": {clinicaldoc.WithUserAgent("a\r\nX-Evil: b"), "WithUserAgent"},
		"zero stall timeout":    {clinicaldoc.WithStallTimeout(0), "WithStallTimeout"},
		"negative stall":        {clinicaldoc.WithStallTimeout(-time.Second), "WithStallTimeout"},
		"zero size":             {clinicaldoc.WithMaxResponseSize(0), "WithMaxResponseSize"},
		"negative size":         {clinicaldoc.WithMaxResponseSize(-1), "WithMaxResponseSize"},
	}, func(t *testing.T, tt test) {
		client, err := clinicaldoc.NewClient(testBase, testToken, tt.option)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.ErrorContains(t, err, tt.names)
		assert.Nil(t, client)
	})
}

// If only one of MinWait and MaxWait is set, the default of the other is adjusted to it.
func TestRetryPolicy_OneOfTheWaits_Suffices(t *testing.T) {
	t.Parallel()
	for _, policy := range []clinicaldoc.RetryPolicy{{MinWait: time.Minute}, {MaxWait: time.Millisecond}} {
		_, err := clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithRetry(policy))
		require.NoError(t, err, "%+v", policy)
	}
}

func TestOptions_SeveralClients_ShareThem(t *testing.T) {
	t.Parallel()
	opts := []clinicaldoc.Option{
		clinicaldoc.WithHTTPClient(&http.Client{}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}),
		clinicaldoc.WithLogger(slog.New(slog.DiscardHandler)),
		onAttempt(func(context.Context, clinicaldoc.Attempt) {}),
		clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Page: "p"}),
		clinicaldoc.WithUserAgent("a"), clinicaldoc.WithInsecureHTTP(), clinicaldoc.WithStallTimeout(time.Second),
		clinicaldoc.WithMaxResponseSize(1),
	}
	var workers sync.WaitGroup
	for range 20 {
		workers.Go(func() {
			if _, err := clinicaldoc.NewClient(testBase, testToken, opts...); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
}

func TestEndpoints_CallOptions_AreApplied(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		t.Run(e.operation, func(t *testing.T) {
			t.Parallel()
			want := e.request()
			want.url += "?include=a+b%26c&include=second"
			want.header = map[string]string{"X-Trace": "one, two", "X-Tenant": "7"}
			want.status = http.StatusAccepted
			want.answerHeader = map[string]string{
				"X-Request-Id": "req-1", "X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "59",
				"X-RateLimit-Reset": "1714558272", "X-Other": "kept",
			}
			client := serve(t, want)
			var response clinicaldoc.Response
			_, err := e.call(t.Context(), client,
				clinicaldoc.WithQuery("include", "a b&c"), clinicaldoc.WithQuery("include", "second"),
				clinicaldoc.WithHeader("x-trace", "one"), clinicaldoc.WithHeader("X-Trace", "two"),
				clinicaldoc.WithHeader("X-Tenant", "7"),
				clinicaldoc.WithoutRetry(), clinicaldoc.WithResponse(&response))
			require.NoError(t, err)
			assert.Equal(t, "kept", response.Header.Get("X-Other"))
			response.Header = nil
			assert.Equal(t, clinicaldoc.Response{
				StatusCode: http.StatusAccepted, RequestID: "req-1", Attempts: 1, Body: []byte(e.ok),
				RateLimit: clinicaldoc.RateLimit{Limit: 60, Remaining: 59,
					Reset: time.Date(2024, 5, 1, 10, 11, 12, 0, time.UTC)},
			}, response)
		})
	}
}

func TestCallOptions_Invalid_AreRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		option clinicaldoc.CallOption
		names  string
	}{
		"nil option":           {nil, "option"},
		"nil response":         {clinicaldoc.WithResponse(nil), "WithResponse"},
		"empty query key":      {clinicaldoc.WithQuery("", "x"), "WithQuery"},
		"empty header key":     {clinicaldoc.WithHeader("", "x"), "WithHeader"},
		"header key of words":  {clinicaldoc.WithHeader("two words", "x"), "WithHeader"},
		"header with a break":  {clinicaldoc.WithHeader("X-A", "x\r\nX-B: y"), "WithHeader"},
		"header with a delete": {clinicaldoc.WithHeader("X-A", "x\x7f"), "WithHeader"},
	}
	for _, own := range []string{
		"accept", "Accept-Encoding", "authorization", "Connection", "Content-Encoding", "Content-Length",
		"Content-Type", "Cookie", "EXPECT", "host",
		"If-Range", "Range", "Idempotency-Key", "X-Idempotency-Key", "Proxy-Authorization", "Trailer",
		"Transfer-Encoding", "Upgrade", "User-Agent", "X-HTTP-Method-Override",
	} {
		tests["own header "+own] = struct {
			option clinicaldoc.CallOption
			names  string
		}{clinicaldoc.WithHeader(own, "x"), http.CanonicalHeaderKey(own)}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t)
			for _, e := range endpoints() {
				_, err := e.call(t.Context(), client, tt.option)
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, e.operation)
				require.ErrorContains(t, err, tt.names, e.operation)
			}
			for note, err := range client.Notes.All(t.Context(), listParams{}, tt.option) {
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
				assert.Nil(t, note)
			}
		})
	}
}

func TestWithUserAgent_ReplacesTheDefault(t *testing.T) {
	t.Parallel()
	s, httpClient := newScript(t, call{url: "/user", response: `{"id":2}`})
	s.userAgent = "ward-app/3 (test)"
	client := clientOn(t, httpClient, clinicaldoc.WithUserAgent("ward-app/3 (test)"))
	must(client.Users.Me(t.Context()))(t)
}

func TestTokenSource_EachCall_IsAsked(t *testing.T) {
	t.Parallel()
	_, httpClient := newScript(t,
		call{url: "/user", response: `{"id":2}`, header: map[string]string{"Authorization": "Bearer token-1"}},
		call{url: "/user", response: `{"id":2}`, header: map[string]string{"Authorization": "Bearer token-2"}},
	)
	asked := 0
	client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(httpClient),
		clinicaldoc.WithTokenSource(tokenFunc(func(ctx context.Context) (string, error) {
			assert.Equal(t, "call", ctx.Value(contextKey{}))
			asked++
			return "token-" + string(rune('0'+asked)), nil
		})))
	require.NoError(t, err)
	assert.Zero(t, asked, "NewClient asks nothing")
	for range 2 {
		_, err = client.Users.Me(context.WithValue(t.Context(), contextKey{}, "call"))
		require.NoError(t, err)
	}
}

func TestTokenSource_Failure_EndsTheCall(t *testing.T) {
	t.Parallel()
	broken := errors.New("vault says secret")
	type test struct {
		token string
		err   error
		match error
	}
	subtests(t, map[string]test{
		"error":            {"", broken, broken},
		"empty token":      {"", nil, clinicaldoc.ErrInvalidArgument},
		"unsendable token": {"secret\n", nil, clinicaldoc.ErrInvalidArgument},
	}, func(t *testing.T, tt test) {
		_, httpClient := newScript(t)
		client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(httpClient),
			clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return tt.token, tt.err })))
		require.NoError(t, err)
		for _, e := range endpoints() {
			_, err = e.call(t.Context(), client)
			require.ErrorIs(t, err, tt.match, e.operation)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, e.operation)
			assert.NotContains(t, err.Error(), "secret", e.operation)
			assert.Contains(t, err.Error(), "token source", e.operation)
		}
	})
}

// A limiter that knows in advance that the context ends first says so in words, as *rate.Limiter does.
func TestLimiter_DeadlineOfItsOwn_MatchesDeadlineExceeded(t *testing.T) {
	t.Parallel()
	refusal := errors.New("rate: Wait(n=1) would exceed context deadline")
	client := clientOn(t, &http.Client{},
		clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { return refusal })))
	ctx := endsAfter(t, time.Hour)
	_, err := client.Users.Me(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, refusal)
	assert.NotContains(t, err.Error(), "refused")
	_, err = client.Users.Me(t.Context())
	require.NotErrorIs(t, err, context.DeadlineExceeded, "there is none")
}

func TestWithHTTPClient_ChangedLater_HasNoEffect(t *testing.T) {
	t.Parallel()
	_, httpClient := newScript(t, call{url: "/user", response: `{"id":2}`})
	httpClient.Timeout = time.Minute
	before := *httpClient
	client := clientOn(t, httpClient)
	assert.Equal(t, before, *httpClient)
	httpClient.Transport = nil // a later change does not reach the client
	must(client.Users.Me(t.Context()))(t)

	zero := new(http.Client)
	must(clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHTTPClient(zero)))(t)
	assert.Nil(t, zero.Transport, "the client does not change the caller's")
}

func TestWithMaxResponseSize_LongerResponse_IsRejected(t *testing.T) {
	t.Parallel()
	answer := `{"id":2,"name":"` + strings.Repeat("x", 100) + `"}`
	size := int64(len(answer))
	client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithMaxResponseSize(size)},
		call{url: "/user", response: answer})
	must(client.Users.Me(t.Context()))(t)

	client = serveWith(t, []clinicaldoc.Option{clinicaldoc.WithMaxResponseSize(size - 1)},
		call{url: "/user", response: answer})
	var response clinicaldoc.Response
	_, err := client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorContains(t, err, "WithMaxResponseSize")
	assert.Len(t, response.Body, int(size-1))
}

func TestWithToken_ReplacesTheToken(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newNoteServer()
			client := d.client(t)
			read := must(client.Notes.Get(socketContext(t), 9, clinicaldoc.WithToken("another-token")))(t)
			d.faults = []writeFault{{status: http.StatusServiceUnavailable}}
			require.NoError(t,
				call(socketContext(t), client, clinicaldoc.WithToken("another-token"), clinicaldoc.IfUnchanged(read)))
			assert.Equal(t, map[string]bool{"Bearer another-token": true}, d.tokens,
				"every request of the call carries it")
		})
	}
	for _, bad := range []string{"", "two words", "line\nbreak"} {
		_, err := serve(t).Users.Me(t.Context(), clinicaldoc.WithToken(bad))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		if bad != "" {
			assert.NotContains(t, err.Error(), bad)
		}
	}
}

func TestWithHTTPClient_CallersClient_IsNotChanged(t *testing.T) {
	t.Parallel()
	script := newSocketSteps(socketLost(t), socketStatus(http.StatusFound, "", "Location", "/v1/progress-notes/9"),
		socketStatus(http.StatusOK, socketNote(9)))
	srv := socketHandler(t, script.ServeHTTP)
	tr := socketTransport(t)
	asked := 0
	own := &http.Client{
		Transport: tr, Timeout: 17 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { asked++; return http.ErrUseLastResponse },
	}
	before := *own
	must(socketClient(t, srv.URL, clinicaldoc.WithHTTPClient(own)).Notes.Get(socketContext(t), 9))(t)
	assert.Same(t, tr, own.Transport)
	assert.Equal(t, before.Timeout, own.Timeout)
	assert.NotNil(t, own.CheckRedirect)
	assert.Nil(t, own.Jar)
	assert.Zero(t, asked, "the SDK's own redirect rules apply")
}

// The Timeout of the caller's http.Client ends an attempt, which may be retried. The error names it.
func TestWithHTTPClient_Timeout_EndsAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := 1 // so many attempts get no response
		own := &http.Client{Timeout: 5 * time.Second,
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if silent--; silent >= 0 {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return madeResponse(r, http.StatusOK, socketNote(9)), nil
			})}
		retries := clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: 1, MaxWait: 1}
		client := clientOn(t, own, clinicaldoc.WithRetry(retries))
		started := time.Now()
		must(client.Notes.Get(t.Context(), 9))(t)
		assert.InDelta(t, own.Timeout, time.Since(started), float64(time.Millisecond))

		silent = 1
		_, err := client.Notes.Get(t.Context(), 9, clinicaldoc.WithoutRetry())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "Timeout of the http.Client")
	})
}

// teams is a gateway in front of two services: a header picks the team, and so the service.
type teams struct {
	a, b *clinicaldoctest.Server
	*http.Transport

	mu    sync.Mutex
	wrong []string // requests without what the call was given, or with what belongs to its edit
	seen  int
}

func newTeams(t *testing.T) *teams {
	t.Helper()
	g := &teams{a: clinicaldoctest.NewServer(), b: clinicaldoctest.NewServer(clinicaldoctest.WithToken(teamToken)),
		Transport: socketTransport(t)}
	t.Cleanup(g.a.Close)
	t.Cleanup(g.b.Close)
	g.a.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Synthetic of A", Stage: clinicaldoctest.StageSigned})
	g.b.AddNote(clinicaldoctest.Note{PatientID: 8, Name: "Synthetic of B", Stage: clinicaldoctest.StageComplete,
		CreatedAt: time.Now().Add(-72 * time.Hour)})
	return g
}

const teamToken = "2|synthetic-token-of-b"

func (g *teams) RoundTrip(r *http.Request) (*http.Response, error) {
	host := strings.TrimPrefix(g.a.URL, "http://")
	if r.URL.Host != host { // storage
		return g.Transport.RoundTrip(r)
	}
	isEdit := r.Method != http.MethodGet
	isForTeam := r.Header.Get("X-Team") == "B" && r.URL.Query().Get("region") == "two"
	isOfUser := r.Header.Get("Authorization") == "Bearer "+teamToken
	isConditional := r.Header.Get("If-Match") != ""
	describesBody := r.Header.Get("Content-Language") != ""
	g.mu.Lock()
	g.seen++
	if !isForTeam || !isOfUser || isConditional != isEdit || describesBody != isEdit {
		g.wrong = append(g.wrong, r.Method+" "+r.URL.Path)
	}
	g.mu.Unlock()
	if r.Header.Get("X-Team") == "B" {
		r = r.Clone(r.Context())
		r.URL.Host = strings.TrimPrefix(g.b.URL, "http://")
		r.Host = r.URL.Host
	}
	return g.Transport.RoundTrip(r)
}

// All requests that a call makes have its headers, query and token. Only an edit itself has the conditions, and the
// headers that describe a body.
func TestCallOptions_InnerRequests_GoWhereTheCallGoes(t *testing.T) {
	t.Parallel()
	type call func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (patient int64,
		err error)
	ofNote := func(note *clinicaldoc.ProgressNote, err error) (int64, error) {
		if err != nil {
			return 0, err
		}
		patient, _ := note.PatientID()
		return patient, nil
	}
	unchanged := func(edit func(context.Context, *clinicaldoc.Client, ...clinicaldoc.CallOption) (int64, error)) call {
		return func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
			read, err := c.Notes.Get(ctx, 1, opts[:3]...)
			if err != nil {
				return 0, err
			}
			return edit(ctx, c, append(opts, clinicaldoc.IfUnchanged(read))...)
		}
	}
	var (
		sign call = func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
			return ofNote(c.Notes.Sign(ctx, 1, opts...))
		}
		update call = func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
			return ofNote(c.Notes.Update(ctx, 1, updateParams{Name: new("Synthetic, changed")}, opts...))
		}
		remove call = func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
			_, err := c.Notes.Delete(ctx, 1, opts...)
			return 8, err
		}
	)
	lost := func(route string) func(*clinicaldoctest.Server) {
		return func(b *clinicaldoctest.Server) {
			b.Inject(route, clinicaldoctest.Answer(http.StatusServiceUnavailable, ""))
		}
	}
	type test struct {
		prepare  func(b *clinicaldoctest.Server)
		call     call
		requests int
	}
	subtests(t, map[string]test{
		"Sign after a lost response":   {lost(clinicaldoctest.RouteSignNote), sign, 3},
		"Sign of what was read":        {lost(clinicaldoctest.RouteSignNote), unchanged(sign), 5},
		"Update after a lost response": {lost(clinicaldoctest.RouteUpdateNote), update, 3},
		"Update of what was read":      {lost(clinicaldoctest.RouteUpdateNote), unchanged(update), 5},
		"Delete of what was read":      {lost(clinicaldoctest.RouteDeleteNote), unchanged(remove), 5},
		"Sign that is refused": {
			func(b *clinicaldoctest.Server) {
				b.Inject(clinicaldoctest.RouteSignNote, clinicaldoctest.Answer(http.StatusForbidden, "{}"))
			},
			func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
				_, err := c.Notes.Sign(ctx, 1, opts...)
				if !errors.Is(err, clinicaldoc.ErrForbidden) {
					return 0, fmt.Errorf("got: %w", err)
				}
				return 8, nil
			}, 2,
		},
		"Wait": {nil, func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
			return ofNote(c.Notes.Wait(ctx, 1, waitParams{}, opts...))
		}, 1},
		"WaitAll": {
			func(b *clinicaldoctest.Server) {
				for range 29 {
					b.AddNote(clinicaldoctest.Note{PatientID: 8})
				}
			},
			func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
				ids := make([]int64, 30)
				for i := range ids {
					ids[i] = int64(i + 1)
				}
				notes, err := clinicaldoc.Collect(c.Notes.WaitAll(ctx, ids, waitParams{}, opts...))
				if err != nil || len(notes) != 30 {
					return 0, fmt.Errorf("%d notes: %w", len(notes), err)
				}
				return ofNote(notes[1], nil)
			}, 31,
		},
		"All": {nil, func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
			notes, err := clinicaldoc.Collect(c.Notes.All(ctx, listParams{Verify: true}, opts...))
			if err != nil || len(notes) != 1 {
				return 0, fmt.Errorf("%d notes: %w", len(notes), err)
			}
			return ofNote(notes[0], nil)
		}, 2},
		"FindCreated": {nil,
			func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
				lost := &clinicaldoc.OutcomeUnknownError{
					Params: createParams{Name: "Synthetic, lost", PatientID: 8}, AudioSize: 12,
					SentAt: time.Now().Add(-time.Hour), LostAt: time.Now().Add(-time.Hour), Service: c.BaseURL(), UserID: 9,
				}
				_, err := c.Notes.FindCreated(ctx, lost, clinicaldoc.FindCreatedParams{Settle: time.Nanosecond}, opts...)
				if !errors.Is(err, clinicaldoc.ErrNotCreated) && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
					return 0, fmt.Errorf("got: %w", err)
				}
				return 8, nil
			}, 2},
		"DownloadAudio": {nil,
			func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
				n, err := c.Notes.DownloadAudio(ctx, 1, io.Discard, downloadParams{}, opts...)
				if n == 0 {
					return 0, err
				}
				return 8, err
			}, 2},
		"OpenAudio": {nil,
			func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (int64, error) {
				stream, err := c.Notes.OpenAudio(ctx, 1, opts...)
				if err != nil {
					return 0, err
				}
				return 8, stream.Close()
			}, 1},
	}, func(t *testing.T, tt test) {
		g := newTeams(t)
		if tt.prepare != nil {
			tt.prepare(g.b)
		}
		client := socketClient(t, g.a.URL, over(g))
		patient, err := tt.call(socketContext(t), client, clinicaldoc.WithHeader("X-Team", "B"),
			clinicaldoc.WithQuery("region", "two"),
			clinicaldoc.WithToken(teamToken), clinicaldoc.WithHeader("If-Match", `"synthetic"`),
			clinicaldoc.WithHeader("Content-Language", "de"))
		require.NoError(t, err)
		assert.EqualValues(t, 8, patient, "the note is team B's")
		assert.Empty(t, g.wrong)
		assert.GreaterOrEqual(t, g.seen, tt.requests)
		assert.Equal(t, "Synthetic of A", g.a.Notes()[0].Name)
	})
}

// A Response that an earlier call has filled is cleared, so it cannot be mistaken for the response of this call.
func TestWithResponse_EarlierResponse_IsCleared(t *testing.T) {
	t.Parallel()
	stale := clinicaldoc.Response{StatusCode: 200, Body: []byte("another patient's"), RequestID: "r", Attempts: 1,
		Header: http.Header{"X": {"y"}}}
	client := serve(t)
	for _, e := range endpoints() {
		response := stale
		_, err := e.call(t.Context(), client, clinicaldoc.WithQuery("", ""), clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Equal(t, clinicaldoc.Response{}, response, e.operation+": an option is rejected")
	}
	ended := endedContext(t)
	p := &patientFile{eavesdropper: newEavesdropper(t), client: client}
	for name, method := range methodsOf(client) {
		response := stale
		err := p.callWithCanaries(ended, method, []clinicaldoc.CallOption{clinicaldoc.WithResponse(&response)})
		require.Error(t, err, name)
		assert.Equal(t, clinicaldoc.Response{}, response, name+": an argument is rejected, or the context has ended")
	}
}

// renewing is a source whose tokens are numbered. It makes another one when the last is reported as refused.
type renewing struct {
	accepted atomic.Int32 // by the service

	mu      sync.Mutex
	current int
	asked   int
	refused []string
}

func (s *renewing) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return fmt.Sprint("synthetic-", s.current), nil
}

func (s *renewing) Invalidate(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, token)
	if token == fmt.Sprint("synthetic-", s.current) {
		s.current++
	}
}

// service returns a client of a service that accepts only one token of the source, and lets next respond then.
func (s *renewing) service(t *testing.T, next http.HandlerFunc, policy clinicaldoc.RetryPolicy) *clinicaldoc.Client {
	t.Helper()
	server := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") != fmt.Sprint("Bearer synthetic-", s.accepted.Load()) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
	options := []clinicaldoc.Option{clinicaldoc.WithTokenSource(s), clinicaldoc.WithRetry(policy)}
	return must(clinicaldoc.NewClient(server.URL, "", options...))(t)
}

// newRenewing returns a source with the token 0, whose service accepts only the token of that number.
func newRenewing(accepted int32) *renewing {
	s := new(renewing)
	s.accepted.Store(accepted)
	return s
}

func TestTokenSource_RefusedToken_IsRenewed(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		source := newRenewing(1)
		var served atomic.Int32
		client := source.service(t, func(w http.ResponseWriter, _ *http.Request) {
			served.Add(1)
			_, _ = io.WriteString(w, e.request().response)
		}, clinicaldoc.RetryPolicy{})
		_, err := e.call(socketContext(t), client)
		require.NoError(t, err, e.operation)
		assert.Equal(t, []string{"synthetic-0"}, source.refused, e.operation)
		assert.Equal(t, 2, source.asked, "%s: once more", e.operation)
		assert.EqualValues(t, 1, served.Load(), e.operation)
	}
}

// If the token of WithToken is refused, the request is not repeated with the client's own token.
func TestTokenSource_TokenOfACall_IsNotRenewed(t *testing.T) {
	t.Parallel()
	source := newRenewing(0)
	var served atomic.Int32
	serve := func(http.ResponseWriter, *http.Request) { served.Add(1) }
	client := source.service(t, serve, clinicaldoc.RetryPolicy{})
	_, err := client.Notes.Sign(socketContext(t), 7, clinicaldoc.WithToken("another-token"))
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	assert.Empty(t, source.refused)
	assert.Zero(t, served.Load(), "nothing is done in the client's name")
}

func TestTokenSource_RefusedAgain_IsRenewedOnce(t *testing.T) {
	t.Parallel()
	source := newRenewing(99)
	client := source.service(t, nil, clinicaldoc.RetryPolicy{})
	var response clinicaldoc.Response
	_, err := client.Users.Me(socketContext(t), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	assert.Equal(t, 2, response.Attempts)
	assert.Equal(t, []string{"synthetic-0"}, source.refused, "the second one is another call's matter")
	_, err = client.Users.Me(socketContext(t), clinicaldoc.WithToken("another"), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	assert.Equal(t, 1, response.Attempts, "a token for one call has no source")

	server := socketHandler(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	client, err = clinicaldoc.NewClient(server.URL, "",
		clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return "same", nil })))
	require.NoError(t, err)
	_, err = client.Users.Me(socketContext(t), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	assert.Equal(t, 1, response.Attempts)
}

func TestTokenSource_Stream_IsNotSentTwice(t *testing.T) {
	t.Parallel()
	source := newRenewing(1)
	client := source.service(t, nil, clinicaldoc.RetryPolicy{})
	_, err := client.Notes.Create(socketContext(t), createParams{
		Name: "synthetic", Audio: clinicaldoc.AudioReader("a.wav", strings.NewReader("synthetic")),
	})
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Equal(t, []string{"synthetic-0"}, source.refused, "the next call has another token")
}

func TestTokenSource_TokenExpiresBetweenPages_IsRenewed(t *testing.T) {
	t.Parallel()
	source := newRenewing(0)
	client := source.service(t, func(w http.ResponseWriter, r *http.Request) {
		n := source.accepted.Add(1) // the token that was used has expired
		if strings.HasSuffix(r.URL.Path, "/7") {
			complete := n > 5
			_, _ = fmt.Fprintf(w,
				`{"id":7,"name":"synthetic","has":{"content":%t,"transcription":%t},"created_at":"2026-01-02T03:04:05Z"}`, complete, complete)
			return
		}
		_, _ = fmt.Fprintf(w,
			`{"data":[{"id":%d,"name":"synthetic","created_at":"2026-01-02T03:04:05Z"}],"meta":{"current_page":%d,"last_page":3,"per_page":1,"total":3}}`, n, n)
	}, clinicaldoc.RetryPolicy{})
	notes := must(clinicaldoc.Collect(client.Notes.All(socketContext(t), listParams{PerPage: 1})))(t)
	assert.Len(t, notes, 3)
	must(client.Notes.Wait(socketContext(t), 7, waitParams{Interval: 50 * time.Millisecond}))(t)
	assert.Len(t, source.refused, 5, "of all but the first")
}

func TestTokenSource_ManyCalls_RenewOnce(t *testing.T) {
	t.Parallel()
	source := newRenewing(1)
	client := source.service(t, socketStatus(http.StatusOK, `{"id":7,"name":"synthetic"}`), clinicaldoc.RetryPolicy{})
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			_, err := client.Users.Me(socketContext(t))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, []string{"synthetic-0"}, source.refused)
}

// cachedFile is a source that reads a file again when its token was refused.
type cachedFile struct {
	mu           sync.Mutex
	file, cached string
	refusals     int
}

func (s *cachedFile) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached = cmp.Or(s.cached, s.file)
	return s.cached, nil
}

func (s *cachedFile) Invalidate(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached = ""
	s.refusals++
}

// The source may read a file before the new token is in it, and return the refused token once more. Then Invalidate is
// called again.
func TestTokenSource_SameTokenAgain_IsReportedAgain(t *testing.T) {
	t.Parallel()
	server := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer fresh" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"id":7,"name":"synthetic","email":"a@clinic.test"}`)
	})
	source := &cachedFile{file: "old"}
	client, err := clinicaldoc.NewClient(server.URL, "", clinicaldoc.WithTokenSource(source))
	require.NoError(t, err)
	for earlier := range 2 {
		var response clinicaldoc.Response
		_, err = client.Users.Me(socketContext(t), clinicaldoc.WithResponse(&response))
		require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
		assert.Equal(t, 1, response.Attempts, "the same token is not sent twice")
		assert.Equal(t, earlier+1, source.refusals, "once a call")
	}
	source.file = "fresh"
	must(client.Users.Me(socketContext(t)))(t)
	assert.Equal(t, 3, source.refusals)
}

// A client passes a refused token to the source once. It remembers a thousand such tokens, and then forgets them.
func TestTokenSource_ManyRefusedTokens_AreForgotten(t *testing.T) {
	t.Parallel()
	type test struct{ refusals, want int } // want: how often the source gets its first token back
	subtests(t, map[string]test{"few": {10, 1}, "many": {1100, 2}}, func(t *testing.T, tt test) {
		source := new(renewing)
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			source.mu.Lock()
			defer source.mu.Unlock()
			if source.current == 0 { // another call has renewed the token meanwhile
				source.current = 1 + len(source.refused)
			}
			return madeResponse(r, http.StatusUnauthorized, "{}"), nil
		})
		opts := []clinicaldoc.Option{over(transport), clinicaldoc.WithTokenSource(source)}
		client := must(clinicaldoc.NewClient("https://api.clinic.test", "", opts...))(t)
		for range tt.refusals {
			_, err := client.Users.Me(t.Context())
			require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
		}
		require.Len(t, source.refused, tt.refusals)
		source.current = 0 // as a call that began with the first token
		_, err := client.Users.Me(t.Context())
		require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
		passed := 0
		for _, token := range source.refused {
			if token == "synthetic-0" {
				passed++
			}
		}
		assert.Equal(t, tt.want, passed)
	})
}

// A source may take its time to hear of a refused token, or call the client meanwhile: no call outlives its context for
// that.
func TestTokenSource_RenewalOfAnotherCall_DoesNotBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &slowSource{hears: make(chan struct{})}
		client := must(clinicaldoc.NewClient(testBase, "", clinicaldoc.WithTokenSource(source), once,
			over(answerWith(http.StatusUnauthorized, "application/json", []byte("{}")))))(t)
		go func() { _, _ = client.Users.Me(t.Context()) }()
		synctest.Wait()
		ctx := endsAfter(t, time.Second)
		begun := time.Now()
		_, err := client.Users.Me(ctx)
		require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
		assert.Equal(t, time.Second, time.Since(begun))
		close(source.hears)
	})
}

// slowSource hears of refused tokens when it is time.
type slowSource struct{ hears chan struct{} }

func (s *slowSource) Token(context.Context) (string, error) { return "synthetic", nil }

func (s *slowSource) Invalidate(string) {
	select {
	case <-s.hears:
	case <-time.After(time.Hour):
	}
}

// The body in a Response stays unchanged when later calls use the buffers again.
func TestWithResponse_Body_OutlivesLaterCalls(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
	t.Cleanup(srv.Close)
	client := srv.Client()
	first, second := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "First"}),
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Second"})
	var response clinicaldoc.Response
	must(client.Notes.Get(t.Context(), first, clinicaldoc.WithResponse(&response)))(t)
	for range 50 {
		must(client.Notes.Get(t.Context(), second))(t)
	}
	assert.Contains(t, string(response.Body), "First")
}

// sentHeaders records the header of each request by its URL's host and path, and plays the service and its storage.
type sentHeaders struct {
	changes bool // it changes a value in each header that it gets

	mu   sync.Mutex
	sent map[string][]http.Header
}

func (s *sentHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil {
		s.sent = map[string][]http.Header{}
	}
	where := r.Method + " " + r.URL.Host + r.URL.Path
	s.sent[where] = append(s.sent[where], r.Header.Clone())
	if tenant := r.Header["X-Tenant"]; s.changes && tenant != nil {
		tenant[0] = "changed"
	}
	switch {
	case r.URL.Host == "storage.clinic.test":
		return madeResponse(r, http.StatusOK, "synthetic", "Content-Type", "audio/wav"), nil
	case strings.HasSuffix(r.URL.Path, "/audio-url"):
		return madeResponse(r, http.StatusOK, `{"url":"https://storage.clinic.test/a"}`), nil
	case r.URL.Path == "/user":
		return madeResponse(r, http.StatusOK, `{"id":1,"name":"synthetic","email":"synthetic@clinic.test"}`), nil
	case r.Method == http.MethodGet && r.URL.Path == "/v1/progress-notes":
		return madeResponse(r, http.StatusOK, `{"data":[`+socketNote(9)+`]}`), nil
	case r.Method == http.MethodPut && len(s.sent[where]) == 1:
		return nil, io.ErrUnexpectedEOF // the note is read before it is sent again
	}
	return madeResponse(r, http.StatusOK, socketNote(9)), nil
}

func TestWithHeaders_SentToTheServiceAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &sentHeaders{changes: true}
		const asGiven = "x-tenant" // a caller's map need not be canonical
		given := http.Header{asGiven: {"north"}, "X-Many": {"one", "two"}}
		client := timedClient(t, transport.RoundTrip, clinicaldoc.WithHeaders(given))
		given[asGiven][0] = "changed afterwards" //nolint:staticcheck // see above
		given.Set("X-Later", "added afterwards")
		ctx := t.Context()
		must(client.Users.Me(ctx))(t)
		must(clinicaldoc.Collect(client.Notes.All(ctx, listParams{})))(t)
		_, err := client.Notes.Update(ctx, 9, updateParams{Name: new("synthetic")})
		require.Error(t, err, "the response was lost, and the note shows a change")
		must(client.Notes.DownloadAudio(ctx, 9, io.Discard, downloadParams{}))(t)
		must(client.Notes.Create(ctx, socketParams(10)))(t)
		require.NoError(t, client.Do(ctx, http.MethodGet, "/v1/teams", nil, nil))
		for where, headers := range transport.sent {
			for _, header := range headers {
				if strings.Contains(where, "storage.clinic.test") {
					assert.Empty(t, header.Values("X-Tenant"), where)
					assert.Empty(t, header.Values("X-Many"), where)
					continue
				}
				assert.Equal(t, []string{"north"}, header.Values("X-Tenant"), where)
				assert.Equal(t, []string{"one", "two"}, header.Values("X-Many"), where)
				assert.Empty(t, header.Values("X-Later"), where)
			}
		}
		assert.Contains(t, transport.sent, "GET storage.clinic.test/a")
		assert.Contains(t, transport.sent, "GET api.clinic.test/v1/progress-notes/9", "the read before a retry")
	})
}

func TestWithHeaders_OneCallOverrides(t *testing.T) {
	t.Parallel()
	transport := &sentHeaders{changes: true}
	client := timedClient(t, transport.RoundTrip,
		clinicaldoc.WithHeaders(http.Header{"X-Tenant": {"north"}, "X-Other": {"kept"}}),
		clinicaldoc.WithHeaders(http.Header{"X-More": {"added"}}))
	must(client.Notes.Get(t.Context(), 9))(t)
	must(client.Notes.Get(t.Context(), 9, clinicaldoc.WithHeader("x-tenant", "south")))(t)
	must(client.Notes.Get(t.Context(), 9))(t)
	var tenants []string
	for _, header := range transport.sent["GET api.clinic.test/v1/progress-notes/9"] {
		tenants = append(tenants, header.Values("X-Tenant")...)
		assert.Equal(t, []string{"kept"}, header.Values("X-Other"))
		assert.Equal(t, []string{"added"}, header.Values("X-More"))
	}
	assert.Equal(t, []string{"north", "south", "north"}, tenants, "no call changes the header of a later one")
}

func TestWithHeaders_Rejected(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"Authorization", "authorization", "Content-Type", "Content-Length", "Host", "Cookie", "User-Agent", "Accept",
		"Idempotency-Key", "Expect",
		"Range", "Proxy-Authorization", "X y", "",
	} {
		_, err := clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHeaders(http.Header{key: {"canary"}}))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, key)
		assert.Contains(t, err.Error(), "WithHeaders")
		assert.NotContains(t, err.Error(), "canary")
	}
	_, err := clinicaldoc.NewClient(testBase, testToken,
		clinicaldoc.WithHeaders(http.Header{"X-Tenant": {"canary\r\nX-More: 1"}}))
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	must(clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHeaders(nil)))(t)
}

// A header identifies the same tenant whether it is set for the client or for the call.
func TestWithHeaders_PartOfALossesIdentity(t *testing.T) {
	t.Parallel()
	tenant := func(name string) http.Header { return http.Header{"X-Tenant": {name}, "X-Request-Id": {"of " + name}} }
	lose := func(client *clinicaldoc.Client, opts ...clinicaldoc.CallOption) string {
		_, err := client.Notes.Create(t.Context(), socketParams(10), opts...)
		unknown := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
		encoded := must(json.Marshal(unknown))(t)
		var kept struct {
			Where string `json:"where"`
		}
		require.NoError(t, json.Unmarshal(encoded, &kept))
		return kept.Where
	}
	lost := roundTripper(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return nil, io.ErrUnexpectedEOF
	})
	plain := timedClient(t, lost)
	north := timedClient(t, lost, clinicaldoc.WithHeaders(tenant("north")))
	byCall := lose(plain, clinicaldoc.WithHeader("X-Tenant", "north"))
	assert.NotEmpty(t, byCall)
	assert.Equal(t, byCall, lose(north))
	assert.Equal(t, byCall, fileheader.HeadersOf(north), "journals know the tenant by the same fingerprint")
	assert.Empty(t, fileheader.HeadersOf(plain))
	assert.Equal(t, byCall, lose(timedClient(t, lost, clinicaldoc.WithHeaders(tenant("south"))),
		clinicaldoc.WithHeader("X-Tenant", "north")))
	assert.NotEqual(t, byCall, lose(timedClient(t, lost, clinicaldoc.WithHeaders(tenant("south")))))
	assert.Empty(t, lose(plain))
	requestID := http.Header{"X-Request-Id": {"synthetic"}}
	assert.Empty(t, lose(timedClient(t, lost, clinicaldoc.WithHeaders(requestID))), "it names a request, not a tenant")
}

// structSource is a token source, a limiter and a transport that holds its secret in a field, as a value and not a
// pointer.
type structSource struct{ Secret string }

func (s structSource) Token(context.Context) (string, error) { return s.Secret, nil }

func (structSource) Invalidate(string) {}

func (structSource) Wait(context.Context) error { return nil }

func (structSource) RoundTrip(r *http.Request) (*http.Response, error) {
	return madeResponse(r, http.StatusOK, `{"id":1,"name":"synthetic"}`), nil
}

// holder has the client where fmt calls none of its methods.
type holder struct {
	client  clinicaldoc.Client
	pointer *clinicaldoc.Client
	headers clinicaldoc.Option
	token   clinicaldoc.Option
}

func TestClient_CallersSecrets_AreNotPrinted(t *testing.T) {
	t.Parallel()
	source := structSource{Secret: canary}
	options := []clinicaldoc.Option{
		clinicaldoc.WithHeaders(http.Header{"X-Tenant": {canary}}),
		clinicaldoc.WithTokenSource(source), clinicaldoc.WithLimiter(source), over(source),
	}
	sourced := must(clinicaldoc.NewClient(testBase, "", options...))(t)
	fixed := must(clinicaldoc.NewClient(testBase, canary, over(source)))(t)
	for name, client := range map[string]*clinicaldoc.Client{"token source": sourced, "token": fixed} {
		values := map[string]any{
			"pointer":          client,
			"value":            *client,
			"pointers":         []*clinicaldoc.Client{client},
			"values":           []clinicaldoc.Client{*client},
			"unexported field": holder{*client, client, options[0], options[1]},
			"options":          options,
			"call option":      clinicaldoc.WithToken(canary),
		}
		for field, value := range reflect.ValueOf(client).Elem().Fields() {
			if !field.IsExported() {
				continue
			}
			values[field.Name] = value.Interface()
			values[field.Name+" by value"] = value.Elem().Interface()
		}
		require.Contains(t, values, "Notes by value")
		for what, value := range values {
			for _, verb := range append([]string{"%T", "%U", "%#x", "%# x"}, verbs...) {
				for _, printed := range []any{value, &value, struct{ V any }{value}} {
					assertSilent(t, fmt.Sprintf(verb, printed), name+", "+what+" "+verb)
				}
			}
			var log strings.Builder
			slog.New(slog.NewTextHandler(&log, nil)).Info("client", "value", value)
			slog.New(slog.NewJSONHandler(&log, nil)).Info("client", "value", value)
			assertSilent(t, log.String(), name+", "+what+" in slog")
		}
	}
}
