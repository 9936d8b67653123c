package devproxy

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// proxied launches a proxy to a box and uses every endpoint through it.
func proxied(t *testing.T, v clinicaldoctest.Variant) *command {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(v), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(srv.Close)
	srv.AddPatient(clinicaldoctest.Patient{ID: 7})
	c := launch(t, "-upstream", srv.URL)
	c.token = srv.Token
	c.create()
	c.get("/v1/progress-notes")
	c.get("/v1/progress-notes/1")
	c.get("/v1/progress-notes/2")
	c.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"name":"New name"}`))
	c.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"name":7}`))
	c.send(http.MethodPut, "/v1/progress-notes/1/sign", "", nil)
	c.get("/v1/progress-notes/1/audio-url")
	c.send(http.MethodHead, "/user", "", nil)
	c.get("/user")
	c.get("/v1/auth/tokens")
	c.send(http.MethodDelete, "/v1/progress-notes/1", "", nil)
	c.send(http.MethodDelete, "/v1/auth/tokens/1", "", nil)
	c.get("/user") // the token is revoked
	c.interrupt()
	for _, secret := range []string{srv.Token, "Secret visit", "New name", "Patient 7", "example.test", "Synthetic"} {
		assert.NotContains(t, c.stdout.String()+c.stderr.String(), secret)
	}
	return c
}

func TestProxy_DescribedResponses_HaveNoFindings(t *testing.T) {
	t.Parallel()
	c := proxied(t, clinicaldoctest.Variant{})
	assert.Contains(t, c.stdout.String(), "14 requests; every response was as described.")
	assert.NotContains(t, c.stderr.String(), "!")
	assert.Regexp(t, `POST   /v1/progress-notes +201 .* in 100`, c.stderr.String())
}

func TestProxy_UndescribedResponses_AreReported(t *testing.T) {
	t.Parallel()
	for name, expected := range map[string][]string{
		"framework": {
			"wrapped in data", "unknown field data.undescribed_list: array", "empty body: described object",
			"another text than described message",
		},
		"simple":          {"wrong type errors: array, described map"},
		"cursor":          {"unknown field data[].patient_id: integer", "wrong type audio.size: string, described integer", "wrong format created_at: not an RFC 3339 date-time"},
		"cursor-in-links": {"wrong type data.transcription: null, described string"},
		"flat":            {"missing required field links", "missing required field meta", "unknown field next_page_url: null"},
		"bare":            {"missing required field links"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, known := clinicaldoctest.VariantNamed(name)
			require.True(t, known)
			c := proxied(t, v)
			for _, line := range expected {
				assert.Contains(t, c.stdout.String(), line, "in the summary")
				assert.Contains(t, c.stderr.String(), "! "+line, "in the log")
			}
		})
	}
}

func TestCheckResponse_EachDeparture_IsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		route, contentType, body string
		status                   int
		want                     []string
	}{
		"as described":   {clinicaldoctest.RouteMe, "application/json; charset=utf-8", `{"id":1}`, 200, nil},
		"accepted":       {clinicaldoctest.RouteUpdateNote, "application/json", `{"id":1,"name":"","team_id":1,"user_id":1,"created_at":"2024-05-01T00:00:00Z","updated_at":"2024-05-01T00:00:00+02:00"}`, 202, []string{"undescribed status: 202"}},
		"server error":   {clinicaldoctest.RouteMe, "text/html", "<h1>", 500, []string{"undescribed status: 500", "not sent as application/json", "not JSON"}},
		"sign refused":   {clinicaldoctest.RouteSignNote, "application/json", `{"message":"x"}`, 423, nil},
		"text elsewhere": {clinicaldoctest.RouteGetNote, "application/json", `{"message":"x"}`, 404, []string{"another text than described message"}},
		"nothing at all": {clinicaldoctest.RouteMe, "application/json", `[]`, 200, []string{"wrong type: array, described object"}},
		"a final dot":    {clinicaldoctest.RouteGetNote, "application/json", `{"message":"Resource not found."}`, 404, nil},
		"data as a name": {clinicaldoctest.RouteMe, "application/json", `{"A. Person, 1970":1}`, 200, []string{"unknown field (name withheld): integer"}},
		"a surname":      {clinicaldoctest.RouteMe, "application/json", `{"Surname":1,"Double-Surname":true}`, 200, []string{"unknown field (name withheld): boolean", "unknown field (name withheld): integer"}},
		"fraction":       {clinicaldoctest.RouteMe, "application/json", `{"id":1.5}`, 200, []string{"wrong type id: number, described integer"}},
		"exponent": {
			clinicaldoctest.RouteMe, "application/json", `{"id":1e3}`, 200,
			[]string{"wrong type id: number, described integer"},
		},
		"large exponent": {
			clinicaldoctest.RouteMe, "application/json", `{"id":1E3}`, 200,
			[]string{"wrong type id: number, described integer"},
		},
		"errors map": {
			clinicaldoctest.RouteCreateNote, "application/json",
			`{"message":"The given data was invalid","errors":{"name":"x"}}`, 422,
			[]string{"wrong type errors.*: string, described array"},
		},
		"no such path": {"", "application/json", `{}`, 200, []string{"the description has no such endpoint"}},
		"a later row": {
			clinicaldoctest.RouteListTokens, "application/json", `{"tokens":[{},{"x":2}]}`, 200,
			[]string{"unknown field tokens[].x: integer"},
		},
		"a row, repeated": {clinicaldoctest.RouteListTokens, "application/json", `{"tokens":[{"x":1},{"x":2}]}`, 200, []string{"unknown field tokens[].x: integer"}},
	} {
		var got []string
		for _, f := range checkResponse(test.route, test.status, test.contentType, []byte(test.body)) {
			got = append(got, f.String())
		}
		assert.Equal(t, test.want, got, name)
	}
}

// stub launches a proxy to a service of one handler.
func stub(t *testing.T, handler http.HandlerFunc) *command {
	t.Helper()
	service := httptest.NewServer(handler)
	t.Cleanup(service.Close)
	c := launch(t, "-upstream", service.URL+"/base")
	c.token = "callers-own"
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func TestProxy_Request_IsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	c := stub(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "/base/v1/progress-notes/5", r.URL.Path)
		assert.Equal(t, "a=1;2&b=%zz", r.URL.RawQuery)
		assert.Equal(t, "Bearer callers-own", r.Header.Get("Authorization"))
		assert.Empty(t, r.Header.Get("X-Forwarded-For"))
		assert.Empty(t, r.Header.Get("Proxy-Authorization"), "for this hop only")
		assert.JSONEq(t, `{"name":"x"}`, string(body))
		w.Header().Set("X-Request-Id", "abc")
		w.Header().Set("Location", "https://elsewhere.example/login")
		w.WriteHeader(http.StatusFound)
	})
	req := c.request(http.MethodPut, "/v1/progress-notes/5", strings.NewReader(`{"name":"x"}`))
	req.URL.RawQuery = "a=1;2&b=%zz"
	req.Header.Set("Proxy-Authorization", "Basic hop")
	got, err := c.do(req)
	require.NoError(t, err)
	assert.Equal(t, http.StatusFound, got.status, "passed back, not followed")
	assert.Equal(t, "https://elsewhere.example/login", got.header.Get("Location"))
	assert.Equal(t, "abc", got.header.Get("X-Request-Id"))
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "undescribed status: 302")
}

// Proxies between the program and this one are the service's business.
func TestProxy_ForwardingHeaders_ArePassedOn(t *testing.T) {
	t.Parallel()
	arrived := make(chan http.Header, 1)
	c := stub(t, func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Clone() })
	names := []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}
	req := c.request(http.MethodGet, "/user", nil)
	for _, name := range names {
		req.Header.Set(name, "for=192.0.2.1")
	}
	_, err := c.do(req)
	require.NoError(t, err)
	header := <-arrived
	for _, name := range names {
		assert.Equal(t, []string{"for=192.0.2.1"}, header[name], name)
	}
}

func TestProxy_CompressedResponse_IsChecked(t *testing.T) {
	t.Parallel()
	c := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_, _ = io.WriteString(packed, `{"id":"one"}`)
		_ = packed.Close()
	})
	assert.JSONEq(t, `{"id":"one"}`, c.get("/user").text)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "wrong type id: string, described integer (once)")
}

func TestProxy_HugeResponse_PassesUnchecked(t *testing.T) {
	t.Parallel()
	const size = maxChecked + 1000
	c := stub(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
	assert.Len(t, c.get("/user").text, size)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "too large to check")
}

func TestProxy_ResponseCutOff_IsReported(t *testing.T) {
	t.Parallel()
	c := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
		assert.NoError(t, http.NewResponseController(w).Flush())
		panic(http.ErrAbortHandler)
	})
	_, err := c.do(c.request(http.MethodGet, "/user", nil))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "the response was cut off")
}

func TestProxy_ServiceUnreachable_IsReported(t *testing.T) {
	t.Parallel()
	c := launch(t, "-upstream", "http://127.0.0.1:1")
	unreachable := c.get("/user")
	assert.Equal(t, http.StatusBadGateway, unreachable.status)
	assert.Contains(t, unreachable.text, "message")
	c.interrupt()
	assert.Contains(t, c.stderr.String(), " 502 ")
	assert.Contains(t, c.stdout.String(), "the service could not be reached, or ended the connection (once)")
	assert.NotContains(t, c.stdout.String(), "as described")
}

func TestProxy_ServiceEndsConnection_IsNotTheClient(t *testing.T) {
	t.Parallel()
	c := stub(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		panic(http.ErrAbortHandler)
	})
	pieces := strings.NewReader(strings.Repeat("piece", 40_000)) // several reads take it
	assert.Equal(t, http.StatusBadGateway, c.send(http.MethodPost, "/user", "", pieces).status)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "the service could not be reached, or ended the connection (once)")
	assert.NotContains(t, c.stdout.String(), "the client closed the connection")
}

func TestNewTransport_EachTimeout_IsSet(t *testing.T) {
	t.Parallel()
	transport := newTransport()
	for name, test := range map[string]struct{ timeout, bound time.Duration }{
		"of an idle connection, which services close after 5s": {transport.IdleConnTimeout, 4 * time.Second},
		"of a handshake":  {transport.TLSHandshakeTimeout, time.Minute},
		"of 100 Continue": {transport.ExpectContinueTimeout, 4 * time.Second},
	} {
		assert.Positive(t, test.timeout, name)
		assert.LessOrEqual(t, test.timeout, test.bound, name)
	}
}

func TestProxy_ClientHangsUp_IsReported(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	c := stub(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-arrived
		hangUp()
	}()
	_, err := c.do(c.request(http.MethodGet, "/user", nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "the client closed the connection (once)")
	assert.Contains(t, c.stderr.String(), " no response ")
	assert.NotContains(t, c.stderr.String(), " 502 ")
}

func TestProxy_ClientHangsUpInUpload_IsReported(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	c := stub(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		_, err := io.Copy(io.Discard, r.Body)
		assert.Error(t, err)
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /v1/progress-notes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbegun")
	require.NoError(t, err)
	<-arrived
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return strings.Contains(c.stderr.String(), "POST") }, 10*time.Second, time.Millisecond)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "the client closed the connection (once)")
	assert.NotContains(t, c.stderr.String(), " 502 ")
}

func TestDepartures_ManyKinds_AreBounded(t *testing.T) {
	t.Parallel()
	var d departures
	for i := range 2 * maxDepartures {
		d.add(&exchange{findings: []finding{{what: "unknown field", path: fmt.Sprintf("name%d", i)}}})
	}
	d.add(&exchange{findings: []finding{{what: "unknown field", path: "name0"}}})
	assert.Len(t, d.list(), maxDepartures+1)
	assert.Contains(t, d.list(), departure{Route: "(unknown path)", What: "unknown field name0", Times: 2})
	assert.Contains(t, d.summary(), fmt.Sprintf("further kinds of departures (%d times)", maxDepartures))
	assert.Contains(t, d.summary(), "unknown field name0 (2 times)", "a known kind is still counted")
	assert.Equal(t, 1, strings.Count(d.summary(), "(unknown path)"), "a route is named once")
}
