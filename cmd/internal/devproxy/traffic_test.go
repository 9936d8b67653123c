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
)

// opened returns what a request opens to.
func (c *command) opened(id int64) (opened struct {
	request
	detail
},
) {
	c.t.Helper()
	require.NoError(c.t, json.Unmarshal([]byte(c.get(fmt.Sprintf("/_/requests/%d", id)).text), &opened))
	return opened
}

func TestRetriesOfOneCallAreGrouped(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "2", "-fault", "GET /v1/progress-notes/{id}:status=503:2", "-fault", "GET /v1/auth/tokens:reset")
	client, err := clinicaldoc.NewClient(c.url, c.token, clinicaldoc.WithHTTPClient(c.client),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: time.Millisecond}))
	require.NoError(t, err)
	_, err = client.Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	_, err = client.Notes.Get(t.Context(), 1) // another call
	require.NoError(t, err)
	_, err = client.Tokens.List(t.Context())
	require.NoError(t, err)
	var got []string
	for _, r := range c.shown() {
		got = append(got, fmt.Sprintf("%d call %d attempt %d: %s %d %s", r.ID, r.Call, r.Attempt, r.Route, r.Status, r.Fault))
	}
	assert.Equal(t, []string{
		"1 call 1 attempt 1: GET /v1/progress-notes/{id} 503 status=503",
		"2 call 1 attempt 2: GET /v1/progress-notes/{id} 503 status=503",
		"3 call 1 attempt 3: GET /v1/progress-notes/{id} 200 ",
		"4 call 4 attempt 1: GET /v1/progress-notes/{id} 200 ",
		"5 call 5 attempt 1: GET /v1/auth/tokens 0 reset",
		"6 call 5 attempt 2: GET /v1/auth/tokens 200 ",
	}, got)
}

// A client may try again before the handler of its first attempt has returned.
func TestARetryIsKnownAlsoWhenItIsQuick(t *testing.T) {
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
		followed := newTraffic(newRequestLog(io.Discard), newEvents(), nil)
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
		list := followed.list(2)
		assert.Equal(t, 2, list[1].Attempt, name)
		assert.Equal(t, list[0].ID, list[1].Call, name)
		assert.Empty(t, followed.calls, "%s: the next is another call", name)
	}
}

func TestARequestOpensToHeadersAndShapes(t *testing.T) {
	t.Parallel()
	c := launch(t, "-transcription", "0s", "-analysis", "0s")
	c.create()
	c.get("/v1/progress-notes?patient_id=7")
	shown := c.shown()
	require.Len(t, shown, 2)
	assert.EqualValues(t, 1, shown[0].NoteID)
	assert.Equal(t, "/v1/progress-notes?patient_id=7", shown[1].Target)

	created := c.opened(1)
	assert.Contains(t, created.RequestHeader, "Authorization: (withheld)")
	assert.ElementsMatch(t, []string{"part name", "part patient_id", "part prompt_id", "part file: file, application/octet-stream"}, created.RequestShape)
	assert.Contains(t, created.ResponseHeader, "Content-Type: application/json")
	assert.Contains(t, created.ResponseShape, "audio.size: integer")
	assert.Contains(t, created.Curl, "-F file=@RECORDING")
	listed := c.opened(2)
	assert.Contains(t, listed.ResponseShape, "data[].name: string")
	assert.Equal(t, `curl -H 'Accept: application/json' -H "Authorization: Bearer $CLINICALDOC_TOKEN" '`+c.url+`/v1/progress-notes?patient_id=7'`, listed.Curl)
	assert.Equal(t, "page, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{})", listed.Go)
	assert.Equal(t, http.StatusNotFound, c.get("/_/requests/99").status)

	c.use(http.MethodDelete, "requests", "", http.StatusOK)
	assert.Empty(t, c.shown())
}

// What is copied as curl does once more what was done.
func TestCopiedCurlWorks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl was found")
	}
	c := launch(t, "-seed", "1")
	c.get("/v1/progress-notes?patient_id=1&x=it's")
	copied := exec.CommandContext(t.Context(), "sh", "-c", c.opened(1).Curl+" --silent --show-error")
	copied.Env = append(os.Environ(), "CLINICALDOC_TOKEN="+c.token)
	out, err := copied.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "Visit 1 of patient 1")
	assert.Equal(t, c.shown()[0].Target, c.shown()[1].Target)
}

// Of what passes between a program and a real service, the page is shown names and types and no value.
func TestNoValueOfARealServiceIsShown(t *testing.T) {
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

func TestKeptRequestsAreBounded(t *testing.T) {
	t.Parallel()
	c := launch(t, "-quiet")
	for range keptRequests + 50 {
		c.get("/nowhere")
	}
	shown := c.shown()
	assert.LessOrEqual(t, len(shown), keptRequests)
	assert.EqualValues(t, keptRequests+50, shown[len(shown)-1].ID)
	assert.Equal(t, http.StatusNotFound, c.get("/_/requests/1").status)
}

// What is copied as Go compiles.
func TestCopiedGoCompiles(t *testing.T) {
	t.Parallel()
	program := `package main

import (
	"context"
	"io"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {}

`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/v1/progress-notes/5", nil)
	require.NoError(t, err)
	number := 0
	for route := range goCalls {
		for _, upstream := range []bool{true, false} {
			code := asGo(route, r, upstream)
			result, _, _ := strings.Cut(code, ",")
			number++
			program += fmt.Sprintf("func f%d(ctx context.Context, client *clinicaldoc.Client, id, patientID, promptID int64, name string, audio *clinicaldoc.AudioSource, w io.Writer) error {\n%s\n_ = %s\nreturn err\n}\n", number, code, result)
		}
	}
	program += "func other(ctx context.Context, client *clinicaldoc.Client, method, path string, out any) error {\n" + asGo("", r, false) + "\nreturn err\n}\n"
	folder := t.TempDir()
	file := filepath.Join(folder, "copied.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "copied"), file)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, program)
}
