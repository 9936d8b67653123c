package devproxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// following is a traffic that keeps bodies, as the box's does.
func following() *traffic {
	return newTraffic(newRequestLog(io.Discard), newEvents(), nil, &bodies{})
}

// secretHeaders are what no archive and no page may hold.
var secretHeaders = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "apikey", "X-Auth-Token", "X-CSRF-TOKEN",
	"X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "X-Client-Secret",
}

func TestArchive_LoadedFromElsewhere_HoldsNoSecrets(t *testing.T) {
	t.Parallel()
	for _, name := range secretHeaders {
		header := fmt.Sprintf(`[{"name":%q,"value":"canary"},{"name":"Idempotency-Key","value":"kept"}]`, name)
		text := `{"log":{"version":"1.2","entries":[{"request":{"method":"GET","url":"http://127.0.0.1/user","headers":` + header +
			`},"response":{"status":200,"headers":` + header + `}}]}}`
		followed := following()
		_, err := followed.load([]byte(text))
		require.NoError(t, err)
		loaded := followed.opened(1)
		saved, err := json.Marshal(archive([]*request{loaded}))
		require.NoError(t, err)
		opened, err := json.Marshal(loaded.record.open(loaded, clinicaldoctest.QueryNames{}, true))
		require.NoError(t, err)
		for _, shown := range []string{string(saved), string(opened)} {
			assert.NotContains(t, shown, "canary", name)
			assert.Contains(t, shown, "kept", name)
		}
		assert.False(t, loaded.record.holds([]byte("canary")), "nor can it be guessed")
	}
}

func TestRecord_SecretHeaders_AreWithheld(t *testing.T) {
	t.Parallel()
	for _, name := range secretHeaders {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/user", nil)
		secrets := []string{"canary", "another"} // a service sends one Set-Cookie for each cookie
		r.Header[http.CanonicalHeaderKey(name)] = secrets
		rec := newRecord(r, &bodies{}).answered(http.Header{http.CanonicalHeaderKey(name): secrets})
		assert.Equal(t, []string{withheld, withheld}, rec.requestHeader.Values(name))
		assert.Equal(t, []string{withheld, withheld}, rec.responseHeader.Values(name))
		assert.Equal(t, []string{"canary", "another"}, r.Header.Values(name), "the request itself stays as it is")
	}
}

// A page can open a request before its response comes.
func TestTraffic_PendingRequestOfAService_WithholdsSecrets(t *testing.T) {
	t.Parallel()
	followed := newTraffic(newRequestLog(io.Discard), newEvents(), &departures{}, &bodies{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/user?api_token=canary", nil)
	followed.begin(httptest.NewRecorder(), r)
	pending := followed.opened(1)
	opened, err := json.Marshal(pending.record.open(pending, clinicaldoctest.QueryNames{}, false))
	require.NoError(t, err)
	assert.Contains(t, string(opened), "/user?api_token=(withheld)")
	assert.NotContains(t, string(opened), "canary")
	assert.Equal(t, "api_token=canary", r.URL.RawQuery, "the request itself stays as it is")
}

func TestArchive_BodyThatWasCut_StaysCut(t *testing.T) {
	t.Parallel()
	const text = `{"log":{"version":"1.2","entries":[{"request":{"method":"PUT","url":"http://127.0.0.1/v1/progress-notes/1",` +
		`"postData":{"text":"half","_cut":true}},"response":{"status":200,"content":{"text":"half","_cut":true}}}]}}`
	followed := following()
	_, err := followed.load([]byte(text))
	require.NoError(t, err)
	rec := followed.opened(1).record
	for _, side := range []*body{rec.requestBody, rec.responseBody} {
		content, whole := side.bytes()
		assert.Equal(t, "half", string(content))
		assert.False(t, whole)
	}
	assert.Contains(t, rec.curl(1), "cannot be sent again")
}

// A response without a length is complete, also if it is empty.
func TestArchive_EmptyResponse_IsNotCutOff(t *testing.T) {
	t.Parallel()
	followed := following()
	_, err := followed.load([]byte(`{"log":{"version":"1.2","entries":[{"request":{"method":"DELETE",` +
		`"url":"http://127.0.0.1/v1/progress-notes/1"},"response":{"status":204}}]}}`))
	require.NoError(t, err)
	loaded := followed.opened(1)
	require.Equal(t, clinicaldoctest.RouteDeleteNote, loaded.Route)
	thought := think(loaded, clinicaldoctest.QueryNames{}, true)
	require.NotNil(t, thought)
	assert.False(t, thought.Failed, thought.Text)
}

// The format writes an unknown size as -1.
func TestArchive_UnknownSizes_CountAsZero(t *testing.T) {
	t.Parallel()
	followed := following()
	_, err := followed.load([]byte(`{"log":{"version":"1.2","entries":[{"request":{"method":"GET",` +
		`"url":"http://127.0.0.1/user","bodySize":-1},"response":{"status":200,"bodySize":-1}}]}}`))
	require.NoError(t, err)
	assert.Zero(t, followed.opened(1).Received)
	assert.Zero(t, followed.opened(1).Sent)
}

func TestArchive_Loaded_PagesStartOver(t *testing.T) {
	t.Parallel()
	followed := following()
	_, leave := followed.events.watch()
	defer leave()
	_, seen := followed.events.since(-1)
	_, err := followed.load([]byte(`{"log":{"version":"1.2","entries":[]}}`))
	require.NoError(t, err)
	text, _ := followed.events.since(seen)
	assert.Contains(t, string(text), "event: reset\n", "a page cannot know the new requests otherwise")
}

func TestArchive_WrongEntry_LoadsNothing(t *testing.T) {
	t.Parallel()
	const good = `{"request":{"method":"GET","url":"http://127.0.0.1/user"},` +
		`"response":{"status":200,"content":{"text":"kept"}}}`
	for _, wrong := range []string{
		`{}`, `{"request":{"method":"GET","url":"/user"}}`, `{"request":{"method":"","url":"http://127.0.0.1/user"}}`,
		`{"request":{"method":"PUT","url":"http://127.0.0.1/","postData":{"text":"-","_encoding":"base64"}}}`,
		`{"request":{"method":"PUT","url":"http://127.0.0.1/","postData":{"text":"kept"}},` +
			`"response":{"content":{"text":"-","encoding":"base64"}}}`,
	} {
		followed := following()
		_, err := followed.load([]byte(`{"log":{"version":"1.2","entries":[` + good + `,` + wrong + `]}}`))
		require.Error(t, err, wrong)
		assert.Empty(t, followed.list(0, 10), wrong)
		assert.Zero(t, followed.bodies.used, "no body stays in memory: %s", wrong)
	}
}

func TestBody_CutOrDropped_KeepsNothingMore(t *testing.T) {
	t.Parallel()
	var kept bodies
	cut := kept.new()
	_, _ = cut.Write([]byte("kept"))
	cut.cut = true // as after a piece that was too long
	_, _ = cut.Write([]byte("more"))
	content, whole := cut.bytes()
	assert.Equal(t, "kept", string(content), "a hole is not closed over")
	assert.False(t, whole)

	gone := kept.new()
	_, _ = gone.Write([]byte("gone"))
	kept.drop(gone, cut)
	_, whole = gone.bytes()
	assert.False(t, whole, "nothing is left of it")
	_, _ = gone.Write([]byte("more"))
	content, whole = gone.bytes()
	assert.Empty(t, content, "what was forgotten stays forgotten")
	assert.False(t, whole)
	assert.Zero(t, kept.used)
}

func TestForget_KeptRequests_FreesBodiesAndRetries(t *testing.T) {
	t.Parallel()
	followed := following()
	failing := followed.watch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusBadGateway)
	}))
	send := func() *request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/user", strings.NewReader("body"))
		failing.ServeHTTP(httptest.NewRecorder(), r)
		return followed.opened(followed.last)
	}
	send()
	require.Equal(t, 2, send().Attempt)
	require.NotZero(t, followed.bodies.used)
	followed.forget()
	assert.Zero(t, followed.bodies.used)
	assert.Equal(t, 1, send().Attempt, "the next one is a call of its own")
}

// The page shows a body that a handler refused without reading it. Reading it must not wait for bytes that may never
// come.
func TestWatch_UnreadBody_IsReadIfItIsComing(t *testing.T) {
	t.Parallel()
	const body = "body"
	for name, test := range map[string]struct {
		length    int64
		expect    string
		isTaken   bool // a fault takes the connection away
		isNotKept bool // bodies are not kept
		want      int64
	}{
		"short":                  {length: int64(len(body)), want: int64(len(body))},
		"long":                   {length: maxUnread, want: int64(len(body))},
		"too long":               {length: maxUnread + 1},
		"of unknown length":      {length: -1},
		"not asked for":          {length: int64(len(body)), expect: "100-continue"},
		"without its connection": {length: int64(len(body)), isTaken: true},
		"not kept":               {length: int64(len(body)), isNotKept: true},
	} {
		followed := following()
		if test.isNotKept {
			followed = newTraffic(newRequestLog(io.Discard), newEvents(), &departures{}, nil)
		}
		refusing := followed.watch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if test.isTaken {
				_, _, _ = http.NewResponseController(w).Hijack()
				return
			}
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/user", strings.NewReader(body))
		r.ContentLength = test.length
		if test.expect != "" {
			r.Header.Set("Expect", test.expect)
		}
		refusing.ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, test.want, followed.opened(1).Received, name)
	}
}

// The failures of many calls that nobody repeated do not keep a later retry from being recognized.
func TestRemember_ManyFailures_ForgetsTheOld(t *testing.T) {
	t.Parallel()
	followed := following()
	for key := range uint64(keptCalls) {
		followed.calls[key] = call{ended: time.Now().Add(-retryWindow)}
	}
	followed.remember(&exchange{key: keptCalls, request: &request{Call: 7, Attempt: 2}})
	require.Len(t, followed.calls, 1)
	assert.EqualValues(t, 7, followed.calls[keptCalls].id)
	assert.Equal(t, 2, followed.calls[keptCalls].attempt)
	for key := range uint64(2 * keptCalls) {
		followed.remember(&exchange{key: key, request: &request{}})
	}
	assert.Len(t, followed.calls, keptCalls)
}

func TestEnd_Duration_IsInMilliseconds(t *testing.T) {
	t.Parallel()
	followed := following()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/user", nil)
	e := followed.begin(httptest.NewRecorder(), r)
	e.began = e.began.Add(-2 * time.Second)
	followed.end(e, r)
	assert.InDelta(t, 32_000, followed.opened(1).Millis, 30_000, "two seconds, or more on a busy machine")
}

// What belongs to a connection is not sent over another one.
func TestHeader_LinesOfAConnection_AreLeftOut(t *testing.T) {
	t.Parallel()
	lines := []string{"Content-Length: 9", "connection: close", "", "X-Own: 1", "X-Own: 2"}
	header, err := (&record{}).header(lines, "token")
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Own": {"1", "2"}}, header)
}

func TestWatch_ReplayHeader_IsNotPassedOn(t *testing.T) {
	t.Parallel()
	followed := following()
	seen := http.Header{}
	handler := followed.watch(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/user", nil)
	r.Header.Set(replayHeader, "1")
	r.Header.Set("X-Custom", "kept")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, http.Header{"X-Custom": {"kept"}}, seen)
	assert.EqualValues(t, 1, followed.opened(1).Replays)
	assert.Empty(t, followed.opened(1).record.requestHeader.Get(replayHeader))
}

// unsent is a response to nobody, provisional ones too.
type unsent struct{ header http.Header }

func (w unsent) Header() http.Header { return w.header }

func (w unsent) WriteHeader(int) {}

func (w unsent) Write(p []byte) (int, error) { return len(p), nil }

func TestCountingWriter_EarlyHints_AreNotCounted(t *testing.T) {
	t.Parallel()
	w := &countingWriter{ResponseWriter: unsent{http.Header{}}, onFailure: func() {}}
	w.WriteHeader(http.StatusEarlyHints)
	for range 3 {
		_, err := io.WriteString(w, "piece")
		require.NoError(t, err)
	}
	assert.Equal(t, http.StatusOK, w.status, "a provisional response is not the response")
	assert.EqualValues(t, 15, w.n)
	assert.Equal(t, "piecepiecepiece", string(w.start))
}

// gone is a response whose receiver went away.
type gone struct{ unsent }

func (gone) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestHungUp_EachEnd_IsTheClientsOrTheServices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		isCanceled, isCutOff, isGone, isComplete bool // the request, its body, the client, the service's response
		want                                     bool
	}{
		{},
		{isCanceled: true, want: true},
		{isCutOff: true, want: true},
		{isGone: true, want: true},
		{isComplete: true},
		{isCanceled: true, isComplete: true},
		{isCutOff: true, isComplete: true},
		{isGone: true, isComplete: true, want: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		var to http.ResponseWriter = unsent{http.Header{}}
		if test.isGone {
			to = gone{unsent{http.Header{}}}
		}
		if test.isCanceled {
			cancel()
		}
		e := &exchange{
			received: &countingBody{failed: test.isCutOff},
			sent:     &countingWriter{ResponseWriter: to, onFailure: func() {}},
			response: &copiedBody{ended: test.isComplete},
		}
		_, err := io.WriteString(e.sent, "piece")
		require.Equal(t, test.isGone, err != nil)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/user", nil)
		assert.Equal(t, test.want, e.hungUp(r), "%+v", test)
	}
}

// pack returns a body as a service sends it with gzip.
func pack(t *testing.T, content []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write(content)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return packed.Bytes()
}

func TestGunzip_LargeBody_IsBounded(t *testing.T) {
	t.Parallel()
	content, err := gunzip(pack(t, make([]byte, maxChecked)))
	require.NoError(t, err)
	assert.Len(t, content, maxChecked)
	_, err = gunzip(pack(t, make([]byte, maxChecked+1)))
	require.Error(t, err)
}

// The header decides: a file that is compressed itself is shown as it was sent.
func TestUnpack_EachEncoding_IsHonored(t *testing.T) {
	t.Parallel()
	const text = `{"id":1}`
	packed := string(pack(t, []byte(text)))
	broken := packed[:len(packed)-1]
	for _, test := range []struct{ encoding, sent, want string }{
		{"", packed, packed},
		{"identity", packed, packed},
		{"br", packed, packed},
		{"gzip", packed, text},
		{"GZIP", packed, text},
		{"gzip", text, text},
		{"gzip", broken, broken},
	} {
		header := http.Header{}
		if test.encoding != "" {
			header.Set("Content-Encoding", test.encoding)
		}
		assert.Equal(t, test.want, string(unpack(header, []byte(test.sent))), "%q %q", test.encoding, test.sent)
	}
}

func TestShown_EachBody_ReportsWhetherItIsText(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content string
		want    bool
	}{
		"empty":                            {"", true},
		"text":                             {"caf\u00e9", true},
		"text with a zero":                 {"caf\u00e9\x00", false},
		"text that ends within a letter":   {"caf\xc3", false},
		"long text, a letter at the bound": {strings.Repeat("a", maxShaped-1) + "\u00e9", true},
		"long recording":                   {"RIFF\xff" + strings.Repeat("a", maxShaped), false},
	} {
		kept := (&bodies{}).new()
		_, _ = kept.Write([]byte(test.content))
		want := &shownBody{Type: "text/plain", Kept: len(test.content), Whole: true, Text: test.want}
		assert.Equal(t, want, kept.shown(http.Header{"Content-Type": {"text/plain"}}), name)
	}
}

func TestCopiedBody_CompressionCutOff_IsReported(t *testing.T) {
	t.Parallel()
	packed := pack(t, []byte(`{"id":1}`))
	const broken = "the compression is broken or too large to check"
	for missing, want := range map[int][]finding{0: nil, 4: {{what: broken}}, len(packed) - 1: {{what: broken}}} {
		b := &copiedBody{status: http.StatusOK, contentType: "application/json", encoding: "gzip", ended: true}
		b.content.Write(packed[:len(packed)-missing])
		assert.Equal(t, want, b.check(clinicaldoctest.RouteMe), "%d bytes are missing", missing)
	}
}

// Content from a service must not run in the browser of a person who opens it.
func TestServeBytes_ActiveContent_IsPlainText(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/html", "image/svg+xml", "application/javascript", "application/xhtml+xml", "", "x"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		serveBytes(w, r, contentType, []byte("<script>alert(1)</script>"))
		assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), contentType)
	}
	w := httptest.NewRecorder()
	serveBytes(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "audio/wav", []byte("RIFF"))
	assert.Equal(t, "audio/wav", w.Header().Get("Content-Type"))
}
