package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// scripted is a stream that keeps a diary.
type scripted struct {
	diary   []string
	prepare func(n int) error
	takes   []error // by attempt; beyond them it is complete
	next    exchange.Next
	taken   int
}

var errJudged = errors.New("synthetic: no recording")

func (s *scripted) note(what string) { s.diary = append(s.diary, what) }

func (s *scripted) Prepare(context.Context) error {
	s.note("prepare")
	if s.prepare != nil {
		return s.prepare(s.taken)
	}
	return nil
}

func (s *scripted) Request(ctx context.Context) (*http.Request, error) {
	s.note("request")
	return http.NewRequestWithContext(ctx, http.MethodGet, "https://storage.clinic.test/7", nil)
}

func (s *scripted) Take(_ context.Context, resp *http.Response, _ exchange.Watch) (int64, error) {
	s.note("take " + fmt.Sprint(resp.StatusCode))
	n, _ := io.Copy(io.Discard, resp.Body)
	if s.taken++; s.taken <= len(s.takes) {
		return n, s.takes[s.taken-1]
	}
	return n, nil
}

func (s *scripted) Judged(err error) bool { return errors.Is(err, errJudged) }

func (s *scripted) Next(err error, maxRetries int) exchange.Next {
	s.note(fmt.Sprintf("next %v of %d", err, maxRetries))
	return s.next
}

type storage func(*http.Request) (*http.Response, error)

func (f storage) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func streaming(s *scripted, status int) *exchange.Call {
	return &exchange.Call{
		Peer: &exchange.Peer{
			Transport: storage(func(r *http.Request) (*http.Response, error) {
				s.note(r.Method + " " + r.URL.String() + fmt.Sprint(len(r.Header)))
				return &http.Response{StatusCode: status, Header: http.Header{"Location": {"/8"}}, Body: io.NopCloser(strings.NewReader("synthetic"))}, nil
			}),
			StallTimeout: time.Minute, MinWait: time.Second, MaxWait: 10 * time.Second,
		},
		Method: http.MethodGet, URL: new(url.URL), Stream: s, MaxRetries: 1,
		Explain: exchange.ExplainFunc(func(a *exchange.Attempt) error { return fmt.Errorf("explained %d: %w", a.Step, a.Cause) }),
	}
}

// ended is a hook that learns how attempts end.
type ended func(*exchange.Attempt)

func (ended) Begin(context.Context, *exchange.Attempt) *exchange.Trace { return nil }
func (f ended) End(_ context.Context, a *exchange.Attempt)             { f(a) }

func TestAStreamTakesPartInEveryAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{takes: []error{io.ErrUnexpectedEOF, errJudged, io.ErrUnexpectedEOF}, next: exchange.Next{Retry: true, Failures: 1}}
		call := streaming(s, http.StatusFound)
		var received []int64
		call.Hook = ended(func(a *exchange.Attempt) {
			received = append(received, a.BytesReceived)
			assert.Equal(t, http.StatusFound, a.Status)
		})
		require.NoError(t, call.Do(t.Context()), "the stream's word counts, not the status")
		attempt := []string{"prepare", "request", "GET https://storage.clinic.test/70", "take 302"}
		var want []string
		for _, failure := range []string{"explained 6: unexpected EOF", "explained 7: synthetic: no recording", "explained 6: unexpected EOF"} {
			want = append(append(want, attempt...), "next "+failure+" of 1")
		}
		assert.Equal(t, append(want, attempt...), s.diary, "more often than MaxRetries, and no redirect is followed")
		assert.Equal(t, []int64{9, 9, 9, 9}, received)
	})
}

func TestAStreamSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		next        exchange.Next
		least, most time.Duration
		fails       bool
	}{
		"at once":         {next: exchange.Next{Retry: true, AtOnce: true}},
		"first failure":   {next: exchange.Next{Retry: true, Failures: 1}, least: time.Second / 2, most: time.Second},
		"third failure":   {next: exchange.Next{Retry: true, Failures: 3}, least: 2 * time.Second, most: 4 * time.Second},
		"asked for":       {next: exchange.Next{Retry: true, Failures: 1, RetryAfter: 9 * time.Second}, least: 9 * time.Second, most: 9 * time.Second},
		"asked too much":  {next: exchange.Next{Retry: true, Failures: 1, RetryAfter: 11 * time.Second}, fails: true},
		"nothing follows": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{takes: []error{errJudged}, next: tc.next}
				started := time.Now()
				err := streaming(s, http.StatusOK).Do(t.Context())
				assert.Equal(t, tc.fails, errors.Is(err, errJudged), "%v", err)
				assert.GreaterOrEqual(t, time.Since(started), tc.least)
				assert.LessOrEqual(t, time.Since(started), tc.most)
			})
		})
	}
}

func TestWhatStopsAStreamBetweenAttempts(t *testing.T) {
	t.Parallel()
	noAddress := errors.New("synthetic: no address")
	for failing := range 2 {
		s := &scripted{takes: []error{errJudged}, next: exchange.Next{Retry: true, AtOnce: true}}
		s.prepare = func(n int) error {
			if n == failing {
				return noAddress
			}
			return nil
		}
		call := streaming(s, http.StatusOK)
		err := call.Do(t.Context())
		stopped, ok := errors.AsType[*exchange.Stopped](err)
		require.True(t, ok)
		assert.Equal(t, noAddress, stopped.Reason)
		assert.Equal(t, failing, call.Attempts, "it is no attempt")
		assert.Equal(t, failing == 1, errors.Is(stopped.Err, errJudged))
	}
}
