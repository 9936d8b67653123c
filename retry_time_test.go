package clinicaldoc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// timedClient is a client in virtual time, whose transport is a function, with the default retry policy.
func timedClient(t *testing.T, transport sockTripper, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	all := append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: transport})}, opts...)
	c, err := clinicaldoc.NewClient("https://api.clinic.test", socketToken, all...)
	require.NoError(t, err)
	return c
}

func TestTimeBackoffGrowsWithJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		distinct := map[time.Duration]bool{}
		for range 20 {
			var at []time.Time
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				at = append(at, time.Now())
				return madeResponse(r, http.StatusBadGateway, ""), nil
			})
			_, err := c.Notes.Get(t.Context(), 9)
			require.ErrorIs(t, err, clinicaldoc.ErrServer)
			require.Len(t, at, 4)
			for i, full := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
				wait := at[i+1].Sub(at[i])
				assert.GreaterOrEqual(t, wait, full/2)
				assert.LessOrEqual(t, wait, full)
				distinct[wait] = true
			}
		}
		assert.Greater(t, len(distinct), 30, "clients that fail together must not come back together")
	})
}

func TestTimeRetryAfter(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, tc := range []struct {
		value       string
		least, most time.Duration // never: no second attempt
	}{
		{"7", 7 * time.Second, 7 * time.Second},
		{"30", 30 * time.Second, 30 * time.Second},
		{"31", never, never},
		{"3600", never, never},
		{"9300000000", never, never},           // overflows a duration
		{"99999999999999999999", never, never}, // and a 64-bit number
		{"0", 250 * time.Millisecond, 500 * time.Millisecond},
		{"-5", 250 * time.Millisecond, 500 * time.Millisecond},
		{"1.5", 250 * time.Millisecond, 500 * time.Millisecond},
		{"soon", 250 * time.Millisecond, 500 * time.Millisecond},
		{"", 250 * time.Millisecond, 500 * time.Millisecond},
		{"Mon, 02 Jan 1995 15:04:05 GMT", 250 * time.Millisecond, 500 * time.Millisecond},
		{"date in 12s", 12 * time.Second, 12 * time.Second},
		{"date in 90s", never, never},
		{"Fri, 31 Dec 9999 23:59:59 GMT", never, never},
	} {
		for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprintf("%d %s", code, tc.value), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					value := tc.value
					if in, isDate := strings.CutPrefix(value, "date in "); isDate {
						d, err := time.ParseDuration(in)
						require.NoError(t, err)
						value = time.Now().Add(d).UTC().Format(http.TimeFormat)
					}
					start, attempts := time.Now(), 0
					c := timedClient(t, func(r *http.Request) (*http.Response, error) {
						if attempts++; attempts > 1 {
							return madeResponse(r, http.StatusOK, socketNote(9)), nil
						}
						return madeResponse(r, code, `{"message":"synthetic"}`, "Retry-After", value), nil
					})
					_, err := c.Notes.Get(t.Context(), 9)
					waited := time.Since(start)
					if tc.least == never {
						var answered *clinicaldoc.Error
						require.ErrorAs(t, err, &answered)
						assert.Equal(t, "synthetic", answered.Message)
						assert.Greater(t, answered.RetryAfter, 30*time.Second)
						assert.Zero(t, waited)
						assert.Equal(t, 1, attempts)
						return
					}
					require.NoError(t, err)
					assert.GreaterOrEqual(t, waited, tc.least)
					assert.LessOrEqual(t, waited, tc.most)
				})
			})
		}
	}
}

func TestTimeWaitThatDoesNotFitTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start, attempts := time.Now(), 0
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			attempts++
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "6"), nil
		})
		_, err := c.Notes.Get(ctx, 9)
		var answered *clinicaldoc.Error
		require.ErrorAs(t, err, &answered)
		assert.Equal(t, 6*time.Second, answered.RetryAfter)
		assert.Zero(t, time.Since(start), "there is nothing to wait for")
		assert.Equal(t, 1, attempts)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestTimeContextEndsDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "10"), nil
		})
		for _, call := range []func() error{
			func() error { _, err := c.Notes.Get(ctx, 9); return err },
		} {
			err := call()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
			var answered *clinicaldoc.Error
			require.ErrorAs(t, err, &answered)
			assert.Equal(t, 3*time.Second, time.Since(start))
		}
	})
}

func TestTimeCreateWhoseContextEndsDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", "10"), nil
		})
		_, err := c.Notes.Create(ctx, socketParams(10))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "a 429 was not acted upon")
	})
}

func TestTimeNoRetries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		option []clinicaldoc.Option
		call   []clinicaldoc.CallOption
	}{
		"MaxRetries 0": {option: []clinicaldoc.Option{clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})}},
		"WithoutRetry": {call: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, attempts := time.Now(), 0
				c := timedClient(t, func(r *http.Request) (*http.Response, error) {
					attempts++
					return madeResponse(r, http.StatusServiceUnavailable, `{"message":"synthetic"}`, "Retry-After", "1"), nil
				}, tc.option...)
				_, err := c.Notes.Get(t.Context(), 9, tc.call...)
				var answered *clinicaldoc.Error
				require.ErrorAs(t, err, &answered)
				assert.Equal(t, "synthetic", answered.Message)
				assert.Equal(t, 1, attempts)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

func TestTimeLimiterIsAskedPerAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, attempts := 0, 0
		refusal := errors.New("synthetic: budget spent")
		limiter := limiterFunc(func(context.Context) error {
			if asked++; asked == 4 {
				return refusal
			}
			return nil
		})
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			attempts++
			return madeResponse(r, http.StatusBadGateway, ""), nil
		}, clinicaldoc.WithLimiter(limiter))
		_, err := c.Notes.Get(t.Context(), 9)
		require.ErrorIs(t, err, refusal)
		assert.Equal(t, 4, asked)
		assert.Equal(t, 3, attempts)
	})
}

func TestTimeStall(t *testing.T) {
	t.Parallel()
	t.Run("no answer", func(t *testing.T) {
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
}

// slowReader gives 10 bytes after each pause.
type slowReader struct {
	text  string
	pause time.Duration
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	time.Sleep(r.pause)
	n := copy(p[:min(len(p), 10)], r.text)
	r.text = r.text[n:]
	return n, nil
}

// shelf is a service that lists notes and loses the answer of a create.
type shelf struct {
	notes     []string // newest first unless ascending
	ascending bool
	listed    int
	ahead     time.Duration // of its clock
	whileList func(*shelf)
}

func (s *shelf) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		_, _ = io.Copy(io.Discard, r.Body)
		return nil, io.ErrUnexpectedEOF
	}
	s.listed++
	if s.whileList != nil {
		s.whileList(s)
	}
	rows := append([]string(nil), s.notes...)
	if s.ascending {
		for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
			rows[i], rows[j] = rows[j], rows[i]
		}
	}
	page := 1
	_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
	last := max(1, (len(rows)+99)/100)
	from, to := min(len(rows), (page-1)*100), min(len(rows), page*100)
	body := fmt.Sprintf(`{"data":[%s],"meta":{"current_page":%d,"last_page":%d,"per_page":100}}`, strings.Join(rows[from:to], ","), page, last)
	return madeResponse(r, http.StatusOK, body, "Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat)), nil
}

func (s *shelf) note(id int64, name string, patient, size int64, at time.Time) string {
	return fmt.Sprintf(`{"id":%d,"name":%q,"team_id":1,"user_id":1,"patient":{"id":%d},"audio":{"size":%d},"created_at":%q}`,
		id, name, patient, size, at.Add(s.ahead).UTC().Format(time.RFC3339Nano))
}

// old adds notes of the past, one a minute, from two hours ago.
func (s *shelf) old(n int) {
	for i := range n {
		s.notes = append(s.notes, s.note(int64(n-i), "Synthetic note", 7, 10, time.Now().Add(-2*time.Hour-time.Duration(i)*time.Minute)))
	}
}

// loseCreate makes a create whose answer is lost.
func loseCreate(t *testing.T, c *clinicaldoc.Client) *clinicaldoc.OutcomeUnknownError {
	t.Helper()
	_, err := c.Notes.Create(t.Context(), socketParams(10))
	var unknown *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, err, &unknown)
	return unknown
}

func TestTimeFindCreated(t *testing.T) {
	t.Parallel()
	later := func(after int, id int64) func(*shelf) {
		return func(s *shelf) {
			if s.listed == after {
				s.notes = append([]string{s.note(id, "Synthetic note", 7, 10, time.Now())}, s.notes...)
			}
		}
	}
	for _, tc := range []struct {
		name    string
		prepare func(*shelf)
		id      int64 // of the note found; 0: see want
		want    []error
		within  time.Duration
		lists   int // exactly, when not 0
	}{
		{name: "at once", prepare: func(s *shelf) { s.old(20); s.whileList = later(1, 900) }, id: 900, lists: 1},
		{name: "at once, trimmed name", prepare: func(s *shelf) {
			s.old(3)
			s.notes = append([]string{s.note(900, " Synthetic note ", 7, 10, time.Now())}, s.notes...)
		}, id: 900},
		{name: "later", prepare: func(s *shelf) { s.old(20); s.whileList = later(6, 901) }, id: 901, within: 10 * time.Second},
		{name: "many old ones, newest first", prepare: func(s *shelf) { s.old(1000); s.whileList = later(1, 9001) }, id: 9001, lists: 1},
		{name: "many old ones, oldest first", prepare: func(s *shelf) { s.ascending = true; s.old(1000); s.whileList = later(1, 9001) }, id: 9001, lists: 11},
		{name: "clock ahead", prepare: func(s *shelf) { s.ahead = 3 * time.Hour; s.old(5); s.whileList = later(1, 902) }, id: 902},
		{name: "clock behind", prepare: func(s *shelf) { s.ahead = -3 * time.Hour; s.old(5); s.whileList = later(1, 903) }, id: 903},
		{name: "not created", prepare: func(s *shelf) { s.old(20) }, want: []error{clinicaldoc.ErrNotCreated}, within: 30 * time.Second},
		{name: "not created, empty list", prepare: func(*shelf) {}, want: []error{clinicaldoc.ErrNotCreated}, within: 30 * time.Second},
		{name: "other name", prepare: func(s *shelf) { s.notes = []string{s.note(1, "Another note", 7, 10, time.Now())} }, want: []error{clinicaldoc.ErrNotCreated}, within: 30 * time.Second},
		{name: "other size", prepare: func(s *shelf) { s.notes = []string{s.note(1, "Synthetic note", 7, 11, time.Now())} }, want: []error{clinicaldoc.ErrNotCreated}, within: 30 * time.Second},
		{name: "several", prepare: func(s *shelf) {
			s.notes = []string{s.note(2, "Synthetic note", 7, 10, time.Now()), s.note(1, "Synthetic note", 7, 10, time.Now())}
		}, want: []error{clinicaldoc.ErrOutcomeUnknown}, lists: 1},
		{name: "another patient's", prepare: func(s *shelf) {
			s.notes = []string{s.note(2, "Synthetic note", 8, 10, time.Now())}
		}, want: []error{clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrPatientMismatch}, lists: 1},
		{name: "no creation times", prepare: func(s *shelf) {
			s.notes = []string{`{"id":1,"name":"Synthetic note","patient":{"id":7}}`}
		}, want: []error{clinicaldoc.ErrOutcomeUnknown}, lists: 1},
		{name: "too many, oldest first", prepare: func(s *shelf) { s.ascending = true; s.old(5100) }, want: []error{clinicaldoc.ErrOutcomeUnknown}, lists: 50},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &shelf{}
				tc.prepare(s)
				c := timedClient(t, s.RoundTrip)
				unknown := loseCreate(t, c)
				start := time.Now()
				note, err := c.Notes.FindCreated(t.Context(), unknown)
				if tc.id != 0 {
					require.NoError(t, err)
					assert.Equal(t, tc.id, note.ID)
				}
				for _, want := range tc.want {
					require.ErrorIs(t, err, want)
				}
				if tc.within == 30*time.Second {
					assert.Equal(t, tc.within, time.Since(start), "surely not created only when the service has had its time")
					require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				} else {
					assert.LessOrEqual(t, time.Since(start), tc.within)
				}
				if tc.lists > 0 {
					assert.Equal(t, tc.lists, s.listed)
				}
			})
		})
	}
}

func TestTimeFindCreatedLongAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		s.old(20)
		c := timedClient(t, s.RoundTrip)
		unknown := loseCreate(t, c)
		time.Sleep(time.Minute)
		start := time.Now()
		_, err := c.Notes.FindCreated(t.Context(), unknown)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, s.listed)
	})
}

func TestTimeFindCreatedOfAStoredError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Rebuilt from what a program had stored, it does not tell when the answer was lost: the service is given its time.
		s := &shelf{}
		s.old(20)
		c := timedClient(t, s.RoundTrip)
		unknown := loseCreate(t, c)
		start := time.Now()
		_, err := c.Notes.FindCreated(t.Context(), &clinicaldoc.OutcomeUnknownError{Params: unknown.Params, SentAt: unknown.SentAt})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestTimeFindCreatedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		c := timedClient(t, s.RoundTrip)
		unknown := loseCreate(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Notes.FindCreated(ctx, unknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestTimeFindCreatedNeedsSomethingToLookFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		c := timedClient(t, s.RoundTrip)
		_, err := c.Notes.FindCreated(t.Context(), nil)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		_, err = c.Notes.FindCreated(t.Context(), &clinicaldoc.OutcomeUnknownError{})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		_, err = c.Notes.FindCreated(t.Context(), &clinicaldoc.OutcomeUnknownError{SentAt: time.Now()})
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Zero(t, s.listed)
	})
}
