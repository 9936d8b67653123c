package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// doctorSays runs the checks and returns the report and the exit code.
func doctorSays(t *testing.T, srv *clinicaldoctest.Server, env ...string) (string, int) {
	t.Helper()
	said, code := newCLI(t, srv, env...).run("doctor")
	assert.NotContains(t, said, srv.Token)
	return said, code
}

func TestDoctor_OtherBasePath_IsFound(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{BasePath: "/api"}))
	said, code := doctorSays(t, srv, "CLINICALDOC_BASE_URL="+strings.TrimSuffix(srv.URL, "/api"))
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^bad +base-path `, said)
	assert.Contains(t, said, "do: clinicaldoc login "+srv.URL+" (and unset CLINICALDOC_BASE_URL and CLINICALDOC_TOKEN")
	assert.Regexp(t, `(?m)^skipped +token +needs base-path`, said, "what cannot be told is not called bad")
	for _, r := range srv.Requests() {
		assert.False(t, r.Authorized && r.Path == "/api/user", "the token goes to the base URL that it belongs to alone")
	}
}

func TestDoctor_UntrustedCertificate_IsBad(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithTLS())
	said, code := doctorSays(t, srv)
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^good +tcp `, said)
	assert.Regexp(t, `(?m)^bad +tls +the certificate is not trusted`, said)
	assert.Regexp(t, `(?m)^skipped +base-path +needs tls`, said)
	assert.Regexp(t, `(?m)^skipped +token +needs base-path`, said, "a token that was not sent is not accepted")
	assert.Empty(t, srv.Requests())

	assert.Contains(t, said, "do: check the clock, the host, and whether this system trusts the certificate's authority")
	trusted := filepath.Join(t.TempDir(), "authority.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(block), 0o600))
	said, code = doctorSays(t, srv, "SSL_CERT_FILE="+trusted)
	assert.Equal(t, 0, code, said)
	assert.Regexp(t, `(?m)^good +tls `, said)
}

func TestDoctor_NothingListens_SaysWhatToCheck(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	said, code := doctorSays(t, srv, "CLINICALDOC_BASE_URL=http://127.0.0.1:1")
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^bad +tcp +no connection to 127\.0\.0\.1:1$`, said)
	assert.Contains(t, said, "do: check that the service is running, the port, and firewalls")
	said, code = doctorSays(t, srv) // the right port
	assert.Equal(t, 0, code, said)
	assert.Regexp(t, `(?m)^good +tcp `, said)
}

func TestDoctor_Proxy_IsUsed(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	said, code := doctorSays(t, srv, "CLINICALDOC_BASE_URL=https://service.invalid", "HTTPS_PROXY=http://u:canaryPassword@127.0.0.1:1", "NO_PROXY=", "no_proxy=")
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^good +proxy +through 127\.0\.0\.1:1$`, said)
	assert.Regexp(t, `(?m)^good +dns `, said, "the proxy looks up the service's name")
	assert.Regexp(t, `(?m)^bad +tcp +no connection to 127\.0\.0\.1:1$`, said)
	assert.NotContains(t, said, "canaryPassword")
}

func TestDoctor_ClockIsOff_IsDoubtful(t *testing.T) {
	t.Parallel()
	for offset, want := range map[time.Duration]string{0: "good", 5 * time.Minute: "doubtful"} {
		srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(clinicaldoctest.Variant{ClockOffset: offset}))
		said, code := doctorSays(t, srv)
		srv.Close()
		assert.Equal(t, 0, code, "a doubt is no failure")
		assert.Regexp(t, `(?m)^`+want+` +clock `, said)
	}
}

// If something other than the service responds, doctor says what it is and what to do.
func TestDoctor_SomethingElseResponds_SaysWhat(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for name, one := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"page":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<!doctype html><form>")) }, `bad +base-path +a web page responds below`},
		"login": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, `bad +base-path .* redirects to another page on the same host`},
		"other host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://sso.example/", http.StatusFound)
		}, `bad +base-path .* redirects to another host, sso.example`},
		"missing": {http.NotFound, `bad +base-path +what responds below`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := httptest.NewServer(one.handler)
			defer other.Close()
			said, code := doctorSays(t, srv, "CLINICALDOC_BASE_URL="+other.URL)
			assert.Equal(t, 1, code)
			assert.Regexp(t, `(?m)^`+one.want, said)
		})
	}
	said, _ := doctorSays(t, srv, "CLINICALDOC_BASE_URL=https"+srv.URL[4:])
	assert.Regexp(t, `(?m)^bad +tls +the server does not speak TLS\n +do: check the port; for a service on this machine, use http:// instead of https://`, said)
	said, _ = doctorSays(t, srv, "HTTPS_PROXY=::nonsense::", "CLINICALDOC_BASE_URL=https://service.invalid", "NO_PROXY=", "no_proxy=")
	assert.Regexp(t, `(?m)^bad +proxy +the proxy's URL cannot be read\n +do: correct HTTPS_PROXY`, said)
}

func TestDoctor_TLSBehindHTTP_IsFound(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithTLS())
	said, code := doctorSays(t, srv, "CLINICALDOC_BASE_URL=http"+srv.URL[5:])
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^bad +base-path +the server speaks TLS, but`, said)
	assert.Contains(t, said, "do: clinicaldoc login "+srv.URL)
}
