package devproxy

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// post uses a control and returns what it responds.
func (c *command) post(path, body string) map[string]any {
	c.t.Helper()
	return c.use(http.MethodPost, path, body, http.StatusOK)
}

func (c *command) use(method, path, body string, status int) map[string]any {
	c.t.Helper()
	got := c.send(method, "/_/"+path, "application/json", strings.NewReader(body))
	require.Equal(c.t, status, got.status, got.text)
	var result map[string]any
	if strings.HasPrefix(got.text, "{") {
		require.NoError(c.t, json.Unmarshal([]byte(got.text), &result))
	}
	return result
}

// state returns what the page is shown.
func (c *command) state() (state struct {
	Mode       string
	Now        time.Time
	Frozen     bool
	Variant    variant
	Faults     []shownFault
	Notes      []boxlink.Note
	Departures []departure
},
) {
	c.t.Helper()
	require.NoError(c.t, json.Unmarshal([]byte(c.get("/_/state").text), &state))
	return state
}

// shown returns the requests that the page is shown, once none of them is on its way.
func (c *command) shown() (list []request) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		list = nil
		if json.Unmarshal([]byte(c.get("/_/requests").text), &list) != nil {
			return false
		}
		for _, r := range list {
			if r.Pending {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
	return list
}

// A page of another site, a name that was pointed here, another machine and a tunnel are kept out.
func TestGuard_OtherOrigins_AreForbidden(t *testing.T) {
	t.Parallel()
	guarded := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for name, test := range map[string]struct {
		method, target, remote, host string
		header                       http.Header
		http10                       bool
		allowed                      bool
	}{
		"a program":                    {allowed: true},
		"a program's control":          {method: "POST", header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, allowed: true},
		"by IPv6":                      {remote: "[::1]:1234", host: "[::1]:8790", allowed: true},
		"by name":                      {host: "localhost:8790", allowed: true},
		"the page itself":              {method: "POST", header: http.Header{"Content-Type": {"application/json"}, "Origin": {"http://127.0.0.1:8790"}, "Sec-Fetch-Site": {"same-origin"}}, allowed: true},
		"typed into the address bar":   {header: http.Header{"Sec-Fetch-Site": {"none"}, "Sec-Fetch-Mode": {"navigate"}}, allowed: true},
		"a link to the page":           {target: "/_/", header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, allowed: true},
		"a link to the state":          {header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}},
		"another machine":              {remote: "192.0.2.7:1234"},
		"no address":                   {remote: "pipe"},
		"a name that was pointed here": {host: "evil.example:8790"},
		"a name that looks local":      {host: "localhost.evil.example"},
		"no name":                      {host: " "},
		"another site's script":        {header: http.Header{"Origin": {"https://evil.example"}}},
		"another port's script":        {header: http.Header{"Origin": {"http://127.0.0.1:3000"}, "Sec-Fetch-Site": {"same-site"}}},
		"an opaque origin":             {header: http.Header{"Origin": {"null"}}},
		"another site's picture":       {header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}},
		"another site's form":          {method: "POST", header: http.Header{"Content-Type": {"text/plain"}}},
		"a form without a type":        {method: "POST"},
		"a tunnel":                     {header: http.Header{"X-Forwarded-For": {"192.0.2.7"}}},
		"a proxy":                      {header: http.Header{"Via": {"1.1 proxy"}}},
		"a web server in front":        {header: http.Header{"X-Real-Ip": {"192.0.2.7"}}},
		"a web server's defaults":      {http10: true}, // nginx's tell nothing else
		"a tunnel with its own header": {header: http.Header{"Cf-Connecting-Ip": {"192.0.2.7"}}},
		"a tunnel that names nobody":   {header: http.Header{"X-Forwarded-For": {""}}},
	} {
		method := cmp.Or(test.method, http.MethodGet)
		target := cmp.Or(test.target, "/_/state")
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader("{}"))
		r.RemoteAddr = cmp.Or(test.remote, "127.0.0.1:1234")
		r.Host = strings.TrimSpace(cmp.Or(test.host, "127.0.0.1:8790"))
		if test.header != nil {
			r.Header = test.header
		}
		if test.http10 {
			r.Proto, r.ProtoMinor = "HTTP/1.0", 0
		}
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		assert.Equal(t, test.allowed, w.Code == http.StatusNoContent, name)
		assert.Equal(t, !test.allowed, w.Code == http.StatusForbidden, name)
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", name)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"), "%s: no browser keeps it", name)
	}
}

func TestStranger_EachTunnelHeader_IsRejected(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Via", "Forwarded", "X-Forwarded", "X-Forwarded-Host", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip",
		"X-Original-Forwarded-For", "X-Original-Host", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Ray", "Cdn-Loop",
		"True-Client-Ip", "Fastly-Client-Ip", "Fly-Client-Ip", "X-Appengine-User-Ip", "X-Azure-Clientip",
		"X-Envoy-External-Address",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_/state", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		r.Host = "127.0.0.1:8790"
		require.Empty(t, stranger(r))
		r.Header.Set(name, "192.0.2.7")
		assert.Equal(t, forwarded, stranger(r), name)
	}
}

// Paths below /_/ are never forwarded to the service, whether the controls are on or off.
func TestControls_WithService_AreNotForwarded(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(service.Close)
	for _, args := range [][]string{{}, {"-control=false"}} {
		c := launch(t, append(args, "-upstream", service.URL)...)
		for _, path := range []string{"/_", "/_/", "/_/state", "/%5F/state", "/_/nothing", "/_/../_/x"} {
			c.get(path)
			c.send(http.MethodPost, path, "application/json", strings.NewReader("{}"))
		}
		assert.Zero(t, asked.Load())
		c.get("/user")
		assert.EqualValues(t, 1, asked.Swap(0))
		if len(args) > 0 {
			assert.Equal(t, http.StatusNotFound, c.get("/_/state").status, "turned off")
			assert.NotContains(t, c.stdout.String(), "inspector")
		} else {
			assert.Equal(t, http.StatusOK, c.get("/_/state").status)
			assert.Contains(t, c.stdout.String(), "inspector "+c.url+"/_/\n")
		}
	}
	c := launch(t, "-control=false")
	assert.Equal(t, http.StatusNotFound, c.get("/_/state").status)
	assert.Equal(t, http.StatusNotFound, c.get("/_/").status)
}

func TestRoot_LocalServer_SaysWhatItIs(t *testing.T) {
	t.Parallel()
	c := launch(t, "-variant", "flat")
	base := c.url
	c.url = strings.TrimSuffix(base, "/api")
	plain := c.get("/")
	assert.Equal(t, http.StatusOK, plain.status)
	assert.Contains(t, plain.text, "base URL  "+base+"\ninspector "+c.url+"/_/\n")
	assert.NotContains(t, plain.text, c.token)
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req := c.request(http.MethodGet, "/", nil)
	req.Header.Set("Accept", "text/html,*/*")
	page, err := c.do(req)
	require.NoError(t, err)
	assert.Equal(t, "/_/", page.header.Get("Location"))

	bare := launch(t, "-control=false")
	req = bare.request(http.MethodGet, "/", nil)
	req.Header.Set("Accept", "text/html,*/*")
	page, err = bare.do(req)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, page.status, "there is no page to go to")
	assert.NotContains(t, page.text, "inspector")
}

func TestFaults_WhileRunning_AreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	c := launch(t)
	c.post("faults", `{"fault":"GET /user:status=503:2"}`)
	c.post("faults", `{"fault":"*:delay=0s:always"}`)
	require.Len(t, c.state().Faults, 2)
	assert.Equal(t, http.StatusServiceUnavailable, c.get("/user").status)
	assert.Equal(t, http.StatusOK, c.get("/v1/auth/tokens").status)
	faults := c.state().Faults
	assert.Equal(t, []shownFault{{1, "GET /user", "status=503:2", 1}, {2, "", "delay=0s:always", 1}}, faults)

	c.use(http.MethodDelete, "faults", `{"id":2}`, http.StatusOK)
	assert.Equal(t, http.StatusServiceUnavailable, c.get("/user").status, "what is left of the other stays")
	assert.Equal(t, http.StatusOK, c.get("/user").status)
	assert.Empty(t, c.state().Faults)

	c.post("faults", `{"fault":"GET /user:status=500:always"}`)
	c.use(http.MethodDelete, "faults", "", http.StatusOK)
	assert.Equal(t, http.StatusOK, c.get("/user").status)
	for _, wrong := range []string{`{"fault":"nonsense"}`, `{"fault":"GET /user:meteor"}`, `{"falt":""}`, `[`, ``} {
		assert.NotEmpty(t, c.use(http.MethodPost, "faults", wrong, http.StatusBadRequest)["message"])
	}
}

func TestFaultSeed_SameSeed_StrikesSameRequests(t *testing.T) {
	t.Parallel()
	c := launch(t, "-fault", "GET /user:status=503:rate=0.5")
	strikes := func(seed string) (statuses []int) {
		c.post("fault-seed", `{"seed":`+seed+`}`)
		for range 40 {
			statuses = append(statuses, c.get("/user").status)
		}
		return statuses
	}
	first := strikes("7")
	assert.Equal(t, first, strikes("7"))
	assert.NotEqual(t, first, strikes("8"))
	c.use(http.MethodPost, "fault-seed", `{"seed":-1}`, http.StatusBadRequest)
}

// Between a program and a real service, faults keep requests from it or responses from the program.
func TestFaults_WithService_StrikeOnTheWay(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	c := launch(t, "-upstream", srv.URL, "-fault", "GET /user:429=0s")
	c.token = srv.Token
	assert.Equal(t, http.StatusTooManyRequests, c.get("/user").status)
	assert.Empty(t, srv.Requests(), "it never came there")
	assert.Equal(t, http.StatusOK, c.get("/user").status)

	c.post("faults", `{"fault":"POST /v1/progress-notes:reset-after-commit"}`)
	_, err := c.sdk().Notes.Create(t.Context(), createParams(1000))
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Len(t, srv.Notes(), 1, "the service did what was asked")

	c.post("faults", `{"fault":"GET /v1/progress-notes/{id}:truncate=5"}`)
	note, err := c.sdk().Notes.Get(t.Context(), 1)
	require.NoError(t, err, "the SDK tries again")
	assert.EqualValues(t, 1, note.ID)
	for _, impossible := range []string{"lagging=1m", "status=504:commit=1m", "vanish=1", "arrive=2:always"} {
		c.use(http.MethodPost, "faults", `{"fault":"GET /user:`+impossible+`"}`, http.StatusBadRequest)
		args := []string{"-upstream", srv.URL, "-fault", "GET /user:" + impossible}
		err := Run(t.Context(), "clinicaldoc-devproxy", args, &c.stdout, &c.stderr)
		require.ErrorContains(t, err, "available only from the local server")
	}
	local := launch(t)
	for _, kind := range []string{"lagging", "vanish", "arrive"} {
		offered := `{"name":"` + kind + `",`
		assert.Contains(t, local.get("/_/state").text, offered)
		assert.NotContains(t, c.get("/_/state").text, offered)
	}
	c.use(http.MethodPost, "faults", `{"fault":"GET /audio/{key}:reset"}`, http.StatusBadRequest)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "every response was as described", "a fault is no departure")
	assert.Contains(t, c.stderr.String(), "fault: reset-after-commit")
}

// A fault that lasts does not outlast the proxy.
func TestSilent_ProxyEnds_EndsRequest(t *testing.T) {
	t.Parallel()
	c := stub(t, func(http.ResponseWriter, *http.Request) {})
	c.post("faults", `{"fault":"GET /user:silent"}`)
	failed := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/user", nil)
		if err == nil {
			_, err = (&http.Client{Transport: &http.Transport{}}).Do(req) //nolint:bodyclose // there is none
		}
		failed <- err
	}()
	require.Eventually(t, func() bool { return strings.Contains(c.get("/_/requests").text, `"pending":true`) }, 10*time.Second, time.Millisecond)
	c.interrupt()
	require.Error(t, <-failed)
}

// A response that a fault broke off did not break off at the service.
func TestDepartures_ResponseCutByFault_IsNone(t *testing.T) {
	t.Parallel()
	c := stub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":`)
		assert.NoError(t, http.NewResponseController(w).Flush())
		<-r.Context().Done()
	})
	c.post("faults", `{"fault":"GET /user:truncate-chunked=3"}`)
	_, err := c.do(c.request(http.MethodGet, "/user", nil))
	require.Error(t, err)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "1 request; every response was as described")
}

func TestControls_ClockUsersAndSeeds_Apply(t *testing.T) {
	t.Parallel()
	c := launch(t, "-transcription", "1h", "-analysis", "1h")
	assert.Contains(t, c.get("/_/state").text, `"base_url":"`+c.url+`"`)
	first := c.state().Now
	c.post("next", `{"transcription_error":"no speech"}`)
	c.create()
	c.create()
	assert.Equal(t, string(clinicaldoctest.StageTranscribing), c.state().Notes[0].Stage)
	c.post("clock", `{"advance":"3h"}`)
	state := c.state()
	assert.True(t, state.Now.After(first.Add(3*time.Hour-time.Second)))
	assert.Equal(t, string(clinicaldoctest.StageFailed), state.Notes[0].Stage)
	assert.Equal(t, "no speech", state.Notes[0].Error)
	assert.Equal(t, string(clinicaldoctest.StageComplete), state.Notes[1].Stage)
	c.post("clock", `{"frozen":true,"set":"2024-05-01T10:00:00Z"}`)
	assert.True(t, c.state().Frozen)
	assert.Equal(t, time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC), c.state().Now)
	c.post("clock", `{"frozen":false}`)
	first = c.state().Now
	assert.NotEqual(t, first, c.state().Now)
	c.use(http.MethodPost, "clock", `{"advance":"soon"}`, http.StatusBadRequest)

	second := c.post("users", `{"name":"Second user","token":"second"}`)
	assert.InDelta(t, 2, second["id"], 0)
	token := c.post("tokens", `{"user_id":2,"name":"tablet"}`)["token"]
	c.use(http.MethodPost, "tokens", `{"user_id":99}`, http.StatusBadRequest)
	for _, impossible := range []string{`{"token":"a b"}`, `{"token":"second"}`, `{"id":1,"name":"Another"}`} {
		c.use(http.MethodPost, "users", impossible, http.StatusBadRequest)
	}
	for _, c.token = range []string{"second", token.(string)} {
		assert.Contains(t, c.get("/user").text, "Second user")
	}
	c.token = c.post("tokens", `{"name":"tablet"}`)["token"].(string)
	assert.Contains(t, c.get("/user").text, "User 1", "without an ID it is the first user's")

	assert.InDelta(t, 5, c.post("seed", `5`)["notes"], 0)
	assert.InDelta(t, 1, c.post("seed", `{"notes":[{"name":"Seeded","stage":"signed"}]}`)["notes"], 0)
	assert.InDelta(t, 1, c.post("seed", `1`)["notes"], 0)
	assert.Len(t, c.state().Notes, 9)
	assert.InDelta(t, 10_000, c.post("seed", `10000`)["notes"], 0)
	c.use(http.MethodPost, "seed", `10001`, http.StatusBadRequest)
	c.use(http.MethodPost, "seed", `0`, http.StatusBadRequest)
	c.use(http.MethodPost, "seed", `{"notes":[{"user_id":99}]}`, http.StatusBadRequest)
}

func TestVariant_WhileRunning_IsChangedAndReset(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "3", "-fault", "GET /user:status=503:always")
	for name, want := range map[string]bool{"pagination": true, "name": false, "base_path": false} {
		isOffered := strings.Contains(c.get("/_/state").text, `{"name":"`+name+`","kind":`)
		assert.Equal(t, want, isOffered, "%s: only what can be changed is offered", name)
	}
	c.post("variant", `{"switches":{"wrap_objects":true,"pagination":"cursor","audio_url_lifetime":"7s"}}`)
	assert.Contains(t, c.get("/v1/progress-notes/1").text, `{"data":{`)
	assert.Contains(t, c.get("/v1/progress-notes").text, "next_cursor")
	assert.Equal(t, 7*time.Second, c.state().Variant.AudioURLLifetime)
	c.post("variant", `{"name":"simple","switches":{"wrap_objects":true}}`)
	assert.Contains(t, c.get("/v1/progress-notes/1").text, `{"data":{`)
	assert.Equal(t, clinicaldoctest.PaginationSimple, c.state().Variant.Pagination)
	for _, wrong := range []string{`{"name":"none"}`, `{"switches":{"wrapobjects":true}}`, `{"switches":{"pagination":"x"}}`, `{"switches":7}`} {
		c.use(http.MethodPost, "variant", wrong, http.StatusBadRequest)
	}

	c.create()
	c.use(http.MethodDelete, "faults", "", http.StatusOK)
	c.post("fault-seed", `{"seed":7}`)
	c.post("clock", `{"frozen":true}`)
	require.NotEmpty(t, c.shown())
	c.post("reset", "")
	assert.Empty(t, c.shown())
	state := c.state()
	assert.False(t, state.Frozen)
	assert.Len(t, state.Notes, 3, "as the command line has it")
	assert.Len(t, state.Faults, 1)
	assert.False(t, state.Variant.WrapObjects)
	assert.Equal(t, http.StatusServiceUnavailable, c.get("/user").status)
}
