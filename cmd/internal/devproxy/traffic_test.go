package devproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// opened returns what a request opens to.
func (c *command) opened(id int64) (opened struct {
	request
	detail
},
) {
	c.t.Helper()
	c.shown() // a client may have its response before the request is over
	require.NoError(c.t, json.Unmarshal([]byte(c.get(fmt.Sprintf("/_/requests/%d", id)).text), &opened))
	return opened
}

// attempts lists the requests as attempts of calls.
func (c *command) attempts() (list []string) {
	c.t.Helper()
	for _, r := range c.shown() {
		list = append(list, fmt.Sprintf("%d call %d attempt %d: %s %d %s", r.ID, r.Call, r.Attempt, r.Route, r.Status, r.Fault))
	}
	return list
}

// quickRetries is a policy that waits for almost nothing.
var quickRetries = clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{
	MaxRetries: 3, MinWait: time.Millisecond, MaxWait: time.Millisecond,
})

func TestTraffic_Retries_AreGroupedByCall(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "2", "-fault", "GET /v1/progress-notes/{id}:status=503:2", "-fault", "GET /v1/auth/tokens:reset")
	client := c.sdk(quickRetries)
	_, err := client.Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	_, err = client.Notes.Get(t.Context(), 1) // another call
	require.NoError(t, err)
	_, err = client.Tokens.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{
		"1 call 1 attempt 1: GET /v1/progress-notes/{id} 503 status=503",
		"2 call 1 attempt 2: GET /v1/progress-notes/{id} 503 status=503",
		"3 call 1 attempt 3: GET /v1/progress-notes/{id} 200 ",
		"4 call 4 attempt 1: GET /v1/progress-notes/{id} 200 ",
		"5 call 5 attempt 1: GET /v1/auth/tokens 0 reset",
		"6 call 5 attempt 2: GET /v1/auth/tokens 200 ",
	}, c.attempts())
}

// A response that breaks off is a failure too, and another recording is another call.
func TestTraffic_OtherRecording_IsAnotherCall(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "1", "-fault", "GET /v1/progress-notes/{id}:truncate=5", "-fault", "POST /v1/progress-notes:status=503")
	client := c.sdk(quickRetries)
	_, err := client.Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	for size := range 2 {
		_, err = client.Notes.Create(t.Context(), createParams(1000+size), clinicaldoc.WithoutRetry())
		assert.Equal(t, size == 1, err == nil, err)
	}
	assert.Equal(t, []string{
		"1 call 1 attempt 1: GET /v1/progress-notes/{id} 200 truncate=5",
		"2 call 1 attempt 2: GET /v1/progress-notes/{id} 200 ",
		"3 call 3 attempt 1: POST /v1/progress-notes 503 status=503",
		"4 call 4 attempt 1: POST /v1/progress-notes 201 ",
	}, c.attempts())
}

// Two users may send the same request at the same time.
func TestTraffic_OtherToken_IsAnotherCall(t *testing.T) {
	t.Parallel()
	followed := following()
	failing := followed.watch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	var attempts []int
	for _, token := range []string{"first", "second", "first"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/user", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		failing.ServeHTTP(httptest.NewRecorder(), r)
		attempts = append(attempts, followed.opened(followed.last).Attempt)
	}
	assert.Equal(t, []int{1, 1, 2}, attempts)
}

// The local server's own record of a request is found by a header, which a program may send too.
func TestObserve_HeaderOfAProgram_IsIgnored(t *testing.T) {
	t.Parallel()
	c := launch(t)
	c.get("/v1/auth/tokens")
	req := c.request(http.MethodGet, "/user", nil)
	req.Header.Set(tag, "1")
	_, err := c.do(req)
	require.NoError(t, err)
	shown := c.shown()
	require.Len(t, shown, 2)
	assert.Equal(t, "GET /v1/auth/tokens", shown[0].Route)
	assert.Equal(t, "GET /user", shown[1].Route)
}

// A client may try again before the handler of its first attempt has returned.
func TestTraffic_QuickRetry_IsTheSameCall(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(http.ResponseWriter){
		"reset": func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close()
			}
		},
		"503": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			assert.NoError(t, http.NewResponseController(w).Flush())
		},
	} {
		followed := newTraffic(newRequestLog(io.Discard), newEvents(), nil, &bodies{})
		failed, retried := false, make(chan struct{})
		srv := httptest.NewServer(followed.watch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if failed {
				close(retried)
				return
			}
			failed = true
			fail(w)
			<-retried
		})))
		for range 2 {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/user", nil)
			require.NoError(t, err)
			if resp, err := client.Do(req); err == nil {
				require.NoError(t, resp.Body.Close())
			}
		}
		srv.Close()
		list := followed.list(0, 2)
		assert.Equal(t, 2, list[1].Attempt, name)
		assert.Equal(t, list[0].ID, list[1].Call, name)
		assert.Empty(t, followed.calls, "%s: the next is another call", name)
	}
}

// The data of the local server is synthetic, so the page shows a request and its response completely.
func TestInspector_Request_ShowsWhatWasSent(t *testing.T) {
	t.Parallel()
	c := launch(t, "-transcription", "0s", "-analysis", "0s")
	c.create()
	c.get("/v1/progress-notes?patient_id=7")
	c.send(http.MethodPost, "/v1/progress-notes", "application/json", strings.NewReader(`{"name":"Visit"}`))
	shown := c.shown()
	require.Len(t, shown, 3)
	assert.EqualValues(t, 1, shown[0].NoteID)
	assert.Equal(t, "/v1/progress-notes?patient_id=7", shown[1].Target)
	assert.Equal(t, "HTTP/1.1", shown[1].Proto)
	assert.Contains(t, shown[1].Conn, "127.0.0.1:")

	created := c.opened(1)
	assert.Contains(t, created.RequestHeader, "Authorization: (withheld)")
	require.Len(t, created.Parts, 4)
	assert.Contains(t, created.ResponseHeader, "Content-Type: application/json")
	assert.Equal(t, "req-1", created.RequestID)
	assert.Contains(t, c.get("/_/requests/1/response/body").text, `"name":"Secret visit"`)
	assert.Contains(t, created.Go, `client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Secret visit", PatientID: 7`)
	assert.Equal(t, "*clinicaldoc.ProgressNote", created.Verdict.Type)
	for i, p := range created.Parts {
		part := c.get(fmt.Sprintf("/_/requests/1/parts/%d", i))
		assert.Len(t, part.text, p.Size)
		assert.Equal(t, p.File != "", strings.HasPrefix(p.Name, "file"))
	}
	for _, number := range []string{"4", "-1", "x"} {
		assert.Equal(t, http.StatusNotFound, c.get("/_/requests/1/parts/"+number).status, number)
	}
	assert.Equal(t, "page, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: 7})", c.opened(2).Go)

	refused := c.opened(3)
	assert.JSONEq(t, `{"name":"Visit"}`, c.get("/_/requests/3/request/body").text, "what was refused is shown too")
	assert.Contains(t, c.get("/_/requests/3/response/body").text, "The file field is required.")
	assert.Equal(t, []string{"ErrValidation"}, refused.Verdict.Matches)
	assert.Equal(t, "docs/errors.md#what-the-service-said", refused.Verdict.Docs)
	assert.NotContains(t, fmt.Sprintf("%+v %+v", created, refused), c.token)

	assert.JSONEq(t, "[1,3]", c.get("/_/requests?text=%22Visit").text, "what is in a body is found")
	assert.JSONEq(t, "[1,2]", c.get("/_/requests?text=secret").text)
	assert.JSONEq(t, "[3]", c.get("/_/requests?text=%22Visit&after=1").text)
	assert.JSONEq(t, "[1]", c.get("/_/requests?text=%22Visit&limit=2").text)
	assert.Equal(t, http.StatusNotFound, c.get("/_/requests/99").status)
	c.use(http.MethodDelete, "requests", "", http.StatusOK)
	assert.Empty(t, c.shown())
}

// The curl command that the page copies sends the same request, with the same headers and bytes.
func TestCurl_EachRequest_SendsTheSame(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl was found")
	}
	c := launch(t, "-seed", "1")
	c.get("/v1/progress-notes?patient_id=1&x=it's[1-3]")
	c.get("/v1/./../user")
	c.create()
	c.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader("{\"name\":\"It's\\u00e9 $HOME `x`\"}"))
	c.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"name":"`+strings.Repeat("long ", 10_000)+`"}`))
	c.send(http.MethodDelete, "/v1/progress-notes/99", "", nil)
	c.send(http.MethodPut, "/v1/progress-notes/1", "application/json", io.MultiReader(strings.NewReader(`{"name":"chunked"}`))) // without a length
	c.send(http.MethodGet, "/user", "application/json", strings.NewReader(`{"a":"body"}`))
	sent := len(c.shown())
	for id := range int64(sent) {
		original := c.opened(id + 1)
		copied := exec.CommandContext(t.Context(), "sh", "-c", original.Curl+" --silent --show-error")
		copied.Env = append(os.Environ(), "CLINICALDOC_TOKEN="+c.token)
		out, err := copied.CombinedOutput()
		require.NoError(t, err, "%s\n%s", original.Curl, out)
		shown := c.shown()
		again := c.opened(shown[len(shown)-1].ID)
		assert.Equal(t, original.RequestHeader, again.RequestHeader, original.Curl)
		assert.Equal(t, original.Method+original.Target, again.Method+again.Target)
		body := func(id int64) string { return c.get(fmt.Sprintf("/_/requests/%d/request/body?raw", id)).text }
		assert.Equal(t, body(original.ID), body(again.ID), original.Curl)
	}
	assert.Len(t, c.shown(), 2*sent)
}

// If a body was not kept completely, the request can neither be copied as curl nor be sent again: both would send
// another body.
func TestCurl_IncompleteBody_IsNotCopied(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://x/v1/progress-notes/5", nil)
	require.NoError(t, err)
	for _, forgotten := range []bool{false, true} {
		kept := &bodies{}
		rec := newRecord(r, kept)
		_, _ = rec.requestBody.Write(make([]byte, maxBody+1))
		if forgotten {
			kept.drop(rec.requestBody)
		}
		assert.Equal(t, "# the request's body was not kept completely: it cannot be sent again", rec.curl(1))
		require.ErrorContains(t, (&box{}).replay(t.Context(), &request{record: rec}, edited{}), "not kept completely")
	}
}

// The search finds words in bodies that were compressed for the transfer. Programs and the page find the same.
func TestSearch_CompressedBody_IsFound(t *testing.T) {
	t.Parallel()
	c := launch(t, "-variant", "drifting", "-seed", "1")
	c.get("/v1/progress-notes/1?x=Needle")
	c.shown()
	require.Contains(t, c.opened(1).ResponseHeader, "Content-Encoding: gzip")
	for _, word := range []string{"synthetic+transcription", "needle", "progress-notes", "application%2Fjson"} {
		assert.JSONEq(t, "[1]", c.get("/_/requests?text="+word).text, word)
	}
	assert.JSONEq(t, "[]", c.get("/_/requests?text=nowhere").text)
}

// The Go code that the page copies keeps the filter of a list. Without it, the list would contain the notes of all
// patients.
func TestCopiedGo_OtherQueryNames_KeepsFilter(t *testing.T) {
	t.Parallel()
	c := launch(t, "-variant", "cursor-in-links", "-seed", "9")
	c.get("/v1/progress-notes?filter[patient_id]=2&page[size]=2&sort=oldest")
	opened := c.opened(c.shown()[0].ID)
	assert.Equal(t, `page, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: 2, PerPage: 2, Sort: "oldest"})`, opened.Go)
	assert.False(t, opened.Verdict.Failed, opened.Verdict.Text)
}

func TestReplay_Request_IsSentAgain(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "1")
	c.create()
	again := c.post("requests/1/replay", "")
	assert.InDelta(t, 2, again["id"], 0)
	repeated := c.opened(2)
	assert.EqualValues(t, 1, repeated.Replays)
	assert.Equal(t, http.StatusCreated, repeated.Status)
	assert.Equal(t, c.opened(1).RequestHeader, repeated.RequestHeader)
	assert.Equal(t, c.get("/_/requests/1/request/body").text, c.get("/_/requests/2/request/body").text)
	assert.Len(t, c.state().Notes, 3)

	c.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"name":"Before"}`))
	c.post("requests/3/replay", `{"target":"/v1/progress-notes/2","body":"{\"name\":\"After\"}","header":["Content-Type: application/json","Authorization: (withheld)","X-Own: 1"]}`)
	edited := c.opened(4)
	assert.Equal(t, http.StatusOK, edited.Status)
	assert.Contains(t, edited.RequestHeader, "X-Own: 1")
	assert.NotContains(t, strings.Join(edited.RequestHeader, " "), "X-Devproxy")
	assert.Equal(t, "After", c.state().Notes[1].Name)

	c.get("/v1/progress-notes/1/audio-url")
	var signed struct{ URL string }
	require.NoError(t, json.Unmarshal([]byte(c.get("/_/requests/5/response/body").text), &signed))
	fetch, err := http.NewRequestWithContext(t.Context(), http.MethodGet, signed.URL, nil)
	require.NoError(t, err)
	recording, err := c.do(fetch)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(c.shown()) == 6 }, 10*time.Second, time.Millisecond)
	heard := c.get("/_/requests/6/response/body")
	assert.Equal(t, recording.text, heard.text)
	assert.Equal(t, "audio/wav", heard.header.Get("Content-Type"))
	c.post("requests/6/replay", "")
	assert.Equal(t, http.StatusOK, c.opened(7).Status, "the storage too")

	for _, wrong := range []string{`{"target":"x"}`, `{"target":"/_/reset"}`, `{"method":"A B"}`, `{"header":["x"]}`, `{"body":"-","base64":true}`, `{"x":1}`} {
		c.use(http.MethodPost, "requests/3/replay", wrong, http.StatusBadRequest)
	}
	c.use(http.MethodPost, "requests/99/replay", "", http.StatusNotFound)
}

func TestReplay_NoUserAgent_AddsNone(t *testing.T) {
	t.Parallel()
	c := launch(t)
	c.raw(rawRequest{method: http.MethodGet, target: "/user", header: "X-Own: 1\r\n"})
	assert.Equal(t, []string{"X-Own: 1"}, c.opened(1).RequestHeader)
	c.post("requests/1/replay", "")
	assert.Equal(t, []string{"X-Own: 1"}, c.opened(2).RequestHeader)
}

// A saved session can be loaded elsewhere, and its requests can be viewed and sent again.
func TestArchive_SavedSession_LoadsTheSame(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "2", "-fault", "GET /user:reset", "-fault", "GET /v1/auth/tokens:truncate=12")
	c.create()
	c.get("/v1/progress-notes?patient_id=1&x=%20y")
	c.client.CloseIdleConnections()
	_, err := c.client.Transport.RoundTrip(c.request(http.MethodGet, "/user", nil)) //nolint:bodyclose // there is none
	require.Error(t, err)
	_, err = c.sdk().Tokens.List(t.Context(), clinicaldoc.WithoutRetry())
	require.Error(t, err)
	c.shown()
	download := c.get("/_/har")
	assert.Equal(t, `attachment; filename="requests.har"`, download.header.Get("Content-Disposition"))
	saved := download.text
	assert.NotContains(t, saved, c.token)

	other := launch(t)
	assert.InDelta(t, 4, other.post("har", saved)["loaded"], 0)
	for id := range int64(4) {
		before, after := c.opened(id+1), other.opened(id+1)
		want := before.request
		want.Loaded = true
		assert.Equal(t, want, after.request)
		assert.Equal(t, before.RequestHeader, after.RequestHeader)
		assert.Equal(t, before.ResponseHeader, after.ResponseHeader)
		assert.Equal(t, before.Parts, after.Parts)
		assert.Equal(t, before.Verdict, after.Verdict)
		for _, side := range []string{"request", "response"} {
			path := fmt.Sprintf("/_/requests/%d/%s/body", id+1, side)
			assert.Equal(t, c.get(path).text, other.get(path).text)
		}
	}
	other.post("requests/1/replay", "")
	assert.Equal(t, http.StatusCreated, other.opened(5).Status, "with the other box's token")
	assert.JSONEq(t, saved, c.get("/_/har").text, "saving changes nothing")
	for _, wrong := range []string{"", "[]", `{"log":{}}`, `{"log":{"version":"1.2","entries":[{}]}}`} {
		other.use(http.MethodPost, "har", wrong, http.StatusBadRequest)
	}
	assert.Len(t, other.shown(), 5)
}

func TestArchive_ManyRequests_HoldsAll(t *testing.T) {
	t.Parallel()
	const (
		count = 1001
		entry = `{"request":{"method":"GET","url":"http://127.0.0.1/user"},"response":{"status":200}}`
	)
	c := launch(t)
	entries := strings.Repeat(entry+",", count-1) + entry
	assert.InDelta(t, count, c.post("har", `{"log":{"version":"1.2","entries":[`+entries+`]}}`)["loaded"], 0)
	assert.Len(t, c.shown(), count)
	assert.Equal(t, count, strings.Count(c.get("/_/har").text, `"startedDateTime":`))
}

// The typed error is the SDK's own.
func TestVerdict_EachResponse_IsTheSDKs(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "2")
	for _, test := range []struct{ fault, method, path, kind, matches string }{
		{"", "GET", "/user", "*clinicaldoc.User", ""},
		{"", "GET", "/v1/progress-notes/99", "*clinicaldoc.Error", "ErrNotFound"},
		{"GET /user:status=503", "GET", "/user", "*clinicaldoc.Error", "ErrServer"},
		{"GET /user:429=30s", "GET", "/user", "*clinicaldoc.Error", "ErrRateLimited"},
		{"GET /user:truncate=10", "GET", "/user", "", ""},
		{"GET /user:truncate-chunked=10", "GET", "/user", "", ""},
		{"GET /user:reset", "GET", "/user", "", ""},
		{"POST /v1/progress-notes:status=504", "POST", "/v1/progress-notes", "*clinicaldoc.OutcomeUnknownError", "ErrServer ErrOutcomeUnknown"},
		{"POST /v1/progress-notes:reset-after-commit", "POST", "/v1/progress-notes", "*clinicaldoc.OutcomeUnknownError", "ErrOutcomeUnknown"},
		{"", "GET", "/v1/progress-notes", "*clinicaldoc.Page[github.com/clinicaldoc/clinicaldoc-go.ProgressNote]", ""},
		{"", "GET", "/nowhere", "*clinicaldoc.Error", "ErrNotFound"},
	} {
		if test.fault != "" {
			c.post("faults", `{"fault":"`+test.fault+`"}`)
		}
		c.client.CloseIdleConnections() // net/http retries on a connection that it has used before
		_, _ = c.do(c.request(test.method, test.path, nil))
		shown := c.shown()
		thought := c.opened(shown[len(shown)-1].ID).Verdict
		require.NotNil(t, thought, test)
		assert.Equal(t, test.matches, strings.Join(thought.Matches, " "), test)
		if test.kind != "" {
			assert.Equal(t, test.kind, thought.Type, test)
		} else {
			assert.True(t, thought.Failed, test)
		}
		assert.NotContains(t, thought.Text, "synthetic")
		assert.NotContains(t, thought.Type, ".call", "a program can name it")
		if page, _, _ := strings.Cut(thought.Docs, "#"); page != "" {
			assert.FileExists(t, filepath.Join("..", "..", "..", page))
		}
	}
}

// Bodies of a real service are kept only with the flag -show-bodies. Tokens are never kept.
func TestShowBodies_RealService_NeedsTheFlag(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	srv.AddNote(clinicaldoctest.Note{Name: "Synthetic visit"})
	for _, args := range [][]string{nil, {"-show-bodies"}} {
		c := launch(t, append(args, "-upstream", srv.URL)...)
		c.token = srv.Token
		c.get("/v1/progress-notes/1?x=1")
		opened := c.opened(c.shown()[0].ID)
		body := c.get("/_/requests/1/response/body")
		if shown := len(args) > 0; shown {
			assert.Contains(t, c.stdout.String(), "BODIES ARE SHOWN")
			assert.Contains(t, c.get("/_/state").text, `"bodies":true`)
			assert.Contains(t, body.text, "Synthetic visit")
			assert.Equal(t, "*clinicaldoc.ProgressNote", opened.Verdict.Type)
		} else {
			assert.Contains(t, c.get("/_/state").text, `"bodies":false`)
			assert.Equal(t, http.StatusNotFound, body.status)
			assert.Contains(t, opened.ResponseShape, "name: string")
			assert.Equal(t, "?x", opened.Target)
			c.use(http.MethodPost, "har", `{}`, http.StatusBadRequest)
		}
		assert.NotContains(t, c.get("/_/requests/1").text+c.get("/_/har").text, srv.Token)
		c.use(http.MethodPost, "requests/1/replay", "", http.StatusBadRequest)
	}
	assert.Len(t, srv.Requests(), 2, "nothing was sent again")
}

// Bodies stay as they are, also the signed address in one.
func TestShowBodies_SecretsInAddresses_AreWithheld(t *testing.T) {
	t.Parallel()
	const storage = "https://storage.example.test/audio?X-Amz-Date=kept&X-Amz-Signature=canary"
	queries := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries <- r.URL.RawQuery
		w.Header().Set("Location", storage)
		_, _ = io.WriteString(w, `{"url":"https://storage.example.test/audio?signature=in-a-body"}`)
	}))
	t.Cleanup(service.Close)
	c := launch(t, "-upstream", service.URL, "-show-bodies")
	req, err := http.NewRequestWithContext(
		t.Context(), http.MethodGet, c.url+"/v1/progress-notes?patient_id=kept&api_token=canary", nil,
	)
	require.NoError(t, err)
	req.Header.Set("Referer", "https://app.example.test/?access_token=canary")
	response, err := c.client.Do(req)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, "patient_id=kept&api_token=canary", <-queries, "the service gets it")
	assert.Equal(t, storage, response.Header.Get("Location"), "and the client what the service sends")

	c.shown() // a client may have its response before the request is over
	saved := c.get("/_/har").text
	c.use(http.MethodPost, "har", strings.ReplaceAll(saved, "(withheld)", "canary"), http.StatusOK)
	shown := saved + c.get("/_/har").text
	for _, path := range []string{"requests", "requests/1", "requests/2"} {
		shown += c.get("/_/" + path).text
	}
	assert.NotContains(t, shown, "canary")
	shown = strings.ReplaceAll(shown, `\u0026`, "&")
	assert.Contains(t, shown, "/v1/progress-notes?patient_id=kept&api_token=(withheld)")
	assert.Contains(t, shown, "X-Amz-Date=kept&X-Amz-Signature=(withheld)")
	assert.Contains(t, saved, "signature=in-a-body")
	assert.Equal(t, "[]\n", c.get("/_/requests?text=canary").text, "nor can it be guessed")
}

func TestBodies_ManyAndLarge_BodiesAreBounded(t *testing.T) {
	t.Parallel()
	var kept bodies
	piece := make([]byte, 1<<20)
	var all []*body
	for range 10 {
		b := kept.new()
		all = append(all, b)
		for range 40 {
			_, _ = b.Write(piece)
		}
		content, whole := b.bytes()
		assert.Len(t, content, maxBody)
		assert.False(t, whole, "it is told that this is not all")
	}
	assert.LessOrEqual(t, kept.used, maxBodies)
	content, whole := all[0].bytes()
	assert.Empty(t, content, "the oldest is forgotten")
	assert.False(t, whole)
	kept.drop(all...)
	assert.Zero(t, kept.used)
	assert.Empty(t, kept.kept)
}

// The oldest body is not forgotten while it grows. If there is no room for more of it, it is cut.
func TestBodies_OldestGrowsWithoutRoom_IsCut(t *testing.T) {
	t.Parallel()
	var kept bodies
	piece := make([]byte, 1<<20)
	oldest := kept.new()
	_, _ = oldest.Write(piece)
	for kept.used+len(piece) <= maxBodies {
		_, _ = kept.new().Write(piece)
	}
	_, _ = oldest.Write(piece)
	content, whole := oldest.bytes()
	assert.Len(t, content, len(piece))
	assert.False(t, whole)
	assert.LessOrEqual(t, kept.used, maxBodies)
	kept.drop(nil, oldest)
	assert.LessOrEqual(t, kept.used, maxBodies-len(piece))
}

// Of the traffic between a program and a real service, the page gets only names and types, and no values.
func TestInspector_RealService_ShowsNoValue(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	c := stub(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json; x="+canary)
		w.Header().Set("X-Name", canary)
		w.Header().Set("Set-Cookie", canary)
		_, _ = io.WriteString(w, `{"id":"`+canary+`","`+canary+` key":{"`+canary+`":1},"name":"`+canary+`","list":["`+canary+`"]}`)
	})
	c.token = canary
	for _, path := range []string{"/user", "/v1/progress-notes/" + canary, "/" + canary, "/v1/progress-notes?patient_id=" + canary + "&" + canary + "=1&filter[patient_id]=" + canary} {
		c.get(path)
		c.send(http.MethodPut, path, "application/json; x="+canary, strings.NewReader(`{"name":"`+canary+`","`+canary+`":[]}`))
		c.send(http.MethodPost, path, "multipart/form-data; boundary="+canary, strings.NewReader("--"+canary+"\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n"+canary+"\r\n--"+canary+"--"))
		c.send(canary, path, "text/"+canary, strings.NewReader(canary))
	}
	for _, r := range c.shown() {
		text := c.get(fmt.Sprintf("/_/requests/%d", r.ID)).text
		assert.NotContains(t, text, canary)
		assert.Contains(t, text, "X-Name")
		assert.Contains(t, text, `"name: string"`)
	}
	assert.NotContains(t, c.get("/_/requests").text+c.get("/_/state").text, canary)
	assert.NotEmpty(t, c.state().Departures)
	assert.Equal(t, "?(name withheld)&filter[patient_id]&patient_id", c.shown()[12].Target)
	c.interrupt()
	assert.NotContains(t, c.stdout.String()+c.stderr.String(), canary)
}

func TestTraffic_Many_KeptRequestsAreBounded(t *testing.T) {
	t.Parallel()
	followed := newTraffic(newRequestLog(io.Discard), newEvents(), nil, &bodies{})
	handler := followed.watch(http.NotFoundHandler())
	most := 0
	for range keptRequests + 50 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/nowhere", strings.NewReader("body")))
		most = max(most, len(followed.kept))
	}
	assert.Equal(t, keptRequests, most)
	shown := followed.list(0, 2*keptRequests)
	assert.LessOrEqual(t, len(shown), keptRequests)
	assert.EqualValues(t, keptRequests+50, shown[len(shown)-1].ID)
	assert.Nil(t, followed.opened(1))
	assert.LessOrEqual(t, followed.bodies.used, keptRequests*(len("body")+len("404 page not found\n")), "nor is anything kept of it")
}

// The Go code that the page copies compiles. A route without an entry in goCall.text is copied as a call of Do.
func TestCopiedGo_EveryRoute_Compiles(t *testing.T) {
	t.Parallel()
	program := `package main

import (
	"context"
	"io"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {}

`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/v1/progress-notes/5?patient_id=7&sort=latest&cursor=%22", nil)
	require.NoError(t, err)
	rec := newRecord(r, &bodies{})
	_, _ = rec.requestBody.Write([]byte(`{"name":"It's \"*/ é","analysis":""}`))
	form := newRecord(r, &bodies{})
	form.requestHeader.Set("Content-Type", "multipart/form-data; boundary=b")
	_, _ = form.requestBody.Write([]byte("--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n*/ \"x\"\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"*/a.wav\"\r\n\r\nRIFF\r\n--b--"))
	number, names := 0, clinicaldoctest.Variants()[0].Query
	const noRoute = ""
	for _, route := range append(clinicaldoctest.Routes(), noRoute) {
		for _, call := range []goCall{{}, callOf(route, rec, names), callOf(route, form, names)} {
			code := call.text(route)
			results, _, _ := strings.Cut(code, " := ")
			first, _, _ := strings.Cut(results, ",")
			number++
			program += fmt.Sprintf("func f%d(ctx context.Context, client *clinicaldoc.Client, id, patientID, promptID int64, name, method, path string, audio *clinicaldoc.AudioSource, w io.Writer, out any) error {\n%s\n_ = %s\nreturn err\n}\n", number, code, first)
		}
	}
	file := filepath.Join(t.TempDir(), "copied.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	compile := exec.CommandContext(t.Context(), "go", "list", "-export", file) // which links nothing
	out, err := compile.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, program)
}
