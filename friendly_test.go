package clinicaldoc_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
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

// closedAddress is an address of this machine where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
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
	plain := socketHandler(t, sockStatus(http.StatusOK, friendlyAnswer))
	err := friendlyCall(t, "https"+plain.URL[len("http"):], nil)
	assertFriendly(t, err, "does not speak TLS", "is the base URL's scheme right?")
	secure := secureServer(t, nil)
	err = friendlyCall(t, "http"+secure.URL[len("https"):], nil)
	assertFriendly(t, err, "400 Bad Request", "is the base URL's scheme right?")
}

func TestAnotherServerThanTheServiceIsExplained(t *testing.T) {
	t.Parallel()
	page := socketHandler(t, sockStatus(http.StatusOK, friendlyAnswer, "Content-Type", "text/html; charset=utf-8"))
	err := friendlyCall(t, page.URL, nil)
	assertFriendly(t, err, "200 OK with text/html", "check the base URL", "proxies")
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)

	nothing := socketHandler(t, sockStatus(http.StatusNotFound, friendlyAnswer))
	err = friendlyCall(t, nothing.URL+"/wrong-prefix", nil)
	assertFriendly(t, err, "404 Not Found", "is the base URL's path right?")
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)

	login := socketHandler(t, sockStatus(http.StatusFound, friendlyAnswer, "Location", "https://login.test/?from=CANARY"))
	err = friendlyCall(t, login.URL, nil)
	assertFriendly(t, err, "302 Found", "check the base URL")

	ssh := newRawServer(t, func(c *rawConn) { c.head(); c.send("SSH-2.0-CANARY\r\n") })
	err = friendlyCall(t, ssh.URL, nil)
	assertFriendly(t, err, "is not HTTP", "are the address and its port right?")
}

func TestAnExpiredTokenIsExplained(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, sockStatus(http.StatusUnauthorized, `{"message":"`+friendlyAnswer+`"}`))
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
		proxy := socketHandler(t, sockStatus(status, friendlyAnswer, "Content-Type", "text/html"))
		err = friendlyCall(t, "https://service.test", through(proxy.Listener.Addr().String()))
		assertFriendly(t, err, "the proxy in between", advice.tunnel)
		err = friendlyCall(t, "http://service.test", through(proxy.Listener.Addr().String()), clinicaldoc.WithInsecureHTTP())
		assertFriendly(t, err, advice.plain)
	}
}

func TestAProxysOwnWordsAreNotRepeated(t *testing.T) {
	t.Parallel()
	proxy := newRawServer(t, func(c *rawConn) { c.head(); c.send("HTTP/1.1 403 password-CANARY\r\nContent-Length: 0\r\n\r\n") })
	err := friendlyCall(t, "https://service.test", through(proxy.URL[len("http://"):]))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "CANARY")
}
