package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// requireWaitError demands an error of a wait for note 7.
func requireWaitError(t *testing.T, err, target error) *clinicaldoc.WaitError {
	t.Helper()
	var waited *clinicaldoc.WaitError
	require.ErrorAs(t, err, &waited)
	require.ErrorIs(t, err, target)
	assert.Equal(t, int64(7), waited.ID)
	return waited
}

func TestWaitPollsFirstAndReturnsTheNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1)))
		note, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		require.NoError(t, err)
		assert.Equal(t, clinicaldoc.StageComplete, note.Stage())
		assert.Equal(t, []poll{{0, "/v1/progress-notes/7"}}, service.polls)
	})
}

func TestWaitEndsAtTheStageAskedForOrBeyond(t *testing.T) {
	t.Parallel()
	for i, until := range stagesInOrder {
		t.Run(until.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
					return made(r, 200, noteIn(7, stagesInOrder[min(n, len(stagesInOrder))-1]))
				})
				note, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{Until: until})
				require.NoError(t, err)
				assert.Equal(t, until, note.Stage())
				assert.Len(t, service.polls, i+1)
			})
		})
	}
	t.Run("beyond", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageSigned, 1)))
			note, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{Until: clinicaldoc.StageTranscribed})
			require.NoError(t, err)
			assert.Equal(t, clinicaldoc.StageSigned, note.Stage())
		})
	})
}

func TestWaitPausesGrowWithinTheirBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageTranscribing, 1)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		params := clinicaldoc.WaitParams{Interval: 3 * time.Second, MaxInterval: 40 * time.Second}
		_, err := client.Notes.Wait(ctx, 7, params)
		_ = requireWaitError(t, err, context.DeadlineExceeded)
		pauses := service.pauses()
		different := map[time.Duration]bool{}
		for i, pause := range pauses {
			different[pause] = true
			longest := min(params.Interval*5/4+service.polls[i].at/10, params.MaxInterval)
			assert.GreaterOrEqual(t, pause, params.Interval)
			assert.GreaterOrEqual(t, pause, longest*4/5, "after %s", service.polls[i].at)
			assert.LessOrEqual(t, pause, longest, "after %s", service.polls[i].at)
		}
		assert.Greater(t, len(different), len(pauses)/2, "pauses are random")
		assert.Less(t, pauses[0], 4*time.Second)
		assert.Greater(t, pauses[len(pauses)-1], 30*time.Second)
	})
}

// dayOfPolls is what 24 hours of waiting may cost with the defaults; the documentation of Wait states it.
const dayOfPolls = 1850

func TestADayOfWaitingCostsABoundedNumberOfPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageAnalysing, 1)))
		started := time.Now()
		note, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		waited := requireWaitError(t, err, context.DeadlineExceeded)
		assert.Nil(t, note)
		assert.Equal(t, 24*time.Hour, time.Since(started), "a context without a deadline ends the wait after a day")
		assert.Equal(t, 24*time.Hour, waited.Elapsed)
		assert.Equal(t, len(service.polls), waited.Polls)
		assert.Equal(t, clinicaldoc.StageAnalysing, waited.Note.Stage())
		assert.LessOrEqual(t, len(service.polls), dayOfPolls)
		assert.Greater(t, len(service.polls), 1400)
		t.Logf("%d polls in 24 hours", len(service.polls))
	})
}

func TestWaitNeverSpins(t *testing.T) {
	t.Parallel()
	past := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat)
	answers := map[string]func(int, time.Duration, *http.Request) *reply{
		"a note that stays": always(200, noteAt(7, clinicaldoc.StageUploaded, 1)),
		"a note that changes": func(n int, _ time.Duration, r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, n))
		},
		"lost answers":            inOrder(""),
		"nothing":                 always(200, ""),
		"HTML":                    always(200, "<html></html>", "Content-Type", "text/html"),
		"another note":            always(200, noteAt(8, clinicaldoc.StageComplete, 1)),
		"server errors":           always(500, `{}`),
		"Retry-After 0":           always(429, `{}`, "Retry-After", "0"),
		"Retry-After negative":    always(429, `{}`, "Retry-After", "-5"),
		"Retry-After past":        always(503, `{}`, "Retry-After", past),
		"Retry-After overflowing": always(503, `{}`, "Retry-After", "99999999999999999999"),
		"Retry-After nonsense":    always(429, `{}`, "Retry-After", "soon"),
		"reset in the past":       always(200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1"),
		"reset overflowing":       always(200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9223372036854775807"),
		"date overflowing": always(200, noteAt(7, clinicaldoc.StageUploaded, 1),
			"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1", "Date", "Mon, 01 Jan 0001 00:00:00 GMT"),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service, client := newPolled(t, answer)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
				defer cancel()
				_, err := client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{MaxFailures: 1 << 30})
				_ = requireWaitError(t, err, context.DeadlineExceeded)
				assert.LessOrEqual(t, len(service.polls), 300)
				assert.Greater(t, len(service.polls), 1)
				for _, pause := range service.pauses() {
					assert.GreaterOrEqual(t, pause, 2*time.Second)
					assert.LessOrEqual(t, pause, time.Hour)
				}
			})
		})
	}
}

func TestWaitRespectsWhatTheServiceAsksFor(t *testing.T) {
	t.Parallel()
	complete := noteAt(7, clinicaldoc.StageComplete, 2)
	// The clock of synctest starts in the year 2000; the service's may be another.
	in := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	tests := map[string]struct {
		first    func(r *http.Request) *reply
		min, max time.Duration
	}{
		"Retry-After beats the interval": {func(r *http.Request) *reply { return made(r, 429, `{}`, "Retry-After", "300") }, 300 * time.Second, 300 * time.Second},
		"Retry-After of a server error":  {func(r *http.Request) *reply { return made(r, 503, `{}`, "Retry-After", "90") }, 90 * time.Second, 90 * time.Second},
		"a short Retry-After does not shorten": {
			func(r *http.Request) *reply { return made(r, 429, `{}`, "Retry-After", "1") }, 2 * time.Second, 3 * time.Second,
		},
		"at most an hour": {func(r *http.Request) *reply { return made(r, 429, `{}`, "Retry-After", "86400") }, time.Hour, time.Hour},
		"an exhausted limit, until its reset": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(40*time.Second))
		}, 40 * time.Second, 40 * time.Second},
		"by the service's own clock": {func(r *http.Request) *reply {
			date := time.Now().Add(10 * time.Hour).UTC().Format(http.TimeFormat)
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(10*time.Hour+40*time.Second), "Date", date)
		}, 40 * time.Second, 40 * time.Second},
		"a reset in milliseconds": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(40*time.Second)+"000")
		}, 40 * time.Second, 40 * time.Second},
		"a reset in microseconds": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(40*time.Second)+"000000")
		}, 40 * time.Second, 40 * time.Second},
		"a reset in seconds from now": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "40")
		}, 40 * time.Second, 40 * time.Second},
		"seconds from now by the service's own clock": {func(r *http.Request) *reply {
			date := time.Now().Add(10 * time.Hour).UTC().Format(http.TimeFormat)
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "40", "Date", date)
		}, 40 * time.Second, 40 * time.Second},
		"a reset years ahead is not believed": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(3*365*24*time.Hour))
		}, 2 * time.Second, 3 * time.Second},
		"a remainder that is no number says nothing": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "none", "X-RateLimit-Reset", in(40*time.Second))
		}, 2 * time.Second, 3 * time.Second},
		"a limit that is not exhausted does not matter": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", in(40*time.Second))
		}, 2 * time.Second, 3 * time.Second},
		"a reset alone says nothing": {func(r *http.Request) *reply {
			return made(r, 200, noteAt(7, clinicaldoc.StageUploaded, 1), "X-RateLimit-Reset", in(40*time.Second))
		}, 2 * time.Second, 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
					if n == 1 {
						return tt.first(r)
					}
					return made(r, 200, complete)
				})
				_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
				require.NoError(t, err)
				require.Len(t, service.polls, 2)
				assert.GreaterOrEqual(t, service.polls[1].at, tt.min)
				assert.LessOrEqual(t, service.polls[1].at, tt.max)
			})
		})
	}
}

func TestAskedPausesEndWithTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(429, `{}`, "Retry-After", "300"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{})
		waited := requireWaitError(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited, "why there was no note is told too")
		assert.Equal(t, 20*time.Second, waited.Elapsed)
		assert.Len(t, service.polls, 1, "the deadline is checked after the pause")
		assert.Nil(t, waited.Note)
	})
}

func TestWaitSurvivesFailuresInARow(t *testing.T) {
	t.Parallel()
	failures := map[string]func(r *http.Request) *reply{
		"lost": func(*http.Request) *reply { return nil },
		"429":  func(r *http.Request) *reply { return made(r, 429, `{}`) },
		"408":  func(r *http.Request) *reply { return made(r, 408, ``) },
		"500":  func(r *http.Request) *reply { return made(r, 500, `{"message":"Server Error"}`) },
		"502": func(r *http.Request) *reply {
			return made(r, 502, "<html>", "Content-Type", "text/html")
		},
		"HTML": func(r *http.Request) *reply {
			return made(r, 200, "<html>", "Content-Type", "text/html")
		},
		"no id": func(r *http.Request) *reply { return made(r, 200, `{}`) },
		"other": func(r *http.Request) *reply {
			return made(r, 200, noteAt(8, clinicaldoc.StageComplete, 1))
		},
		"nothing": func(r *http.Request) *reply { return made(r, 204, ``) },
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// Three failures, a success that counts anew, three failures, the end.
				answer := func(n int, _ time.Duration, r *http.Request) *reply {
					switch n {
					case 4:
						return made(r, 200, noteAt(7, clinicaldoc.StageTranscribing, 1))
					case 8:
						return made(r, 200, noteAt(7, clinicaldoc.StageComplete, 2))
					}
					return failure(r)
				}
				service, client := newPolled(t, answer)
				note, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{MaxFailures: 3})
				require.NoError(t, err)
				assert.Equal(t, clinicaldoc.StageComplete, note.Stage())
				assert.Len(t, service.polls, 8, "a poll is one request, without the client's retries")

				service, client = newPolled(t, answer)
				_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{MaxFailures: 2})
				waited := requireWaitError(t, err, waitCause(err))
				assert.Equal(t, 3, waited.Polls)
				assert.Len(t, service.polls, 3)
			})
		})
	}
}

func waitCause(err error) error {
	var waited *clinicaldoc.WaitError
	errors.As(err, &waited)
	return waited.Err
}

func TestDefaultMaxFailuresBridgesAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, func(_ int, at time.Duration, r *http.Request) *reply {
			if at > 0 && at < 3*time.Minute {
				return nil
			}
			if at == 0 {
				return made(r, 200, noteAt(7, clinicaldoc.StageTranscribing, 1))
			}
			return made(r, 200, noteAt(7, clinicaldoc.StageComplete, 2))
		})
		_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		require.NoError(t, err)
	})
}

func TestDefaultMaxFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, always(500, `{}`))
		_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		_ = requireWaitError(t, err, clinicaldoc.ErrServer)
		assert.Len(t, service.polls, 11)
	})
}

func TestWaitEndsAtOnceWhereWaitingDoesNotHelp(t *testing.T) {
	t.Parallel()
	for status, target := range map[int]error{
		401: clinicaldoc.ErrUnauthorized, 403: clinicaldoc.ErrForbidden, 404: clinicaldoc.ErrNotFound,
		409: clinicaldoc.ErrConflict, 422: clinicaldoc.ErrValidation, 501: clinicaldoc.ErrServer,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
					if n == 1 {
						return made(r, 200, noteAt(7, clinicaldoc.StageTranscribing, 1))
					}
					return made(r, status, `{"message":"synthetic secret"}`)
				})
				_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
				waited := requireWaitError(t, err, target)
				assert.Len(t, service.polls, 2)
				assert.Equal(t, 2, waited.Polls)
				assert.Equal(t, clinicaldoc.StageTranscribing, waited.Note.Stage(), "the last note is kept")
				assert.NotContains(t, err.Error(), "secret")
				var answered *clinicaldoc.Error
				require.ErrorAs(t, err, &answered)
				assert.Equal(t, status, answered.StatusCode)
			})
		})
	}
}

// A proxy that asks people to log in redirects for a while; but who is never shown the note asks at the wrong place.
func TestWaitSurvivesARedirectOfAKnownNote(t *testing.T) {
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
					return made(r, 201, noteIn(7, clinicaldoc.StageUploaded))
				case n <= tc.seen:
					return made(r, 200, noteAt(7, clinicaldoc.StageTranscribing, 1))
				case n < 5:
					return made(r, 302, "")
				}
				return made(r, 200, noteAt(7, clinicaldoc.StageComplete, 2))
			})
			if tc.made {
				_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
				require.NoError(t, err)
				service.polls = nil
			}
			_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
			if tc.polls == 1 {
				_ = requireWaitError(t, err, clinicaldoc.ErrUnexpectedResponse)
			} else {
				require.NoError(t, err, name)
			}
			assert.Len(t, service.polls, tc.polls, name)
		})
	}
}

// lagging is a service whose Create gives note 7, which reads find only after the lag.
func lagging(t *testing.T, lag time.Duration) (*polled, *clinicaldoc.Client) {
	t.Helper()
	return newPolled(t, func(_ int, at time.Duration, r *http.Request) *reply {
		switch {
		case r.Method == http.MethodPost:
			return made(r, 201, noteIn(7, clinicaldoc.StageUploaded))
		case at < lag:
			return made(r, 404, `{"message":"Resource not found"}`)
		}
		return made(r, 200, noteIn(7, clinicaldoc.StageComplete))
	})
}

func TestWaitSurvivesALaggingReplicaJustAfterCreate(t *testing.T) {
	t.Parallel()
	waits := map[string]func(context.Context, *clinicaldoc.Client, clinicaldoc.WaitParams) error{
		"Wait": func(ctx context.Context, c *clinicaldoc.Client, params clinicaldoc.WaitParams) error {
			_, err := c.Notes.Wait(ctx, 7, params)
			return err
		},
		"WaitAll": func(ctx context.Context, c *clinicaldoc.Client, params clinicaldoc.WaitParams) error {
			var last error
			for _, err := range c.Notes.WaitAll(ctx, []int64{7}, params) {
				last = err
			}
			return last
		},
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := lagging(t, 9*time.Second)
				_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
				require.NoError(t, err)
				require.NoError(t, wait(t.Context(), client, clinicaldoc.WaitParams{Interval: 500 * time.Millisecond, MaxInterval: time.Second, MaxFailures: 1}),
					"such a 404 is no failure of the service")

				service, client := lagging(t, time.Hour)
				_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
				require.NoError(t, err)
				_ = requireWaitError(t, wait(t.Context(), client, clinicaldoc.WaitParams{}), clinicaldoc.ErrNotFound)
				last := service.polls[len(service.polls)-1].at
				assert.GreaterOrEqual(t, last, 10*time.Second)
				assert.Less(t, last, 15*time.Second, "it is survived for ten seconds")

				service, client = lagging(t, time.Hour)
				_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				_ = requireWaitError(t, wait(t.Context(), client, clinicaldoc.WaitParams{}), clinicaldoc.ErrNotFound)
				assert.Len(t, service.polls, 2, "ten seconds later it is final")

				service, client = lagging(t, time.Hour)
				_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
				require.NoError(t, err)
				_, err = client.Notes.Delete(t.Context(), 7)
				require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
				_ = requireWaitError(t, wait(t.Context(), client, clinicaldoc.WaitParams{}), clinicaldoc.ErrNotFound)
				assert.Len(t, service.polls, 3, "nor after this client's Delete")

				service, client = lagging(t, time.Second)
				_ = requireWaitError(t, wait(t.Context(), client, clinicaldoc.WaitParams{}), clinicaldoc.ErrNotFound)
				assert.Len(t, service.polls, 1, "nor does a note count that this client has not created")
			})
		})
	}
}

// What is asked just after Create may be told by a replica that lags, however long the response takes to arrive.
func TestASlow404JustAfterCreateIsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := lagging(t, 12*time.Second)
		_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
		require.NoError(t, err)
		service.took = 11 * time.Second
		_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		require.NoError(t, err)
	})
}

func TestOnlyA404IsSurvivedJustAfterCreate(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 410, 422} {
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
				if n == 1 {
					return made(r, 201, noteIn(7, clinicaldoc.StageUploaded))
				}
				return made(r, status, `{}`)
			})
			_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
			require.NoError(t, err)
			_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
			require.Error(t, err)
			assert.Len(t, service.polls, 2, status)
		})
	}
}

func TestAWaitThatEndsOnALaggingReplicaTellsOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := lagging(t, time.Hour)
		_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note"})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{})
		_ = requireWaitError(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	})
}

func TestWaitTellsOfAFailedNoteWithoutItsText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, inOrder(noteAt(7, clinicaldoc.StageTranscribing, 1), noteAt(7, clinicaldoc.StageFailed, 2)))
		note, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		assert.Nil(t, note)
		waited := requireWaitError(t, err, clinicaldoc.ErrProcessingFailed)
		assert.Equal(t, "synthetic secret of a patient", *waited.Note.ErrorState, "it can be asked for")
		assert.Equal(t, 2, waited.Polls)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text := fmt.Sprintf(verb, err)
			assert.NotContains(t, text, "secret")
			assert.Contains(t, text, "note 7 (failed, 2 polls")
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Error("failed", "err", waited)
		assert.NotContains(t, log.String(), "secret")
		assert.Contains(t, log.String(), `"stage":"failed"`)
		assert.Equal(t, waited.Error(), waited.SafeText())
	})
}

func TestZeroWaitErrorPrints(t *testing.T) {
	t.Parallel()
	e := &clinicaldoc.WaitError{}
	assert.Contains(t, e.Error(), "never seen")
	require.NoError(t, errors.Unwrap(e))
}

func TestWaitErrorByValueLogsNoNote(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := clinicaldoc.WaitError{ID: 7, Note: &clinicaldoc.ProgressNote{ID: 7, Transcription: "canary"}}
	slog.New(slog.NewJSONHandler(&log, nil)).Info("waiting", "error", e)
	assert.NotContains(t, log.String(), "canary")
	assert.Contains(t, log.String(), `"id":7`)
	assert.NotContains(t, fmt.Sprintf("%+v %#v", e, e), "canary")
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	t.Run("cancelled in a pause", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageTranscribing, 1)))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{})
			waited := requireWaitError(t, err, context.Canceled)
			assert.Equal(t, time.Second, waited.Elapsed)
			assert.Len(t, service.polls, 1)
			assert.NotNil(t, waited.Note)
		})
	})
	t.Run("cancelled with a cause", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageTranscribing, 1)))
			errClosing := errors.New("synthetic secret")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errClosing) })
			_, err := client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{})
			_ = requireWaitError(t, err, context.Canceled)
			require.ErrorIs(t, err, errClosing)
			assert.NotContains(t, err.Error(), "secret")
			for _, err := range client.Notes.WaitAll(ctx, []int64{7, 8}, clinicaldoc.WaitParams{}) {
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, errClosing)
			}
		})
	})
	t.Run("over before it began", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageTranscribing, 1)))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{})
			_ = requireWaitError(t, err, context.Canceled)
			assert.Empty(t, service.polls)
		})
	})
	t.Run("a deadline beyond a day is kept", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageTranscribing, 1)))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Hour)
			defer cancel()
			_, err := client.Notes.Wait(ctx, 7, clinicaldoc.WaitParams{})
			assert.Equal(t, 30*time.Hour, requireWaitError(t, err, context.DeadlineExceeded).Elapsed)
		})
	})
}

func TestWaitParamsAreCheckedBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	for field, list := range map[string][]clinicaldoc.WaitParams{
		"Until": {{Until: clinicaldoc.StageFailed}, {Until: -99}, {Until: 99}, {Until: clinicaldoc.StageSigned + 1}},
		"Interval": {
			{Interval: -1}, {Interval: 1}, {Interval: 5}, {Interval: 50*time.Millisecond - 1}, {Interval: 24*time.Hour + 1}, {Interval: 1 << 62},
			{Interval: 5, MaxInterval: 60}, {Interval: 2 * time.Second, MaxInterval: time.Second},
		},
		"MaxInterval": {
			{MaxInterval: -1}, {MaxInterval: 60}, {MaxInterval: 50*time.Millisecond - 1}, {MaxInterval: 24*time.Hour + 1},
			{Interval: time.Second, MaxInterval: 49 * time.Millisecond},
		},
		"MaxFailures": {{MaxFailures: -1}},
	} {
		for i, params := range list {
			t.Run(fmt.Sprint(field, i), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1)))
					_, err := client.Notes.Wait(t.Context(), 7, params)
					requireRefused(t, err, "Notes.Wait: "+field+":")
					for _, err := range client.Notes.Watch(t.Context(), 7, params) {
						requireRefused(t, err, "Notes.Watch: "+field+":")
					}
					for _, err := range client.Notes.WaitAll(t.Context(), []int64{7}, params) {
						requireRefused(t, err, "Notes.WaitAll: "+field+":")
					}
					assert.Empty(t, service.polls)
				})
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

func TestWaitRefusesBadIDsAndOptionsBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	service, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1)))
	for _, id := range []int64{0, -1} {
		_, err := client.Notes.Wait(t.Context(), id, clinicaldoc.WaitParams{})
		requireRefused(t, err, "Notes.Wait: id:")
		for _, err := range client.Notes.Watch(t.Context(), id, clinicaldoc.WaitParams{}) {
			requireRefused(t, err, "Notes.Watch: id:")
		}
	}
	for name, option := range map[string]clinicaldoc.CallOption{"WithResponse": clinicaldoc.WithResponse(nil), "call option": nil} {
		_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{}, option)
		requireRefused(t, err, name)
		for _, err := range client.Notes.Watch(t.Context(), 7, clinicaldoc.WaitParams{}, clinicaldoc.WithoutRetry(), option) {
			requireRefused(t, err, name)
		}
		for _, err := range client.Notes.WaitAll(t.Context(), []int64{7}, clinicaldoc.WaitParams{}, option) {
			requireRefused(t, err, name)
		}
	}
	assert.Empty(t, service.polls)
}

func TestOneOfTheIntervalsSuffices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, inOrder(noteAt(7, clinicaldoc.StageUploaded, 1), noteAt(7, clinicaldoc.StageComplete, 1)))
		_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{MaxInterval: 50 * time.Millisecond})
		require.NoError(t, err)
		assert.Equal(t, 50*time.Millisecond, service.polls[1].at)
		service, client = newPolled(t, inOrder(noteAt(7, clinicaldoc.StageUploaded, 1), noteAt(7, clinicaldoc.StageComplete, 1)))
		_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{Interval: 24 * time.Hour})
		_ = requireWaitError(t, err, context.DeadlineExceeded)
		assert.Len(t, service.polls, 1, "the wait ends with its first pause")
		service, client = newPolled(t, inOrder(noteAt(7, clinicaldoc.StageUploaded, 1), noteAt(7, clinicaldoc.StageComplete, 1)))
		_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{Interval: time.Hour})
		require.NoError(t, err)
		assert.Equal(t, time.Hour, service.polls[1].at)
	})
}

// changes of a note: the same, a new time in the same stage, a lost poll, a new stage at the same time.
var changes = []string{
	noteAt(7, clinicaldoc.StageUploaded, 1), noteAt(7, clinicaldoc.StageUploaded, 1), noteAt(7, clinicaldoc.StageUploaded, 2), "",
	noteAt(7, clinicaldoc.StageUploaded, 2), noteAt(7, clinicaldoc.StageTranscribing, 2), noteAt(7, clinicaldoc.StageTranscribing, 2), noteAt(7, clinicaldoc.StageComplete, 3),
}

func TestWatchYieldsChangesAndCanBeRangedTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []clinicaldoc.Stage
		service, client := newPolled(t, nil)
		watch := client.Notes.Watch(t.Context(), 7, clinicaldoc.WaitParams{OnUpdate: func(n *clinicaldoc.ProgressNote) { told = append(told, n.Stage()) }})
		assert.Empty(t, service.polls, "nothing is asked before the range")
		want := []clinicaldoc.Stage{clinicaldoc.StageUploaded, clinicaldoc.StageUploaded, clinicaldoc.StageTranscribing, clinicaldoc.StageComplete}
		for range 2 {
			service.polls, told = nil, nil
			service.answer = inOrder(changes...)
			var seen []clinicaldoc.Stage
			for note, err := range watch {
				require.NoError(t, err)
				seen = append(seen, note.Stage())
			}
			assert.Equal(t, want, seen)
			assert.Equal(t, want, told, "OnUpdate is told the same")
			assert.Len(t, service.polls, len(changes))
		}
	})
}

func TestWatchYieldsItsErrorOnceWithTheLastNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, inOrder(noteAt(7, clinicaldoc.StageTranscribing, 1), noteAt(7, clinicaldoc.StageFailed, 2)))
		var errs []error
		var stages []clinicaldoc.Stage
		for note, err := range client.Notes.Watch(t.Context(), 7, clinicaldoc.WaitParams{}) {
			errs = append(errs, err)
			stages = append(stages, note.Stage())
		}
		require.Len(t, errs, 2)
		require.NoError(t, errs[0])
		_ = requireWaitError(t, errs[1], clinicaldoc.ErrProcessingFailed)
		assert.Equal(t, []clinicaldoc.Stage{clinicaldoc.StageTranscribing, clinicaldoc.StageFailed}, stages)
	})
}

func TestWatchLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	// synctest fails a test whose goroutines or timers keep it from ending.
	t.Run("break", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, inOrder(changes...))
			for range client.Notes.Watch(t.Context(), 7, clinicaldoc.WaitParams{}) {
				break
			}
			time.Sleep(time.Hour)
			assert.Len(t, service.polls, 1)
		})
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			service, client := newPolled(t, inOrder(changes...))
			assert.Panics(t, func() {
				_, _ = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{OnUpdate: func(*clinicaldoc.ProgressNote) { panic("synthetic") }})
			})
			time.Sleep(time.Hour)
			assert.Len(t, service.polls, 1)
		})
	})
}

func TestWaitFillsTheCallersResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, client := newPolled(t, func(n int, _ time.Duration, r *http.Request) *reply {
			assert.Equal(t, "1", r.Header.Get("X-Synthetic"))
			stage := clinicaldoc.StageUploaded
			if n == 2 {
				stage = clinicaldoc.StageComplete
			}
			return made(r, 200, noteAt(7, stage, n), "X-Request-Id", fmt.Sprint("request-", n))
		})
		var response clinicaldoc.Response
		_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{}, clinicaldoc.WithResponse(&response), clinicaldoc.WithHeader("X-Synthetic", "1"))
		require.NoError(t, err)
		assert.Equal(t, "request-2", response.RequestID)
		assert.Equal(t, 1, response.Attempts)
		assert.Len(t, service.polls, 2)
	})
}

func TestWaitEndsAtOnceOnAMisconfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		client, err := clinicaldoc.NewClient("https://api.clinic.test", "1|synthetic-token", clinicaldoc.WithHTTPClient(&http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { requests++; return nil, http.ErrSchemeMismatch }),
		}))
		require.NoError(t, err)
		_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{})
		_ = requireWaitError(t, err, http.ErrSchemeMismatch)
		assert.Equal(t, 1, requests)
	})
}
