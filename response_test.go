package clinicaldoc_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestRateLimitResetIsJudgedByItsMagnitude(t *testing.T) {
	t.Parallel()
	// The clock of synctest starts at midnight UTC, 1 January 2000: 946684800.
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Time{
		"946684840":            start.Add(40 * time.Second), // in seconds
		"946684840000":         start.Add(40 * time.Second),
		"946684840000000":      start.Add(40 * time.Second),
		"946684840000000000":   start.Add(40 * time.Second),
		"40":                   start.Add(40 * time.Second),
		"1":                    start.Add(time.Second),
		"86400":                start.Add(24 * time.Hour),
		"2678400":              start.Add(31 * 24 * time.Hour), // the longest that is believed
		"2678401":              {},
		"949363200":            start.Add(31 * 24 * time.Hour),
		"949363201":            {},
		"949363201000":         {},
		"99999999":             {},
		"100000000":            time.Unix(1e8, 0).UTC(), // passed long ago
		"99999999999":          {},
		"100000000000":         time.UnixMilli(1e11).UTC(),
		"100000000000000":      time.UnixMicro(1e14).UTC(),
		"100000000000000000":   time.Unix(0, 1e17).UTC(),
		"946684700":            start.Add(-100 * time.Second),
		"9223372036854775807":  {},
		"9223372036854775808":  {},
		"-5":                   {},
		"0":                    {},
		"":                     {},
		"soon":                 {},
		"40.5":                 {},
		"2000-01-01T00:00:40Z": {},
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1), "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", value))
				var response clinicaldoc.Response
				_, err := client.Notes.Get(t.Context(), 7, clinicaldoc.WithResponse(&response))
				require.NoError(t, err)
				assert.Equal(t, clinicaldoc.RateLimit{Limit: 60, Remaining: 3, Reset: want}, response.RateLimit)
			})
		})
	}
}

func TestRateLimitResetGoesByTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newPolled(t, always(200, noteAt(7, clinicaldoc.StageComplete, 1), "X-RateLimit-Reset", "40", "Date", "Sat, 01 Jan 2000 10:00:00 GMT"))
		var response clinicaldoc.Response
		_, err := client.Notes.Get(t.Context(), 7, clinicaldoc.WithResponse(&response))
		require.NoError(t, err)
		assert.Equal(t, time.Date(2000, 1, 1, 10, 0, 40, 0, time.UTC), response.RateLimit.Reset)
	})
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header map[string]string
		want   string
	}{
		"none":           {nil, ""},
		"usual":          {map[string]string{"X-Request-Id": "0b9f-1"}, "0b9f-1"},
		"correlation":    {map[string]string{"X-Correlation-Id": "c-1"}, "c-1"},
		"load balancer":  {map[string]string{"X-Amzn-Trace-Id": "Root=1-5759e988;Self=1"}, "Root=1-5759e988;Self=1"},
		"proxy":          {map[string]string{"Cf-Ray": "230b030023ae2822-SJC"}, "230b030023ae2822-SJC"},
		"first one wins": {map[string]string{"X-Request-Id": "a", "Cf-Ray": "b"}, "a"},
		"the usual one":  {map[string]string{"X-Request-Id": "a", "X-Correlation-Id": "b"}, "a"},
		"unfit for logs": {map[string]string{"X-Request-Id": "two words", "Cf-Ray": "b"}, "b"},
		"too long":       {map[string]string{"X-Request-Id": strings.Repeat("a", 129)}, ""},
	} {
		assert.Equal(t, tt.want, answeredWith(t, call{status: 500, answerHeader: tt.header}).RequestID, name)
	}
}

func TestResponseTellsOfFailures(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/user", status: http.StatusTooManyRequests, response: `{"message":"m"}`, answerHeader: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "many"}},
		call{url: "/user", fail: errors.New("reset")},
	)
	response := clinicaldoc.Response{StatusCode: 1, Body: []byte("stale")}
	_, err := client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
	assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	assert.JSONEq(t, `{"message":"m"}`, string(response.Body))
	assert.Equal(t, 1, response.Attempts)
	assert.Equal(t, clinicaldoc.RateLimit{}, response.RateLimit)

	_, err = client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.Error(t, err)
	assert.Equal(t, clinicaldoc.Response{Attempts: 1}, response, "nothing of an earlier answer stays")
}

func TestAnAttemptEncodesItsErrorAsText(t *testing.T) {
	t.Parallel()
	answered := &clinicaldoc.Error{StatusCode: 422, Message: canary, Fields: map[string][]string{"name": {canary}}, Operation: "Notes.Create", Method: "POST", Route: "/r"}
	attempt := clinicaldoc.Attempt{Operation: "Notes.Create", Method: "POST", Route: "/r", Number: 1, StatusCode: 422, Duration: time.Second, Err: answered}
	encoded, err := json.Marshal(attempt)
	require.NoError(t, err)
	assert.JSONEq(t, `{"Operation":"Notes.Create","Method":"POST","Route":"/r","Number":1,"StatusCode":422,"Duration":1000000000,"RequestID":"","BytesSent":0,"BytesReceived":0,"Err":"`+
		answered.Error()+`"}`, string(encoded))
	attempt.Err = errors.New(canary)
	encoded, err = json.Marshal(attempt)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded)+attempt.LogValue().String(), canary)
	attempt.Err = nil
	encoded, err = json.Marshal(&attempt)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded), "Err")
}

func TestLoggerAndObserverAllowList(t *testing.T) {
	t.Parallel()
	const canary = "Canary"
	var text, encoded strings.Builder
	var seen []clinicaldoc.Attempt
	log := slog.New(slog.NewMultiHandler(
		slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}),
		slog.NewJSONHandler(&encoded, &slog.HandlerOptions{Level: slog.LevelDebug}),
	))
	path := "/v1/progress-notes/7"
	requestID := map[string]string{"X-Request-Id": "req-9", "X-Debug": canary}
	rows := `[{"id":1,"patient_id":4711},{"id":2,"patient_id":4711}]`
	note := `{"id":7,"name":"` + canary + `","patient":{"id":4711,"name":"` + canary + `"}}`
	body := `{"name":"` + canary + `"}`
	client := serveWith(t, []clinicaldoc.Option{
		clinicaldoc.WithLogger(log),
		clinicaldoc.WithObserver(func(ctx context.Context, a clinicaldoc.Attempt) {
			assert.Equal(t, "call", ctx.Value(contextKey{}))
			seen = append(seen, a)
		}),
	},
		call{method: "PUT", url: path + "?q=" + canary, body: body, header: map[string]string{"X-Custom": canary}, response: note, answerHeader: requestID},
		call{url: path, status: http.StatusUnprocessableEntity, response: `{"message":"` + canary + `","errors":{"name":["` + canary + `"],"` + canary + ` x":[]}}`},
		call{url: path, fail: &url.Error{Op: "Get", URL: "https://" + canary, Err: errors.New(canary)}},
		call{url: path, response: `{"id":7,"name":` + canary + `}`, answerHeader: map[string]string{"X-Request-Id": "two words " + canary, "Content-Type": canary + " x"}},
		call{url: "/v1/progress-notes?cursor=" + canary + "&patient_id=4711&per_page=1", response: rows},
	)
	ctx := context.WithValue(t.Context(), contextKey{}, "call")
	_, err := client.Notes.Update(ctx, 7, clinicaldoc.UpdateNoteParams{Name: new(canary)}, clinicaldoc.WithQuery("q", canary), clinicaldoc.WithHeader("X-Custom", canary))
	require.NoError(t, err)
	for range 3 {
		_, err = client.Notes.Get(ctx, 7)
		require.Error(t, err)
	}
	_, err = client.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: 4711, PerPage: 1, Cursor: canary})
	require.NoError(t, err)

	for i := range seen {
		assert.Positive(t, seen[i].Duration)
		seen[i].Duration = 0
	}
	require.Len(t, seen, 5)
	require.ErrorIs(t, seen[1].Err, clinicaldoc.ErrValidation)
	require.Error(t, seen[2].Err)
	assert.Contains(t, seen[2].Err.Error(), "no response")
	seen[1].Err, seen[2].Err = nil, nil
	get := clinicaldoc.Attempt{Operation: "Notes.Get", Method: http.MethodGet, Route: "/v1/progress-notes/{id}", Number: 1}
	invalid, lost, garbled := get, get, get
	invalid.StatusCode, invalid.BytesReceived = http.StatusUnprocessableEntity, seen[1].BytesReceived
	garbled.StatusCode, garbled.BytesReceived = http.StatusOK, seen[3].BytesReceived
	assert.Positive(t, invalid.BytesReceived)
	assert.Equal(t, []clinicaldoc.Attempt{
		{
			Operation: "Notes.Update", Method: http.MethodPut, Route: "/v1/progress-notes/{id}", Number: 1, StatusCode: http.StatusOK,
			RequestID: "req-9", BytesSent: int64(len(body)), BytesReceived: int64(len(note)),
		},
		invalid, lost, garbled,
		{Operation: "Notes.List", Method: http.MethodGet, Route: "/v1/progress-notes", Number: 1, StatusCode: http.StatusOK, BytesReceived: int64(len(rows))},
	}, seen)

	for _, out := range []string{text.String(), encoded.String()} {
		assert.NotContains(t, out, canary)
		assert.NotContains(t, out, "4711")
		assert.NotContains(t, out, testToken)
		assert.Contains(t, out, "req-9")
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	require.Len(t, lines, 6)
	assert.Contains(t, lines[0], "level=DEBUG")
	assert.Contains(t, lines[1], "level=WARN")
	assert.Contains(t, lines[1], "fields: name]")
	assert.Contains(t, lines[2], "level=WARN")
	assert.Contains(t, lines[5], "ignored the page size")
	allowed := []string{"time", "level", "msg", "operation", "method", "route", "attempt", "status", "duration", "request_id", "bytes_sent", "bytes_received", "error", "asked", "rows"}
	for line := range strings.Lines(encoded.String()) {
		assert.Subset(t, allowed, keys(t, line))
	}
}
