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

// scripted is a policy and a receiver that keeps a diary.
type scripted struct {
	diary   []string
	prepare func(n int) error
	takes   []error // by attempt; beyond them it is complete
	next    exchange.Next
	taken   int
}

var errJudged = fmt.Errorf("synthetic: no recording (%w)", exchange.ErrUnusable)

func (s *scripted) note(what string) { s.diary = append(s.diary, what) }

func (s *scripted) Prepare(req *http.Request) error {
	s.note("prepare")
	req.URL = &url.URL{Scheme: "https", Host: "storage.clinic.test", Path: "/7"}
	req.Header = http.Header{"Range": {"bytes=1-"}}
	if s.prepare != nil {
		return s.prepare(s.taken)
	}
	return nil
}

func (s *scripted) Receive(_ context.Context, resp *http.Response, _ exchange.Watch) (int64, error) {
	s.note("receive " + fmt.Sprint(resp.StatusCode))
	n, _ := io.Copy(io.Discard, resp.Body)
	if s.taken++; s.taken <= len(s.takes) {
		return n, s.takes[s.taken-1]
	}
	return n, nil
}

func (s *scripted) Next(a *exchange.Attempt) exchange.Next {
	s.note(fmt.Sprintf("next %v", a.Err))
	return s.next
}

type storage func(*http.Request) (*http.Response, error)

func (f storage) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func streaming(s *scripted, status int, header ...string) *exchange.Request {
	return &exchange.Request{
		Peer: &exchange.Peer{
			Transport: storage(func(r *http.Request) (*http.Response, error) {
				s.note(r.Method + " " + r.URL.String() + fmt.Sprint(len(r.Header)))
				resp := &http.Response{
					StatusCode: status, Header: http.Header{"Location": {"/8"}}, Body: io.NopCloser(strings.NewReader("synthetic")),
				}
				for i := 0; i < len(header); i += 2 {
					resp.Header.Set(header[i], header[i+1])
				}
				return resp, nil
			}),
			StallTimeout: time.Minute, MinWait: time.Second, MaxWait: 10 * time.Second, MaxRetryAfter: 10 * time.Second,
		},
		Method: http.MethodGet, URL: new(url.URL), Policy: s,
		Caller: ended{end: func(*exchange.Attempt) {}},
	}
}

// ended is a caller that learns how attempts end.
type ended struct {
	caller
	end func(*exchange.Attempt)
}

func (e ended) End(_ context.Context, a *exchange.Attempt) { e.end(a) }

func (ended) Explain(a, _ *exchange.Attempt) error {
	return fmt.Errorf("explained %d: %w", a.Step, a.Cause)
}

func TestPolicy_EveryAttempt_PreparesReceivesAndDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{
			takes: []error{io.ErrUnexpectedEOF, errJudged, io.ErrUnexpectedEOF}, next: exchange.Next{Retry: true, Failures: 1},
		}
		call := streaming(s, http.StatusFound)
		var received []int64
		call.Caller = ended{end: func(a *exchange.Attempt) {
			received = append(received, a.BytesReceived)
			assert.Equal(t,
				!errors.Is(a.Err, io.ErrUnexpectedEOF), a.Status == http.StatusFound, "one that broke off did not come",
			)
		}}
		_, err := call.Do(t.Context())
		require.NoError(t, err, "the policy's word counts, not the status")
		attempt := []string{"prepare", "GET https://storage.clinic.test/71", "receive 302"}
		var want []string
		for _, failure := range []string{
			"explained 6: unexpected EOF", "explained 7: " + errJudged.Error(), "explained 6: unexpected EOF",
		} {
			want = append(append(want, attempt...), "next "+failure)
		}
		assert.Equal(t, append(want, attempt...), s.diary, "the policy counts, and no redirect is followed")
		assert.Equal(t, []int64{9, 9, 9, 9}, received)
	})
}

func TestPolicy_Failures_SetTheWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		next        exchange.Next
		asked       string
		least, most time.Duration
		fails       bool
	}{
		"at once":       {next: exchange.Next{Retry: true, WithoutPause: true}},
		"first failure": {next: exchange.Next{Retry: true, Failures: 1}, least: time.Second, most: time.Second * 3 / 2},
		"third failure": {next: exchange.Next{Retry: true, Failures: 3}, least: 4 * time.Second, most: 6 * time.Second},
		"asked for": {
			next: exchange.Next{Retry: true, Failures: 1}, asked: "9", least: 9 * time.Second, most: 9 * time.Second,
		},
		"asked too much":  {next: exchange.Next{Retry: true, Failures: 1}, asked: "11", fails: true},
		"nothing follows": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{takes: []error{errJudged}, next: tc.next}
				started := time.Now()
				_, err := streaming(s, http.StatusOK, "Retry-After", tc.asked).Do(t.Context())
				assert.Equal(t, tc.fails, errors.Is(err, errJudged), "%v", err)
				assert.GreaterOrEqual(t, time.Since(started), tc.least)
				assert.LessOrEqual(t, time.Since(started), tc.most)
			})
		})
	}
}

// An error of the policy's Prepare ends the call. It counts as no attempt: the result keeps the attempt before it.
func TestDo_PrepareFails_EndsTheCall(t *testing.T) {
	t.Parallel()
	noAddress := errors.New("synthetic: no address")
	for name, attempts := range map[string]int{"before the first attempt": 0, "before the second attempt": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{takes: []error{errJudged}, next: exchange.Next{Retry: true, WithoutPause: true}}
			s.prepare = func(taken int) error {
				if taken == attempts {
					return noAddress
				}
				return nil
			}
			result, err := streaming(s, http.StatusOK).Do(t.Context())
			require.True(t, result.Stopped)
			assert.Equal(t, noAddress, err)
			assert.Equal(t, attempts, result.Last.Number)
			if attempts == 0 {
				require.NoError(t, result.Last.Err)
			} else {
				require.ErrorIs(t, result.Last.Err, errJudged, "the first attempt's own")
			}
		})
	}
}
