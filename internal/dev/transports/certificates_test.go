package transports

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// newTransport returns a transport with a client certificate and an authority in addition to those
// of the system. It reads certificate and key for each new connection, so they can be renewed
// without a restart.
func newTransport(certFile, keyFile, caFile string) (*http.Transport, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool() // storage may have another authority
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("the authority's file contains no certificate")
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return nil, err // before the first request
	}
	show := func(wanted *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		own, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, err
		}
		if known := wanted.SupportsCertificate(&own) == nil; !known {
			return new(tls.Certificate), nil // another server asks: show none
		}
		return &own, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, GetClientCertificate: show}
	return transport, nil
}

// docs/certificates.md links to newTransport.
func TestNewTransport_IsLinkedFromThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/certificates.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "`newTransport`")
	assert.Contains(t, string(page), "](../internal/dev/transports/certificates_test.go)")
}

// authority signs certificates for the machines of a synthetic hospital.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	folder      string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{folder: t.TempDir()}
	a.certificate, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate and its files, NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<60))
	require.NoError(t, err)
	template.Subject = pkix.Name{CommonName: "synthetic " + name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.path(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(a.path(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	made, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return made, key
}

func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

// machine makes the certificate of a machine that asks.
func (a *authority) machine(t *testing.T, name string) {
	t.Helper()
	a.sign(t, name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// gateway stands before a box and wants a certificate of the authority.
func (a *authority) gateway(t *testing.T, srv *clinicaldoctest.Server) string {
	t.Helper()
	a.sign(t, "gateway", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	own, err := tls.LoadX509KeyPair(a.path("gateway.pem"), a.path("gateway.key"))
	require.NoError(t, err)
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	gateway := httptest.NewUnstartedServer(srv.Handler())
	gateway.Config.ErrorLog = log.New(io.Discard, "", 0)
	gateway.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	gateway.StartTLS()
	t.Cleanup(gateway.Close)
	return gateway.URL
}

func TestClientCertificate_UnknownOrRemoved_IsRefused(t *testing.T) {
	t.Parallel()
	hospital, stranger := newAuthority(t), newAuthority(t)
	hospital.machine(t, "ward")
	stranger.machine(t, "ward")
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	address := hospital.gateway(t, srv)

	transport, err := newTransport(hospital.path("ward.pem"), hospital.path("ward.key"), hospital.path("ca.pem"))
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	visit(t, through(t, transport, address, srv.Token), 100)

	// A renewed certificate is taken by the next connection, a removed one by none.
	hospital.machine(t, "ward")
	transport.CloseIdleConnections()
	_, err = through(t, transport, address, srv.Token).Users.Me(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Remove(hospital.path("ward.key")))
	transport.CloseIdleConnections()
	_, err = through(t, transport, address, srv.Token).Users.Me(t.Context())
	require.Error(t, err)
	_, err = newTransport(hospital.path("ward.pem"), hospital.path("ward.key"), hospital.path("ca.pem"))
	require.Error(t, err)

	// Whoever the gateway does not know gets nothing. Over TLS 1.3 the refusal may come when the upload has left.
	transport, err = newTransport(stranger.path("ward.pem"), stranger.path("ward.key"), hospital.path("ca.pem"))
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	_, err = through(t, transport, address, srv.Token).Notes.Create(t.Context(), recording(100))
	require.Error(t, err)
	assert.Len(t, srv.Notes(), 1, "that of the visit")
}

// fipsChild says that the test runs in a mode of its own.
const fipsChild = "CLINICALDOC_TEST_FIPS"

func TestFIPS_EveryMode_Works(t *testing.T) {
	t.Parallel()
	if os.Getenv(fipsChild) != "" {
		worksInFIPSMode(t)
		return
	}
	for _, mode := range []string{"on", "only"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), "GODEBUG=fips140="+mode, fipsChild+"="+mode)
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s: %s", mode, out)
	}
}

// worksInFIPSMode does what a program does, over TLS: a note's life, a download, an upload with a journal.
func worksInFIPSMode(t *testing.T) {
	t.Helper()
	require.True(t, fips140.Enabled())
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithTLS())
	t.Cleanup(srv.Close)
	client := srv.Client()
	id := visit(t, client, 2<<20)
	path := filepath.Join(t.TempDir(), "visit.wav")
	size, err := client.Notes.DownloadAudioFile(t.Context(), id, path, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.EqualValues(t, 2<<20, size)

	owner, err := ingest.OwnerOf(t.Context(), client)
	require.NoError(t, err)
	journal, err := ingest.BeginJournal(t.Context(), filepath.Join(t.TempDir(), "journal"), owner)
	require.NoError(t, err)
	uploader := &ingest.Uploader{Client: client, Journal: journal}
	params := func(string) clinicaldoc.CreateNoteParams {
		return clinicaldoc.CreateNoteParams{Name: "synthetic", PatientID: 8, PromptID: 1}
	}
	report := uploader.RunAll(t.Context(), ingest.Files([]string{path}, params))
	require.NoError(t, report.Err)
	assert.Equal(t, 1, report.Count(ingest.Complete))
	require.NoError(t, journal.Close())
}
