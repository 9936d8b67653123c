package clinicaldoc_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// The failures a newcomer meets first. Each text must say what to do, and none may hold a secret.

const (
	friendlyToken  = "token-CANARY"
	friendlyAnswer = "<html><p>answer-CANARY</p></html>"
)

// assertFriendly holds an error against the words that tell a newcomer what to do.
func assertFriendly(t *testing.T, err error, advice ...string) {
	t.Helper()
	require.Error(t, err)
	for _, words := range advice {
		assert.Contains(t, err.Error(), words)
	}
	assert.NotContains(t, err.Error(), "CANARY", "a secret, or the service's words")
	assert.NotContains(t, err.Error(), "error of type", "no cause")
}

func TestAMissingVariableIsNamed(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "")
	t.Setenv(clinicaldoc.EnvToken, "")
	_, err := clinicaldoc.NewClientFromEnv()
	assertFriendly(t, err, "CLINICALDOC_BASE_URL", "is empty", "such as https://")
	t.Setenv(clinicaldoc.EnvBaseURL, "https://service.test")
	_, err = clinicaldoc.NewClientFromEnv()
	assertFriendly(t, err, "CLINICALDOC_TOKEN", "is empty", "want an access token")
	t.Setenv(clinicaldoc.EnvToken, friendlyToken+"\n")
	_, err = clinicaldoc.NewClientFromEnv()
	assertFriendly(t, err, "CLINICALDOC_TOKEN", "a line break", "copied")
	t.Setenv(clinicaldoc.EnvToken, friendlyToken)
	_, err = clinicaldoc.NewClientFromEnv()
	require.NoError(t, err)
}

func TestAnUnusableBaseURLIsExplained(t *testing.T) {
	t.Parallel()
	for baseURL, advice := range map[string]string{
		"":                                 "want the service's address, such as https://",
		"service.test":                     "want the service's address, such as https://",
		"localhost:8790":                   "want the service's address, such as https://",
		"127.0.0.1:8790":                   "want the service's address, such as https://",
		"https:service.test":               "want the service's address, such as https://",
		"ftp://service.test":               "want https",
		"http://service.test":              "use https, or WithInsecureHTTP",
		"https://user:CANARY@service.test": "the token is given separately",
		"https://service.test?key=CANARY":  "want an address only",
	} {
		_, err := clinicaldoc.NewClient(baseURL, friendlyToken)
		assertFriendly(t, err, "baseURL", advice)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
}

// friendlyCall asks for the user with a transport of the test's own, once.
func friendlyCall(t *testing.T, baseURL string, adapt func(*http.Transport), opts ...clinicaldoc.Option) error {
	t.Helper()
	tr := socketTransport(t)
	if adapt != nil {
		adapt(tr)
	}
	opts = append(opts, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}), once)
	client, err := clinicaldoc.NewClient(baseURL, friendlyToken, opts...)
	require.NoError(t, err)
	_, err = client.Users.Me(socketContext(t))
	return err
}

func TestAnUnreachableServerIsExplained(t *testing.T) {
	t.Parallel()
	address := closedAddress(t)
	for _, scheme := range []string{"http://", "https://"} {
		err := friendlyCall(t, scheme+address, nil)
		assertFriendly(t, err, address, "is the server running there, and the address right?")
		var op *net.OpError
		require.ErrorAs(t, err, &op)
	}
}

// secureServer is a TLS server whose certificate nobody here has signed.
func secureServer(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = config
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of what is meant to fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func TestACertificateThatCannotBeVerifiedIsExplained(t *testing.T) {
	t.Parallel()
	srv := secureServer(t, nil)
	trusting := func(name string) func(*http.Transport) {
		return func(tr *http.Transport) {
			tr.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name}
			if name != "" {
				tr.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
			}
		}
	}
	err := friendlyCall(t, srv.URL, trusting(""))
	assertFriendly(t, err, "the server's certificate is signed by an authority unknown here", "WithHTTPClient")
	err = friendlyCall(t, srv.URL, trusting("other.test"))
	assertFriendly(t, err, "the server's certificate is for another host name", "check the address")
	err = friendlyCall(t, srv.URL, trusting("example.com")) // which the certificate names
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound, "the way that the text advises")

	demanding := secureServer(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	err = friendlyCall(t, demanding.URL, trusting("example.com"))
	assertFriendly(t, err, "tls: certificate required", "WithHTTPClient")
}

func TestTheWrongSchemeIsExplained(t *testing.T) {
	t.Parallel()
	plain := socketHandler(t, socketStatus(http.StatusOK, friendlyAnswer))
	err := friendlyCall(t, "https"+plain.URL[len("http"):], nil)
	assertFriendly(t, err, "does not speak TLS", "is the base URL's scheme right?")
	secure := secureServer(t, nil)
	err = friendlyCall(t, "http"+secure.URL[len("https"):], nil)
	assertFriendly(t, err, "400 Bad Request", "is the base URL's scheme right?")
}

func TestAnotherServerThanTheServiceIsExplained(t *testing.T) {
	t.Parallel()
	page := socketHandler(t, socketStatus(http.StatusOK, friendlyAnswer, "Content-Type", "text/html; charset=utf-8"))
	err := friendlyCall(t, page.URL, nil)
	assertFriendly(t, err, "is a web page (200 OK with text/html), as of a login", "check the base URL", "proxies")
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)

	nothing := socketHandler(t, socketStatus(http.StatusNotFound, friendlyAnswer))
	err = friendlyCall(t, nothing.URL+"/wrong-prefix", nil)
	assertFriendly(t, err, "404 Not Found", "is the base URL's path right?")
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)

	login := socketHandler(t, socketStatus(http.StatusFound, friendlyAnswer, "Location", "https://login.test/?from=CANARY"))
	err = friendlyCall(t, login.URL, nil)
	assertFriendly(t, err, "302 Found", "check the base URL")

	ssh := newRawServer(t, func(c *rawConn) { c.head(); c.send("SSH-2.0-CANARY\r\n") })
	err = friendlyCall(t, ssh.URL, nil)
	assertFriendly(t, err, "is not HTTP", "are the address and its port right?")
}

func TestARedirectThatIsNotFollowedIsExplained(t *testing.T) {
	t.Parallel()
	const circle, rule = "redirects in a circle, or too often", "redirects are followed only for GET and on the base URL's own origin"
	for name, tt := range map[string]struct {
		method, location string
		body             any
		words, without   string
	}{
		"circle":         {http.MethodGet, "/v1/CANARY", nil, circle, rule},
		"circle, HEAD":   {http.MethodHead, testBase + "/v1/CANARY", nil, circle, rule},
		"another origin": {http.MethodGet, "https://CANARY.test/", nil, rule, circle},
		"with a name":    {http.MethodGet, "https://CANARY@api.clinic.test/", nil, rule, circle},
		"no address":     {http.MethodGet, "", nil, rule, circle},
		"with a body":    {http.MethodGet, "/v1/CANARY", "text", rule, circle},
		"PUT":            {http.MethodPut, "/v1/CANARY", nil, rule, circle},
	} {
		client := clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {tt.location}}, Body: http.NoBody, Request: r}, nil
		})})
		err := client.Do(t.Context(), tt.method, "/v1/teams", tt.body, nil)
		assertFriendly(t, err, tt.words)
		assert.NotContains(t, err.Error(), tt.without, name)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	}
}

func TestABaseURLWithTheVersionIsExplained(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, socketStatus(http.StatusNotFound, `{"message":"CANARY"}`))
	for _, path := range []string{"/v1", "/v1/", "/api/v1"} {
		assertFriendly(t, friendlyCall(t, srv.URL+path, nil), "404 Not Found", "the base URL ends in /v1, which is added to it; leave it out")
	}
	for _, path := range []string{"", "/api", "/v1/api", "/xv1"} {
		assert.NotContains(t, friendlyCall(t, srv.URL+path, nil).Error(), "/v1,")
	}
}

func TestATokenWithItsSchemeIsExplained(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"Bearer " + friendlyToken, "bearer " + friendlyToken, "Bearer ", "Bearer"} {
		_, err := clinicaldoc.NewClient("https://service.test", token)
		assertFriendly(t, err, "token", `begins with "Bearer", which is added to it; give the token alone`)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	_, err := clinicaldoc.NewClient("https://service.test", "Bearer-like"+friendlyToken)
	require.NoError(t, err)
}

// A page that a firewall or a portal puts in the way is not explained by the token, the record or the service.
func TestAPageInTheWayIsExplained(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		page := socketHandler(t, socketStatus(status, friendlyAnswer, "Content-Type", "text/html; charset=utf-8"))
		err := friendlyCall(t, page.URL, nil)
		assertFriendly(t, err, "this is a web page, as of a firewall, a proxy or another server", "check the base URL")
		for _, misleading := range []string{"get a new one", "the token's user", "no record was named"} {
			assert.NotContains(t, err.Error(), misleading)
		}
		plain := socketHandler(t, socketStatus(status, `{"message":"CANARY"}`))
		assert.NotContains(t, friendlyCall(t, plain.URL, nil).Error(), "web page")
	}
	portal := socketHandler(t, socketStatus(http.StatusNetworkAuthenticationRequired, friendlyAnswer, "Content-Type", "text/html"))
	err := friendlyCall(t, portal.URL, nil)
	assertFriendly(t, err, "511 Network Authentication Required", "not the service but the network responds", "login")
	assert.NotContains(t, err.Error(), "trying later")
}

func TestACutUploadIsExplained(t *testing.T) {
	t.Parallel()
	for cause, refused := range map[error]bool{syscall.ECONNRESET: true, syscall.EPIPE: true, net.ErrClosed: false, io.ErrUnexpectedEOF: false} {
		_, err := refusing(t, &net.OpError{Op: "write", Net: "tcp", Err: cause}).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit"})
		assertFriendly(t, err, "the connection ended within the upload", "write tcp: ", cause.Error())
		if refused {
			assertFriendly(t, err, "the server refuses it (size, token)")
		} else {
			assert.NotContains(t, err.Error(), "size, token", "nothing says so")
		}
	}
}

func TestStoragesRefusalIsExplained(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		storage := socketHandler(t, socketStatus(status, friendlyAnswer))
		client := clientOn(t, &http.Client{Transport: storageAt(storage.URL)}, clinicaldoc.WithInsecureHTTP())
		_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, clinicaldoc.DownloadParams{})
		assertFriendly(t, err, "the recording's temporary address", "expired")
		answered, ok := errors.AsType[*clinicaldoc.Error](err)
		require.True(t, ok)
		assertFriendly(t, answered, "the recording's temporary address", "expired")
		assert.NotContains(t, answered.Error(), "token", "storage gets none")
	}
}

func TestAnExpiredTokenIsExplained(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, socketStatus(http.StatusUnauthorized, `{"message":"`+friendlyAnswer+`"}`))
	err := friendlyCall(t, srv.URL, nil)
	assertFriendly(t, err, "401 Unauthorized", "expired", "get a new one")
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
}

// through sends all requests through a proxy with a password.
func through(address string) func(*http.Transport) {
	return func(tr *http.Transport) {
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: address, User: url.UserPassword("user", "password-CANARY")})
	}
}

func TestAProxyInBetweenIsExplained(t *testing.T) {
	t.Parallel()
	err := friendlyCall(t, "https://service.test", through(closedAddress(t)))
	assertFriendly(t, err, "the proxy in between", "HTTPS_PROXY", "is the server running there")

	for status, advice := range map[int]struct{ tunnel, plain string }{
		http.StatusProxyAuthRequired:  {"wants credentials (407 Proxy Authentication Required); put them into the proxy's URL", "put them into the proxy's URL"},
		http.StatusForbidden:          {"refused the connection (403 Forbidden); does it let this host through", "403 Forbidden"},
		http.StatusBadGateway:         {"refused the connection (502 Bad Gateway); does it let this host through, and reach it?", "the service, or a proxy before it, failed"},
		http.StatusServiceUnavailable: {"refused the connection (503 Service Unavailable)", "the service, or a proxy before it, failed"},
	} {
		proxy := socketHandler(t, socketStatus(status, friendlyAnswer, "Content-Type", "text/html"))
		err = friendlyCall(t, "https://service.test", through(proxy.Listener.Addr().String()))
		assertFriendly(t, err, "the proxy in between", advice.tunnel)
		err = friendlyCall(t, "http://service.test", through(proxy.Listener.Addr().String()), clinicaldoc.WithInsecureHTTP())
		assertFriendly(t, err, advice.plain)
	}
}

func TestAProxysOwnWordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	proxy := newRawServer(t, func(c *rawConn) { c.head(); c.send("HTTP/1.1 403 password-CANARY\r\nContent-Length: 0\r\n\r\n") })
	err := friendlyCall(t, "https://service.test", through(proxy.URL[len("http://"):]))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "CANARY")
}

// rawHTTP2 is a server that takes one stream and then ends it with the given frames.
func rawHTTP2(t *testing.T, frames ...[]byte) (address string, over *http.Transport) {
	t.Helper()
	srv := newRawServer(t, func(c *rawConn) {
		_, _ = io.ReadFull(c.in, make([]byte, 24)) // the preface
		_, _ = c.Write(http2Frame(4, 0, nil))      // SETTINGS
		for kind := byte(0); kind != 1; {          // HEADERS
			head := make([]byte, 9)
			if _, err := io.ReadFull(c.in, head); err != nil {
				return
			}
			kind = head[3]
			_, _ = io.CopyN(io.Discard, c.in, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		}
		for _, frame := range frames {
			_, _ = c.Write(frame)
		}
		if half, ok := c.Conn.(*net.TCPConn); ok { // a close of both ways would overtake the frames
			_ = half.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, c.in)
	})
	tr := socketTransport(t)
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	return srv.URL, tr
}

func http2Frame(kind byte, stream uint32, payload []byte) []byte {
	frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, 0}
	return append(binary.BigEndian.AppendUint32(frame, stream), payload...)
}

func goAway(lastStream, code uint32, debug string) []byte {
	payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, lastStream), code)
	return http2Frame(7, 0, append(payload, debug...))
}

func TestTheEndsOfHTTP2AreExplained(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		frames [][]byte
		words  string
	}{
		"calmed":   {[][]byte{goAway(1, 11, "debug-CANARY")}, "closed the connection (HTTP/2 GOAWAY): ENHANCE_YOUR_CALM"},
		"graceful": {[][]byte{goAway(0, 0, "debug-CANARY")}, "closed the connection in good order, as for a restart (HTTP/2 GOAWAY)"},
		"reset":    {[][]byte{http2Frame(3, 1, []byte{0, 0, 0, 2})}, "ended the request (HTTP/2 stream error): INTERNAL_ERROR"},
		"garbage":  {[][]byte{[]byte("HTTP/1.1 400 words-CANARY\r\n\r\n")}, "the connection failed (HTTP/2)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, tr := rawHTTP2(t, tt.frames...)
			client, err := clinicaldoc.NewClient(address, friendlyToken, clinicaldoc.WithHTTPClient(&http.Client{Transport: tr}), once)
			require.NoError(t, err)
			_, err = client.Notes.Create(socketContext(t), clinicaldoc.CreateNoteParams{Name: "CANARY"})
			assertFriendly(t, err, tt.words)
			for _, member := range chain(err) {
				assertSilent(t, fmt.Sprintf("%v %+v %#v", member, member, member), name)
			}
		})
	}
}

const proxyChild = "CLINICALDOC_TEST_PROXY_CHILD"

// The environment's proxy is read once for a process, so that the test needs one of its own.
func TestTheOwnTransportTellsAProxysStatus(t *testing.T) {
	t.Parallel()
	if os.Getenv(proxyChild) != "" {
		client, err := clinicaldoc.NewClient("https://service.test", friendlyToken, once)
		require.NoError(t, err)
		_, err = client.Users.Me(socketContext(t))
		assertFriendly(t, err, "the proxy in between refused the connection (500 Internal Server Error); does it let this host through, and reach it?")
		return
	}
	proxy := newRawServer(t, func(c *rawConn) {
		c.head()
		c.send("HTTP/1.0 500 Unable to connect CANARY\r\nContent-Length: 0\r\n\r\n")
	})
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	child.Env = append(os.Environ(), proxyChild+"=1", "HTTPS_PROXY="+proxy.URL, "https_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
}

func TestErrorTextsHoldNoWordsOfTheService(t *testing.T) {
	t.Parallel()
	for _, status := range []int{302, 400, 401, 403, 404, 409, 413, 422, 429, 500} {
		answered := answeredWith(t, call{
			status:   status,
			response: `{"message":"secret","errors":{"name":["secret"],"patient_id":["secret"],"secret of Jane":["x"],"` + strings.Repeat("secret", 20) + `":["x"]}}`,
			answerHeader: map[string]string{
				"X-Request-Id": "req-5", "Retry-After": "7", "Location": "https://evil.test/secret", "Content-Type": "secret", "Www-Authenticate": "secret",
			},
		})
		for _, text := range []string{answered.Error(), answered.SafeText(), fmt.Sprintf("%v %+v %#v %s %q %d %x", answered, answered, answered, answered, answered, answered, answered)} {
			assert.NotContains(t, text, "secret")
			assert.Contains(t, text, "[fields: name, patient_id]")
			assert.Contains(t, text, "(request id req-5)")
			assert.Contains(t, text, "(retry after 7s)")
			assert.Contains(t, text, "GET /v1/progress-notes/{id}")
		}
		assert.Equal(t, "secret", answered.Message)
		assert.Equal(t, []string{"secret"}, answered.Fields["name"])
	}
}

func TestErrorTextsAdvise(t *testing.T) {
	t.Parallel()
	for status, advice := range map[int]string{
		302: "check the base URL", 304: "is a cache in between?", 401: "token", 403: "may not", 404: "does not exist", 409: "state", 413: "size", 422: "Fields",
		429: "WithLimiter", 503: "trying later may help", 511: "the network responds: it wants a login first",
	} {
		assert.Contains(t, (&clinicaldoc.Error{StatusCode: status, Method: http.MethodGet}).Error(), advice)
	}
	assert.NotContains(t, (&clinicaldoc.Error{StatusCode: 304}).Error(), "redirect")
	assert.NotContains(t, (&clinicaldoc.Error{StatusCode: 511}).Error(), "later")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "REPORT", ""} {
		text := (&clinicaldoc.Error{StatusCode: 502, Method: method}).Error()
		assert.Contains(t, text, "the service, or a proxy before it, failed")
		assert.NotContains(t, text, "later", "it may have been carried out")
	}
	assert.Equal(t, "clinicaldoc: Notes.Get (GET /x): 418 I'm a teapot", (&clinicaldoc.Error{StatusCode: 418, Operation: "Notes.Get", Method: "GET", Route: "/x"}).Error())
	assert.Equal(t, "clinicaldoc: Notes.Get (GET /x): 499", (&clinicaldoc.Error{StatusCode: 499, Operation: "Notes.Get", Method: "GET", Route: "/x"}).Error())
}

func TestOnlyKnownMediaTypesAreNamed(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]string{
		"application/json; charset=utf-8": "200 OK with application/json,",
		"application/json ; x=y":          "200 OK with application/json,",
		"Text/Plain":                      "200 OK with text/plain,",
		"text/xml;x=" + canary:            "200 OK with text/xml,",
		"application/" + canary:           "200 OK with no content type that is known,",
		canary + "/" + canary:             "200 OK with no content type that is known,",
		"":                                "200 OK with no content type that is known,",
		"text/html; charset=" + canary:    "is a web page (200 OK with text/html)",
		"application/xhtml+xml":           "is a web page (200 OK with text/html)",
	} {
		_, err := serve(t, call{url: "/user", response: "x", answerHeader: map[string]string{"Content-Type": contentType}}).Users.Me(t.Context())
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Contains(t, err.Error(), want, contentType)
		assert.NotContains(t, err.Error(), canary)
	}
}

// A redirect of storage's is no sign of an expired URL.
func TestARedirectOfStorageIsExplained(t *testing.T) {
	t.Parallel()
	storage := socketHandler(t, socketStatus(http.StatusFound, ""))
	client := clientOn(t, &http.Client{Transport: storageAt(storage.URL)}, clinicaldoc.WithInsecureHTTP())
	_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, clinicaldoc.DownloadParams{})
	refused, ok := errors.AsType[*clinicaldoc.Error](err)
	require.True(t, ok)
	assert.Contains(t, refused.Error(), "redirects are followed only")
	assert.NotContains(t, refused.Error(), "expired")
}
