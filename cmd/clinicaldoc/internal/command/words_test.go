package command

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

func TestAPI_EachPage_NamesTheNextOne(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"meta":{"current_page":1,"last_page":2}}`:                    "page=2&sort=latest",
		`{"current_page":1,"last_page":2}`:                             "page=2&sort=latest",
		`{"current_page":7,"meta":{"current_page":2,"last_page":3}}`:   "page=3&sort=latest",
		`{"meta":{"next_cursor":"abc","current_page":1}}`:              "cursor=abc&sort=latest",
		`{"links":{"next":"https://elsewhere.example/x?page=4"}}`:      "page=4&sort=latest",
		`{"next_page_url":"/x?cursor=c","meta":{"next_cursor":"abc"}}`: "cursor=c&sort=latest",
		`{"meta":{"current_page":2,"last_page":2}}`:                    "",
		`{"meta":{"last_page":2}}`:                                     "",
		`{"links":{"next":null}}`:                                      "",
		`{}`:                                                           "",
	} {
		env, _ := newEnv(newServer(t))
		o := &apiOptions{Env: env, paginate: true}
		next, err := o.next(url.Values{"sort": {"latest"}}, &clinicaldoc.Response{Body: []byte(body)})
		require.NoError(t, err)
		assert.Equal(t, want, next.Encode(), body)
	}
}

func TestTotalText_EachNumber_IsNamedIfThereIsOne(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]ingest.Progress{
		"0/3 done":               {Total: 3},
		"3/9 done, 3 unresolved": {Total: 9, Created: 1, AlreadyThere: 1, InDoubt: 1, Doubts: 2},
		"2/9 done, 2 refused":    {Total: 9, Refused: 2},
		"3/9 done, 1 being processed, 2 failed": {
			Total: 9, Created: 3, Processing: 1, Failed: 2,
		},
		"1/9 done, 59 s left":               {Total: 9, Created: 1, Left: 59*time.Second + 400*time.Millisecond},
		"1/9 done, 1 min left":              {Total: 9, Created: 1, Left: time.Minute},
		"1/9 done, 3 min left":              {Total: 9, Created: 1, Left: 150 * time.Second},
		"2/9 done, 1 unresolved, 1 refused": {Total: 9, Created: 1, Refused: 1, Doubts: 1},
	} {
		assert.Equal(t, want, totalText(p))
	}
}

func TestFleetStatus_EachPart_HasItsRow(t *testing.T) {
	t.Parallel()
	env, shown := newEnv(nil)
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	busy := jetstream.Worker{Host: "ward", Process: 5, Uploading: 6, Done: 7}
	failing := jetstream.Worker{Host: "ward", Process: 8, Failing: "no response"}
	status := &fleetStatus{
		Waiting: 1, Uploading: 2, Later: 3, Processing: 4,
		Doubts:  []journalItem{{Key: "0123456789ab", Why: "no response"}},
		Workers: []jetstream.Worker{busy, failing},
		DeadLetters: []deadLetter{
			{At: at, Reason: "refused", Tries: 1}, {At: at, Reason: "refused", Tries: 2, File: "a.wav"},
		},
		Pause: &jetstream.Pause{Until: at.Add(time.Hour), Reason: "the service fails"},
	}
	require.NoError(t, (&fleetOptions{Env: env}).show(status))
	assert.Equal(t, []string{
		"waiting\t1\t", "uploading\t2\t", "later\t3\t", "processing\t4\t", "unresolved\t1\t", "dead letters\t2\t",
		"workers\t2\t", "pause\t2026-03-01T10:00:00Z\tthe service fails",
		"worker\tward/5\t6 uploading, 7 done", "worker\tward/8\t0 uploading, 0 done no response",
		"doubt\t0123456789ab\tno response",
		"dead letter\t2026-03-01T09:00:00Z\trefused, after 1 try",
		"dead letter\t2026-03-01T09:00:00Z\trefused, after 2 tries a.wav", "",
	}, strings.Split(shown.out.String(), "\n"))
}

func TestAttemptEnd_ShortWait_IsNotShown(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		time.Second - 1: "", time.Second: "waiting 1 s for the service's limit\n",
		90 * time.Second: "waiting 90 s for the service's limit\n",
	} {
		env, shown := newEnv(nil)
		for range 2 { // requests that were refused together
			env.attemptEnd(t.Context(), clinicaldoc.Attempt{RateLimitWait: wait})
		}
		assert.Equal(t, want, shown.err.String())
	}
}

func TestHostOf_BaseURL_ShowsNoPassword(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://user:secret@service.example:8080/api": "service.example:8080",
		"service.example:secret":                       "?",
		"http://[::1:secret":                           "?",
		"":                                             "?",
	} {
		assert.Equal(t, want, hostOf(base))
	}
}
