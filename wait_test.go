package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// requireWaitError demands an error of a wait for note 7.
func requireWaitError(t *testing.T, err, target error) *clinicaldoc.WaitError {
	t.Helper()
	waited := requireAs[*clinicaldoc.WaitError](t, err)
	require.ErrorIs(t, err, target)
	assert.Equal(t, int64(7), waited.ID)
	return waited
}

func TestWait_Until_EndsAtThatStageOrLater(t *testing.T) {
	t.Parallel()
	for i, until := range stagesInOrder {
		timedSubtest(t, until.String(), func(t *testing.T) {
			service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
				return made(r, 200, noteIn(7, stagesInOrder[min(n, len(stagesInOrder))-1]))
			})
			note := must(client.Notes.Wait(t.Context(), 7, waitParams{Until: until}))(t)
			assert.Equal(t, until, note.Stage())
			assert.Len(t, service.polls, i+1)
		})
	}
	timedSubtest(t, "beyond", func(t *testing.T) {
		_, client := newPolled(t, always(200, noteAt(7, stageSigned, 1)))
		note := must(client.Notes.Wait(t.Context(), 7, waitParams{Until: stageTranscribed}))(t)
		assert.Equal(t, stageSigned, note.Stage())
	})
}

// dayOfPolls is what 24 hours of waiting may cost with the defaults; the documentation of Wait states it.
const dayOfPolls = 1850

func TestWait_OneDay_PollsABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(200, noteAt(7, stageAnalysing, 1)))
		started := time.Now()
		note, err := client.Notes.Wait(t.Context(), 7, waitParams{})
		waited := requireWaitError(t, err, context.DeadlineExceeded)
		assert.Nil(t, note)
		assert.Equal(t, 24*time.Hour, time.Since(started), "a context without a deadline ends the wait after a day")
		assert.Equal(t, 24*time.Hour, waited.Elapsed)
		assert.Equal(t, len(service.polls), waited.Polls)
		assert.Equal(t, stageAnalysing, waited.Note.Stage())
		assert.LessOrEqual(t, len(service.polls), dayOfPolls)
		assert.Greater(t, len(service.polls), 1400)
		t.Logf("%d polls in 24 hours", len(service.polls))
	})
}

func TestWait_AnyResponse_NeverSpins(t *testing.T) {
	t.Parallel()
	past := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat)
	timedSubtests(t, map[string]func(int, time.Duration, *http.Request) *reply{
		"a note that stays": always(200, noteAt(7, stageUploaded, 1)),
		"a note that changes": func(n int, _ time.Duration, r *http.Request) *reply {
			return made(r, 200, noteAt(7, stageUploaded, n))
		},
		"lost answers":            inOrder(""),
		"nothing":                 always(200, ""),
		"HTML":                    always(200, "<html></html>", "Content-Type", "text/html"),
		"another note":            always(200, noteAt(8, stageComplete, 1)),
		"server errors":           always(500, `{}`),
		"Retry-After 0":           always(429, `{}`, "Retry-After", "0"),
		"Retry-After negative":    always(429, `{}`, "Retry-After", "-5"),
		"Retry-After past":        always(503, `{}`, "Retry-After", past),
		"Retry-After overflowing": always(503, `{}`, "Retry-After", "99999999999999999999"),
		"Retry-After nonsense":    always(429, `{}`, "Retry-After", "soon"),
		"reset in the past": always(200, noteAt(7, stageUploaded, 1), "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", "1"),
		"reset overflowing": always(200, noteAt(7, stageUploaded, 1), "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", "9223372036854775807"),
		"date overflowing": always(200, noteAt(7, stageUploaded, 1),
			"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1", "Date", "Mon, 01 Jan 0001 00:00:00 GMT"),
	}, func(t *testing.T, answer func(int, time.Duration, *http.Request) *reply) {
		service, client := newPolled(t, answer)
		ctx := endsAfter(t, 3*time.Hour)
		_, err := client.Notes.Wait(ctx, 7, waitParams{MaxFailures: 1 << 30})
		_ = requireWaitError(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, len(service.polls), 300)
		assert.Greater(t, len(service.polls), 1)
		for _, pause := range service.pauses() {
			assert.GreaterOrEqual(t, pause, 2*time.Second)
			assert.LessOrEqual(t, pause, time.Hour)
		}
	})
}

// Wait pauses for as long as the service asks. How X-RateLimit-Reset is read is tested with Response.
func TestWait_ServiceAsksForAPause_Waits(t *testing.T) {
	t.Parallel()
	const poll = -1 // the pause is the usual one between polls
	retryAfter := func(status int, value string) func(*http.Request) *reply {
		return func(r *http.Request) *reply { return made(r, status, `{}`, "Retry-After", value) }
	}
	limited := func(remaining string, reset time.Duration) func(*http.Request) *reply {
		return func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, stageUploaded, 1), "X-RateLimit-Remaining", remaining,
				"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(reset).Unix()))
		}
	}
	type test struct {
		first func(r *http.Request) *reply
		pause time.Duration
	}
	timedSubtests(t, map[string]test{
		"Retry-After beats the interval":       {retryAfter(429, "300"), 300 * time.Second},
		"Retry-After of a server error":        {retryAfter(503, "90"), 90 * time.Second},
		"a short Retry-After does not shorten": {retryAfter(429, "1"), poll},
		"at most an hour":                      {retryAfter(429, "86400"), time.Hour},
		"an exhausted limit, until its reset":  {limited("0", 40*time.Second), 40 * time.Second},
		"a reset years ahead is not believed":  {limited("0", 3*365*24*time.Hour), poll},
		"a remainder that is not a number":     {limited("none", 40*time.Second), poll},
		"a limit that is not exhausted":        {limited("1", 40*time.Second), poll},
	}, func(t *testing.T, tt test) {
		service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
			if n == 1 {
				return tt.first(r)
			}
			return made(r, 200, noteAt(7, stageComplete, 2))
		})
		must(client.Notes.Wait(t.Context(), 7, waitParams{}))(t)
		require.Len(t, service.polls, 2)
		if tt.pause != poll {
			assert.Equal(t, tt.pause, service.polls[1].at)
			return
		}
		assert.GreaterOrEqual(t, service.polls[1].at, 2*time.Second)
		assert.LessOrEqual(t, service.polls[1].at, 3*time.Second)
	})
}

func TestWait_RequestedPauseBeyondTheDeadline_EndsWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(429, `{}`, "Retry-After", "300"))
		ctx := endsAfter(t, 20*time.Second)
		_, err := client.Notes.Wait(ctx, 7, waitParams{})
		waited := requireWaitError(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited, "the error also has the reason")
		assert.Equal(t, 20*time.Second, waited.Elapsed)
		assert.Len(t, service.polls, 1, "the deadline is checked after the pause")
		assert.Nil(t, waited.Note)
	})
}

// Wait continues after up to MaxFailures failed polls in a row, of any kind, and a success resets the count. One more
// failure ends it.
func TestWait_FailuresInARow_AreSurvived(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(int, time.Duration, *http.Request) *reply{
		"lost":    inOrder(""),
		"429":     always(429, `{}`),
		"408":     always(408, ``),
		"500":     always(500, `{"message":"Server Error"}`),
		"502":     always(502, "<html>", "Content-Type", "text/html"),
		"HTML":    always(200, "<html>", "Content-Type", "text/html"),
		"no id":   always(200, `{}`),
		"other":   always(200, noteAt(8, stageComplete, 1)),
		"nothing": always(204, ``),
	}, func(t *testing.T, failure func(int, time.Duration, *http.Request) *reply) {
		// Polls 1 to 3 fail, 4 succeeds, 5 to 7 fail, and 8 returns the complete note.
		answer := func(n int, at time.Duration, r *http.Request) *reply {
			switch n {
			case 4:
				return made(r, 200, noteAt(7, stageTranscribing, 1))
			case 8:
				return made(r, 200, noteAt(7, stageComplete, 2))
			}
			return failure(n, at, r)
		}
		service, client := newPolled(t, answer)
		note := must(client.Notes.Wait(t.Context(), 7, waitParams{MaxFailures: 3}))(t)
		assert.Equal(t, stageComplete, note.Stage())
		assert.Len(t, service.polls, 8, "a poll is one request, without the client's retries")

		service, client = newPolled(t, answer)
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{MaxFailures: 2})
		waited := requireAs[*clinicaldoc.WaitError](t, err)
		require.Error(t, waited.Err, "the latest failure")
		assert.Equal(t, int64(7), waited.ID)
		assert.Equal(t, 3, waited.Polls)
		assert.Len(t, service.polls, 3)
	})
}

func TestWait_MaxFailures_DefaultsToTen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(500, `{}`))
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{})
		_ = requireWaitError(t, err, clinicaldoc.ErrServer)
		assert.Len(t, service.polls, 11)
	})
}

func TestWait_FinalStatus_EndsImmediately(t *testing.T) {
	t.Parallel()
	for status, target := range map[int]error{
		401: clinicaldoc.ErrUnauthorized, 403: clinicaldoc.ErrForbidden, 404: clinicaldoc.ErrNotFound,
		409: clinicaldoc.ErrConflict, 422: clinicaldoc.ErrValidation, 501: clinicaldoc.ErrServer,
	} {
		timedSubtest(t, strconv.Itoa(status), func(t *testing.T) {
			service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
				if n == 1 {
					return made(r, 200, noteAt(7, stageTranscribing, 1))
				}
				return made(r, status, `{"message":"synthetic secret"}`)
			})
			_, err := client.Notes.Wait(t.Context(), 7, waitParams{})
			waited := requireWaitError(t, err, target)
			assert.Len(t, service.polls, 2)
			assert.Equal(t, 2, waited.Polls)
			assert.Equal(t, stageTranscribing, waited.Note.Stage(), "the last note is kept")
			assert.NotContains(t, err.Error(), "secret")
			answered := requireAs[*clinicaldoc.Error](t, err)
			assert.Equal(t, status, answered.StatusCode)
		})
	}
}

// A proxy that asks people to log in may redirect for a while, so Wait continues if it has seen the note before. If it
// never has, the base URL is probably wrong.
func TestWait_RedirectOfAKnownNote_IsSurvived(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seen  int
		made  bool
		polls int
	}{"never seen": {0, false, 1}, "seen": {1, false, 5}, "made by this client": {0, true, 5}} {
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
				switch {
				case r.Method == http.MethodPost:
					return made(r, 201, noteIn(7, stageUploaded))
				case n <= tc.seen:
					return made(r, 200, noteAt(7, stageTranscribing, 1))
				case n < 5:
					return made(r, 302, "")
				}
				return made(r, 200, noteAt(7, stageComplete, 2))
			})
			if tc.made {
				create(t, client)
				service.polls = nil
			}
			_, err := client.Notes.Wait(t.Context(), 7, waitParams{})
			if tc.polls == 1 {
				_ = requireWaitError(t, err, clinicaldoc.ErrUnexpectedResponse)
			} else {
				require.NoError(t, err, name)
			}
			assert.Len(t, service.polls, tc.polls, name)
		})
	}
}

// create creates note 7.
func create(t *testing.T, client *clinicaldoc.Client) {
	t.Helper()
	must(client.Notes.Create(t.Context(), createParams{Name: "Synthetic note"}))(t)
}

// lagging is a service whose Create gives note 7, which reads find only after the lag.
func lagging(t *testing.T, lag time.Duration) (*polled, *clinicaldoc.Client) {
	t.Helper()
	return newPolled(t, func(_ int, at time.Duration, r *http.Request) *reply {
		switch {
		case r.Method == http.MethodPost:
			return made(r, 201, noteIn(7, stageUploaded))
		case at < lag:
			return made(r, 404, `{"message":"Resource not found"}`)
		}
		return made(r, 200, noteIn(7, stageComplete))
	})
}

func TestWait_LaggingReplicaAfterCreate_IsSurvived(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(context.Context, *clinicaldoc.Client, waitParams) error{
		"Wait": func(ctx context.Context, c *clinicaldoc.Client, params waitParams) error {
			_, err := c.Notes.Wait(ctx, 7, params)
			return err
		},
		"WaitAll": func(ctx context.Context, c *clinicaldoc.Client, params waitParams) error {
			var last error
			for _, err := range c.Notes.WaitAll(ctx, []int64{7}, params) {
				last = err
			}
			return last
		},
	}, func(t *testing.T, wait func(context.Context, *clinicaldoc.Client, waitParams) error) {
		_, client := lagging(t, 9*time.Second)
		create(t, client)
		require.NoError(t, wait(t.Context(), client,
			waitParams{Interval: 500 * time.Millisecond, MaxInterval: time.Second, MaxFailures: 1}),
			"such a 404 is no failure of the service")

		service, client := lagging(t, time.Hour)
		create(t, client)
		_ = requireWaitError(t, wait(t.Context(), client, waitParams{}), clinicaldoc.ErrNotFound)
		last := service.polls[len(service.polls)-1].at
		assert.GreaterOrEqual(t, last, 10*time.Second)
		assert.Less(t, last, 15*time.Second, "it is survived for ten seconds")

		service, client = lagging(t, time.Hour)
		create(t, client)
		time.Sleep(10 * time.Second)
		_ = requireWaitError(t, wait(t.Context(), client, waitParams{}), clinicaldoc.ErrNotFound)
		assert.Len(t, service.polls, 2, "ten seconds later it is final")

		service, client = lagging(t, time.Hour)
		create(t, client)
		_, err := client.Notes.Delete(t.Context(), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
		_ = requireWaitError(t, wait(t.Context(), client, waitParams{}), clinicaldoc.ErrNotFound)
		assert.Len(t, service.polls, 3, "nor after this client's Delete")

		service, client = lagging(t, time.Second)
		_ = requireWaitError(t, wait(t.Context(), client, waitParams{}), clinicaldoc.ErrNotFound)
		assert.Len(t, service.polls, 1, "nor does a note count that this client has not created")
	})
}

// While this client deletes a note, not finding it is no sign of a replica that lags.
func TestWait_NoteBeingDeleted_EndsImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, func(_ int, _ time.Duration, r *http.Request) *reply {
			switch r.Method {
			case http.MethodPost:
				return made(r, 201, noteIn(7, stageUploaded))
			case http.MethodDelete:
				time.Sleep(5 * time.Second) // it is carried out, and the response under way
				return made(r, 200, `{}`)
			}
			return made(r, 404, `{}`)
		})
		_, err := client.Notes.Create(t.Context(), createParams{Name: "Synthetic note"})
		require.NoError(t, err)
		var workers sync.WaitGroup
		workers.Go(func() {
			_, err := client.Notes.Delete(t.Context(), 7)
			assert.NoError(t, err)
		})
		time.Sleep(time.Second)
		begin := time.Now()
		_, err = client.Notes.Wait(t.Context(), 7, waitParams{})
		_ = requireWaitError(t, err, clinicaldoc.ErrNotFound)
		assert.Zero(t, time.Since(begin))
		workers.Wait()
	})
}

// A request just after Create may reach a replica that lags, however long its response takes.
func TestWait_Slow404AfterCreate_IsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := lagging(t, 12*time.Second)
		create(t, client)
		service.took = 11 * time.Second
		must(client.Notes.Wait(t.Context(), 7, waitParams{}))(t)
	})
}

func TestWait_OtherStatusAfterCreate_EndsImmediately(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 410, 422} {
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
				if n == 1 {
					return made(r, 201, noteIn(7, stageUploaded))
				}
				return made(r, status, `{}`)
			})
			create(t, client)
			_, err := client.Notes.Wait(t.Context(), 7, waitParams{})
			require.Error(t, err)
			assert.Len(t, service.polls, 2, status)
		})
	}
}

func TestWait_DeadlineOnALaggingReplica_ErrorHasBothCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := lagging(t, time.Hour)
		create(t, client)
		ctx := endsAfter(t, 5*time.Second)
		_, err := client.Notes.Wait(ctx, 7, waitParams{})
		_ = requireWaitError(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	})
}

func TestWait_FailedNote_IsReportedWithoutItsText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, inOrder(noteAt(7, stageTranscribing, 1), noteAt(7, stageFailed, 2)))
		note, err := client.Notes.Wait(t.Context(), 7, waitParams{})
		assert.Nil(t, note)
		waited := requireWaitError(t, err, clinicaldoc.ErrProcessingFailed)
		assert.Equal(t, "synthetic secret of a patient", *waited.Note.ErrorState, "it can be asked for")
		assert.Equal(t, 2, waited.Polls)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text := fmt.Sprintf(verb, err)
			assert.NotContains(t, text, "secret")
			assert.Contains(t, text, "note 7 (failed, 2 polls")
			assert.Contains(t, text, "the service reports an error state for it; see Note.ErrorState")
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Error("failed", "err", waited)
		assert.NotContains(t, log.String(), "secret")
		assert.Contains(t, log.String(), `"stage":"failed"`)
	})
}

func TestWait_ContextEnds_Ends(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "cancelled in a pause", func(t *testing.T) {
		service, client := newPolled(t, always(200, noteAt(7, stageTranscribing, 1)))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := client.Notes.Wait(ctx, 7, waitParams{})
		waited := requireWaitError(t, err, context.Canceled)
		assert.Equal(t, time.Second, waited.Elapsed)
		assert.Len(t, service.polls, 1)
		assert.NotNil(t, waited.Note)
	})
	timedSubtest(t, "over before it began", func(t *testing.T) {
		service, client := newPolled(t, always(200, noteAt(7, stageTranscribing, 1)))
		ctx := endedContext(t)
		_, err := client.Notes.Wait(ctx, 7, waitParams{})
		_ = requireWaitError(t, err, context.Canceled)
		assert.Empty(t, service.polls)
	})
	timedSubtest(t, "a deadline beyond a day is kept", func(t *testing.T) {
		_, client := newPolled(t, always(200, noteAt(7, stageTranscribing, 1)))
		ctx := endsAfter(t, 30*time.Hour)
		_, err := client.Notes.Wait(ctx, 7, waitParams{})
		assert.Equal(t, 30*time.Hour, requireWaitError(t, err, context.DeadlineExceeded).Elapsed)
	})
}

// A number without a unit is a number of nanoseconds, so the error shows the unit.
func TestWait_InvalidParams_AreRejected(t *testing.T) {
	t.Parallel()
	for text, list := range map[string][]waitParams{
		"Until:": {{Until: stageFailed}, {Until: -99}, {Until: 99}, {Until: stageSigned + 1}},
		"Interval:": {
			{Interval: -1}, {Interval: 1}, {Interval: 50*time.Millisecond - 1}, {Interval: 24*time.Hour + 1},
			{Interval: 1 << 62}, {Interval: 2 * time.Second, MaxInterval: time.Second},
		},
		"Interval: 5ns is outside 50ms to 24h0m0s": {{Interval: 5}, {Interval: 5, MaxInterval: 60}},
		"MaxInterval:": {
			{MaxInterval: -1}, {MaxInterval: 60}, {MaxInterval: 50*time.Millisecond - 1},
			{MaxInterval: 24*time.Hour + 1}, {Interval: time.Second, MaxInterval: 49 * time.Millisecond},
		},
		"MaxInterval: 48h0m0s is outside 50ms to 24h0m0s": {{MaxInterval: 48 * time.Hour}},
		"MaxFailures:": {{MaxFailures: -1}},
	} {
		for i, params := range list {
			timedSubtest(t, fmt.Sprint(text, i), func(t *testing.T) {
				service, client := newPolled(t, always(200, noteAt(7, stageComplete, 1)))
				_, err := client.Notes.Wait(t.Context(), 7, params)
				requireRefused(t, err, "Notes.Wait: "+text)
				_, err = clinicaldoc.Collect(client.Notes.Watch(t.Context(), 7, params))
				requireRefused(t, err, "Notes.Watch: "+text)
				_, err = clinicaldoc.Collect(client.Notes.WaitAll(t.Context(), []int64{7}, params))
				requireRefused(t, err, "Notes.WaitAll: "+text)
				assert.Empty(t, service.polls)
			})
		}
	}
}

// requireRefused demands an error of an argument that the text names.
func requireRefused(t *testing.T, err error, name string) {
	t.Helper()
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	assert.Contains(t, err.Error(), name)
}

func TestWait_InvalidIDsAndOptions_AreRejected(t *testing.T) {
	t.Parallel()
	service, client := newPolled(t, always(200, noteAt(7, stageComplete, 1)))
	for _, id := range []int64{0, -1} {
		_, err := client.Notes.Wait(t.Context(), id, waitParams{})
		requireRefused(t, err, "Notes.Wait: id:")
		_, err = clinicaldoc.Collect(client.Notes.Watch(t.Context(), id, waitParams{}))
		requireRefused(t, err, "Notes.Watch: id:")
		notes, err := clinicaldoc.Collect(client.Notes.WaitAll(t.Context(), []int64{1, 2, id}, waitParams{}))
		requireRefused(t, err, "Notes.WaitAll: id:")
		assert.Empty(t, notes)
	}
	assert.Empty(t, must(clinicaldoc.Collect(client.Notes.WaitAll(t.Context(), nil, waitParams{})))(t))
	for name, option := range map[string]clinicaldoc.CallOption{"WithResponse": clinicaldoc.WithResponse(nil),
		"call option": nil} {
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{}, option)
		requireRefused(t, err, name)
		watched := client.Notes.Watch(t.Context(), 7, waitParams{}, clinicaldoc.WithoutRetry(), option)
		_, err = clinicaldoc.Collect(watched)
		requireRefused(t, err, name)
		_, err = clinicaldoc.Collect(client.Notes.WaitAll(t.Context(), []int64{7}, waitParams{}, option))
		requireRefused(t, err, name)
	}
	assert.Empty(t, service.polls)
}

func TestWait_OneOfTheIntervals_Suffices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, inOrder(noteAt(7, stageUploaded, 1), noteAt(7, stageComplete, 1)))
		must(client.Notes.Wait(t.Context(), 7, waitParams{MaxInterval: 50 * time.Millisecond}))(t)
		assert.Equal(t, 50*time.Millisecond, service.polls[1].at)
		service, client = newPolled(t, inOrder(noteAt(7, stageUploaded, 1), noteAt(7, stageComplete, 1)))
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{Interval: 24 * time.Hour})
		_ = requireWaitError(t, err, context.DeadlineExceeded)
		assert.Len(t, service.polls, 1, "the wait ends with its first pause")
		service, client = newPolled(t, inOrder(noteAt(7, stageUploaded, 1), noteAt(7, stageComplete, 1)))
		must(client.Notes.Wait(t.Context(), 7, waitParams{Interval: time.Hour}))(t)
		assert.Equal(t, time.Hour, service.polls[1].at)
	})
}

// changes of a note: the same, a new time in the same stage, a lost poll, a new stage at the same time, a new time
// within the same second.
var changes = []string{
	noteAt(7, stageUploaded, 1), noteAt(7, stageUploaded, 1), noteAt(7, stageUploaded, 2), "",
	noteAt(7, stageUploaded, 2), noteAt(7, stageTranscribing, 2), noteAt(7, stageTranscribing, 2),
	strings.Replace(noteAt(7, stageTranscribing, 2), ":07Z", ":07.001Z", 1), noteAt(7, stageComplete, 3),
}

// changedStages are the stages of those notes that have changed.
var changedStages = []clinicaldoc.Stage{
	stageUploaded, stageUploaded, stageTranscribing, stageTranscribing, stageComplete,
}

func TestWatch_Changes_AreYieldedOnEachRange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var updates []clinicaldoc.Stage
		service, client := newPolled(t, nil)
		watch := client.Notes.Watch(t.Context(), 7,
			waitParams{OnUpdate: func(n *clinicaldoc.ProgressNote) { updates = append(updates, n.Stage()) }})
		assert.Empty(t, service.polls, "nothing is asked before the range")
		for range 2 {
			service.polls, updates = nil, nil
			service.answer = inOrder(changes...)
			var seen []clinicaldoc.Stage
			for note, err := range watch {
				require.NoError(t, err)
				seen = append(seen, note.Stage())
			}
			assert.Equal(t, changedStages, seen)
			assert.Equal(t, changedStages, updates, "OnUpdate receives the same")
			assert.Len(t, service.polls, len(changes))
		}
	})
}

// The caller may overwrite a note that it gets, so no text stays in memory. That changes neither the polls nor the
// notes that follow.
func TestWait_CallerChangesTheNote_HasNoEffect(t *testing.T) {
	t.Parallel()
	wipe := func(n *clinicaldoc.ProgressNote) { *n = clinicaldoc.ProgressNote{} }
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, inOrder(changes...))
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{OnUpdate: wipe})
		require.NoError(t, err)
		assert.Len(t, service.polls, len(changes))
		service.polls, service.answer = nil, inOrder(changes...)
		var seen []clinicaldoc.Stage
		for note, err := range client.Notes.Watch(t.Context(), 7, waitParams{}) {
			require.NoError(t, err)
			seen = append(seen, note.Stage())
			wipe(note)
		}
		assert.Equal(t, changedStages, seen)
	})
}

func TestWatch_Error_IsYieldedOnceWithTheLastNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, inOrder(noteAt(7, stageTranscribing, 1), noteAt(7, stageFailed, 2)))
		var errs []error
		var stages []clinicaldoc.Stage
		for note, err := range client.Notes.Watch(t.Context(), 7, waitParams{}) {
			errs = append(errs, err)
			stages = append(stages, note.Stage())
		}
		require.Len(t, errs, 2)
		require.NoError(t, errs[0])
		_ = requireWaitError(t, errs[1], clinicaldoc.ErrProcessingFailed)
		assert.Equal(t, []clinicaldoc.Stage{stageTranscribing, stageFailed}, stages)
	})
}

func TestWatch_BreakOrPanic_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	// synctest fails a test whose goroutines or timers keep it from ending.
	timedSubtest(t, "break", func(t *testing.T) {
		service, client := newPolled(t, inOrder(changes...))
		for range client.Notes.Watch(t.Context(), 7, waitParams{}) {
			break
		}
		time.Sleep(time.Hour)
		assert.Len(t, service.polls, 1)
	})
	timedSubtest(t, "panic", func(t *testing.T) {
		service, client := newPolled(t, inOrder(changes...))
		assert.Panics(t, func() {
			_, _ = client.Notes.Wait(t.Context(), 7,
				waitParams{OnUpdate: func(*clinicaldoc.ProgressNote) { panic("synthetic") }})
		})
		time.Sleep(time.Hour)
		assert.Len(t, service.polls, 1)
	})
}

func TestWait_WithResponse_IsOfTheLastPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
			assert.Equal(t, "1", r.Header.Get("X-Synthetic"))
			stage := stageUploaded
			if n == 2 {
				stage = stageComplete
			}
			return made(r, 200, noteAt(7, stage, n), "X-Request-Id", fmt.Sprint("request-", n))
		})
		var response clinicaldoc.Response
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{}, clinicaldoc.WithResponse(&response),
			clinicaldoc.WithHeader("X-Synthetic", "1"))
		require.NoError(t, err)
		assert.Equal(t, "request-2", response.RequestID)
		assert.Equal(t, 1, response.Attempts)
		assert.Len(t, service.polls, 2)
	})
}

func TestWait_Misconfiguration_EndsImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		client := timedClient(t, func(*http.Request) (*http.Response, error) {
			requests++
			return nil, http.ErrSchemeMismatch
		})
		_, err := client.Notes.Wait(t.Context(), 7, waitParams{})
		_ = requireWaitError(t, err, http.ErrSchemeMismatch)
		assert.Equal(t, 1, requests)
	})
}

// listServer is a service with many notes, listed newest (highest id) first.
type listServer struct {
	notes  []int64                                                  // ids, in order
	stage  func(id int64, at time.Duration) clinicaldoc.Stage       // how far a note is
	list   func(n int, r *http.Request) *reply                      // answers the n-th list call instead; nil: as usual
	get    func(id int64, at time.Duration, r *http.Request) *reply // answers reads instead; nil: as usual
	row    func(id int64, stage clinicaldoc.Stage) string           // how a row looks; nil: as the note
	cursor bool

	lists, gets int
	reads       map[int64]int
	perTick     map[time.Duration]int
}

func (w *listServer) answer(_ int, at time.Duration, r *http.Request) *reply {
	w.perTick[at]++
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/progress-notes/"); ok {
		w.gets++
		n, _ := strconv.ParseInt(id, 10, 64)
		w.reads[n]++
		if w.get != nil {
			if resp := w.get(n, at, r); resp != nil {
				return resp
			}
		}
		if _, found := slices.BinarySearch(w.notes, n); !found {
			return made(r, 404, `{"message":"Resource not found"}`)
		}
		return made(r, 200, noteIn(n, w.stage(n, at)))
	}
	w.lists++
	if w.list != nil {
		if resp := w.list(w.lists, r); resp != nil {
			return resp
		}
	}
	query := r.URL.Query()
	perPage, _ := strconv.Atoi(query.Get("per_page"))
	page, _ := strconv.Atoi(query.Get("page") + query.Get("cursor"))
	page = max(page, 1)
	ids := slices.Clone(w.notes)
	slices.Reverse(ids)
	from, to := min((page-1)*perPage, len(ids)), min(page*perPage, len(ids))
	rows := []string{}
	for _, id := range ids[from:to] {
		row := w.row
		if row == nil {
			row = noteIn
		}
		rows = append(rows, row(id, w.stage(id, at)))
	}
	meta := fmt.Sprintf(`{"current_page":%d,"last_page":%d,"per_page":%d}`, page, (len(ids)+perPage-1)/perPage, perPage)
	if w.cursor {
		meta = `{"next_cursor":null}`
		if to < len(ids) {
			meta = fmt.Sprintf(`{"next_cursor":"%d"}`, page+1)
		}
	}
	return made(r, 200, `{"data":[`+strings.Join(rows, ",")+`],"meta":`+meta+`}`)
}

// newListServer serves the notes 1 to n. Each is transcribing and completes after so many seconds as its id says.
func newListServer(t *testing.T, n int) (*listServer, *polled, *clinicaldoc.Client) {
	t.Helper()
	w := &listServer{reads: map[int64]int{}, perTick: map[time.Duration]int{}}
	for id := range n {
		w.notes = append(w.notes, int64(id+1))
	}
	w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
		if at >= time.Duration(id)*time.Second {
			return stageComplete
		}
		return stageTranscribing
	}
	service, client := newPolled(t, w.answer)
	return w, service, client
}

// completeAfter gives all notes one stage, until so much time has passed and they are complete.
func completeAfter(d time.Duration, before clinicaldoc.Stage) func(int64, time.Duration) clinicaldoc.Stage {
	return func(_ int64, at time.Duration) clinicaldoc.Stage {
		if at >= d {
			return stageComplete
		}
		return before
	}
}

// A failed poll that was followed by a success does not appear in the error that ends the wait later.
func TestWait_FailureThatIsOver_IsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, inOrder("", noteIn(7, stageTranscribing)))
		ctx := endsAfter(t, 10*time.Second)
		_, err := client.Notes.Wait(ctx, 7, waitParams{})
		requireWaitError(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.NotContains(t, err.Error(), "the latest poll failed")
	})
}

// If all requests of a tick fail, that counts as one failure of each note, also of the notes that were read separately
// in that tick.
func TestWaitAll_ServiceFails_CountsOneFailureATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, func(_ int, _ time.Duration, r *http.Request) *reply {
			if strings.HasSuffix(r.URL.Path, "/progress-notes") {
				return made(r, http.StatusForbidden, "{}")
			}
			return nil
		})
		params := waitParams{Interval: time.Minute, MaxInterval: time.Minute, MaxFailures: 3}
		for _, err := range outcome(t.Context(), t, client, []int64{1, 2, 3, 4, 5, 6}, params) {
			failed := requireAs[*clinicaldoc.WaitError](t, err)
			assert.Equal(t, 4, failed.Polls)
			assert.Greater(t, failed.Elapsed, 2*time.Minute, "three pauses")
		}
	})
}

// outcome is how WaitAll's notes ended: nil for success.
func outcome(ctx context.Context, t *testing.T, client *clinicaldoc.Client, ids []int64,
	params waitParams) map[int64]error {
	t.Helper()
	ends := map[int64]error{}
	for note, err := range client.Notes.WaitAll(ctx, ids, params) {
		var id int64
		if err == nil {
			id = note.ID
			assert.Equal(t, stageComplete, note.Stage())
			assert.Equal(t, "Synthetic analysis.", note.Analysis, "the whole note is yielded")
		} else {
			waited := requireAs[*clinicaldoc.WaitError](t, err)
			id = waited.ID
			assert.Equal(t, waited.Note, note, "the last note comes with the error")
		}
		_, before := ends[id]
		assert.False(t, before, "every note ends once")
		ends[id] = err
	}
	return ends
}

// requireAllComplete demands that so many notes ended, all of them complete.
func requireAllComplete(t *testing.T, notes int, ends map[int64]error) {
	t.Helper()
	assert.Len(t, ends, notes)
	for id, err := range ends {
		require.NoError(t, err, id)
	}
}

// ticks is the number of different times at which requests came.
func (w *listServer) ticks() int { return len(w.perTick) }

// assertRate demands that after each pause no more was asked than so many requests and ten reads for each second of it,
// or twenty.
func (w *listServer) assertRate(t *testing.T, more int) {
	t.Helper()
	times := slices.Sorted(maps.Keys(w.perTick))
	for i, at := range times[1:] {
		assert.LessOrEqual(t, w.perTick[at], more+max(20, int(10*(at-times[i]).Seconds())), "after %s", at-times[i])
	}
}

func TestWaitAll_ManyNotes_ListsOncePerTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 60)
		ids := slices.Clone(w.notes)
		ids = append(ids, 1, 2, 3) // a note given twice counts once
		requireAllComplete(t, 60, outcome(t.Context(), t, client, ids, waitParams{}))
		assert.LessOrEqual(t, w.lists, w.ticks())
		assert.LessOrEqual(t, w.gets, 60+5, "each at its end, and a few where a list is no cheaper")
		assert.Len(t, ids, 63, "the caller's ids are not changed")
	})
}

func TestWaitAll_Notes_AreYieldedAsTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, client := newListServer(t, 30)
		started := time.Now()
		last := int64(0)
		for note, err := range client.Notes.WaitAll(t.Context(), []int64{30, 3, 17, 9, 24}, waitParams{}) {
			require.NoError(t, err)
			assert.Greater(t, note.ID, last, "in the order in which they end")
			assert.Less(t, time.Since(started), time.Duration(note.ID+7)*time.Second, "soon after")
			last = note.ID
		}
		assert.Equal(t, int64(30), last)
	})
}

// WaitAll requests as many pages as its notes need, and reads each note separately once, at its end. In each tick it
// reads one more note, to see whether rows contain as much as notes.
func TestWaitAll_SeveralPages_AreListed(t *testing.T) {
	t.Parallel()
	type test struct {
		first, last int // notes, of 450, a hundred on a page, the newest first
		cursor      bool
		pages       int
	}
	timedSubtests(t, map[string]test{
		"the newest pages":           {first: 201, last: 450, pages: 3},
		"the newest pages by cursor": {first: 201, last: 450, cursor: true, pages: 3},
		// Notes 61 to 110 are on the fourth page (150 to 51). The pages before it are listed too.
		"only the fourth page": {first: 61, last: 110, pages: 4},
	}, func(t *testing.T, tt test) {
		w, _, client := newListServer(t, 450)
		w.cursor = tt.cursor
		w.stage = completeAfter(10*time.Minute, stageTranscribing)
		ids := w.notes[tt.first-1 : tt.last]
		assert.Len(t, outcome(t.Context(), t, client, ids, waitParams{}), len(ids))
		assert.Equal(t, tt.pages*w.ticks(), w.lists)
		assert.LessOrEqual(t, w.gets, len(ids)+w.ticks())
	})
}

func TestWaitAll_FewNotes_AreReadSingly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 450)
		w.stage = completeAfter(10*time.Minute, stageTranscribing)
		// Three notes on different pages, all beyond the first.
		assert.Len(t, outcome(t.Context(), t, client, []int64{10, 120, 200}, waitParams{}), 3)
		assert.LessOrEqual(t, w.lists, 3, "one look, no more than reading would have cost")
		assert.LessOrEqual(t, w.gets, 3*w.ticks())
		w.lists, w.gets = 0, 0
		outcome(t.Context(), t, client, []int64{449, 450}, waitParams{})
		assert.Zero(t, w.lists, "two notes are read")
	})
}

func TestWaitAll_SingleReads_AreBounded(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named(50*time.Millisecond, 2*time.Second, 20*time.Second),
		func(t *testing.T, interval time.Duration) {
			const n = 250
			w, _, client := newListServer(t, n)
			w.list = func(_ int, r *http.Request) *reply { return made(r, 403, `{}`) }
			w.stage = completeAfter(12*time.Minute, stageTranscribing)
			requireAllComplete(t, n, outcome(t.Context(), t, client, w.notes, waitParams{Interval: interval}))
			assert.Equal(t, 3, w.lists, "a list that fails three times is not asked again")
			assert.Equal(t, n+1, w.perTick[0], "all are looked at before the first pause")
			w.assertRate(t, 1)
			fewest, most := slices.Min(slices.Collect(maps.Values(w.reads))),
				slices.Max(slices.Collect(maps.Values(w.reads)))
			assert.LessOrEqual(t, most-fewest, 1, "all take their turn")
			assert.Greater(t, fewest, 15, "as many as the pause allows")
		})
}

// Notes that could not be read wait for their turn like the others. They are not all read again in each tick.
func TestWaitAll_UnreadableNotes_AreReadInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 400
		w, _, client := newListServer(t, n)
		w.list = func(_ int, r *http.Request) *reply { return made(r, 403, `{}`) }
		w.stage = completeAfter(time.Minute, stageTranscribing)
		w.get = func(id int64, at time.Duration, r *http.Request) *reply {
			if id%2 == 0 || at >= time.Minute {
				return nil
			}
			return made(r, 500, `{}`)
		}
		params := waitParams{Interval: 2 * time.Second, MaxFailures: 100}
		requireAllComplete(t, n, outcome(t.Context(), t, client, w.notes, params))
		w.assertRate(t, 1)
	})
}

func TestWaitAll_FinishedNotes_TakeOneReadEach(t *testing.T) {
	t.Parallel()
	type test struct {
		n   int
		row func(int64, clinicaldoc.Stage) string
	}
	timedSubtests(t, map[string]test{
		"30": {n: 30}, "1000": {n: 1000}, "3000": {n: 3000},
		"rows without texts and flags": {1000, func(id int64, _ clinicaldoc.Stage) string {
			return fmt.Sprintf(`{"id":%d,"name":"Synthetic note","created_at":"2024-05-01T10:00:00Z"}`, id)
		}},
	}, func(t *testing.T, tt test) {
		n := tt.n
		w, service, client := newListServer(t, n)
		w.row = tt.row
		w.stage = completeAfter(0, stageUploaded)
		service.took = 20 * time.Millisecond
		started := time.Now()
		requireAllComplete(t, n, outcome(t.Context(), t, client, w.notes, waitParams{Interval: 300 * time.Millisecond}))
		assert.Equal(t, n, w.gets)
		assert.LessOrEqual(t, w.lists, 10)
		assert.Equal(t, time.Duration(w.gets+w.lists)*service.took, time.Since(started), "no pause")
	})
}

func TestWaitAll_RateLimit_VisitsAllBeforePausesGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, limit, window = 3000, 50, 5 * time.Second
		w, service, client := newListServer(t, n)
		w.stage = completeAfter(0, stageUploaded)
		usual := service.answer
		began, used := -window, 0
		service.answer = func(n int, at time.Duration, r *http.Request) *reply {
			if at >= began+window {
				began, used = at.Truncate(window), 0
			}
			if used++; used > limit {
				rest := began + window - at
				return made(r, 429, `{}`, "Retry-After", strconv.Itoa(int((rest + time.Second - 1).Seconds())))
			}
			return usual(n, at, r)
		}
		started := time.Now()
		requireAllComplete(t, n, outcome(t.Context(), t, client, w.notes, waitParams{MaxFailures: 1}))
		const windows = n/limit + 3
		assert.LessOrEqual(t, time.Since(started), windows*window, "as fast as the service allows")
		assert.LessOrEqual(t, len(service.polls), n+10+windows, "one request is refused in each window")
	})
}

func TestWaitAll_AllEndTogether_AreReadInOneTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 500)
		w.stage = completeAfter(10*time.Second, stageAnalysing)
		ends := map[time.Duration]int{}
		started := time.Now()
		for _, err := range client.Notes.WaitAll(t.Context(), w.notes, waitParams{MaxInterval: 2 * time.Second}) {
			require.NoError(t, err)
			ends[time.Since(started)]++
		}
		assert.Equal(t, []int{500}, slices.Collect(maps.Values(ends)), "in one tick")
		assert.LessOrEqual(t, w.gets, 500+w.ticks())
	})
}

func TestWaitAll_DeadService_Ends(t *testing.T) {
	t.Parallel()
	type test struct {
		answer func(int, time.Duration, *http.Request) *reply
		target error
	}
	timedSubtests(t, map[string]test{
		"500":       {always(500, `{}`), clinicaldoc.ErrServer},
		"lost":      {inOrder(""), io.ErrUnexpectedEOF},
		"HTML":      {always(200, "<html>"), clinicaldoc.ErrUnexpectedResponse},
		"429":       {always(429, `{}`), clinicaldoc.ErrRateLimited},
		"429 asked": {always(429, `{}`, "Retry-After", "100"), clinicaldoc.ErrRateLimited},
	}, func(t *testing.T, tt test) {
		w, service, client := newListServer(t, 1000)
		service.answer = tt.answer
		started := time.Now()
		ends := outcome(t.Context(), t, client, w.notes, waitParams{})
		assert.Len(t, ends, 1000)
		for _, err := range ends {
			require.ErrorIs(t, err, tt.target)
		}
		assert.LessOrEqual(t, len(service.polls), 3*11+3, "no stampede of single reads")
		assert.Less(t, time.Since(started), 30*time.Minute)
		assert.Greater(t, time.Since(started), 3*time.Minute)
	})
}

func TestWaitAll_UnreadableNotes_DoNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 5)
		w.stage = completeAfter(0, stageUploaded)
		w.get = func(id int64, at time.Duration, r *http.Request) *reply {
			switch {
			case id <= 5: // the list shows their ends
				return made(r, 500, `{}`)
			case at > 2*time.Minute:
				return made(r, 200, noteIn(id, stageComplete))
			}
			return made(r, 200, noteIn(id, stageAnalysing))
		}
		started := time.Now()
		done := 0
		for note, err := range client.Notes.WaitAll(t.Context(), []int64{1, 2, 3, 4, 5, 1001, 1002},
			waitParams{MaxFailures: 500}) {
			require.NoError(t, err)
			assert.Greater(t, note.ID, int64(1000))
			assert.Less(t, time.Since(started), 10*time.Minute)
			if done++; done == 2 {
				break
			}
		}
	})
}

func TestWaitAll_SomeNotesEnd_GoesOnWithTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 40)
		w.notes = slices.DeleteFunc(w.notes, func(id int64) bool { return id == 5 }) // it vanished
		w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
			if id == 41 {
				return made(r, 403, `{}`) // it is somebody else's
			}
			return nil
		}
		usual := w.stage
		w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
			if id == 8 && at > 8*time.Second {
				return stageFailed
			}
			return usual(id, at)
		}
		ends := outcome(t.Context(), t, client, []int64{3, 5, 8, 30, 40, 41}, waitParams{})
		assert.Len(t, ends, 6)
		for _, id := range []int64{3, 30, 40} {
			require.NoError(t, ends[id], id)
		}
		require.ErrorIs(t, ends[5], clinicaldoc.ErrNotFound)
		require.ErrorIs(t, ends[41], clinicaldoc.ErrForbidden)
		require.ErrorIs(t, ends[8], clinicaldoc.ErrProcessingFailed)
	})
}

// If the list is missing, broken or shows other notes, WaitAll reads each note separately and soon stops requesting the
// list. It reads them in the first tick, except after a 500: then the service itself may be failing.
func TestWaitAll_WithoutTheList_ReadsEachNote(t *testing.T) {
	t.Parallel()
	type test struct {
		status int // of the list's response
		body   string
	}
	timedSubtests(t, map[string]test{
		"not there":   {404, `{}`},
		"HTML":        {200, `<html>`},
		"no rows":     {200, `{"message":"ok"}`},
		"broken row":  {200, `{"data":[{"name":"x"}]}`},
		"other page":  {200, `{"data":[],"meta":{"current_page":9}}`},
		"500":         {500, `{}`},
		"empty":       {200, `{"data":[]}`},
		"others' row": {200, `{"data":[{"id":99,"name":"n"}],"links":{"next":"x"}}`},
	}, func(t *testing.T, tt test) {
		w, _, client := newListServer(t, 9)
		w.list = func(_ int, r *http.Request) *reply { return made(r, tt.status, tt.body) }
		requireAllComplete(t, 9, outcome(t.Context(), t, client, w.notes, waitParams{}))
		assert.LessOrEqual(t, w.lists, 10)
		if tt.status != 500 {
			assert.GreaterOrEqual(t, w.perTick[0], 1+9, "the list and each note, in the first tick")
		}
	})
}

func TestWaitAll_CursorToItself_IsNotFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 9)
		w.list = func(_ int, r *http.Request) *reply {
			return made(r, 200, `{"data":[{"id":99,"name":"n"}],"meta":{"next_cursor":"same"}}`)
		}
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 9)
		assert.Equal(t, 2, w.lists)
	})
}

func TestWaitAll_ListFailsForAWhile_IsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 30)
		var failed []time.Duration
		w.list = func(n int, r *http.Request) *reply {
			if n%3 == 0 {
				return nil
			}
			failed = append(failed, time.Since(service.started))
			return made(r, 502, `<html>`)
		}
		requireAllComplete(t, 20, outcome(t.Context(), t, client, w.notes[10:], waitParams{}))
		assert.Greater(t, len(failed), 4)
		for _, at := range failed {
			assert.Equal(t, 1, w.perTick[at], "no single reads while the service is in trouble")
		}
	})
}

func TestWaitAll_ShortenedRows_AreNotTrusted(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "rows without flags", func(t *testing.T) {
		w, _, client := newListServer(t, 10)
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return strings.ReplaceAll(noteIn(id, stage), stageFields[stage], `"audio":null`)
		}
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 10)
		assert.Equal(t, 1, w.lists, "the first note that is read has more than its row")
	})
	timedSubtest(t, "rows without texts", func(t *testing.T) {
		w, _, client := newListServer(t, 10)
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return strings.NewReplacer(`"Synthetic words."`, `""`, `"Synthetic analysis."`,
				`""`).Replace(noteIn(id, stage))
		}
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 10)
		assert.LessOrEqual(t, w.gets, 10+3, "each is read once, at its end")
	})
	timedSubtest(t, "rows that really are untouched cost one read per tick", func(t *testing.T) {
		w, _, client := newListServer(t, 50)
		w.stage = completeAfter(5*time.Minute, stageUploaded)
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 50)
		assert.Equal(t, w.ticks(), w.lists)
		assert.LessOrEqual(t, w.gets, 50+w.ticks())
	})
}

// If a row shows that a note is complete, WaitAll reads the note and yields that instead of the row.
func TestWaitAll_Row_IsReplacedByTheNote(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "an excerpt in the row", func(t *testing.T) {
		w, _, client := newListServer(t, 50)
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return strings.NewReplacer("Synthetic words.", "Synth...", "Synthetic analysis.",
				"Synth...").Replace(noteIn(id, stage))
		}
		var last *clinicaldoc.ProgressNote
		params := waitParams{OnUpdate: func(n *clinicaldoc.ProgressNote) { last = n }}
		count := 0
		for note, err := range client.Notes.WaitAll(t.Context(), w.notes, params) {
			require.NoError(t, err)
			assert.Equal(t, "Synthetic words.", note.Transcription)
			assert.Equal(t, "Synthetic analysis.", note.Analysis)
			assert.Same(t, last, note, "OnUpdate was called with it")
			count++
		}
		assert.Equal(t, 50, count)
		assert.LessOrEqual(t, w.gets, 50+5)
	})
	timedSubtest(t, "a failed note", func(t *testing.T) {
		w, _, client := newListServer(t, 5)
		w.stage = func(int64, time.Duration) clinicaldoc.Stage { return stageFailed }
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return strings.ReplaceAll(noteIn(id, stage), "synthetic secret of a patient", "failed")
		}
		for note, err := range client.Notes.WaitAll(t.Context(), w.notes, waitParams{}) {
			require.ErrorIs(t, err, clinicaldoc.ErrProcessingFailed)
			assert.Equal(t, "synthetic secret of a patient", *note.ErrorState)
		}
		assert.Equal(t, 5, w.gets)
		assert.Equal(t, 1, w.ticks(), "its row has shown its end")
	})
	timedSubtest(t, "when the context ends, where it was read", func(t *testing.T) {
		w, _, client := newListServer(t, 5)
		w.stage = completeAfter(time.Hour, stageTranscribed)
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return strings.ReplaceAll(noteIn(id, stage), "Synthetic words.", "")
		}
		ctx := endsAfter(t, 10*time.Minute)
		for note, err := range client.Notes.WaitAll(ctx, w.notes, waitParams{}) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, "Synthetic words.", note.Transcription,
				"a row does not replace the note that it is a row of")
		}
		assert.LessOrEqual(t, w.gets, w.ticks())
	})
	timedSubtest(t, "a row that is ahead of its note", func(t *testing.T) {
		w, _, client := newListServer(t, 100)
		w.stage = completeAfter(10*time.Minute, stageAnalysing)
		w.row = func(id int64, _ clinicaldoc.Stage) string { return noteIn(id, stageComplete) }
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 100)
		assert.Equal(t, 1+100, w.perTick[0])
		w.assertRate(t, 1)
		assert.Equal(t, 1, w.lists, "such a list is not believed")
	})
	timedSubtest(t, "when the row goes away", func(t *testing.T) {
		w, _, client := newListServer(t, 3)
		w.stage = completeAfter(0, stageUploaded)
		w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
			if id == 2 {
				return made(r, 404, `{}`) // deleted between list and read
			}
			return nil
		}
		ends := outcome(t.Context(), t, client, w.notes, waitParams{})
		assert.Len(t, ends, 3)
		require.ErrorIs(t, ends[2], clinicaldoc.ErrNotFound)
		require.NoError(t, ends[1])
		require.NoError(t, ends[3])
	})
}

func TestWaitAll_ListNeverShowsTheEnd_IsNoticed(t *testing.T) {
	t.Parallel()
	type test struct {
		hidden  string
		updates int // of a note at most: as first seen, its row's new time, and as complete
	}
	timedSubtests(t, map[string]test{"with updated_at": {"", 3}, "without": {`"updated_at"`, 2}},
		func(t *testing.T, tt test) {
			w, _, client := newListServer(t, 20)
			w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
				if at >= 20*time.Second+time.Duration(id)*time.Second {
					return stageComplete
				}
				return stageTranscribing
			}
			w.row = func(id int64, stage clinicaldoc.Stage) string { // times, but no flags
				row := strings.ReplaceAll(noteIn(id, stage), stageFields[stage], stageFields[stageTranscribing])
				return strings.ReplaceAll(row, cmp.Or(tt.hidden, "none"), `"x"`)
			}
			updates := map[int64]int{}
			started := time.Now()
			requireAllComplete(t, 20, outcome(t.Context(), t, client, w.notes,
				waitParams{OnUpdate: func(n *clinicaldoc.ProgressNote) { updates[n.ID]++ }}))
			assert.Less(t, time.Since(started), time.Minute)
			assert.LessOrEqual(t, w.lists, 12, "not asked any more once that is seen")
			for id, n := range updates {
				assert.GreaterOrEqual(t, n, 2, id)
				assert.LessOrEqual(t, n, tt.updates, id)
			}
		})
}

func TestWaitAll_ChangedRow_IsReadFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 90)
		w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
			if id == 80 && at >= time.Minute || at >= time.Hour {
				return stageComplete
			}
			return stageTranscribing
		}
		// its time shows that something has changed, but not what
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return strings.ReplaceAll(noteIn(id, stage), stageFields[stage], stageFields[stageTranscribing])
		}
		started := time.Now()
		for note, err := range client.Notes.WaitAll(t.Context(), w.notes, waitParams{MaxInterval: 2 * time.Second}) {
			require.NoError(t, err)
			assert.Equal(t, int64(80), note.ID)
			assert.Less(t, time.Since(started), time.Minute+3*time.Second)
			break
		}
	})
}

func TestWaitAll_ListSlightlyOlder_IsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 20)
		w.stage = completeAfter(time.Minute, stageTranscribing)
		w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
			if w.gets == 1 {
				return made(r, 200, noteIn(id, stageComplete)) // it ended just after it was listed
			}
			return nil
		}
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 20)
		assert.Equal(t, w.ticks(), w.lists)
	})
}

func TestWaitAll_ChangedRows_AreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 20)
		w.stage = completeAfter(time.Minute, stageTranscribing)
		w.row = func(id int64, stage clinicaldoc.Stage) string {
			return noteAt(id, stage, 10+int(time.Since(service.started)/(20*time.Second)))
		}
		w.get = func(id int64, at time.Duration, r *http.Request) *reply {
			return made(r, 200, w.row(id, w.stage(id, at)))
		}
		updates := map[int64]int{}
		assert.Len(t, outcome(t.Context(), t, client, w.notes,
			waitParams{OnUpdate: func(n *clinicaldoc.ProgressNote) { updates[n.ID]++ }}), 20)
		for id, n := range updates {
			assert.Equal(t, 4, n, "note %d at 0, 20 and 40 seconds, and when it is complete", id)
		}
	})
}

func TestWaitAll_PauseBetweenReads_IsHonored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 30)
		w.stage = completeAfter(0, stageUploaded)
		w.get = func(id int64, at time.Duration, r *http.Request) *reply {
			if id == 15 && at == 0 {
				return made(r, 200, noteIn(id, stageComplete), "Retry-After", "100")
			}
			return nil
		}
		assert.Len(t, outcome(t.Context(), t, client, w.notes, waitParams{}), 30)
		assert.Equal(t, 30, w.gets)
		assert.Equal(t, 1, w.lists, "what is known to have ended is not listed again")
		assert.Equal(t, map[time.Duration]int{0: 1 + 15, 100 * time.Second: 15}, w.perTick)
		assert.Len(t, service.polls, 31)
	})
}

// Where a limit leaves one request at a time, lists take turns with the notes that they do not show.
func TestWaitAll_OneRequestAtATime_ReadsWhatIsNotListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 5)
		reads := map[int64]int{}
		service.answer = func(_ int, at time.Duration, r *http.Request) *reply {
			stage := stageTranscribing
			if at > 5*time.Minute {
				stage = stageComplete
			}
			body := `{"data":[` + noteIn(99, stageComplete) + "," + noteIn(98, stageComplete) + "," +
				noteIn(97, stage) + `]}`
			if _, id, single := strings.Cut(r.URL.Path, notesPath+"/"); single {
				number := must(strconv.ParseInt(id, 10, 64))(t)
				if number > 97 {
					stage = stageComplete
				}
				body = noteIn(number, stage)
				reads[number]++
			}
			return made(r, 200, body, "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "8")
		}
		ctx := endsAfter(t, time.Hour)
		requireAllComplete(t, 8, outcome(ctx, t, client, append(slices.Clone(w.notes), 97, 98, 99), waitParams{}))
		assert.LessOrEqual(t, len(service.polls), 70)
		assert.LessOrEqual(t, reads[97], 2, "the list shows it")
	})
}

func TestWaitAll_ContextEndsWithinATick_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 1000)
		w.stage = completeAfter(0, stageUploaded)
		service.took = 10 * time.Millisecond
		ctx := endsAfter(t, time.Second)
		ends := outcome(ctx, t, client, w.notes, waitParams{})
		assert.Len(t, ends, 1000)
		assert.LessOrEqual(t, len(service.polls), 101)
		failed := 0
		for _, err := range ends {
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				failed++
			}
		}
		assert.GreaterOrEqual(t, failed, 900)
	})
}

func TestWaitAll_FinalFailure_EndsAllThatRemain(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "deadline", func(t *testing.T) {
		w, _, client := newListServer(t, 40)
		ctx := endsAfter(t, 20*time.Second)
		started := time.Now()
		ends := outcome(ctx, t, client, w.notes, waitParams{})
		assert.Len(t, ends, 40)
		assert.Equal(t, 20*time.Second, time.Since(started))
		require.NoError(t, ends[10])
		for id := int64(21); id <= 40; id++ {
			require.ErrorIs(t, ends[id], context.DeadlineExceeded)
		}
	})
	t.Run("revoked token", func(t *testing.T) {
		t.Parallel()
		timedSubtests(t, named(1, 40), func(t *testing.T, n int) {
			w, service, client := newListServer(t, n)
			usual := service.answer
			service.answer = func(n int, at time.Duration, r *http.Request) *reply {
				if n > 1 {
					return made(r, 401, `{}`)
				}
				return usual(n, at, r)
			}
			ends := outcome(t.Context(), t, client, w.notes, waitParams{})
			assert.Len(t, ends, n)
			for id, err := range ends {
				if id > 2 {
					require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
				}
			}
			assert.LessOrEqual(t, len(service.polls), 2)
		})
	})
}

func TestWaitAll_RetryAfter_IsHonored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 10)
		w.stage = completeAfter(time.Minute, stageTranscribing)
		w.get = func(id int64, at time.Duration, r *http.Request) *reply { // 77 is not in the list
			return made(r, 200, noteAt(id, w.stage(id, at), 1))
		}
		var refused []time.Duration
		w.list = func(n int, r *http.Request) *reply {
			if n < 2 || n > 5 {
				return nil
			}
			refused = append(refused, time.Since(service.started))
			return made(r, 429, `{}`, "Retry-After", "600")
		}
		assert.Len(t, outcome(t.Context(), t, client, append(slices.Clone(w.notes), 77), waitParams{}), 11)
		require.Len(t, refused, 4)
		assert.Equal(t, 600*time.Second, refused[1]-refused[0])
		for _, at := range refused {
			assert.Equal(t, 1, w.perTick[at], "no other request follows a refusal")
		}
		assert.Equal(t, 6, w.ticks())
		assert.Equal(t, 6, w.lists, "a list that is refused for the rate is not given up")
	})
}

func TestWaitAll_RateExceeded_StopsTheTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newListServer(t, 30)
		w.stage = completeAfter(0, stageUploaded)
		w.list = func(_ int, r *http.Request) *reply { return made(r, 403, `{}`) }
		w.get = func(_ int64, at time.Duration, r *http.Request) *reply {
			if at == 0 && w.gets > 10 {
				return made(r, 429, `{}`) // without Retry-After
			}
			return nil
		}
		requireAllComplete(t, 30, outcome(t.Context(), t, client, w.notes, waitParams{MaxFailures: 1}))
		assert.Equal(t, 1+10+1, w.perTick[0], "the list, ten complete notes, and the 429")
		assert.Equal(t, 31, w.gets)
	})
}

func TestWaitAll_LoopEnds_Stops(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "break", func(t *testing.T) {
		_, service, client := newListServer(t, 30)
		all := client.Notes.WaitAll(t.Context(), []int64{1, 2, 3, 30}, waitParams{})
		assert.Empty(t, service.polls)
		for range all {
			break
		}
		polls := len(service.polls)
		time.Sleep(time.Hour)
		assert.Len(t, service.polls, polls)
		for range all {
			break
		}
		assert.Len(t, service.polls, polls+2, "all have ended; the list and the first note are asked for")
		count := 0
		for range all { // it can be ranged over again
			count++
		}
		assert.Equal(t, 4, count)
	})
	timedSubtest(t, "break when all end at once", func(t *testing.T) {
		_, service, client := newListServer(t, 30)
		service.answer = always(401, `{}`)
		for _, err := range client.Notes.WaitAll(t.Context(), []int64{1, 2, 3, 30}, waitParams{}) {
			require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
			break
		}
		assert.Len(t, service.polls, 1)
	})
}

func TestWaitAll_ManyRequests_AreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newListServer(t, 120)
		w.stage = func(int64, time.Duration) clinicaldoc.Stage { return stageTranscribing }
		ids := append(slices.Clone(w.notes[:5]), w.notes[110:]...)
		for id := int64(1000); id < 1030; id++ {
			ids = append(ids, id) // not in the list
		}
		w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
			if id < 1000 {
				return nil
			}
			return made(r, 200, noteIn(id, stageUploaded))
		}
		updates := 0
		ctx := endsAfter(t, 2*time.Hour)
		ends := outcome(ctx, t, client, ids, waitParams{OnUpdate: func(*clinicaldoc.ProgressNote) { updates++ }})
		assert.Len(t, ends, 45)
		for id, err := range ends {
			require.ErrorIs(t, err, context.DeadlineExceeded, id)
		}
		assert.LessOrEqual(t, w.ticks(), 200, "the schedule is that of Wait")
		assert.Equal(t, 2*w.ticks(), w.lists)
		w.assertRate(t, 2+1)
		assert.Equal(t, 45, updates)
		t.Logf("%d requests in %d ticks", len(service.polls), w.ticks())
	})
}

// WaitAll does not keep notes and errors that it has yielded in memory.
func TestWaitAll_YieldedNotes_AreNotKept(t *testing.T) {
	t.Parallel()
	w, _, client := newListServer(t, 60)
	w.stage = completeAfter(0, stageComplete)
	w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
		if id%2 == 0 {
			return made(r, 404, `{"message":"Resource not found"}`)
		}
		return nil
	}
	var yielded []weak.Pointer[clinicaldoc.ProgressNote]
	var failed []weak.Pointer[clinicaldoc.WaitError]
	for note, err := range client.Notes.WaitAll(t.Context(), w.notes, waitParams{}) {
		if waited, ok := errors.AsType[*clinicaldoc.WaitError](err); ok {
			failed = append(failed, weak.Make(waited))
		} else {
			yielded = append(yielded, weak.Make(note))
		}
		if len(yielded)+len(failed) < len(w.notes) {
			continue
		}
		runtime.GC() // while the tick goes on
		for _, earlier := range yielded[:len(yielded)-2] {
			assert.Nil(t, earlier.Value())
		}
		for _, earlier := range failed[:len(failed)-2] {
			assert.Nil(t, earlier.Value())
		}
	}
	assert.Len(t, yielded, 30)
	assert.Len(t, failed, 30)
}

// WaitAll uses the IDs of the call, even if the caller changes the slice afterwards.
func TestWaitAll_IDsChangedLater_HaveNoEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, client := newListServer(t, 5)
		ids := []int64{3, 2, 3}
		all := client.Notes.WaitAll(t.Context(), ids, waitParams{})
		ids[1] = 5
		var got []int64
		for note, err := range all {
			require.NoError(t, err)
			got = append(got, note.ID)
		}
		assert.Equal(t, []int64{2, 3}, got)
		assert.Equal(t, []int64{3, 5, 3}, ids)
	})
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

// A wait that is over leaves nothing with the caller's context, nor a timer of 24 hours with the process.
func TestWait_Ends_LeavesNoContextBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, always(200, noteIn(7, stageComplete)))
		ctx := counted{t.Context(), make(chan struct{}), new(atomic.Int32)}
		must(client.Notes.Wait(ctx, 7, waitParams{}))(t)
		assert.Zero(t, ctx.open.Load())
	})
}

func TestWaitAll_BesideOtherCalls_IsRefusedOnceAMinuteAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		var ids []int64
		for range 150 {
			ids = append(ids, srv.AddNote(clinicaldoctest.Note{Name: "synthetic", PatientID: 7}))
		}
		srv.Advance(time.Hour)
		service := newLaravelLimit(srv.Transport().RoundTrip)
		client := srv.Client(over(service))
		start := time.Now()
		var others sync.WaitGroup
		for range 3 {
			others.Go(func() {
				for range 30 {
					_, err := client.Users.Me(t.Context())
					assert.NoError(t, err)
				}
			})
		}
		notes := must(clinicaldoc.Collect(client.Notes.WaitAll(t.Context(), ids, waitParams{})))(t)
		assert.Len(t, notes, 150)
		others.Wait()
		_, mostInAMinute := service.refusals()
		assert.LessOrEqual(t, mostInAMinute, 1)
		assert.Less(t, time.Since(start), 6*time.Minute)
	})
}
