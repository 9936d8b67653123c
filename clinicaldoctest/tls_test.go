package clinicaldoctest_test

import (
	"bytes"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestTLS_BothOrigins_SpeakHTTP2(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithTLS())
	c.create(validForm())
	for _, a := range []answer{c.get("/user"), c.as("").get(c.audioURL())} {
		assert.Equal(t, "https", a.Request.URL.Scheme)
		assert.Equal(t, 2, a.ProtoMajor)
		assert.Equal(t, http.StatusOK, a.StatusCode)
	}
	me, err := c.srv.Client().Users.Me(t.Context())
	require.NoError(t, err, "the ready client knows the certificate")
	assert.Equal(t, int64(1), me.ID)

	roots := x509.NewCertPool()
	roots.AddCert(c.srv.Certificate())
	_, err = c.srv.Certificate().Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"})
	require.NoError(t, err)
	stranger, err := clinicaldoc.NewClient(c.srv.URL, c.srv.Token)
	require.NoError(t, err)
	_, err = stranger.Users.Me(t.Context(), clinicaldoc.WithoutRetry())
	require.Error(t, err, "nobody else does")
}

func TestTLS_OtherHost_IsInTheCertificate(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"box.test", "192.0.2.7", ""} {
		certificate := start(t, clinicaldoctest.WithTLS(), clinicaldoctest.WithHost(host)).srv.Certificate()
		for _, name := range []string{host, "localhost", "127.0.0.1", "::1"} {
			if name != "" {
				require.NoError(t, certificate.VerifyHostname(name), "host %q", host)
			}
		}
		require.Error(t, certificate.VerifyHostname("elsewhere.test"), "host %q", host)
	}
}

func TestTLS_InProcess_IsRejected(t *testing.T) {
	t.Parallel()
	assert.Contains(t, start(t, clinicaldoctest.WithTLS()).srv.URL, "https://127.0.0.1:")
	assert.Nil(t, start(t).srv.Certificate())
	_, err := clinicaldoctest.Start(clinicaldoctest.WithTLS(), clinicaldoctest.InProcess())
	require.ErrorContains(t, err, "clinicaldoctest: WithTLS cannot be combined with InProcess")
}

func TestFault_OverHTTP2_Strikes(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"reset": clinicaldoctest.ResetAfterCommit(), "truncate": clinicaldoctest.Truncate(3), "504": clinicaldoctest.Answer(504, "").CommitAfter(0),
	} {
		c := start(t, clinicaldoctest.WithTLS())
		c.srv.Inject(clinicaldoctest.RouteCreateNote, fault)
		a, err := c.try(c.createRequest(validForm()))
		assert.True(t, err != nil || a.StatusCode == http.StatusGatewayTimeout, name)
		require.NoError(t, c.srv.CreatedOnce(validForm().file), name)
	}
}

// A client that goes away is nothing that a test's output should tell.
//
//nolint:paralleltest // it looks at the process's log
func TestTLS_FailedHandshake_IsNotLogged(t *testing.T) {
	var lines bytes.Buffer
	log.SetOutput(&lines)
	defer log.SetOutput(os.Stderr)
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithTLS())
	for range 10 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(srv.URL, "https://"))
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	srv.Close()
	assert.Empty(t, lines.String())
}
