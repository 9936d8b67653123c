package devproxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// relay passes bytes on to a service and keeps those that come back, connection by connection.
type relay struct {
	net.Listener
	mu   sync.Mutex
	seen []*bytes.Buffer
	read []int // how much of each was taken
}

func startRelay(t *testing.T, service string) *relay {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{Listener: listener}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); work.Wait() })
	work.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", service)
			if err != nil {
				t.Error("the service cannot be reached")
				_ = near.Close()
				return
			}
			r.mu.Lock()
			kept := &bytes.Buffer{}
			r.seen, r.read = append(r.seen, kept), append(r.read, 0)
			r.mu.Unlock()
			work.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
			work.Go(func() { _, _ = io.Copy(near, io.TeeReader(far, &lockedWriter{&r.mu, kept})); _ = near.Close() })
		}
	})
	return r
}

// take returns the bytes that came back since the last call.
func (r *relay) take() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fresh []byte
	for i, kept := range r.seen {
		fresh = append(fresh, kept.Bytes()[r.read[i]:]...)
		r.read[i] = kept.Len()
	}
	return fresh
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// plain is a response as it came, without what concerns one connection alone.
type plain struct {
	Status string
	Header http.Header
	Length int64
	Body   string
}

// readFinal reads a response after those that only announce it, and tells whether the body was asked for.
func readFinal(t *testing.T, from *bufio.Reader, method string, onContinue func(), of ...any) plain {
	t.Helper()
	for {
		resp, err := http.ReadResponse(from, &http.Request{Method: method})
		require.NoError(t, err, of...)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close(), of...)
		require.NoError(t, err, of...)
		if resp.StatusCode == http.StatusContinue {
			onContinue()
			continue
		}
		resp.Header.Del("Connection")
		return plain{resp.Status, resp.Header, resp.ContentLength, string(body)}
	}
}

// rawRequest is a request as a client of any kind could write it.
type rawRequest struct {
	method, target, header, body string
	expect                       bool // the body waits for 100 Continue
}

// exchangeRaw sends a request over a connection of its own.
func exchangeRaw(t *testing.T, host string, req rawRequest) plain {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	head := req.method + " " + req.target + " HTTP/1.1\r\nHost: " + host + "\r\n" + req.header
	if req.body != "" {
		head += "Content-Length: " + strconv.Itoa(len(req.body)) + "\r\n"
	}
	send := func() { _, _ = io.WriteString(conn, req.body) } // a refusal may close the connection under it
	if req.expect {
		head += "Expect: 100-continue\r\n"
	}
	_, err = io.WriteString(conn, head+"\r\n")
	require.NoError(t, err)
	if !req.expect {
		send()
	}
	return readFinal(t, bufio.NewReader(conn), req.method, send, "%s %s %q, with a body of %d bytes that waits: %t", req.method, req.target, req.header, len(req.body), req.expect)
}

// raw sends a request over its own connection.
func (c *command) raw(req rawRequest) plain {
	c.t.Helper()
	return exchangeRaw(c.t, strings.TrimPrefix(c.url, "http://"), req)
}

// manyRequests are more than 200, of every kind that a program or a person could send.
func manyRequests(token string) []rawRequest {
	const json = "Accept: application/json\r\n"
	authorized := json + "Authorization: Bearer " + token + "\r\n"
	var all []rawRequest
	for _, query := range []string{
		"", "?", "??", "?patient_id=1;2", "?patient=1;2", "?limit=2;order=latest", "?;", "?&&", "?%zz=1", "?limit=%", "?limit=%zz", "?limit", "?limit=", "?=1", "?limit=2&limit=3",
		"?filter[patient]=1", "?filter%5Bpatient%5D=1", "?a+b=c+d", "?a%20b=%C3%A4", "?limit=2&page[number]=2", "?limit=101", "?limit=-1", "?order=latest", "?order=oldest&limit=1",
		"?patient=1", "?patient=7", "?patient=abc", "?x=/../..", "?x=a/b?c", "?x=\"quoted\"", "?x=<y>", "?x='z'",
	} {
		for _, header := range []string{authorized, authorized + "Accept-Encoding: gzip\r\n", json, "Accept: text/html\r\n"} {
			all = append(all, rawRequest{method: "GET", target: "/v1/progress-notes" + query, header: header})
		}
	}
	for _, path := range []string{
		"/", "/user", "/user/", "//user", "/%75ser", "/user%2F", "/USER", "/nowhere", "/v1/../user", "/v1/./progress-notes", "/v1/progress-notes/1", "/v1/progress-notes/1/", "/v1/progress-notes/1%2F2",
		"/v1/progress-notes/0", "/v1/progress-notes/999", "/v1/progress-notes/1/audio-url", "/v1/progress-notes//", "/v1/auth/tokens", "/login", "/a%20b", "/%C3%A4", "/a;b=c", "/a:b@c", "/audio/none?expires=1",
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			all = append(all, rawRequest{method: method, target: path, header: authorized})
		}
	}
	large := strings.Repeat("x", 200_000)
	for _, expect := range []bool{true, false} {
		body := large
		if !expect {
			body = large[:2000] // a refusal in the middle of a large body is a race between the response and the reset
		}
		for _, header := range []string{json, authorized, authorized + "Content-Type: multipart/form-data; boundary=b\r\n", authorized + "Content-Type: application/json\r\n"} {
			all = append(all,
				rawRequest{method: "POST", target: "/v1/progress-notes", header: header, body: body, expect: expect},
				rawRequest{method: "PUT", target: "/v1/progress-notes/1", header: header, body: body, expect: expect},
				rawRequest{method: "PATCH", target: "/v1/progress-notes/1", header: header, body: body, expect: expect})
		}
	}
	for _, body := range []string{`{"name":"New name"}`, `{"name":7}`, `{"name":""}`, `{`, `[]`, `null`, `"x"`, "\x00\xff", `{"transcription":""}`, `{"analysis":"é\u0000"}`} {
		all = append(all, rawRequest{method: "PUT", target: "/v1/progress-notes/2", header: authorized + "Content-Type: application/json\r\n", body: body})
	}
	return append(all,
		rawRequest{method: "PUT", target: "/v1/progress-notes/1/sign", header: authorized},
		rawRequest{method: "PUT", target: "/v1/progress-notes/1", header: authorized + "Content-Type: application/json\r\n", body: `{"name":"late"}`},
		rawRequest{method: "DELETE", target: "/v1/progress-notes/3", header: authorized},
		rawRequest{method: "DELETE", target: "/v1/progress-notes/3", header: authorized},
		rawRequest{method: "ODD", target: "/user", header: authorized},
		rawRequest{method: "GET", target: "/user", header: authorized + "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n"},
		rawRequest{method: "DELETE", target: "/v1/auth/tokens/1", header: authorized},
		rawRequest{method: "GET", target: "/user", header: authorized},
	)
}

// The proxy returns every response exactly as the service sent it.
func TestProxy_EveryResponse_PassesByteForByte(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"flat", "framework"} {
		v, known := clinicaldoctest.VariantNamed(name)
		require.True(t, known)
		v.MaxUploadSize = 100_000
		srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(v), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
		t.Cleanup(srv.Close)
		for range 5 {
			srv.AddNote(clinicaldoctest.Note{PatientID: 1})
		}
		service, err := url.Parse(srv.URL)
		require.NoError(t, err)
		between := startRelay(t, service.Host)
		c := launch(t, "-upstream", "http://"+between.Addr().String()+service.Path)
		requests := manyRequests(srv.Token)
		require.Greater(t, len(requests), 200)
		for i, req := range requests {
			label := fmt.Sprintf("%s %d: %s %s", name, i, req.method, req.target)
			came := c.raw(req)
			sent := readFinal(t, bufio.NewReader(bytes.NewReader(between.take())), req.method, func() {})
			require.Equal(t, sent, came, label)
			asked := srv.Requests()
			require.Len(t, asked, i+1, label)
			_, query, _ := strings.Cut(req.target, "?")
			direct, _ := url.ParseQuery(query)
			assert.Equal(t, direct, asked[i].Query, label)
		}
		c.interrupt()
		assert.Contains(t, c.stdout.String(), strconv.Itoa(len(requests))+" requests; ")
	}
}

// If the service refuses a request before it has the body, the client gets the refusal before it sends the body.
func TestProxy_EarlyRefusal_ComesBeforeTheBody(t *testing.T) {
	t.Parallel()
	c := stub(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, "POST /v1/progress-notes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	refusal := readFinal(t, bufio.NewReader(conn), "POST", func() { t.Error("the body was asked for") })
	assert.Equal(t, "413 Request Entity Too Large", refusal.Status)
}

// A transport closes a request's body that it does not need. That must not wait for bytes which a client sends only when it is asked.
func TestWatch_BodyNotAskedFor_IsNotAwaited(t *testing.T) {
	t.Parallel()
	followed := newTraffic(newRequestLog(io.Discard), newEvents(), &departures{}, nil)
	proxy := httptest.NewServer(followed.watch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.Body.Close())
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})))
	defer proxy.Close()
	refusal := exchangeRaw(t, strings.TrimPrefix(proxy.URL, "http://"), rawRequest{method: "POST", target: "/v1/progress-notes", body: "short", expect: true})
	assert.Equal(t, "413 Request Entity Too Large", refusal.Status)
}

// The rest of a response may come late or never.
func TestProxy_SlowResponse_PassesEachByte(t *testing.T) {
	t.Parallel()
	firstByteSeen := make(chan struct{})
	c := stub(t, func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, http.NewResponseController(w).Flush())
		_, _ = io.WriteString(w, "1")
		assert.NoError(t, http.NewResponseController(w).Flush())
		select {
		case <-firstByteSeen:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "2")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp, err := c.client.Do(c.request(http.MethodGet, "/user", nil).WithContext(ctx))
	require.NoError(t, err)
	defer resp.Body.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	close(firstByteSeen)
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "12", string(first)+string(rest))
}

// A service behind TLS may speak HTTP/2; its responses come as they were all the same.
func TestProxy_HTTP2Service_PassesResponses(t *testing.T) {
	t.Parallel()
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Query", r.Proto+" "+r.URL.RawQuery)
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		_, _ = io.WriteString(w, `{"id":1}`)
	}))
	service.EnableHTTP2 = true
	service.StartTLS()
	t.Cleanup(service.Close)
	upstream, err := url.Parse(service.URL)
	require.NoError(t, err)
	transport := newTransport()
	t.Cleanup(transport.CloseIdleConnections)
	trusting, isTransport := service.Client().Transport.(*http.Transport)
	require.True(t, isTransport)
	transport.TLSClientConfig = trusting.TLSClientConfig.Clone()
	way, err := newWay(upstream, settings{})
	require.NoError(t, err)
	t.Cleanup(way.faults.Close)
	proxy := httptest.NewServer(newTraffic(newRequestLog(io.Discard), newEvents(), &way.departures, nil).watch(way.handler(transport)))
	t.Cleanup(proxy.Close)

	host := strings.TrimPrefix(proxy.URL, "http://")
	got := exchangeRaw(t, host, rawRequest{method: "GET", target: "/user?a=1;2"})
	assert.Equal(t, []string{"HTTP/2.0 a=1;2"}, got.Header["Query"])
	assert.Equal(t, `{"id":1}`, got.Body)
	refused := exchangeRaw(t, host, rawRequest{method: "POST", target: "/v1/progress-notes", body: strings.Repeat("x", 100_000), expect: true})
	assert.Equal(t, "413 Request Entity Too Large", refused.Status)
}

// A header that the service did not send is not made up.
func TestProxy_ResponseHeaders_AreUnchanged(t *testing.T) {
	t.Parallel()
	c := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Two: b\r\nX-Two: a\r\n\r\n<html>")
			_ = conn.Close()
		}
	})
	got := c.raw(rawRequest{method: "GET", target: "/user"})
	assert.Equal(t, http.Header{"Content-Length": {"6"}, "X-Two": {"b", "a"}}, got.Header)
	assert.Equal(t, "<html>", got.Body)
}

// A client that asks for compressed responses gets them as they are.
func TestProxy_Compression_IsLeftAlone(t *testing.T) {
	t.Parallel()
	encodings := make(chan []string, 1)
	c := stub(t, func(w http.ResponseWriter, r *http.Request) {
		encodings <- slices.Clone(r.Header["Accept-Encoding"])
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "packed")
	})
	got := c.raw(rawRequest{method: "GET", target: "/user", header: "Accept-Encoding: br\r\n"})
	assert.Equal(t, []string{"br"}, <-encodings)
	assert.Equal(t, []string{"br"}, got.Header["Content-Encoding"])
	c.raw(rawRequest{method: "GET", target: "/user"})
	assert.Empty(t, <-encodings, "none was asked for")
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "compressed in a way that is not checked")
}
